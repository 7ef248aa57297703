"""Tests and correlations by ranks, and p-values of many tests adjusted."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from statistics import StatisticsError, correlation
from typing import TYPE_CHECKING, Any

from sqlmetrics.stats import TIED

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

EXACT = 50
"""Up to as many differences, none of them tied, the signed-rank test is exact."""


def sign_test(wins: int, losses: int) -> float:
    """The probability that a fair coin divides them as unevenly, or more so, to either side.

    Args:
        wins: 0 or more.
        losses: 0 or more; ties are no part of it.

    Returns:
        Above 0 and at most 1; 1 if there are none.

    >>> sign_test(9, 1), sign_test(5, 5), sign_test(0, 0)
    (0.021484375, 1.0, 1.0)
    """
    n, most = wins + losses, max(wins, losses)
    if 2 * most <= n:
        return 1.0
    if n <= 1000:
        return min(2.0 * sum(math.comb(n, k) for k in range(most, n + 1)) / float(2**n), 1.0)
    choose = math.lgamma(n + 1) - math.lgamma(most + 1) - math.lgamma(n - most + 1)
    term = total = math.exp(choose - n * math.log(2))
    for k in range(most, n):
        term *= (n - k) / (k + 1)
        total += term
        if term < total * 1e-17:
            break
    return min(2 * total, 1.0)


def signed_rank_test(n: int, rank_sum: float, ties: float = 0) -> float:
    """The probability of a sum of positive ranks that is as far from its mean, or farther.

    Exact for at most 50 differences without ties, else by the normal with the correction
    for ties and none for continuity. It agrees with scipy.stats.wilcoxon at 1e-9.

    Args:
        n: Differences that are not 0; 1 or more.
        rank_sum: The sum of the ranks of those above 0.
        ties: The sum of t^3 - t over groups of t equal absolute differences.

    Source: Wilcoxon 1945; Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, ch. 3.

    >>> signed_rank_test(5, 15.0), round(signed_rank_test(60, 1200.0), 6)
    (0.0625, 0.0359)
    """
    if n <= EXACT and not ties:
        counts = _counts(n)
        lower = min(rank_sum, n * (n + 1) / 2 - rank_sum)
        extreme: int = sum(counts[: math.floor(lower) + 1])
        return min(1.0, 2 * extreme / 2.0**n)
    variance = (n * (n + 1) * (2 * n + 1) - ties / 2) / 24
    z = (rank_sum - n * (n + 1) / 4) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))


@cache
def _counts(n: int) -> tuple[int, ...]:
    """Sum -> how many sets of the ranks 1..n have it."""
    counts = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for total in range(len(counts) - 1, rank - 1, -1):
            counts[total] += counts[total - rank]
    return tuple(counts)


def chi_square_test(x: float, df: int) -> float:
    """The probability of a chi-square of `x` or more.

    The closed forms for even and for odd degrees of freedom. It agrees with
    scipy.stats.chi2.sf at 1e-12.

    Args:
        x: 0 or more.
        df: Degrees of freedom, 1 or more.

    Raises:
        ValueError: If one of them is out of its range.

    Source: Abramowitz and Stegun 26.4.4 and 26.4.5.

    >>> round(chi_square_test(3.841458820694124, 1), 12)
    0.05
    """
    if not x >= 0 or df < 1:
        raise ValueError(f"x must be 0 or more and df 1 or more, given {x} and {df}")
    half = x / 2
    if df % 2:
        first, power = math.erfc(math.sqrt(half)), 0.5
    else:
        first, power = math.exp(-half), 1.0
    terms = [first]
    while power < df / 2 and half:
        terms.append(math.exp(power * math.log(half) - half - math.lgamma(power + 1)))
        power += 1
    return min(1.0, math.fsum(terms))


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Spearman's rank correlation; equal values share the mean of their ranks.

    Returns:
        From -1 to 1; None if there are fewer than 2 values, or one side has all the same.

    >>> spearman([1, 2, 3, 4], [10, 20, 40, 30])
    0.8
    """
    try:
        return correlation(ranks(xs), ranks(ys))
    except StatisticsError:
        return None


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1, the smallest; equal values share the mean.

    >>> ranks([5, 7, 5])
    [1.5, 3.0, 1.5]
    """
    in_order = sorted(values)
    return [
        (bisect_left(in_order, value) + bisect_right(in_order, value) + 1) / 2 for value in values
    ]


# How alike two orders of the same systems are: Kendall's tau, and tau_ap of the top.

_LARGEST_CHUNK = 300_000
"""As many differences are looked at in one step."""


def kendall(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Kendall's tau-b: pairs in the same order less those in the other, corrected for ties.

    Returns:
        From -1 to 1; None if there are fewer than 2 values, or one side has all the same.

    >>> kendall([1, 2, 3], [1, 3, 2])
    0.3333333333333333
    """
    signs = [
        (sign(a, b), sign(c, d)) for (a, c), (b, d) in combinations(zip(xs, ys, strict=True), 2)
    ]
    n_first, n_second = (sum(pair[side] != 0 for pair in signs) for side in (0, 1))
    if not n_first or not n_second:
        return None
    return float(sum(x * y for x, y in signs) / (n_first * n_second) ** 0.5)


def sign(value: float, other: float) -> int:
    """1 if the value is higher, -1 if it is lower, 0 if both are tied."""
    return 0 if abs(value - other) <= TIED else 1 if value > other else -1


def order_correlations(values: Array) -> tuple[Array, Array]:
    """Kendall's tau-b and tau_ap of each order with each other one, once per replicate.

    tau_ap is the mean over systems but the best one of how many of those above it belong there, on
    a scale from -1 to 1. It is the mean over all orders that break the ties, so that ties on either
    side make it smaller, also of an order with itself.

    Args:
        values: By order, replicate and system, higher is better; NaN where a system has none.

    Returns:
        Both by the order that is the reference, the order that is judged by it, and replicate; NaN
        where a system has no value, where there is one system, or where all are tied.

    Source: E. Yilmaz, J. A. Aslam and S. Robertson: A new rank correlation coefficient for
    information retrieval. SIGIR 2008. J. Urbano and M. Marrero: The treatment of ties in AP
    correlation. ICTIR 2017.
    """
    import numpy as np

    n_orders, n_replicates, n_systems = values.shape
    taus = np.empty((n_replicates, n_orders, n_orders))
    taus_ap = taus.copy()
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n_systems + 1))])
    size = max(1, _LARGEST_CHUNK // (n_orders * max(1, n_systems**2)))
    for start in range(0, n_replicates, size):
        part = values[:, start : start + size].transpose(1, 0, 2)
        is_above = part[..., None, :] - part[..., :, None] > TIED
        n_above, n_below = is_above.sum(axis=-1), is_above.sum(axis=-2)
        n_tied = n_systems - n_above - n_below
        weights = (harmonic[n_above + n_tied - 1] - harmonic[(n_above - 1).clip(0)]) / n_tied
        above = is_above.astype(np.float64)
        signs = (above - above.swapaxes(-1, -2)).reshape(*part.shape[:2], -1)
        weighted = (above * weights[..., None].astype(np.float64)).reshape(signs.shape)
        n_ordered = (n_above + n_below).sum(axis=-1).astype(float)
        n_ordered[np.isnan(part).any(axis=-1)] = np.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(n_ordered[:, :, None] * n_ordered[:, None, :])
            tau = signs @ signs.swapaxes(-1, -2) / root
            tau_ap = signs @ weighted.swapaxes(-1, -2) / (n_systems - 1)
        taus[start : start + size] = tau
        taus_ap[start : start + size] = np.where(np.isnan(tau), np.nan, tau_ap)
    return taus.transpose(1, 2, 0), taus_ap.transpose(1, 2, 0)


# Several tests at once: Holm's and Bonferroni's for a family, Benjamini and Hochberg's beside.
#
# All give adjusted p-values and the coverage at which a row's interval says the same: it leaves
# out 0 exactly where the adjusted p-value is below the error that is accepted.


@dataclass(frozen=True)
class Adjustment:
    """What testing several hypotheses together does to each.

    Attributes:
        p_values: The adjusted p-values, in the order of the tests.
        coverage: Of the interval of each, above 0 and below 1; that of a single test for one.
    """

    p_values: Sequence[float]
    coverage: float


def holm(p_values: Sequence[float], confidence: float) -> Adjustment:
    """P-values that hold for all together: the chance of any false finding stays below them.

    Every hypothesis that Holm keeps was held against the error of the first one kept, and every
    one that he rejects passes it too: so that one coverage serves all intervals.

    Args:
        p_values: Of each test.
        confidence: The coverage of a single interval, like 0.95.

    Source: Holm 1979.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03], 0.95).p_values]
    [0.03, 0.06, 0.06]
    >>> round(holm([0.01, 0.04, 0.03], 0.95).coverage, 4)  # two are kept: 1 - .05 / 2
    0.975
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, p_values[i] * (len(p_values) - rank)))
        adjusted[i] = least
    n_kept = sum(p >= 1 - confidence for p in adjusted)
    return Adjustment(adjusted, 1 - (1 - confidence) / max(1, n_kept))


def bonferroni(p_values: Sequence[float], confidence: float) -> Adjustment:
    """P-values times their number: the chance of any false finding stays below them.

    Args:
        p_values: Of each test.
        confidence: The coverage of a single interval, like 0.95.

    >>> [round(p, 3) for p in bonferroni([0.01, 0.04, 0.5], 0.95).p_values]
    [0.03, 0.12, 1.0]
    """
    n_tests = max(1, len(p_values))
    return Adjustment([min(1.0, p * n_tests) for p in p_values], 1 - (1 - confidence) / n_tests)


def benjamini_hochberg(p_values: Sequence[float], confidence: float) -> Adjustment:
    """P-values of a search: of the findings below one, at most that share is false on average.

    The coverage is that of intervals whose false coverage rate is bounded: 1 - R q / m for R
    findings of m (Benjamini and Yekutieli 2005).

    Args:
        p_values: Of each test.
        confidence: The coverage of a single interval, like 0.95.

    Source: Benjamini and Hochberg 1995.

    >>> [round(p, 3) for p in benjamini_hochberg([0.01, 0.04, 0.03], 0.95).p_values]
    [0.03, 0.04, 0.04]
    >>> round(benjamini_hochberg([0.01, 0.9, 0.8], 0.95).coverage, 4)  # one finding: 1 - .05 / 3
    0.9833
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, most = [0.0] * len(p_values), 1.0
    for rank in reversed(range(len(order))):
        i = order[rank]
        most = min(most, p_values[i] * len(p_values) / (rank + 1))
        adjusted[i] = most
    n_found = sum(p < 1 - confidence for p in adjusted)
    return Adjustment(adjusted, 1 - (1 - confidence) * max(1, n_found) / max(1, len(p_values)))
