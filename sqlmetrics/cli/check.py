"""`sqlmetrics check`: whether the numbers of a fact table are as they must be."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from sqlmetrics.cli.common import (
    error_options,
    is_quiet,
    overwrite_option,
    overwrites,
    say,
    say_of,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import OUTPUT, Command, option
from sqlmetrics.cli.options.parameters import INPUT, format_option
from sqlmetrics.cli.output import write
from sqlmetrics.cli.recipients import Alert, alerting
from sqlmetrics.engines.output_files import check_output
from sqlmetrics.errors import NoDataError
from sqlmetrics.tables.table import many

if TYPE_CHECKING:
    from sqlmetrics.jobs.checks.verdict import Verdict
    from sqlmetrics.spec.spec import Spec


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
def check(
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

    n_days = len({verdict.day for verdict in verdicts if verdict.day})
    is_long = n_days > 1 and not verbose
    # cron mails what is printed
    printed_verdicts = [
        verdict for verdict in verdicts if not (verdict.holds and (is_quiet() or is_long))
    ]
    holding = len(verdicts) - len(printed_verdicts)
    if printed_verdicts and not is_told:
        click.echo(report.table(printed_verdicts, styled=has_colors(), is_dated=n_days > 1))
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


def _leave(verdicts: Sequence[Verdict]) -> None:
    """The last line: how many checks hold; then the exit code: 1 if one fails, 4 without a day."""
    checks = [verdict for verdict in verdicts if not verdict.is_pause]
    counts = Counter(verdict.status for verdict in checks)
    n_warnings = sum(verdict.status == "warn" for verdict in verdicts)
    days = sorted({str(verdict.day) for verdict in verdicts if verdict.day})
    on = f" on {days[0]}" + (f" to {days[-1]}" if len(days) > 1 else "") if days else ""
    warned = f"; {many(n_warnings, 'warning')}" if n_warnings else ""
    say(f"{counts['ok']:,} of {len(checks):,} checks hold{on}{warned}", "checks")
    if verdicts and all(verdict.is_of_gap for verdict in verdicts):
        sys.exit(NoDataError.exit_code)
    if counts["FAILED"]:
        sys.exit(1)
