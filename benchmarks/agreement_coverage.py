"""How often the intervals of `agree` hold the truth: `python -m benchmarks.agreement_coverage`.

Worlds of queries with eight items each, which two systems show five of. People and a judge see how
relevant an item is, each with an error of their own, and grade it from 0 to 3; a tenth of the
judge's labels is missing. The truth is what one very large world of the same kind says.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sqlmetrics.agreement.agree import coefficient_rows, tallies_of
from sqlmetrics.agreement.agreement import TOGETHER
from sqlmetrics.agreement.probabilities import Counted, segment_rows
from sqlmetrics.plan.summary import ALL
from sqlmetrics.stats.bootstrap import resampled_counts

Grades = np.ndarray[Any, np.dtype[np.int64]]

ITEMS = 8
ITEMS_BY_SYSTEM = {"a": slice(0, 5), "b": slice(3, 8)}
CUTS = (0.2, 0.9, 1.7)
MISSING = 0.1
LEVEL, REPLICATES = 0.95, 500
LARGE = 200_000
"""Queries of the world that is taken for the truth."""


@dataclass(frozen=True)
class Judge:
    """What a judge makes of relevance: its error, and what it adds for all and for system a."""

    noise: float
    bias: float = 0.0
    favour: float = 0.0
    is_blind: bool = False


JUDGES = {
    "good": Judge(0.3),
    "biased": Judge(0.5, bias=0.6),
    "useless": Judge(1.0, is_blind=True),
    "favours a": Judge(0.5, favour=0.6),
}


def graded(judge: Judge, n_queries: int, seed: int) -> Grades:
    """Query, item and judge (people, a colleague, the judge) -> grade, -1 where there is none."""
    chance = np.random.default_rng(seed)
    shape = (n_queries, ITEMS)
    relevance = 0.7 * chance.standard_normal((n_queries, 1)) + chance.standard_normal(shape)
    impressions = [relevance + 0.3 * chance.standard_normal(shape) for _ in range(2)]
    favoured = np.zeros(ITEMS)
    favoured[ITEMS_BY_SYSTEM["a"]] = judge.favour
    signal = 0.0 if judge.is_blind else relevance
    impressions.append(signal + judge.bias + favoured + judge.noise * chance.standard_normal(shape))
    grades = np.stack([np.digitize(values, CUTS) for values in impressions], axis=2)
    grades[chance.random(shape) < MISSING, 2] = -1
    return grades


def counted(grades: Grades, units: Grades) -> list[Counted]:
    """The rows that the database would give: segment, its value, unit, grades, pairs."""
    segments = [
        (ALL, ALL, slice(None)),
        *(("system", name, items) for name, items in ITEMS_BY_SYSTEM.items()),
    ]
    rows: list[Counted] = []
    for segment_name, segment_value, items in segments:
        item_grades = grades[:, items]
        unit_column = np.repeat(units, item_grades.shape[1])[:, None]
        keys = np.hstack([unit_column, item_grades.reshape(-1, grades.shape[2])])
        patterns, counts = np.unique(keys, axis=0, return_counts=True)
        for (unit, *pattern), count in zip(patterns.tolist(), counts.tolist(), strict=True):
            grade_pattern = tuple(None if grade < 0 else float(grade) for grade in pattern)
            rows.append((segment_name, segment_value, f"{unit:06}", grade_pattern, count))
    return rows


Measured = dict[str, tuple[float, float, float]]
"""What is measured -> its value and interval, NaN where it has none."""


def measured(rows: list[Counted], n_units: int, seed: int) -> Measured:
    """The coefficients of people and judge and of all three, and the bias of the judge."""
    tallies = tallies_of(rows, tuple(map(float, range(len(CUTS) + 1))))
    draws = resampled_counts(n_units, REPLICATES, seed)
    of_two = coefficient_rows(tallies.of((0, 2)), ("people", "judge"), draws, LEVEL)
    of_all = coefficient_rows(tallies, TOGETHER, draws, LEVEL)
    values = {}
    for judges, coefficients in (("two", of_two), ("three", of_all)):
        for row in coefficients:
            name = f"{row['coefficient']} of {judges}"
            values[name] = row["value"], row["ci_low"], row["ci_high"]
    for row in segment_rows(rows, ("people", "judge"), (0, 2), LEVEL):
        if row["segment_name"] in (ALL, "system"):
            for name, column in (("bias", "bias"), ("change", "bias_change")):
                ends = row[f"{name}_low"], row[f"{name}_high"]
                values[f"{name} of {row['segment_value']}"] = row[column], *ends
    return {
        name: tuple(math.nan if end is None else end for end in interval)
        for name, interval in values.items()
        if interval[0] is not None
    }


def coverages(judge: Judge, truth: Measured, n_queries: int, n_worlds: int) -> dict[str, float]:
    """What is measured -> the share of worlds whose interval holds the truth."""
    n_held = dict.fromkeys(truth, 0)
    for seed in range(1, n_worlds + 1):
        rows = counted(graded(judge, n_queries, seed), np.arange(n_queries))
        for name, (_, low, high) in measured(rows, n_queries, seed).items():
            value = truth[name][0]
            n_held[name] += low <= value <= high
    return {name: held / n_worlds for name, held in n_held.items()}


def main() -> None:
    """Print a row per judge and number of queries."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1_000)
    n_worlds = parser.parse_args().worlds
    print("| judge | queries | coefficients: least | most | bias: least | most |")
    print("|---|---|---|---|---|---|")
    for name, judge in JUDGES.items():
        large = counted(graded(judge, LARGE, 0), np.zeros(LARGE, dtype=int))
        truth = measured(large, 1, 0)
        for n_queries in (30, 100, 300):
            shares = coverages(judge, truth, n_queries, n_worlds)
            cells = []
            for is_coefficient in (True, False):
                of_kind = [
                    (share, estimate)
                    for estimate, share in shares.items()
                    if estimate.endswith((" of two", " of three")) == is_coefficient
                ]
                ends = min(of_kind), max(of_kind)
                cells += [f"{100 * share:.1f} % ({estimate})" for share, estimate in ends]
            print(f"| {name} | {n_queries} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
