"""Tails of the normal distribution, from the standard library alone."""

from __future__ import annotations

import math


def tail(z: float) -> float:
    """The probability that a standard normal is as far from 0 as `z`, on either side.

    >>> round(tail(1.959963984540054), 12)
    0.05
    """
    return math.erfc(abs(z) / math.sqrt(2))
