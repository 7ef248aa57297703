"""`sqlmetrics check`: whether the numbers of a fact table are as they must be."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlmetrics.cli.common import error_options, is_quiet, say
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.engines.files import writing
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.report.table import many

if TYPE_CHECKING:
    from sqlmetrics.jobs.checks.verdict import Verdict


@click.command()
@click.argument("spec", type=click.Path())
@click.option(
    "--date", "day", metavar="DATE", help="The day to check. Default: the last one in the table."
)
@place_options
@click.option("--junit", metavar="FILE", help="Write JUnit XML too.")
@click.option("--github", is_flag=True, help="Print annotations for GitHub's log too.")
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table")
@error_options
def check(
    *,
    spec: str,
    day: str | None,
    location: Location,
    junit: str | None,
    github: bool,
    output: str,
) -> None:
    """Compare the fact table of SPEC with its checks; exit with 1 if one fails.

    A check with severity: warn is told where it does not hold, and does not fail. With --quiet
    only what does not hold is told.

    \b
    sqlmetrics check search.yml --db shop.duckdb --junit checks.xml
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.evaluation.report.table import has_colors
    from sqlmetrics.jobs.checks import report
    from sqlmetrics.jobs.checks.verdict import verdicts
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    found = verdicts(the_spec, location.reading(needed=True), _day(day))
    told = [vars(one) | {"day": str(one.day)} for one in found]
    shown = [one for one in found if not (is_quiet() and one.holds)]  # cron mails what is printed
    if output == "json":
        click.echo(json.dumps(told, indent=2))
    elif shown:
        click.echo(report.table(shown, styled=has_colors()))
    if github:
        click.echo(report.github(found, spec), nl=False)
    if junit is not None:
        text = report.junit(found, the_spec.title)
        with writing(junit):
            Path(junit).write_text(text, encoding="utf-8")
    _tell(found)


def _tell(found: Sequence[Verdict]) -> None:
    """The last line: how many checks hold; an exit code of 1 if one fails."""
    counts = Counter(one.status for one in found)
    days = {str(one.day) for one in found if one.day}
    on = f" on {max(days)}" if days else ""
    warned = f"; {many(counts['warn'], 'warning')}" if counts["warn"] else ""
    say(f"{counts['ok']:,} of {len(found):,} checks hold{on}{warned}")
    if counts["FAILED"]:
        sys.exit(1)


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise SpecError(f"--date is a date like 2026-01-31, given {text!r}") from None
