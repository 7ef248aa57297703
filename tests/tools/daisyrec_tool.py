"""DaisyRec: its functions on rows of item numbers; `pip install --no-deps daisyRec` brings them.

NumPy 2 has lost two names that it asks for: they are given back for the time of a call.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from conftest import peer

from tools import Labels, Lists, Values, average, ordered, positives, top, version_of

MODULE = "daisy.utils.metrics"
NAMES = {
    "ndcg": "NDCG",
    "ap": "MAP",
    "mrr": "MRR",
    "hit": "HR",
    "precision": "Precision",
    "recall": "Recall",
}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)}


def version() -> str:
    return version_of(MODULE, "daisyRec")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """Of users with a relevant item and a row of items."""
    return {
        query: _value(top(ordered(lists[query]), text), items, text)
        for query, items in positives(labels).items()
        if query in lists
    }


def mean(lists: Lists, labels: Labels, text: str) -> float:
    """The rows of its matrix are of one length, so lists of others are asked one by one."""
    return average(per_query(lists, labels, text))


def _value(items: list[str], relevant: list[str], text: str) -> float:
    tool, numpy = peer(MODULE), peer("numpy")
    numbers = {item: number for number, item in enumerate(dict.fromkeys([*items, *relevant]))}
    lost: dict[str, Any] = {"in1d": numpy.isin, "asfarray": partial(numpy.asarray, dtype=float)}
    for name, function in lost.items():
        if not hasattr(tool.np, name):
            setattr(tool.np, name, function)
    row = numpy.array([[numbers[item] for item in items]])
    return float(getattr(tool, metrics[text])({0: {numbers[i] for i in relevant}}, row, [0]))
