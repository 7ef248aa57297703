"""A histogram of lists as tables, evaluated by the SQL of every other evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlmetrics.catalog.measure import parse_beside
from sqlmetrics.catalog.metric_files import MetricFiles
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.spec import Spec

if TYPE_CHECKING:
    from sqlmetrics.evaluation.streaming.histogram import Histogram

Sums = dict[str, tuple[float, float]]
"""Metric -> the sum of its weighted values, and of the weights."""

WORDS = 4
"""Numbers of an entry in the key of a list: above, tied, grade, before."""


def refuse(
    metrics: Sequence[str], files: MetricFiles, average: str | Sequence[str] | None = None
) -> None:
    """Raise SpecError for metrics that are no means over queries.

    Args:
        metrics: Their texts.
        files: Where those of the user's own are.
        average: What a metric is, whose text does not say it; one or several, None for a mean.
    """
    averages = [average] if isinstance(average, str) else [*(average or ())]
    for text, average_name in product(metrics, averages or ["macro"]):
        measure = parse_beside(text, files.metrics)
        if "average" in measure.metric.settings and measure.setting("average") is None:
            measure = measure.having("average", average_name)
        metric = measure.metric
        reasons = {
            f"is {measure.no_mean} of the values of queries": bool(measure.no_mean),
            "is a number for all lists together": metric.pooled,
            "is a count": metric.count,
            "needs more than scores and labels": metric.needs
            or any(part.metric.over == "item_features" for part in measure.components),
        }
        for reason, applies in reasons.items():
            if applies:
                raise SpecError(
                    f"{text} {reason}; StreamingMetric computes means over queries, like ndcg@10, "
                    "recall@50, mrr"
                )


def deepest(spec: Spec) -> int:
    """The largest cutoff, if behind it only what labels there are counts; else 0."""
    for measure in spec.measures:
        settings, metric = spec.settings(measure), measure.metric
        if not measure.k or metric.every_item or metric.template:
            return 0
        if settings.parameter("rel") <= 0:
            return 0
        if settings["depth"] != "none" or settings["unjudged"] not in ("nonrelevant", "error"):
            return 0
    return max(int(measure.k or 0) for measure in spec.measures)


def evaluated(spec: Spec, histogram: Histogram) -> dict[str, tuple[float, float]]:
    """Metric -> the sum of its weighted values, and of the weights; nothing if there is no list."""
    sums: dict[str, tuple[float, float]] = {}
    blocks: dict[bool, list[tuple[Any, Any]]] = {False: [], True: []}
    for keys, weights in histogram.blocks():
        tied = (keys[:, 2::WORDS] > 1).any(1)
        for has_ties, selected in ((False, ~tied), (True, tied)):
            if selected.any():
                blocks[has_ties].append((keys[selected], weights[selected]))
    for has_ties, parts in blocks.items():
        if parts:  # without ties no rule for them, which may cost four times as much
            rule = {} if has_ties else {"ties": "id_asc"}
            sums = added(sums, _summed(spec, parts, rule))
    return sums


def added(sums: Sums, other_sums: Sums) -> Sums:
    """Sums of two parts together."""
    none = (0.0, 0.0)
    pairs = {
        name: (sums.get(name, none), other_sums.get(name, none)) for name in {**sums, **other_sums}
    }
    return {name: (a[0] + b[0], a[1] + b[1]) for name, (a, b) in pairs.items()}


def _summed(spec: Spec, parts: list[tuple[Any, Any]], rule: dict[str, Any]) -> Sums:
    from sqlmetrics.evaluation.evaluate import evaluate

    rankings, labels, queries = _tables(parts)
    result = evaluate(
        rankings,
        labels,
        [measure.text for measure in spec.measures],
        metrics_from=spec.metrics_from,
        preset=spec.preset,
        queries=queries,
        weight="weight",
        check=False,
        per_query=False,
        **{**spec.conventions, **rule},
    )
    rows = result.summary().to_pylist()
    sums = [(row["numerator"] or 0.0, row["denominator"] or 0.0) for row in rows]
    # No rows at all: no query has a label, and queries without one do not count.
    return {str(measure): pair for measure, pair in zip(spec.measures, sums, strict=bool(sums))}


def _tables(blocks: list[tuple[Any, Any]]) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Rankings, labels and queries: each different list is a query, with its count as weight."""
    import numpy as np

    starts = np.cumsum([0, *(len(keys) for keys, _ in blocks)])
    parts = [(first, *_items(keys)) for first, (keys, _) in zip(starts[:-1], blocks, strict=True)]
    weight = np.concatenate([weights for _, weights in blocks])
    query = np.concatenate([first + list_index for first, list_index, *_ in parts])
    item, score, grade = (
        np.concatenate(columns) for columns in zip(*(part[2:] for part in parts), strict=True)
    )
    rankings = pa.table({"query_id": query, "item_id": item, "score": score})
    has = ~np.isnan(grade)
    missed = [(first, *_missed(keys)) for first, (keys, _) in zip(starts[:-1], blocks, strict=True)]
    labels = pa.table(
        {
            "query_id": np.concatenate(
                [query[has], *(first + list_index for first, list_index, *_ in missed)]
            ),
            "item_id": np.concatenate([item[has], *(part[2] for part in missed)]),
            "grade": np.concatenate([grade[has], *(part[3] for part in missed)]),
        }
    )
    queries = pa.table({"query_id": np.arange(len(weight)), "weight": weight})
    return rankings, labels, queries


def _items(keys: Any) -> tuple[Any, Any, Any, Any]:
    """The items of lists with equally many entries: list, place, score and grade of each."""
    import numpy as np

    length = keys[:, 0].astype(np.int64)
    start = np.cumsum(length) - length
    list_index = np.repeat(np.arange(len(keys)), length)
    position = np.arange(length.sum()) - start[list_index]
    score, grade = -position.astype(np.float64), np.zeros(len(position))
    n_entries = (keys.shape[1] - 1) // WORDS
    entries = keys[:, 1:].reshape(len(keys), n_entries, WORDS)
    for number in range(n_entries):
        above, tied, before = (entries[:, number, column].astype(np.int64) for column in (0, 1, 3))
        has = above < length
        grade[(start + above + before)[has]] = entries[has, number, 2]
        for extra in range(1, int(tied.max(initial=1))):
            among = has & (tied > extra)
            score[(start + above + extra)[among]] = -above[among]
    return list_index, position, score, grade


def _missed(keys: Any) -> tuple[Any, Any, Any]:
    """Labels of items that lists do not have: the list, an item, the grade of each."""
    import numpy as np

    n_entries = (keys.shape[1] - 1) // WORDS
    entries = keys[:, 1:].reshape(len(keys), n_entries, WORDS)
    list_index, number = np.nonzero(entries[:, :, 0] >= keys[:, :1])
    return (
        list_index,
        (keys[list_index, 0] + number).astype(np.int64),
        entries[list_index, number, 2],
    )
