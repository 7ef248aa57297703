"""`sqlmetrics build`: run a spec, then check what it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli.check import check, check_junit, tell
from sqlmetrics.cli.common import error_options, say_of
from sqlmetrics.cli.location import PLACES
from sqlmetrics.cli.options.command import Command
from sqlmetrics.cli.options.parameters import INPUT
from sqlmetrics.cli.recipients import RECIPIENTS, Alert, Recipients, alerting
from sqlmetrics.cli.run import Choice, carry_out, run

if TYPE_CHECKING:
    from sqlmetrics.engines.database import Database

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


@click.command(cls=Command)
@click.argument("spec", type=INPUT)
@alerting
@error_options
def build(*, alert: Alert, **options: Any) -> None:
    """Run SPEC and check what it wrote; exit with 1 if a check fails.

    build takes the options of run, and --junit and --github of check. It checks every day that an
    option selects, else the last day. A check with severity: warn does not fail.

    \b
    sqlmetrics build search.yml --db shop.duckdb --backfill --junit checks.xml
    sqlmetrics build search.yml --target prod --start yesterday --end today
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.checks.verdict import check_asked, verdicts
    from sqlmetrics.jobs.summary import Summary
    from sqlmetrics.spec.spec import Spec

    spec = Spec.read(options["spec"])
    check_asked(spec)
    location = alert.location
    choice = Choice.of(spec, options["spec"], options)
    recipients = Recipients(*(options[name] for name in RECIPIENTS))
    check_junit(options["junit"], spec)
    summary = alert.told = Summary(spec, choice.days)
    say_of(spec.title)
    to = choice.destination(spec, options["publish"])

    def check_written(engine: Database) -> None:
        reports = summary.reports if choice.is_of_some else []
        days = [run_report.days for run_report in reports if run_report.days]
        checked = verdicts(spec, engine, days, gaps=False)
        summary.verdicts = alert.verdicts = checked
        summary.exit_code = int(any(verdict.status == "FAILED" for verdict in checked))

    with recipients.hear_of(summary, location):
        carry_out(choice, to, location, summary, check_written)
    as_json = recipients.output == "json"
    annotated = options["spec"] if options["github"] else None
    tell(
        summary.verdicts or (),
        spec,
        junit=options["junit"],
        annotated=annotated,
        is_told=as_json,
        verbose=options["verbose"],
    )


def _option(command: click.Command, name: str) -> click.Parameter:
    return next(parameter for parameter in command.params if parameter.name == name)


build.params[1:1] = [
    *(_option(run, name) for name in (*_OF_RUN, *PLACES, *RECIPIENTS)),
    *(_option(check, name) for name in ("overwrite", "junit", "github", "verbose")),
]
