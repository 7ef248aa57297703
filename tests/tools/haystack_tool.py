"""Haystack: its document evaluators, on lists of documents; they have no k.

A document's score in the truth is its grade. Queries are those of the truth.
"""

from __future__ import annotations

from typing import Any

from conftest import peer

from tools import Labels, Lists, Values, ordered, top, version_of

MODULE = "haystack.components.evaluators"
NAMES: dict[str, tuple[str, dict[str, str]]] = {
    "ndcg": ("DocumentNDCGEvaluator", {}),
    "ap": ("DocumentMAPEvaluator", {}),
    "mrr": ("DocumentMRREvaluator", {}),
    "hit": ("DocumentRecallEvaluator", {"mode": "single_hit"}),
    "recall": ("DocumentRecallEvaluator", {"mode": "multi_hit"}),
}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)} | {
    ours: NAMES[ours] for ours in ("ndcg", "ap", "mrr")
}


def version() -> str:
    return version_of(MODULE, "haystack-ai")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    scores = _run(lists, labels, text)["individual_scores"]
    return dict(zip(labels, map(float, scores), strict=True))


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return float(_run(lists, labels, text)["score"])


def _run(lists: Lists, labels: Labels, text: str) -> Any:
    document = peer("haystack").Document
    name, arguments = metrics[text]
    graded = text.startswith("ndcg")
    truth = [
        [
            document(content=item, score=grade if graded else None)
            for item, grade in items.items()
            if grade > 0
        ]
        for items in labels.values()
    ]
    retrieved = [
        [document(content=item) for item in top(ordered(lists.get(query, {})), text)]
        for query in labels
    ]
    evaluator = getattr(peer(MODULE), name)(**arguments)
    return evaluator.run(ground_truth_documents=truth, retrieved_documents=retrieved)
