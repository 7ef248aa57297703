"""PyTorch Ignite: `NDCG` and `HitRate` of `ignite.metrics`, given a row of items at a time.

Rows are as long as a catalogue: `HitRate` refuses one that is shorter than k, so such a list is
filled with items that nobody asked for, below all others. Sums have 32 bits.
"""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, cutoff, rows, version_of

NAMES = {"ndcg": "NDCG", "ndcg(gain=linear)": "NDCG", "hit": "HitRate"}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)}
LOWEST = -1e9


def version() -> str:
    return version_of("ignite.metrics", "pytorch-ignite")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """One evaluation a list that has something relevant in it."""
    return {
        query: mean({query: lists[query]}, labels, text)
        for query, grades, _ in rows(lists, labels)
        if any(grades)
    }


def mean(lists: Lists, labels: Labels, text: str) -> float:
    k, torch = cutoff(text), peer("torch")
    options = {"gain_function": "linear_rank"} if "linear" in text else {}
    metric = getattr(peer("ignite.metrics"), metrics[text])(top_k=[k], **options)
    for _, grades, scores in rows(lists, labels):
        missing = max(0, k - len(scores))
        padded_scores, padded_grades = [*scores, *[LOWEST] * missing], [*grades, *[0.0] * missing]
        metric.update((torch.tensor([padded_scores]), torch.tensor([padded_grades])))
    return float(metric.compute()[0])
