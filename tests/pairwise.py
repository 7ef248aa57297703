"""Rows in which every two values of different axes meet: pairs instead of products."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import combinations, product
from typing import Any


def pairs(
    possible: Callable[[dict[str, Any]], bool] = lambda row: True, **axes: Iterable[Any]
) -> list[dict[str, Any]]:
    """Rows that hold each pair of values which some possible row holds; few of them.

    Args:
        possible: whether a row makes sense.
        axes: the values of each; up to some ten thousand combinations.

    >>> rows = pairs(a=[0, 1], b=[0, 1], c=[0, 1])
    >>> len(rows), len({(row["a"], row["c"]) for row in rows})
    (4, 4)
    """
    names, values = list(axes), [list(axis) for axis in axes.values()]
    rows = [dict(zip(names, row, strict=True)) for row in product(*values)]
    index_rows = list(product(*(range(len(axis)) for axis in values)))
    met = [
        set(combinations(enumerate(index_row), min(2, len(names))))
        for index_row, row in zip(index_rows, rows, strict=True)
        if possible(row)
    ]
    rows = [row for row in rows if possible(row)]
    heap = [(-len(pair), at) for at, pair in enumerate(met)]
    heapify(heap)
    chosen, covered = [], set[Any]()
    while heap:  # what a row adds only shrinks, so that the first one still true is the best
        promised, at = heappop(heap)
        new = len(met[at] - covered)
        if new and new == -promised:
            chosen.append(rows[at])
            covered |= met[at]
        elif new:
            heappush(heap, (-new, at))
    return chosen
