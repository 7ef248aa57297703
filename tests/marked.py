"""Parameters of tests that not every run has: long ones, nightly ones, cells of one engine.

- `pytest` runs what is marked neither `long` nor `nightly`.
- `pytest -m "not nightly"` runs the long tests too, as CI does at every commit.
- `pytest -m "long or not long"` runs everything, as CI does by night.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from slices import keep, kept

NIGHTLY = (pytest.mark.long, pytest.mark.nightly)
"""The marks of what runs by night alone; by `long` it is no default test either."""


def long(value: Any, *marks: Any) -> Any:
    """A value that is tried in long runs alone."""
    return pytest.param(value, marks=[pytest.mark.long, *marks])


def nightly(value: Any, *marks: Any) -> Any:
    """A value that is tried by night alone."""
    return pytest.param(value, marks=[*NIGHTLY, *marks])


def by_night(test: Any) -> Any:
    """Mark a test that runs by night alone."""
    for mark in NIGHTLY:
        test = mark(test)
    return test


def by_turns(test: Any) -> Any:
    """Mark a costly test: a third of the runs have it, by their seed, and all long ones."""
    name = f"{test.__module__}.{test.__name__}"
    return test if keep(name, 1 / 3) else pytest.mark.long(test)


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """The first values in every run, the others in long ones."""
    there = list(values)
    return [*there[:count], *map(long, there[count:])]


def sliced(what: str, share: float, values: Iterable[Any], name: Callable[[Any], str] = str) -> Any:
    """A slice of the values in every run, the others in long ones; see `slices`."""
    there = list(values)
    mine = {name(one) for one in kept(what, there, share, name)}
    return [one if name(one) in mine else long(one) for one in there]


def engines(
    names: Iterable[str], now: Iterable[str] | None = None, night: Iterable[str] = ()
) -> list[Any]:
    """Names of engines as parameters, those of one engine on one worker.

    Args:
        names: All of them.
        now: Those that every run has, default: all; the others are long.
        night: Those that are tried by night alone.
    """
    there = list(names)
    kinds = {name: long for name in there if now is not None and name not in now}
    kinds |= dict.fromkeys(night, nightly)
    group = pytest.mark.xdist_group
    return [
        kinds[name](name, group(name)) if name in kinds else pytest.param(name, marks=group(name))
        for name in there
    ]
