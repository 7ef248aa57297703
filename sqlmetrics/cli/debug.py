"""`sqlmetrics debug`, `grants` and `doctor`: whether a database is ready, and right."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from sqlmetrics.cli.common import error_options
from sqlmetrics.cli.evaluation_options import dialect_option
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import INPUT, Command, option

if TYPE_CHECKING:
    from sqlmetrics.engines.database import Database

UNASKED = "as far as the role may: sqlmetrics grants SPEC --role NAME prints what it needs"


@click.command(cls=Command)
@click.argument("spec", type=INPUT, required=False)
@place_options
@error_options
def debug_command(*, spec: str | None, location: Location) -> None:
    """Test a connection: server, version, and the rights of the role.

    The default is the target of profiles.yml. With SPEC, debug also tests whether a run can write:
    whether the role may create in the schema, and whether it owns the existing tables and views.

    \b
    sqlmetrics debug --target prod
    sqlmetrics debug search.yml --connection postgresql://ann@host/sales
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.tables.table import Table

    names = _output_relations(spec) if spec else []
    began = time.monotonic()
    with location.reading(is_needed=True) as engine:
        engine.rows("select 1 as answer")
        rows = [
            ["database", f"{engine.name} {engine.version}"],
            ["dialect", engine.translation.dialect.name],
            ["answers", f"after {time.monotonic() - began:.2f} seconds"],
            ["temporary tables", _temporary(engine)],
            *([["memory", engine.driver.work_memory]] if engine.driver.work_memory else []),
            *(["run can write", text] for text in _writing(engine, names)),
        ]
    click.echo(Table(["connection", "ok"], rows).text())


def _output_relations(spec: str) -> list[str]:
    """The tables and views of a spec."""
    from sqlmetrics.jobs.grants import views_of
    from sqlmetrics.jobs.schema import targets
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    return [*targets(the_spec).values(), *views_of(the_spec)]


def _temporary(engine: Database) -> str:
    """Whether there are any; without them a run fails at its first statement that keeps rows."""
    from sqlmetrics.engines.failure import DENIED, StatementError
    from sqlmetrics.engines.temporary import Step
    from sqlmetrics.errors import EngineError

    if not engine.translation.dialect.keep:
        own_tables = "run and click logs keep rows in tables of their own"
        return f"no; {own_tables if engine.driver.KEEPS else 'each query is computed anew'}"
    try:
        with Step(engine.free_name("sqlmetrics_debug"), "select 1 as answer").created_in(engine):
            return "yes"
    except EngineError as error:
        is_denied = isinstance(error, StatementError) and error.reason == DENIED
        without = "run needs them" if is_denied else "each query is computed anew"
        return f"no; {without} ({error})"


def _writing(engine: Database, names: list[str]) -> tuple[str, ...]:
    """Whether a run can write, as the database says it."""
    from sqlmetrics.jobs.schema import names_by_absent_schema

    if not engine.translation.dialect.writing.by_run:
        return ("no",)
    rights = engine.driver.writing_rights(names)
    if not rights and (absent := [*names_by_absent_schema(names, engine)]):
        return (f"no: there is no schema {absent[0]}",)
    return rights or (UNASKED if engine.driver.url and engine.driver.url.host else "yes",)


@click.command(cls=Command)
@click.argument("spec", type=INPUT)
@option("--role", required=True, metavar="NAME", help="Role or user; NAME@HOST on MySQL.")
@option(
    "--kind",
    default="nightly",
    show_default=True,
    metavar="KIND",
    help="Work of the role: nightly runs the spec, analyst evaluates and checks, reader "
    "queries the tables.",
)
@dialect_option("that of the connection")
@place_options
@error_options
def grants_command(
    *, spec: str, role: str, kind: str, dialect: str | None, location: Location
) -> None:
    """Print the GRANT statements for the minimal rights of a role for SPEC.

    No database is opened: an administrator runs the statements. The names of databases and schemas
    are those of the connection.

    \b
    sqlmetrics grants search.yml --role nightly --target prod
    sqlmetrics grants search.yml --role bi --kind reader --dialect postgres
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.grants import grants
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    connection_url = None if dialect and not location.is_given else location.url
    database, schema = connection_url.home if connection_url else ("", "")
    name, settings = dialect or location.dialect, connection_url.options if connection_url else {}
    text = grants(the_spec, name, role, kind, database=database, schema=schema, settings=settings)
    click.echo(text, nl=False)


# `sqlmetrics doctor`: whether a database gives the numbers that it should.


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
def doctor_command(location: Location, words: tuple[str, ...], *, list_cases: bool) -> None:
    """Test a database: compute every metric and option on difficult data.

    The data go into a schema that doctor creates and drops. Every number is compared with the
    plain-Python reference; the exit code is 1 if one differs.

    \b
    sqlmetrics doctor --target prod --case "preset trec_eval"
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.proof.doctor import chosen, examine, names

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
