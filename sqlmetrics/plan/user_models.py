"""How readers of a list go on: the formulas of user models, as SQL."""

from __future__ import annotations

import math

from sqlmetrics.sql.template import case, double, number

SURELY_GONE = "-1e3"
"""Stands for the logarithm of 0, which databases refuse."""

FIRST = 6
FACTORS = (1.0, *(n**4 / (16 * n * n - 4) for n in range(1, 6)))
"""The trigamma function: of the continued fraction of what follows its first terms, half a step
below the next of them."""


def inverse_squares(start: str) -> str:
    """The sum of 1 / (start + n)^2 over n = 0, 1, 2 ... as SQL, right to 6e-13 of itself.

    Args:
        start: SQL of a number of 1 or more.
    """
    first = [f"power({start}{f' + {n}' * (n > 0)}, -2)" for n in range(FIRST)]
    middle = f"({start} + {number(FIRST - 0.5)}"
    fractions = [f"{double(factor)} / {middle}" for factor in FACTORS]
    return "\n+ ".join(first + fractions) + ")" * len(fractions)


def sum_of_inverse_squares(start: float) -> float:
    """The same as a number, to 16 digits.

    >>> round(sum_of_inverse_squares(1), 15) == round(math.pi**2 / 6, 15)
    True
    """
    middle = rest = start + 39.5
    for factor in reversed(FACTORS[1:]):
        rest = middle + factor / rest
    return math.fsum([*((start + n) ** -2 for n in range(40)), 1 / rest])


def log_of_rest_expected(gain: str, expectation: str, t: float) -> str:
    """The logarithm of (1 - gain / expectation)^2, `SURELY_GONE` if that is 0."""
    log = f"2e0 * ln(1e0 - {gain} / {expectation})"
    if t > 0.5:  # no gain is as much as is expected
        return log
    return case(f"{gain} < {expectation} - 1e-9", log, SURELY_GONE)


def novelty(alpha: float, n_seen: str, most: int | None) -> str:
    """(1 - alpha)^seen as SQL, 0 where that is below e^-150: its square would be too small.

    Args:
        alpha: From 0, where nothing fades, to 1, where the first time alone counts.
        n_seen: The column of how often a group came before.
        most: What `n_seen` is always below; None if nobody knows.
    """
    if alpha in (0, 1):
        return case(f"{n_seen} = 0e0", "1e0") if alpha else "1e0"
    power, last = f"power({double(1 - alpha)}, {n_seen})", last_power(1 - alpha)
    return power if most and most <= last else case(f"{n_seen} < {last}e0", power)


def last_power(base: float) -> int:
    """The last rank at which a base, to the power of the ranks above, is not below e^-150."""
    return 1 + int(150 / -math.log(base))
