"""LlamaIndex: the metrics of its retriever evaluator, on ids expected and retrieved.

They have no k: a metric at k is that of a list of k. Without an id on either side they raise.
"""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, average, ordered, positives, top, version_of

MODULE = "llama_index.core.evaluation.retrieval.metrics"
NAMES = {
    "ndcg": "NDCG",
    "ap": "AveragePrecision",
    "mrr": "MRR",
    "hit": "HitRate",
    "precision": "Precision",
    "recall": "Recall",
}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)} | {
    ours: NAMES[ours] for ours in ("ndcg", "ap", "mrr")
}


def version() -> str:
    return version_of(MODULE, "llama-index-core")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    metric = getattr(peer(MODULE), metrics[text])()
    return {
        query: float(
            metric.compute(expected_ids=items, retrieved_ids=top(ordered(lists[query]), text)).score
        )
        for query, items in positives(labels).items()
        if lists.get(query)
    }


def mean(lists: Lists, labels: Labels, text: str) -> float:
    """A row a query: the mean over them is the caller's."""
    return average(per_query(lists, labels, text))
