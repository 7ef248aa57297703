"""How often intervals of few labels by people hold: `python -m benchmarks.prediction_powered`.

Worlds of queries of different difficulty, two systems that show some of their items, and a judge
that is good, too kind, useless, or kind to what one system shows. People grade 200 of all pairs by
lot, or the pairs of as many queries as that comes to. Told is how often the interval of DCG@5 holds
the true mean, and that of the difference of the systems the true one; of tables of `agree` on 60
queries, how often intervals of the probability of people's grade given the judge's hold, and of the
grade to expect.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from sqlmetrics.agreement.probabilities import Counted, grade_rows
from sqlmetrics.annotation import prediction_powered
from sqlmetrics.annotation.estimator import Stratum
from sqlmetrics.annotation.prediction_powered import PairedStratum, PoweredEstimate
from sqlmetrics.stats.bootstrap import resampled_counts

N_QUERIES, N_ITEMS, TOP, N_LABELS = 400, 10, 5, 200
GRADES = (0.0, 1.0, 2.0)
LEVEL, REPLICATES = 0.95, 200

JUDGES: dict[str, Callable[[random.Random, float, bool], float]] = {
    "good": lambda chance, grade, _: grade if chance.random() < 0.8 else chance.choice(GRADES),
    "biased": lambda chance, grade, _: min(2.0, grade + (chance.random() < 0.5)),
    "useless": lambda chance, _, __: chance.choice(GRADES),
    "one-sided": lambda chance, grade, is_new: min(2.0, grade + is_new * (chance.random() < 0.6)),
}
"""Grade of people, and whether the new system shows the item high -> the grade of the judge."""


@dataclass(frozen=True)
class Pair:
    """An item that a system shows.

    Attributes:
        query: Its query.
        grade: What people give it.
        judged: What the judge gives it.
        discounts: What a gain of 1 adds to DCG@5 of each system.
    """

    query: int
    grade: float
    judged: float
    discounts: tuple[float, float]

    def addend(self, weights: Sequence[float], *, by_judge: bool = False) -> float:
        """What it adds to a mixture of the systems' DCG@5."""
        gain = 2 ** (self.judged if by_judge else self.grade) - 1
        return gain * sum(w * d for w, d in zip(weights, self.discounts, strict=True))


def world(chance: random.Random, judge: str) -> list[Pair]:
    """All pairs that one of the two systems shows in its first five."""
    pairs = []
    for query in range(N_QUERIES):
        ease = chance.random()
        grades = [chance.choices(GRADES, (1.2 - ease, 0.5, ease))[0] for _ in range(N_ITEMS)]
        places = []
        for bonus in (0.3, 0.6):
            scores = [bonus * grade + chance.random() for grade in grades]
            order = sorted(range(N_ITEMS), key=scores.__getitem__, reverse=True)
            places.append({item: rank for rank, item in enumerate(order[:TOP], start=1)})
        for item, grade in enumerate(grades):
            ranks = [by_item.get(item) for by_item in places]
            if any(ranks):
                discounts = [1 / math.log2(rank + 1) if rank else 0.0 for rank in ranks]
                judged = JUDGES[judge](chance, grade, bool(ranks[1]) and not ranks[0])
                pairs.append(Pair(query, grade, judged, (discounts[0], discounts[1])))
    return pairs


def of_pairs(
    pairs: Sequence[Pair], graded: Sequence[Pair], weights: Sequence[float]
) -> PoweredEstimate:
    """The mean over queries, from some of the pairs."""
    scale = len(pairs) / N_QUERIES
    people, judge = (
        [scale * pair.addend(weights, by_judge=by_judge) for pair in graded]
        for by_judge in (False, True)
    )
    total = scale * sum(pair.addend(weights, by_judge=True) for pair in pairs)
    stratum = Stratum(len(pairs), people)
    return prediction_powered.mean(
        [PairedStratum(stratum, judge, len(pairs), total, float(len(pairs)))], LEVEL
    )


def of_queries(
    pairs: Sequence[Pair], graded: Sequence[int], weights: Sequence[float]
) -> PoweredEstimate:
    """The same from all pairs of some queries."""
    sums = [[0.0, 0.0] for _ in range(N_QUERIES)]
    for pair in pairs:
        for by_judge in (False, True):
            sums[pair.query][by_judge] += pair.addend(weights, by_judge=by_judge)
    people, judge = ([sums[query][side] for query in graded] for side in (0, 1))
    total = sum(by_judge for _, by_judge in sums)
    stratum = Stratum(N_QUERIES, people)
    return prediction_powered.mean(
        [PairedStratum(stratum, judge, N_QUERIES, total, float(N_QUERIES))], LEVEL
    )


def grades_hold(
    pairs: Sequence[Pair], graded: set[int], seed: int
) -> tuple[list[bool], list[bool]]:
    """Whether intervals of probabilities, and of the grade to expect, hold those of all pairs."""
    counted: list[Counted] = [
        ("all", "all", str(pair.query), (pair.grade, pair.judged), 1)
        for pair in pairs
        if pair.query in graded
    ]
    draws = resampled_counts(len(graded), REPLICATES, seed)
    probabilities, expected = grade_rows(counted, (0, 1), GRADES, draws, LEVEL)
    beside = {judged: [pair.grade for pair in pairs if pair.judged == judged] for judged in GRADES}
    is_covered = []
    for row in probabilities:
        grades = beside[row["other_grade"]]
        share = grades.count(row["grade"]) / len(grades)
        is_covered.append(row["ci_low"] is not None and row["ci_low"] <= share <= row["ci_high"])
    means = [
        row["ci_low"] is not None
        and row["ci_low"] <= fmean(beside[row["other_grade"]]) <= row["ci_high"]
        for row in expected
    ]
    return is_covered, means


def measured(judge: str, n_worlds: int) -> list[str]:
    """The cells of a row: coverage, and what labels by the judge are worth."""
    systems = {"new": (0.0, 1.0), "difference": (-1.0, 1.0)}
    hits = {(unit, name): 0 for unit in ("pairs", "queries") for name in systems}
    gains: dict[str, list[float]] = {"pairs": [], "queries": []}
    saved, widths = [], {"pairs": 0.0, "queries": 0.0}
    chances: list[bool] = []
    expected: list[bool] = []
    for seed in range(n_worlds):
        chance = random.Random(seed)
        pairs = world(chance, judge)
        n_queries = round(N_LABELS * N_QUERIES / len(pairs))
        queries = chance.sample(range(N_QUERIES), n_queries)
        drawn_pairs = chance.sample(pairs, N_LABELS)
        for name, weights in systems.items():
            truth = sum(pair.addend(weights) for pair in pairs) / N_QUERIES
            for unit, powered in (
                ("pairs", of_pairs(pairs, drawn_pairs, weights)),
                ("queries", of_queries(pairs, queries, weights)),
            ):
                low, high = powered.estimate.low or 0.0, powered.estimate.high or 0.0
                hits[unit, name] += low <= truth <= high
                if name == "new":
                    gains[unit].append(powered.gain or 1.0)
                    widths[unit] += (high - low) / n_worlds
                    saved += [powered.saved or 0] if unit == "pairs" else []
        # people graded the pairs of these queries for the table of `agree`
        more_queries = set(chance.sample(range(N_QUERIES), 60))
        is_covered, means = grades_hold(pairs, more_queries, seed)
        chances += is_covered
        expected += means
    cells = [f"{hits[key] / n_worlds:.1%}" for key in hits]
    cells += [f"{widths[unit]:.2f}" for unit in widths]
    cells += [f"{fmean(gains[unit]):.2f}" for unit in gains] + [f"{fmean(saved):.0f}"]
    return [*cells, f"{fmean(chances):.1%}", f"{fmean(expected):.1%}"]


def main() -> None:
    """Print a row per judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1_000)
    n_worlds = parser.parse_args().worlds
    heads = ["judge", "pairs: DCG", "difference", "queries: DCG", "difference"]
    heads += ["width of pairs", "of queries", "gain of pairs", "of queries", "labels saved"]
    heads += ["P(grade)", "expected grade"]
    print(f"| {' | '.join(heads)} |\n|---|{'---:|' * (len(heads) - 1)}")
    for judge in JUDGES:
        print(f"| {judge} | {' | '.join(measured(judge, n_worlds))} |", flush=True)


if __name__ == "__main__":
    main()
