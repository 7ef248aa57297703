"""`sqlmetrics show`, `validate`, `verify` and `compile`: commands that take a spec."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli.common import error_options, overwrite_option, overwrites, progress_bar, say
from sqlmetrics.cli.evaluation_options import check_option, dialect_option, input_check
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import (
    EXECUTION,
    INPUT,
    OUTPUT,
    Command,
    confidence_option,
    days_options,
    option,
    per_query_option,
)
from sqlmetrics.cli.output import (
    FORMATS,
    PER_QUERY,
    SUMMARY,
    emit,
    emit_clicks,
    emit_result,
    format_of,
    output_options,
)
from sqlmetrics.errors import SpecError, SqlmetricsError
from sqlmetrics.tables.table import many

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.jobs.definitions import DefinedDays


@click.command(cls=Command)
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
def compile_command(
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
def validate_command(specs: tuple[str, ...], location: Location, *, offline: bool) -> None:
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
def verify_command(
    spec: str,
    location: Location,
    tolerance: float,
) -> None:
    """Compare the SQL of SPEC with the plain-Python reference, on the spec's own data.

    All queries are compared, or a fixed sample of 10,000 if there are more. The exit code is 1 if
    a number differs by more than --tolerance.
    """
    from sqlmetrics.clicks.evaluate import ready
    from sqlmetrics.proof.verify import sampled, verify_spec
    from sqlmetrics.spec.spec import Spec
    from sqlmetrics.tables.table import Table

    the_spec = Spec.read(spec)
    with (
        progress_bar("SQL beside plain Python"),
        location.reading(the_spec) as engine,
        ready(the_spec, engine),
    ):
        part, queries = sampled(the_spec, engine)
        _, agreements = verify_spec(part, engine)
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


# `sqlmetrics show`: what a run would compute, to look at.


@click.command(cls=Command)
@click.argument("spec", type=INPUT)
@place_options
@days_options()
@per_query_option
@confidence_option(default=None)
@option(
    "--definition",
    is_flag=True,
    help="Print the definition of each metric and the day it took effect.",
)
@check_option
@output_options(FORMATS)
@error_options
def show_command(
    *,
    spec: str,
    location: Location,
    start: str | None,
    end: str | None,
    per_query: bool,
    confidence: float | None,
    definition: bool,
    skip_input_checks: bool,
    output: str | None,
    out: str | None,
) -> None:
    """Print the numbers that run would write for SPEC; write no table.

    \b
    sqlmetrics show search.yml --db shop.duckdb
    sqlmetrics show search.yml --start 2026-01-31 -o json
    sqlmetrics show search.yml --definition
    """  # noqa: D301 (click wants the backspace itself)
    check = input_check(skip_input_checks)
    if definition:
        if start or end or per_query or confidence or check is not True:
            raise SpecError("--definition only combines with a database, -o and --out")
        _show_definitions(spec, location, output, out)
        return
    show_spec(
        spec,
        location,
        start=start,
        end=end,
        per_query=per_query,
        check=check,
        confidence=confidence,
        output=output,
        out=out,
    )


def _show_definitions(spec: str, location: Location, output: str | None, out: str | None) -> None:
    """Print by which definitions the days of a spec's metrics were computed, and are to be."""
    from sqlmetrics.jobs.definitions import definition_history
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    form = format_of(output, out, ("table", "json", "csv", "parquet"))
    with location.reading(the_spec) as engine:
        history = definition_history(the_spec, engine)
    emit(lambda: _definition_rows(history), {"table": lambda: _definitions(history)}, form, out)


def _definition_rows(history: Sequence[DefinedDays]) -> pa.Table:
    """One row per definition of a metric."""
    from sqlmetrics.tables.tabular import arrow_table

    rows = [
        {
            "metric": days.metric,
            "segment_name": days.segment,
            "definition_hash": days.hash,
            "first_date": days.first,
            "last_date": days.last,
            "is_retired": days.retired is not None,
            "retired_since": days.retired.since if days.retired else None,
            "changes": "; ".join(days.changes) or None,
            "definition": json.dumps(days.definition, ensure_ascii=False),
        }
        for days in history
    ]
    kinds = dict.fromkeys(rows[0], "string") | {"is_retired": "bool"}
    days = dict.fromkeys(("first_date", "last_date", "retired_since"), "date32")
    return arrow_table(rows, kinds | days)


def _definitions(history: Sequence[DefinedDays]) -> str:
    """The same for people: what has changed, and the last definition of each as YAML."""
    import yaml

    from sqlmetrics.jobs.definitions import readable

    blocks, last = list[str](), {(days.metric, days.segment): days for days in history}
    for days in history:
        segment = "" if days.segment == "all" else f" by {days.segment}"
        when = f"from {days.first} to {days.last}" if days.first else "not computed yet"
        retired = f", {days.retired}" if days.retired else ""
        lines = [f"{days.metric}{segment}: {days.hash}, {when}{retired}"]
        lines += [f"  {change}" for change in days.changes]
        if last[days.metric, days.segment] is days:
            text = yaml.safe_dump(
                readable(days.definition), sort_keys=False, allow_unicode=True, width=76
            )
            lines += [f"    {line}" for line in text.splitlines()]
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def show_spec(
    spec: str,
    location: Location,
    *,
    start: str | None = None,
    end: str | None = None,
    per_query: bool = False,
    check: bool | float = True,
    confidence: float | None = None,
    output: str | None = None,
    out: str | None = None,
) -> None:
    """Print the numbers of a spec."""
    from sqlmetrics.jobs.days import days_between, zone_of_days
    from sqlmetrics.jobs.definitions import note_of_others
    from sqlmetrics.jobs.run import evaluated
    from sqlmetrics.spec.spec import Spec

    the_spec = Spec.read(spec)
    days = days_between(start, end, zone_of_days(the_spec), option="--")
    columns = PER_QUERY if per_query else SUMMARY if the_spec.clicks is None else ()
    form = format_of(output, out, FORMATS, columns)
    with location.reading(the_spec) as engine:
        with progress_bar("steps of the log" if the_spec.clicks else "evaluating") as on_progress:
            result: Any = evaluated(
                the_spec,
                engine,
                days,
                check=check,
                per_query=per_query,
                confidence=confidence,
                progress=on_progress,
            )
        if note := note_of_others(the_spec, engine):
            say(f"note: {note}")
    if the_spec.clicks is None:
        emit_result(result, per_query, form, out)
    elif per_query:
        if result.offline is None:
            raise SpecError(f"{spec} has no list metrics, like ndcg@10; leave that option out")
        emit_result(result.offline, per_query, form, out)
    else:
        emit_clicks(result, form, out)
