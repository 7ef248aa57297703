"""Parameters of tests that run in long runs alone: `pytest -m "long or not long"`, and in CI."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from slices import kept


def long(value: Any, *marks: Any) -> Any:
    """A value that is tried in long runs alone."""
    return pytest.param(value, marks=[pytest.mark.long, *marks])


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """The first values in every run, the others in long ones."""
    there = list(values)
    return [*there[:count], *map(long, there[count:])]


def sliced(what: str, share: float, values: Iterable[Any], name: Callable[[Any], str] = str) -> Any:
    """A slice of the values in every run, the others in long ones; see `slices`."""
    there = list(values)
    mine = {name(one) for one in kept(what, there, share, name)}
    return [one if name(one) in mine else long(one) for one in there]
