"""Propensities of the position-based click model, by expectation maximisation in SQL.

A click needs a position that is looked at and an item that attracts: its chance is the product
of both. Each layout has a table of one row per pair of a query and an item that moved, with a
column per position, so that a round reads as many rows as there are pairs, twice:

- once for the attractions, which are kept in a table: one of Newton's steps to where they are
  likeliest, given the propensities;
- once for the log-likelihood, and the propensities by the step of expectation maximisation.

Only the products tell anything, so the largest propensity stays as it is. Rounds are accelerated,
and one that lowers the log-likelihood is taken back; they come to rest where plain expectation
maximisation does, which takes ten times as many. It starts from what harvesting says, where only
the last digits are to be found. Intervals take one step of Newton's from there for each sample
of the queries, with the attractions following (the profile likelihood).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import exp, fsum, log
from random import Random

from sqlmetrics.clicks.propensity.curve import Propensity, PropensityCurve, propensities
from sqlmetrics.clicks.propensity.moves import MOVED, Ends, stage
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step
from sqlmetrics.sql.stage import Stage, print_template, select_of, with_stages
from sqlmetrics.sql.template import double, literal
from sqlmetrics.stats import NOISE
from sqlmetrics.stats.estimate import Interval, percentile_interval
from sqlmetrics.tables.table import printable

# Weighted least squares of differences between positions, and iterations in fewer rounds.

Point = Sequence[float]

MEMORY = 5
"""So many points before the last one are looked back at."""

FLAT = 1e-8
"""A direction that adds a smaller share of its length to those before it says nothing new."""


class LeastSquares:
    """Numbers x by position, x at the first one 0, next to known differences.

    They minimise the sum of weight * (x below - x above - difference)^2.

    Args:
        positions: The positions; the first is the reference.
        weights: Two positions -> the weight of their difference; together they join all.
    """

    def __init__(self, positions: Sequence[int], weights: Mapping[Ends, float]) -> None:
        self.positions = positions
        self.weights = weights
        places = {position: number for number, position in enumerate(positions[1:])}
        matrix = [[0.0] * len(places) for _ in places]
        for (above, below), weight in weights.items():
            for position in (above, below):
                if position in places:
                    matrix[places[position]][places[position]] += weight
            if above in places and below in places:
                matrix[places[above]][places[below]] -= weight
                matrix[places[below]][places[above]] -= weight
        self._inverse = inverse(matrix)

    def solved(self, differences: Mapping[Ends, float]) -> dict[int, float]:
        """The number of each position, from the difference of each two."""
        pulls = dict.fromkeys(self.positions, 0.0)
        for (above, below), difference in differences.items():
            weighted = self.weights[above, below] * difference
            pulls[below] += weighted
            pulls[above] -= weighted
        right = [pulls[position] for position in self.positions[1:]]
        solution = (sum(a * b for a, b in zip(row, right, strict=True)) for row in self._inverse)
        return dict(zip(self.positions, (0.0, *solution), strict=True))


def inverse(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """The inverse of a small matrix, by Gauss and Jordan with the largest pivots.

    Args:
        matrix: Square, and not singular.

    Raises:
        ZeroDivisionError: If it is singular.

    >>> inverse([[2.0, 0.0], [0.0, 4.0]])
    [[0.5, 0.0], [0.0, 0.25]]
    """
    size = len(matrix)
    rows = [[*row, *(float(i == k) for k in range(size))] for i, row in enumerate(matrix)]
    for column in range(size):
        best = max(range(column, size), key=lambda row: abs(rows[row][column]))
        rows[column], rows[best] = rows[best], rows[column]
        pivot = rows[column][column]
        rows[column] = [value / pivot for value in rows[column]]
        for other_row in range(size):
            if other_row != column and (factor := rows[other_row][column]):
                pairs = zip(rows[other_row], rows[column], strict=True)
                rows[other_row] = [value - factor * pivot_value for value, pivot_value in pairs]
    return [row[size:] for row in rows]


class Anderson:
    """Anderson's acceleration: an iteration comes to rest where it would, after fewer rounds.

    What the last points missed their images by says where it would be missed by nothing, as if
    the iteration were linear: the combination of the last points whose miss is smallest, moved by
    that (Anderson 1965; Walker and Ni 2011).
    """

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._misses: list[Point] = []

    def forget(self) -> None:
        """Begin anew."""
        self._points, self._misses = [], []

    def next(self, point: Point, image: Point) -> list[float]:
        """The point to go on with: the image itself, to begin with.

        Args:
            point: Where the iteration is.
            image: Where it would go.
        """
        self._points = [*self._points, point][-MEMORY - 1 :]
        self._misses = [*self._misses, _less(image, point)][-MEMORY - 1 :]
        miss, reached = list(self._misses[-1]), list(image)
        directions: list[tuple[list[float], list[float]]] = []
        for k in range(len(self._points) - 1, 0, -1):
            turn = _less(self._misses[k], self._misses[k - 1])
            step = [
                a + b
                for a, b in zip(_less(self._points[k], self._points[k - 1]), turn, strict=True)
            ]
            length = _dot(turn, turn)
            for direction, way in directions:
                share = _dot(turn, direction) / _dot(direction, direction)
                turn, step = _less(turn, direction, share), _less(step, way, share)
            if _dot(turn, turn) > FLAT**2 * length:
                directions.append((turn, step))
                share = _dot(miss, turn) / _dot(turn, turn)
                miss, reached = _less(miss, turn, share), _less(reached, step, share)
        return reached


def _dot(first: Point, second: Point) -> float:
    return fsum(a * b for a, b in zip(first, second, strict=True))


def _less(first: Point, second: Point, share: float = 1.0) -> list[float]:
    return [a - share * b for a, b in zip(first, second, strict=True)]


# Samples of groups of queries, drawn with replacement, for intervals.
#
# A group stands in a sample as often as a Poisson draw with mean 1 says. Groups are formed in the
# database by the MD5 of a query's text, and drawn here by a generator with a fixed seed: the same
# log has the same intervals on every database.

SEED = 2026
FEWEST = 20
"""Of fewer samples that have an answer there is no interval."""


def samples(groups: Iterable[float], count: int) -> Iterator[dict[float, int]]:
    """So many samples: group -> how often it stands there, of those that do.

    Args:
        groups: Their numbers.
        count: How many samples.
    """
    chance = Random(SEED)  # noqa: S311 (nothing is hidden by it)
    ordered = sorted(groups)
    for _ in range(count):
        draws = ((group, _poisson(chance.random())) for group in ordered)
        yield {group: times for group, times in draws if times}


def interval(values: Iterable[float | None], confidence: float) -> Interval:
    """The percentiles of what samples say; None twice if too few say something.

    Args:
        values: Of each sample; None where it says nothing.
        confidence: The coverage, above 0 and below 1.
    """
    known_values = [value for value in values if value is not None]
    if len(known_values) < FEWEST:
        return None, None
    return percentile_interval(known_values, confidence)


def _poisson(share: float) -> int:
    """The number whose cumulated chance a share lies below, of a Poisson law with mean 1."""
    times, chance = 0, exp(-1)
    reached = chance
    while share >= reached and times < 12:
        times += 1
        chance /= times
        reached += chance
    return times


ATTRACTIONS = "sqlmetrics_attractions"
"""The table of the attractions of a round begins so."""

PAIRS = "sqlmetrics_pair_counts"
"""The table of the pairs of a layout."""

MOST = 0.999999
"""The largest propensity, and the largest attraction: a chance of 1 has no logarithm of its
opposite."""

FARTHEST = 1.0
"""The logarithm of a propensity is accelerated by no more."""

Curve = Mapping[int, float]
"""Position -> propensity."""

Counts = Mapping[int, tuple[float, float]]
"""Position -> impressions and clicks."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Round:
    """A round of the expectation maximisation.

    Attributes:
        number: From 1; those that were taken back are left out.
        log_likelihood: Of the clicks of moved items, before the propensities changed.
        change: The largest share by which a step of expectation maximisation changes a propensity.
        group: The value of the device or layout column; None if there is no such column.
    """

    number: int
    log_likelihood: float
    change: float
    group: str | None = None

    def __str__(self) -> str:
        prefix = "" if self.group is None else f"{printable(self.group)}, "
        return (
            f"{prefix}round {self.number}: log-likelihood {self.log_likelihood:,.3f}, "
            f"largest change {self.change:.2g}"
        )


@dataclass(frozen=True)
class Fit:
    """What expectation maximisation found of a layout.

    Attributes:
        curve: Position -> propensity, against its first position.
        rounds: Its rounds.
        samples: The same as the curve, of samples of the queries.
    """

    curve: Curve
    rounds: tuple[Round, ...]
    samples: Sequence[Curve]


@dataclass(frozen=True)
class Limits:
    """How far expectation maximisation goes.

    Attributes:
        tolerance: A round in which no propensity would change by a larger share is the last.
        max_rounds: After so many it ends at the latest.
        replicates: How many samples of the queries are drawn.
        on_round: Is told each round, as the log `sqlmetrics` is.
    """

    tolerance: float
    max_rounds: int
    replicates: int
    on_round: Callable[[Round], None] | None = None

    def tell(self, iteration: Round) -> None:
        """Tell of a round."""
        _LOG.info("em %s", iteration)
        if self.on_round:
            self.on_round(iteration)


def fitted(
    engine: Database, starts: Mapping[str | None, Curve], limits: Limits
) -> dict[str | None, Fit]:
    """Fit the model to the table of moved items: layout -> what was found.

    Args:
        engine: The database.
        starts: Layout, or None where there are none -> propensities to start with.
        limits: How far to go.
    """
    counts = _counts(engine)
    fit_by_group = {}
    for group, start in starts.items():
        pairs = stage(
            "pair_counts", {"moved": MOVED, "positions": [*start], "layout": literal(group or "")}
        )
        with Step(PAIRS, select_of([pairs])).created_in(engine):
            fit_by_group[group] = _fitted(engine, group, start, counts[group or ""], limits)
    return fit_by_group


def _counts(engine: Database) -> dict[str, dict[int, tuple[float, float]]]:
    """Layout -> what was shown at its positions, and clicked."""
    counts: dict[str, dict[int, tuple[float, float]]] = {}
    for group, position, n, c in engine.rows(
        select_of([stage("position_counts", {"moved": MOVED})])
    ):
        counts.setdefault(str(group), {})[int(position)] = float(n), float(c)
    return counts


def _fitted(
    engine: Database, group: str | None, start: Curve, counts: Counts, limits: Limits
) -> Fit:
    looks = back = after = _scaled(start)
    path, rounds = Anderson(), list[Round]()
    with ExitStack() as stack:
        current = stack.enter_context(ExitStack())
        current.enter_context(_first(group, looks).created_in(engine))
        for number in range(1, limits.max_rounds + 1):
            later = ExitStack()
            later.enter_context(_next(looks, number).created_in(engine))
            current.close()
            current = stack.enter_context(later)
            image, log_likelihood = _examinations(engine, looks, counts, number)
            if rounds and log_likelihood < rounds[-1].log_likelihood * (1 + NOISE):
                path.forget()
                looks = back
                continue
            after = image
            rounds.append(Round(number, log_likelihood, _change(looks, after), group))
            limits.tell(rounds[-1])
            if rounds[-1].change <= limits.tolerance:
                break
            looks, back = _accelerated(path, looks, after), _scaled(after)
        curve_samples = _resampled(engine, group, after, number, limits.replicates)
    return Fit(_relative(after), tuple(rounds), curve_samples)


def _accelerated(path: Anderson, looks: Curve, after: Curve) -> dict[int, float]:
    """Where the next round begins: no propensity is farther than FARTHEST from the step's."""
    image = _logs(after)
    accelerated = path.next(_logs(looks), image)
    near = (
        min(max(x, centre - FARTHEST), centre + FARTHEST)
        for x, centre in zip(accelerated, image, strict=True)
    )
    return _scaled(dict(zip(looks, map(exp, near), strict=True)))


def _scaled(curve: Curve) -> dict[int, float]:
    """The same, against the largest one."""
    largest = max(curve.values())
    return {position: propensity * MOST / largest for position, propensity in curve.items()}


def _logs(curve: Curve) -> list[float]:
    return [log(propensity) for propensity in curve.values()]


def _relative(curve: Curve) -> dict[int, float]:
    return {position: propensity / curve[min(curve)] for position, propensity in curve.items()}


def _change(before: Curve, after: Curve) -> float:
    old, new = _relative(before), _relative(after)
    return max(abs(new[position] / propensity - 1) for position, propensity in old.items())


def _looks(group: str | None, looks: Curve) -> Iterator[Stage]:
    """The stages of the rows of moved items, with how likely their positions are looked at."""
    rows = (Propensity(k, p, group=group or "") for k, p in looks.items())
    yield propensities(PropensityCurve("em", tuple(rows)))
    yield stage("looks", {"moved": MOVED})


def _skip_chances(looks: Curve, number: int) -> tuple[Stage, dict[str, object]]:
    """The stage of pairs with the chances of no click, and what those behind it print."""
    view = {"looks": {position: double(look) for position, look in looks.items()}}
    tables = {"pairs": PAIRS, "attractions": f"{ATTRACTIONS}_{number}"}
    return stage("skip_chances", {**view, **tables}), {**view}


def _first(group: str | None, looks: Curve) -> Step:
    return _attractions([*_looks(group, looks), stage("first_attractions", {})], 0)


def _next(looks: Curve, number: int) -> Step:
    chances, view = _skip_chances(looks, number - 1)
    return _attractions(
        [chances, stage("expected_impressions", view), stage("attractions", {})], number
    )


def _attractions(stages: Sequence[Stage], number: int) -> Step:
    view = {"raised": stages[-1].name, "most": double(MOST)}
    select = with_stages(stages, print_template("clicks/propensity/capped", view))
    return Step(f"{ATTRACTIONS}_{number}", select)


def _examinations(
    engine: Database, looks: Curve, counts: Counts, number: int
) -> tuple[dict[int, float], float]:
    """The propensities after a step, the largest as it was, and the log-likelihood before it."""
    chances, view = _skip_chances(looks, number)
    (row,) = engine.rows(select_of([chances, stage("position_sums", view)]))
    *expected, log_likelihood = map(float, row)
    largest, after, likelihoods = max(looks.values()), {}, [log_likelihood]
    for (position, look), n_expected in zip(looks.items(), expected, strict=True):
        n_impressions, n_clicks = counts[position]
        # of those without a click, (1 - look) / chance of no click were not looked at
        stepped = 1 - (1 - look) * n_expected / n_impressions
        after[position] = look if look == largest else stepped
        likelihoods.append(n_clicks * log(look))
    return after, sum(likelihoods)


def _resampled(
    engine: Database, group: str | None, looks: Curve, number: int, count: int
) -> list[dict[int, float]]:
    """The propensities by so many samples of the queries."""
    if not count:
        return []
    view = {"attractions": f"{ATTRACTIONS}_{number}"}
    chances = [*_looks(group, looks), stage("chances", view)]
    scores: dict[float, dict[int, float]] = {}
    information_by_position: dict[int, float] = {}
    for bucket, position, score, information in sorted(
        engine.rows(select_of([*chances, stage("scores", {})]))
    ):
        scores.setdefault(float(bucket), {})[int(position)] = float(score)
        information_by_position[int(position)] = information_by_position.get(
            int(position), 0.0
        ) + float(information)
    names = ("informations", "pair_sums", "shared_information")
    stages = [*chances, *(stage(name, {}) for name in names)]
    shared = {
        (int(above), int(below)): float(information)
        for above, below, information in engine.rows(select_of(stages))
    }
    return _steps(looks, scores, information_by_position, shared, count)


def _steps(
    curve: Mapping[int, float],
    scores: Mapping[float, Mapping[int, float]],
    information_by_position: Mapping[int, float],
    shared: Mapping[Ends, float],
    count: int,
) -> list[dict[int, float]]:
    """One step of Newton's from a curve for each sample, against its first position."""
    reference, *other_positions = sorted(curve)
    matrix = [
        [
            (information_by_position[k] if k == m else 0.0) - shared.get((k, m), 0.0)
            for m in other_positions
        ]
        for k in other_positions
    ]
    turned, base, curves = inverse(matrix), _relative(curve), []
    for sample in samples(scores, count):
        times = {group: sample.get(group, 0) - 1 for group in scores}
        pulls = [sum(n * scores[g].get(k, 0.0) for g, n in times.items()) for k in other_positions]
        steps = [sum(a * b for a, b in zip(row, pulls, strict=True)) for row in turned]
        moved = {k: base[k] * exp(step) for k, step in zip(other_positions, steps, strict=True)}
        curves.append({reference: 1.0, **moved})
    return curves
