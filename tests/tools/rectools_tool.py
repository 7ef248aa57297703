"""RecTools: relevant rows, and rows with a rank."""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, cutoff, ordered, positives, version_of

Call = tuple[str, dict[str, bool]]
NAMES: dict[str, Call] = {
    "ndcg": ("NDCG", {}),
    "recall": ("Recall", {}),
    "precision": ("Precision", {}),
    "precision(precision_denominator=min_k_r)": ("Precision", {"r_precision": True}),
    "ap": ("MAP", {}),
    "ap(ap_denominator=k)": ("MAP", {"divide_by_k": True}),
    "mrr": ("MRR", {}),
    "hit": ("HitRate", {}),
    "f1": ("F1Beta", {}),
}
metrics = {f"{ours}@{k}": call for ours, call in NAMES.items() for k in (1, 3, 10)}


def version() -> str:
    return version_of("rectools.metrics", "rectools")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    values = _metric(*metrics[text], cutoff(text)).calc_per_user(*_tables(lists, labels))
    return {query: float(value) for query, value in values.items()}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return float(_metric(*metrics[text], cutoff(text)).calc(*_tables(lists, labels)))


def _metric(name: str, arguments: dict[str, bool], k: int) -> object:
    return getattr(peer("rectools.metrics"), name)(k=k, **arguments)


def _tables(lists: Lists, labels: Labels) -> tuple[object, object]:
    pandas = peer("pandas")
    ranks = [(q, i, rank) for q in lists for rank, i in enumerate(ordered(lists[q]), 1)]
    true = [(q, i) for q, items in positives(labels).items() for i in items]
    return (
        pandas.DataFrame(ranks, columns=["user_id", "item_id", "rank"]),
        pandas.DataFrame(true, columns=["user_id", "item_id"]),
    )
