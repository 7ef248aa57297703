"""Cells of tables for people: values, counts, and texts from the data."""

from __future__ import annotations

DECIMALS = 4
"""So many decimals a metric's value is printed with, unless a preset's tool has others."""


def metric_value(value: float | None, decimals: int = DECIMALS) -> str:
    """A metric's value for a cell.

    >>> metric_value(0.5), metric_value(None), metric_value(0.5, 2)
    ('0.5000', '-', '0.50')
    """
    return "-" if value is None else f"{value:.{decimals}f}"


def many(count: int, noun: str, nouns: str = "") -> str:
    """A count with its noun.

    >>> many(1, "row"), many(1200, "row"), many(2, "stratum", "strata")
    ('1 row', '1,200 rows', '2 strata')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def printable(value: object, width: int | None = None) -> str:
    """A value for a cell: control characters and outer spaces shown, long texts cut."""
    text = "NULL" if value is None else str(value)
    if not text.isprintable() or text != text.strip():
        text = repr(text)
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


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
