"""Rank correlation of two short series, from the standard library alone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from statistics import StatisticsError, correlation


def spearman(first: Sequence[float], two: Sequence[float]) -> float | None:
    """Spearman's rank correlation; equal values share the mean of their ranks.

    Returns:
        From -1 to 1; None if there are fewer than 2 values, or one side has all the same.

    >>> spearman([1, 2, 3, 4], [10, 20, 40, 30])
    0.8
    """
    try:
        return correlation(ranks(first), ranks(two))
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
