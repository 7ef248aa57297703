"""Propensities of the position-based click model, by expectation maximisation in SQL.

A click needs a position that is looked at and an item that attracts: its chance is the product
of both. A round reads the table of moved items twice: once by position, for the propensities and
the log-likelihood, and once by pair of a query and an item, for the attractions, which are kept
in a table. It starts from what harvesting says, where only the last digits are to be found.
Intervals take one step of Newton's from there for each sample of the queries, with the
attractions following (the profile likelihood).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import exp

from sqlmetrics.clicks.propensity.curve import Propensity, PropensityCurve, propensities
from sqlmetrics.clicks.propensity.least_squares import inverse
from sqlmetrics.clicks.propensity.moves import MOVED, Ends, stage
from sqlmetrics.clicks.propensity.sampling import samples
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step
from sqlmetrics.sql.stage import Stage, print_template, with_stages
from sqlmetrics.sql.template import double

ATTRACTIONS = "sqlmetrics_attractions"
"""The table of the attractions of a round begins so."""

FIRST, MOST = 0.999, 0.999999
"""The largest propensity to start with, and the largest attraction: a chance of 1 has no
logarithm of its opposite."""

Curves = Mapping[str, Mapping[int, float]]
"""Group, or an empty text -> position -> propensity."""


@dataclass(frozen=True)
class Round:
    """A round of the expectation maximisation.

    Attributes:
        number: From 1.
        log_likelihood: Of the clicks of moved items, before the round.
        change: The largest share by which the round changed a propensity.
    """

    number: int
    log_likelihood: float
    change: float

    def __str__(self) -> str:
        return (
            f"round {self.number}: log-likelihood {self.log_likelihood:,.3f}, "
            f"largest change {self.change:.2g}"
        )


@dataclass(frozen=True)
class Fit:
    """What expectation maximisation found.

    Attributes:
        curves: Group -> position -> propensity, against its position 1.
        rounds: Its rounds.
        samples: Group -> the same of samples of the queries.
    """

    curves: Curves
    rounds: tuple[Round, ...]
    samples: Mapping[str, Sequence[Mapping[int, float]]]


def fitted(
    engine: Database,
    start: Curves,
    *,
    tolerance: float,
    max_rounds: int,
    replicates: int,
    told: Callable[[Round], None] | None = None,
) -> Fit:
    """Fit the model to the table of moved items.

    Args:
        engine: The database.
        start: Where to start: propensities of each group.
        tolerance: A round that changes no propensity by a larger share is the last.
        max_rounds: After so many it ends at the latest.
        replicates: How many samples of the queries are drawn.
        told: Is told each round.
    """
    looks = {
        group: {k: p * FIRST / max(curve.values()) for k, p in curve.items()}
        for group, curve in start.items()
    }
    rounds: list[Round] = []
    kept = ExitStack()
    try:
        kept.enter_context(_first(looks).there(engine))
        for number in range(1, max_rounds + 1):
            after, log_likelihood = _examinations(engine, looks, number - 1)
            rounds.append(Round(number, log_likelihood, _change(looks, after)))
            if told:
                told(rounds[-1])
            later = ExitStack()
            later.enter_context(_next(looks, number).there(engine))
            kept.close()
            kept, looks = later, after
            if rounds[-1].change <= tolerance:
                break
        drawn = _resampled(engine, looks, len(rounds), replicates) if replicates else {}
    finally:
        kept.close()
    return Fit({group: _relative(curve) for group, curve in looks.items()}, tuple(rounds), drawn)


def _relative(curve: Mapping[int, float]) -> dict[int, float]:
    return {position: propensity / curve[min(curve)] for position, propensity in curve.items()}


def _change(before: Curves, after: Curves) -> float:
    old = {group: _relative(curve) for group, curve in before.items()}
    new = {group: _relative(curve) for group, curve in after.items()}
    return max(abs(new[g][k] / p - 1) for g, curve in old.items() for k, p in curve.items())


def _chances(looks: Curves, number: int) -> list[Stage]:
    """The stages to the chance of a click of each row."""
    table = f"{ATTRACTIONS}_{number}"
    return [*_looks(looks), stage("chances", {"attractions": table})]


def _looks(looks: Curves) -> Iterator[Stage]:
    rows = (Propensity(k, p, group=group) for group, own in looks.items() for k, p in own.items())
    yield propensities(PropensityCurve("em", tuple(rows)))
    yield stage("looks", {"moved": MOVED})


def _first(looks: Curves) -> Step:
    return _attractions([*_looks(looks), stage("first_attractions", {})], 0)


def _next(looks: Curves, number: int) -> Step:
    return _attractions([*_chances(looks, number - 1), stage("attractions", {})], number)


def _attractions(stages: Sequence[Stage], number: int) -> Step:
    view = {"raised": stages[-1].name, "most": double(MOST)}
    select = with_stages(stages, print_template("clicks/propensity/capped", view))
    return Step(f"{ATTRACTIONS}_{number}", select)


def _examinations(
    engine: Database, looks: Curves, number: int
) -> tuple[dict[str, dict[int, float]], float]:
    """The propensities after a round, and the log-likelihood before it."""
    stages = [*_chances(looks, number), stage("examinations", {})]
    rows = sorted(engine.rows(with_stages(stages, "select *\nfrom examinations")))
    after: dict[str, dict[int, float]] = {}
    for group, position, examination, _ in rows:
        after.setdefault(str(group), {})[int(position)] = float(examination)
    return after, sum(float(row[-1]) for row in rows)


def _resampled(
    engine: Database, looks: Curves, number: int, count: int
) -> dict[str, list[dict[int, float]]]:
    """Group -> its propensities by so many samples of the queries."""
    chances = _chances(looks, number)
    scores: dict[str, dict[float, dict[int, float]]] = {}
    known: dict[str, dict[int, float]] = {}
    for bucket, group, position, score, information in sorted(
        engine.rows(with_stages([*chances, stage("scores", {})], "select *\nfrom scores"))
    ):
        own, place = str(group), int(position)
        scores.setdefault(own, {}).setdefault(float(bucket), {})[place] = float(score)
        known.setdefault(own, {})[place] = known.get(own, {}).get(place, 0.0) + float(information)
    shared: dict[str, dict[Ends, float]] = {}
    names = ("informations", "pair_sums", "shared_information")
    stages = [*chances, *(stage(name, {}) for name in names)]
    for group, above, below, information in engine.rows(
        with_stages(stages, "select *\nfrom shared_information")
    ):
        shared.setdefault(str(group), {})[int(above), int(below)] = float(information)
    return {
        group: _steps(curve, scores[group], known[group], shared[group], count)
        for group, curve in looks.items()
    }


def _steps(
    curve: Mapping[int, float],
    scores: Mapping[float, Mapping[int, float]],
    known: Mapping[int, float],
    shared: Mapping[Ends, float],
    count: int,
) -> list[dict[int, float]]:
    """One step of Newton's from a curve for each sample, against its first position."""
    reference, *others = sorted(curve)
    matrix = [
        [(known[k] if k == m else 0.0) - shared.get((k, m), 0.0) for m in others] for k in others
    ]
    turned, base, found = inverse(matrix), _relative(curve), []
    for sample in samples(scores, count):
        times = {group: sample.get(group, 0) - 1 for group in scores}
        pulls = [sum(n * scores[g].get(k, 0.0) for g, n in times.items()) for k in others]
        steps = [sum(a * b for a, b in zip(row, pulls, strict=True)) for row in turned]
        moved = {k: base[k] * exp(step) for k, step in zip(others, steps, strict=True)}
        found.append({reference: 1.0, **moved})
    return found
