"""Weighted least squares of differences between positions, and iterations in fewer rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum

from sqlmetrics.clicks.propensity.moves import Ends

Point = Sequence[float]

MEMORY = 5
"""So many points before the last one are looked back at."""

FLAT = 1e-8
"""A direction that adds a smaller share of its length to those before it says nothing new."""


class LeastSquares:
    """Numbers x by position, x at the first one 0, next to known differences.

    They minimise the sum of weight * (x below - x above - difference)^2.

    Args:
        positions: The positions; the first is the reference.
        weights: Two positions -> the weight of their difference; together they join all.
    """

    def __init__(self, positions: Sequence[int], weights: Mapping[Ends, float]) -> None:
        self.positions = positions
        self.weights = weights
        places = {position: number for number, position in enumerate(positions[1:])}
        matrix = [[0.0] * len(places) for _ in places]
        for (above, below), weight in weights.items():
            for position in (above, below):
                if position in places:
                    matrix[places[position]][places[position]] += weight
            if above in places and below in places:
                matrix[places[above]][places[below]] -= weight
                matrix[places[below]][places[above]] -= weight
        self._inverse = inverse(matrix)

    def solved(self, differences: Mapping[Ends, float]) -> dict[int, float]:
        """The number of each position, from the difference of each two."""
        pulls = dict.fromkeys(self.positions, 0.0)
        for (above, below), difference in differences.items():
            weighted = self.weights[above, below] * difference
            pulls[below] += weighted
            pulls[above] -= weighted
        right = [pulls[position] for position in self.positions[1:]]
        solution = (sum(a * b for a, b in zip(row, right, strict=True)) for row in self._inverse)
        return dict(zip(self.positions, (0.0, *solution), strict=True))


def inverse(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """The inverse of a small matrix, by Gauss and Jordan with the largest pivots.

    Args:
        matrix: Square, and not singular.

    Raises:
        ZeroDivisionError: If it is singular.

    >>> inverse([[2.0, 0.0], [0.0, 4.0]])
    [[0.5, 0.0], [0.0, 0.25]]
    """
    size = len(matrix)
    rows = [[*row, *(float(i == k) for k in range(size))] for i, row in enumerate(matrix)]
    for column in range(size):
        best = max(range(column, size), key=lambda row: abs(rows[row][column]))
        rows[column], rows[best] = rows[best], rows[column]
        pivot = rows[column][column]
        rows[column] = [value / pivot for value in rows[column]]
        for other_row in range(size):
            if other_row != column and (factor := rows[other_row][column]):
                pairs = zip(rows[other_row], rows[column], strict=True)
                rows[other_row] = [value - factor * pivot_value for value, pivot_value in pairs]
    return [row[size:] for row in rows]


class Anderson:
    """Anderson's acceleration: an iteration comes to rest where it would, after fewer rounds.

    What the last points missed their images by says where it would be missed by nothing, as if
    the iteration were linear: the combination of the last points whose miss is smallest, moved by
    that (Anderson 1965; Walker and Ni 2011).
    """

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
