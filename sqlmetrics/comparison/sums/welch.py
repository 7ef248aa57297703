"""The difference of two means over queries that need not be the same: Welch, by the sums."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlmetrics.stats import NOISE, TIED

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
