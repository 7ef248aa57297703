"""Single metrics beside the tool that has them, where no preset is about it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from conftest import peer
from memory import evaluate

from sqlmetrics.evaluation.report.result import Result

K = (1, 3, 10)
QUERIES = range(30)
EXACT = 1e-12
OF_FLOATS = 1e-6
"""CatBoost keeps targets as 32-bit numbers."""

Lists = dict[str, list[str]]


def lists(seed: int) -> Lists:
    rng = random.Random(seed)
    return {f"q{n}": rng.sample("abcdefghijklmnop", rng.choice((1, 2, 5, 12))) for n in QUERIES}


def rows(ranked: Lists, **columns: str) -> list[dict[str, Any]]:
    return [
        {"query_id": query, "item_id": item, "score": float(len(items) - position), **columns}
        for query, items in ranked.items()
        for position, item in enumerate(items)
    ]


def labels(ranked: Lists) -> pa.Table:
    """A label of each query, so that each counts."""
    return pa.table({"query_id": list(ranked), "item_id": ["a"] * len(ranked), "grade": [1.0] * 30})


def values(result: Result, text: str, system: str | None = None) -> dict[str, float]:
    column = result.spec.measure(text).column
    records = result.per_query().to_pylist()
    return {row["query_id"]: row[column] for row in records if system in (None, row.get("system"))}


@pytest.mark.parametrize("metric", ["PFound", "ERR"])
def test_catboost_on_probabilities(metric: str) -> None:
    eval_metric = peer("catboost.utils").eval_metric
    ranked, rng = lists(7), random.Random(8)
    grades = {q: {i: rng.choice((0, 0.1, 0.4, 0.85, 1)) for i in ids} for q, ids in ranked.items()}
    labelled = [
        {"query_id": query, "item_id": item, "grade": float(grade)}
        for query, graded in grades.items()
        for item, grade in graded.items()
    ]
    ours = f"{metric.lower()}(stop=linear, max_grade=1)"
    result = evaluate(
        pa.Table.from_pylist(rows(ranked)),
        pa.Table.from_pylist(labelled),
        [f"{ours}@{k}" for k in K],
        cell=metric,
    )
    for k in K:
        theirs = {
            query: eval_metric(
                [grades[query][item] for item in items],
                [-position for position in range(len(items))],
                f"{metric}:top={k}",
                group_id=[0] * len(items),
            )[0]
            for query, items in ranked.items()
        }
        assert values(result, f"{ours}@{k}") == pytest.approx(theirs, abs=OF_FLOATS)


def test_replay_beyond_accuracy() -> None:
    tool, per_user = peer("replay.metrics"), peer("replay.metrics.descriptors").PerUser()
    new, base = lists(1), lists(2)
    category = {
        item: ["red", "green", "blue", "white"][n % 4] for n, item in enumerate("abcdefghijklmnop")
    }
    scored = {q: [(i, float(-n)) for n, i in enumerate(items)] for q, items in new.items()}
    baseline = {q: [(i, float(-n)) for n, i in enumerate(items)] for q, items in base.items()}
    kinds = {q: [(category[i], score) for i, score in items] for q, items in scored.items()}
    unexpected = tool.Unexpectedness(list(K), mode=per_user)(scored, baseline)
    diverse = tool.CategoricalDiversity(list(K), mode=per_user)(kinds)
    result = evaluate(
        pa.Table.from_pylist(rows(new, system="new") + rows(base, system="base")),
        labels(new),
        [f"{name}@{k}" for name in ("unexpectedness", "categorical_diversity") for k in K],
        cell="replay",
        system="system",
        baseline="base",
        items=pa.table({"item_id": list(category), "category": list(category.values())}),
    )
    for k in K:
        for name, theirs in (("unexpectedness", unexpected), ("categorical_diversity", diverse)):
            (expected,) = [
                theirs[key] for key in theirs if key.split("@")[1].split("-")[0] == str(k)
            ]
            assert values(result, f"{name}@{k}", "new") == pytest.approx(expected, abs=EXACT), name


NDEVAL = {
    "alpha_dcg@5": "alpha-DCG@5",
    "alpha_ndcg@1": "alpha-nDCG@1",
    "alpha_nDCG@10": "alpha-nDCG@10",
    "ERR_IA@20": "ERR-IA@20",
    "nERR_IA@5": "nERR-IA@5",
    "nrbp": "NRBP",
    "map_ia": "MAP-IA",
    "P_IA@5": "P-IA@5",
    "StRecall@5": "strec@5",
}
"""Ours -> ndeval's, of labels with groups."""


@pytest.mark.parametrize("seed", range(3))
def test_ndeval_on_subtopics(seed: int) -> None:
    """At alpha=0.5, where sums of gains are exact: elsewhere it breaks ties by their last bits.

    Of equal scores, which the second seed has, the lower item id is first there as in `house`.
    """
    tool, rng = peer("pyndeval"), random.Random(seed)
    ranked = lists(seed)
    width = 3.0 if seed == 1 else 1.0
    scored = [{**row, "score": float(row["score"]) // width} for row in rows(ranked)]
    qrels = [
        (query, subtopic, item, rng.choice((0, 1, 2)))
        for query in ranked
        for item in "abcdefghijklmnop"
        for subtopic in ("1", "2", "o'x", "é")
        if rng.random() < 0.3
    ]
    run = [(row["query_id"], row["item_id"], row["score"]) for row in scored]
    theirs = tool.ndeval(qrels, run, list(NDEVAL.values()))
    names = ["query_id", "subtopic", "item_id", "grade"]
    result = evaluate(
        pa.Table.from_pylist(scored),
        pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in qrels]),
        list(NDEVAL),
        cell="ndeval",
        group="subtopic",
        no_relevant="zero",
    )
    for text, name in NDEVAL.items():
        expected = {query: row[name] for query, row in theirs.items()}
        assert values(result, text) == pytest.approx(expected, abs=EXACT), name


def _history(seed: int) -> list[tuple[str, str]]:
    """Who took what before: 40 users, of whom most took what is most popular."""
    rng, taken = random.Random(seed), set()
    for number in range(40):
        for item in "abcdefghijklmnop":
            if rng.random() < 0.9 / (1 + "abcdefghijklmnop".index(item)):
                taken.add((f"u{number}", item))
    taken |= {("u0", item) for item in "abcdefghijklmnop"}
    return sorted(taken)


def _popularity(history: list[tuple[str, str]]) -> pa.Table:
    """The items table of a history."""
    counts = Counter(item for _, item in history)
    users = len({user for user, _ in history})
    return pa.table(
        {
            "item_id": list(counts),
            "popularity": list(counts.values()),
            "users": [users] * len(counts),
        }
    )


def test_replay_surprisal() -> None:
    tool, per_user = peer("replay.metrics"), peer("replay.metrics.descriptors").PerUser()
    ranked, history = lists(3), _history(4)
    scored = {q: [(i, float(-n)) for n, i in enumerate(items)] for q, items in ranked.items()}
    train: dict[str, list[str]] = {}
    for user, item in history:
        train.setdefault(user, []).append(item)
    theirs = tool.Surprisal(list(K), mode=per_user)(scored, train)
    result = evaluate(
        pa.Table.from_pylist(rows(ranked)),
        labels(ranked),
        [f"surprisal@{k}" for k in K],
        cell="replay",
        items=_popularity(history),
    )
    for k in K:
        (expected,) = [theirs[key] for key in theirs if key.endswith(f"@{k}")]
        assert values(result, f"surprisal@{k}") == pytest.approx(expected, abs=EXACT)


def test_replay_list_auc() -> None:
    tool, per_user = peer("replay.metrics"), peer("replay.metrics.descriptors").PerUser()
    ranked, rng = lists(9), random.Random(10)
    liked = {q: rng.sample("abcdefghijklmnop", rng.choice((1, 4, 16))) for q in ranked}
    scored = {q: [(i, float(-n)) for n, i in enumerate(items)] for q, items in ranked.items()}
    theirs = tool.RocAuc(list(K), mode=per_user)(scored, liked)
    result = evaluate(
        pa.Table.from_pylist(rows(ranked)),
        _labels(liked),
        [f"list_auc@{k}" for k in K],
        cell="replay",
    )
    for k in K:
        (expected,) = [theirs[key] for key in theirs if key.endswith(f"@{k}")]
        assert values(result, f"list_auc@{k}") == pytest.approx(expected, abs=EXACT)


def _labels(liked: Lists) -> pa.Table:
    """A label of grade 1 for each item that a query likes."""
    pairs = [(query, item) for query, items in liked.items() for item in items]
    query, item = zip(*pairs, strict=True)
    return pa.table({"query_id": query, "item_id": item, "grade": [1.0] * len(pairs)})


def test_rectools_beyond_accuracy() -> None:
    tool, pandas = peer("rectools.metrics"), peer("pandas")
    ranked, history, rng = lists(5), _history(6), random.Random(7)
    names = ["user_id", "item_id"]
    places = [(q, i, rank) for q, items in ranked.items() for rank, i in enumerate(items, start=1)]
    reco = pandas.DataFrame(places, columns=[*names, "rank"])
    before = pandas.DataFrame(history, columns=names)
    liked = {q: rng.sample("abcdefghijklmnop", 5) for q in ranked}
    pairs = [(q, i) for q, items in liked.items() for i in items]
    after = pandas.DataFrame(pairs, columns=names)
    result = evaluate(
        pa.Table.from_pylist(rows(ranked)),
        _labels(liked),
        [f"{name}@{k}" for name in ("miuf", "serendipity") for k in K],
        cell="rectools",
        items=_popularity(history),
    )
    catalog = sorted({item for _, item in history})
    for k in K:
        rare = tool.MeanInvUserFreq(k=k).calc_per_user(reco, before)
        lucky = tool.Serendipity(k=k).calc_per_user(reco, after, before, catalog)
        for name, theirs in (("miuf", rare), ("serendipity", lucky)):
            expected = {query: float(value) for query, value in theirs.items()}
            assert values(result, f"{name}@{k}") == pytest.approx(expected, abs=EXACT), name
