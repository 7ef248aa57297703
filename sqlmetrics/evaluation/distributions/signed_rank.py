"""Wilcoxon's signed-rank statistic where nothing differs: exact, and by the normal."""

from __future__ import annotations

import math
from functools import cache

from sqlmetrics.evaluation.distributions import normal

EXACT = 50
"""Up to as many differences, none of them tied, the probability is exact."""


def tail(n: int, rank_sum: float, ties: float = 0) -> float:
    """The probability of a sum of positive ranks that is as far from its mean, or farther.

    Exact for at most 50 differences without ties, else by the normal with the correction
    for ties and none for continuity. It agrees with scipy.stats.wilcoxon at 1e-9.

    Args:
        n: Differences that are not 0; 1 or more.
        rank_sum: The sum of the ranks of those above 0.
        ties: The sum of t^3 - t over groups of t equal absolute differences.

    Source: Wilcoxon 1945; Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, ch. 3.

    >>> tail(5, 15.0), round(tail(60, 1200.0), 6)
    (0.0625, 0.0359)
    """
    if n <= EXACT and not ties:
        counts = _counts(n)
        lower = min(rank_sum, n * (n + 1) / 2 - rank_sum)
        extreme: int = sum(counts[: math.floor(lower) + 1])
        return min(1.0, 2 * extreme / 2.0**n)
    variance = (n * (n + 1) * (2 * n + 1) - ties / 2) / 24
    return normal.tail((rank_sum - n * (n + 1) / 4) / math.sqrt(variance))


@cache
def _counts(n: int) -> tuple[int, ...]:
    """Sum -> how many sets of the ranks 1..n have it."""
    counts = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for total in range(len(counts) - 1, rank - 1, -1):
            counts[total] += counts[total - rank]
    return tuple(counts)
