"""Numbers of a comparison as texts for cells."""

from __future__ import annotations


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
