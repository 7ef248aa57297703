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

    They are as dense there as around it: on both sides as far as the nearest `NEIGHBOURS`
    of those that do not match reach, and a unit at least.

    >>> round(expected([i / 1000 for i in range(1001)], 0.5, 0.0001), 2)
    0.1
    """
    edge = unit / 2
    distances = sorted(abs(value - number) for value in values)
    distances = [distance for distance in distances if distance > edge]
    if not distances:
        return 0.0
    reach = max(distances[:NEIGHBOURS][-1], edge + unit)
    near = sum(distance <= reach for distance in distances)
    return near * unit / (2 * (reach - edge))
