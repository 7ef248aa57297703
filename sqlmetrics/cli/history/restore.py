"""`sqlmetrics restore`: a run taken back."""

from __future__ import annotations

from pathlib import Path

import click

from sqlmetrics.cli.common import error_options, say
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import Command, option
from sqlmetrics.tables.table import many


@click.command(cls=Command)
@click.argument("spec", type=click.Path())
@click.argument("run")
@option("--note", metavar="TEXT", default="", help="Reason for the run, kept in the run log.")
@place_options
@error_options
def restore(*, spec: str, run: str, note: str, location: Location) -> None:
    """Undo RUN of SPEC: put back the rows that it replaced, all or nothing.

    RUN is the start of a run id that runs prints, or last for the latest run in effect. A restore
    can be undone like a run. Undo later runs of the same days first.

    \b
    sqlmetrics runs search.yml --db shop.duckdb
    sqlmetrics restore search.yml 3f2a91bc --db shop.duckdb --note "wrong labels"
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.history.restore import restore as taken_back
    from sqlmetrics.jobs.provenance import Provenance
    from sqlmetrics.jobs.tables import targets
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    engine = location.changing()
    restoration = taken_back(the_spec, engine, run, provenance=Provenance(note, Path(spec).parent))
    name_by_table = targets(the_spec)
    days = f", {restoration.run.days}" if restoration.run.days else ""
    for sentence in restoration.notes:
        say(f"note: {sentence}")
    for table, rows in restoration.rows.items():
        say(f"{name_by_table[table]}: {many(rows, 'row')} of {the_spec.title}{days}")
    again = (
        f"; restore {restoration.run_id[:8]} makes it stand again"
        if restoration.can_be_undone
        else ""
    )
    say(f"run {restoration.run} is taken back{again}")
