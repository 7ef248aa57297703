"""Means of a population from a stratified sample, with intervals that know its weights.

Sources: W. G. Cochran, Sampling Techniques, 3rd ed. 1977: stratified means 5.3 to 5.4,
effective degrees of freedom (5.16), ratios 6.11; S. K. Thompson, Sampling, 3rd ed. 2012,
ch. 7 and 11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from statistics import fmean

from sqlmetrics.errors import InputError
from sqlmetrics.stats import CONFIDENCE, student
from sqlmetrics.stats.estimate import Estimate, effective_df

# How many units people have to grade for an interval of a wanted width.


@dataclass(frozen=True)
class Spread:
    """A stratum's part of the variance of a mean, as a function of how many units are graded.

    Attributes:
        n: Units that people graded.
        most: Units that they could grade and the variance would still fall: all of the stratum, or
            those that the model labelled.
        size: Units of the stratum (N).
        variance: What the units differ by, in units of the mean times N.
        fixed: What is left of the variance of the mean if they graded `most`.
    """

    n: int
    most: int
    size: int
    variance: float
    fixed: float = 0.0

    def graded(self, times: float) -> int:
        """The units if there are so many times more of them; never more than could be."""
        return min(self.most, ceil(self.n * times - 0.01))

    def of_mean(self, times: float = 1.0) -> float:
        """The stratum's part of the variance of the mean then."""
        rest = 1 / min(float(self.most), self.n * times) - 1 / self.most
        return self.size**2 * rest * self.variance + self.fixed


@dataclass(frozen=True)
class Precision:
    """How wide an interval is, and would be with more units.

    Attributes:
        spreads: The strata.
        level: The coverage of the interval.
        inflated: What the degrees of freedom are divided by, for a weight of the model's labels
            that was learned from the same units.
    """

    spreads: Sequence[Spread]
    level: float
    inflated: float = 1.0

    @property
    def n(self) -> int:
        """Units that people graded."""
        return sum(spread.n for spread in self.spreads)

    def width(self, times: float = 1.0) -> float:
        """From the lower to the upper end, with so many times the units of each stratum."""
        parts = [
            (spread.of_mean(times), max(times * spread.n - 1, 1e-9)) for spread in self.spreads
        ]
        variance = sum(part for part, _ in parts)
        if not variance:
            return 0.0
        df = effective_df(parts) / self.inflated
        return 2 * student.critical(self.level, df) * sqrt(variance)

    def needed(self, width: float) -> int | None:
        """How many units make the interval so narrow, shared out among the strata as they are.

        None if none do: then the model has to label more.
        """
        most = max((spread.most / spread.n for spread in self.spreads), default=1.0)
        least = max((2 / spread.n for spread in self.spreads), default=1.0)
        if self.width(most) > width:
            return None
        low, high = min(least, most), most
        if self.width(low) <= width:
            high = low
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.width(middle) <= width else (middle, high)
        return sum(spread.graded(high) for spread in self.spreads)


@dataclass(frozen=True)
class Stratum:
    """One stratum: its population, and what was measured on the queries drawn from it.

    Attributes:
        population: How many queries it has (N).
        values: One a drawn query; None where the metric is undefined or left out.
        weights: What a query counts in the mean, 0 or more; None for 1 each.
        name: For messages.
    """

    population: int
    values: Sequence[float | None]
    weights: Sequence[float] | None = None
    name: str = "the sample"


@dataclass(frozen=True)
class SampleMean:
    """A mean of the population, as far as the sample knows it.

    Attributes:
        value: The mean, in the metric's unit; None if no drawn query has a value.
        standard_error: Its standard error; 0 if all queries were drawn, or all agree.
        df: Effective degrees of freedom (Satterthwaite).
        low: Lower end of the confidence interval; it is not cut at 0.
        high: Upper end; it is not cut at the metric's largest value.
        counted: Drawn queries that have a value.
        n_drawn: Drawn queries.
        population: All queries.
        precision: How the interval's width depends on how many are drawn; None without a value.
    """

    value: float | None
    standard_error: float | None
    df: float | None
    low: float | None
    high: float | None
    counted: int
    n_drawn: int
    population: int
    precision: Precision | None = field(default=None, compare=False, repr=False)


def mean(strata: Sequence[Stratum], level: float = CONFIDENCE) -> SampleMean:
    """The weighted mean of all queries that have a value, from a stratified sample.

    It is the combined ratio estimator: sum of (N / n) w y over sum of (N / n) w, where
    queries without a value have w = 0. If all have one and all w are 1, it is the
    stratified mean, which is unbiased; else its bias is of the order 1 / n. The variance
    is sum N (N - n) / n s^2 over the squared denominator, with s^2 the variance of the
    residuals w (y - mean) within a stratum: a stratum drawn whole adds none (finite
    population correction). The interval is value -+ t standard errors.

    Args:
        strata: All strata of the population.
        level: The interval's coverage, above 0 and below 1.

    Raises:
        InputError: If a stratum has no drawn query, or one alone of several.

    >>> halves = [Stratum(4, [1.0, 0.0]), Stratum(2, [1.0, 1.0])]
    >>> estimate = mean(halves)
    >>> round(estimate.value, 6), round(estimate.standard_error, 6), estimate.df
    (0.666667, 0.235702, 1.0)
    """
    for stratum in strata:
        refuse_lonely(stratum)
    sampled, population = sum(len(s.values) for s in strata), sum(s.population for s in strata)
    counted = sum(value is not None for s in strata for value in s.values)
    pairs = [weighted(stratum) for stratum in strata]
    top, bottom = (
        sum(s.population * fmean(p[i] for p in pair) for s, pair in zip(strata, pairs, strict=True))
        for i in (0, 1)
    )
    if not bottom:
        return SampleMean(None, None, None, None, None, counted, sampled, population)
    value = top / bottom
    spreads = [_spread(s, pair, value, bottom) for s, pair in zip(strata, pairs, strict=True)]
    parts = [(spread.of_mean(), spread.n - 1) for spread in spreads]
    df = effective_df(parts)
    error = sum(part for part, _ in parts) ** 0.5
    low, high = Estimate(value, error, df).interval(level)
    precision = Precision(spreads, level)
    return SampleMean(value, error, df, low, high, counted, sampled, population, precision)


def refuse_lonely(stratum: Stratum) -> None:
    """Refuse a stratum whose variance cannot be estimated."""
    n = len(stratum.values)
    if n == 0 or (n == 1 and stratum.population > 1):
        raise InputError(
            f"{stratum.name}: only {n} of {stratum.population:,} queries are graded; an interval "
            "needs two graded queries in each stratum"
        )


def weighted(stratum: Stratum) -> list[tuple[float, float]]:
    """(weight x value, weight) of every drawn query; (0, 0) without a value."""
    weights = stratum.weights or [1.0] * len(stratum.values)
    return [
        (0.0, 0.0) if value is None else (weight * value, weight)
        for value, weight in zip(stratum.values, weights, strict=True)
    ]


def _spread(
    stratum: Stratum, pairs: Sequence[tuple[float, float]], value: float, bottom: float
) -> Spread:
    """What the residuals of the stratum differ by, beside the denominator of the mean."""
    n, population = len(pairs), stratum.population
    if n >= population:
        return Spread(n, population, population, 0.0)
    residuals = [(top - value * weight) / bottom for top, weight in pairs]
    centre = fmean(residuals)
    variance = sum((residual - centre) ** 2 for residual in residuals) / (n - 1)
    return Spread(n, population, population, variance)
