"""Covariances of true effects: those of estimates, less the mean covariance of their errors.

An experiment's estimates are its true effects plus noise: x = t + e, with the covariance of e known
from within the experiment. Over experiments Cov(x) = Cov(t) + mean Cov(e), so that the covariance
of the true effects is what is left when that of the errors is taken away.

Source: Tripuraneni, Richardson, D'Amour, Soriano and Yadlowsky, Choosing a proxy metric from past
experiments, 2023, arXiv 2309.07893.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from typing import TypeAlias

from sqlmetrics.stats import NOISE

COLLINEAR = 0.01
"""A metric is left out of a mixture if less of its variance than this is its alone."""

Matrix: TypeAlias = list[list[float]]


@dataclass(frozen=True)
class Effect:
    """What an experiment measured of a proxy and of the target.

    Attributes:
        proxy: The difference of the proxy.
        target: The difference of the target.
        proxy_noise: The square of the standard error of the former.
        target_noise: That of the latter.
        shared_noise: The covariance of both errors; 0 if they come from different units.
    """

    proxy: float
    target: float
    proxy_noise: float
    target_noise: float
    shared_noise: float = 0.0


@dataclass(frozen=True)
class Moments:
    """Variances and the covariance of a proxy and the target over experiments.

    Attributes:
        proxy: The variance of the proxy's measured differences.
        target: That of the target's.
        covariance: The covariance of both.
        proxy_noise: The mean variance of the proxy's errors.
        target_noise: That of the target's.
        shared_noise: The mean covariance of both errors.
    """

    proxy: float
    target: float
    covariance: float
    proxy_noise: float
    target_noise: float
    shared_noise: float

    @property
    def true_covariance(self) -> float:
        """Of the true effects."""
        return self.covariance - self.shared_noise

    @property
    def true_proxy(self) -> float:
        """The variance of the proxy's true effects; 0 if the noise explains all of it."""
        return _signal_variance(self.proxy, self.proxy_noise)

    @property
    def true_target(self) -> float:
        """That of the target's."""
        return _signal_variance(self.target, self.target_noise)

    @property
    def naive(self) -> float | None:
        """The correlation of what was measured; None if one side has no variance."""
        return _correlation(self.covariance, self.proxy, self.target)

    @property
    def correlation(self) -> float | None:
        """Of the true effects; None if one of them has no variance beyond noise."""
        return _correlation(self.true_covariance, self.true_proxy, self.true_target)

    @property
    def quality(self) -> float | None:
        """Of the measured difference of the proxy and the true effect on the target."""
        return _correlation(self.true_covariance, self.proxy, self.true_target)

    @property
    def limits(self) -> tuple[float, float]:
        """Correlation and quality; 1 or -1 in place of none, as if the variance were nearly 0."""
        end = math.copysign(1.0, self.true_covariance) if self.true_covariance else 0.0
        correlation, quality = self.correlation, self.quality
        return end if correlation is None else correlation, end if quality is None else quality


def _signal_variance(variance: float, noise: float) -> float:
    return variance - noise if variance - noise > NOISE * variance else 0.0


def _correlation(covariance: float, variance: float, other_variance: float) -> float | None:
    if not (variance > 0 and other_variance > 0):
        return None
    return max(-1.0, min(1.0, covariance / math.sqrt(variance) / math.sqrt(other_variance)))


class Effects:
    """The experiments of a proxy, of which any may count several times.

    Args:
        effects: One per experiment.
    """

    def __init__(self, effects: Sequence[Effect]) -> None:
        n = len(effects)
        proxy_mean = math.fsum(effect.proxy for effect in effects) / max(n, 1)
        target_mean = math.fsum(effect.target for effect in effects) / max(n, 1)
        rows = []
        for effect in effects:
            x, y = effect.proxy - proxy_mean, effect.target - target_mean
            noises = (effect.proxy_noise, effect.target_noise, effect.shared_noise)
            rows.append((x, y, x * x, y * y, x * y, *noises))
        self.columns = [*zip(*rows, strict=True)]

    def moments(self, counts: Sequence[int] | None = None) -> Moments | None:
        """The moments; None with fewer than two experiments.

        Args:
            counts: How often each is drawn, in a bootstrap. The variance of a sample with
                replacement is smaller by (n - 1) / n on average, which is undone here.

        >>> effects = [Effect(x, y, 0.5, 0.25) for x, y in ((1, 2), (2, 1), (3, 6))]
        >>> moments = Effects(effects).moments()
        >>> moments.proxy, moments.target, moments.covariance, moments.true_proxy
        (1.0, 7.0, 2.0, 0.5)
        >>> round(moments.naive, 4), round(moments.quality, 4)  # 2 / sqrt(1 * 6.75)
        (0.7559, 0.7698)
        """
        n = (len(self.columns[0]) if self.columns else 0) if counts is None else sum(counts)
        if n < 2:
            return None
        sums = [
            math.fsum(column) if counts is None else sum(map(mul, counts, column))
            for column in self.columns
        ]
        x, y, xx, yy, xy, x_noise, y_noise, xy_noise = sums
        df = n - 1 if counts is None else (n - 1) * (n - 1) / n
        return Moments(
            max(0.0, (xx - x * x / n) / df),
            max(0.0, (yy - y * y / n) / df),
            (xy - x * y / n) / df,
            *(noise / n for noise in (x_noise, y_noise, xy_noise)),
        )


class Mixtures:
    """Weighted sums of proxies, as near to the true effect on the target as they get.

    With S the covariance of the proxies' measured differences, and c that of their true effects
    with the target's, the weights are those w of S w = c: of all sums, that of w correlates best.

    Args:
        proxies: The effects of each proxy, in the same experiments.
    """

    def __init__(self, proxies: Sequence[Sequence[Effect]]) -> None:
        self.n_experiments = len(proxies[0])
        target = _centred([effect.target for effect in proxies[0]])
        self.proxies = [_centred([effect.proxy for effect in effects]) for effects in proxies]
        self._target = target
        self._products = [
            [[*map(mul, column, other)] for other in self.proxies[: number + 1]]
            for number, column in enumerate(self.proxies)
        ]
        self._with_target = [[*map(mul, column, target)] for column in self.proxies]
        self._shared = [[effect.shared_noise for effect in effects] for effects in proxies]

    def weights(self, counts: Sequence[int], *, is_resampled: bool = False) -> list[float]:
        """The weight of each proxy; 0 if the others say the same.

        Args:
            counts: How often each experiment is drawn.
            is_resampled: Whether they are drawn with replacement.
        """
        n = sum(counts)
        df = (n - 1) * (n - 1) / n if is_resampled else n - 1
        if df <= 0:
            return [0.0] * len(self.proxies)

        def total(column: Sequence[float]) -> float:
            return sum(map(mul, counts, column), 0.0)

        sums = [total(column) for column in self.proxies]
        observed = [
            [
                (total(product) - sums[i] * sums[j] / n) / df
                for j, product in enumerate(self._products[i])
            ]
            for i in range(len(sums))
        ]
        target = total(self._target)
        covariances = [
            (total(product) - x * target / n) / df - total(shared) / n
            for product, x, shared in zip(self._with_target, sums, self._shared, strict=True)
        ]
        return solved(observed, covariances)

    def held_out(self) -> list[tuple[float, float]]:
        """The sum of each experiment by the weights of all others, and its `shared_noise`."""
        values = []
        for left_out in range(self.n_experiments):
            counts = [1] * self.n_experiments
            counts[left_out] = 0
            weights = self.weights(counts)
            value, shared = (
                sum(map(mul, weights, (column[left_out] for column in columns)))
                for columns in (self.proxies, self._shared)
            )
            values.append((value, shared))
        return values


def _centred(values: Sequence[float]) -> list[float]:
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


def solved(lower: Matrix, right: Sequence[float]) -> list[float]:
    """The solution of a symmetric system by Cholesky's method, of any scales.

    What is (nearly) a sum of others is 0 in it: the variables are taken in the order of their
    correlation with the right side, each if `COLLINEAR` of its variance is left.

    Args:
        lower: The rows of the matrix, each up to the diagonal.
        right: The right side.

    >>> [round(x, 12) for x in solved([[4.0], [2.0, 3.0]], [2.0, 5.0])]
    [-0.5, 2.0]
    >>> solved([[4.0], [4.0, 4.0]], [2.0, 2.0])
    [0.5, 0.0]
    """
    scales = [math.sqrt(max(row[-1], 0.0)) for row in lower]
    shares = [x / scale if scale else 0.0 for x, scale in zip(right, scales, strict=True)]
    kept: list[int] = []
    factors: list[list[float]] = []
    halfway: list[float] = []
    for i in sorted(range(len(right)), key=lambda number: -abs(shares[number])):
        if not scales[i]:
            continue
        row: list[float] = []
        for j, factor in zip(kept, factors, strict=True):
            entry = lower[max(i, j)][min(i, j)] / scales[i] / scales[j]
            row.append((entry - sum(map(mul, row, factor))) / factor[-1])
        pivot = 1 - sum(x * x for x in row)
        if pivot >= COLLINEAR:
            halfway.append((shares[i] - sum(map(mul, row, halfway))) / math.sqrt(pivot))
            factors.append([*row, math.sqrt(pivot)])
            kept.append(i)
    solution = [0.0] * len(right)
    for step in reversed(range(len(kept))):
        rest = sum(
            factors[later][step] * solution[kept[later]] * scales[kept[later]]
            for later in range(step + 1, len(kept))
        )
        solution[kept[step]] = (halfway[step] - rest) / factors[step][-1] / scales[kept[step]]
    return solution


# Differences of small groups, pulled towards that of all: empirical Bayes, normal and normal.
#
# A group's difference is the true one plus noise: d = t + e, t ~ N(D, between), e ~ N(0, noise),
# where D is the difference of all. Its best guess is D + between / (between + noise) (d - D).


@dataclass(frozen=True)
class Shrinkage:
    """What is known of the true differences of groups.

    Attributes:
        centre: The difference of all, D.
        between: The variance of the true differences around it, 0 or more.
    """

    centre: float
    between: float

    def keeps(self, noise: float) -> float:
        """The share of a group's distance from the centre that is believed, from 0 to 1.

        Args:
            noise: The square of the standard error of its difference.
        """
        if noise <= 0:
            return 1.0
        return self.between / (self.between + noise)

    def shrunk(self, difference: float, noise: float) -> float:
        """The best guess of a group's true difference."""
        return self.centre + self.keeps(noise) * (difference - self.centre)


def estimated(centre: float, differences: Sequence[float], noises: Sequence[float]) -> Shrinkage:
    """The variance between groups by the moments of DerSimonian and Laird (1986).

    Args:
        centre: The difference of all.
        differences: Of each group.
        noises: The squares of their standard errors; groups of 0 are left out.

    >>> estimated(0.0, [1.0, -1.0], [0.5, 0.5])
    Shrinkage(centre=0.0, between=1.5)
    >>> estimated(0.0, [0.1, -0.1], [0.5, 0.5]).between
    0.0
    """
    weighted_differences = [
        (d, 1 / noise) for d, noise in zip(differences, noises, strict=True) if noise > 0
    ]
    if len(weighted_differences) < 2:
        return Shrinkage(centre, 0.0)
    total = sum(weight for _, weight in weighted_differences)
    squares = sum(weight * weight for _, weight in weighted_differences)
    mean = sum(d * weight for d, weight in weighted_differences) / total
    spread = sum(weight * (d - mean) ** 2 for d, weight in weighted_differences)
    return Shrinkage(
        centre, max(0.0, (spread - (len(weighted_differences) - 1)) / (total - squares / total))
    )
