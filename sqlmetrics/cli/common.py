"""What the commands share: the option for tracebacks, the database, the progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlmetrics.errors import SpecError

if TYPE_CHECKING:
    from sqlmetrics.engines.engine import Engine
    from sqlmetrics.engines.translated import Database


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


def many(count: int, noun: str, nouns: str = "") -> str:
    """A count with its noun.

    >>> many(1, "row"), many(1200, "row"), many(2, "stratum", "strata")
    ('1 row', '1,200 rows', '2 strata')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


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
