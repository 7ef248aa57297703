"""The grades of judges as the grades that people would be expected to give.

The first judge is people. On the pairs that both graded, the mean grade of people is taken for each
grade of a judge, as close to it as a curve can be that never falls (isotonic regression by pool
adjacent violators: Barlow et al., Statistical Inference under Order Restrictions, 1972).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.agreement.counts import COMBINED, LABELS, PairCounts
from sqlmetrics.comparison.statements import columns_stage, sums_stage
from sqlmetrics.errors import InputError, shortened
from sqlmetrics.sql.stage import Column, Stage, equal, with_stages
from sqlmetrics.sql.template import double
from sqlmetrics.tables.tabular import Row


@dataclass(frozen=True)
class Calibration:
    """What each grade of each judge is worth.

    Attributes:
        rows: One row per judge (its number) and grade: pairs that people graded too, the mean of
            their grades (NULL without a pair), and the calibrated grade.
    """

    rows: tuple[Row, ...]

    def stages(self, keys: Sequence[str]) -> Iterator[Stage]:
        """From `judge_labels` to the grade of people, or that which judges let expect."""
        constants = [
            [
                Column(str(row["judge"]), "judge"),
                Column(double(row["grade"]), "grade"),
                Column(double(row["calibrated"]), "calibrated"),
            ]
            for row in self.rows
        ]
        about = "one row per judge and grade: what people would be expected to give"
        of_grades = {"about": about, "rows": constants}
        yield Stage("calibrated_grades", "comparison/constants", of_grades)
        first = f"max(case when {LABELS}.judge = 1 then {LABELS}.grade end)"
        columns = [
            Column(f"coalesce(\n    {first},\n    avg(calibrated)\n)", "grade"),
            Column("count(*)", "n_judges"),
        ]
        about = "one row per pair: the grade of people, else the mean of the calibrated ones"
        joins = {"calibrated_grades": equal("calibrated_grades", LABELS, ("judge", "grade"))}
        view = {"about": about, "keys": keys, "columns": columns, "from": LABELS, "where": ""}
        yield Stage(COMBINED, "sums", {**view, "joins": joins})


def calibrated(counts: PairCounts) -> Calibration:
    """Learn what the grades of the judges after the first are worth.

    Raises:
        InputError: If a judge has no pair with the first.
    """
    keys = counts.panel.pair_keys
    columns = [*keys, Column("grade", "first_grade")]
    about = "the labels of people"
    people = columns_stage("first_labels", about, columns, LABELS, "judge = 1")
    columns = [f"{LABELS}.judge", f"{LABELS}.grade", "first_labels.first_grade"]
    about = "the labels of judges beside those of people"
    view = {"about": about, "columns": columns, "from": LABELS, "to": "first_labels"}
    on = equal("first_labels", LABELS, tuple(keys))
    beside = Stage("beside", "comparison/join", {**view, "on": on, "kind": "left"})
    sums = [Column("count(first_grade)", "n_pairs"), Column("avg(first_grade)", "mean_grade")]
    about = "one row per judge and grade: the mean grade of people"
    means = sums_stage("grade_means", about, ["judge", "grade"], sums, "beside")
    select = "select *\nfrom grade_means\nwhere judge > 1\norder by judge asc, grade asc"
    stages = [*counts.label_stages, people, beside, means]
    rows_by_judge: dict[int, list[tuple[float, int, float]]] = {}
    for row in counts.engine.records(with_stages(stages, select)):
        mean = 0.0 if row["mean_grade"] is None else float(row["mean_grade"])
        of_judge = rows_by_judge.setdefault(int(row["judge"]), [])
        of_judge.append((float(row["grade"]), int(row["n_pairs"]), mean))
    rows = []
    for judge, grades in rows_by_judge.items():
        curve = _rising([grade for grade in grades if grade[1]])
        if not curve:
            first, name = (shortened(counts.panel.names[number]) for number in (0, judge - 1))
            raise InputError(
                f"labels: judge {name!r} graded no pair that {first!r} graded; calibrated learns "
                f"from such pairs: leave {name!r} out, or have {first!r} grade some"
            )
        rows += [
            {
                "judge": judge,
                "grade": grade,
                "n_pairs": n_pairs,
                "mean_grade": mean if n_pairs else None,
                "calibrated": _at(curve, grade),
            }
            for grade, n_pairs, mean in grades
        ]
    return Calibration(tuple(rows))


def _rising(grades: Sequence[tuple[float, int, float]]) -> dict[float, float]:
    """Grade -> the mean of people, pooled with those beside it until none is below another.

    >>> _rising([(0, 2, 0.5), (1, 1, 2.0), (2, 3, 1.0)])
    {0: 0.5, 1: 1.25, 2: 1.25}
    """
    blocks: list[tuple[list[float], int, float]] = []
    for grade, n_pairs, mean in grades:
        members, weight, level = [grade], n_pairs, mean
        while blocks and blocks[-1][2] >= level:
            earlier, n, height = blocks.pop()
            level = (height * n + level * weight) / (n + weight)
            members, weight = [*earlier, *members], n + weight
        blocks.append((members, weight, level))
    return {grade: level for members, _, level in blocks for grade in members}


def _at(curve: Mapping[float, float], grade: float) -> float:
    """The curve at a grade: on the line between those beside it, level beyond its ends."""
    grades = [*curve]
    index = bisect_left(grades, grade)
    if grade in curve or index in (0, len(grades)):
        return curve[grades[min(index, len(grades) - 1)]]
    low, high = grades[index - 1 : index + 1]
    return curve[low] + (curve[high] - curve[low]) * (grade - low) / (high - low)
