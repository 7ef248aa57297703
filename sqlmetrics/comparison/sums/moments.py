"""Counts and sums of paired values, made in the warehouse; what follows from them alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.statements import chosen_if, join_stage, segments_stage, sums_stage
from sqlmetrics.comparison.sums.pairing import METRIC, SEGMENT, Pairing, is_above
from sqlmetrics.plan.shape import segment
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.stats import NOISE, TIED

KEYS = ("system", *SEGMENT, *METRIC)
Key = tuple[Any, ...]
"""System, segment, its value, metric and cutoff."""

Rows = Callable[[Sequence[Stage], str], list[dict[str, Any]]]
"""Runs a select of some stages over `per_query`."""


def key_of(row: Mapping[str, Any]) -> Key:
    """The key of a row of the warehouse."""
    return (*(row[name] for name in KEYS[:-1]), int(row["k"]))


@dataclass(frozen=True)
class Moments:
    """Sums over clusters of queries; without clusters, over queries.

    Attributes:
        n: Queries that both systems have a value of.
        n_clusters: What is independent of each other: as many as queries, or fewer.
        weight: The sum of the weights; the queries where there are none.
        weight2: The sum of the squares of the clusters' weights.
        x: The sum of the system's values, weighted; `y` of the baseline's.
        y: See `x`.
        x2: The sum of the squares of the clusters' x; `y2` and `xy` likewise.
        y2: See `x2`.
        xy: See `x2`.
        centre: The number about which differences are summed, near their mean.
        d: The sum of differences less the centre, weighted.
        d2: The sum of the squares of the clusters' d.
        dw: The sum of the clusters' d times their weight.
        wins: Queries with a higher value than the baseline's, by more than 1e-9.
        losses: With a lower one.
    """

    n: int
    n_clusters: int
    weight: float
    weight2: float
    x: float
    y: float
    x2: float
    y2: float
    xy: float
    centre: float
    d: float
    d2: float
    dw: float
    wins: int
    losses: int

    @property
    def value(self) -> float:
        """The system's mean over the queries that both have."""
        return self.x / self.weight

    @property
    def baseline_value(self) -> float:
        """The baseline's."""
        return self.y / self.weight

    @property
    def difference(self) -> float:
        """The mean difference; 0 if no query differs by more than its last digits."""
        return self.centre + self.d / self.weight if self.differs else 0.0

    @property
    def differs(self) -> bool:
        """Whether a query differs by more than the last digits of what was summed for it."""
        return self.wins > 0 or self.losses > 0

    @property
    def ties(self) -> int:
        """Queries with the same value."""
        return self.n - self.wins - self.losses

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean difference; None with less than two clusters.

        The linearised ratio of sums of clusters (delta method); without clusters and weights
        it is s / sqrt(n), that of the paired t-test.
        """
        if self.n_clusters < 2:
            return None
        return math.sqrt(self.squares * self.n_clusters / (self.n_clusters - 1)) / self.weight

    @property
    def squares(self) -> float:
        """The sum of the squares of what clusters' sums are off the mean difference."""
        if not self.differs:
            return 0.0
        off = self.d / self.weight
        squares = self.d2 - 2 * off * self.dw + off * off * self.weight2
        return squares if squares > self.weight2 * NOISE**2 else 0.0

    @property
    def df(self) -> float:
        """Degrees of freedom."""
        return self.n_clusters - 1

    @property
    def effect_size(self) -> float | None:
        """Cohen's d of paired values: the mean difference over its standard deviation."""
        error = self.standard_error
        return self.difference / (error * math.sqrt(self.n_clusters)) if error else None

    @property
    def n_baseline(self) -> int:
        """The baseline's queries: the same."""
        return self.n

    @property
    def n_drawn(self) -> int:
        """Clusters of either side: the same."""
        return self.n_clusters

    def exact(self) -> tuple[float, str] | None:
        """Where all differ by the same: 2 of the 2^n ways to change places are as extreme."""
        chance = 2.0 ** (1 - self.n_clusters)
        return (chance, "exact sign flip") if self.differs else (1.0, "")


PART = 40
"""So many metrics are summed by one query: databases bound how many columns a row has."""


def moments_of(pairing: Pairing, rows: Rows) -> dict[Key, Moments]:
    """System, segment, its value, metric and cutoff -> the moments of its pairs.

    Args:
        pairing: What is compared.
        rows: Runs a select of some stages over `per_query`.
    """
    moments_by_key = {}
    for first in range(0, len(pairing.measures), PART):
        part = replace(pairing, measures=pairing.measures[first : first + PART])
        for row in rows(*moments_query(part)):
            for measure in part.measures:
                if row[f"{measure.column}_n"]:
                    key = (*(row[name] for name in KEYS[:3]), measure.name, measure.k or 0)
                    moments_by_key[key] = _read(row, measure)
    return moments_by_key


def moments_query(pairing: Pairing) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of one row per system and segment."""
    return [*pairing.stages(), *_stages(pairing)], "select *\nfrom moments"


def _stages(pairing: Pairing) -> Iterator[Stage]:
    yield _centres(pairing)
    yield _differences(pairing)
    source = "differences"
    if pairing.cluster:
        yield _cluster_sums(pairing)
        source = "cluster_sums"
    yield _segment_sums(pairing, source)
    columns: list[object] = ["segment_sums.*"]
    columns += [f"centres.{measure.column}_centre" for measure in pairing.measures]
    about = "one row per system and segment: the counts and sums of its pairs, by metric"
    yield join_stage("moments", about, columns, "segment_sums", to="centres", on=("system",))


def _centres(pairing: Pairing) -> Stage:
    about = "squares are summed about numbers near the means, so that no digits are lost"
    mean = pairing.plan.translation.mean
    columns = [
        Column(mean(f"{measure.column}_difference"), f"{measure.column}_centre")
        for measure in pairing.measures
    ]
    return sums_stage("centres", about, ["system"], columns, "pairs")


def _summed(pairing: Pairing, measure: Measure) -> dict[str, str]:
    """What is summed -> its value of a pair; of one without a difference 0 or NULL."""
    column = measure.column
    weighted = pairing.weight != "1e0"
    times = " * weight" if weighted else ""
    is_paired = f"{column}_difference is not null"
    cells = {"n": chosen_if(is_paired, "1", "0")}
    if weighted:
        cells["weight"] = chosen_if(is_paired, "weight")
    return cells | {
        "x": chosen_if(is_paired, f"{column}{times}"),
        "y": chosen_if(is_paired, f"{column}_baseline{times}"),
        "d": f"({column}_difference - {column}_centre){times}"
        if times
        else f"{column}_difference - {column}_centre",
        "wins": is_above(f"{column}_difference"),
        "losses": is_above(f"-{column}_difference"),
    }


def _differences(pairing: Pairing) -> Stage:
    carried = [name for name in pairing.carried if name != "weight"]
    columns: list[object] = [f"pairs.{name}" for name in carried]
    for measure in pairing.measures:
        cells = _summed(pairing, measure).items()
        columns += [Column(text, f"{measure.column}_{name}") for name, text in cells]
    about = "one row per query and system: the terms of the sums, by metric"
    return join_stage("differences", about, columns, "pairs", to="centres", on=("system",))


def _cluster_sums(pairing: Pairing) -> Stage:
    about = "one row per cluster, system and segment"
    sums = [
        Column(_added(pairing, name, f"{measure.column}_{name}"), f"{measure.column}_{name}")
        for measure in pairing.measures
        for name in _summed(pairing, measure)
    ]
    if pairing.clusters_have_segments:  # one row of sums is of all segments
        about = "one row per cluster and system"
        cluster_keys = [*dict.fromkeys(["system", "cluster", *map(segment, pairing.by)])]
        return sums_stage("cluster_sums", about, cluster_keys, sums, "differences")
    keys = ["system", "cluster"], list[str]()
    return segments_stage(
        "cluster_sums", about, keys, sums, "differences", segments=pairing.segments
    )


_MOMENTS = {
    "n": "{n}",
    "n_clusters": "case when {n} > 0 then 1 else 0 end",
    "weight": "{weight}",
    "weight2": "{weight} * {weight}",
    "x": "{x}",
    "y": "{y}",
    "x2": "{x} * {x}",
    "y2": "{y} * {y}",
    "xy": "{x} * {y}",
    "d": "{d}",
    "d2": "{d} * {d}",
    "dw": "{d} * {weight}",
    "wins": "{wins}",
    "losses": "{losses}",
}
"""Attribute of `Moments` -> what it is the sum of."""

_INTEGERS = frozenset({"n", "n_clusters", "wins", "losses"})


def _added(pairing: Pairing, name: str, text: str) -> str:
    """A sum: of counts, or of floats."""
    total = pairing.plan.translation.total
    return f"sum({text})" if name in _INTEGERS else total(text)


def _segment_sums(pairing: Pairing, source: str) -> Stage:
    sums = []
    for measure in pairing.measures:
        names = {name: f"{measure.column}_{name}" for name in _summed(pairing, measure)}
        names.setdefault("weight", names["n"])
        texts = {name: text.format(**names) for name, text in _MOMENTS.items()}
        sums += [
            Column(_added(pairing, name, text), f"{measure.column}_{name}")
            for name, text in texts.items()
        ]
    about = "one row per system and segment: sums and products, by metric"
    if source == "cluster_sums" and not pairing.clusters_have_segments:
        return sums_stage("segment_sums", about, KEYS[:3], sums, source)
    keys = ["system"], list[str]()
    return segments_stage("segment_sums", about, keys, sums, source, segments=pairing.segments)


def _read(row: Mapping[str, Any], measure: Measure) -> Moments:
    """The moments of a metric in a row of the query."""
    fields: dict[str, Any] = {
        name: (int if name in _INTEGERS else float)(row[f"{measure.column}_{name}"])
        for name in (*_MOMENTS, "centre")
    }
    return Moments(**fields)


# The difference of two means over queries that need not be the same: Welch, by the sums.

SIDES = ("system", "baseline")
BOTH = "both"

Vector = Mapping[str, float]


@dataclass(frozen=True)
class Group:
    """Clusters that both sides have, or one of them.

    Attributes:
        n: How many.
        sums: Of each variable of a cluster: its weight, its values and covariates less a centre,
            on each side.
        products: Of two variables, in their order.
    """

    n: int
    sums: Vector
    products: Mapping[tuple[str, str], float]

    def product(self, first: Vector, second: Vector) -> float:
        """The sum over clusters of the product of two sums of variables, times factors."""
        return math.fsum(
            a * b * self.products.get((x, y), self.products.get((y, x), 0.0))
            for x, a in first.items()
            for y, b in second.items()
        )


@dataclass(frozen=True)
class SampleMoments:
    """Sums over the clusters of two systems.

    The mean of a system is a ratio of sums over its clusters, and the variance of the difference
    is that of the two ratios, linearised (delta method), less twice their covariance over the
    clusters that both have. Without weights and clusters it is Welch's t-test where no query is
    on both sides, and the paired t-test where all are.

    With a covariate the difference is less theta times the difference of the covariate's means:
    theta is the slope within the two sides, pooled (CUPED; Deng, Xu, Kohavi and Walker 2013). Where
    the covariate is a ratio by itself (`is_ratio`), it is linearised like the value, theta is the
    slope over both sides together, and its own error is left out, as the delta method has it.

    Attributes:
        n: Queries of the system.
        n_other: Queries of the baseline.
        n_covered: Queries of either that have a covariate.
        centres: What the values of each side were summed less of.
        groups: `system`, `baseline`, `both` -> the clusters that are there.
        is_adjusted: Whether there is a covariate.
        is_ratio: Whether it has weights of its own.
    """

    n: int
    n_other: int
    n_covered: int
    centres: Vector
    groups: Mapping[str, Group]
    is_adjusted: bool = False
    is_ratio: bool = False

    @property
    def n_baseline(self) -> int:
        """Queries behind the baseline's mean."""
        return self.n_other

    @property
    def n_clusters(self) -> int:
        """Of the side that has fewer."""
        return min(self._n_of(side) for side in SIDES)

    @property
    def n_drawn(self) -> int:
        """Clusters of either side."""
        return sum(group.n for group in self.groups.values())

    def _n_of(self, side: str) -> int:
        return sum(group.n for name, group in self.groups.items() if name in (side, BOTH))

    def _sum(self, name: str) -> float:
        return math.fsum(group.sums[name] for group in self.groups.values())

    def _below(self, variable: str) -> str:
        return "c_weight" if self.is_ratio and variable == "c" else "weight"

    def _mean(self, side: str, variable: str) -> float:
        below = self._sum(f"{side}_{self._below(variable)}")
        return self._sum(f"{side}_{variable}") / below if below else 0.0

    def _of_sides(self, variable: str) -> float:
        return math.fsum(self._sum(f"{side}_{variable}") for side in SIDES)

    def _product(self, first: Vector, second: Vector) -> float:
        return math.fsum(group.product(first, second) for group in self.groups.values())

    def _residual(self, side: str, variable: str, factor: float = 1.0) -> Vector:
        """What a cluster's sum has beyond the side's mean, as factors of its variables."""
        mean = self._mean(side, variable)
        return {f"{side}_{variable}": factor, f"{side}_{self._below(variable)}": -mean * factor}

    def _overall_residual(self, side: str, variable: str) -> Vector:
        """What it has beyond the mean of both sides."""
        below = self._below(variable)
        centres = self.centres if variable == "y" else dict.fromkeys(SIDES, 0.0)
        shifts = (centres[name] * self._sum(f"{name}_{below}") for name in SIDES)
        mean = (self._of_sides(variable) + math.fsum(shifts)) / self._of_sides(below)
        return {f"{side}_{variable}": 1.0, f"{side}_{below}": centres[side] - mean}

    @property
    def is_defined(self) -> bool:
        """Whether both sides have something to divide by."""
        return all(self._sum(f"{side}_weight") for side in SIDES)

    @cached_property
    def theta(self) -> float:
        """How much a value rises with its covariate; 0 without one, or if it does not vary."""
        below = self._below("c")
        if not (self.is_adjusted and all(self._sum(f"{side}_{below}") for side in SIDES)):
            return 0.0
        residual = self._overall_residual if self.is_ratio else self._residual
        products = squares = 0.0
        for side in SIDES:
            y, c = (residual(side, name) for name in "yc")
            products += self._product(y, c)
            squares += self._product(c, c)
        raw_squares = sum(self._product({f"{s}_c": 1.0}, {f"{s}_c": 1.0}) for s in SIDES)
        scale = self._of_sides(below) / self._of_sides("weight")
        return products / squares * scale if squares > raw_squares * NOISE else 0.0

    def _plain(self, side: str) -> float:
        return self.centres[side] + self._mean(side, "y")

    def _adjusted(self, side: str) -> float:
        """The mean of a side where the covariate's mean is that of both."""
        mean = self._plain(side)
        if not self.is_adjusted:
            return mean
        weights = self._of_sides(self._below("c"))
        common = self._of_sides("c") / weights if weights else 0.0
        return mean - self.theta * (self._mean(side, "c") - common)

    @property
    def value(self) -> float:
        """The system's mean; adjusted, if there is a covariate."""
        return self._adjusted("system")

    @property
    def baseline_value(self) -> float:
        """The baseline's, likewise."""
        return self._adjusted("baseline")

    @property
    def difference(self) -> float:
        """The first less the second."""
        means = [self._plain(side) for side in SIDES]
        difference = means[0] - means[1]
        if self.is_adjusted:
            before = [self._mean(side, "c") for side in SIDES]
            difference -= self.theta * (before[0] - before[1])
        return difference if abs(difference) > NOISE * max(1.0, *map(abs, means)) else 0.0

    def _influence(self, side: str, theta: float) -> dict[str, float]:
        """How far a cluster of a side moves the side's mean, as factors of its variables."""
        n = self._n_of(side)
        factor = math.sqrt(n / (n - 1))
        factors = dict(self._residual(side, "y", factor / self._sum(f"{side}_weight")))
        if theta:
            of_covariate = -theta * factor / self._sum(f"{side}_{self._below('c')}")
            for name, value in self._residual(side, "c", of_covariate).items():
                factors[name] = factors.get(name, 0.0) + value
        return factors

    def _variances(
        self, theta: float, scales: tuple[float, float] = (1.0, 1.0)
    ) -> list[tuple[float, int]]:
        """Of each group: what it adds to the variance of the difference, and its clusters.

        Args:
            theta: The slope of the covariate.
            scales: What both means are divided by.
        """
        moved = {
            name: sign * value / scale
            for side, sign, scale in zip(SIDES, (1, -1), scales, strict=True)
            for name, value in self._influence(side, theta).items()
        }
        return [(max(0.0, group.product(moved, moved)), group.n) for group in self.groups.values()]

    def _variance(self, theta: float, scales: tuple[float, float] = (1.0, 1.0)) -> float:
        variance = math.fsum(value for value, _ in self._variances(theta, scales))
        n = self.n_drawn
        return (
            variance * (n - 2) / (n - 3) if theta and n > 3 and not self.is_ratio else variance
        )  # theta is estimated too

    @cached_property
    def standard_error(self) -> float | None:
        """Of the difference; None with less than two clusters of a side, 0 if nothing varies."""
        if self.n_clusters < 2:
            return None
        variance = self._variance(self.theta)
        least = max(NOISE**2 / self.n_clusters, NOISE * self._variance_of_sides)
        return math.sqrt(variance) if variance > least else 0.0

    @property
    def _variance_of_sides(self) -> float:
        """Of both means, which goes away in their difference where clusters are on both sides."""
        influences = (self._influence(side, 0.0) for side in SIDES)
        return math.fsum(self._product(influence, influence) for influence in influences)

    @property
    def df(self) -> float:
        """Degrees of freedom, by Welch and Satterthwaite over the groups."""
        return self._df((1.0, 1.0))

    def _df(self, scales: tuple[float, float]) -> float:
        parts = self._variances(self.theta, scales)
        total = math.fsum(value for value, _ in parts)
        least = math.fsum(value**2 / max(1, n - 1) for value, n in parts)
        return max(1.0, total**2 / least - bool(self.theta and not self.is_ratio))

    @property
    def log_ratio(self) -> tuple[float, float, float] | None:
        """The logarithm of the ratio of both means, its standard error and degrees of freedom.

        The delta method on the logarithm of each mean; None where one is not above 0, or nothing
        varies.
        """
        means = (self.value, self.baseline_value)
        if not (self.standard_error and min(means) > 0):
            return None
        variance = self._variance(self.theta, means)
        df = self._df(means) if variance > 0 else 1.0
        return math.log(means[0] / means[1]), math.sqrt(variance), df

    @property
    def variance_reduction(self) -> float | None:
        """The share of the variance that the covariate took away; None without one."""
        if not self.is_adjusted or self.n_clusters < 2:
            return None
        plain = self._variance(0.0)
        return 1 - self._variance(self.theta) / plain if plain > 0 else None

    @property
    def effect_size(self) -> float | None:
        """Cohen's d of two samples: the difference over the standard deviation within both."""
        if not self.standard_error:
            return None
        squares = 0.0
        for side in SIDES:
            n, influence = self._n_of(side), self._influence(side, 0.0)
            squares += self._product(influence, influence) * n * (n - 1)
        n = sum(self._n_of(side) for side in SIDES)
        return self.difference / math.sqrt(squares / (n - 2)) if squares > 0 else None

    def exact(self) -> tuple[float, str] | None:
        """Where each side has one value: of the ways to share the clusters, 1 or 2 are as far."""
        if abs(self.difference) <= TIED:
            return 1.0, ""
        if BOTH in self.groups:
            return None
        n_system, n_baseline = (self._n_of(side) for side in SIDES)
        return (1 + (n_system == n_baseline)) / math.comb(
            n_system + n_baseline, n_system
        ), "exact permutation"
