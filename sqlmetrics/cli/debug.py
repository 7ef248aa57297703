"""`sqlmetrics debug`: whether a database can be reached, and what may be done there."""

from __future__ import annotations

import time

import click

from sqlmetrics.cli.common import error_options
from sqlmetrics.cli.location import Location, place_options


@click.command()
@place_options
@error_options
def debug(*, location: Location) -> None:
    """Test a connection: which database answers, and whether it takes temporary tables.

    Without an option it is the target of profiles.yml.

    \b
    sqlmetrics debug --target prod
    sqlmetrics debug --connection postgresql://ann@host/sales
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.engines.temporary import Step
    from sqlmetrics.errors import EngineError
    from sqlmetrics.evaluation.report.table import aligned

    began = time.monotonic()
    with location.reading(needed=True) as engine:
        engine.rows("select 1 as one")
        dialect = engine.translation.dialect
        try:
            with Step(engine.free_name("sqlmetrics_debug"), "select 1 as one").there(engine):
                temporary = "yes"
        except EngineError as error:
            temporary = f"no; each query is computed anew ({error})"
        if not dialect.keep:
            temporary = "no; each query is computed anew"
        rows = [
            ["database", f"{engine.name} {engine.version}"],
            ["dialect", dialect.name],
            ["answers", f"after {time.monotonic() - began:.2f} seconds"],
            ["temporary tables", temporary],
            *([["memory", engine.driver.work_memory]] if engine.driver.work_memory else []),
            ["run can write", "yes, with the rights to" if dialect.writing.by_run else "no"],
        ]
    click.echo(aligned(["connection", "ok"], rows))
