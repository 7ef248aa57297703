"""Ragas: context precision of given verdicts, and precision and recall of ids; they have no k."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace

from conftest import peer

from tools import Labels, Lists, Values, average, ordered, positives, top, version_of

MODULE = "ragas.metrics"
NAMES = {
    "ap": "LLMContextPrecisionWithReference",
    "precision": "IDBasedContextPrecision",
    "recall": "IDBasedContextRecall",
}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)} | {
    "ap": NAMES["ap"]
}


def version() -> str:
    return version_of(MODULE, "ragas")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """Of lists alone: a verdict needs a context. NaN is what Ragas has no value for."""
    relevant = positives(labels)
    values = {
        query: _value(top(ordered(lists[query]), text), relevant.get(query, []), text)
        for query in lists
    }
    return {query: value for query, value in values.items() if not math.isnan(value)}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    """The mean that a result prints leaves NaN out."""
    return average(per_query(lists, labels, text))


def _value(items: list[str], relevant: list[str], text: str) -> float:
    metric = getattr(peer(MODULE), metrics[text])()
    if text.startswith("ap"):
        verdicts = [SimpleNamespace(verdict=item in relevant) for item in items]
        return float(metric._calculate_average_precision(verdicts))
    sample = peer("ragas.dataset_schema").SingleTurnSample(
        retrieved_context_ids=items, reference_context_ids=relevant
    )
    return float(asyncio.run(metric._single_turn_ascore(sample, None)))
