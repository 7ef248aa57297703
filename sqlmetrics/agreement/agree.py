"""`agree`: two judges' labels or more of the same pairs, and how far they agree."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Unpack

from sqlmetrics.agreement.agreement import TOGETHER, Agreement, Tallies, coefficients
from sqlmetrics.agreement.counts import MOST_QUERIES, RANK, PairCounts, check_segments
from sqlmetrics.agreement.judges import Panel
from sqlmetrics.agreement.probabilities import Counted, grade_rows, segment_rows
from sqlmetrics.agreement.question import Question, names
from sqlmetrics.catalog.option import is_number, plain
from sqlmetrics.errors import InputError, SpecError, shortened
from sqlmetrics.evaluation.arguments import check_count, check_level, listed
from sqlmetrics.evaluation.question import TableArguments, check_arguments
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.stats.bootstrap import bootstrap_interval, check_numpy, resampled_counts
from sqlmetrics.tables.table import many
from sqlmetrics.tables.tabular import Row

if TYPE_CHECKING:
    from sqlmetrics.stats.bootstrap import Array

MOST_GRADES = 30
LEAST_REPLICATES = 100
ONE_GRADE = "every label is the same grade, so nothing is left beyond chance"
NO_PAIR = "no pair has labels of both"


def agree(
    labels: Any,
    judges: str | Sequence[str] = (),
    *,
    judge: str | None = None,
    rankings: Any = None,
    metrics: str | Sequence[str] = (),
    by: str | Sequence[str] = (),
    k: int = 10,
    scale: Sequence[float] = (),
    level: float = CONFIDENCE,
    replicates: int = 1000,
    seed: int = 1,
    connection: Any = None,
    check: bool | float = True,
    **arguments: Unpack[TableArguments],
) -> Agreement:
    """Measure how far judges agree on the grades of the same pairs of query and item.

    The coefficients are raw agreement, Cohen's kappa (unweighted, linear, quadratic; of two
    judges), Fleiss' kappa, Krippendorff's alpha (nominal, ordinal, interval) and Gwet's AC1 and AC2
    (linear, quadratic). A NULL grade is a label that is missing: Cohen's kappa looks at the pairs
    that both judges graded, the others use what there is. Weights go by the distance of two grades
    on the scale. Of several labels that a judge gave one pair the highest counts, and
    `self_agreement` says how often two of them are equal.

    Args:
        labels: One table with a column of grades for each judge, or with a row for each judge; or
            a table for each: judge -> table, or a list of files; as `evaluate` takes them. Or a
            `Spec`, whose labels are meant.
        judges: The columns of grades, or the judges in their order; the first is the one that the
            others are held against. Default: all judges, in the order of their names or tables.
        judge: The column that names the judge of a row. Default: `judge`, `rater`, `annotator` or
            `assessor`, if the table has one and no columns are named.
        rankings: Rankings as `evaluate` takes them, to see agreement and bias by system and rank.
        metrics: Metrics of two systems or more of the rankings, by the labels of the first judge
            and of each other one, of the pairs that both graded: values, their difference, the
            order of the systems, and the verdicts of `compare` against its baseline.
        by: Columns of the labels by whose values agreement is shown.
        k: The last rank of the rankings that is looked at.
        scale: Grades that judges could have given, where not all of them were: AC1 and AC2 go by
            the length of the scale.
        level: The coverage of the intervals.
        replicates: How often the queries are resampled.
        seed: Another seed draws other replicates.
        connection: The database that holds the tables; see `evaluate`.
        check: Whether to look for bad input first.
        **arguments: The other arguments of `evaluate`; without rankings those of labels alone.

    Returns:
        The coefficients, the confusion of grades, agreement and bias by segment, what grades of
        the judges are worth by those of the first, and the judges; it prints as tables.

    Raises:
        SpecError: If there are not 2 to 20 judges, or an argument is wrong.
        InputError: If no pair has labels of two judges, or the data would give wrong numbers.
        EngineError: If the database fails.

    >>> import pyarrow as pa
    >>> labels = pa.table({
    ...     "query_id": [1, 1, 1, 2, 2, 2],
    ...     "item_id": ["a", "b", "c", "a", "b", "c"],
    ...     "human": [1, 0, 1, 0, 1, 0],
    ...     "gpt": [1, 0, 1, 0, 1, 1],
    ... })
    >>> result = agree(labels, ["human", "gpt"])
    >>> round(result["agreement"], 4), round(result["cohen_kappa"], 4)
    (0.8333, 0.6667)
    """
    labels, rankings = read_if_spec(labels), read_if_spec(rankings)
    check_numpy("agree")
    check_arguments(agree, arguments)
    _check(level, replicates, k, seed)
    scale = _numbers(scale)
    question = Question("agree", labels, judges, judge, rankings, metrics, arguments)
    segments = check_segments(names("by", by))
    with question.opened(connection, check=check) as (panel, plan, engine):
        for name in segments:
            panel.check_column(name)
        counts = PairCounts(panel, segments, plan, k, engine)
        agreement = _measured(counts, scale, level, replicates, seed)
        systems, orders = question.ordered_systems(
            lambda: engine.table(counts.pairs()), panel.names, plan, engine, level
        )
        return replace(agreement, systems=systems, orders=orders)


def _check(level: float, replicates: int, k: int, seed: int) -> None:
    """Raise SpecError for a number out of range."""
    if not is_number(level):
        raise SpecError(f"level must be a number such as 0.95, given {shortened(repr(level))}")
    check_level("the confidence level", level)
    check_count("replicates", replicates, least=LEAST_REPLICATES)
    check_count("k", k)
    check_count("seed", seed, least=0)


def _numbers(scale: Any) -> tuple[float, ...]:
    """The grades of the scale; SpecError if one is no finite number."""
    grades = listed(scale)
    if not all(is_number(grade) and math.isfinite(grade) for grade in grades):
        raise SpecError(f"scale must be finite numbers, given {shortened(repr(scale))}")
    return grades


def _measured(
    counts: PairCounts, scale: Sequence[float], level: float, replicates: int, seed: int
) -> Agreement:
    """What the counts of pairs come to."""
    engine, panel = counts.engine, counts.panel
    totals = engine.records(counts.totals())
    n_queries = max((int(row["n_queries"]) for row in totals), default=0)
    if not n_queries:
        raise InputError(_no_pair(panel, totals))
    statements = [counts.totals(), counts.patterns(n_queries)]
    counted = _counted(engine.rows(statements[1]), len(panel.judges))
    grades = _scale(counted, scale)
    tallies = tallies_of(counted, grades)
    confusion: list[Row] = []
    segments: list[Row] = []
    rows: list[Row] = []
    probabilities: list[Row] = []
    calibration: list[Row] = []
    draws = resampled_counts(tallies.n_units, replicates, seed)
    for indexes in combinations(range(len(panel.names)), 2):
        judges = panel.names[indexes[0]], panel.names[indexes[1]]
        of_two = tallies.of(indexes)
        rows += coefficient_rows(of_two, judges, draws, level)
        confusion += _confusion_rows(of_two, judges)
        segments += segment_rows(counted, judges, indexes, level)
        if indexes[0] == 0:
            of_judges: Row = dict(zip(("judge", "other_judge"), judges, strict=True))
            likely, expected = grade_rows(counted, indexes, grades, draws, level)
            probabilities += [of_judges | row for row in likely]
            calibration += [of_judges | row for row in expected]
    if len(panel.names) > 2:
        rows += coefficient_rows(tallies, TOGETHER, draws, level)
    notes = [*panel.notes, *_repeat_notes(panel, totals)]
    if counts.plan is not None and not any(row[0] == RANK for row in counted):
        notes.append(f"no list has an item in its top {counts.k} that a judge graded")
    if n_queries > MOST_QUERIES:
        notes.append(
            f"there are {n_queries:,} queries; they are resampled in {tallies.n_units:,} groups"
        )
    translate = engine.translation.text
    return Agreement(
        coefficients=tuple(rows),
        confusion=tuple(confusion),
        segments=tuple(segments),
        probabilities=tuple(probabilities),
        calibration=tuple(calibration),
        judges=tuple(_judge_row(panel, row) for row in _ordered(totals)),
        grades=grades,
        n_queries=n_queries,
        level=level,
        notes=tuple(notes),
        executed_sql="\n\n".join(f"{translate(text).rstrip()};" for text in statements) + "\n",
    )


def _counted(rows: Sequence[Sequence[Any]], n_judges: int) -> list[Counted]:
    """The rows of the patterns in an order that is the same for each database."""
    counted: list[Counted] = []
    for row in rows:
        grades = tuple(None if grade is None else float(grade) for grade in row[3 : 3 + n_judges])
        counted.append((str(row[0]), str(row[1]), str(row[2]), grades, int(row[-1])))
    return sorted(
        counted,
        key=lambda row: (*row[:3], tuple(-math.inf if g is None else g for g in row[3])),
    )


def _scale(counted: Sequence[Counted], scale: Sequence[float]) -> tuple[float, ...]:
    """The grades that were given, and those that could have been.

    Raises:
        InputError: If there are too many for a table of them.
    """
    given_grades = {grade for row in counted for grade in row[3] if grade is not None}
    grades = sorted({*given_grades, *map(float, scale)})
    if len(grades) > MOST_GRADES:
        raise InputError(
            f"labels: {len(grades):,} different grades, from {plain(grades[0])} to "
            f"{plain(grades[-1])}; agreement is of {MOST_GRADES} at most: round them in a query, "
            'like "select query_id, item_id, round(human) as human, ..."'
        )
    return tuple(grades)


def tallies_of(counted: Sequence[Counted], grades: Sequence[float]) -> Tallies:
    """The tallies of the counts of all pairs, with a unit per query."""
    import numpy as np

    rows = [row for row in counted if row[0] == ALL]
    units = {unit: number for number, unit in enumerate(dict.fromkeys(row[2] for row in rows))}
    index: dict[float | None, int] = {grade: number for number, grade in enumerate(grades)}
    index[None] = -1
    return Tallies(
        tuple(grades),
        np.array([units[row[2]] for row in rows]),
        np.array([[index[grade] for grade in row[3]] for row in rows]),
        np.array([row[4] for row in rows], dtype=float),
        len(units),
    )


def coefficient_rows(
    tallies: Tallies, judges: tuple[str, str], draws: Array, level: float
) -> Iterator[Row]:
    """One row per coefficient, with its interval."""
    sums = tallies.sums()
    of_two = judges != TOGETHER
    total = sums.sum(axis=0, keepdims=True)
    values = coefficients(total, tallies.grades, of_two=of_two)
    resampled = coefficients(draws @ sums, tallies.grades, of_two=of_two)
    for name, (value,) in values.items():
        is_defined = not math.isnan(value)
        low, high = (
            bootstrap_interval(resampled[name], level, tallies.n_units)
            if is_defined
            else (None, None)
        )
        undefined = ONE_GRADE if tallies.n_pairs else NO_PAIR
        yield {
            **dict(zip(("judge", "other_judge"), judges, strict=True)),
            "coefficient": name,
            "value": float(value) if is_defined else None,
            "ci_low": low if is_defined else None,
            "ci_high": high if is_defined else None,
            "n_pairs": tallies.n_pairs,
            "reason": None if is_defined else undefined,
        }


def _confusion_rows(tallies: Tallies, judges: tuple[str, str]) -> Iterator[Row]:
    """One row per grade of each of two judges, where there is a pair."""
    counts: dict[tuple[int, int], int] = {}
    for (first, second), count in zip(tallies.patterns.tolist(), tallies.counts, strict=True):
        if first >= 0 and second >= 0:
            counts[first, second] = counts.get((first, second), 0) + int(count)
    for (first, second), count in sorted(counts.items()):
        yield {
            **dict(zip(("judge", "other_judge"), judges, strict=True)),
            "grade": tallies.grades[first],
            "other_grade": tallies.grades[second],
            "n_pairs": count,
            "share": count / tallies.n_pairs,
        }


def _ordered(totals: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(totals, key=lambda row: int(row["judge"]))


def _judge_row(panel: Panel, row: Mapping[str, Any]) -> Row:
    """A row of the judges, in the types of the result."""
    numbers = {name: int(row[name]) for name in ("n_pairs", "n_labels", "n_repeated")}
    means = {
        name: None if row[name] is None else float(row[name])
        for name in ("self_agreement", "mean_grade")
    }
    return {"judge": panel.names[int(row["judge"]) - 1], **numbers, **means}


def _repeat_notes(panel: Panel, totals: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Judges with several labels of one pair."""
    for row in (_judge_row(panel, row) for row in _ordered(totals)):
        if row["n_repeated"]:
            yield (
                f"{shortened(row['judge'])} has several labels of "
                f"{many(row['n_repeated'], 'pair')}, of which the highest counts; two of its own "
                f"agree in {row['self_agreement']:.1%}"
            )


def _no_pair(panel: Panel, totals: Sequence[Mapping[str, Any]]) -> str:
    """Why there is nothing to compare."""
    pairs = ", ".join(
        f"{shortened(row['judge'])} {row['n_pairs']:,}"
        for row in (_judge_row(panel, row) for row in _ordered(totals))
    )
    return (
        "labels: no pair of query and item has labels of two judges; pairs of each: "
        f"{pairs or 'none'}; check that the ids are written alike"
    )
