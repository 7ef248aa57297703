"""`sqlmetrics runs`: what runs of a spec changed."""

from __future__ import annotations

import json

import click

from sqlmetrics.cli.common import error_options, say
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import Command, option
from sqlmetrics.cli.options.parameters import format_option
from sqlmetrics.tables.table import Table


@click.command(cls=Command)
@click.argument("spec", type=click.Path())
@option(
    "--limit",
    "last",
    type=click.IntRange(1),
    default=20,
    metavar="N",
    show_default=True,
    help="Number of runs to list, newest first.",
    old_spellings=("--last",),
)
@place_options
@format_option(("table", "json"))
@error_options
def runs(*, spec: str, last: int, location: Location, output: str) -> None:
    """List the runs of SPEC: who ran them, which days, what changed in the fact table.

    Times are UTC. Changes are counted against the rows that a run replaced, as long as these rows
    are archived.

    \b
    sqlmetrics runs search.yml --db shop.duckdb
    sqlmetrics runs search.yml --target prod --limit 100 -o json
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.history.effects import effects
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    run_effects = effects(the_spec, location.reading(is_needed=True))
    latest_effects = run_effects[:last]
    if output == "json":
        lines = ",\n ".join(
            json.dumps(effect.to_dict(), ensure_ascii=False) for effect in latest_effects
        )
        click.echo(f"[{lines}]")
        return
    rows = [
        [
            effect.run.short,
            f"{effect.run.started:%Y-%m-%d %H:%M}",
            effect.run.user or "-",
            _days(effect.run.start, effect.run.end),
            f"{effect}{f' ({effect.run.note})' if effect.run.note else ''}",
        ]
        for effect in latest_effects
    ]
    click.echo(Table(["run", "began", "user", "days", "what changed"], rows).text())
    if len(run_effects) > len(latest_effects):
        say(f"{len(run_effects) - len(latest_effects):,} older runs: --limit {len(run_effects)}")


def _days(start: object, end: object) -> str:
    """The days of a run in few letters: the first and the last one."""
    from datetime import date, timedelta

    first = str(start or "")
    last = str(end - timedelta(1)) if isinstance(end, date) else ""
    if not first and not last:
        return "all"
    return first if first == last else f"{first} to {last}".strip()
