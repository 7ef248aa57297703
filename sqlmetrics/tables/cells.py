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
