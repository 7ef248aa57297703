"""BEIR: `EvaluateRetrieval.evaluate`, whose means are printed with 5 decimals."""

from __future__ import annotations

from functools import cache
from typing import Any

from conftest import peer

from tools import Labels, Lists, Values, cutoff, version_of

MODULE = "beir.retrieval.evaluation"
NAMES = {"ndcg": (0, "NDCG"), "ap": (1, "MAP"), "recall": (2, "Recall"), "precision": (3, "P")}
CUTOFFS = [1, 3, 10]
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in CUTOFFS}


def version() -> str:
    return version_of(MODULE, "beir")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """One evaluation a query, of those with a list and a label."""
    return {
        query: mean({query: lists[query]}, {query: labels[query]}, text)
        for query in lists
        if query in labels
    }


def mean(lists: Lists, labels: Labels, text: str) -> float:
    field, name = metrics[text]
    return float(_scores(frozen(lists), frozen(labels))[field][f"{name}@{cutoff(text)}"])


def frozen(tables: Lists | Labels) -> Any:
    """What a cache can be asked for: evaluations have all metrics at once."""
    return tuple((query, tuple(values.items())) for query, values in tables.items())


@cache
def _scores(lists: Any, labels: Any) -> Any:
    retrieved, truth = ({query: dict(values) for query, values in rows} for rows in (lists, labels))
    return peer(MODULE).EvaluateRetrieval.evaluate(truth, retrieved, CUTOFFS)
