"""The sign test: wins and losses that a fair coin would give."""

from __future__ import annotations

import math


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
