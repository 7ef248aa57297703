"""Agreement and bias of two judges by segment, with intervals over queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlmetrics.agreement.counts import GRADE, SYSTEM
from sqlmetrics.catalog.option import plain
from sqlmetrics.plan.summary import ALL
from sqlmetrics.stats import NOISE
from sqlmetrics.stats.estimate import Estimate, ratio_of_sums
from sqlmetrics.tables.tabular import Row

Pattern = tuple[float | None, ...]
Counted = tuple[str, str, str, Pattern, int]
"""Segment, its value, unit, the grade of each judge, and how many pairs."""


@dataclass
class _Sums:
    """Of each unit: pairs, pairs with equal grades, and the sum of differences of grades."""

    units: dict[str, list[float]] = field(default_factory=dict)

    def add(self, unit: str, grade: float, other: float, count: int) -> None:
        sums = self.units.setdefault(unit, [0.0, 0.0, 0.0])
        sums[0] += count
        sums[1] += count * (grade == other)
        sums[2] += count * (other - grade)

    @property
    def n_pairs(self) -> float:
        return math.fsum(sums[0] for sums in self.units.values())

    def mean(self, index: int) -> Estimate:
        """The mean over pairs of agreement (1) or of the difference (2)."""
        values = self.units.values()
        weight = self.n_pairs
        return ratio_of_sums(
            math.fsum(sums[index] for sums in values) / weight,
            len(values),
            w=weight,
            x2=math.fsum(sums[index] ** 2 for sums in values),
            xw=math.fsum(sums[index] * sums[0] for sums in values),
            w2=math.fsum(sums[0] ** 2 for sums in values),
        )

    def change(self, first: _Sums) -> Estimate:
        """By how much the mean difference is above that of other pairs of the same queries."""
        units = sorted({*self.units, *first.units})
        influences = []
        for sums in (self, first):
            mean, weight, none = sums.mean(2).value, sums.n_pairs, [0.0, 0.0, 0.0]
            of_units = (sums.units.get(unit, none) for unit in units)
            influences.append([(total - mean * n) / weight for n, _, total in of_units])
        squares = math.fsum((x - y) ** 2 for x, y in zip(*influences, strict=True))
        value = self.mean(2).value - first.mean(2).value
        if len(units) < 2:
            return Estimate(value, None, 0)
        n_units = len(units)
        scale = math.fsum(x * x for values in influences for x in values)
        error = 0.0 if squares <= NOISE * scale else math.sqrt(squares * n_units / (n_units - 1))
        return Estimate(value, error, n_units - 1)


def segment_rows(
    counted: Sequence[Counted], judges: tuple[str, str], indexes: tuple[int, int], level: float
) -> Iterator[Row]:
    """One row per segment: agreement and bias; of systems how the bias differs from the first's.

    The grade of the first judge is a segment too: `grade`.

    Args:
        counted: The counts of pairs by segment, unit and grades.
        judges: The two judges.
        indexes: Their places among the grades of a pattern.
        level: The coverage of the intervals.
    """
    sums_by_segment: dict[tuple[str, str], _Sums] = {}
    first, second = indexes
    for name, value, unit, pattern, count in counted:
        grade, other = pattern[first], pattern[second]
        if grade is None or other is None:
            continue
        sums_by_segment.setdefault((name, value), _Sums()).add(unit, grade, other, count)
        if name == ALL:
            by_grade = sums_by_segment.setdefault((GRADE, plain(grade)), _Sums())
            by_grade.add(unit, grade, other, count)
    systems = sorted(value for name, value in sums_by_segment if name == SYSTEM)
    for key in sorted(sums_by_segment, key=segment_order):
        name, value = key
        sums = sums_by_segment[key]
        agreement, bias = sums.mean(1), sums.mean(2)
        row: Row = dict(zip(("judge", "other_judge"), judges, strict=True))
        row |= {"segment_name": name, "segment_value": value, "n_pairs": round(sums.n_pairs)}
        low, high = agreement.interval(level)
        row["agreement"] = agreement.value
        row["ci_low"] = low if low is None else max(0.0, low)
        row["ci_high"] = high if high is None else min(1.0, high)
        row |= _ends("bias", bias, level)
        if name == SYSTEM and value != systems[0]:
            row |= _ends("change", sums.change(sums_by_segment[SYSTEM, systems[0]]), level)
            row["bias_change"] = row.pop("change")
        else:
            row |= dict.fromkeys(("bias_change", "change_low", "change_high"))
        yield row


def _ends(name: str, estimate: Estimate, level: float) -> Mapping[str, float | None]:
    low, high = estimate.interval(level)
    return {name: estimate.value, f"{name}_low": low, f"{name}_high": high}


def segment_order(key: tuple[str, str]) -> tuple[bool, str, float, str]:
    """All first, then by name; numbers in their order."""
    name, value = key
    try:
        return name != ALL, name, float(value), value
    except ValueError:
        return name != ALL, name, math.inf, value
