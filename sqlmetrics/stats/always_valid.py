"""Always-valid intervals: one may look after every query, and stop at any time.

An asymptotic confidence sequence: the chance that the mean is ever outside, at any of all looks, is
at most 1 - confidence once there are enough queries for a normal distribution.

Source: Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit theory and
asymptotic confidence sequences, Annals of Statistics 52 (2024), equation 2.
"""

from __future__ import annotations

import math

TUNED_AT = 5_000
"""The number of queries, all days together, at which the intervals are narrowest for their
confidence; that of GrowthBook and PostHog."""


def multiple(confidence: float, n: float) -> float:
    """How many standard errors an interval goes to each side.

    Args:
        confidence: The coverage at all looks together, above 0 and below 1.
        n: How many queries, or clusters, there are by now; 1 or more.

    >>> round(multiple(0.95, 5_000) / 1.959964, 2), round(multiple(0.95, 500) / 1.959964, 2)
    (1.55, 1.97)
    """
    spread = n * _rate(confidence)
    error = 1 - confidence
    return math.sqrt(2 * (spread + 1) / spread * math.log(math.sqrt(spread + 1) / error))


def multiple_sql(confidence: float, n: str) -> str:
    """The same as an expression of SQL; `n` is a column."""
    spread = f"{_rate(confidence):.12g}e0 * {n}"
    error = f"{1 - confidence:.12g}e0"
    return f"sqrt(2e0 * (1e0 + 1e0 / nullif({spread}, 0e0))\n* ln(sqrt(1e0 + {spread}) / {error}))"


def _rate(confidence: float) -> float:
    """The rate that is best at `TUNED_AT`, as the authors have it."""
    doubled = -2 * math.log(1 - confidence)
    return (doubled + math.log(doubled + 1)) / TUNED_AT


def spent(confidence: float, look: int) -> float:
    """The confidence of one of many looks, so that all of them together have `confidence`.

    The error is spent as 1 / look^2, which adds up to what may be spent however many there are.

    Args:
        confidence: Of all looks together.
        look: Which one it is, from 1.

    >>> sum(1 - spent(0.95, look) for look in range(1, 100_000)) < 0.05
    True
    """
    return 1 - (1 - confidence) * 6 / (math.pi * look) ** 2
