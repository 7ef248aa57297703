"""A number and its standard error: the interval, the p-value, what could have been shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlmetrics.stats import NOISE, student

# Always-valid intervals: one may look after every query, and stop at any time.
#
# An asymptotic confidence sequence: the chance that the mean is ever outside, at any of all looks,
# is
# at most 1 - confidence once there are enough queries for a normal distribution.
#
# Source: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit theory and
# asymptotic confidence sequences, Annals of Statistics 52 (2024), equation 2.

TUNED_AT = 5_000
"""The number of queries, all days together, at which the intervals are narrowest for their
confidence; that of GrowthBook and PostHog."""


def always_valid_multiple(confidence: float, n: float) -> float:
    """How many standard errors an interval goes to each side.

    Args:
        confidence: The coverage at all looks together, above 0 and below 1.
        n: How many queries, or clusters, there are by now; 1 or more.

    >>> round(always_valid_multiple(0.95, 5_000) / 1.959964, 2)
    1.55
    >>> round(always_valid_multiple(0.95, 500) / 1.959964, 2)
    1.97
    """
    spread = n * _rate(confidence)
    error = 1 - confidence
    return math.sqrt(2 * (spread + 1) / spread * math.log(math.sqrt(spread + 1) / error))


def always_valid_multiple_sql(confidence: float, n: str) -> str:
    """The same as an expression of SQL; `n` is a column."""
    spread = f"{_rate(confidence):.12g}e0 * {n}"
    error = f"{1 - confidence:.12g}e0"
    return f"sqrt(2e0 * (1e0 + 1e0 / nullif({spread}, 0e0))\n* ln(sqrt(1e0 + {spread}) / {error}))"


def _rate(confidence: float) -> float:
    """The rate that is best at `TUNED_AT`, as the authors have it."""
    doubled = -2 * math.log(1 - confidence)
    return (doubled + math.log(doubled + 1)) / TUNED_AT


def alpha_spent(confidence: float, look: int) -> float:
    """The confidence of one of many looks, so that all of them together have `confidence`.

    The error is spent as 1 / look^2, which adds up to what may be spent however many there are.

    Args:
        confidence: Of all looks together.
        look: Which one it is, from 1.

    >>> sum(1 - alpha_spent(0.95, look) for look in range(1, 100_000)) < 0.05
    True
    """
    return 1 - (1 - confidence) * 6 / (math.pi * look) ** 2


Interval: TypeAlias = tuple[float, float] | tuple[None, None]
"""The lower and the upper end; None twice where there is no interval."""

INTERVAL = ("ci_low", "ci_high")
"""The columns of a row that hold both ends."""

POWER = 0.8
"""How likely the smallest difference is shown that the data could show."""


@dataclass(frozen=True)
class Estimate:
    """A mean, a ratio or a difference, and what Student's t makes of its error.

    Attributes:
        value: The number; NaN where there is none.
        standard_error: 0 where nothing varies, None with too few units to tell.
        df: Degrees of freedom; of no meaning without a standard error.
    """

    value: float
    standard_error: float | None
    df: float

    def half_width(self, confidence: float, *, always: bool = False) -> float | None:
        """How far the interval goes to each side; None without a standard error.

        Args:
            confidence: The coverage, above 0 and below 1.
            always: At all looks together, of `df + 1` units so far; else at one, by Student's t.
        """
        if not self.standard_error:
            return self.standard_error
        if always:
            return always_valid_multiple(confidence, self.df + 1) * self.standard_error
        return student.critical(confidence, self.df) * self.standard_error

    def interval(self, confidence: float, *, always: bool = False) -> Interval:
        """The value less and plus `half_width`.

        >>> [round(end, 3) for end in Estimate(0.5, 0.1, 10).interval(0.95)]
        [0.277, 0.723]
        """
        half_width = self.half_width(confidence, always=always)
        if half_width is None:
            return None, None
        return self.value - half_width, self.value + half_width

    def ends(self, confidence: float) -> dict[str, float | None]:
        """The interval as columns of a row."""
        return dict(zip(INTERVAL, self.interval(confidence), strict=True))

    def p_value(self) -> float | None:
        """The two-sided p-value of the value 0; None without a variance."""
        error = self.standard_error
        return student.tail(abs(self.value) / error, self.df) if error else None

    def smallest_detectable(self, confidence: float) -> float | None:
        """The difference that such data show with probability 0.8; None without a variance."""
        if not self.standard_error:
            return None
        power = student.critical(2 * POWER - 1, self.df)
        return (student.critical(confidence, self.df) + power) * self.standard_error

    def minus(self, other: Estimate) -> Estimate:
        """The difference from one of other units: Welch's error and degrees of freedom.

        >>> Estimate(0.5, 0.3, 4).minus(Estimate(0.25, 0.4, 4))
        Estimate(value=0.25, standard_error=0.5, df=7.418397626112758)
        """
        difference = self.value - other.value
        if self.standard_error is None or other.standard_error is None:
            return Estimate(difference, None, 0.0)
        variances = [self.standard_error**2, other.standard_error**2]
        df = effective_df([*zip(variances, (self.df, other.df), strict=True)])
        return Estimate(difference, math.sqrt(sum(variances)), df)


def effective_df(parts: Sequence[tuple[float, float]]) -> float:
    """Satterthwaite's degrees of freedom of a sum of variances; all there are if nothing varies.

    Args:
        parts: Each variance with its degrees of freedom.
    """
    variance = sum(part for part, _ in parts)
    if not variance:
        return float(sum(df for _, df in parts))
    shares = [(part / variance, df) for part, df in parts if part]
    return 1 / sum(share * share / df for share, df in shares)


def ratio_of_sums(
    value: float | None, n: float | None, *, w: float, x2: float | None, xw: float, w2: float
) -> Estimate:
    """A ratio of sums over independent units, such as queries or users (delta method).

    Where each unit counts alike it is a mean with the error s / sqrt(n).

    Args:
        value: The ratio; None where there is none.
        n: How many units; without an error if there are less than two, or the sums overflow.
        w: Its denominator; without an error where it is 0.
        x2: The sum of squares of what each adds to the numerator; None where it is not known.
        xw: The sum of products of that and of what each adds to the denominator.
        w2: The sum of squares of the latter.

    >>> ratio_of_sums(0.5, 4, w=4, x2=2, xw=2, w2=4)
    Estimate(value=0.5, standard_error=0.28867513459481287, df=3)
    """
    if value is None or n is None or n < 2 or x2 is None or not w:
        return Estimate(math.nan if value is None else value, None, 0)
    squares = x2 - 2 * value * xw + value * value * w2
    if not math.isfinite(squares):
        return Estimate(value, None, 0)
    if squares <= NOISE * x2:
        return Estimate(value, 0.0, n - 1)
    return Estimate(value, math.sqrt(squares * n / (n - 1)) / abs(float(w)), n - 1)


def mean_of_repeats(value: float, parts: Sequence[tuple[Estimate, float]]) -> Estimate:
    """A weighted mean of several days that may have the same units.

    The error is the largest that days can have together, that of the same queries with the same
    values each day: twenty nights of one run are no more evidence than one of them.

    Args:
        value: The mean.
        parts: The estimate of each day and its weight; one at least, with a weight above 0.
    """
    errors = [part.standard_error for part, _ in parts]
    known_errors = [error for error in errors if error is not None]
    if len(known_errors) < len(errors):
        return Estimate(value, None, 0.0)
    weights = [weight for _, weight in parts]
    total = math.fsum(error * w for error, w in zip(known_errors, weights, strict=True))
    return Estimate(value, total / math.fsum(weights), min(part.df for part, _ in parts))


def percentile_interval(values: Iterable[float], confidence: float) -> tuple[float, float]:
    """The percentiles of what samples say, two of them at least.

    >>> percentile_interval([4.0, 1.0, 2.0], 0.5)
    (1.5, 3.0)
    """
    ordered = sorted(values)
    return _quantile(ordered, (1 - confidence) / 2), _quantile(ordered, (1 + confidence) / 2)


def _quantile(values: Sequence[float], share: float) -> float:
    """A quantile of sorted values, linear between them."""
    position = share * (len(values) - 1)
    low = min(int(position), len(values) - 2)
    return values[low] + (position - low) * (values[low + 1] - values[low])


def wilson_interval(
    hits: float, n: float, confidence: float, df: float = 1e9
) -> tuple[float, float]:
    """Wilson's interval of a share; it stays between 0 and 1.

    Args:
        hits: How many of them.
        n: How many there are, above 0.
        confidence: The coverage.
        df: Degrees of freedom of what is known of their variance.

    Source: Wilson, Journal of the American Statistical Association 22 (1927).

    >>> [round(end, 4) for end in wilson_interval(5, 10, 0.95)]
    [0.2366, 0.7634]
    >>> round(wilson_interval(0, 10, 0.95)[1], 4)
    0.2775
    """
    z = student.critical(confidence, df)
    share, z2 = hits / n, z * z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half_width = z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    low, high = middle - half_width, middle + half_width  # off by rounding at 0 and 1
    return max(0.0, min(share, low)), min(1.0, max(share, high))
