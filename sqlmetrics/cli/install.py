"""`sqlmetrics install`: the metrics as functions of a DuckDB file."""

from __future__ import annotations

import click

from sqlmetrics.cli.common import error_options, say
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import Command, option
from sqlmetrics.errors import SpecError


@click.command(cls=Command)
@click.argument("file", required=False)
@place_options
@option("--sql", "printed", is_flag=True, old_spellings=("--print",), help="Print only the SQL.")
@error_options
def install(file: str | None, *, location: Location, printed: bool) -> None:
    """Create table macros of the metrics in FILE, a DuckDB database, or in --target.

    Any DuckDB client can use the macros without Python. Each takes the names of two tables:
    rankings (query_id, item_id, score) and labels (query_id, item_id, grade).

    \b
    sqlmetrics install metrics.duckdb
    duckdb metrics.duckdb "from ndcg('rankings', 'labels', 10)"
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs import macros

    if printed:
        click.echo(macros.text(), nl=False)
        return
    macros_made = macros.install(_named(file, location).making("install"))
    for macro in macros_made:
        click.echo(macro.usage)
    say(f"{len(macros_made)} macros in {file or 'the database'}")


def _named(file: str | None, location: Location) -> Location:
    """The place that is meant: FILE is --db."""
    if file is not None and location.is_given:
        raise SpecError("give FILE, or --db, --connection or --target")
    return location if file is None else Location(file)
