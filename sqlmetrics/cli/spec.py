"""Commands that take a spec file."""

from __future__ import annotations

import sys

import click

from sqlmetrics.cli.common import (
    error_options,
    overwrite_option,
    overwrites,
    progress_bar,
    say,
)
from sqlmetrics.cli.evaluation_options import dialect_option
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import EXECUTION, OUTPUT, Command, option
from sqlmetrics.cli.options.parameters import INPUT
from sqlmetrics.errors import SpecError, SqlmetricsError
from sqlmetrics.tables.table import many


@click.command("compile", cls=Command)
@click.argument("spec", type=INPUT)
@dialect_option("that of profiles.yml, else duckdb")
@option("--per-query", is_flag=True, help="Print the SQL of the per-query table.")
@option(
    "--plan",
    metavar="NAME",
    help="Ranking plan: window, lists or counts; fastest chooses by the first rows.",
    heading=EXECUTION,
)
@option(
    "--job",
    metavar="FOLDER",
    help="Folder for a job: SQL files with parameters for start and end, and a manifest.",
    heading=OUTPUT,
)
@overwrite_option
@place_options
@error_options
def compile_spec(
    *,
    spec: str,
    dialect: str | None,
    per_query: bool,
    plan: str | None,
    job: str | None,
    location: Location,
) -> None:
    """Print the SQL of SPEC without opening a table.

    Files are not read, except the header line of a CSV. With --plan fastest, the tables are
    opened, and a comment in the SQL gives the plan that evaluate would take and the measurements
    behind it.
    """
    from sqlmetrics.api import FASTEST, compile
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    dialect = dialect or location.dialect
    if job is not None:
        from sqlmetrics.jobs.files import write_job

        for path in write_job(the_spec, dialect, job, overwrite=overwrites()):
            say(f"wrote {path}")
        return
    connection = location.reading(the_spec) if plan == FASTEST else None
    text = compile(the_spec, dialect, per_query=per_query, plan=plan, connection=connection)
    click.echo(text, nl=False)


@click.command(cls=Command)
@click.argument("specs", type=INPUT, nargs=-1, required=True, metavar="SPEC...")
@option("--offline", is_flag=True, help="Check the specs alone, without a table or database.")
@place_options
@error_options
def validate(specs: tuple[str, ...], location: Location, *, offline: bool) -> None:
    """Check that SPEC fits its tables: relations, columns, types, named values.

    No metric is computed. If the spec names a value that no row has (an action, a baseline, the
    segment of a check), the existing values are listed. With several specs, and with --offline, as
    in a pre-commit hook, all specs are read before the command fails.
    """
    from sqlmetrics import api
    from sqlmetrics.spec.spec import Spec

    if offline and location.is_given:
        raise click.UsageError("--offline opens no database: leave out where it is")
    problems = []
    for file in specs:
        try:
            spec = Spec.read(file)
            if offline:
                api.compile(spec)
            else:
                for note in api.validate(spec, location.beside(file).reading(spec)):
                    say(f"note: {note}")
        except SqlmetricsError as error:
            if len(specs) == 1:
                raise
            problems.append(f"{file}: {error}")
            continue
        count = len(spec.measures) + len(spec.online)
        fits = "is well" if offline else "fits its tables"
        say(f"{file} {fits}: {many(count, 'metric')}")
    if problems:
        raise SpecError(problems)


@click.command(cls=Command)
@click.argument("spec", type=INPUT)
@place_options
@option(
    "--tolerance",
    default=1e-9,
    show_default=True,
    help="Largest |a - b| / max(1, |b|) that passes.",
)
@error_options
def verify(
    spec: str,
    location: Location,
    tolerance: float,
) -> None:
    """Compare the SQL of SPEC with the plain-Python reference, on the spec's own data.

    All queries are compared, or a fixed sample of 10,000 if there are more. The exit code is 1 if
    a number differs by more than --tolerance.
    """
    from sqlmetrics.clicks.evaluate import ready
    from sqlmetrics.proof.verify import sampled
    from sqlmetrics.proof.verify import verify as compare
    from sqlmetrics.spec.spec import Spec
    from sqlmetrics.tables.table import Table

    the_spec = Spec.read(spec)
    with (
        progress_bar("SQL beside plain Python"),
        location.reading(the_spec) as engine,
        ready(the_spec, engine),
    ):
        part, queries = sampled(the_spec, engine)
        _, agreements = compare(part, engine)
    rows = [
        [
            str(agreement.measure),
            f"{agreement.compared:,}",
            f"{agreement.largest:.1e}",
            agreement.where or "-",
        ]
        for agreement in agreements
    ]
    click.echo(Table(["metric", "compared", "largest difference", "where"], rows).text())
    differing = [
        str(agreement.measure) for agreement in agreements if not agreement.largest <= tolerance
    ]
    finding = (
        f"{len(differing)} of {len(agreements)} metrics differ"
        if differing
        else "no number differs"
    )
    names = f": {', '.join(differing)}" if differing else ""
    compared = f"{many(queries, 'query', 'queries')} compared with the reference"
    say(f"{compared}: {finding} by more than {tolerance:g}{names}")
    if differing:
        sys.exit(1)
