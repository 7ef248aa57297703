"""Two small lists and what a spec's query says of them: a unit test for whoever takes it over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmetrics.catalog.metric import is_column_role
from sqlmetrics.jobs.exports.job_query import END, MARK, NOW, START, JobQuery
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.schema import TABLES
from sqlmetrics.plan.script import per_query_text
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialects import DUCKDB
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.tables.tabular import Row

DAY, NEXT_DAY = "2026-01-02", "2026-01-03"


DIGITS = 6
"""A value of so many digits is the same in every database; other sums may end in other ones."""

_KEYS = TABLES["facts"].key[1:]
_COUNTS = ("n_queries", "n_missing")


@dataclass(frozen=True)
class ExampleRows:
    """Rows of a spec's tables, and the rows of the fact table for them.

    Attributes:
        rows_by_role: Role of a table -> its rows.
        expected: Every row, with the columns that are the same in every database.
        per_query: The rows of each query, likewise.
        about: What the rows are.
        day: The day that is computed.
        next_day: The day after it, which has rows that are not.
    """

    rows_by_role: Mapping[str, Sequence[Row]]
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
    rows_by_table = dict(_table_rows(spec))
    job = JobQuery(Target(spec, DUCKDB))
    expected = _computed(job.query("facts"), rows_by_table)
    stages = (*job.plan.inputs, *job.plan.per_query)
    per_query = _computed(with_stages(stages, per_query_text(job.plan)), rows_by_table)
    if not expected:
        return None
    metrics = [measure.column for measure in spec.measures if not measure.metric.pooled]
    exact_metrics = [name for name in metrics if _are_exact(per_query, name)]
    columns = (*_KEYS, *(("value",) if _are_exact(expected, "value") else ()), *_COUNTS)
    about = "Query 1 has its relevant item first, query 2 has it not at all."
    return ExampleRows(
        rows_by_table,
        [{name: _plain(row[name]) for name in columns} for row in expected],
        [
            {name: _plain(row[name]) for name in (*_KEYS[:2], "query_id", *exact_metrics)}
            for row in per_query
        ],
        about,
    )


def _are_exact(rows: Sequence[Row], name: str) -> bool:
    """Whether all values of a column are the same in every database."""
    return all(row[name] is None or row[name] == round(row[name], DIGITS) for row in rows)


def _is_plain(spec: Spec) -> bool:
    """Whether any rows are as good as others: no condition, no zone, no vector."""
    sources = [
        source for source in (spec.rankings, spec.labels, spec.queries) if source is not None
    ]
    return not (
        spec.clicks
        or spec.segments
        or spec.needs_items
        or any(is_column_role(need.partition(".")[2]) for need in spec.needed)
        or any(source.where or getattr(source, "lists", False) for source in sources)
        or any(source.time_zone for source in sources)
    )


def _table_rows(spec: Spec) -> Iterator[tuple[str, list[Row]]]:
    has = spec.rankings.columns
    best, none = _grades(spec)
    lists = [("1", "11", 1, best), ("1", "12", 2, none), ("2", "12", 1, none)]
    rows = []
    for day in (DAY, NEXT_DAY):
        for system in ("candidate", spec.baseline) if spec.baseline is not None else (1,):
            for query, item, rank, grade in lists:
                row: Row = {has.query: int(query), has.item: int(item)}
                row[has.order] = rank if has.rank else 3 - rank
                optional_fields = (
                    (has.date, day),
                    (has.system, system),
                    (has.weight, 1),
                    (has.grade, grade),
                )
                row |= {name: value for name, value in optional_fields if name is not None}
                row |= dict.fromkeys(_own_segments(spec), 1)
                rows.append(row)
    yield "rankings", rows
    if spec.labels is not None:
        label_columns = spec.labels.columns
        extra_fields: Row = {label_columns.date: DAY} if label_columns.date else {}
        extra_fields |= {label_columns.group: 1} if label_columns.group else {}
        labels = (("1", "11"), ("2", "13"))
        yield (
            "labels",
            [
                {label_columns.query: int(q), label_columns.item: int(i), label_columns.grade: best}
                | extra_fields
                for q, i in labels
            ],
        )
    if spec.queries is not None:
        yield "queries", list(_queries(spec))


def _queries(spec: Spec) -> Iterator[Row]:
    columns = spec.queries.columns  # type: ignore[union-attr]
    for query in (1, 2):
        row: Row = {columns.query: query}
        optional_fields = ((columns.text, "text"), (columns.weight, 1), (columns.date, DAY))
        row |= {name: value for name, value in optional_fields if name is not None}
        yield row | dict.fromkeys(columns.segments, 1)


def _own_segments(spec: Spec) -> list[str]:
    """The segments that stand in the rankings."""
    query_segments = spec.queries.columns.segments if spec.queries else ()
    return [name for name in spec.query_columns if name not in query_segments]


def _grades(spec: Spec) -> tuple[object, object]:
    """A grade that is relevant, and one that is not."""
    texts = spec.truth.grades
    if not texts:
        return 1, 0
    return max(texts, key=texts.__getitem__), min(texts, key=texts.__getitem__)


def _computed(text: str, rows_by_table: Mapping[str, Sequence[Row]]) -> list[Row]:
    """What a query itself says of the rows, on DuckDB."""
    import duckdb

    for role, rows in rows_by_table.items():
        text = text.replace(f"from {MARK}{role}\n", f"from {_values(rows)}\n")
    text = text.replace(START, DAY).replace(END, NEXT_DAY).replace(NOW, DAY)
    with duckdb.connect() as connection:
        cursor = connection.execute(f"{text}\norder by all")
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _values(rows: Sequence[Row]) -> str:
    names = ", ".join(map(identifier, rows[0]))
    lines = ", ".join(f"({', '.join(_sql(value) for value in row.values())})" for row in rows)
    return f"(values {lines}) as given({names})"


def _sql(value: object) -> str:
    return literal(str(value)) if isinstance(value, str) else str(value)


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | type(None)) else str(value)
