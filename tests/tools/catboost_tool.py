"""CatBoost: `eval_metric` on grades, scores and groups."""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, cutoff, rows, version_of

NAMES = {
    "ndcg": "NDCG",
    "ndcg(gain=exp)": "NDCG:type=Exp",
    "dcg": "DCG",
    "dcg(gain=exp)": "DCG:type=Exp",
    "ap": "MAP",
    "mrr": "MRR",
    "precision": "PrecisionAt",
    "recall": "RecallAt",
}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)} | {
    ours: theirs for ours, theirs in NAMES.items() if not ours.startswith(("prec", "rec"))
}


def version() -> str:
    return version_of("catboost", "catboost")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """One evaluation a query."""
    return {query: mean({query: lists[query]}, labels, text) for query in lists}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    parts = list(rows(lists, labels))
    settings = [f"top={cutoff(text)}"] if "@" in text else []
    name, _, type_ = metrics[text].partition(":")
    settings += [type_] if type_ else []
    values = peer("catboost.utils").eval_metric(
        [grade for _, grades, _ in parts for grade in grades],
        [score for *_, scores in parts for score in scores],
        f"{name}:{';'.join(settings)}" if settings else name,
        group_id=[number for number, (_, grades, _) in enumerate(parts) for _ in grades],
    )
    return float(values[0])
