"""Several p-values at once: Holm's for a family, Benjamini and Hochberg's for a search."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values that hold for all together: the chance of any false finding stays below them.

    Source: Holm 1979.

    >>> [round(one, 3) for one in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, least = [0.0] * len(p_values), 0.0
    for place, i in enumerate(order):
        least = max(least, min(1.0, p_values[i] * (len(p_values) - place)))
        adjusted[i] = least
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """P-values of a search: of the findings below one, at most that share is false on average.

    Source: Benjamini and Hochberg 1995.

    >>> [round(one, 3) for one in benjamini_hochberg([0.01, 0.04, 0.03])]
    [0.03, 0.04, 0.04]
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, most = [0.0] * len(p_values), 1.0
    for place in reversed(range(len(order))):
        i = order[place]
        most = min(most, p_values[i] * len(p_values) / (place + 1))
        adjusted[i] = most
    return adjusted
