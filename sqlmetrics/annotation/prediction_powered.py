"""Means of a population from a few labels by people and many by a language model.

The estimator is prediction-powered inference (PPI): Angelopoulos et al., Science 382, 2023, with
the tuned weight of PPI++ (Angelopoulos, Duchi and Zrnic, arXiv 2311.01453). For a sample drawn by
lot from a known population it is the regression estimator of survey sampling, in two phases where
the model labelled a sample too: W. G. Cochran, Sampling Techniques, 3rd ed. 1977, 7.4 to 7.10 and
12.6; C.-E. Särndal et al., Model Assisted Survey Sampling, 1992, ch. 6 and 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TypeAlias

from sqlmetrics.annotation.estimator import (
    Precision,
    SampleMean,
    Spread,
    Stratum,
    refuse_lonely,
    weighted,
)
from sqlmetrics.errors import InputError
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.stats.estimate import Estimate, effective_df

Pairs: TypeAlias = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class PairedStratum:
    """One stratum: what people say of a few of its queries, and the model of many.

    Attributes:
        people: The stratum with the values by people's labels, one a sampled query.
        llm: The values of the same queries by the model's labels, None where undefined.
        n_llm: How many queries of the stratum the model labelled, those of people among them.
        llm_top: Sum of weight x value over these, by the model's labels.
        llm_bottom: Sum of the weights of these that have a value.
    """

    people: Stratum
    llm: Sequence[float | None]
    n_llm: int
    llm_top: float
    llm_bottom: float

    @classmethod
    def alone(cls, people: Stratum) -> PairedStratum:
        """A stratum that no model labelled."""
        return cls(people, [], 0, 0.0, 0.0)


@dataclass(frozen=True)
class PoweredEstimate:
    """A mean of the population by labels of people and of a model.

    Attributes:
        estimate: The mean and its interval; `counted` and `drawn` are of queries that people
            labelled.
        llm_value: The mean by the model's labels alone, None if no query has a value.
        llm_weight: What the model's labels weigh (lambda): 0 leaves them out.
        gain: Variance with people's labels alone / variance: 2 is worth as many labels by people
            again. None if the variance is 0.
        n_llm: Queries that the model labelled.
        saved: How many queries more people would have to label for as narrow an interval without
            the model. None without an interval.
    """

    estimate: SampleMean
    llm_value: float | None
    llm_weight: float
    gain: float | None
    n_llm: int
    saved: int | None = None
    alone: Precision | None = field(default=None, compare=False, repr=False)


def mean(
    strata: Sequence[PairedStratum], level: float = CONFIDENCE, llm_weight: float | None = None
) -> PoweredEstimate:
    """people(sample) + lambda x (llm(all labelled by it) - llm(sample)), and its interval.

    Each of the three is a ratio of weighted totals, as in `estimator.mean`. With u the
    linearised residuals of people's values and v those of the model's, the variance is the sum
    over strata of N^2 (1/n - 1/m) s^2(u - lambda v) + N^2 (1/m - 1/N) s^2(u): n queries are
    labelled by people, m by the model, of N. Where the model labelled all queries the second
    part is 0. Nothing is asked of the model: a bad one makes the interval wide, not wrong.

    The weight is the one that makes the variance smallest, sum c cov(u, v) / sum c var(v) with
    c = N^2 (1/n - 1/m). It is not held between 0 and 1, and costs one degree of freedom; where
    there is none to spare, or the model says the same of all queries, it is 0.

    Args:
        strata: All strata of the population.
        level: The interval's coverage, above 0 and below 1.
        llm_weight: The weight of the model's labels; None for the best. 1 is plain PPI.

    Raises:
        InputError: If a stratum has no query labelled by people, or one alone of several.

    >>> paired = PairedStratum(Stratum(8, [1.0, 0.0, 1.0]), [1.0, 0.5, 0.5], 8, 6.0, 8.0)
    >>> found = mean([paired], llm_weight=1)
    >>> round(found.estimate.value, 6), found.llm_value, round(found.gain, 6)
    (0.75, 0.75, 1.333333)
    """
    for stratum in strata:
        refuse_lonely(stratum.people)
        _refuse_apart(stratum)
    people = [(s.people.population, weighted(s.people)) for s in strata]
    llm = [(s.people.population, weighted(replace(s.people, values=s.llm))) for s in strata]
    base, total = _ratio(people)
    sampled, llm_total = _ratio(llm)
    llm_value = _of_all(strata)
    counts = (
        sum(value is not None for s in strata for value in s.people.values),
        sum(len(s.people.values) for s in strata),
        sum(s.people.population for s in strata),
    )
    n_llm = sum(s.n_llm for s in strata)
    if base is None:
        nothing = SampleMean(None, None, None, None, None, *counts)
        return PoweredEstimate(nothing, llm_value, 0.0, None, n_llm)
    parts = [
        _Part(
            stratum.n_llm,
            stratum.people.population,
            _residuals(people_pairs, base, total),
            _residuals(llm_pairs, sampled, llm_total),
        )
        for stratum, (_, people_pairs), (_, llm_pairs) in zip(strata, people, llm, strict=True)
    ]
    weight, spare = _weight(parts, llm_weight)
    correction = llm_value - sampled if llm_value is not None and sampled is not None else 0.0
    value = base + weight * correction
    # a weight that was found on the same queries makes their residuals smaller than they are
    inflated = spare / (spare - 1) if weight and llm_weight is None else 1.0
    precision = Precision([part.spread(weight, inflated) for part in parts], level, inflated)
    alone = Precision([part.alone for part in parts], level)
    variances = [(spread.of_mean(), spread.n - 1) for spread in precision.spreads]
    variance = sum(part_variance for part_variance, _ in variances)
    df, error = effective_df(variances) / inflated, variance**0.5
    low, high = Estimate(value, error, df).interval(level)
    estimate = SampleMean(value, error, df, low, high, *counts, precision)
    gain = sum(spread.of_mean() for spread in alone.spreads) / variance if variance else None
    needed = alone.needed(precision.width()) if variance else None
    saved = None if needed is None else needed - alone.n
    return PoweredEstimate(estimate, llm_value, weight, gain, n_llm, saved, alone)


@dataclass(frozen=True)
class _Part:
    """A stratum's residuals, and what a variance of them counts in that of the mean.

    Attributes:
        n_llm: Queries that the model labelled (m).
        size: All queries (N).
        people: Residuals of people's values (u).
        llm: Residuals of the model's values for the same queries (v).
    """

    n_llm: int
    size: int
    people: Sequence[float]
    llm: Sequence[float]

    @property
    def first(self) -> float:
        """N^2 (1/n - 1/m): what a variance counts, by which of the model's people labelled."""
        return self.size**2 * (1 / len(self.people) - 1 / self.n_llm)

    @property
    def freedom(self) -> int:
        return len(self.people) - 1

    @property
    def alone(self) -> Spread:
        """The stratum's part of the variance by people's labels alone."""
        variance = _covariance(self.people, self.people)
        return Spread(len(self.people), self.size, self.size, variance)

    def spread(self, weight: float, inflated: float) -> Spread:
        """The stratum's part of the variance of the mean.

        Whatever people label, N^2 (1/m - 1/N) s^2(u) is left: which of all the model labelled.
        """
        residuals = [u - weight * v for u, v in zip(self.people, self.llm, strict=True)]
        second = self.size**2 * (1 / self.n_llm - 1 / self.size)
        fixed = second * _covariance(self.people, self.people) if second else 0.0
        variance = _covariance(residuals, residuals) * inflated
        return Spread(len(self.people), self.n_llm, self.size, variance, fixed)


def _weight(parts: Sequence[_Part], llm_weight: float | None) -> tuple[float, int]:
    """The weight of the model's labels, and the degrees of freedom that it is found with."""
    sampled_parts = [part for part in parts if part.first]
    spare = sum(part.freedom for part in sampled_parts)
    if llm_weight is not None:
        return llm_weight, spare
    spread = sum(part.first * _covariance(part.llm, part.llm) for part in sampled_parts)
    if not spread or spare < 2:
        return 0.0, spare
    return sum(
        part.first * _covariance(part.people, part.llm) for part in sampled_parts
    ) / spread, spare


def _ratio(strata: Sequence[tuple[int, Pairs]]) -> tuple[float | None, float]:
    """The ratio of the estimated totals, and the total of the weights."""
    top = sum(size * fmean(pair[0] for pair in pairs) for size, pairs in strata)
    bottom = sum(size * fmean(pair[1] for pair in pairs) for size, pairs in strata)
    return (top / bottom if bottom else None), bottom


def _of_all(strata: Sequence[PairedStratum]) -> float | None:
    """The mean by the model's labels of all queries that it labelled."""
    scales = [s.people.population / s.n_llm for s in strata]
    top = sum(scale * s.llm_top for scale, s in zip(scales, strata, strict=True))
    bottom = sum(scale * s.llm_bottom for scale, s in zip(scales, strata, strict=True))
    return top / bottom if bottom else None


def _residuals(pairs: Pairs, mean: float | None, total: float) -> list[float]:
    """What each query adds to the error of a ratio, to the first order; 0 without a mean."""
    if mean is None:
        return [0.0] * len(pairs)
    return [(top - mean * bottom) / total for top, bottom in pairs]


def _covariance(left_values: Sequence[float], right: Sequence[float]) -> float:
    """The sample covariance, 0 of one pair."""
    if len(left_values) < 2:
        return 0.0
    a, b = fmean(left_values), fmean(right)
    total = sum((x - a) * (y - b) for x, y in zip(left_values, right, strict=True))
    return total / (len(left_values) - 1)


def _refuse_apart(stratum: PairedStratum) -> None:
    """Refuse counts that no sample within a sample has."""
    n, m, size = len(stratum.people.values), stratum.n_llm, stratum.people.population
    if not n <= m <= size or len(stratum.llm) != n:
        raise InputError(
            f"{stratum.people.name}: {n:,} queries labelled by people are missing among the {m:,} "
            f"labelled by the model, of {size:,}"
        )
