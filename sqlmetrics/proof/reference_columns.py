"""Metrics that look at columns of the items, or of the labels, in plain Python.

A part of `reference`. Metrics over columns of the labels are given what each label is worth where
others are given its grade.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Grades = Sequence[float | None]
Ids = Sequence[str]
Value = float | None


def discount_of(rank: int, rule: str, p: float = 0.8) -> float:
    """What a rank is worth, rank 1 being the best; geometric, p times what the last one was."""
    if rule == "geometric":
        return float(p ** (rank - 1))
    if rule == "log2":
        return 1.0 / math.log2(rank + 1)
    if rule == "log2_max2":
        return 1.0 / math.log2(max(rank, 2))
    if rule == "reciprocal":
        return 1.0 / rank
    return 1.0 if rule == "none" else 1.0 / math.log(rank + 1)


@dataclass(frozen=True)
class Item:
    """What is known of an item."""

    category: str | None = None
    popularity: float | None = None
    users: float | None = None
    vector: Sequence[float] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)


Catalogue = Mapping[str, Item]


def _weighed(
    items: Ids,
    grades: Grades,
    catalogue: Catalogue,
    day: Any,
    *,
    k: int | None,
    column: str,
    min_grade: float,
    discount: str = "none",
    p: float = 0.8,
) -> list[tuple[float, float]]:
    """The values of a column that the items of the top k have, from a grade on, and weights."""
    pairs = enumerate(zip(items[:k], grades[:k], strict=True), start=1)
    counted = ((i, rank) for rank, (i, g) in pairs if not min_grade or (g or 0.0) >= min_grade)
    rows = ((catalogue[i].columns[column], discount_of(rank, discount, p)) for i, rank in counted)
    weighted = ((value, weight) for value, weight in rows if value is not None)
    if not column.startswith("age_"):
        return list(weighted)
    return [(float((day - born).days), weight) for born, weight in weighted]


def _values(*inputs: Any, **settings: Any) -> list[float]:
    return [value for value, _ in _weighed(*inputs, **settings)]


def mean_of(items: Ids, grades: Grades, catalogue: Catalogue, day: Any, **settings: Any) -> Value:
    """Mean of the values of a column, by their weights."""
    values = _weighed(items, grades, catalogue, day, **settings)
    total = math.fsum(weight for _, weight in values)
    return math.fsum(value * weight for value, weight in values) / total if total else None


share_of = mean_of
"""Of 1 for yes and 0 for no."""


def sum_of(items: Ids, grades: Grades, catalogue: Catalogue, day: Any, **settings: Any) -> Value:
    """Sum of the values of a column, times their weights."""
    values = _weighed(items, grades, catalogue, day, **settings)
    return math.fsum(value * weight for value, weight in values)


def median_of(items: Ids, grades: Grades, catalogue: Catalogue, day: Any, **settings: Any) -> Value:
    """The value in the middle of a column, or the mean of the two there."""
    values = sorted(_values(items, grades, catalogue, day, **settings))
    middle = values[(len(values) - 1) // 2 : len(values) // 2 + 1]
    return math.fsum(middle) / len(middle) if middle else None


def exposure_of(
    items: Ids, grades: Grades, catalogue: Catalogue, *, column: str, equal: float, **settings: Any
) -> Value:
    """How far the shares of discounts that groups get are from their targets, halved."""
    sizes = Counter(item.columns[column] for item in catalogue.values())
    del sizes[None]
    total, exposure = sizes.total(), dict.fromkeys(sizes, 0.0)
    for group, weight in _weighed(items, grades, catalogue, None, column=column, **settings):
        exposure[str(group)] += weight
    if not any(exposure.values()):
        return None
    targets = {g: (1 - equal) * sizes[g] / total + equal / len(sizes) for g in sizes}
    total_exposure = math.fsum(exposure.values())
    return math.fsum(abs(exposure[g] / total_exposure - targets[g]) for g in sizes) / 2


def min_of(items: Ids, grades: Grades, catalogue: Catalogue, day: Any, **settings: Any) -> Value:
    """Least value of a column."""
    return min(_values(items, grades, catalogue, day, **settings), default=None)


def max_of(items: Ids, grades: Grades, catalogue: Catalogue, day: Any, **settings: Any) -> Value:
    """Largest value of a column."""
    return max(_values(items, grades, catalogue, day, **settings), default=None)


def value_of_label(grade: float | None, value: Value, rel: float) -> float:
    """What a label is worth by a column: the value of a relevant one, 0 for NULL and for others."""
    return (value or 0.0) if grade is not None and grade >= rel else 0.0


def found_worth(grades: Grades, labels: Grades, *, k: int | None, column: str, rel: float) -> Value:
    """What the labels of the items in the top k are worth."""
    return math.fsum(value or 0.0 for value in grades[:k])


def label_worth(grades: Grades, labels: Grades, **settings: Any) -> Value:
    """What all labels of the query are worth."""
    return math.fsum(value or 0.0 for value in labels)


def recall_of(grades: Grades, labels: Grades, *, k: int, column: str, rel: float) -> Value:
    """What is found / what there is."""
    found_value = found_worth(grades, labels, k=k, column=column, rel=rel)
    total_value = label_worth(grades, labels)
    return found_value / total_value if found_value is not None and total_value else None


def dcg_of(
    grades: Grades,
    labels: Grades,
    *,
    k: int | None,
    column: str,
    rel: float,
    discount: str,
    p: float = 0.8,
) -> Value:
    """DCG whose gains are what the labels are worth."""
    return math.fsum(
        (value or 0.0) * discount_of(rank, discount, p)
        for rank, value in enumerate(grades[:k], start=1)
    )


def best_worth_dcg(grades: Grades, labels: Grades, **settings: Any) -> Value:
    """The same of the labels, those worth most first."""
    return dcg_of(sorted((value or 0.0 for value in labels), reverse=True), labels, **settings)


def ndcg_of(grades: Grades, labels: Grades, **settings: Any) -> Value:
    """DCG / that of the best order."""
    best = best_worth_dcg(grades, labels, **settings)
    value = dcg_of(grades, labels, **settings)
    return value / best if value is not None and best else None


OF_WORTH = {
    *("found_worth", "label_worth", "recall_of", "dcg_of", "best_worth_dcg", "ndcg_of"),
}
"""Metrics that are given what labels are worth where others are given their grades."""

PARTS_OF_WORTH = {
    "recall_of": ("found_worth", "label_worth"),
    "ndcg_of": ("dcg_of", "best_worth_dcg"),
}
"""The numerators and denominators of their micro averages."""
