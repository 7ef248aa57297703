"""Anderson's acceleration: an iteration comes to rest where it would, after fewer rounds.

What the last points missed their images by says where it would be missed by nothing, as if the
iteration were linear: the combination of the last points whose miss is smallest, moved by that
(Anderson 1965; Walker and Ni 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

Point = Sequence[float]

MEMORY = 5
"""So many points before the last one are looked back at."""

FLAT = 1e-8
"""A direction that adds a smaller share of its length to those before it says nothing new."""


class Anderson:
    """The points of an iteration so far."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._misses: list[Point] = []

    def forget(self) -> None:
        """Begin anew."""
        self._points, self._misses = [], []

    def next(self, point: Point, image: Point) -> list[float]:
        """The point to go on with: the image itself, to begin with.

        Args:
            point: Where the iteration is.
            image: Where it would go.
        """
        self._points = [*self._points, point][-MEMORY - 1 :]
        self._misses = [*self._misses, _less(image, point)][-MEMORY - 1 :]
        miss, reached = list(self._misses[-1]), list(image)
        directions: list[tuple[list[float], list[float]]] = []
        for k in range(len(self._points) - 1, 0, -1):
            turn = _less(self._misses[k], self._misses[k - 1])
            step = [
                a + b
                for a, b in zip(_less(self._points[k], self._points[k - 1]), turn, strict=True)
            ]
            length = _dot(turn, turn)
            for direction, way in directions:
                share = _dot(turn, direction) / _dot(direction, direction)
                turn, step = _less(turn, direction, share), _less(step, way, share)
            if _dot(turn, turn) > FLAT**2 * length:
                directions.append((turn, step))
                share = _dot(miss, turn) / _dot(turn, turn)
                miss, reached = _less(miss, turn, share), _less(reached, step, share)
        return reached


def _dot(first: Point, second: Point) -> float:
    return fsum(a * b for a, b in zip(first, second, strict=True))


def _less(first: Point, second: Point, share: float = 1.0) -> list[float]:
    return [a - share * b for a, b in zip(first, second, strict=True)]
