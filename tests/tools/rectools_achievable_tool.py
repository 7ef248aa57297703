"""RecTools' NDCG with `divide_by_achievable`."""

from __future__ import annotations

from tools import Labels, Lists, Values, cutoff
from tools.rectools_tool import _metric, _tables, version

__all__ = ["mean", "metrics", "per_query", "version"]

metrics = {f"ndcg@{k}": ("NDCG", {"divide_by_achievable": True}) for k in (1, 3, 10)}


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    values = _metric(*metrics[text], cutoff(text)).calc_per_user(*_tables(lists, labels))
    return {query: float(value) for query, value in values.items()}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return float(_metric(*metrics[text], cutoff(text)).calc(*_tables(lists, labels)))
