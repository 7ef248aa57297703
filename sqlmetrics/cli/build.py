"""`sqlmetrics build`: run a spec, then check what it wrote."""

from __future__ import annotations

import click

from sqlmetrics.cli.check import check
from sqlmetrics.cli.common import error_options
from sqlmetrics.cli.location import PLACES
from sqlmetrics.cli.run import run

_OF_RUN = ("start", "end", "full_refresh", "backfill", "lookback", "skip_input_checks", "publish")


@click.command(short_help="Run SPEC, then check what it wrote.")
@click.argument("spec", type=click.Path())
@click.pass_context
@error_options
def build(context: click.Context, **_: object) -> None:
    """Run SPEC and check what it wrote; exit with 1 if a check fails, not if one warns.

    Options are those of run, and --junit and --github of check.

    \b
    sqlmetrics build search.yml --db shop.duckdb --backfill --junit checks.xml
    """  # noqa: D301 (click wants the backspace itself)
    given = context.params
    shared = {name: given[name] for name in ("spec", *PLACES)}
    context.invoke(run, **shared, **{name: given[name] for name in _OF_RUN})
    context.invoke(check, **shared, junit=given["junit"], github=given["github"])


def _option(command: click.Command, name: str) -> click.Parameter:
    return next(one for one in command.params if one.name == name)


build.params[1:1] = [
    *(_option(run, name) for name in (*_OF_RUN, *PLACES)),
    *(_option(check, name) for name in ("junit", "github")),
]
