"""nAUC of abstention: the SQL, plain Python from the definition, MTEB itself, and by hand."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction
from itertools import pairwise
from statistics import pstdev
from typing import Any

import pyarrow as pa
import pytest
from conftest import peer
from marked import by_turns
from memory import database, evaluate

import sqlmetrics as sm
from sqlmetrics.errors import SpecError

Lists = dict[str, dict[str, float]]
LABELS = pa.table({"query_id": ["p", "q"], "item_id": ["a", "c"], "grade": [1, 1]})
METRICS = ("ndcg@3", "recall@3", "first_rank")
CONFIDENCES = ("max", "std", "diff1")


def rows(lists: Lists, value: str = "score", **columns: Any) -> list[dict[str, Any]]:
    return [
        {"query_id": query, "item_id": item, value: number, **columns}
        for query, scores in lists.items()
        for item, number in scores.items()
    ]


def table(lists: Lists, value: str = "score") -> pa.Table:
    return pa.Table.from_pylist(rows(lists, value))


def random_lists(seed: int, queries: int, step: float = 0.0) -> tuple[Lists, Lists]:
    """Lists of 1 to 9 items, and labels; scores are multiples of a step, many of them equal."""
    chance = random.Random(seed)

    def score() -> float:
        return step * chance.randint(-2, 3) if step else chance.gauss(0, 1)

    def some(least: int) -> list[str]:
        return [f"d{number}" for number in chance.sample(range(12), chance.randint(least, 9))]

    lists = {f"q{n}": {item: score() for item in some(1)} for n in range(queries)}
    graded = {query: {item: chance.choice((1.0, 2.0)) for item in some(2)} for query in lists}
    return lists, graded


def confidence(name: str, scores: Sequence[float]) -> float:
    """By its definition; -inf for a query without a list."""
    first, *rest = sorted(scores, reverse=True) or [-math.inf]
    if not scores or name == "max":
        return first
    if name == "std":
        return round(float(pstdev(map(Fraction, scores))), 13)
    return first - rest[0] if rest else 0.0


def curve(values: Sequence[float], sure: Sequence[float]) -> list[float]:
    """The mean of what is left as tenths of the queries go, a group of equals being its mean."""
    groups = defaultdict(list)
    for value, key in zip(values, sure, strict=True):
        groups[key].append(value)
    means = [math.fsum(groups[key]) / len(groups[key]) for key in sorted(sure)]
    gone = (min(round(tenth * 0.1 * len(means)), len(means) - 1) for tenth in range(10))
    return [math.fsum(means[n:]) / len(means[n:]) for n in gone]


def area(points: Sequence[float]) -> float:
    return math.fsum((value + following) / 20 for value, following in pairwise(points))


def nauc(values: Mapping[str, float], lists: Lists, name: str, sign: int = 1) -> float | None:
    """From the definition: what is won over leaving out by lot, of what could be won."""
    if len({*values.values()}) < 2:
        return None
    signed = [value * sign for value in values.values()]
    sure = [confidence(name, [*lists.get(query, {}).values()]) for query in values]
    flat = 0.9 * math.fsum(signed) / len(signed)
    return (area(curve(signed, sure)) - flat) / (area(curve(signed, signed)) - flat)


def check(result: sm.Result, abstention: sm.Abstention, lists: Lists) -> None:
    """Each number of one system beside the definition."""
    numbers = {(r["metric"], r["confidence"]): r for r in abstention.metrics.to_pylist()}
    assert len(numbers) == len(METRICS) * len(CONFIDENCES)
    per_query = result.per_query().to_pylist()
    for text in METRICS:
        measure = result.spec.measure(text)
        values = {row["query_id"]: row[measure.column] for row in per_query}
        defined = {query: value for query, value in values.items() if value is not None}
        for name in CONFIDENCES:
            row = numbers[measure.name, name]
            expected = nauc(defined, lists, name, -1 if text == "first_rank" else 1)
            assert row["n_queries"] == len(defined)
            assert row["nauc"] == pytest.approx(expected, abs=1e-9), (text, name)
            sure = [confidence(name, [*lists.get(query, {}).values()]) for query in defined]
            points = [row[f"at_{10 * tenth}"] for tenth in range(10)]
            assert points == pytest.approx(curve([*defined.values()], sure), abs=1e-9)


@by_turns(1)
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_every_engine_has_the_numbers_of_the_definition(engine: Any, step: float) -> None:
    lists, labels = random_lists(3, 15, step)  # .3 of 15 is a half, which goes to the even number
    del lists["q4"]
    result = sm.evaluate(table(lists), table(labels, "grade"), METRICS, connection=engine)
    check(result, sm.abstention(result.spec, engine), lists)


@by_turns(1)
@pytest.mark.parametrize("queries", [1, 2, 5, 25, 47])
def test_any_number_of_queries(queries: int) -> None:
    lists, labels = random_lists(queries, queries, 0.5 * (queries % 2))
    result = evaluate(table(lists), table(labels, "grade"), METRICS)
    check(result, sm.abstention(result.spec, check=False), lists)


@by_turns(1)
def test_items_below_min_score_make_no_confidence() -> None:
    """A list of which nothing is left goes first."""
    lists, labels = random_lists(3, 25, 0.5)
    least = sorted(max(scores.values()) for scores in lists.values())[5]
    remaining = {q: {i: s for i, s in scores.items() if s >= least} for q, scores in lists.items()}
    assert not all(remaining.values())
    result = evaluate(table(lists), table(labels, "grade"), METRICS, min_score=least)
    check(result, sm.abstention(result.spec, check=False), remaining)


@by_turns(1.5)
@pytest.mark.parametrize("step", [0.0, 0.5])
def test_mteb_has_the_same(step: float) -> None:
    scores = peer("mteb._evaluators.retrieval_metrics").calculate_retrieval_scores
    names = {"ndcg@3": "NDCG@3", "ap@10": "MAP@10", "recall@3": "Recall@3", "precision@1": "P@1"}
    for seed, queries in enumerate((2, 15, 30)):
        lists, labels = random_lists(seed, queries, step)
        metrics = [*names, "mrr@3"]
        result = evaluate(table(lists), table(labels, "grade"), metrics, preset="mteb")
        grades = {q: {i: int(grade) for i, grade in graded.items()} for q, graded in labels.items()}
        theirs = scores(lists, grades, (1, 3, 10))
        naucs = theirs.naucs | theirs.naucs_mrr
        for row in sm.abstention(result.spec, check=False).metrics.to_pylist():
            if step and row["confidence"] == "std":
                continue  # their sums make equal deviations differ in the last digit
            text = f"{row['metric'].partition('(')[0]}@{row['k']}"
            value = naucs[f"nAUC_{names.get(text, 'MRR@3')}_{row['confidence']}"]
            expected = pytest.approx(value, abs=1e-9)
            assert row["nauc"] == (None if math.isnan(value) else expected), row


def of_two(sure: float, unsure: float) -> sm.Abstention:
    """`p` is answered rightly, `q` wrongly."""
    run = table({"p": {"a": sure, "b": 0.1}, "q": {"x": unsure, "y": 0.1}})
    return sm.abstention(evaluate(run, LABELS, ["mrr", "num_ret"]).spec, database())


def test_two_queries_by_hand() -> None:
    right, wrong = of_two(0.9, 0.5), of_two(0.5, 0.9)
    assert right.metrics["nauc"].to_pylist() == pytest.approx([1] * 3)
    assert wrong.metrics["nauc"].to_pylist() == pytest.approx([-1] * 3)
    (row, *_) = right.metrics.to_pylist()
    # the mean is .5 as long as both are left, round(.2 * 2) = 0, and 1 from round(.3 * 2) = 1 on
    assert [row[f"at_{step}"] for step in range(0, 100, 10)] == [0.5] * 3 + [1.0] * 7
    areas = (row["auc"], row["flat"], row["oracle"])
    assert areas == pytest.approx((0.1 * (0.75 + 1 + 6), 0.45, 0.1 * (0.75 + 1 + 6)))
    assert {row["metric"] for row in wrong.metrics.to_pylist()} == {"mrr"}, "a count is no mean"


@by_turns(0.4)
def test_it_reads_as_a_table() -> None:
    abstention = of_two(0.9, 0.5)
    cells = ["rankings", "mrr", "max", "1.0000", "0.5000", "0.5000", "1.0000", "1.0000"]
    assert [*cells, "2"] in [line.split() for line in repr(abstention).splitlines()]
    assert "| rankings" in abstention.markdown()
    assert "<td>max</td>" in abstention.html()


@by_turns(0.5)
def test_days_systems_and_segments_stand_apart(engine: Any) -> None:
    right = {"p": {"a": 0.9, "b": 0.1}, "q": {"x": 0.5, "y": 0.1}}
    wrong = {"p": {"a": 0.5, "b": 0.1}, "q": {"x": 0.9, "y": 0.1}}
    days = (date(2026, 1, 1), date(2026, 1, 2))
    run = [
        *rows(right, system="new", day=days[0], country="de"),
        *rows(wrong, system="old", day=days[0], country="de"),
        *rows(wrong, system="new", day=days[1], country="fr"),
        *rows(right, system="old", day=days[1], country="fr"),
    ]
    result = sm.evaluate(
        pa.Table.from_pylist(run), LABELS, "mrr", system="system", date="day", by=["country"],
        average_over="common", connection=engine,
    )  # fmt: skip
    abstention = sm.abstention(result.spec, engine)
    naucs = {
        (str(row["metric_date"]), row["system"], row["segment_value"]): round(row["nauc"], 9)
        for row in abstention.metrics.to_pylist()
        if row["confidence"] == "max"
    }
    first = {("2026-01-01", s, of): v for s, v in (("new", 1), ("old", -1)) for of in ("all", "de")}
    other = {("2026-01-02", s, of): v for s, v in (("new", -1), ("old", 1)) for of in ("all", "fr")}
    assert naucs == first | other
    assert "country=fr" in abstention.text()
    assert "2026-01-02" in abstention.text()


@by_turns(0.4)
def test_items_that_do_not_count_make_no_confidence() -> None:
    run = table({"p": {"p": 0.1, "a": 0.9, "b": 0.1}, "q": {"q": 5.0, "x": 0.5, "y": 0.1}})
    spec = evaluate(run, LABELS, "mrr", identical_ids="drop", depth=1).spec
    naucs = {row["confidence"]: row["nauc"] for row in sm.abstention(spec).metrics.to_pylist()}
    # cut at the first item, no list has a spread or a second score
    assert naucs == pytest.approx({"max": 1, "std": 0, "diff1": 0})


@by_turns(0.8)
def test_what_has_no_confidence_is_refused() -> None:
    ranked = pa.table({"query_id": ["p"], "item_id": ["a"], "rank": [1]})
    with pytest.raises(SpecError, match="abstention needs scores"):
        sm.abstention(evaluate(ranked, LABELS, "mrr", rank="rank").spec)
    run = table({"p": {"a": 1.0}})
    with pytest.raises(SpecError, match="a mean over queries, like ndcg@10; num_ret is not"):
        sm.abstention(evaluate(run, LABELS, "num_ret").spec)
    heavy = run.append_column("w", pa.array([2.0]))
    with pytest.raises(SpecError, match="leave out the weight"):
        sm.abstention(evaluate(heavy, LABELS, "mrr", weight="w", missing="drop").spec)
    log = {"impressions": {"relation": "shown"}, "events": {"relation": "done"}}
    of_clicks = sm.Spec(name="log", clicks=log, metrics=["mrr"])
    for analysis in (sm.abstention, sm.tie_audit):
        with pytest.raises(sm.InputError, match="rankings: this table is made from the click log"):
            analysis(of_clicks)
