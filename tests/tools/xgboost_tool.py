"""XGBoost: the metrics of a model without a tree, whose scores are the base_margin.

`map` and `pre` take labels of 0 and 1 alone; every grade of 1 or more is given as 1.
"""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, rows, version_of

NAMES = {"ndcg": "ndcg", "ndcg(gain=linear)": "ndcg", "ap": "map", "precision": "pre"}
SUFFIX = ""
"""What stands behind a metric's name: a minus counts a query with nothing relevant as 0."""


def named(suffix: str) -> dict[str, str]:
    """Our texts, and the tool's."""
    cut = {f"{ours}@{k}": f"{name}@{k}{suffix}" for ours, name in NAMES.items() for k in (1, 3, 10)}
    uncut = {ours: f"{NAMES[ours]}{suffix}" for ours in ("ndcg", "ap")}
    return uncut | cut


metrics = named(SUFFIX)


def version() -> str:
    return version_of("xgboost", "xgboost-cpu")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """One evaluation a query."""
    return values(lists, labels, text, metrics[text])


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return evaluated(lists, labels, text, metrics[text])


def values(lists: Lists, labels: Labels, text: str, name: str) -> Values:
    """The value of every list."""
    return {query: evaluated({query: lists[query]}, labels, text, name) for query in lists}


def evaluated(lists: Lists, labels: Labels, text: str, name: str) -> float:
    """What the tool prints, with 17 digits."""
    tool, numpy = peer("xgboost"), peer("numpy")
    parts = list(rows(lists, labels))
    grades = [grade for _, query_grades, _ in parts for grade in query_grades]
    data = tool.DMatrix(
        numpy.zeros((len(grades), 1)),
        grades if text.startswith("ndcg") else [min(grade, 1.0) for grade in grades],
        group=[len(query_grades) for _, query_grades, _ in parts],
        base_margin=[score for *_, scores in parts for score in scores],
    )
    model = tool.Booster(
        {
            "objective": "rank:ndcg" if text.startswith("ndcg") else "rank:map",
            "eval_metric": [name],
            "ndcg_exp_gain": "linear" not in text,
        },
        [data],
    )
    return float(model.eval(data).rpartition(":")[2])
