"""Tests of counts and of ranks, and Spearman's correlation, from the standard library alone."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from statistics import StatisticsError, correlation

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
