"""`-o` and `--out`: in which format something is written, and where."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlmetrics.cli.common import overwrite_option, overwrites, say
from sqlmetrics.cli.options import OUTPUT, option
from sqlmetrics.engines.output_files import BY_US, IsOurs, check_output, opening, output_file
from sqlmetrics.errors import EngineError, SpecError
from sqlmetrics.tables.table import for_file

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.clicks.result import ClickResult
    from sqlmetrics.evaluation.report.result import Result
    from sqlmetrics.tables.tabular import Tabular

FORMATS = ("table", "json", "csv", "markdown", "html", "parquet")

SUFFIXES = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".md": "markdown",
    ".markdown": "markdown",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tsv": "tsv",
    ".xlsx": "xlsx",
    ".feather": "feather",
    ".html": "html",
    ".tex": "latex",
    ".qrels": "qrels",
    ".run": "run",
    ".trec": "run",
    ".svg": "svg",
    ".png": "png",
}
"""Endings of names that say a format; any other says none."""


def output_options(formats: Sequence[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`-o` and `--out`; the command is told the format that they mean together."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        command = out_option(command)
        return option(
            "-o",
            "--output",
            type=click.Choice(tuple(formats)),
            help="Output format.  [default: from the ending of --out, else table]",
            heading=OUTPUT,
        )(command)

    return decorated


def out_option(command: Callable[..., None]) -> Callable[..., None]:
    """`--out` and `--overwrite`."""
    about = "File to write.  [default: stdout]"
    decorator = option("--out", metavar="FILE", heading=OUTPUT, help=about, callback=_file)
    return decorator(overwrite_option(command))


def _file(_: click.Context, __: click.Parameter, out: str | None) -> str | None:
    """The file that --out names; `-` is stdout, as everywhere in a shell."""
    return None if out == "-" else out


UNPRINTED = ("parquet", "svg", "png")
"""Formats that no terminal shows."""

PER_QUERY = ("system", "query_id")
SUMMARY = ("spec", "metric_date", "system")
"""The first columns of what most commands write."""


def format_of(
    output: str | None, out: str | None, formats: Sequence[str], columns: Sequence[str] = ()
) -> str:
    """The format that is meant: the one asked for, else what the file's name says.

    A file that may not be written over is refused here, before anything is computed.

    Args:
        output: What -o says, if anything.
        out: The file, None for stdout.
        formats: What there is, the usual one first.
        columns: Names that stand among the first three of the rows, if there are such.

    Raises:
        SpecError: If the two contradict, the file's format is none of these, or the file may
            not be written over.
    """
    form = _format(output, out, formats)
    if out is not None:
        if not Path(out).absolute().parent.is_dir():
            raise EngineError(f"cannot write {out!r}: there is no folder {str(Path(out).parent)!r}")
        check_output(out, opening(form, columns), overwrite=overwrites())
    return form


def _format(output: str | None, out: str | None, formats: Sequence[str]) -> str:
    suffix_format = SUFFIXES.get(Path(out).suffix.casefold()) if out is not None else None
    has_lines = suffix_format == "jsonl" and output in (None, "json") and "json" in formats
    if has_lines:
        return "jsonl"
    if output is not None and suffix_format not in (None, output):
        raise SpecError(
            f"-o {output} and --out {out} contradict: leave -o out, or give the file another ending"
        )
    if output is None and suffix_format is not None and suffix_format not in formats:
        format_names = ", ".join(formats)
        raise SpecError(
            f"--out {out}: {suffix_format} is not written here; there is {format_names} (-o)"
        )
    if (unprinted := output or suffix_format) in UNPRINTED and out is None:
        raise SpecError(f"{unprinted} is written to a file: name it with --out FILE")
    return output or suffix_format or formats[0]


def write(text: str, out: str | None, is_ours: IsOurs | None = None) -> None:
    """Write a text to a file as it is, or to stdout.

    Args:
        text: The text.
        out: The file, None for stdout.
        is_ours: How to know a file of ours, which is replaced. Default: it begins alike.
    """
    if out is None:
        click.echo(text, nl=False)
        return
    with output_file(out, overwrite=overwrites(), is_ours=is_ours) as staging:
        staging.write_text(text, encoding="utf-8", newline="")


def text_for(out: str | None, make: Callable[[], str]) -> str:
    """A text as the terminal is wide; for a file it is whole, and the same on every terminal."""
    with for_file() if out is not None else nullcontext():
        return make()


def emit(
    rows: Callable[[], pa.Table],
    texts: Mapping[str, Callable[[], str]],
    output: str,
    out: str | None,
) -> None:
    """Write rows in one of FORMATS.

    Args:
        rows: Gives them, for programs.
        texts: `table`, `markdown` and `html`, for people.
        output: The format, as `format_of` says it.
        out: A file, None for stdout.
    """
    from sqlmetrics.tables import tabular

    if output == "parquet":
        import pyarrow.parquet as pq

        table = rows()
        marked = {**(table.schema.metadata or {}), BY_US: b"rows"}
        with output_file(str(out), overwrite=overwrites()) as staging:
            pq.write_table(table.replace_schema_metadata(marked), staging)
        return
    programs: dict[str, Callable[[], str]] = {
        "json": lambda: tabular.json_lines(rows()),
        "jsonl": lambda: tabular.jsonl(rows()),
        "csv": lambda: tabular.csv_text(rows()).rstrip("\n"),
    }
    text = text_for(out, {**programs, **texts}[output])
    write(f"{text}\n", out)


def emit_table(
    result: Tabular,
    output: str,
    out: str | None,
    texts: Mapping[str, Callable[[], str]] | None = None,
) -> None:
    """Write a result: its main table for programs, all of it for people.

    Args:
        result: What was found.
        output: The format, as `format_of` says it.
        out: A file, None for stdout.
        texts: Formats that are other texts than the result's own.
    """
    texts_of_result: dict[str, Callable[[], str]] = {
        "table": result.text,
        "markdown": result.markdown,
        "html": result.html,
        "latex": getattr(result, "latex", str),
    }
    emit(result.to_arrow, {**texts_of_result, **(texts or {})}, output, out)


def emit_result(result: Result, per_query: bool, output: str, out: str | None) -> None:
    """Write a result: its summary, or its per-query table."""
    from sqlmetrics.evaluation.report.layout import noted

    for note in result.notes if output not in ("table", "markdown", "html") else ():
        say(f"note: {note}")
    texts = {
        "table": lambda: result.text(per_query=per_query, **_look(out)),
        "markdown": lambda: noted(result, per_query=per_query).markdown(),
        "html": lambda: noted(result, per_query=per_query).html(),
    }
    emit(result.per_query if per_query else result.summary, texts, output, out)


def emit_clicks(result: ClickResult, output: str, out: str | None) -> None:
    """Write what a click log says: all of it as text or JSON, else the rows of its metrics."""
    for note in result.all_notes if output not in ("table", "html") else ():
        say(f"note: {note}")
    texts = {
        "table": lambda: result.text(**_look(out)),
        "json": lambda: json.dumps(result.to_dicts(), default=str),
    }
    emit_table(result, output, out, texts)


def _look(out: str | None) -> dict[str, bool]:
    """How wide a text may be, and whether it has colours."""
    from sqlmetrics.tables.table import has_colors

    return {"full_width": out is not None, "styled": out is None and has_colors()}
