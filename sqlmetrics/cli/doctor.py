"""`sqlmetrics doctor`: whether a database gives the numbers that it should."""

from __future__ import annotations

import sys

import click

from sqlmetrics.cli.common import error_options
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import Command, option


@click.command(cls=Command)
@place_options
@option(
    "--case",
    "words",
    multiple=True,
    metavar="NAME",
    help="Case to run: its name or a part of it. May be repeated.",
)
@option("--list-cases", is_flag=True, help="Print only the names of the cases.")
@error_options
def doctor(location: Location, words: tuple[str, ...], *, list_cases: bool) -> None:
    """Test a database: compute every metric and option on difficult data.

    The data go into a schema that doctor creates and drops. Every number is compared with the
    plain-Python reference; the exit code is 1 if one differs.

    \b
    sqlmetrics doctor --target prod --case "preset trec_eval"
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.proof.doctor.cases import chosen, names
    from sqlmetrics.proof.doctor.examine import examine

    if list_cases:
        click.echo("\n".join(chosen(words) if words else names()))
        return
    cases = chosen(words)
    with location.using() as engine:
        report = examine(
            engine,
            only=cases.__contains__ if words else None,
            on_progress=_tell if sys.stderr.isatty() else str,
        )
    if sys.stderr.isatty():
        _tell("")
    click.echo(report)
    if report.failures or not report.findings:
        sys.exit(1)


def _tell(case: str) -> None:
    """The case that runs, on a line that the next one overwrites."""
    click.echo(f"\r\033[K{case}", nl=False, err=True)
