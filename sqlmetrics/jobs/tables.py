"""The tables that a job writes: their columns, and how each dialect makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from sqlmetrics.clicks.request_rows import request_columns
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, SqlmetricsError
from sqlmetrics.plan.moments import COUNTS, OWN, PAIRED
from sqlmetrics.spec.source import beside_table
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import parts, relation

FACTS: Mapping[str, str] = {
    "spec": "varchar not null",
    "metric_date": "date not null",
    "system": "varchar not null",
    "segment_name": "varchar not null",
    "segment_value": "varchar not null",
    "metric": "varchar not null",
    "k": "integer not null",
    "value": "double",
    "numerator": "double",
    "denominator": "double",
    "n_queries": "bigint not null",
    "n_skipped": "bigint not null",
    "n_missing": "bigint not null",
    "sum_sq": "double",
    "ci_low": "double",
    "ci_high": "double",
    "definition_hash": "varchar not null",
    "run_id": "varchar not null",
    "computed_at": "timestamp not null",
    "ci_method": "varchar",
    **{name: "bigint" if name in COUNTS else "double" for name in OWN},
}
"""The fact table: one row per spec, day, system, segment, metric and cutoff."""

BASELINE: Mapping[str, str] = {
    "baseline": "varchar",
    **{name: "bigint" if name in COUNTS else "double" for name in PAIRED},
    **dict.fromkeys(("difference", "difference_low", "difference_high"), "double"),
}
"""What it has besides where a spec names a baseline."""

PER_QUERY: Mapping[str, str] = {
    "spec": "varchar not null",
    "metric_date": "date not null",
    "system": "varchar not null",
    "query_id": "varchar not null",
}
"""The per-query table, before its metrics: one row per spec, day, system and query."""

RUNS: Mapping[str, str] = {
    "run_id": "varchar not null",
    "spec": "varchar not null",
    "started_at": "timestamp not null",
    "seconds": "double",
    "range_start": "date",
    "range_end": "date",
    "facts": "bigint",
    "per_query": "bigint",
    "engine": "varchar",
    "version": "varchar",
    "outcome": "varchar not null",
    "message": "varchar",
    "sources": "text",
    "metrics": "text",
    "user_name": "varchar",
    "host": "varchar",
    "revision": "varchar",
    "note": "text",
    "archived": "bigint",
    "restores": "varchar",
}
"""The run log: one row per run, also of those that failed."""

METRICS: Mapping[str, str] = {
    "metric": "varchar not null",
    "k": "integer not null",
    "name": "varchar not null",
    "column_name": "varchar not null",
    "label": "varchar not null",
    "meaning": "varchar not null",
    "range_low": "double",
    "range_high": "double",
    "direction": "varchar not null",
    "additive": "integer not null",
    "roll_up": "varchar not null",
    "unit": "varchar",
}
"""The table of metrics: one row per metric and cutoff."""

DEFINITIONS: Mapping[str, str] = {
    "definition_hash": "varchar not null",
    "metric": "varchar not null",
    "k": "integer not null",
    "conventions": "text not null",
    "first_seen": "timestamp not null",
}
"""The table of definitions: one row per definition of a metric."""

KEPT = {
    "facts": FACTS,
    "per_query": PER_QUERY,
    "runs": RUNS,
    "metrics": METRICS,
    "definitions": DEFINITIONS,
}
"""Table -> the columns that it has in any case."""

FIRST = {
    "per_query": PER_QUERY,
    "facts": [*FACTS][: [*FACTS].index("ci_method")],
    "runs": [*RUNS][: [*RUNS].index("sources")],
}
"""Table -> the columns with which it began; a table that is there may lack the others."""

KEYS = {
    "facts": "relation",
    "per_query": "per_query",
    "runs": "runs",
    "metrics": "relation",
    "definitions": "relation",
}
"""Table -> its key in the `output` of a spec; the last two are named after the fact table."""

COUNTED = ("facts", "per_query")
"""The tables whose rows are of days."""

REPLACED: Mapping[str, str] = {
    "replaced_by": "varchar not null",
    "replaced_at": "timestamp not null",
}
"""What an archive has behind the columns of the table whose rows it keeps."""

SUCCESSOR: Mapping[str, str] = {"new_value": "double", "is_removed": "integer"}
"""What the fact table's archive has besides: what came in the place of the row."""

UNIQUE: Mapping[str, Sequence[str]] = {
    "facts": [*FACTS][: [*FACTS].index("value")],
    "per_query": [*PER_QUERY],
    "runs": ["spec", "run_id", "started_at", "outcome"],
    "metrics": ["metric", "k"],
    "definitions": ["definition_hash", "metric", "k"],
}
"""Table -> the columns of which no two rows have the same. A run whose views fail after its rows
are written is in the log twice, with two outcomes."""

LONG = ("query_id",)
"""Columns of them that hold texts of any length."""


def targets(spec: Spec) -> dict[str, str]:
    """What a spec writes to: `facts`, `runs`, `metrics`, `definitions`; `per_query` if asked for.

    Raises:
        SpecError: If the spec has no output, its name cannot be a key, two tables have one name,
            or the fact table has no place for what is asked.
    """
    if not spec.title.isprintable():
        raise SpecError(f"a job's name is one line of printable characters, given {spec.title!r}")
    output = spec.output
    if output is None:
        raise SpecError("the spec has no output; add: output: {relation: ranking_metrics}")
    per_query = {"per_query": output.per_query} if output.per_query and spec.metrics else {}
    name_by_table = {
        "facts": output.relation,
        **per_query,
        "runs": output.runs or output.named("runs"),
    }
    name_by_table |= {table: output.named(table) for table in ("metrics", "definitions")}
    names = [*name_by_table.values(), *_archives(name_by_table).values()]
    if len({name.casefold() for name in names}) < len(names):
        listing = ", ".join(f"{KEYS[table]}: {name}" for table, name in name_by_table.items())
        raise SpecError(f"each table of the output needs a name of its own; given {listing}")
    return name_by_table


def archives(spec: Spec) -> dict[str, str]:
    """`facts`, and `per_query` if asked for -> the table of the rows of it that runs replaced."""
    return _archives(targets(spec))


def _archives(name_by_table: Mapping[str, str]) -> dict[str, str]:
    return {
        table: beside_table(name_by_table[table], "archive")
        for table in COUNTED
        if table in name_by_table
    }


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
    for table, name in targets(spec).items():
        existing = {column.casefold() for column in columns_of(name, engine)}
        if not existing:
            problems += _without_schema(table, name, engine)
            continue
        keys = (column for column, kind in KEPT[table].items() if kind.endswith(" not null"))
        if lacks := [column for column in keys if column not in existing]:
            problems.append(
                f"output.{KEYS[table]}: {name!r} is there already and was not made by a run: it "
                f"has no column {lacks[0]}; give another name"
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
                f"output.{KEYS[table]}: there is no schema {schema[-1]!r} for {name!r}; create "
                "it, or leave it out"
            )


def columns(spec: Spec) -> dict[str, Mapping[str, str]]:
    """Table -> its columns with their types, in DuckDB's words."""
    metrics = {measure.column: "double" for measure in spec.measures if not measure.metric.pooled}
    paired = BASELINE if has_baseline(spec) else {}
    of_requests = dict.fromkeys(request_columns(spec, PER_QUERY), "varchar")
    return {
        **KEPT,
        "facts": {**FACTS, **paired},
        "per_query": {**PER_QUERY, **metrics, **of_requests},
    }


def has_baseline(spec: Spec) -> bool:
    """Whether rows stand beside a baseline's."""
    has_systems = spec.clicks is None or spec.rankings.columns.system is not None
    return spec.baseline is not None and has_systems
