"""The grades of judges as the grades that people would be expected to give.

The first judge is people. On the pairs that both graded, the mean grade of people is taken for each
grade of a judge, as close to it as a curve can be that never falls (isotonic regression by pool
adjacent violators: Barlow et al., Statistical Inference under Order Restrictions, 1972).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import fsum, log
from typing import Any

from sqlmetrics.agreement.counts import COMBINED, LABELS, SHOWN_BY, SHOWN_LABELS, PairCounts
from sqlmetrics.comparison.statements import columns_stage, sums_stage
from sqlmetrics.engines.temporary import Step
from sqlmetrics.errors import InputError, shortened
from sqlmetrics.sql.stage import Column, Stage, Window, equal, with_stages
from sqlmetrics.sql.template import double
from sqlmetrics.stats import TIED
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
        yield from _shown_stages(self.counts, self.systems)
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
    stages = [*counts.label_stages, *_shown_stages(counts, systems), people, beside, means]
    for row in counts.engine.records(with_stages(stages, select)):
        mean = 0.0 if row["mean_grade"] is None else float(row["mean_grade"])
        group = int(row[SHOWN_BY]) if systems else 0
        yield int(row["judge"]), group, float(row["grade"]), int(row["n_pairs"]), mean


def _keys(systems: Sequence[str]) -> tuple[str, ...]:
    """What a grade's worth depends on."""
    return ("judge", *([SHOWN_BY] if systems else []), "grade")


def _source(systems: Sequence[str]) -> str:
    return SHOWN_LABELS if systems else LABELS


def _shown_stages(counts: PairCounts, systems: Sequence[str]) -> list[Stage]:
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


# The model of Dawid and Skene (1979), fitted by expectation maximisation in SQL.
#
# Each pair has a true grade, and a judge gives each grade with a chance that depends on the true
# one.
# A round is one query on a row per judge and pattern of labels, which the database keeps: it makes
# the chances of the true grades of each pattern, and sums how often a judge gave which grade where
# which is true. These few numbers leave the database, and stand in the query of the next round, as
# in
# that of the labels. The first round starts from the shares of the votes.
#
#     pair_grades ─> patterns ─> pattern_labels ┬─> pattern_sums ─> pattern_chances ─>
#     pattern_shares
#                               judge_chances ──┘
# A. P. Dawid and A. M. Skene: Maximum likelihood estimation of observer error-rates using the EM
# algorithm. Applied Statistics 28, 1979.

LEAST = 1e-10
"""The least chance: that of a grade which a judge never gave where another is true."""

SETTLED = 1e-6
"""A round in which no chance changes by more is the last."""

PATTERNS = "pattern_labels"


@dataclass(frozen=True)
class Fit:
    """What the rounds came to.

    Attributes:
        grades: The grades, of which one is true.
        shares: How often each of them is.
        chances: Judge and grade -> how often the judge gives it, by the true grade.
        log_likelihoods: Of all labels, before each round changed the chances.
        is_settled: Whether the last round changed next to nothing.
    """

    grades: tuple[float, ...]
    shares: Sequence[float]
    chances: Mapping[tuple[int, float], Sequence[float]]
    log_likelihoods: tuple[float, ...] = ()
    is_settled: bool = False

    def accuracy(self, judge: int) -> float:
        """How often a judge is expected to give the true grade."""
        return fsum(
            share * self.chances[judge, grade][number]
            for number, (grade, share) in enumerate(zip(self.grades, self.shares, strict=True))
            if (judge, grade) in self.chances
        )

    def change(self, other: Fit) -> float:
        """By how much a chance differs at most."""
        pairs = [*zip(self.shares, other.shares, strict=True)]
        for key, chances in self.chances.items():
            pairs += zip(chances, other.chances[key], strict=True)
        return max(abs(value - other_value) for value, other_value in pairs)

    def stages(self, keys: Sequence[str]) -> Iterator[Stage]:
        """From `judge_labels` to the likeliest grade of each pair."""
        yield from self.expectation("pair", keys, Column("count(*)", "n_judges"), LABELS)
        cases = "\n".join(
            f"    when chance_{number} >= {double(1 - TIED)} then {double(grade)}"
            for number, grade in enumerate(self.grades, start=1)
        )
        grade = Column(f"case\n{cases}\nend", "grade")
        about = "one row per pair: its likeliest grade; of those as likely the lowest"
        columns = [*keys, grade, "n_judges", Column("1e0 / total", "probability")]
        yield columns_stage(COMBINED, about, columns, "pair_chances")

    def expectation(
        self, unit: str, keys: Sequence[str], count: Column, source: str
    ) -> Iterator[Stage]:
        """From labels to how likely each true grade of a pair or pattern is, the likeliest 1."""
        rows = [
            [Column(str(judge), "judge"), Column(double(grade), "grade")]
            + [Column(double(log(chance)), f"ln_{n}") for n, chance in enumerate(chances, start=1)]
            for (judge, grade), chances in sorted(self.chances.items())
        ]
        about = "one row per judge and grade: the logarithm of its chance by true grade"
        yield Stage("judge_chances", "comparison/constants", {"about": about, "rows": rows})
        logs = [f"ln_{number}" for number in range(1, len(self.grades) + 1)]
        sums = [
            Column(f"{double(log(share))} + sum({name})", name)
            for name, share in zip(logs, self.shares, strict=True)
        ]
        joins = {"judge_chances": equal("judge_chances", source, ("judge", "grade"))}
        view = {"keys": keys, "columns": [count, *sums], "from": source, "where": ""}
        about = f"one row per {unit}: the logarithm of the chance of its labels by true grade"
        yield Stage(f"{unit}_sums", "sums", {**view, "about": about, "joins": joins})
        columns = [*keys, count.name, *logs, Column(_largest(logs), "most")]
        about = f"one row per {unit}: the largest of them"
        yield columns_stage(f"{unit}_most", about, columns, f"{unit}_sums")
        chances = [f"exp({name} - most)" for name in logs]
        columns = [*keys, count.name, "most", Column("\n+ ".join(chances), "total")]
        columns += [Column(sql, f"chance_{n}") for n, sql in enumerate(chances, start=1)]
        about = f"one row per {unit}: how likely each grade is, the likeliest 1"
        yield columns_stage(f"{unit}_chances", about, columns, f"{unit}_most")


def _largest(names: Sequence[str]) -> str:
    """The largest of some columns, in words that every database has."""
    *firsts, last = names
    cases = []
    for number, name in enumerate(firsts, start=1):
        conditions = "\n        and ".join(f"{name} >= {later}" for later in names[number:])
        cases.append(f"    when {conditions}\n        then {name}")
    return "\n".join(["case", *cases, f"    else {last}", "end"]) if cases else last


def fitted(counts: PairCounts, grades: Sequence[float], max_rounds: int) -> Fit:
    """Fit the model to the labels of all pairs.

    Args:
        counts: The labels.
        grades: The grades that judges gave, ascending.
        max_rounds: After so many rounds it ends at the latest.
    """
    engine = counts.engine
    stages = [*counts.stages, *_patterns(counts.grades)]
    with ExitStack() as stack:
        if engine.translation.dialect.keep:
            step = Step(
                engine.free_name("sqlmetrics_patterns"),
                with_stages(stages, f"select *\nfrom {PATTERNS}"),
            )
            stack.enter_context(step.created_in(engine))
            stages = [columns_stage(PATTERNS, "what was kept", ["*"], step.name)]
        fit = _round(counts, stages, _votes(grades), grades)
        for _ in range(max_rounds):
            before, count = fit, Column("max(n_pairs)", "n_pairs")
            chances = [
                *before.expectation("pattern", ["pattern"], count, PATTERNS),
                _shares(grades),
            ]
            fit = _round(counts, stages, chances, grades)
            likelihoods = (*before.log_likelihoods, *fit.log_likelihoods)
            fit = replace(fit, log_likelihoods=likelihoods)
            if fit.change(before) <= SETTLED:
                return replace(fit, is_settled=True)
    return fit


def _patterns(columns: Sequence[str]) -> Iterator[Stage]:
    """From the grades of pairs to a row per judge and pattern of them."""
    about = "one row per pattern of grades: how many pairs have it"
    pairs = [Column("count(*)", "n_pairs")]
    yield sums_stage("patterns", about, columns, pairs, "pair_grades")
    number = f"row_number() over {Window((), [f'{name} asc' for name in columns])}"
    numbered = [*columns, "n_pairs", Column(number, "pattern")]
    yield columns_stage("numbered_patterns", "the patterns, numbered", numbered, "patterns")
    parts = [
        (
            ["pattern", "n_pairs", Column(str(judge), "judge"), Column(name, "grade")],
            "numbered_patterns",
            f"{name} is not null",
        )
        for judge, name in enumerate(columns, start=1)
    ]
    about = "one row per pattern and judge that gave a grade"
    yield Stage(PATTERNS, "union", {"about": about, "parts": parts})


def _votes(grades: Sequence[float]) -> list[Stage]:
    """The shares of the votes, which stand for the chances of the true grades at first."""
    shares = [
        Column(f"avg(case when grade = {double(grade)} then 1e0 else 0e0 end)", f"share_{number}")
        for number, grade in enumerate(grades, start=1)
    ]
    columns = [Column("max(n_pairs)", "n_pairs"), Column("0e0", "likelihood"), *shares]
    about = "one row per pattern: the shares of its votes"
    return [sums_stage("pattern_shares", about, ["pattern"], columns, PATTERNS)]


def _shares(grades: Sequence[float]) -> Stage:
    """The chances of the true grades of a pattern, which are 1 together."""
    shares = [
        Column(f"chance_{number} / total", f"share_{number}")
        for number in range(1, len(grades) + 1)
    ]
    columns = ["pattern", "n_pairs", Column("most + ln(total)", "likelihood"), *shares]
    about = "one row per pattern: the chances of its true grades"
    return columns_stage("pattern_shares", about, columns, "pattern_chances")


def _round(
    counts: PairCounts, stages: Sequence[Stage], chances: Sequence[Stage], grades: Sequence[float]
) -> Fit:
    """The shares and chances that are likeliest if patterns have these true grades."""
    numbers = [f"n_{number}" for number in range(1, len(grades) + 1)]
    shares = [f"share_{number}" for number in range(1, len(grades) + 1)]
    sums = [
        Column(f"sum({PATTERNS}.n_pairs * {share})", name)
        for name, share in zip(numbers, shares, strict=True)
    ]
    view = {"keys": ["judge", "grade"], "columns": sums, "from": PATTERNS, "where": ""}
    joins = {"pattern_shares": equal("pattern_shares", PATTERNS, ("pattern",))}
    about = "one row per judge and grade: how often it was given, by true grade"
    of_judges = Stage("grade_sums", "sums", {**view, "about": about, "joins": joins})
    totals = [
        Column(f"sum(n_pairs * {share})", name)
        for name, share in zip((*numbers, "log_likelihood"), (*shares, "likelihood"), strict=True)
    ]
    about = "how often each grade is true, and how likely all labels are"
    of_all = columns_stage("true_sums", about, totals, "pattern_shares")
    names = ", ".join(numbers)
    last = (
        f"select judge, grade, {names}, cast(null as double) as log_likelihood\nfrom grade_sums\n"
        f"union all\nselect 0, 0e0, {names}, log_likelihood\nfrom true_sums"
    )
    rows = counts.engine.rows(with_stages([*stages, *chances, of_judges, of_all], last))
    sums_by_grade = {
        (int(judge), float(grade)): [*map(float, row)] for judge, grade, *row, _ in rows
    }
    (log_likelihood,) = (float(row[-1]) for row in rows if row[-1] is not None)
    true_counts = sums_by_grade.pop((0, 0.0))
    n_pairs = fsum(true_counts)
    return Fit(
        tuple(grades),
        [max(count / n_pairs, LEAST) for count in true_counts],
        _chances(sums_by_grade),
        (log_likelihood,),
    )


def _chances(
    counts: Mapping[tuple[int, float], Sequence[float]],
) -> dict[tuple[int, float], list[float]]:
    """Judge and grade -> its share of what the judge gave, by true grade."""
    least = {key: [max(n, LEAST) for n in numbers] for key, numbers in counts.items()}
    totals: dict[int, list[float]] = {}
    for (judge, _), numbers in least.items():
        sums = totals.setdefault(judge, [0.0] * len(numbers))
        totals[judge] = [total + n for total, n in zip(sums, numbers, strict=True)]
    return {
        key: [n / total for n, total in zip(numbers, totals[key[0]], strict=True)]
        for key, numbers in least.items()
    }
