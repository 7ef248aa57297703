"""Durations as people write them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(value: object) -> object:
    """A duration like `30m` in seconds; a number is seconds already.

    >>> seconds("30m"), seconds(5)
    (1800.0, 5)
    """
    if not isinstance(value, str):
        return value
    number, unit = value.strip()[:-1], value.strip()[-1:]
    try:
        return float(number) * UNITS[unit]
    except (KeyError, ValueError):
        raise ValueError("is a duration like 30m: a number and s, m, h or d") from None


Seconds = Annotated[
    float,
    Field(ge=0),
    BeforeValidator(seconds),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0, "pattern": r"\d\s*[smhd]\s*$"}),
]
"""A number of them, or a text like `30m`."""
