"""The tables that a job writes: their columns, and how each dialect makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from sqlmetrics.catalog.dimension import metric_rows
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, SqlmetricsError
from sqlmetrics.jobs.schema import (
    BASELINE,
    COUNTED,
    FACTS,
    PER_QUERY,
    TABLES,
    Columns,
    TableColumn,
    named,
)
from sqlmetrics.spec.source import beside_table
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import parts, relation


def targets(spec: Spec) -> dict[str, str]:
    """What a spec writes to: `facts`, `runs`, `metrics`, `definitions`; others if asked for.

    These are `per_query`, and `experiment` of a click log that has an experiment.

    Raises:
        SpecError: If the spec has no output, its name cannot be a key, two tables have one name,
            or the fact table has no place for what is asked.
    """
    if not spec.title.isprintable():
        raise SpecError(
            f"the name of a job must be one line of printable characters, given {spec.title!r}"
        )
    output = spec.output
    if output is None:
        raise SpecError("the spec has no output; add: output: {relation: ranking_metrics}")
    per_query = {"per_query": output.per_query} if output.per_query and spec.metrics else {}
    name_by_table = {
        "facts": output.relation,
        **per_query,
        "runs": output.runs or output.named("runs"),
    }
    tables = ("metrics", "definitions", *["experiment"] * has_experiment(spec))
    name_by_table |= {table: output.named(table) for table in tables}
    names = [*name_by_table.values(), *archives_of(name_by_table).values()]
    if len({name.casefold() for name in names}) < len(names):
        listing = ", ".join(
            f"{TABLES[table].setting}: {name}" for table, name in name_by_table.items()
        )
        raise SpecError(f"each output table needs its own name; given {listing}")
    return name_by_table


def archives(spec: Spec) -> dict[str, str]:
    """The same of a spec's tables."""
    return archives_of(targets(spec))


def archives_of(name_by_table: Mapping[str, str]) -> dict[str, str]:
    """Table -> the table of the rows of it that runs replaced, of those that are archived."""
    return {
        table: beside_table(name_by_table[table], "archive")
        for table in COUNTED
        if table in name_by_table
    }


def held_targets(spec: Spec, engine: Database) -> dict[str, str]:
    """The same, with an experiment's table that another spec of the fact table has filled."""
    name = spec.output.named("experiment") if spec.output else ""
    is_held = name and {*TABLES["experiment"].key} <= {*columns_of(name, engine)}
    return targets(spec) | ({"experiment": name} if is_held else {})


def check_own(spec: Spec, engine: Database) -> None:
    """Whether the tables that are there are those of runs, and others can be made.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the tables are.

    Raises:
        SpecError: If one is somebody else's: a run would add columns and rows to it; or if there
            is no schema for it.
    """
    problems: list[str] = []
    engine.look_up(targets(spec).values())
    for table, name in targets(spec).items():
        existing = {column.casefold() for column in columns_of(name, engine)}
        if not existing:
            problems += _without_schema(table, name, engine)
            continue
        keys = [column.name for column in TABLES[table].columns.values() if column.is_required]
        if lacks := [column for column in keys if column not in existing]:
            problems.append(
                f"output.{TABLES[table].setting}: {name!r} already exists and was not made by a "
                f"run: it lacks the column {lacks[0]}; give another name"
            )
    if problems:
        raise SpecError(problems)


def columns_of(name: str, engine: Database) -> list[str]:
    """The columns of a table or view as they are now; none if it is not there."""
    try:
        return [*engine.columns(relation(name))]
    except InputError:
        return []


def _without_schema(table: str, name: str, engine: Database) -> Iterator[str]:
    """A table whose schema is not there, where the database lists them."""
    *schema, _ = parts(name)
    if not schema:
        return
    with suppress(SqlmetricsError):
        rows = engine.rows("select catalog_name, schema_name from information_schema.schemata")
        known_schemas = {str(cell).casefold() for row in rows for cell in row}
        if schema[-1].casefold() not in known_schemas:
            yield (
                f"output.{TABLES[table].setting}: the schema {schema[-1]!r} of {name!r} does not "
                "exist; create it, or leave it out"
            )


def _of_requests(spec: Spec) -> dict[str, TableColumn]:
    """The columns that a click log adds to the per-query table."""
    if spec.clicks is None:
        return {}
    from sqlmetrics.clicks.log_rows import QUERY_TEXT, request_columns

    columns_of_log = {
        name: TableColumn("varchar", f"The request's {name}.")
        for name in request_columns(spec, PER_QUERY)
    }
    if QUERY_TEXT in columns_of_log:
        columns_of_log[QUERY_TEXT] = TableColumn("varchar", "What was asked.")
    return columns_of_log


def columns(spec: Spec) -> dict[str, Columns]:
    """Table -> its columns, also those that the spec adds to it."""
    paired = BASELINE if has_baseline(spec) else {}
    of_metrics = {
        row.column: TableColumn("double", f"{row.name}: {row.meaning}")
        for measure, row in zip(spec.measures, metric_rows(spec.measures), strict=True)
        if not measure.metric.pooled
    }
    return {
        **{name: table.columns for name, table in TABLES.items()},
        "facts": {**FACTS, **paired},
        "per_query": {**PER_QUERY, **named(**{**of_metrics, **_of_requests(spec)})},
    }


def has_experiment(spec: Spec) -> bool:
    """Whether a run looks at an experiment."""
    return spec.clicks is not None and spec.clicks.experiment is not None


def has_baseline(spec: Spec) -> bool:
    """Whether rows stand beside a baseline's."""
    has_systems = spec.clicks is None or spec.rankings.columns.system is not None
    return spec.baseline is not None and has_systems
