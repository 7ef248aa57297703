"""Two small lists and what a spec's query says of them: a unit test for whoever takes it over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmetrics.jobs.exports.inputs import MARK
from sqlmetrics.jobs.exports.job_query import END, NOW, START, JobQuery
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.plan.script import per_query_text
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialects import DUCKDB
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.sql.template import identifier, literal

DAY, NEXT_DAY = "2026-01-02", "2026-01-03"

Row = dict[str, Any]

DIGITS = 6
"""A value of so many digits is the same in every database; other sums may end in other ones."""

_KEYS = ("metric_date", "system", "segment_name", "segment_value", "metric", "k")
_COUNTS = ("n_queries", "n_missing")


@dataclass(frozen=True)
class ExampleRows:
    """Rows of a spec's tables, and the rows of the fact table for them.

    Attributes:
        given: Role of a table -> its rows.
        expected: Every row, with the columns that are the same in every database.
        per_query: The rows of each query, likewise.
        about: What the rows are.
        day: The day that is computed.
        next_day: The day after it, which has rows that are not.
    """

    given: Mapping[str, Sequence[Row]]
    expected: Sequence[Row]
    per_query: Sequence[Row]
    about: str
    day: str = DAY
    next_day: str = NEXT_DAY


def example_rows(spec: Spec) -> ExampleRows | None:
    """The rows for a spec of rankings and labels; None where rows would have to meet conditions.

    Ids and segments are numbers, which columns of texts take as well.
    """
    if not _is_plain(spec):
        return None
    given = dict(_given(spec))
    job = JobQuery(Target(spec, DUCKDB))
    expected = _computed(job.query("facts"), given)
    stages = (*job.plan.inputs, *job.plan.per_query)
    per_query = _computed(with_stages(stages, per_query_text(job.plan)), given)
    if not expected:
        return None
    metrics = [one.column for one in spec.measures if not one.metric.pooled]
    own = [name for name in metrics if _are_exact(per_query, name)]
    columns = (*_KEYS, *(("value",) if _are_exact(expected, "value") else ()), *_COUNTS)
    about = "Query 1 has its relevant item first, query 2 has it not at all."
    return ExampleRows(
        given,
        [{name: _plain(row[name]) for name in columns} for row in expected],
        [{name: _plain(row[name]) for name in (*_KEYS[:2], "query_id", *own)} for row in per_query],
        about,
    )


def _are_exact(rows: Sequence[Row], name: str) -> bool:
    """Whether all values of a column are the same in every database."""
    return all(row[name] is None or row[name] == round(row[name], DIGITS) for row in rows)


def _is_plain(spec: Spec) -> bool:
    """Whether any rows are as good as others: no condition, no zone, no vector."""
    sources = [one for one in (spec.rankings, spec.labels, spec.queries) if one is not None]
    return not (
        spec.clicks
        or spec.segments
        or spec.needs_items
        or any(one.where or getattr(one, "lists", False) for one in sources)
        or any(one.time_zone for one in sources)
    )


def _given(spec: Spec) -> Iterator[tuple[str, list[Row]]]:
    has = spec.rankings.columns
    best, none = _grades(spec)
    lists = [("1", "11", 1, best), ("1", "12", 2, none), ("2", "12", 1, none)]
    rows = []
    for day in (DAY, NEXT_DAY):
        for system in ("candidate", spec.baseline) if spec.baseline is not None else (1,):
            for query, item, place, grade in lists:
                row: Row = {has.query: int(query), has.item: int(item)}
                row[has.order] = place if has.rank else 3 - place
                told = ((has.date, day), (has.system, system), (has.weight, 1), (has.grade, grade))
                row |= {name: value for name, value in told if name is not None}
                row |= dict.fromkeys(_own_segments(spec), 1)
                rows.append(row)
    yield "rankings", rows
    if spec.labels is not None:
        own = spec.labels.columns
        more: Row = {own.date: DAY} if own.date else {}
        more |= {own.group: 1} if own.group else {}
        labels = (("1", "11"), ("2", "13"))
        yield (
            "labels",
            [{own.query: int(q), own.item: int(i), own.grade: best} | more for q, i in labels],
        )
    if spec.queries is not None:
        yield "queries", list(_queries(spec))


def _queries(spec: Spec) -> Iterator[Row]:
    columns = spec.queries.columns  # type: ignore[union-attr]
    for query in (1, 2):
        row: Row = {columns.query: query}
        told = ((columns.text, "text"), (columns.weight, 1), (columns.date, DAY))
        row |= {name: value for name, value in told if name is not None}
        yield row | dict.fromkeys(columns.segments, 1)


def _own_segments(spec: Spec) -> list[str]:
    """The segments that stand in the rankings."""
    known = spec.queries.columns.segments if spec.queries else ()
    return [name for name in spec.query_columns if name not in known]


def _grades(spec: Spec) -> tuple[object, object]:
    """A grade that is relevant, and one that is not."""
    texts = spec.truth.grades
    if not texts:
        return 1, 0
    return max(texts, key=texts.__getitem__), min(texts, key=texts.__getitem__)


def _computed(text: str, given: Mapping[str, Sequence[Row]]) -> list[Row]:
    """What a query itself says of the rows, on DuckDB."""
    import duckdb

    for role, rows in given.items():
        text = text.replace(f"from {MARK}{role}\n", f"from {_values(rows)}\n")
    text = text.replace(START, DAY).replace(END, NEXT_DAY).replace(NOW, DAY)
    with duckdb.connect() as connection:
        found = connection.execute(f"{text}\norder by all")
        names = [one[0] for one in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _values(rows: Sequence[Row]) -> str:
    names = ", ".join(map(identifier, rows[0]))
    lines = ", ".join(f"({', '.join(_sql(value) for value in row.values())})" for row in rows)
    return f"(values {lines}) as given({names})"


def _sql(value: object) -> str:
    return literal(str(value)) if isinstance(value, str) else str(value)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | type(None)) else str(value)
