"""Parameters of tests that not every run has: long ones, nightly ones, cells of one engine.

- `pytest` runs what is marked neither `long` nor `nightly`.
- `pytest -m "not nightly"` runs the long tests too, as CI does at every commit.
- `pytest -m "long or not long"` runs everything, as CI does by night.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from slices import is_all, is_seeded, keep, kept, lot

NIGHTLY = (pytest.mark.long, pytest.mark.nightly)
"""The marks of what runs by night alone; by `long` it is no default test either."""


def long(value: Any, *marks: Any) -> Any:
    """A value that is tried in long runs alone; a test is marked by `pytest.mark.long`.

    >>> long(lambda: 1).marks[0].name
    'long'
    >>> def test_it(): ...
    >>> long(test_it)
    Traceback (most recent call last):
    TypeError: test_it would not run: a test is marked by @pytest.mark.long
    """
    if getattr(value, "__name__", "").startswith("test_"):
        raise TypeError(f"{value.__name__} would not run: a test is marked by @pytest.mark.long")
    return pytest.param(value, marks=[pytest.mark.long, *marks])


def nightly(value: Any, *marks: Any) -> Any:
    """A value that is tried by night alone; a test is marked by `by_night`."""
    if getattr(value, "__name__", "").startswith("test_"):
        raise TypeError(f"{value.__name__} would not run: a test is marked by @by_night")
    return pytest.param(value, marks=[*NIGHTLY, *marks])


def by_night(test: Any) -> Any:
    """Mark a test that runs by night alone."""
    for mark in NIGHTLY:
        test = mark(test)
    return test


def by_turns(cost: float) -> Callable[[Any], Any]:
    """Mark a costly test: a 60th of them, by cost, is in each run; all are in long ones.

    Where a commit is the seed, as in CI, two fifths of them are: see `run_by_other_commits`.

    A file whose tests are many small ones takes turns as `pytestmark = by_turns(...)`.

    Args:
        cost: CPU seconds that it takes, roughly; of a file, those of one test.
    """
    return pytest.mark.turns(cost)


def off_turn(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those of the costly tests that are not this run's, drawn together so that runs cost alike."""
    costs: dict[str, float] = {}
    costly = [item for item in items if item.get_closest_marker("turns")]
    for item in costly:
        mark = item.get_closest_marker("turns")
        costs[_test(item)] = mark.args[0] if mark else 0
    seconds_left = sum(costs.values()) / 60
    mine = set()
    for name in sorted(costs, key=lot):
        if is_all() or costs[name] <= seconds_left:
            mine.add(name)
            seconds_left -= costs[name]
    return [item for item in costly if _test(item) not in mine]


FEW = 12
"""So many costly tests all run, as where a step of CI names a file."""


def run_by_other_commits(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Those of many costly tests off their turn that other commits have, where one is the seed."""
    off = list(items)
    if is_all() or not is_seeded() or len({_test(item) for item in off}) <= FEW:
        return []
    return [item for item in off if not keep(f"long {item.nodeid}", 0.4)]


def _test(item: pytest.Item) -> str:
    """A test without its parameters."""
    return item.nodeid.partition("[")[0]


def first(count: int, values: Iterable[Any]) -> list[Any]:
    """The first values in every run, the others in long ones."""
    all_values = list(values)
    return [*all_values[:count], *map(long, all_values[count:])]


def sliced(
    matrix: str, share: float, values: Iterable[Any], name: Callable[[Any], str] = str
) -> Any:
    """A slice of the values in every run, the others in long ones; see `slices`."""
    all_values = list(values)
    mine = {name(value) for value in kept(matrix, all_values, share, name)}
    return [value if name(value) in mine else long(value) for value in all_values]


def engines(
    names: Iterable[str], now: Iterable[str] | None = None, night: Iterable[str] = ()
) -> list[Any]:
    """Names of engines as parameters, those of one engine on one worker.

    Args:
        names: All of them.
        now: Those that every run has, default: all; the others are long.
        night: Those that are tried by night alone.
    """
    all_names = list(names)
    kinds = {name: long for name in all_names if now is not None and name not in now}
    kinds |= dict.fromkeys(night, nightly)
    group = pytest.mark.xdist_group
    return [
        kinds[name](name, group(name)) if name in kinds else pytest.param(name, marks=group(name))
        for name in all_names
    ]
