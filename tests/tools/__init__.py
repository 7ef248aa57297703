"""The tools that the presets reproduce, each behind the same four names.

A module has `version()`, `metrics` (our text of a metric -> what the tool calls it),
`per_query(lists, labels, text)` and `mean(lists, labels, text)`. A query that the tool does not
count is not in `per_query`. Modules import their tool when they are asked for a number, so that
a tool that is not installed skips by name.

What has no package, or no value per query, is in `worked.toml`: numbers of the tools' own tests.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Protocol

from conftest import peer

Lists = Mapping[str, Mapping[str, float]]
"""Query -> item -> score, in the order in which the items come."""
Labels = Mapping[str, Mapping[str, int]]
"""Query -> item -> grade."""
Values = dict[str, float]
"""Query -> value."""


class Repeat(str):
    """An item that stands once more in a list: another key of it, of the same id."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class Tool(Protocol):
    """What every module of this package has."""

    metrics: Mapping[str, object]

    def version(self) -> str:
        """What is installed."""

    def per_query(self, lists: Lists, labels: Labels, text: str) -> Values:
        """The value of every query that the tool counts."""

    def mean(self, lists: Lists, labels: Labels, text: str) -> float:
        """What the tool reports, or the mean that it leaves to its caller."""


def version_of(module: str, package: str) -> str:
    """The package and its installed version; the test skips by name if the module is missing."""
    peer(module)
    return f"{package} {metadata.version(package)}"


def cutoff(text: str) -> int:
    """The number behind @."""
    return int(text.partition("@")[2])


def at(names: Mapping[str, str], *cutoffs: int) -> dict[str, str]:
    """Every name with every cutoff behind it, on our side and on the tool's."""
    return {f"{ours}@{k}": f"{theirs}@{k}" for ours, theirs in names.items() for k in cutoffs}


def ordered(scores: Mapping[str, float]) -> list[str]:
    """The items best first; of equal scores, the one that comes first is first."""
    return [str(item) for item in sorted(scores, key=lambda item: -scores[item])]


def top(items: list[str], text: str) -> list[str]:
    """The items that a tool without a k is given for a metric with or without one."""
    return items[: cutoff(text)] if "@" in text else items


def positives(labels: Labels, rel: int = 1) -> dict[str, list[str]]:
    """Query -> its relevant items, for tools that know no grade 0.

    A query without any is not there: such a tool has not heard of it.
    """
    relevant = {q: [i for i, grade in items.items() if grade >= rel] for q, items in labels.items()}
    return {query: items for query, items in relevant.items() if items}


def rows(lists: Lists, labels: Labels) -> Iterator[tuple[str, list[float], list[float]]]:
    """Query, grades and scores of its rows: what a learner to rank sees, an unlabelled item as 0.

    What is labelled and not in the list, it has never heard of.
    """
    for query, scores in lists.items():
        graded = labels.get(query, {})
        yield query, [float(graded.get(str(item), 0)) for item in scores], [*scores.values()]


def average(values: Mapping[str, float]) -> float:
    """The plain mean, for tools that leave it to the caller."""
    return math.fsum(values.values()) / len(values)
