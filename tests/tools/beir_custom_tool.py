"""BEIR: `EvaluateRetrieval.evaluate_custom`, whose means are printed with 5 decimals.

It runs over all labelled queries, and stops at a list of a query without labels: such lists are
not given.
"""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, beir_tool, cutoff

NAMES = {"mrr": ("mrr", "MRR"), "hit": ("acc", "Accuracy"), "recall": ("r_cap", "R_cap")}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)}
version = beir_tool.version


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """One evaluation a query; one without a list is 0."""
    return {
        query: mean({query: lists[query]} if query in lists else {}, {query: grades}, text)
        for query, grades in labels.items()
    }


def mean(lists: Lists, labels: Labels, text: str) -> float:
    metric, name = metrics[text]
    retrieved = {query: dict(scores) for query, scores in lists.items() if query in labels}
    tool = peer(beir_tool.MODULE).EvaluateRetrieval
    k = cutoff(text)
    return float(tool.evaluate_custom(labels, retrieved, [k], metric)[f"{name}@{k}"])
