"""`sqlmetrics build`: run a spec, then check what it wrote."""

from __future__ import annotations

from typing import Any

import click

from sqlmetrics.cli.check import check, check_junit, tell
from sqlmetrics.cli.common import INPUT, error_options, say_of
from sqlmetrics.cli.location import PLACES
from sqlmetrics.cli.recipients import RECIPIENTS, Alert, Recipients, alerting
from sqlmetrics.cli.run import Choice, carry_out, run

_OF_RUN = (
    *(
        "start",
        "end",
        "full_refresh",
        "allow_loss",
        "adopt",
        "backfill",
        "recompute",
        "lookback",
        "batch_days",
        "note",
        "skip_input_checks",
        "check_share",
    ),
    "publish",
)


@click.command()
@click.argument("spec", type=INPUT)
@alerting
@error_options
def build(*, alert: Alert, **given: Any) -> None:
    """Run SPEC and check what it wrote; exit with 1 if a check fails, not if one warns.

    Options are those of run, and --junit and --github of check. Each day that was chosen by an
    option is checked, else the last one.

    \b
    sqlmetrics build search.yml --db shop.duckdb --backfill --junit checks.xml
    sqlmetrics build search.yml --target prod --start yesterday --end today
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.checks.verdict import check_asked, verdicts
    from sqlmetrics.jobs.summary import Summary
    from sqlmetrics.spec.spec import Spec

    spec = Spec.read(given["spec"])
    check_asked(spec)
    location = alert.location
    choice = Choice.of(spec, given["spec"], given)
    recipients = Recipients(*(given[name] for name in RECIPIENTS))
    check_junit(given["junit"], spec)
    told = alert.told = Summary(spec, choice.days)
    say_of(spec.title)
    to = choice.destination(spec, given["publish"])
    with recipients.hear_of(told, location):
        carry_out(choice, to, location, told)
        written = [one.days for one in told.reports if one.days] if choice.is_of_some else []
        told.verdicts = verdicts(spec, location.reading(needed=True), written, gaps=False)
        alert.verdicts = told.verdicts
        told.exit_code = int(any(one.status == "FAILED" for one in told.verdicts))
    as_json = recipients.output == "json"
    annotated = given["spec"] if given["github"] else None
    tell(
        told.verdicts,
        spec,
        junit=given["junit"],
        annotated=annotated,
        is_told=as_json,
        verbose=given["verbose"],
    )


def _option(command: click.Command, name: str) -> click.Parameter:
    return next(one for one in command.params if one.name == name)


build.params[1:1] = [
    *(_option(run, name) for name in (*_OF_RUN, *PLACES, *RECIPIENTS)),
    *(_option(check, name) for name in ("overwrite", "junit", "github", "verbose")),
]
