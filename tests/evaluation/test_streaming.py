"""Streaming metrics: any batches, in any order, by any workers, give what one evaluation gives."""

from __future__ import annotations

import itertools
import math
import pickle
import random
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from documentation import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from marked import by_turns, sliced
from worlds import EXAMPLES

import sqlmetrics as sm
from sqlmetrics.catalog.metric import listed
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.catalog.tool_names import in_our_words
from sqlmetrics.evaluation.streaming import histogram, lists, metric, places

CUT = ["ndcg@3", "recall(rel=2)@2", "hit@1", "precision@4", "ap@3", "mrr@2"]
UNCUT_METRICS = [*CUT, "ndcg", "mrr", "ap", "rprec", "bpref", "first_rank"]
WORLDS: dict[str, dict[str, Any]] = {
    "average": {"metrics": [*CUT, "mrr", "ap", "rbp"]},
    "best": {"metrics": UNCUT_METRICS, "ties": "best"},
    "input_order": {"metrics": [*UNCUT_METRICS, "judged@2", "gauc", "pnr"], "ties": "input_order"},
    "both": {"metrics": ["ndcg(ties=average)@3", "gauc"], "ties": "input_order", "depth": 4},
    "condensed": {"metrics": CUT, "ties": "best", "unjudged": "condensed"},
    "deep": {"metrics": ["ndcg@3", "recall@3"], "ties": "best", "depth": 4},
    "gains": {"metrics": ["ndcg@3"], "gain": {1: 2, 2: 5}},
    "zero": {"metrics": CUT, "no_relevant": "zero"},
    "files": {
        "metrics": [
            *("position_value@3", "north_star@2", "expected_exposure", "price_recall@2"),
            *("u_measure@3", "ndcg@3"),
        ],
        "metrics_from": ROOT / "examples" / "metrics",
        "ties": "input_order",
    },
}
SCORES = [0.5, -0.0, 0.0, 0.25, 1e30, -math.inf, 0.1]
GRADES = [0.0, 0.0, 0.0, 1.0, 2.0, math.nan]


def world(seed: int) -> list[tuple[list[float], list[float]]]:
    """Lists with ties, -0.0, items without labels, and lists without any."""
    chance = random.Random(seed)
    lists = []
    for _ in range(chance.randint(1, 25)):
        n = chance.randint(1, 7)
        scores = [chance.choice([chance.choice(SCORES), chance.random()]) for _ in range(n)]
        lists.append((scores, [chance.choice(GRADES) for _ in range(n)]))
    return lists


def at_once(
    lists: list[tuple[list[float], list[float]]], arguments: dict[str, Any]
) -> dict[str, float]:
    """What `evaluate` says of all lists, whose rows come in order."""
    own_ties = PRESETS[arguments.get("preset", "house")].options.get("ties")
    ties = {} if "ties" in arguments or own_ties in metric.TIES else {"ties": "average"}
    rows = [
        {"query_id": query, "item_id": item, "score": score, "grade": grade}
        for query, (scores, grades) in enumerate(lists)
        for item, (score, grade) in enumerate(zip(scores, grades, strict=True))
    ]
    runs = pa.Table.from_pylist(rows)
    labels = runs.filter([not math.isnan(row["grade"]) for row in rows])
    spec = sm.Spec(
        rankings={"relation": "runs"},
        labels={"relation": "labels"},
        metrics=arguments["metrics"],
        metrics_from=arguments.get("metrics_from", ()),
        preset=arguments.get("preset", "house"),
    )
    names = {text: str(spec.measure(text)) for text in arguments["metrics"]}
    if not len(labels):
        return dict.fromkeys(names.values(), math.nan)
    fixed = {"check": False, "per_query": False, "identical_ids": "keep"}
    retrieved = runs.filter([row["score"] > -math.inf for row in rows])
    result = sm.evaluate(retrieved, labels, **arguments, **ties, **fixed)
    values = {name: result[text] for text, name in names.items()}
    return {text: math.nan if value is None else value for text, value in values.items()}


@cache
def of_preset(preset: str) -> dict[str, Any]:
    """Every metric that can be streamed by a preset's conventions."""
    arguments: dict[str, Any] = {"metrics": [], "preset": preset}
    for entry in listed():
        for text in (entry.name, f"{entry.name}@3"):
            try:
                sm.StreamingMetric(text, preset=preset)
                words = in_our_words(text, preset)
                # a name may stand for several cutoffs of its tool, or for labels of 0 and 1
                if len(words) == 1 and "max_grade=1" not in str(words):
                    arguments["metrics"].append(text)
            except sm.SpecError:
                continue
    return arguments


def padded(lists: list[tuple[list[float], list[float]]]) -> tuple[Any, Any, Any]:
    """Lists as a matrix, and where it has items."""
    shape = (len(lists), max(len(scores) for scores, _ in lists))
    scores, grades, mask = np.full(shape, 9e9), np.full(shape, 7.0), np.zeros(shape, bool)
    for row, (row_scores, labels) in enumerate(lists):
        scores[row, : len(row_scores)], grades[row, : len(row_scores)] = row_scores, labels
        mask[row, : len(row_scores)] = True
    return scores, grades, mask


def streamed(
    lists: list[tuple[list[float], list[float]]], arguments: dict[str, Any], seed: int
) -> dict[str, float]:
    """The same by batches: matrices, single lists and rows in pieces, by two workers."""
    chance = random.Random(seed)
    workers = [sm.StreamingMetric(**arguments) for _ in range(2)]
    order = list(range(len(lists)))
    chance.shuffle(order)
    while order:
        size = chance.randint(1, len(order))
        batch, order = order[:size], order[size:]
        chosen = chance.choice(workers)
        form = chance.choice(["matrix", "lists", "rows"])
        if form == "matrix":
            scores, grades, mask = padded([lists[q] for q in batch])
            chosen.update(scores, grades, mask=mask)
        elif form == "lists":
            for q in batch:
                chosen.update(*lists[q])
        else:
            flat = [(q, s, g) for q in batch for s, g in zip(*lists[q], strict=True)]
            at = chance.randint(0, len(flat))
            for worker, piece in zip(workers, (flat[:at], flat[at:]), strict=True):
                if piece:
                    query, scores, grades = zip(*piece, strict=True)
                    worker.update(scores, grades, indexes=query)
    first, second = workers
    if chance.random() < 0.3:
        first.compute()  # which changes nothing
    return first.merge(pickle.loads(pickle.dumps(second))).compute()


@by_turns(5)
@pytest.mark.parametrize("name", [*WORLDS, *sliced("streamed presets", 0.1, PRESETS)])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=max(1, EXAMPLES // 10), deadline=None)
def test_batches_give_what_one_evaluation_gives(name: str, seed: int) -> None:
    lists, arguments = world(seed), WORLDS.get(name) or of_preset(name)
    actual, expected = streamed(lists, arguments, seed), at_once(lists, arguments)
    assert list(actual) == list(expected)
    for key, value in expected.items():
        assert actual[key] == pytest.approx(value, rel=1e-12, abs=1e-12, nan_ok=True), key


PLACES: dict[str, dict[str, Any]] = {
    "usual": {"metrics": ["ndcg@3", "recall@2", "hit@1", "precision@4", "mrr@2", "ndcg@5"]},
    "zero": {"metrics": ["ndcg@4", "recall@3", "mrr@3"], "no_relevant": "zero", "ties": "best"},
    "linear": {"metrics": ["ndcg@2", "hit@3"], "gain": "linear", "discount": "reciprocal"},
    "in order": {"metrics": ["ndcg@9", "precision@9"], "ties": "input_order"},
}


@by_turns(4)
@pytest.mark.parametrize("name", PLACES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=max(1, EXAMPLES // 10), deadline=None)
def test_sums_over_places_are_what_one_evaluation_gives(name: str, seed: int) -> None:
    """Lists of many labels: those without ties and of enough items are summed, the others kept."""
    chance = random.Random(seed)
    lists = []
    for n in chance.choices(range(1, 10), k=20):
        scores = [
            chance.choice([*SCORES[:4], *(chance.random() for _ in range(20))]) for _ in range(n)
        ]
        lists.append((scores, [float(chance.choice([0, 0, 1, 2, 3])) for _ in range(n)]))
    arguments = PLACES[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "FEW", 0)
        patch.setattr(places, "BLOCK", 20)
        actual, expected = streamed(lists, arguments, seed), at_once(lists, arguments)
    for key, value in expected.items():
        assert actual[key] == pytest.approx(value, rel=1e-12, abs=1e-12, nan_ok=True), key


@by_turns(0.5)
def test_many_labels_are_summed_over_places() -> None:
    """Batches of lists with ten labels each: nothing is kept of them but sums."""
    chance = np.random.default_rng(1)
    stream = sm.StreamingMetric(["ndcg@5", "hit@2"])
    batches = [(chance.random((300, 30)), chance.integers(0, 3, (300, 30))) for _ in range(3)]
    for scores, grades in batches:
        stream.update(scores, grades, weight=np.full(300, 2.0))
    assert stream._lists.size() == 0, "no list is kept"
    lists = [
        (s.tolist(), g.astype(float).tolist()) for b in batches for s, g in zip(*b, strict=True)
    ]
    expected = at_once(lists, {"metrics": list(stream.metrics)})
    for key, value in stream.compute().items():
        assert value == pytest.approx(expected[key], rel=1e-12)


@by_turns(1.7)
def test_a_tied_list_is_worth_the_mean_of_its_orders() -> None:
    """By hand, over all orders: a model that says one score for all is worth chance."""
    labels = [3, 0, 1, 0]

    def ndcg(grades: Any) -> float:
        def dcg(ranked: Any) -> float:
            return math.fsum((2**g - 1) / math.log2(i + 2) for i, g in enumerate(ranked[:2]))

        return dcg(grades) / dcg(sorted(grades, reverse=True))

    orders = list(itertools.permutations(labels))
    stream = sm.StreamingMetric(["ndcg@2", "hit@1"])
    stream.update([[0.5] * 4], [labels])
    assert stream.compute()["ndcg@2"] == pytest.approx(sum(map(ndcg, orders)) / 24, rel=1e-12)
    assert stream.compute()["hit@1"] == 0.5
    first = sm.StreamingMetric("ndcg@2", ties="input_order")
    first.update([[0.5] * 4], [labels])
    assert first.compute()["ndcg@2"] == pytest.approx(ndcg(labels), rel=1e-12)


@by_turns(4)
@pytest.mark.parametrize("relevant", [1, 12])
def test_what_is_kept_is_small_and_what_overflows_is_exact(
    relevant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums and a file in the place of lists and rows change no number; equal codes are seen."""
    chance = np.random.default_rng(relevant)
    unlimited, small = (sm.StreamingMetric(["ndcg@5", "mrr"]) for _ in range(2))
    batches = []
    for _ in range(6):
        grades = np.zeros((50, 20))
        at = chance.integers(0, 20, (50, relevant))
        np.put_along_axis(grades, at, chance.integers(1, 4, at.shape).astype(float), 1)
        batches.append((chance.random((50, 20)).round(2), grades))
    for scores, grades in batches:
        unlimited.update(scores, grades)
    monkeypatch.setattr(metric, "LARGEST", 2000)
    monkeypatch.setattr(histogram, "PENDING", 60)
    monkeypatch.setattr(lists, "IN_MEMORY", 300)
    monkeypatch.setattr(histogram, "_odd", lambda count: np.zeros(count, np.uint64))
    query = np.arange(1000).reshape(50, 20) // 20
    for number, (scores, grades) in enumerate(batches):
        if number % 2:
            small.update(scores, grades)
        else:
            small.update(scores.ravel(), grades.ravel(), query.ravel() + 100 * number)
    for name, value in unlimited.compute().items():
        assert small.compute()[name] == pytest.approx(value, rel=1e-12)


@by_turns(4.6)
def test_weights_count_and_empty_rows_do_not() -> None:
    stream = sm.StreamingMetric("hit@1")
    assert math.isnan(stream.compute()["hit@1"])
    stream.update(
        [[2, 1], [2, 1], [0, 0]],
        [[1, 0], [0, 1], [1, 1]],
        weight=[3, 1, 50],
        mask=[[1, 1], [1, 1], [0, 0]],
    )
    assert stream.compute() == {"hit@1": 0.75}
    stream.reset()
    stream.update(np.array([[200, 100]], np.uint8), [[True, False]])
    assert stream.accumulate() == {"hit@1": 1.0}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preds": [[1.0]], "target": [1]}, r"one shape, \[batch, n\] or \[n\]; given \[1, 1\]"),
        ({"preds": [math.nan, 1], "target": [0, 1]}, "1 of 2 preds are NaN"),
        ({"preds": [1, 2], "target": [0, 1], "indexes": [1]}, "with indexes, all three"),
        (
            {"preds": [1], "target": [0], "indexes": [0.5]},
            "indexes must be whole numbers; given float",
        ),
        ({"preds": ["a"], "target": [0]}, "preds holds no numbers"),
        (
            {"preds": [[1]], "target": [[0]], "weight": [1, 2]},
            "weight must have 1 numbers, one per row",
        ),
        ({"preds": [[1]], "target": [[0]], "mask": [1]}, "mask must have the shape of preds"),
        ({"preds": [1], "target": [0], "indexes": [1], "mask": [1]}, "leave them out with"),
        ({"preds": [2, 1], "target": [-100, 1]}, "grade is negative in 1 row"),
        ({"preds": [2, 1], "target": [-100, 1], "indexes": [4, 4]}, "grade is negative"),
        ({"preds": [2, 1], "target": [math.inf, 1]}, "grade is NaN or infinite"),
        ({"preds": [2, 1], "target": [1e101, 1]}, "grade is beyond 1e100"),
        ({"preds": [[1], [2]], "target": [[0], [0]], "weight": [1, -1]}, "weight is negative or"),
        ({"preds": [[1]], "target": [[0]], "weight": [math.nan]}, "weight is negative or not fin"),
        ({"preds": [[1]], "target": [[0]], "weight": [math.inf]}, "weight is negative or not fin"),
    ],
)
def test_a_batch_that_is_none_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.InputError, match=message):
        sm.StreamingMetric("hit@1").update(**given)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"metrics": "auc"},
            "auc is a number for all lists together; StreamingMetric computes means",
        ),
        ({"metrics": "num_ret"}, "num_ret is a count"),
        ({"metrics": "ils@3"}, "ils@3 needs more than scores and labels"),
        ({"metrics": "nfcg@3"}, "did you mean"),
        ({"metrics": "err@3"}, "mean over all orders of ties is not known"),
        ({"metrics": "ndcg@3", "ties": "id_asc"}, "unknown ties, for items without ids, 'id_asc'"),
        ({"metrics": "precision@3", "preset": "trulens"}, "ties, for items without ids, 'include'"),
        ({"metrics": "hole@3", "ties": "best"}, "order of an unlabelled item and one of label 0"),
        ({"metrics": "ndcg@3", "identical_ids": "drop"}, "items have no ids here"),
        ({"metrics": "ndcg@3", "min_score": 0.5}, "leave items out with mask"),
        ({"metrics": "ndcg@3", "gane": "exp"}, "gain"),
    ],
)
def test_a_metric_that_no_batches_add_up_to_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(sm.SpecError, match=message):
        sm.StreamingMetric(**asked)


def test_others_of_other_metrics_are_not_merged() -> None:
    with pytest.raises(sm.SpecError, match="texts and conventions are the same"):
        sm.StreamingMetric("hit@1").merge(sm.StreamingMetric("hit@2"))
