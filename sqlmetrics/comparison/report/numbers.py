"""Numbers of a comparison as texts for cells."""

from __future__ import annotations

from collections.abc import Sequence

from sqlmetrics.tables.table import probability
from sqlmetrics.tables.tabular import Row


def number(value: float | None) -> str:
    """A value; a dash where there is none.

    >>> number(0.25), number(12345.678), number(None)
    ('0.2500', '12,345.7', '-')
    """
    if value is None:
        return "-"
    return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.1f}"


def signed(value: float | None) -> str:
    """A difference, with its sign.

    >>> signed(0.25), signed(-12345.678), signed(None)
    ('+0.2500', '-12,345.7', '-')
    """
    if value is None:
        return "-"
    return f"{value:+.4f}" if abs(value) < 1000 else f"{value:+,.1f}"


def coverage(rows: Sequence[Row], level: float) -> str:
    """In percent, what the intervals of a table or picture cover, adjusted as p is.

    Args:
        rows: Of one family of tests, which share their coverage.
        level: Of an interval that is looked at by itself.

    >>> coverage([{"ci_level": 0.98333333}], 0.95), coverage([{"ci_level": None}], 0.95)
    ('98.33', '95')
    """
    adjusted = (row["ci_level"] for row in rows if row.get("ci_level"))
    return f"{100 * next(adjusted, level):.4g}"


def p_value(p: float, level: float) -> str:
    """A p-value, on its side of 1 - level.

    >>> p_value(0.0000001, 0.95), p_value(0.0321, 0.95), p_value(0.04998, 0.95)
    ('p < 0.001', 'p = 0.032', 'p = 0.04998')
    """
    text = probability(p, level, decimals=3)
    return f"p < {text[1:]}" if text.startswith("<") else f"p = {text}"
