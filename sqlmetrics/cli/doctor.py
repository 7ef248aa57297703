"""`sqlmetrics doctor`: whether a database gives the numbers that it should."""

from __future__ import annotations

import sys

import click

from sqlmetrics.cli.common import connection_options, error_options


@click.command()
@connection_options
@click.option(
    "--case",
    "words",
    multiple=True,
    metavar="NAME",
    help="Only this case, or all whose names have this in them.",
)
@click.option("--list-cases", is_flag=True, help="Print the names of the cases instead.")
@error_options
def doctor(
    connection: str | None, profiles: str | None, words: tuple[str, ...], *, list_cases: bool
) -> None:
    """Examine the database of --connection: hard data, every metric and option.

    Makes a schema of its own and drops it again. Every number is compared with the
    reference; the exit code is 1 if any differs.

    \b
    sqlmetrics doctor --connection postgresql://ann@db/sales --case "preset trec_eval"
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.doctor.cases import chosen, names
    from sqlmetrics.doctor.doctor import examine
    from sqlmetrics.engines.translated import database

    if list_cases:
        click.echo("\n".join(chosen(words) if words else names()))
        return
    known = chosen(words)
    with database(connection, profiles=profiles) as engine:
        report = examine(
            engine,
            only=known.__contains__ if words else None,
            told=_tell if sys.stderr.isatty() else str,
        )
    if sys.stderr.isatty():
        _tell("")
    click.echo(report)
    if report.failures or not report.findings:
        sys.exit(1)


def _tell(case: str) -> None:
    """The case that runs, on a line that the next one overwrites."""
    click.echo(f"\r\033[K{case}", nl=False, err=True)
