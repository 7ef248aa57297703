"""MS MARCO's own evaluation script: RR@k, by the provider of ir_measures that is made of it."""

from __future__ import annotations

from tools import Labels, Lists, Values
from tools.ir_measures_tool import by, version

__all__ = ["mean", "metrics", "per_query", "version"]

PROVIDER = "msmarco"
metrics = {f"mrr@{k}": f"RR@{k}" for k in (1, 3, 10, 100)}


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    return by(PROVIDER, lists, labels, metrics[text])[0]


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return by(PROVIDER, lists, labels, metrics[text])[1]
