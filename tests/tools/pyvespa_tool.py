"""pyvespa: `VespaEvaluator`, whose application answers with the lists that are given.

It counts queries with a relevant document. Given a set of them NDCG is binary and all metrics are
there; given grades, which have to be 0 to 1, it has NDCG alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from conftest import peer

from tools import Labels, Lists, Values, cutoff, ordered, positives, version_of

NAMES = {
    "ndcg": "ndcg",
    "ndcg(gain=linear)": "ndcg",
    "ap": "map",
    "mrr": "mrr",
    "recall": "recall",
    "precision": "precision",
    "hit": "accuracy",
}
CUTOFFS = [1, 3, 10]
MOST = 3
"""The highest grade, which is given as 1: NDCG of the grades themselves has no unit."""
metrics = {f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in CUTOFFS}


def version() -> str:
    return version_of("vespa.evaluation", "pyvespa")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """One evaluation a query."""
    return {
        query: mean({query: lists.get(query, {})}, {query: labels[query]}, text)
        for query in positives(labels)
    }


def mean(lists: Lists, labels: Labels, text: str) -> float:
    retrieved = tuple((query, tuple(ordered(items))) for query, items in lists.items())
    truth = tuple(
        (query, tuple((item, labels[query][item]) for item in items))
        for query, items in positives(labels).items()
    )
    scores = _scores(retrieved, truth, is_graded="linear" in text)
    return scores[f"{metrics[text]}@{cutoff(text)}"]


class _Application:
    """A Vespa that knows the answers: the text of a query is its id."""

    def __init__(self, lists: Mapping[str, tuple[str, ...]]) -> None:
        self.lists = lists

    def query_many(self, bodies: list[dict[str, Any]], **_: Any) -> list[Any]:
        return [self._answer(self.lists.get(body["query"], ())) for body in bodies]

    def _answer(self, items: tuple[str, ...]) -> Any:
        hits = [
            {"fields": {"id": item}, "relevance": -float(position)}
            for position, item in enumerate(items)
        ]
        answer = {"root": {"children": hits}, "timing": {"searchtime": 0.0}}
        return peer("vespa.io").VespaQueryResponse(answer, 200, "")


@cache
def _scores(lists: Any, truth: Any, *, is_graded: bool) -> dict[str, float]:
    cutoffs = ("accuracy_at_k", "precision_recall_at_k", "mrr_at_k", "ndcg_at_k", "map_at_k")
    evaluator = peer("vespa.evaluation").VespaEvaluator(
        {query: query for query, _ in truth},
        {
            query: {item: grade / MOST for item, grade in pairs} if is_graded else {*dict(pairs)}
            for query, pairs in truth
        },
        lambda text, top: {"query": text, "hits": top},
        _Application(dict(lists)),
        id_field="id",
        **dict.fromkeys(cutoffs, CUTOFFS),
    )
    return {name: float(value) for name, value in evaluator.run().items()}
