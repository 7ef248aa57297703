"""`sqlmetrics doctor`: whether a database gives the numbers that it should."""

from __future__ import annotations

import sys

import click

from sqlmetrics.cli.common import error_options
from sqlmetrics.cli.location import Location, place_options


@click.command()
@place_options
@click.option("--case", "words", multiple=True, metavar="TEXT", help="Only cases named like this.")
@error_options
def doctor(location: Location, words: tuple[str, ...]) -> None:
    """Examine a database: hard data, every metric and option.

    Makes a schema of its own and drops it again. Every number is compared with the
    reference; the exit code is 1 if any differs.
    """
    from sqlmetrics.doctor.doctor import examine

    def wanted(name: str) -> bool:
        return not words or any(word in name for word in words)

    with location.using() as engine:
        report = examine(engine, only=wanted, told=_tell if sys.stderr.isatty() else str)
    if sys.stderr.isatty():
        _tell("")
    click.echo(report)
    if report.failures or not report.findings:
        sys.exit(1)


def _tell(case: str) -> None:
    """The case that runs, on a line that the next one overwrites."""
    click.echo(f"\r\033[K{case}", nl=False, err=True)
