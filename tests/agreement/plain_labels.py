"""One label of several judges', pair by pair: nothing of the package is used."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, median
from typing import Any

Labels = Sequence[float | None]
"""The grades of one pair, judge by judge."""


def graded(labels: Labels) -> list[float]:
    return [grade for grade in labels if grade is not None]


def majority(labels: Labels) -> float:
    counts = Counter(graded(labels))
    return min(counts, key=lambda grade: (-counts[grade], grade))


SIMPLE = {
    "majority": majority,
    "mean": lambda labels: fmean(graded(labels)),
    "median": lambda labels: median(graded(labels)),
    "first": lambda labels: graded(labels)[0],
}


def posteriors(pairs: Sequence[Labels], n_rounds: int) -> list[dict[float, float]]:
    """Dawid and Skene's chances of the true grades after so many rounds, from shares of votes."""
    grades = sorted({grade for labels in pairs for grade in graded(labels)})
    beliefs = [
        {g: graded(labels).count(g) / len(graded(labels)) for g in grades} for labels in pairs
    ]
    for _ in range(n_rounds):
        shares = {g: max(fmean(belief[g] for belief in beliefs), 1e-10) for g in grades}
        chances = [_chances(pairs, beliefs, judge, grades) for judge in range(len(pairs[0]))]
        beliefs = [_belief(labels, shares, chances) for labels in pairs]
    return beliefs


def _chances(
    pairs: Sequence[Labels],
    beliefs: Sequence[Mapping[float, float]],
    judge: int,
    grades: Sequence[float],
) -> dict[tuple[float, float], float]:
    """(Grade, true grade) -> how often the judge gives it."""
    counts: dict[tuple[float, float], float] = {}
    for labels, belief in zip(pairs, beliefs, strict=True):
        grade = labels[judge]
        if grade is not None:
            for true_grade, chance in belief.items():
                counts[grade, true_grade] = counts.get((grade, true_grade), 0) + chance
    least = {key: max(count, 1e-10) for key, count in counts.items()}
    totals = {g: math.fsum(n for (_, other), n in least.items() if other == g) for g in grades}
    return {(grade, g): count / totals[g] for (grade, g), count in least.items()}


def _belief(
    labels: Labels,
    shares: Mapping[float, float],
    chances: Sequence[Mapping[tuple[float, float], float]],
) -> dict[float, float]:
    logs = {
        g: math.log(share)
        + math.fsum(
            math.log(of_judge[grade, g])
            for grade, of_judge in zip(labels, chances, strict=True)
            if grade is not None
        )
        for g, share in shares.items()
    }
    most = max(logs.values())
    total = math.fsum(math.exp(value - most) for value in logs.values())
    return {g: math.exp(value - most) / total for g, value in logs.items()}


def calibrated(pairs: Sequence[Labels]) -> list[float]:
    """The first judge's grade, else the mean of the others' by the best curve that never falls."""
    return calibrated_apart(pairs, ["all"] * len(pairs))


def calibrated_apart(pairs: Sequence[Labels], groups: Sequence[str]) -> list[float]:
    """The same by the pairs of a group alone; by all where people graded none of it."""
    curves = {}
    for group in {*groups}:
        alike = [labels for labels, other in zip(pairs, groups, strict=True) if other == group]
        for judge in range(1, len(pairs[0])):
            grades = {labels[judge] for labels in alike}
            learnable = any(None not in (labels[0], labels[judge]) for labels in alike)
            curves[group, judge] = curve(alike if learnable else pairs, judge, grades)
    combined = []
    for (first, *other_grades), group in zip(pairs, groups, strict=True):
        expected = [
            curves[group, j][g] for j, g in enumerate(other_grades, start=1) if g is not None
        ]
        combined.append(fmean(expected) if first is None else first)
    return combined


def curve(pairs: Sequence[Labels], judge: int, wanted: Collection[Any] = ()) -> dict[float, float]:
    """Grade -> the largest of the least means of blocks of grades (the min-max formula)."""
    graded_pairs = [
        (labels[judge], labels[0]) for labels in pairs if None not in (labels[judge], labels[0])
    ]
    learned = sorted({grade for grade, _ in graded_pairs})

    def mean(low: float, high: float) -> float:
        return fmean(people for grade, people in graded_pairs if low <= grade <= high)

    at = {
        g: max(min(mean(low, high) for high in learned if high >= g) for low in learned if low <= g)
        for g in learned
    }
    levels = {}
    for grade in {*wanted, *(labels[judge] for labels in pairs)} - {None}:
        below = [g for g in learned if g <= grade] or learned[:1]
        above = [g for g in learned if g >= grade] or learned[-1:]
        low, high = below[-1], above[0]
        step = (grade - low) / (high - low) if high != low else 0
        levels[grade] = at[low] + (at[high] - at[low]) * step
    return levels
