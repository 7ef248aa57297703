"""MTEB: `calculate_retrieval_scores`. The means of all but MRR are printed with 5 decimals.

MRR stops at a list of a query without labels, so such lists are not given.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from conftest import peer

from tools import Labels, Lists, Values, cutoff, version_of
from tools.beir_tool import frozen

MODULE = "mteb._evaluators.retrieval_metrics"
NAMES = {
    "ndcg": ("ndcg", "NDCG", "ndcg_cut"),
    "ap": ("map", "MAP", "map_cut"),
    "recall": ("recall", "Recall", "recall"),
    "precision": ("precision", "P", "P"),
    "hit": ("hit_rate", "HitRate", "success"),
    "mrr": ("mrr", "MRR", ""),
}
CUTOFFS = (1, 3, 10)
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in CUTOFFS}


def version() -> str:
    return version_of(MODULE, "mteb")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """MRR has one mean a query, the others are kept for each."""
    prefix = metrics[text][2]
    run = [query for query in lists if query in labels]
    if prefix:
        scores = _all_scores(lists, labels).all_scores
        return {query: float(scores[query][f"{prefix}_{cutoff(text)}"]) for query in run}
    return {query: mean({query: lists[query]}, labels, text) for query in run}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    field, name, _ = metrics[text]
    return float(getattr(_all_scores(lists, labels), field)[f"{name}@{cutoff(text)}"])


def _all_scores(lists: Lists, labels: Labels) -> Any:
    retrieved = {query: scores for query, scores in lists.items() if query in labels}
    return _scores(frozen(retrieved), frozen(labels))


@cache
def _scores(lists: Any, labels: Any) -> Any:
    retrieved, truth = ({query: dict(values) for query, values in rows} for rows in (lists, labels))
    return peer(MODULE).calculate_retrieval_scores(retrieved, truth, CUTOFFS)
