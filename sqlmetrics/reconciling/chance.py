"""How many values would match a number by accident."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NEIGHBOURS = 20
ALIKE = 10
"""Values with so many equal decimals are one value."""


def distinct(values: Iterable[float]) -> list[float]:
    """The values in order, those that are the same but for their last bits once."""
    return sorted({round(value, ALIKE): value for value in values}.values())


def expected(values: Sequence[float], number: float, unit: float) -> float:
    """How many of some values to expect within half a unit of a number that is none of theirs.

    They are as dense there as around it: the nearest `NEIGHBOURS` of those that do not
    match, and the stretch that they take on both sides.

    >>> round(expected([i / 1000 for i in range(1001)], 0.5, 0.0001), 3)
    0.1
    """
    apart = sorted(abs(value - number) for value in values)
    apart = [one for one in apart if one > unit / 2][:NEIGHBOURS]
    return len(apart) * unit / (2 * apart[-1]) if apart else 0.0
