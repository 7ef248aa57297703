"""RePlay (replay-rec), on pandas tables: relevant rows, and rows with a rating."""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, cutoff, positives, version_of

NAMES = {
    "ndcg": "NDCG",
    "recall": "Recall",
    "precision": "Precision",
    "ap": "MAP",
    "mrr": "MRR",
    "hit": "HitRate",
}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)}


def version() -> str:
    return version_of("replay.metrics", "replay-rec")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    descriptors = peer("replay.metrics.descriptors")
    values = _run(lists, labels, text, mode=descriptors.PerUser())
    return {query: float(value) for query, value in values.items()}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return float(_run(lists, labels, text))


def _run(lists: Lists, labels: Labels, text: str, **options: object) -> object:
    pandas, name = peer("pandas"), metrics[text]
    retrieved = [(q, str(i), float(s)) for q, items in lists.items() for i, s in items.items()]
    true = [(q, i) for q, items in positives(labels).items() for i in items]
    (result,) = getattr(peer("replay.metrics"), name)(cutoff(text), **options)(
        pandas.DataFrame(retrieved, columns=["query_id", "item_id", "rating"]),
        pandas.DataFrame(true, columns=["query_id", "item_id"]),
    ).values()
    return result
