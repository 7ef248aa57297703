"""What the commands share: the option for tracebacks, and how a result is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def emit(result: Result, per_query: bool, output: str, out: str | None) -> None:
    """Write a result in one of FORMATS."""
    table = result.per_query() if per_query else result.summary()
    if output == "parquet" and out is None:
        raise SpecError("parquet is binary: say where to write it with --out FILE")
    if output == "parquet":
        import pyarrow.parquet as pq

        writing(str(out), lambda: pq.write_table(table, out))
        return
    text = _text(result, table, per_query, output)
    if out is None:
        click.echo(text)
    else:
        writing(out, lambda: Path(out).write_text(text + "\n", encoding="utf-8"))


def _text(result: Result, table: pa.Table, per_query: bool, output: str) -> str:
    from sqlmetrics import report

    if output in ("json", "csv"):
        return report.json_lines(table) if output == "json" else report.csv(table).rstrip("\n")
    style: Mapping[str, Callable[..., str]] = {"table": report.text, "markdown": report.markdown}
    return style[output](result, per_query=per_query)


def writing(path: str, write: Callable[[], object]) -> None:
    """Write, and tell in one sentence if that fails."""
    try:
        write()
    except OSError as error:
        raise SpecError(f"cannot write {path!r}: {error.strerror}") from None
