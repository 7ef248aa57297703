"""A histogram of lists as tables, evaluated by the SQL of every other evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlmetrics.errors import SpecError
from sqlmetrics.spec.spec import Spec

if TYPE_CHECKING:
    from sqlmetrics.evaluation.streaming.histogram import Histogram

WHOLE_LIST = ("described", "compared", "pairs")
"""What metrics are over that look at every item, or that need more than scores and labels."""


def refuse(spec: Spec) -> None:
    """Raise SpecError for metrics that are no means over queries."""
    for measure in spec.measures:
        metric = measure.metric
        if metric.pooled or metric.count or metric.needs:
            why = (
                "is a number of all lists together"
                if metric.pooled
                else "is a count"
                if metric.count
                else f"needs {', '.join(metric.needs)}"
            )
            raise SpecError(
                f"{measure} {why}; StreamingMetric takes means over queries, like ndcg@10, "
                "recall@50, mrr"
            )


def longest(spec: Spec) -> int:
    """The place behind which items with label 0 count nowhere; 0 if every item may count."""
    for measure in spec.measures:
        settings = spec.settings(measure)
        rel = measure.setting("rel")
        zero_counts = isinstance(settings.get("gain"), Mapping) or (
            rel is not None and float(str(rel)) <= 0
        )
        if measure.k is None or measure.metric.every_item or zero_counts:
            return 0
        if measure.metric.over in WHOLE_LIST:
            return 0
    return max(int(measure.k or 0) for measure in spec.measures)


def evaluated(spec: Spec, histogram: Histogram) -> dict[str, tuple[float, float]]:
    """Metric -> the sum of its weighted values, and of the weights; nothing if there is no list."""
    from sqlmetrics.evaluation.evaluate import evaluate

    tables = _tables(histogram)
    if tables is None:
        return {}
    rankings, labels, queries = tables
    result = evaluate(
        rankings,
        labels,
        [str(one) for one in spec.measures],
        preset=spec.preset,
        queries=queries,
        weight="weight",
        check=False,
        per_query=False,
        **spec.conventions,  # type: ignore[arg-type]
    )
    rows = result.summary().to_pylist()
    sums = [(row["numerator"] or 0.0, row["denominator"] or 0.0) for row in rows]
    return {str(one): pair for one, pair in zip(spec.measures, sums, strict=True)}


def _tables(histogram: Histogram) -> tuple[pa.Table, pa.Table, pa.Table] | None:
    """Rankings, labels and queries: each different list is a query, with its count as weight."""
    import numpy as np

    weights: list[Any] = []
    parts: list[tuple[Any, ...]] = []
    known = 0
    for keys, counts in histogram.blocks():
        weights.append(counts)
        parts.append((known, *_items(keys)))
        known += len(keys)
    if not known:
        return None
    query = np.concatenate([first + of for first, of, *_ in parts])
    item, score, grade = (
        np.concatenate(columns) for columns in zip(*(part[2:] for part in parts), strict=True)
    )
    rankings = pa.table({"query_id": query, "item_id": item, "score": score})
    has = ~np.isnan(grade)
    labels = pa.table({"query_id": query[has], "item_id": item[has], "grade": grade[has]})
    queries = pa.table({"query_id": np.arange(known), "weight": np.concatenate(weights)})
    return rankings, labels, queries


def _items(keys: Any) -> tuple[Any, Any, Any, Any]:
    """The items of lists with equally many entries: list, place, score and grade of each."""
    import numpy as np

    length = keys[:, 0].astype(np.int64)
    start = np.cumsum(length) - length
    of = np.repeat(np.arange(len(keys)), length)
    place = np.arange(length.sum()) - start[of]
    score, grade = -place.astype(np.float64), np.zeros(len(place))
    n_entries = (keys.shape[1] - 1) // 3
    entries = keys[:, 1:].reshape(len(keys), n_entries, 3)
    within = np.zeros(len(keys), np.int64)
    for number in range(n_entries):
        above, tied = (entries[:, number, column].astype(np.int64) for column in (0, 1))
        if number:
            same = above == entries[:, number - 1, 0]
            within = np.where(same, within + 1, 0)
        grade[start + above + within] = entries[:, number, 2]
        for extra in range(1, int(tied.max(initial=1))):
            among = tied > extra
            score[(start + above + extra)[among]] = -above[among]
    return of, place, score, grade
