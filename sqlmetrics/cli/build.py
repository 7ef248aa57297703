"""`sqlmetrics check` and `build`: what a run wrote, against the checks of its spec."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli.common import error_options, is_quiet, overwrite_option, overwrites, say, say_of
from sqlmetrics.cli.location import PLACES, Location, place_options
from sqlmetrics.cli.options import INPUT, OUTPUT, Command, format_option, option
from sqlmetrics.cli.output import write
from sqlmetrics.cli.recipients import RECIPIENTS, Alert, Recipients, alerting
from sqlmetrics.cli.run import Choice, carry_out, run_command
from sqlmetrics.engines.output_files import check_output
from sqlmetrics.errors import NoDataError
from sqlmetrics.tables.table import many

if TYPE_CHECKING:
    from datetime import date

    from sqlmetrics.engines.database import Database
    from sqlmetrics.jobs.checks.verdict import Verdict
    from sqlmetrics.spec.spec import Spec


# `sqlmetrics check`: whether the numbers of a fact table are as they must be.


@click.command(cls=Command)
@click.argument("spec", type=INPUT)
@option("--date", "day", metavar="DATE", help="Day to check.  [default: the last day of the table]")
@option("--start", metavar="DATE", help="First of several days to check.")
@option("--end", metavar="DATE", help="Day after the last day to check.")
@place_options
@option("--junit", metavar="FILE", help="File for the results as JUnit XML.", heading=OUTPUT)
@overwrite_option
@option(
    "--github",
    is_flag=True,
    help="Print the results as annotations for GitHub Actions.",
    heading=OUTPUT,
)
@option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Print the checks that hold when several days are checked.",
    heading=OUTPUT,
)
@format_option(("table", "json"))
@alerting
@error_options
def check_command(
    *,
    alert: Alert,
    spec: str,
    day: str | None,
    start: str | None,
    end: str | None,
    location: Location,
    junit: str | None,
    github: bool,
    verbose: bool,
    output: str,
) -> None:
    """Check the fact table of SPEC against its checks; exit with 1 if one fails.

    A failed check with severity: warn is reported and does not change the exit code. With --quiet,
    only failed checks are printed. The exit code is 4 if the table has none of the days yet.

    \b
    sqlmetrics check search.yml --db shop.duckdb --junit checks.xml
    sqlmetrics check search.yml --target prod --start "-7 days"
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.checks.verdict import verdicts
    from sqlmetrics.jobs.days import days_looked_at
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    alert.spec = the_spec.title
    say_of(the_spec.title)
    check_junit(junit, the_spec)
    days = days_looked_at(the_spec, day, start, end, option="--")
    verdicts_found = alert.verdicts = verdicts(the_spec, location.reading(is_needed=True), days)
    as_json = output == "json"
    if as_json:
        click.echo(json.dumps([verdict.to_dict() for verdict in verdicts_found], indent=2))
    annotated = spec if github else None
    tell(
        verdicts_found, the_spec, junit=junit, annotated=annotated, is_told=as_json, verbose=verbose
    )


def check_junit(junit: str | None, spec: Spec) -> None:
    """Refuse a file that JUnit's XML of a spec may not replace, before anything is done."""
    from sqlmetrics.jobs.checks import report

    if junit is not None:
        check_output(junit, report.junit((), spec.title).encode(), overwrite=overwrites())


def tell(
    verdicts: Sequence[Verdict],
    spec: Spec,
    *,
    junit: str | None = None,
    annotated: str | None = None,
    is_told: bool = False,
    verbose: bool = False,
) -> None:
    """Print verdicts, and leave with the exit code that they mean.

    Args:
        verdicts: What was found.
        spec: Whose they are.
        junit: The file of JUnit XML.
        annotated: The spec's file, for GitHub's annotations; None for none.
        is_told: Whether they stand on stdout already, as JSON.
        verbose: Whether each of several days is told where it holds.
    """
    from sqlmetrics.jobs.checks import report
    from sqlmetrics.tables.table import has_colors

    n_days = len(_days(verdicts))
    is_dated = len({verdict.day for verdict in verdicts if verdict.day}) > 1
    is_long = n_days > 1 and not verbose
    # cron mails what is printed
    printed_verdicts = [
        verdict for verdict in verdicts if not (verdict.holds and (is_quiet() or is_long))
    ]
    holding = len(verdicts) - len(printed_verdicts)
    if printed_verdicts and not is_told:
        click.echo(report.table(printed_verdicts, styled=has_colors(), is_dated=is_dated))
        if failures := report.failures(printed_verdicts):
            click.echo(f"\n{failures}")
    if holding and is_long and not (is_told or is_quiet()):
        checks = many(holding, "check")
        click.echo(f"ok: {checks} of {n_days:,} days; -v prints each")
    if annotated is not None:
        click.echo(report.github(verdicts, annotated), nl=False)
    if junit is not None:
        write(report.junit(verdicts, spec.title), junit)
    _leave(verdicts)


def _days(verdicts: Sequence[Verdict]) -> list[date]:
    """The days that were checked; of an age alone the last day of the table."""
    checked = {verdict.day for verdict in verdicts if verdict.day and not verdict.is_of_age}
    return sorted(checked or {verdict.day for verdict in verdicts if verdict.day})


def _leave(verdicts: Sequence[Verdict]) -> None:
    """The last line: how many checks hold; then the exit code: 1 if one fails, 4 without a day."""
    checks = [verdict for verdict in verdicts if not verdict.is_pause]
    counts = Counter(verdict.status for verdict in checks)
    n_warnings = sum(verdict.status == "warn" for verdict in verdicts)
    days = _days(verdicts)
    on = f" on {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "") if days else ""
    warned = f"; {many(n_warnings, 'warning')}" if n_warnings else ""
    say(f"{counts['ok']:,} of {len(checks):,} checks hold{on}{warned}", "checks")
    if verdicts and all(verdict.is_of_gap for verdict in verdicts):
        sys.exit(NoDataError.exit_code)
    if counts["FAILED"]:
        sys.exit(1)


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
def build_command(*, alert: Alert, **options: Any) -> None:
    """Run SPEC and check what it wrote; exit with 1 if a check fails.

    build takes the options of run, and --junit and --github of check. It checks every day that an
    option selects, else the last day. A check with severity: warn does not fail.

    \b
    sqlmetrics build search.yml --db shop.duckdb --backfill --junit checks.xml
    sqlmetrics build search.yml --target prod --start yesterday --end today
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.checks.verdict import check_thresholds, verdicts
    from sqlmetrics.jobs.summary import Summary
    from sqlmetrics.spec.spec import Spec

    spec = Spec.read(options["spec"])
    check_thresholds(spec)
    location = alert.location
    choice = Choice.of(spec, options["spec"], options)
    recipients = Recipients(*(options[name] for name in RECIPIENTS))
    check_junit(options["junit"], spec)
    summary = alert.summary = Summary(spec, choice.days)
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


build_command.params[1:1] = [
    *(_option(run_command, name) for name in (*_OF_RUN, *PLACES, *RECIPIENTS)),
    *(_option(check_command, name) for name in ("overwrite", "junit", "github", "verbose")),
]
