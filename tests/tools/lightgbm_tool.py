"""LightGBM: its metrics ndcg and map of a model without a tree, whose scores are the init_score."""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, at, cutoff, rows, version_of

QUIET = {"objective": "lambdarank", "metric": ["ndcg", "map"], "verbose": -1}
metrics = at({"ndcg": "ndcg", "ap": "map"}, 1, 3, 5, 10)


def version() -> str:
    return version_of("lightgbm", "lightgbm")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """One evaluation a query."""
    return {query: mean({query: lists[query]}, labels, text) for query in lists}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    tool, numpy = peer("lightgbm"), peer("numpy")
    parts = list(rows(lists, labels))
    grades = [grade for _, query_grades, _ in parts for grade in query_grades]
    data = tool.Dataset(
        numpy.zeros((len(grades), 1)),
        grades,
        group=[len(query_grades) for _, query_grades, _ in parts],
        init_score=[score for *_, scores in parts for score in scores],
        params={"verbose": -1, "feature_pre_filter": False},
    )
    model = tool.Booster(QUIET | {"eval_at": [cutoff(text)]}, data)
    return {name: float(value) for _, name, value, *_ in model.eval_train()}[metrics[text]]
