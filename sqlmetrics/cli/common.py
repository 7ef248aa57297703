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

    from sqlmetrics.engines.engine import Engine
    from sqlmetrics.engines.translated import Database
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


def connection_options(command: Callable[..., None]) -> Callable[..., None]:
    """`--connection` and `--profiles`: a database of any kind."""
    command = click.option(
        "--profiles",
        type=click.Path(),
        metavar="FILE",
        help="Where outputs are named: profiles.yml.",
    )(command)
    return click.option(
        "--connection",
        metavar="URL|NAME",
        help="A database: postgresql://user@host/database, or an output of profiles.yml.",
    )(command)


def engine_of(db: str | None, connection: str | None, profiles: str | None) -> Engine:
    """The database of --db, to be read, or of --connection; a new DuckDB without either.

    Raises:
        SpecError: If both are given.
    """
    if connection is None:
        from sqlmetrics.engines.duckdb import DuckDB, open_database

        return DuckDB(open_database(db), own=True)
    if db is not None:
        raise SpecError("give --db or --connection, not both")
    from sqlmetrics.engines.opening import open_engine

    return open_engine(connection, profiles=Path(profiles) if profiles else None)


def target_engine(
    db: str | None,
    connection: str | None,
    target: str | None,
    profiles: str | None,
    *,
    read_only: bool = False,
) -> Database:
    """The database of --db, --connection or --target, or of the profiles' own target.

    Raises:
        SpecError: If none is given, or several are.
    """
    from sqlmetrics.engines.duckdb import DuckDB, open_database
    from sqlmetrics.engines.profiles import FILE
    from sqlmetrics.engines.translated import database

    given = [one for one in (db, connection, target) if one is not None]
    if len(given) > 1:
        raise SpecError("give one of --db, --connection and --target")
    if db is not None:
        return DuckDB(open_database(db, writing=not read_only), own=True)
    file = Path(profiles) if profiles else Path(FILE)
    if connection is not None:
        return database(connection, profiles=profiles)
    if target is not None or file.exists():
        return database(target, profiles=file)
    raise SpecError(f"say where: --db FILE, --connection URL, or --target of a {FILE}")


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

    for note in result.notes if output not in ("table", "markdown") else ():
        click.echo(f"note: {note}", err=True)
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
