"""LensKit: lists in order, and test items.

`RunAnalysis` counts the lists that it is given, and no others. What is undefined for a list is NaN
from the metric itself, and 0 in its tables and means.
"""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, cutoff, ordered, positives, version_of

Call = tuple[str, dict[str, str]]
NAMES: dict[str, Call] = {
    "ndcg": ("NDCG", {}),
    "ndcg(gain=linear)": ("NDCG", {"gain": "rating"}),
    "dcg": ("DCG", {}),
    "recall": ("Recall", {}),
    "precision": ("Precision", {}),
    "ap": ("AveragePrecision", {}),
    "mrr": ("RecipRank", {}),
    "hit": ("Hit", {}),
}
metrics = {f"{ours}@{k}": call for ours, call in NAMES.items() for k in (1, 3, 10)}


def version() -> str:
    return version_of("lenskit.metrics", "lenskit")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    values = _measured(lists, labels, text).list_metrics().iloc[:, 0]
    return {query: float(value) for query, value in values.items()}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return float(_measured(lists, labels, text).list_summary()["mean"].iloc[0])


def _measured(lists: Lists, labels: Labels, text: str) -> object:
    data, tool = peer("lenskit.data"), peer("lenskit.metrics")
    name, arguments = metrics[text]
    recommended = data.ItemListCollection(["user_id"])
    for query, scores in lists.items():
        recommended.add(data.ItemList(item_ids=ordered(scores), ordered=True), user_id=query)
    test = data.ItemListCollection(["user_id"])
    for query, items in positives(labels).items():
        ratings = [float(labels[query][item]) for item in items]
        test.add(data.ItemList(item_ids=items, rating=ratings), user_id=query)
    metric = getattr(peer("lenskit.metrics.ranking"), name)(cutoff(text), **arguments)
    return tool.RunAnalysis(metric).measure(recommended, test)
