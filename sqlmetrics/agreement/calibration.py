"""The grades of judges as the grades that people would be expected to give.

The first judge is people. On the pairs that both graded, the mean grade of people is taken for each
grade of a judge, as close to it as a curve can be that never falls (isotonic regression by pool
adjacent violators: Barlow et al., Statistical Inference under Order Restrictions, 1972).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmetrics.agreement.counts import (
    COMBINED,
    LABELS,
    SHOWN_BY,
    SHOWN_LABELS,
    PairCounts,
)
from sqlmetrics.comparison.statements import columns_stage, sums_stage
from sqlmetrics.errors import InputError, shortened
from sqlmetrics.sql.stage import Column, Stage, equal, with_stages
from sqlmetrics.sql.template import double
from sqlmetrics.tables.tabular import Row

_Mean = tuple[float, float, float]
"""A grade of the judge, pairs that people graded too, and the mean of their grades."""

EVERY = "all"
"""What stands for all pairs, whoever shows them."""

NOBODY = "(none)"
"""What stands for pairs that no system shows."""

MOST_SYSTEMS = 20


@dataclass(frozen=True)
class Calibration:
    """What each grade of each judge is worth.

    Attributes:
        rows: One row per judge (its number), group of systems (`shown_by`) and grade: pairs that
            people graded too, the mean of their grades (NULL without a pair), and the calibrated
            grade.
        counts: The labels.
        systems: Systems of whose pairs grades may be worth more or less; none: all are alike.
        n_sparse: Judges and groups of systems without a pair that people graded.
    """

    rows: tuple[Row, ...]
    counts: PairCounts
    systems: tuple[str, ...] = ()
    n_sparse: int = 0

    def stages(self, keys: Sequence[str]) -> Iterator[Stage]:
        """From `judge_labels` to the grade of people, or that which judges let expect."""
        constants = [
            [
                Column(str(row["judge"]), "judge"),
                *([Column(str(row[SHOWN_BY]), SHOWN_BY)] if self.systems else []),
                Column(double(row["grade"]), "grade"),
                Column(double(row["calibrated"]), "calibrated"),
            ]
            for row in self.rows
        ]
        about = "one row per judge and grade: what people would be expected to give"
        of_grades = {"about": about, "rows": constants}
        yield from _shown(self.counts, self.systems)
        yield Stage("calibrated_grades", "comparison/constants", of_grades)
        labels = _source(self.systems)
        first = f"max(case when {labels}.judge = 1 then {labels}.grade end)"
        columns = [
            Column(f"coalesce(\n    {first},\n    avg(calibrated)\n)", "grade"),
            Column("count(*)", "n_judges"),
        ]
        about = "one row per pair: the grade of people, else the mean of the calibrated ones"
        on = equal("calibrated_grades", labels, _keys(self.systems))
        view = {"about": about, "keys": keys, "columns": columns, "from": labels, "where": ""}
        yield Stage(COMBINED, "sums", {**view, "joins": {"calibrated_grades": on}})

    def group(self, shown_by: int) -> str:
        """The systems that show a pair, in words."""
        if not self.systems:
            return EVERY
        names = (name for number, name in enumerate(self.systems) if shown_by >> number & 1)
        return ", ".join(names) or NOBODY


def calibrated(counts: PairCounts, *, by_system: bool = False) -> Calibration:
    """Learn what the grades of the judges after the first are worth.

    Args:
        counts: The labels, by system with the lists that show them.
        by_system: Whether a grade may be worth more where other systems show the pair.

    Raises:
        InputError: If a judge has no pair with the first, or no system shows a graded pair.
    """
    systems = _systems(counts) if by_system else ()
    rows: list[Row] = []
    n_sparse = 0
    by_judge: dict[int, dict[int, list[_Mean]]] = {}
    for judge, shown_by, *mean in _means(counts, systems):
        by_judge.setdefault(judge, {}).setdefault(shown_by, []).append((*mean,))
    for judge, by_group in by_judge.items():
        curve = rising(_pooled([mean for means in by_group.values() for mean in means]))
        if not curve:
            first, name = (shortened(counts.panel.names[number]) for number in (0, judge - 1))
            raise InputError(
                f"labels: judge {name!r} graded no pair that {first!r} graded; calibrated learns "
                f"from such pairs: leave {name!r} out, or have {first!r} grade some"
            )
        for shown_by, means in by_group.items():
            of_group = rising(_pooled(means))
            n_sparse += not of_group
            rows += [
                {
                    "judge": judge,
                    SHOWN_BY: shown_by,
                    "grade": grade,
                    "n_pairs": n_pairs,
                    "mean_grade": mean if n_pairs else None,
                    "calibrated": grade_at(of_group or curve, grade),
                }
                for grade, n_pairs, mean in means
            ]
    return Calibration(tuple(rows), counts, systems, n_sparse)


def _systems(counts: PairCounts) -> tuple[str, ...]:
    """The systems that show graded pairs; InputError if there are none, or too many of them."""
    systems = counts.systems()
    if not systems:
        raise InputError(
            f"rankings: no list has an item in its top {counts.k} that a judge graded; check that "
            "the ids are written alike, or look deeper (k, -k)"
        )
    if len(systems) > MOST_SYSTEMS:
        raise InputError(
            f"rankings: {len(systems):,} systems; labels are calibrated by {MOST_SYSTEMS} at most: "
            "choose some in a query (where, --where)"
        )
    return systems


def _means(counts: PairCounts, systems: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Judge, group of systems, grade, pairs that people graded too, and their mean grade there."""
    keys, labels = counts.panel.pair_keys, _source(systems)
    columns = [*keys, Column("grade", "first_grade")]
    about = "the labels of people"
    people = columns_stage("first_labels", about, columns, labels, "judge = 1")
    columns = [*(f"{labels}.{name}" for name in _keys(systems)), "first_labels.first_grade"]
    about = "the labels of judges beside those of people"
    view = {"about": about, "columns": columns, "from": labels, "to": "first_labels"}
    on = equal("first_labels", labels, tuple(keys))
    beside = Stage("beside", "comparison/join", {**view, "on": on, "kind": "left"})
    sums = [Column("count(first_grade)", "n_pairs"), Column("avg(first_grade)", "mean_grade")]
    about = "one row per judge and grade: the mean grade of people"
    means = sums_stage("grade_means", about, [*_keys(systems)], sums, "beside")
    order = ", ".join(f"{name} asc" for name in _keys(systems))
    select = f"select *\nfrom grade_means\nwhere judge > 1\norder by {order}"
    stages = [*counts.label_stages, *_shown(counts, systems), people, beside, means]
    for row in counts.engine.records(with_stages(stages, select)):
        mean = 0.0 if row["mean_grade"] is None else float(row["mean_grade"])
        group = int(row[SHOWN_BY]) if systems else 0
        yield int(row["judge"]), group, float(row["grade"]), int(row["n_pairs"]), mean


def _keys(systems: Sequence[str]) -> tuple[str, ...]:
    """What a grade's worth depends on."""
    return ("judge", *([SHOWN_BY] if systems else []), "grade")


def _source(systems: Sequence[str]) -> str:
    return SHOWN_LABELS if systems else LABELS


def _shown(counts: PairCounts, systems: Sequence[str]) -> list[Stage]:
    return counts.shown_by(systems) if systems else []


def _pooled(means: Sequence[_Mean]) -> list[_Mean]:
    """Grade, pairs and mean of several groups together, where there is a pair."""
    sums: dict[float, list[float]] = {}
    for grade, n_pairs, mean in means:
        counted = sums.setdefault(grade, [0, 0.0])
        counted[0] += n_pairs
        counted[1] += n_pairs * mean
    return [(grade, n, total / n) for grade, (n, total) in sorted(sums.items()) if n]


def rising(grades: Sequence[_Mean]) -> dict[float, float]:
    """Grade -> the mean of people, pooled with those beside it until none is below another.

    >>> rising([(0, 2, 0.5), (1, 1, 2.0), (2, 3, 1.0)])
    {0: 0.5, 1: 1.25, 2: 1.25}
    """
    blocks: list[tuple[list[float], float, float]] = []
    for grade, n_pairs, mean in grades:
        members, weight, level = [grade], n_pairs, mean
        while blocks and blocks[-1][2] >= level:
            earlier, n, height = blocks.pop()
            level = (height * n + level * weight) / (n + weight)
            members, weight = [*earlier, *members], n + weight
        blocks.append((members, weight, level))
    return {grade: level for members, _, level in blocks for grade in members}


def grade_at(curve: Mapping[float, float], grade: float) -> float:
    """The curve at a grade: on the line between those beside it, level beyond its ends."""
    grades = [*curve]
    index = bisect_left(grades, grade)
    if grade in curve or index in (0, len(grades)):
        return curve[grades[min(index, len(grades) - 1)]]
    low, high = grades[index - 1 : index + 1]
    return curve[low] + (curve[high] - curve[low]) * (grade - low) / (high - low)
