"""Coefficients of agreement pair by pair, from their formulas: nothing of the package is used."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from statistics import fmean

Labels = Sequence[float | None]
"""The grades of one pair, judge by judge."""

Weight = Callable[[float, float], float]


def weight_of(name: str, scale: Sequence[float]) -> Weight:
    """What two grades count as agreement."""
    span = max(scale) - min(scale)
    power = {"": 0, "linear": 1, "quadratic": 2}[name]
    if not power:
        return lambda a, b: float(a == b)
    return lambda a, b: 1 - (abs(a - b) / span) ** power


def beyond(observed: float, chance: float) -> float:
    return (observed - chance) / (1 - chance) if 1 - chance > 1e-12 else math.nan


def observed(pairs: Sequence[Labels], weight: Weight) -> float:
    """The mean over pairs of the agreement of two of its labels."""
    graded = [[g for g in pair if g is not None] for pair in pairs]
    return fmean(
        fmean(weight(a, b) for a, b in permutations(labels, 2))
        for labels in graded
        if len(labels) > 1
    )


def cohen(pairs: Sequence[Labels], weight: Weight) -> float:
    """Of the two judges of each pair."""
    complete = [(a, b) for a, b in pairs if a is not None and b is not None]
    chance = fmean(weight(a, b) for a, _ in complete for _, b in complete)
    return beyond(fmean(weight(a, b) for a, b in complete), chance)


def shares(pairs: Sequence[Labels], scale: Sequence[float]) -> dict[float, float]:
    """How often each grade is given to a pair, in the mean over pairs."""
    graded = [[g for g in pair if g is not None] for pair in pairs]
    return {grade: fmean(g.count(grade) / len(g) for g in graded if g) for grade in scale}


def fleiss(pairs: Sequence[Labels], scale: Sequence[float]) -> float:
    part = shares(pairs, scale)
    return beyond(observed(pairs, weight_of("", scale)), sum(p * p for p in part.values()))


def gwet(pairs: Sequence[Labels], scale: Sequence[float], weight: Weight) -> float:
    q = len(scale)
    total = sum(weight(a, b) for a in scale for b in scale)
    spread = sum(p * (1 - p) for p in shares(pairs, scale).values())
    return beyond(observed(pairs, weight), total / (q * (q - 1)) * spread)


def alpha(pairs: Sequence[Labels], level: str) -> float:
    """Krippendorff's, from disagreement within pairs and between all labels."""
    graded = [[g for g in pair if g is not None] for pair in pairs]
    graded = [labels for labels in graded if len(labels) > 1]
    every = [g for labels in graded for g in labels]
    counts = Counter(every)

    def distance(a: float, b: float) -> float:
        if level == "nominal":
            return float(a != b)
        if level == "interval":
            return (a - b) ** 2
        low, high = min(a, b), max(a, b)
        between = sum(n for grade, n in counts.items() if low <= grade <= high)
        return (between - (counts[a] + counts[b]) / 2) ** 2 if a != b else 0.0

    within = math.fsum(
        distance(a, b) / (len(labels) - 1) for labels in graded for a, b in permutations(labels, 2)
    ) / len(every)
    chance = math.fsum(
        n * m * distance(a, b) for a, n in counts.items() for b, m in counts.items()
    ) / (len(every) * (len(every) - 1))
    return 1 - within / chance if chance else math.nan


def coefficients(pairs: Sequence[Labels], scale: Sequence[float]) -> dict[str, float]:
    """All of them; Cohen's where there are two judges."""
    weights = {name: weight_of(name, scale) for name in ("", "linear", "quadratic")}
    values = {"agreement": observed(pairs, weights[""]), "fleiss_kappa": fleiss(pairs, scale)}
    if len(pairs[0]) == 2:
        for name, weight in weights.items():
            values["_".join(filter(None, ("cohen_kappa", name)))] = cohen(pairs, weight)
    for level in ("nominal", "ordinal", "interval"):
        values[f"alpha_{level}"] = alpha(pairs, level)
    for name, weight in weights.items():
        values[f"ac2_{name}" if name else "ac1"] = gwet(pairs, scale, weight)
    return values
