"""What a fact table lacks or has twice: days, queries, keys; and days that repeat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from sqlmetrics.catalog.dimension import direction
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.evaluation.report.failure import MOST_LOST, Lost
from sqlmetrics.jobs.schema import COUNTED, TABLES, columns_of, targets
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.days import Days, Ends, as_sql, day_of, ranges
from sqlmetrics.spec.spec import Spec
from sqlmetrics.spec.threshold import Threshold
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import double, identifier, literal, relation
from sqlmetrics.stats import TIED
from sqlmetrics.tables.table import printable
from sqlmetrics.tables.tabular import Row

# Which days a check looks at, and which of them the fact table has not.


@dataclass(frozen=True)
class Calendar:
    """The days of a check.

    Attributes:
        last: The last day that the table has of the spec.
        days: Those that are looked at: asked for, and there.
        gaps: Those that were asked for and are not there, as ranges.
    """

    last: date
    days: tuple[date, ...]
    gaps: tuple[Days, ...] = ()


def calendar(engine: Database, source: str, requested_days: Sequence[Days]) -> Calendar | None:
    """The days of a check; None if the table has no day of the spec.

    Args:
        engine: Where the table is.
        source: What stands behind a select of the spec's rows, from FROM on.
        requested_days: Ranges; the last day alone if there are none. A side that is open ends
            where the table does.
    """
    if not requested_days:
        # counted, since ClickHouse has a greatest day of no rows: 1970-01-01
        ((last, n),) = engine.rows(f"select max(metric_date) as day, count(*) as n {source}")
        return Calendar(day_of(last), (day_of(last),)) if n else None
    rows = engine.rows(f"select metric_date {source} group by metric_date")
    existing = {day_of(day) for (day,) in rows}
    if not existing:
        return None
    requested = {day for span in requested_days for day in _expected_days(span, existing)}
    beyond = [span for span in requested_days if not any(_expected_days(span, existing))]
    gaps = (*ranges(requested - existing), *beyond)
    return Calendar(max(existing), tuple(sorted(requested & existing)), gaps)


def _expected_days(days: Days, existing: set[date]) -> Iterator[date]:
    day = days.start or min(existing)
    end = days.end or max(existing) + timedelta(1)
    while day < end:
        yield day
        day += timedelta(1)


# The queries behind a number that became worse: those that lost most, by their texts.


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


# Systems that pause: with rows on days before, and none on the day of a check.

LONGEST_PAUSE = timedelta(7)
"""So long a system is said to pause that had rows; a table whose days are rarer looks one back."""


def paused_systems(
    threshold: Threshold,
    rows: Iterable[Mapping[str, Any]],
    source: str,
    day: date,
    engine: Database,
) -> dict[str, date]:
    """The systems that a check means and that pause -> their last day with rows.

    Args:
        threshold: The check.
        rows: Those of the day.
        source: All rows of the spec, from FROM to the end of a condition.
        day: The day of the check.
        engine: Where they are.
    """
    last_days = engine.rows(
        f"select system, max(metric_date) {source} and metric_date < {as_sql(day)} "
        "group by system order by system"
    )
    present = {row["system"] for row in rows}
    return {
        system: day_of(last)
        for system, last in last_days
        if system not in present
        and threshold.system in (None, system)
        and system != threshold.against
    }


def newly_paused(
    last_days: Mapping[str, date], present: Iterable[str], day: date
) -> dict[str, date]:
    """The systems that pause since a few days -> their last day with rows.

    One that has no row for longer has ended, as far as anybody can tell.

    Args:
        last_days: System -> its last day with rows before the day of the check.
        present: The systems with rows on that day.
        day: The day of the check.
    """
    latest = max(last_days.values(), default=day)
    return {
        system: last
        for system, last in sorted(last_days.items())
        if system not in {*present} and (day - last <= LONGEST_PAUSE or last == latest)
    }


def since(paused: Mapping[str, date]) -> str:
    """When systems that pause had their last rows, and what to do; empty if none does."""
    remedy = "run this day again once the rows are there, or check a day that has them (--date)"
    if len(paused) == 1:
        return f"its last rows are of {next(iter(paused.values()))}; {remedy}"
    last = ", ".join(f"{printable(system)} on {day}" for system, day in paused.items())
    return f"the last rows are those of {last}; {remedy}" if paused else ""


# Rows of a job's tables that stand there twice: not every database keeps a key.


def repeated_keys(
    spec: Spec, engine: Database, calendar: Calendar
) -> Iterator[tuple[str, date, int]]:
    """Table, day and number of keys that have more than one row, where there are any.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the tables are.
        calendar: The days that are looked at.
    """
    if not calendar.days:
        return
    ends = Ends(as_sql(calendar.days[0]), None, as_sql(calendar.days[-1]))
    conditions = [f"spec = {literal(spec.title)}", *ends.of("metric_date")]
    for table, name in targets(spec).items():
        if table not in COUNTED or not columns_of(name, engine):
            continue
        rows = engine.rows(
            "select metric_date, count(*) as n_keys\nfrom (\n    select metric_date\n"
            f"    from {relation(name)}\n    where {' and '.join(conditions)}\n"
            f"    group by {', '.join(TABLES[table].key)}\n    having count(*) > 1\n) as repeated\n"
            "group by metric_date\norder by metric_date"
        )
        for day, n_keys in rows:
            yield name, day_of(day), int(n_keys)
