"""The studentized range, by which Tukey's test compares all pairs of means at once."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

_STEP, _STRIDE = 0.01, 5
"""Between the widths of a range in the table, and how many of them lie between two places of the
largest value: the trapezoid rule of a smooth function that dies away is exact soon."""

_WIDEST, _FARTHEST = 22.0, 9.0
_NODES = 128
_CHUNK = 4_096


def tail(q: Array, count: int, df: float) -> Array:
    """The probability of a studentized range of `q` or more.

    It agrees with scipy.stats.studentized_range.sf at 1e-9 if df is count - 1 or more.

    Args:
        q: The largest of the means less the smallest, in standard errors of a mean; 0 or more.
        count: How many means, 2 or more.
        df: Degrees of freedom of the standard error, above 0.

    Source: Tukey 1953; Lund and Lund, algorithm AS 190, Applied Statistics 32 (1983), for the form
    of the integral.

    >>> import numpy as np
    >>> round(float(tail(np.array([3.876777]), 3, 10)[0]), 6)
    0.05
    """
    import numpy as np

    scales, weights = _scales(df)
    parts = [
        1 - _below(q[start : start + _CHUNK, None] * scales, count) @ weights
        for start in range(0, len(q), _CHUNK)
    ]
    return np.clip(np.concatenate(parts), 0.0, 1.0) if parts else np.empty(0)


def critical(confidence: float, count: int, df: float) -> float:
    """The studentized range that is exceeded with probability 1 - `confidence`.

    >>> round(critical(0.95, 3, 10), 4)
    3.8768
    """
    import numpy as np

    low, high = 0.0, 1.0
    while tail(np.array([high]), count, df)[0] > 1 - confidence and high < 1e6:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if tail(np.array([middle]), count, df)[0] > 1 - confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@lru_cache
def _scales(df: float) -> tuple[Array, Array]:
    """Standard deviations of `df` normal numbers, and their probabilities (Gauss and Legendre)."""
    import numpy as np

    centre = math.sqrt(df)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    low, high = max(0.0, centre - _FARTHEST), centre + _FARTHEST
    chi = low + (high - low) * (nodes + 1) / 2
    logs = (df - 1) * np.log(chi) - chi**2 / 2
    weights = weights * np.exp(logs - logs.max())
    return chi / centre, weights / weights.sum()


def _below(widths: Array, count: int) -> Array:
    """The probability that normal numbers range over less, by Hermite's cubics."""
    import numpy as np

    values, slopes = _table(count)
    position = np.minimum(widths / _STEP, len(values) - 1.000001)
    index = position.astype(int)
    t = position - index
    first, second = values[index], values[index + 1]
    slope, next_slope = slopes[index] * _STEP, slopes[index + 1] * _STEP
    rise = second - first
    below: Array = first + t * (
        slope + t * (3 * rise - 2 * slope - next_slope + t * (slope + next_slope - 2 * rise))
    )
    return below


@cache
def _table(count: int) -> tuple[Array, Array]:
    """Of widths 0, 0.01 and so on: the probability of less, and its slope."""
    import numpy as np

    places = np.arange(-_FARTHEST - _WIDEST, _FARTHEST + _STEP / 2, _STEP)
    density = np.exp(-(places**2) / 2) / math.sqrt(2 * math.pi)
    normal = np.array([math.erfc(-end / math.sqrt(2)) / 2 for end in places])
    n_widths = round(_WIDEST / _STEP)
    largest = np.arange(n_widths, len(places), _STRIDE)
    values, slopes = np.empty(n_widths + 1), np.empty(n_widths + 1)
    factor = count * _STEP * _STRIDE
    for width in range(n_widths + 1):
        inside = normal[largest] - normal[largest - width]
        most = inside ** (count - 2)
        values[width] = factor * (density[largest] @ (most * inside))
        slopes[width] = (
            factor * (count - 1) * (density[largest] @ (most * density[largest - width]))
        )
    return values, slopes
