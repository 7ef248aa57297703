"""Microsoft's recommenders (pandas): tables of relevant rows; it has no values per query."""

from __future__ import annotations

from types import ModuleType

from conftest import peer

from tools import Labels, Lists, Values, cutoff, positives, version_of

MODULE = "recommenders.evaluation.python_evaluation"
Call = tuple[str, dict[str, str]]
NAMES: dict[str, Call] = {
    "ndcg": ("ndcg_at_k", {}),
    "ndcg(gain=linear)": ("ndcg_at_k", {"score_type": "raw"}),
    "ndcg(gain=exp)": ("ndcg_at_k", {"score_type": "exp"}),
    "precision": ("precision_at_k", {}),
    "recall": ("recall_at_k", {}),
    "ap": ("map_at_k", {}),
    "ap(ap_denominator=r)": ("map", {}),
}
metrics = {f"{ours}@{k}": call for ours, call in NAMES.items() for k in (1, 3, 10)}


def version() -> str:
    return version_of(MODULE, "recommenders")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """One evaluation a query, of the queries that it counts."""
    counted = positives(labels).keys()
    if not metrics[text][0].startswith("ndcg"):
        counted &= lists.keys()
    # A query without a list needs another one beside it, and then the mean is of both.
    alone = {query: mean(lists, {query: labels[query]}, text) for query in counted & lists.keys()}
    return alone | dict.fromkeys(counted - lists.keys(), 0.0)


def mean(lists: Lists, labels: Labels, text: str) -> float:
    tool = peer(MODULE)
    function, arguments = metrics[text]
    true = [(q, i, labels[q][i]) for q, items in positives(labels).items() for i in items]
    predicted = [(q, str(i), float(s)) for q, items in lists.items() for i, s in items.items()]
    return float(
        getattr(tool, function)(
            _table(true, "rating"), _table(predicted, "prediction"), k=cutoff(text), **arguments
        )
    )


def _table(rows: list[tuple[str, str, float]], value: str) -> object:
    pandas: ModuleType = peer("pandas")
    return pandas.DataFrame(rows, columns=["userID", "itemID", value])
