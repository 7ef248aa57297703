"""Abstention: do the scores of a system tell which queries it should not answer?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import connect
from sqlmetrics.evaluation.checks.checks import check_inputs
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.report.result import with_dates
from sqlmetrics.plan.abstention import STEPS, AbstentionQuery
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.reading import AnySpec, spec_of
from sqlmetrics.tables.table import Table, metric_value, printable, segment_cell
from sqlmetrics.tables.tabular import ArrowTables, Tabular

PRINTED_POINTS = {"0%": "at_0", "10%": "at_10", "50%": "at_50", "90%": "at_90"}
"""The points of a curve that are printed."""

LEGEND = """\
0%, 10%, ...: the mean after leaving out that share of the queries, the least
confident first; nauc: 1 if this is as good as leaving out the worst queries,
0 if as good as a random choice, - if all queries have one value"""


@dataclass(frozen=True, repr=False)
class Abstention(Tabular):
    """How well confidences computed from scores tell bad queries; it prints as a table.

    Attributes:
        metrics: One row per day, system, segment, metric and confidence (max, std, diff1), over
            the queries with a value: nauc (at most 1; NULL where all values are equal), the
            areas auc, flat and oracle below the curve from 0 to .9, n_queries, and the curve
            itself, at_0 to at_90: the metric's mean where so many percent of the queries are
            left out.
    """

    metrics: pa.Table

    def _arrow_tables(self) -> ArrowTables:
        return {"metrics": lambda: self.metrics}

    def _blocks(self) -> Iterator[Table]:
        rows = self.metrics.to_pylist()
        has_days = len({row.get("metric_date") for row in rows}) > 1
        has_segments = any(row["segment_name"] != ALL for row in rows)
        kinds = [*["date"] * has_days, *["segment"] * has_segments]
        first = [*kinds, "system", "metric", "confidence"]
        cells = [[*_texts(row, has_days, has_segments), *_numbers(row)] for row in rows]
        names = [*first, "nauc", *PRINTED_POINTS, "queries"]
        yield Table(names, cells, len(first), notes=LEGEND.splitlines())


def _texts(row: dict[str, Any], has_days: bool, has_segments: bool) -> Iterator[str]:
    if has_days:
        yield printable(row["metric_date"])
    if has_segments:
        yield segment_cell(row["segment_name"], row["segment_value"])
    yield printable(row["system"])
    yield at_cutoff(row["metric"], row["k"])
    yield row["confidence"]


def _numbers(row: dict[str, Any]) -> Iterator[str]:
    yield from (metric_value(row[name]) for name in ("nauc", *PRINTED_POINTS.values()))
    yield f"{row['n_queries']:,}"


def abstention(spec: AnySpec, connection: Any = None, *, check: bool | float = True) -> Abstention:
    """Measure how well scores tell which queries should not be answered: nAUC, as in MTEB.

    Args:
        spec: The spec, such as `result.spec`, or its path. Its metrics that are means over queries
            and have a direction (higher or lower is better) are measured.
        connection: The database that holds the tables; see `evaluate`.
        check: Whether to check the input before the evaluation.

    Raises:
        SpecError: If the rankings have ranks but no scores, queries have weights, or no metric is a
            mean over queries.
        SqlmetricsError: The errors that `evaluate` raises.
    """
    spec = spec_of(spec)
    with connect(connection) as engine, engine.reading():
        plan = make_plan(spec, opened(spec, engine))
        text = AbstentionQuery(plan).text()
        if check:
            check_inputs(plan, engine)
        answer = engine.table(text)
    return Abstention(_typed(answer))


def _typed(table: pa.Table) -> pa.Table:
    """The rows with the types that they have from every database."""
    table = with_dates(table)
    texts = ("system", "segment_name", "segment_value", "metric", "confidence")
    types = {name: pa.string() for name in texts} | {"k": pa.int64(), "n_queries": pa.int64()}
    numbers = ("nauc", "auc", "flat", "oracle", *(f"at_{10 * tenth}" for tenth in STEPS))
    types |= {name: pa.float64() for name in numbers}
    columns = [
        table[name].cast(types[name]) if name in types else table[name]
        for name in table.column_names
    ]
    return pa.table(columns, table.column_names)
