"""evidently: a table with user, item, target and score; only the rows shown, and only means.

A report holds the means at every cutoff up to the longest list. They are read by their place: the
column `rank` says 2 for the first one of NDCG and MRR, and 1 for the others.
The rows go in best first, because its MAP reads them in their order.
"""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, cutoff, ordered, version_of

NAMES = {
    "ndcg": "NDCG",
    "recall": "RecallTopK",
    "precision": "PrecisionTopK",
    "ap": "MAP",
    "mrr": "MRR",
    "hit": "HitRate",
}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)}


def version() -> str:
    return version_of("evidently", "evidently")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """A report for every list with something relevant; it refuses those shorter than k."""
    return {
        query: mean({query: scores}, labels, text)
        for query, scores in lists.items()
        if len(scores) >= cutoff(text)
        and any(labels.get(query, {}).get(item, 0) > 0 for item in scores)
    }


def mean(lists: Lists, labels: Labels, text: str) -> float:
    tool, pandas, k = peer("evidently"), peer("pandas"), cutoff(text)
    rows = [
        (query, item, labels.get(query, {}).get(item, 0), float(scores[item]))
        for query, scores in lists.items()
        for item in ordered(scores)
    ]
    table = pandas.DataFrame(rows, columns=["user", "item", "target", "score"])
    ranking = peer("evidently.core.datasets").Recsys(
        user_id="user", item_id="item", target="target", prediction="score"
    )
    data = tool.Dataset.from_pandas(table, tool.DataDefinition(ranking=[ranking]))
    metric = getattr(peer("evidently.metrics"), metrics[text])(k=k)
    (found,) = tool.Report([metric]).run(data, None).dict()["metrics"]
    return float(list(found["value"]["value"].values())[k - 1])
