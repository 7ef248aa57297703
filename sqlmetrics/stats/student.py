"""Quantiles of Student's t and of F for any degrees of freedom, by the standard library."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from statistics import NormalDist

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
