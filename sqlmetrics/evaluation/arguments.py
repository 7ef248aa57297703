"""Counts and lists among arguments, whatever Python gives for them."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from sqlmetrics.errors import SpecError, shortened


def listed(values: Any) -> tuple[Any, ...]:
    """What may be one or several, as several; None is none.

    >>> listed("rrf"), listed(["rrf", "sum"]), listed(None)
    (('rrf',), ('rrf', 'sum'), ())
    """
    if values is None:
        return ()
    is_single = isinstance(values, str) or not isinstance(values, Iterable)
    return (values,) if is_single else tuple(values)


def check_count(name: str, value: object, least: int = 1, most: int | None = None) -> None:
    """Raise SpecError if a value is no whole number, below the least one or above the most."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if is_whole and least <= value and (most is None or value <= most):  # type: ignore[operator]
        return
    ends = f"{least} or more" if most is None else f"from {least} to {most:,}"
    raise SpecError(f"{name} must be {ends}, a whole number, given {shortened(repr(value))}")


def check_level(name: str, level: object) -> None:
    """Raise SpecError if the coverage of intervals is no number between 0 and 1."""
    number = float(level) if isinstance(level, Real) and not isinstance(level, bool) else 0.0
    if not 0 < number < 1:
        given_level = f"{number:g}" if number else shortened(repr(level))
        raise SpecError(f"{name} must be above 0 and below 1, like 0.95, given {given_level}")
