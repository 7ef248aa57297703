"""evidently: a table with user, item, target and score; only the rows shown, and only means.

A report holds the means at every cutoff up to the longest list. They are read by their place: the
column `rank` says 2 for the first one of NDCG and MRR, and 1 for the others.
The rows go in best first, because its MAP reads them in their order.
"""

from __future__ import annotations

from functools import cache

from conftest import peer

from tools import Labels, Lists, Values, cutoff, version_of

NAMES = {
    "ndcg": "NDCG",
    "recall": "RecallTopK",
    "precision": "PrecisionTopK",
    "ap": "MAP",
    "mrr": "MRR",
    "hit": "HitRate",
}
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 5)}


def version() -> str:
    return version_of("evidently", "evidently")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """A report for every list with something relevant; it refuses those shorter than k."""
    return {
        query: mean({query: scores}, labels, text)
        for query, scores in lists.items()
        if len(scores) >= cutoff(text)
        and any(labels.get(query, {}).get(str(item), 0) > 0 for item in scores)
    }


def mean(lists: Lists, labels: Labels, text: str) -> float:
    rows = tuple(
        (query, str(item), labels.get(query, {}).get(str(item), 0), float(scores[item]))
        for query, scores in lists.items()
        for item in sorted(scores, key=lambda item: -scores[item])
    )
    k = cutoff(text)
    longest = max(map(len, lists.values()))
    # A report on k = 1 has the others up to 10 too; k beyond every list is an error of the tool.
    return _reported(rows, metrics[text], 1 if k <= min(10, longest) else k)[k - 1]


@cache
def _reported(rows: tuple[object, ...], name: str, k: int) -> list[float]:
    """The means at 1, 2, ... up to the longest list, or to 10 or k."""
    tool, pandas = peer("evidently"), peer("pandas")
    table = pandas.DataFrame(rows, columns=["user", "item", "target", "score"])
    ranking = peer("evidently.core.datasets").Recsys(
        user_id="user", item_id="item", target="target", prediction="score"
    )
    data = tool.Dataset.from_pandas(table, tool.DataDefinition(ranking=[ranking]))
    (reported,) = (
        tool.Report([getattr(peer("evidently.metrics"), name)(k=k)])
        .run(data, None)
        .dict()["metrics"]
    )
    return [float(value) for value in reported["value"]["value"].values()]
