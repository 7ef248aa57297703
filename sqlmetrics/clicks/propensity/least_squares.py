"""Differences between positions -> one number a position: weighted least squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Ends = tuple[int, int]


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
