"""Lists with many labels as sums over places, where metrics are sums: nearly no two are alike.

A histogram of such lists grows with each batch. But NDCG@k is a list's DCG@k over that of its
labels in the best order; recall, precision, hit and reciprocal rank are as simple. So it is enough
to sum, for each place and label, the weights of the lists that have this label there. What a label
is worth at a place, and what the best order is worth, is asked of the SQL of every evaluation: of
lists with one label, and of all best orders that there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
import pyarrow as pa

from sqlmetrics.catalog.measure import Measure, parse
from sqlmetrics.evaluation.streaming.lists import FEW, Array
from sqlmetrics.evaluation.streaming.table import Sums
from sqlmetrics.spec.spec import Spec

OF_ALL = ("ndcg", "recall", "precision")
"""Metrics that are sums over the labels of a list, divided by what does not hang on their order."""

OF_FIRST = ("hit", "mrr")
"""Metrics that look at the first relevant item alone."""

GAINS = ("exp", "linear")
FREE = ("ties", "score_precision", "gain", "discount", "no_relevant")
"""Conventions that may differ from the usual ones."""

HIGHEST = 15
"""The highest label; all are whole numbers."""

ORDERS = 25_000
"""As many best orders are asked for; with more labels or places, lists are counted as such."""


BLOCK = 80_000
"""As many items are ranked at a time: what fits into the cache of a processor is twice as fast."""


@dataclass(frozen=True)
class _Contributions:
    """What labels are worth, by the SQL.

    Attributes:
        highest: The highest label that is known.
        single: Metric -> [places, labels]: its value for a list with this label there alone; of
            ndcg the DCG.
        best: Metric -> the DCG of a best order by its code, of ndcg alone.
        counts: Metric -> whether a list without a relevant label counts, as 0.
    """

    highest: int
    single: dict[str, Array]
    best: dict[str, Array]
    counts: dict[str, bool]


class PlaceSums:
    """Weights of labels by place, and of lists.

    Args:
        spec: What is evaluated.
        deepest: The largest cutoff; 0 for none.
    """

    def __init__(self, spec: Spec, deepest: int) -> None:
        self._spec, self._depth = spec, deepest
        self._fits = bool(deepest) and _are_sums(spec)
        self._contributions: _Contributions | None = None
        size = (deepest, HIGHEST + 1)
        self._weights = {str(measure): np.zeros(size) for measure in spec.measures if self._fits}
        self._lists = dict.fromkeys(self._weights, 0.0)

    def take(
        self, scores: Array, grades: Array, present: Array | None, weight: Array
    ) -> Array | None:
        """Sum up lists as far as they can be.

        Args:
            scores: [lists, items].
            grades: The same shape.
            present: The same shape, False where a row has no item; None if it has one everywhere.
            weight: [lists].

        Returns:
            [lists], which ones were taken; None if none was. The others have ties, or few items.
        """
        if not self._fits or np.count_nonzero(grades) <= FEW * len(grades):
            return None
        if present is not None:  # what is not there stands last, in lists of few items as ties
            if scores.dtype.kind != "f":
                return None
            scores, grades = np.where(present, scores, -np.inf), np.where(present, grades, 0)
        if not (grades.min() >= 0 and grades.max() <= HIGHEST):
            return None  # so it is for NaN
        labels = grades.astype(np.int8)
        if not (labels == grades).all():
            return None
        label_values = self._worth_up_to(int(labels.max()))
        if label_values is None:
            return None
        rows = max(1, BLOCK // scores.shape[1])
        parts = [slice(first, first + rows) for first in range(0, len(scores), rows)]
        return np.concatenate(
            [self._ranked(label_values, scores[part], labels[part], weight[part]) for part in parts]
        )

    def _ranked(
        self, label_values: _Contributions, scores: Array, labels: Array, weight: Array
    ) -> Array:
        is_untied, labels, ranked_labels = _ranked(scores, labels, self._depth)
        if not is_untied.all():
            weight = weight[is_untied]
        self._add(label_values, ranked_labels, _counts(labels, label_values.highest), weight)
        return is_untied

    def _add(
        self, label_values: _Contributions, ranked_labels: Array, counts: list[Array], weight: Array
    ) -> None:
        """Sum up.

        Args:
            label_values: What labels are worth.
            ranked_labels: [lists, places], the labels by rank.
            counts: Of each label from 1 on, how many a list has, [lists].
            weight: [lists].
        """
        n_relevant = np.sum(counts, axis=0)
        has_relevant = n_relevant > 0
        for measure in self._spec.measures:
            name, cells = str(measure), self._weights[str(measure)]
            self._lists[name] += float(
                weight.sum() if label_values.counts[name] else weight @ has_relevant
            )
            if measure.name in OF_FIRST:
                relevant = ranked_labels > 0
                first, has_hit = relevant.argmax(1), relevant.any(1)
                cells[:, 1] += np.bincount(first[has_hit], weight[has_hit], len(cells))
                continue
            if measure.name == "ndcg":
                by = label_values.best[name][_codes(counts, measure.k or 0)]
            else:
                by = n_relevant if measure.name == "recall" else np.ones(len(weight))
            share = np.divide(weight, by, out=np.zeros(len(weight)), where=has_relevant)
            labels = range(1, label_values.highest + 1) if measure.name == "ndcg" else (1,)
            for label in labels:
                has = ranked_labels == label if measure.name == "ndcg" else ranked_labels > 0
                cells[: ranked_labels.shape[1], label] += share @ has

    def sums(self) -> Sums:
        """Metric -> the sum of its weighted values, and of the weights; nothing without lists."""
        if self._contributions is None:
            return {}
        size = self._contributions.highest + 1
        return {
            name: (
                float((cells[:, :size] * self._contributions.single[name]).sum()),
                self._lists[name],
            )
            for name, cells in self._weights.items()
        }

    def merge(self, other: PlaceSums) -> None:
        """Sum up what another one has, too."""
        if other._contributions is None:
            return
        if (
            self._contributions is None
            or self._contributions.highest < other._contributions.highest
        ):
            self._contributions = other._contributions
        for name, cells in other._weights.items():
            self._weights[name] = self._weights[name] + cells
            self._lists[name] += other._lists[name]

    def _worth_up_to(self, highest: int) -> _Contributions | None:
        """What labels up to one are worth; None if there are too many orders of them."""
        if self._contributions is None or self._contributions.highest < highest:
            cutoffs = [measure.k or 0 for measure in self._spec.measures if measure.name == "ndcg"]
            if cutoffs and comb(max(cutoffs) + highest, highest) > ORDERS:
                return None
            self._contributions = _contributions(self._spec, self._depth, highest)
        return self._contributions


def _are_sums(spec: Spec) -> bool:
    """Whether all metrics are sums over places, by the conventions."""
    usual = Spec(rankings={"relation": "rankings"}, labels={"relation": "labels"}, metrics=["mrr"])
    same = all(
        spec.options[name] == value for name, value in usual.options.items() if name not in FREE
    )
    return (
        same
        and spec.options["gain"] in GAINS
        and all(
            measure.name in (*OF_ALL, *OF_FIRST) and str(measure) == f"{measure.name}@{measure.k}"
            for measure in spec.measures
        )
    )


def _ranked(scores: Array, labels: Array, depth: int) -> tuple[Array, Array, Array]:
    """[lists], those in which no tie hides the order; their labels, and [lists, depth] by rank."""
    is_untied = np.ones(len(scores), bool)
    count = min(depth + 1, scores.shape[1])  # a tie may begin at the last place
    best, ranked_labels = scores, labels
    if count < scores.shape[1]:
        # the bound of the first places is found much faster than the places themselves
        high = scores >= np.partition(scores, -count, axis=1)[:, -count][:, None]
        is_untied = np.count_nonzero(high, axis=1) == count
        if not is_untied.all():
            scores, labels, high = scores[is_untied], labels[is_untied], high[is_untied]
        flat_index = np.flatnonzero(high)
        best, ranked_labels = (
            values.ravel().take(flat_index).reshape(-1, count) for values in (scores, labels)
        )
    order = np.argsort(-best, axis=1)
    best, ranked_labels = (np.take_along_axis(values, order, 1) for values in (best, ranked_labels))
    clear = (best[:, 1:] != best[:, :-1]).all(1)
    if not clear.all():
        is_untied[is_untied], labels, ranked_labels = clear, labels[clear], ranked_labels[clear]
    return is_untied, labels, ranked_labels[:, :depth]


def _counts(labels: Array, highest: int) -> list[Array]:
    """Of each label from 1 on, how many a list has, [lists]."""
    return [np.count_nonzero(labels == label, axis=1) for label in range(1, highest + 1)]


def _codes(counts: list[Array], k: int) -> Array:
    """[lists], a number for the best order of the first k labels of each."""
    remaining, code = np.full(len(counts[0]), k), np.zeros(len(counts[0]), np.int64)
    for index in range(len(counts) - 1, -1, -1):  # the highest label first
        n_taken = np.minimum(counts[index], remaining)
        remaining -= n_taken
        code += n_taken * (k + 1) ** index
    return code


def _contributions(spec: Spec, depth: int, highest: int) -> _Contributions:
    """Ask the SQL for lists with one label, for one without, and for best orders."""
    labels = highest + 1
    single = np.zeros((depth * labels + 1, depth))
    position, label = np.divmod(np.arange(depth * labels), labels)
    single[np.arange(len(position)), position] = label
    plain = [_summed(measure) for measure in spec.measures]
    values_by_metric = _values(spec, single, [*plain, *spec.measures])
    single_label = {
        str(measure): np.nan_to_num(values_by_metric[str(text)][:-1]).reshape(depth, labels)
        for measure, text in zip(spec.measures, plain, strict=True)
    }
    counts = {
        str(measure): not np.isnan(values_by_metric[str(measure)][-1]) for measure in spec.measures
    }
    best = {}
    for measure in spec.measures:
        if measure.name == "ndcg":
            k = measure.k or 0
            orders = np.array([*combinations_with_replacement(range(highest, -1, -1), k)], float)
            dcg = _values(spec, orders, [_summed(measure)])[str(_summed(measure))]
            best_dcg = np.zeros((k + 1) ** highest)
            best_dcg[_codes(_counts(orders, highest), k)] = np.nan_to_num(dcg)
            best[str(measure)] = best_dcg
    return _Contributions(highest, single_label, best, counts)


def _summed(measure: Measure) -> Measure:
    """What is summed over places."""
    return parse(f"dcg@{measure.k}") if measure.name == "ndcg" else measure


def _values(spec: Spec, lists: Array, measures: list[Measure]) -> dict[str, Any]:
    """Metric -> [lists], its value for lists of labels in their order; NaN where it has none."""
    from sqlmetrics.evaluation.evaluate import evaluate

    query = np.repeat(np.arange(len(lists)), lists.shape[1])
    item = np.tile(np.arange(lists.shape[1]), len(lists))
    ids = {"query_id": query, "item_id": item}
    rows = evaluate(
        pa.table({**ids, "score": -item.astype(float)}),
        pa.table({**ids, "grade": lists.ravel()}),
        list(dict.fromkeys(measure.text for measure in measures)),
        preset=spec.preset,
        check=False,
        **{**spec.conventions, "ties": "id_asc"},
    ).per_query()
    query_index = np.array([int(query_id) for query_id in rows["query_id"].to_pylist()])
    values_by_metric = {}
    for measure in measures:
        values = np.full(len(lists), np.nan)
        values[query_index] = rows[measure.column].to_numpy(zero_copy_only=False).astype(float)
        values_by_metric[str(measure)] = values
    return values_by_metric
