"""TruLens: `GroundTruthAgreement`'s metrics of retrieved chunks and their scores.

`pip install trulens-feedback` is enough. No model is asked, so the object has no provider.
"""

from __future__ import annotations

import math
from typing import Any

from conftest import peer

from tools import Labels, Lists, Values, average, cutoff, version_of

MODULE = "trulens.feedback.groundtruth"
NAMES = {"ndcg": "ndcg_at_k", "precision": "precision_at_k", "recall": "recall_at_k"}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)} | {
    "mrr": "mrr",
}


def version() -> str:
    return version_of(MODULE, "trulens-feedback")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """A list of scored chunks for each query with golden ones: those whose grade is above 0."""
    golden = {q: {i: g for i, g in items.items() if g} for q, items in labels.items()}
    tool = peer(MODULE).GroundTruthAgreement.model_construct(
        ground_truth=[
            {"query": query, "expected_chunks": [_chunk(*pair) for pair in items.items()]}
            for query, items in golden.items()
        ],
        ground_truth_imp=None,
    )
    cut = {"k": cutoff(text)} if "@" in text else {}
    values = {}
    for query in golden:
        scores = lists.get(query, {})
        chunks = [[*scores], [*scores.values()]]
        values[query] = float(getattr(tool, metrics[text])(query, *chunks, **cut))
    return {query: value for query, value in values.items() if not math.isnan(value)}


def _chunk(item: str, grade: int) -> dict[str, Any]:
    return {"text": item, "expect_score": float(grade)}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    """A record a query: the mean over them leaves NaN out."""
    return average(per_query(lists, labels, text))
