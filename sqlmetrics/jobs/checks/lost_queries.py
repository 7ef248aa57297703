"""The queries behind a number that became worse: those that lost most, by their texts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sqlmetrics.catalog.direction import direction
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.evaluation.report.failure import MOST_LOST, Lost
from sqlmetrics.jobs.tables import columns_of, targets
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.days import as_sql, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import double, identifier, literal, relation
from sqlmetrics.stats import TIED
from sqlmetrics.tables.tabular import Row


def lost_queries(spec: Spec, engine: Database, row: Row, base: Row) -> tuple[Lost, ...]:
    """The queries that lost most from one row of the fact table to another one.

    None where no per-query table is written, of a segment, and of numbers that queries have not.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the tables are.
        row: Of the system and day that lost.
        base: What it is compared with: the same of another day, or of another system.
    """
    table, measure = targets(spec).get("per_query"), _measure(spec, row)
    if table is None or measure is None or row["segment_name"] != ALL:
        return ()
    if measure.column not in columns_of(table, engine):
        return ()
    column, sign = identifier(measure.column), direction(str(row["metric"]), spec.measures) or 1
    gain = f"(after.{column} - before.{column}) * {double(sign)}"
    conditions = [
        f"{side}.{name} = {value}"
        for side, keys in (("after", row), ("before", base))
        for name, value in (
            ("spec", literal(spec.title)),
            ("metric_date", as_sql(day_of(keys["metric_date"]))),
            ("system", literal(keys["system"])),
        )
    ]
    rows = engine.table(
        f"select after.query_id, after.{column} as value, before.{column} as baseline_value\n"
        f"from {relation(table)} as after\n"
        f"inner join {relation(table)} as before\n    on after.query_id = before.query_id\n"
        f"where {' and '.join(conditions)}\n    and {gain} < -{double(TIED)}\n"
        f"order by {gain} asc, after.query_id asc\nlimit {MOST_LOST}"
    ).to_pylist()
    text_by_query = _texts(spec, engine, [row["query_id"] for row in rows])
    return tuple(Lost.of({**row, "query_text": text_by_query.get(row["query_id"])}) for row in rows)


def _measure(spec: Spec, row: Row) -> Measure | None:
    """The metric of lists that a row is of; None if it has no value for a query."""
    for measure in spec.measures:
        if (measure.name, measure.k or 0) == (row["metric"], int(row["k"])):
            return None if measure.metric.pooled else measure
    return None


def _texts(spec: Spec, engine: Database, queries: Sequence[str]) -> dict[str, str]:
    """Query -> its text, if the spec says where that is and it can be read here."""
    source = spec.queries
    if source is None or source.columns.text is None or not queries:
        return {}
    text = identifier(source.columns.text)
    query = f"cast({identifier(source.columns.query)} as varchar)"
    with suppress(SqlmetricsError):  # the check has its result without
        queries_table = source_text(source_relation(source, "queries", engine))
        rows = engine.table(
            f"select {query} as query_id, min({text}) as query_text\nfrom {queries_table}\n"
            f"where {query} in ({', '.join(map(literal, queries))})\ngroup by {query}"
        ).to_pylist()
        return {row["query_id"]: row["query_text"] for row in rows if row["query_text"]}
    return {}
