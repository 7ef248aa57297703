"""What a grade of a judge means: how likely people give which grade, and the one to expect.

The first judge is people. The interval of a share is Wilson's, of as many pairs as would be as
uncertain one by one, since items of one query are judged alike (Korn and Graubard, Survey
Methodology 24, 1998): it stays between 0 and 1, and has a width where people never gave a grade.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING

from sqlmetrics.agreement.calibration import grade_at, rising
from sqlmetrics.agreement.counts import GRADE, RANK, SYSTEM
from sqlmetrics.catalog.option import plain
from sqlmetrics.plan.summary import ALL
from sqlmetrics.stats import NOISE
from sqlmetrics.stats.bootstrap import bootstrap_interval
from sqlmetrics.stats.estimate import Estimate, Interval, ratio_of_sums, wilson_interval
from sqlmetrics.tables.tabular import Row

if TYPE_CHECKING:
    from sqlmetrics.stats.bootstrap import Array


# Agreement and bias of two judges by segment, with intervals over queries.

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


UnitCounts = Mapping[int, float]
"""Unit -> how many pairs."""


@dataclass(frozen=True)
class SegmentGrades:
    """The pairs of a segment that people and a judge graded.

    Attributes:
        by_grades: Grade of the judge -> grade of people -> pairs of each unit.
        draws: How often each unit (column) is drawn in each replicate (row).
        level: The coverage of the intervals.
    """

    by_grades: Mapping[float, Mapping[float, UnitCounts]]
    draws: Array
    level: float

    @cached_property
    def judge_grades(self) -> list[float]:
        """The grades of the judge."""
        return sorted(self.by_grades)

    def n_pairs(self, other: float) -> float:
        """How many pairs the judge graded so."""
        return fsum(fsum(counts.values()) for counts in self.by_grades[other].values())

    def mean(self, other: float) -> float:
        """The mean grade of people beside a grade of the judge."""
        by_grade = self.by_grades[other]
        total = fsum(grade * fsum(counts.values()) for grade, counts in by_grade.items())
        return total / self.n_pairs(other)

    def units(self, other: float) -> dict[int, float]:
        """The pairs of each unit that has some with this grade of the judge."""
        totals: dict[int, float] = {}
        for counts in self.by_grades[other].values():
            for unit, n in counts.items():
                totals[unit] = totals.get(unit, 0.0) + n
        return totals

    def probability(self, other: float, grade: float) -> Row:
        """How likely people give a grade where the judge gives another."""
        hits, n_pairs = self.by_grades[other].get(grade, {}), self.n_pairs(other)
        n_hits = fsum(hits.values())
        low, high = self._share_interval(hits, n_hits / n_pairs, other)
        share = {"n_pairs": round(n_hits), "probability": n_hits / n_pairs}
        return {"other_grade": other, "grade": grade, **share, "ci_low": low, "ci_high": high}

    def _share_interval(self, hits: UnitCounts, share: float, other: float) -> Interval:
        totals, n_pairs = self.units(other), self.n_pairs(other)
        estimate = ratio_of_sums(
            share,
            len(totals),
            w=n_pairs,
            x2=fsum(n * n for n in hits.values()),
            xw=fsum(n * totals[unit] for unit, n in hits.items()),
            w2=fsum(n * n for n in totals.values()),
        )
        if estimate.standard_error is None:
            return None, None
        n_alike = n_pairs
        if estimate.standard_error:
            n_alike = min(n_pairs, share * (1 - share) / estimate.standard_error**2)
        return wilson_interval(share * n_alike, n_alike, self.level, estimate.df)

    @cached_property
    def curve(self) -> Mapping[float, float]:
        """Grade of the judge -> the grade to expect of people, which never falls."""
        return rising([(g, round(self.n_pairs(g)), self.mean(g)) for g in self.judge_grades])

    @cached_property
    def resampled(self) -> tuple[Array, Array]:
        """Replicate (row) and grade of the judge (column) -> the mean grade, and the curve."""
        import numpy as np

        sums = np.zeros((2, self.draws.shape[1], len(self.judge_grades)))
        for column, other in enumerate(self.judge_grades):
            for grade, counts in self.by_grades[other].items():
                for unit, n in counts.items():
                    sums[:, unit, column] += n, n * grade
        counts, totals = (self.draws @ values for values in sums)
        with np.errstate(invalid="ignore"):
            means = totals / counts
        curves = np.full(means.shape, np.nan)
        for row, n_pairs, levels in zip(curves, counts.tolist(), means.tolist(), strict=True):
            triples = [*zip(self.judge_grades, n_pairs, levels, strict=True)]
            if curve := rising([triple for triple in triples if triple[1]]):
                row[:] = [grade_at(curve, other) for other in self.judge_grades]
        return means, curves

    def expected(self, other: float) -> Row:
        """The grade to expect of people where the judge gives one."""
        column, n_units = self.judge_grades.index(other), len(self.units(other))
        low, high = bootstrap_interval(self.resampled[1][:, column], self.level, n_units)
        means = {"mean_grade": self.mean(other), "calibrated": self.curve[other]}
        n_pairs = round(self.n_pairs(other))
        return {"other_grade": other, "n_pairs": n_pairs, **means, "ci_low": low, "ci_high": high}

    def change(self, other: float, everything: SegmentGrades) -> Row:
        """By how much people grade above all pairs with the same grade of the judge."""
        pairs = ((segment, segment.judge_grades.index(other)) for segment in (self, everything))
        means, of_all = (segment.resampled[0][:, column] for segment, column in pairs)
        low, high = bootstrap_interval(means - of_all, self.level, len(self.units(other)))
        change = self.mean(other) - everything.mean(other)
        return {"change": change, "change_low": low, "change_high": high}


def grade_rows(
    counted: Sequence[Counted],
    indexes: tuple[int, int],
    grades: Sequence[float],
    draws: Array,
    level: float,
) -> tuple[list[Row], list[Row]]:
    """How likely people give which grade where a judge gives one, and which one to expect.

    Args:
        counted: The counts of pairs by segment, unit and grades.
        indexes: The places of people and of the judge among the grades of a pattern.
        grades: The scale.
        draws: How often each unit (column) is drawn in each replicate (row).
        level: The coverage of the intervals.

    Returns:
        One row per segment, grade of the judge and grade of people; and one per segment and grade
        of the judge.
    """
    in_all = (row[2] for row in counted if row[0] == ALL)
    units = {unit: number for number, unit in enumerate(dict.fromkeys(in_all))}
    by_segment: dict[tuple[str, str], dict[float, dict[float, dict[int, float]]]] = {}
    for name, value, unit, pattern, n_pairs in counted:
        grade, other = (pattern[index] for index in indexes)
        if name != RANK and grade is not None and other is not None:
            by_grades = by_segment.setdefault((name, value), {})
            counts = by_grades.setdefault(other, {}).setdefault(grade, {})
            counts[units[unit]] = counts.get(units[unit], 0.0) + n_pairs
    probabilities: list[Row] = []
    expected: list[Row] = []
    everything = None
    for key in sorted(by_segment, key=segment_order):
        segment = SegmentGrades(by_segment[key], draws, level)
        everything = everything or segment
        row: Row = dict(zip(("segment_name", "segment_value"), key, strict=True))
        for other in segment.judge_grades:
            probabilities += [row | segment.probability(other, grade) for grade in grades]
            change: Row = dict.fromkeys(("change", "change_low", "change_high"))
            if segment is not everything:
                change = segment.change(other, everything)
            expected.append(row | segment.expected(other) | change)
    return probabilities, expected
