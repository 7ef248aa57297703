"""What a grade of a judge means: how likely people give which grade, and the one to expect.

The first judge is people. The interval of a share is Wilson's, of as many pairs as would be as
uncertain one by one, since items of one query are judged alike (Korn and Graubard, Survey
Methodology 24, 1998): it stays between 0 and 1, and has a width where people never gave a grade.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import TYPE_CHECKING

from sqlmetrics.agreement.calibration import grade_at, rising
from sqlmetrics.agreement.counts import RANK
from sqlmetrics.agreement.segments import Counted, segment_order
from sqlmetrics.plan.summary import ALL
from sqlmetrics.stats.bootstrap import bootstrap_interval
from sqlmetrics.stats.estimate import Interval, ratio_of_sums, wilson_interval
from sqlmetrics.tables.tabular import Row

if TYPE_CHECKING:
    from sqlmetrics.stats.bootstrap import Array

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
    def others(self) -> list[float]:
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
        return rising([(g, round(self.n_pairs(g)), self.mean(g)) for g in self.others])

    @cached_property
    def resampled(self) -> tuple[Array, Array]:
        """Replicate (row) and grade of the judge (column) -> the mean grade, and the curve."""
        import numpy as np

        sums = np.zeros((2, self.draws.shape[1], len(self.others)))
        for column, other in enumerate(self.others):
            for grade, counts in self.by_grades[other].items():
                for unit, n in counts.items():
                    sums[:, unit, column] += n, n * grade
        counts, totals = (self.draws @ values for values in sums)
        with np.errstate(invalid="ignore"):
            means = totals / counts
        curves = np.full(means.shape, np.nan)
        for row, n_pairs, levels in zip(curves, counts.tolist(), means.tolist(), strict=True):
            triples = [*zip(self.others, n_pairs, levels, strict=True)]
            if curve := rising([triple for triple in triples if triple[1]]):
                row[:] = [grade_at(curve, other) for other in self.others]
        return means, curves

    def expected(self, other: float) -> Row:
        """The grade to expect of people where the judge gives one."""
        column, n_units = self.others.index(other), len(self.units(other))
        low, high = bootstrap_interval(self.resampled[1][:, column], self.level, n_units)
        means = {"mean_grade": self.mean(other), "calibrated": self.curve[other]}
        n_pairs = round(self.n_pairs(other))
        return {"other_grade": other, "n_pairs": n_pairs, **means, "ci_low": low, "ci_high": high}

    def change(self, other: float, everything: SegmentGrades) -> Row:
        """By how much people grade above all pairs with the same grade of the judge."""
        pairs = ((segment, segment.others.index(other)) for segment in (self, everything))
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
        for other in segment.others:
            probabilities += [row | segment.probability(other, grade) for grade in grades]
            change: Row = dict.fromkeys(("change", "change_low", "change_high"))
            if segment is not everything:
                change = segment.change(other, everything)
            expected.append(row | segment.expected(other) | change)
    return probabilities, expected
