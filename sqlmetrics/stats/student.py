"""Quantiles of Student's t and of F for any degrees of freedom, by the standard library."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

_TINY = 1e-300


def critical(confidence: float, df: float) -> float:
    """The t for which |T| stays below t with probability `confidence`.

    Newton's method on the two-sided tail, which falls and is convex, from the normal
    quantile upwards; an expansion above 10,000 degrees of freedom. It agrees with
    scipy.stats.t.ppf at 1e-9.

    Args:
        confidence: Above 0 and below 1, like 0.95.
        df: Degrees of freedom, above 0, also fractional; infinity is the normal.

    Raises:
        ValueError: If one of them is out of its range.

    >>> round(critical(0.95, 10), 6)
    2.228139
    """
    if not 0 < confidence < 1 or not df > 0:
        raise ValueError(f"confidence is in (0, 1) and df above 0, given {confidence} and {df}")
    t = z = NormalDist().inv_cdf((1 + confidence) / 2)
    if df > 10_000:  # Abramowitz and Stegun 26.7.5
        return z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df * df)
    for _ in range(200):
        step = (tail(t, df) - (1 - confidence)) / (2 * _density(t, df))
        t += step
        if abs(step) <= 1e-13 * t:
            break
    return t


def tail(t: float, df: float) -> float:
    """The probability that |T| is t or more, for t >= 0."""
    return _incomplete_beta(df / 2, 0.5, df / (df + t * t), t * t / (df + t * t))


def f_quantile(probability: float, df: float, df_below: float) -> float:
    """The f that an F of these degrees of freedom stays below with a probability.

    Halves the interval of df f / (df f + df_below), which has a beta distribution. It agrees with
    scipy.stats.f.ppf at 1e-9.

    Args:
        probability: Above 0 and below 1.
        df: Degrees of freedom of the numerator, above 0.
        df_below: Those of the denominator.

    >>> round(f_quantile(0.95, 3, 20), 6)
    3.098391
    """
    low, high = 0.0, 1.0
    while (x := (low + high) / 2) not in (low, high):
        is_below = _incomplete_beta(df / 2, df_below / 2, x, 1 - x) < probability
        low, high = (x, high) if is_below else (low, x)
    return df_below * x / (df * (1 - x))


def _density(t: float, df: float) -> float:
    log = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(df * math.pi) / 2
    return math.exp(log - (df + 1) / 2 * math.log1p(t * t / df))


def _incomplete_beta(a: float, b: float, x: float, y: float) -> float:
    """The regularised incomplete beta function I_x(a, b), with y = 1 - x.

    Source: Abramowitz and Stegun 26.5.8; Numerical Recipes, 3rd ed., 6.4.
    """
    if x <= 0 or y <= 0:
        return 0.0 if x <= 0 else 1.0
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log + a * math.log(x) + b * math.log(y))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, y) / b


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _apart(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _apart(1 + term * d)
            c = _apart(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _apart(value: float) -> float:
    """The value, kept away from 0."""
    return value if abs(value) > _TINY else _TINY


_EXACT = 4
"""Up to so many degrees of freedom the SQL has constants; above, a polynomial."""

_DEGREE = 8


def critical_sql(confidence: float, n: str, inverse_df: str) -> str:
    """`critical` as an expression of SQL, for one coverage; within 1e-10 of it up to 0.999.

    Constants for 1 to 4 degrees of freedom, then the polynomial in 1 / df that agrees with
    `critical` at Chebyshev's extrema from 0 to 1 / 5.

    Args:
        confidence: Above 0 and below 1.
        n: A column of whole numbers: the degrees of freedom, and one more.
        inverse_df: A column: 1 / (n - 1).
    """
    whens = "".join(
        f"    when {df + 1} then {critical(confidence, df):.12g}e0\n" for df in range(1, _EXACT + 1)
    )
    first, *coefficients = reversed(_polynomial(confidence))
    nested = f"{first:.12g}e0"
    for coefficient in coefficients:
        sign = "-" if coefficient < 0 else "+"
        nested = f"({nested} * {inverse_df}\n        {sign} {abs(coefficient):.12g}e0)"
    return f"case {n}\n{whens}    else\n        {nested}\nend"


@cache
def _polynomial(confidence: float) -> tuple[float, ...]:
    """Its coefficients, the constant first; in fractions, so that they are the same everywhere."""
    places = [
        Fraction(round((1 - math.cos(math.pi * i / _DEGREE)) / 2 / (_EXACT + 1), 6))
        for i in range(_DEGREE + 1)
    ]
    coefficients = [Fraction(0)] * (_DEGREE + 1)
    for node in places:
        other_nodes = [point for point in places if point != node]
        value = critical(confidence, float(1 / node) if node else math.inf)
        basis = [Fraction(f"{value:.12g}")]
        for other_node in other_nodes:
            basis = [
                (low - other_node * high) / (node - other_node)
                for low, high in zip([Fraction(0), *basis], [*basis, Fraction(0)], strict=True)
            ]
        coefficients = [total + term for total, term in zip(coefficients, basis, strict=True)]
    return tuple(float(coefficient) for coefficient in coefficients)


# The studentized range, by which Tukey's test compares all pairs of means at once.

_STEP, _STRIDE = 0.01, 5
"""Between the widths of a range in the table, and how many of them lie between two places of the
largest value: the trapezoid rule of a smooth function that dies away is exact soon."""

_WIDEST, _FARTHEST = 22.0, 9.0
_NODES = 128
_CHUNK = 4_096


def studentized_tail(q: Array, count: int, df: float) -> Array:
    """The probability of a studentized range of `q` or more.

    It agrees with scipy.stats.studentized_range.sf at 1e-9 if df is count - 1 or more.

    Args:
        q: The largest of the means less the smallest, in standard errors of a mean; 0 or more.
        count: How many means, 2 or more.
        df: Degrees of freedom of the standard error, above 0.

    Source: Tukey 1953; Lund and Lund, algorithm AS 190, Applied Statistics 32 (1983), for the form
    of the integral.

    >>> import numpy as np
    >>> round(float(studentized_tail(np.array([3.876777]), 3, 10)[0]), 6)
    0.05
    """
    import numpy as np

    scales, weights = _scales(df)
    parts = [
        1 - _below(q[start : start + _CHUNK, None] * scales, count) @ weights
        for start in range(0, len(q), _CHUNK)
    ]
    return np.clip(np.concatenate(parts), 0.0, 1.0) if parts else np.empty(0)


def studentized_critical(confidence: float, count: int, df: float) -> float:
    """The studentized range that is exceeded with probability 1 - `confidence`.

    >>> round(studentized_critical(0.95, 3, 10), 4)
    3.8768
    """
    import numpy as np

    low, high = 0.0, 1.0
    while studentized_tail(np.array([high]), count, df)[0] > 1 - confidence and high < 1e6:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if studentized_tail(np.array([middle]), count, df)[0] > 1 - confidence:
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
