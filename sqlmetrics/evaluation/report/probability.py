"""A p-value in words."""

from __future__ import annotations


def probability(p: float, level: float, decimals: int = 4) -> str:
    """A p-value, in more decimals where rounding would take it across 1 - level.

    >>> probability(0.0312, 0.95), probability(1e-9, 0.95), probability(1e-9, 0.95, 3)
    ('0.0312', '<0.0001', '<0.001')
    >>> probability(0.04998, 0.95), probability(0.05, 0.95)
    ('0.04998', '0.0500')
    """
    error, least = round(1 - level, 12), 10.0**-decimals
    if p < least <= error:
        return f"<{least:.{decimals}f}"
    texts = (f"{p:.{places}f}" for places in range(decimals, 17))
    return next((text for text in texts if (float(text) < error) == (p < error)), repr(p))
