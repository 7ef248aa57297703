"""Rows -> what a person or a program reads. A result knows no SQL but the text that ran."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pyarrow as pa

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.spec import Spec

KEYS = ("metric_date", "system", "query_id")


@dataclass(frozen=True, repr=False)
class Result:
    """The numbers of an evaluation.

    It prints as a table, also in a notebook. `result["ndcg@10"]` is a float if there is
    one system, no segment and no date, else the result of that metric alone; `dict(result)`
    has them all under their names.

    Attributes:
        spec: What was asked.
        measures: The metrics it holds.
        sql: The statements that ran, as one script.
        notes: Sentences about the input that a reader should know.
        list_keys: What a ranked list is identified by in the input.
    """

    spec: Spec
    measures: tuple[Measure, ...]
    sql: str
    notes: tuple[str, ...]
    list_keys: tuple[str, ...]
    _summary: pa.Table
    _per_query: pa.Table | None

    def __getitem__(self, text: str) -> float | Result | None:
        """One metric, in any spelling.

        Returns:
            Its value if it has one row (None if no query counted), else a `Result`.

        Raises:
            KeyError: If it is not among the result's metrics.
            SpecError: If the text is no metric.
        """
        measure = self.spec.measure(text)
        if measure not in self.measures:
            known = ", ".join(str(one) for one in self.measures)
            raise KeyError(f"{measure} was not computed; there are {known}")
        import pyarrow.compute as pc

        mine = (pc.field("metric") == measure.name) & (pc.field("k") == (measure.k or 0))
        rows = self._summary.filter(mine)
        if self._is_one:
            return rows["value"][0].as_py() if rows.num_rows else None
        others = [one.column for one in self.measures if one != measure and not one.metric.pooled]
        return replace(
            self,
            measures=(measure,),
            _summary=rows,
            _per_query=None if self._per_query is None else self._per_query.drop_columns(others),
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.measures)

    def keys(self) -> list[str]:
        """The names of the metrics."""
        return [str(one) for one in self.measures]

    @property
    def _is_one(self) -> bool:
        """Whether there is one system, one day and no segment, so that a value says it all."""
        distinct = (set(self._summary[key].to_pylist()) for key in ("system", "metric_date"))
        return not self.spec.by and all(len(values) <= 1 for values in distinct)

    def summary(self) -> pa.Table:
        """One row per metric, day, system and segment: the fact table's columns.

        value = numerator / denominator; both are NULL for counts, whose value is a
        total, and for metrics of all lists together, like auc, which cannot be added up.
        n_queries were counted; n_skipped were left out because the metric is undefined
        for them (or, averaged over hits, has none), or because they add no row to a metric
        of all lists together; n_missing have a label but no ranking (with missing=zero
        they are counted as empty lists).
        """
        return self._summary

    def per_query(self) -> pa.Table:
        """One row per query: [metric_date,] system, query_id, one column per metric.

        NULL where the query is left out of the metric's mean. A metric of all lists
        together has no column. The rows are in the order of those keys.

        Raises:
            SpecError: If the evaluation was asked not to fetch it.
        """
        if self._per_query is None:
            raise SpecError("the per-query table was not fetched; evaluate with per_query=True")
        keys = [key for key in KEYS if key in self._per_query.column_names]
        return self._per_query.sort_by([(key, "ascending") for key in keys])

    def to_dicts(self) -> list[dict[str, Any]]:
        """The summary as a list of dicts."""
        return self._summary.to_pylist()  # type: ignore[no-any-return]

    def to_pandas(self) -> Any:
        """The summary as a pandas DataFrame."""
        return self._summary.to_pandas()

    def to_polars(self) -> Any:
        """The summary as a polars DataFrame."""
        import polars as pl

        return pl.from_arrow(self._summary)

    def __repr__(self) -> str:
        from sqlmetrics.evaluation.report import text as report

        return report.text(self)

    def _repr_html_(self) -> str:
        from sqlmetrics.evaluation.report import text as report

        return report.html(self)


def in_order(summary: pa.Table, measures: Sequence[Measure]) -> pa.Table:
    """The summary by day, segment (`all` first), metric and system, as it is read."""
    place = {(measure.name, measure.k or 0): i for i, measure in enumerate(measures)}
    names = ("metric_date", "segment_name", "segment_value", "metric", "k", "system")
    rows = list(zip(*(summary[name].to_pylist() for name in names), strict=True))

    def key(row: int) -> tuple[Any, ...]:
        date, segment, value, metric, k, system = rows[row]
        return date, segment != "all", segment, value, place[metric, k], system

    order = array("q", sorted(range(len(rows)), key=key))
    # pa.array would import pandas, where it is installed: a fifth of a second
    indices = pa.Array.from_buffers(pa.int64(), len(order), [None, pa.py_buffer(order)])
    return summary.take(indices)


def with_hashes(summary: pa.Table, hashes: Mapping[tuple[str, int], str]) -> pa.Table:
    """The summary with the column `definition_hash`.

    Args:
        summary: One row per metric, system and segment.
        hashes: Metric and cutoff -> the hash of what they mean.
    """
    pairs = zip(summary["metric"].to_pylist(), summary["k"].to_pylist(), strict=True)
    texts = [hashes[pair].encode() for pair in pairs]
    ends = array("i", accumulate(map(len, texts), initial=0))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    column = pa.Array.from_buffers(pa.string(), len(texts), buffers)
    return summary.append_column("definition_hash", column)


def with_dates(table: pa.Table) -> pa.Table:
    """The table with days as dates, where the database has them as texts."""
    if "metric_date" not in table.column_names or pa.types.is_date32(table["metric_date"].type):
        return table
    index = table.column_names.index("metric_date")
    return table.set_column(index, "metric_date", table["metric_date"].cast(pa.date32()))
