"""What the commands share: the option for tracebacks, and how a result is written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlmetrics.errors import SpecError

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.result import Result

FORMATS = ("table", "json", "csv", "markdown", "parquet")


def _remembered(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep how errors are told where the one place that tells them finds it."""
    if value:
        context.find_root().meta[str(parameter.name)] = value


def error_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--debug` and `--errors`, before the command's name or behind it."""
    command = click.option(
        "--errors",
        type=click.Choice(("text", "json")),
        expose_value=False,
        callback=_remembered,
        help="Tell errors as text or, for programs, as JSON.",
    )(command)
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_remembered,
        help="Show the traceback, and the SQL that failed.",
    )(command)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int, int], None] | None]:
    """How much of something is done and how long it will take, on a terminal alone."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rows]}"),
    )
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *times, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, visible=False, rows="")

        def told(done: int, total: int, n_rows: int) -> None:
            many = f"{n_rows:,} rows" if n_rows else ""
            bar.update(task, completed=done, total=total, rows=many, visible=True)

        yield told


def emit(
    table: pa.Table, texts: Mapping[str, Callable[[], str]], output: str, out: str | None
) -> None:
    """Write rows in one of FORMATS.

    Args:
        table: The rows, for programs.
        texts: `table` and `markdown`, for people.
        output: One of FORMATS.
        out: A file, None for stdout.
    """
    from sqlmetrics import report

    if output == "parquet" and out is None:
        raise SpecError("parquet is binary: say where to write it with --out FILE")
    if output == "parquet":
        import pyarrow.parquet as pq

        writing(str(out), lambda: pq.write_table(table, out))
        return
    rows: dict[str, Callable[[], str]] = {
        "json": lambda: report.json_lines(table),
        "csv": lambda: report.csv(table).rstrip("\n"),
    }
    text = {**rows, **texts}[output]()
    if out is None:
        click.echo(text)
    else:
        writing(out, lambda: Path(out).write_text(text + "\n", encoding="utf-8"))


def emit_result(result: Result, per_query: bool, output: str, out: str | None) -> None:
    """Write a result: its summary, or its per-query table."""
    from sqlmetrics import report

    texts = {
        "table": lambda: report.text(result, per_query=per_query),
        "markdown": lambda: report.markdown(result, per_query=per_query),
    }
    emit(result.per_query() if per_query else result.summary(), texts, output, out)


def writing(path: str, write: Callable[[], object]) -> None:
    """Write, and tell in one sentence if that fails."""
    try:
        write()
    except OSError as error:
        raise SpecError(f"cannot write {path!r}: {error.strerror}") from None
