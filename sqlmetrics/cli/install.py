"""`sqlmetrics install`: the metrics as functions of a DuckDB file."""

from __future__ import annotations

import click

from sqlmetrics.cli.common import error_options


@click.command()
@click.argument("file")
@click.option("--print", "printed", is_flag=True, help="Print the SQL instead.")
@error_options
def install(file: str, *, printed: bool) -> None:
    """Make table macros of the metrics in FILE, a DuckDB database.

    Any client can then use them without Python: they take the names of two tables with the
    columns query_id, item_id and score, or grade.

    \b
    sqlmetrics install metrics.duckdb
    duckdb metrics.duckdb "from ndcg('rankings', 'labels', 10)"
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics import macros
    from sqlmetrics.engines.duckdb import DuckDB, open_database

    if printed:
        click.echo(macros.text(), nl=False)
        return
    made = macros.install(DuckDB(open_database(file, writing=True), own=True))
    for macro in made:
        click.echo(macro.usage)
    click.echo(f"{len(made)} macros in {file}", err=True)
