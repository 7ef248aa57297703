"""ranx, with `make_comparable`: without it a query that has no list is an error."""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, at, version_of

metrics = {
    "ndcg": "ndcg",
    "ndcg(gain=exp)": "ndcg_burges",
    "mrr": "mrr",
    "ap": "map",
    "rprec": "r-precision",
    **at(
        {
            "ndcg": "ndcg",
            "ndcg(gain=exp)": "ndcg_burges",
            "recall": "recall",
            "precision": "precision",
            "hit": "hit_rate",
            "mrr": "mrr",
            "ap": "map",
            "f1": "f1",
        },
        1,
        3,
        10,
    ),
}


def version() -> str:
    return version_of("ranx", "ranx")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    return _run(lists, labels, metrics[text])[0]


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return _run(lists, labels, metrics[text])[1]


def _run(lists: Lists, labels: Labels, name: str) -> tuple[Values, float]:
    tool = peer("ranx")
    scores = {q: {i: float(s) for i, s in items.items()} for q, items in lists.items()}
    run = tool.Run(scores)
    tool.evaluate(tool.Qrels(labels), run, [name], make_comparable=True)
    values = {query: float(value) for query, value in run.scores[name].items()}
    return values, float(run.mean_scores[name])
