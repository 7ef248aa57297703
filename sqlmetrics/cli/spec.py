"""Commands that take a spec file."""

from __future__ import annotations

import sys

import click

from sqlmetrics.cli import completion
from sqlmetrics.cli.common import connection_options, engine_of, error_options, many

db_option = click.option(
    "--db", metavar="FILE", help="The DuckDB file that holds the spec's relations."
)


@click.command("compile")
@click.argument("spec", type=click.Path())
@click.option(
    "--dialect",
    default="duckdb",
    show_default=True,
    shell_complete=completion.dialects,
    help="list dialects",
)
@click.option("--per-query", is_flag=True, help="The per-query table instead of the summary.")
@click.option(
    "--plan",
    metavar="NAME",
    help="How lists are ranked: window, lists, counts; fastest looks at the first rows.",
)
@click.option(
    "--job",
    metavar="FOLDER",
    help="Write a whole job there: .sql files for the database's own client, with start and "
    "end as its parameters, and a manifest.",
)
@db_option
@error_options
def compile_spec(
    *,
    spec: str,
    dialect: str,
    per_query: bool,
    plan: str | None,
    job: str | None,
    db: str | None,
) -> None:
    """Print the SQL of SPEC, a YAML file. No table is opened.

    Of files that are there it looks at the header line of CSV, and whether a path is a folder.

    With --plan fastest the tables are opened too, and a comment says which plan evaluate
    would take, why, and what was measured.
    """
    from sqlmetrics.api import compile
    from sqlmetrics.spec import Spec

    connection = engine_of(db, None, None) if db else None
    the_spec = Spec.read(spec)
    if job is not None:
        from sqlmetrics.jobs.files import write_job

        for path in write_job(the_spec, dialect, job):
            click.echo(f"wrote {path}", err=True)
        return
    text = compile(the_spec, dialect, per_query=per_query, plan=plan, connection=connection)
    click.echo(text, nl=False)


@click.command()
@click.argument("spec", type=click.Path())
@db_option
@connection_options
@error_options
def validate(spec: str, db: str | None, connection: str | None, profiles: str | None) -> None:
    """Tell whether SPEC fits its tables: relations, columns, types. Nothing is computed."""
    from sqlmetrics.checks import validate as check_spec
    from sqlmetrics.clicks.run import ready
    from sqlmetrics.engines.translated import database
    from sqlmetrics.inputs.opened import opened
    from sqlmetrics.plan import plan
    from sqlmetrics.spec import Spec

    the_spec = Spec.read(spec)
    with (
        database(engine_of(db, connection, profiles)) as engine,
        ready(the_spec, engine, dry=True),
    ):
        if the_spec.metrics:
            check_spec(plan(the_spec, opened(the_spec, engine)), engine)
    count = len(the_spec.measures) + len(the_spec.online)
    click.echo(f"{spec} fits its tables: {many(count, 'metric')}", err=True)


@click.command()
@click.argument("spec", type=click.Path())
@db_option
@connection_options
@click.option("--tolerance", default=1e-9, show_default=True, help="Of |a - b| / max(1, |b|).")
@error_options
def verify(
    spec: str,
    db: str | None,
    connection: str | None,
    profiles: str | None,
    tolerance: float,
) -> None:
    """Compare the SQL of SPEC with the plain-Python reference, on its own data.

    All queries up to 10,000, else a sample of 10,000 that is always the same. The exit
    code is 1 if any number differs by more than the tolerance.
    """
    from sqlmetrics.clicks.run import ready
    from sqlmetrics.engines.translated import database
    from sqlmetrics.grid import aligned
    from sqlmetrics.spec import Spec
    from sqlmetrics.verify import sampled
    from sqlmetrics.verify import verify as compare

    the_spec = Spec.read(spec)
    with database(engine_of(db, connection, profiles)) as engine, ready(the_spec, engine):
        part, queries = sampled(the_spec, engine)
        _, agreements = compare(part, engine)
    rows = [
        [str(one.measure), f"{one.compared:,}", f"{one.largest:.1e}", one.where or "-"]
        for one in agreements
    ]
    click.echo(aligned(["metric", "compared", "largest difference", "where"], rows))
    click.echo(f"{many(queries, 'query', 'queries')} compared with the reference", err=True)
    if any(not one.largest <= tolerance for one in agreements):
        sys.exit(1)
