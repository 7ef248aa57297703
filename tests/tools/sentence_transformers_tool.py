"""Sentence Transformers: `InformationRetrievalEvaluator`, whose hits are given.

It counts queries with a relevant document; one without hits is an empty list.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from conftest import peer

from tools import Labels, Lists, Values, cutoff, positives, version_of

NAMES = {
    "hit": "accuracy@k",
    "precision": "precision@k",
    "recall": "recall@k",
    "ndcg": "ndcg@k",
    "mrr": "mrr@k",
    "ap": "map@k",
}
CUTOFFS = [1, 3, 10]
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in CUTOFFS}


def version() -> str:
    return version_of("sentence_transformers.evaluation", "sentence-transformers")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """One evaluation a query."""
    return {
        query: mean({query: lists.get(query, {})}, {query: labels[query]}, text)
        for query in positives(labels)
    }


def mean(lists: Lists, labels: Labels, text: str) -> float:
    retrieved = tuple((query, tuple(items.items())) for query, items in lists.items())
    truth = tuple((query, tuple(items)) for query, items in positives(labels).items())
    return float(_measured(retrieved, truth)[metrics[text]][cutoff(text)])


@cache
def _measured(retrieved: Any, truth: Any) -> Any:
    names = ("mrr_at_k", "ndcg_at_k", "accuracy_at_k", "precision_recall_at_k", "map_at_k")
    relevant = {query: set(items) for query, items in truth}
    evaluator = peer("sentence_transformers.evaluation").InformationRetrievalEvaluator(
        dict.fromkeys(relevant, ""), {}, relevant, **dict.fromkeys(names, CUTOFFS)
    )
    lists = dict(retrieved)
    return evaluator.compute_metrics(
        [
            [{"corpus_id": item, "score": score} for item, score in lists.get(query, ())]
            for query in evaluator.queries_ids
        ]
    )
