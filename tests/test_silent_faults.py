"""No number is wrong in silence: what used to pass, and gave one, is refused or told."""

from __future__ import annotations

import math
import re
import sqlite3
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from command import sqlmetrics
from engines.starting import STARTED, Servers
from marked import by_turns, long

import sqlmetrics as sm
from sqlmetrics.annotation import estimate
from sqlmetrics.annotation.sample import draw
from sqlmetrics.engines.database import connect
from sqlmetrics.spec.spec import Spec

pytestmark = by_turns(0.28)

OTHER_ENGINES = [
    "sqlite",
    *(
        long(name, pytest.mark.xdist_group(name))
        for name in STARTED
        if name not in ("duckdb", "sqlite")
    ),
]
"""Databases beside DuckDB, the slower ones in long runs."""

LISTS = {"query_id": ["q", "q"], "item_id": ["a", "b"], "score": [2.0, 1.0]}
WORDS = {"query_id": ["q", "q"], "item_id": ["a", "b"], "grade": ["bad", "good"]}


# -- grades that are texts ------------------------------------------------------------------


def test_the_numbers_of_texts_are_checked_like_numbers() -> None:
    gain = {1: 1, 2: 3}
    cases: list[tuple[float, str, dict[str, Any], str]] = [
        (-1, "ndcg@10", {}, "grade is negative in 1 row"),
        (2000, "ndcg@10", {}, "grade is too large for gain=exp in 1 row"),
        (4, "ndcg@10", {"gain": gain}, "has no gain in the table {1: 1, 2: 3} in 1 row"),
        (5, "err(max_grade=4)@10", {}, "grade is above max_grade=4 in 1 row"),
    ]
    for grade, metric, options, message in cases:
        grades = {"good": 2, "bad": grade}
        with pytest.raises(sm.InputError) as refused:
            sm.evaluate(LISTS, WORDS, [metric], grades=grades, **options)
        assert message in str(refused.value)
        assert "q         a        bad" in str(refused.value)


def test_the_policies_for_negative_grades_hold_for_texts() -> None:
    for policy in ("zero", "unjudged"):
        result = sm.evaluate(
            LISTS,
            WORDS,
            ["dcg@10", "judged@2"],
            grades={"good": 2, "bad": -1},
            negative_grades=policy,
        )
        assert result["dcg@10"] == pytest.approx(3 / math.log2(3), abs=1e-12)
        assert result["judged@2"] == {"zero": 1.0, "unjudged": 0.5}[policy]


@pytest.mark.parametrize("check", [True, False])
def test_a_text_stands_for_a_finite_number(check: bool) -> None:
    for grade in (math.inf, -math.inf, math.nan):
        with pytest.raises(sm.SpecError, match=r"labels.grades.bad must be a finite number"):
            sm.evaluate(LISTS, WORDS, ["mrr"], grades={"good": 2, "bad": grade}, check=check)
    with pytest.raises(sm.SpecError, match=r"clicks.labels.grades.click must be a finite"):
        Spec(
            clicks={"log": {"relation": "log"}, "labels": {"grades": {"click": math.inf}}},
            metrics=["mrr"],
        )


def test_grades_that_stand_in_the_rankings_may_be_texts() -> None:
    rows = LISTS | {"grade": ["bad", "good"]}
    result = sm.evaluate(rows, None, ["dcg@10"], grades={"good": 2, "bad": 0})
    assert result["dcg@10"] == pytest.approx(3 / math.log2(3), abs=1e-12)
    with pytest.raises(sm.InputError, match="grade is negative in 1 row"):
        sm.evaluate(rows, None, ["dcg@10"], grades={"good": 2, "bad": -2})
    with pytest.raises(sm.InputError, match="has no number in grades in 1 row"):
        sm.evaluate(rows, None, ["dcg@10"], grades={"good": 2})
    spec = Spec(
        rankings={
            "data": LISTS | {"g": WORDS["grade"]},
            "columns": {"grade": "g"},
            "grades": {"good": 2, "bad": 0},
        },
        metrics=["dcg@10"],
    )
    assert spec.truth.grades == {"good": 2, "bad": 0}
    with pytest.raises(sm.SpecError, match="the rankings have no column of grades"):
        Spec(
            rankings={"data": LISTS, "grades": {"good": 2}}, labels={"data": WORDS}, metrics=["mrr"]
        )


def test_texts_of_grades_may_hold_anything() -> None:
    odd = {"{x}": 3.0, "it's": 0.5, "-- {number}": 0.0}
    labels = {"query_id": ["q"] * 3, "item_id": ["a", "b", "c"], "grade": list(odd)}
    result = sm.evaluate(LISTS, labels, ["cg@10"], grades=odd)
    assert result["cg@10"] == 3.5


@pytest.mark.parametrize("name", OTHER_ENGINES)
def test_other_databases_check_the_numbers_of_texts_too(name: str, servers: Servers) -> None:
    for grade, message in ((-1, "grade is negative"), (2000, "grade is too large for gain=exp")):
        grades, engine = {"good": 2, "bad": grade}, servers.open(name)
        with pytest.raises(sm.InputError, match=message):
            sm.evaluate(LISTS, WORDS, ["ndcg@10"], grades=grades, connection=engine)


def test_digits_are_not_grouped_by_underscores(tmp_path: Path) -> None:
    labels, lists = tmp_path / "labels.csv", tmp_path / "lists.csv"
    lists.write_text("query_id,item_id,score\nq,a,2\nq,b,1\n")
    labels.write_text("query_id,item_id,grade\nq,a,1_0\n")
    with pytest.raises(sm.InputError, match="grade has a _ in it in 1 row"):
        sm.evaluate(str(lists), str(labels), ["mrr"])
    labels.write_text("query_id,item_id,grade\nq,a,1\n")
    lists.write_text("query_id,item_id,score\nq,a,2_0\nq,b,1\n")
    with pytest.raises(sm.InputError, match="score has a _ in it in 1 row"):
        sm.evaluate(str(lists), str(labels), ["mrr"])
    arguments = ["evaluate", lists.name, labels.name, "-m", "mrr", "--grades", "good=1_000"]
    failed = sqlmetrics(*arguments, folder=tmp_path, expect=2)
    assert "--grades takes TEXT=NUMBER, given '1_000' for the number" in failed.stderr


# -- the queries that a mean runs over ------------------------------------------------------

PAIRS = (
    {
        "query_id": ["listed", "both", "both", "both"],
        "item_id": ["a", "x", "a", "b"],
        "rank": [1, 1, 2, 3],
    },
    {
        "query_id": ["labelled", "labelled", "both", "both"],
        "item_id": ["a", "b", "a", "c"],
        "grade": [1, 0, 1, 1],
    },
)
"""A query of the rankings alone, one of the labels alone, and one of both."""


@pytest.mark.parametrize("name", ["duckdb", *OTHER_ENGINES])
def test_a_mean_over_queries_of_either_table(name: str, servers: Servers) -> None:
    """The pairs of an outer join, as Spark MLlib takes them."""
    metrics = ["precision@2", "recall@2", "ap", "ndcg@2", "recall(average=micro)@2", "num_q"]
    metrics += ["mrr(average_over=labels)", "mrr(average_over=rankings)", "num_ret"]
    result = sm.evaluate(
        *PAIRS, metrics, rank="rank", preset="spark_mllib", connection=servers.open(name)
    )
    ideal = 1 + 1 / math.log2(3)
    for text, value, queries in (
        ("precision@2", 1 / 2 / 3, 3),
        ("recall@2", 1 / 2 / 3, 3),
        ("ap", 1 / 2 / 2 / 3, 3),
        ("ndcg@2", 1 / math.log2(3) / ideal / 3, 3),
        ("recall(average=micro)@2", 1 / (2 + 1), 3),
        ("num_q", 3, 3),
        ("mrr(average_over=labels)", 1 / 2 / 2, 2),
        ("mrr(average_over=rankings)", 1 / 2 / 2, 2),
        ("num_ret", 4, 3),
    ):
        assert result[text] == pytest.approx(value, abs=1e-12), text
        measure = result.spec.measure(text)
        (row,) = (
            row
            for row in result.to_dicts()
            if (row["metric"], row["k"]) == (measure.name, measure.k or 0)
        )
        assert row["n_queries"] == queries, text


def test_all_plans_count_queries_of_either_table() -> None:
    lists = PAIRS[0] | {"score": [-rank for rank in PAIRS[0]["rank"]]}
    means = [
        sm.evaluate(lists, PAIRS[1], ["ap", "ndcg@2"], average_over="either", plan=plan).to_dicts()
        for plan in ("window", "lists", "counts")
    ]
    assert means[0] == means[1] == means[2]
    assert [row["n_queries"] for row in means[0]] == [2, 2]
    assert [row["n_skipped"] for row in means[0]] == [1, 1]


def test_empty_lists_count_as_far_as_they_can_be_told() -> None:
    lists = {"query_id": ["both", "labelled"], "items": [["x", "a", "b"], []]}
    options = {"item": "items", "label_columns": {"item": "item_id"}, "preset": "spark_mllib"}
    result = sm.evaluate(lists, PAIRS[1], "ap", **options)
    assert result["ap"] == pytest.approx(1 / 2 / 2 / 2, abs=1e-12)
    lists = {"query_id": ["both", "neither"], "items": [["x", "a", "b"], []]}
    with pytest.raises(sm.InputError, match="cannot be told from missing lists: 1"):
        sm.evaluate(lists, PAIRS[1], "ap", **options)


# -- estimates from the labels of what is shown ---------------------------------------------

BEYOND = ("ndcg@2", "recall@2", "ap", "rprec", "f1@2", "bpref", "mrr(average_over=relevant)")
WITHIN = ("dcg@2", "precision@2", "hit@2", "mrr@2", "err@2", "rbp@2", "judged@2")


def sampled(*metrics: str, **options: Any) -> Any:
    """The estimate of a sample of all queries, whose lists are longer than what was graded."""
    lists = {
        "query_id": ["p", "p", "p", "q", "q", "q"],
        "item_id": ["a", "b", "c"] * 2,
        "score": [3.0, 2.0, 1.0] * 2,
    }
    graded = {"query_id": ["p", "p", "q", "q"], "item_id": ["a", "b"] * 2, "grade": [1, 0, 0, 1]}
    rankings = {"data": pa.table(lists), "columns": {"score": "score"}}
    spec = Spec(rankings=rankings, labels={"data": pa.table(graded)}, metrics=metrics)
    with connect() as engine:
        return estimate.estimate(spec, engine, draw(spec, engine, 2), **options)


def test_what_needs_labels_of_items_not_shown_is_not_estimated() -> None:
    with pytest.raises(sm.SpecError) as refused:
        sampled(*BEYOND, *WITHIN)
    message = str(refused.value)
    assert message.startswith(", ".join(BEYOND) + ": computed from all labels of a query")
    assert "dcg@10" in message.partition("estimate other metrics")[2]
    assert "--complete-labels" in message
    assert sampled(*WITHIN).notes == ()
    result = sampled("recall@2", "ndcg@2", complete=True)
    assert result.table["value"].to_pylist() == pytest.approx(
        [1.0, (1 + 1 / math.log2(3)) / 2], abs=1e-12
    )


@by_turns(0.7)
def test_metrics_without_a_cutoff_look_at_whole_lists() -> None:
    note = "2 of 6 items in the sampled lists have no label"
    for metric in ("mrr", "dcg", "ndcg(ideal=shown_at_k)@2", "mrr(average_over=relevant_shown)@2"):
        assert sampled(metric).notes == (note,), metric
    assert sampled("dcg@3").notes == (
        "2 of 6 items in the top 3 of the sampled lists have no label",
    )


# -- ids that never meet, and lists without labels ------------------------------------------

NOWHERE = "no labelled item appears in any list: none of 2 ranked items has a label"


@by_turns(1.4)
@pytest.mark.parametrize("name", ["duckdb", *OTHER_ENGINES])
def test_ids_that_never_meet_are_told(name: str, servers: Servers) -> None:
    metrics = ["ndcg@10", "recall@5", "num_ret", "num_rel"]
    hint = "which look alike: compare type, case, spaces, leading zeros"
    for ours, theirs in ((" a", "a"), ("SKU-1", "sku-1"), ("12.0", "12"), ("007", "7")):
        lists, labels = LISTS | {"item_id": [ours, "z"]}, {**WORDS, "item_id": [theirs, "y"]}
        labels["grade"] = [1, 0]
        result = sm.evaluate(lists, labels, metrics, connection=servers.open(name))
        note = f"{NOWHERE}, like {ours!r} in the rankings and {theirs!r} in the labels, {hint}"
        assert result.notes == (note,)
    labels = {**WORDS, "item_id": ["x", "y"], "grade": [1, 0]}
    result = sm.evaluate(LISTS, labels, metrics, connection=servers.open(name))
    assert result.notes == (f"{NOWHERE}, like 'a' in the rankings and 'x' in the labels",)


@pytest.mark.parametrize("name", ["duckdb", *OTHER_ENGINES])
def test_many_ids_that_look_alike_and_never_meet_are_refused(name: str, servers: Servers) -> None:
    lists = {
        "query_id": ["q"] * 20,
        "item_id": [f"SKU-{i}" for i in range(20)],
        "score": [float(i) for i in range(20)],
    }
    labels = {"query_id": ["q"] * 10, "item_id": [f"sku-{i}" for i in range(10)], "grade": [1] * 10}
    with pytest.raises(sm.InputError, match="although the ids look alike") as refused:
        sm.evaluate(lists, labels, "mrr", connection=servers.open(name))
    assert "SKU-0                sku-0" in str(refused.value)
    result = sm.evaluate(lists, labels, "mrr", connection=servers.open(name), check=False)
    assert result["mrr"] == 0
    assert "like 'SKU-0' in the rankings and 'sku-0' in the labels" in result.notes[0]


@pytest.mark.parametrize("name", ["duckdb", *OTHER_ENGINES])
def test_systems_are_told_in_whose_lists_no_labelled_item_stands(
    name: str, servers: Servers
) -> None:
    lists = {
        "query_id": ["q"] * 4 + ["r"],
        "item_id": ["a", "b", "A", "B", "a"],
        "score": [2.0, 1.0] * 2 + [1.0],
        "model": ["good"] * 2 + ["bad"] * 2 + ["good"],
    }
    labels = {"query_id": ["q"], "item_id": ["b"], "grade": [1]}
    at = servers.open(name)
    result = sm.evaluate(lists, labels, ["mrr", "num_ret"], system="model", connection=at)
    assert result.notes == (
        "1 of 3 lists belong to queries without a label, so they count in no mean",
        f"bad: {NOWHERE}",
    )
    assert all(f"note: {note}" in repr(result) for note in result.notes)


def test_a_bad_list_of_known_items_is_no_news() -> None:
    labels = {"query_id": ["q"] * 2, "item_id": ["a", "z"], "grade": [0, 1]}
    result = sm.evaluate(LISTS, labels, ["ndcg@10", "mrr"])
    assert (result["mrr"], result.notes) == (0, ())
    # undefined values that count 1 hide nothing
    labels = {"query_id": ["q"], "item_id": ["z"], "grade": [0]}
    assert sm.evaluate(LISTS, labels, ["ndcg@10"], no_relevant="one").notes == ()


@pytest.mark.parametrize("name", ["duckdb", *OTHER_ENGINES])
def test_ranked_queries_without_labels_are_told(name: str, servers: Servers) -> None:
    lists = {
        "query_id": [f"q{i}" for i in range(200)],
        "item_id": ["a"] * 200,
        "score": [1.0] * 200,
    }
    labels = {"query_id": [f"q{i}" for i in range(5)], "item_id": ["a"] * 5, "grade": [1] * 5}
    note = "195 of 200 ranked queries have no label, so they count in no mean"
    at = servers.open(name)
    assert sm.evaluate(lists, labels, "mrr", connection=at).notes == (note,)
    for over in ("rankings", "either"):
        at = servers.open(name)
        assert sm.evaluate(lists, labels, "mrr", average_over=over, connection=at).notes == ()


@by_turns(1)
def test_every_plan_counts_the_lists(tmp_path: Path) -> None:
    lists = {"query_id": [f"q{i}" for i in range(40)], "item_id": ["a"] * 40, "rank": [1] * 40}
    lists["score"] = [1.0] * 40
    labels = {"query_id": ["q1"], "item_id": ["a"], "grade": [1]}
    note = ("39 of 40 ranked queries have no label, so they count in no mean",)
    for plan in ("window", "lists", "counts"):
        assert sm.evaluate(lists, labels, "ndcg@3", plan=plan).notes == note
    assert sm.evaluate(lists, labels, "ndcg@3", rank="rank").notes == note
    assert sm.evaluate(lists, labels, "ndcg@3", duplicate_rankings="best_score").notes == note


def test_notes_stand_beside_what_programs_read(tmp_path: Path) -> None:
    (tmp_path / "lists.csv").write_text("query_id,item_id,score\nq,a,2\nr,b,1\n")
    (tmp_path / "labels.csv").write_text("query_id,item_id,grade\nq,a,1\n")
    line = ["evaluate", "lists.csv", "labels.csv", "-m", "mrr"]
    note = "note: 1 of 2 ranked queries have no label, so they count in no mean\n"
    for output in ("json", "csv"):
        completed = sqlmetrics(*line, "-o", output, folder=tmp_path)
        assert "note" not in completed.stdout
        assert completed.stderr == note
    completed = sqlmetrics(*line, folder=tmp_path)
    assert note in completed.stdout
    assert completed.stderr == ""


def test_a_run_says_what_its_input_lacks(tmp_path: Path) -> None:
    (tmp_path / "lists.csv").write_text("query_id,item_id,score\nq,a,2\nr,b,1\n")
    (tmp_path / "labels.csv").write_text("query_id,item_id,grade\nq,a,1\n")
    (tmp_path / "job.yml").write_text(
        "rankings: {file: lists.csv}\nlabels: {file: labels.csv}\nmetrics: [mrr]\n"
        "output: {relation: facts}\n"
    )
    line = ["run", "job.yml", "--db", "facts.duckdb"]
    note = "1 of 2 ranked queries have no label, so they count in no mean"
    assert f"note: {note}\n" in sqlmetrics(*line, folder=tmp_path).stderr
    many = [f"q,a{i},{i}" for i in range(12)]
    (tmp_path / "lists.csv").write_text("query_id,item_id,score\n" + "\n".join(many))
    (tmp_path / "labels.csv").write_text(
        "query_id,item_id,grade\n" + "\n".join(f"q,A{i},1" for i in range(12))
    )
    assert "ids look alike" in sqlmetrics(*line, folder=tmp_path, expect=2).stderr
    with duckdb.connect(str(tmp_path / "facts.duckdb")) as connection:
        rows = connection.execute("select value from facts").fetchall()
        log = connection.execute("select outcome, message from facts_runs order by 1").fetchall()
    assert rows == [(1.0,)]  # what failed replaced nothing
    assert log[1] == ("replaced", note)
    assert log[0][0] == "failed"


@by_turns(1)
@pytest.mark.parametrize("name", ["duckdb", *OTHER_ENGINES])
def test_ids_are_no_numbers_with_fractions(name: str, servers: Servers) -> None:
    labels = {"query_id": [1, 1], "item_id": [12, 13], "grade": [1, 0]}
    lists = LISTS | {"query_id": [1, 1], "item_id": [12, 13]}
    assert sm.evaluate(lists, labels, "mrr", connection=servers.open(name))["mrr"] == 1
    for table in ("query_id", "item_id"):
        floats = pa.table(lists | {table: [number + 0.5 for number in lists[table]]})
        with pytest.raises(sm.InputError, match=f"rankings: {table} has the type DOUBLE"):
            sm.evaluate(floats, labels, "mrr", connection=servers.open(name))
    floats = pa.table(labels | {"item_id": [12.0, 13.0]})
    if name == "duckdb":  # as pandas keeps whole numbers beside a NaN
        result = sm.evaluate(lists, floats, "mrr")
        assert result["mrr"] == 1
        assert "labels: item_id has only whole numbers as floats" in repr(result)
        return
    with pytest.raises(sm.InputError, match="labels: item_id has the type DOUBLE, but ids are"):
        sm.evaluate(lists, floats, "mrr", connection=servers.open(name))


# -- scores that a DOUBLE cannot hold -------------------------------------------------------

BIG = 2**53
CLOSE = "scores that differ but are the same number as a DOUBLE: 1"


def close(scores: pa.Array) -> pa.Table:
    """A list whose better item has the higher id, so that a tie would put it second."""
    return pa.table({"query_id": ["q", "q"], "item_id": ["b", "a"], "score": scores})


SINGLE_LABEL = {"query_id": ["q"], "item_id": ["b"], "grade": [1]}


@by_turns(0.9)
@pytest.mark.parametrize("name", ["duckdb", *OTHER_ENGINES])
def test_whole_numbers_never_tie_in_silence(name: str, servers: Servers) -> None:
    for scores, refuses in (
        ([BIG + 1, BIG], True),
        ([-BIG, -BIG - 1], True),
        ([BIG + 2, BIG], False),
        ([BIG, BIG - 1], False),
        ([BIG + 1, BIG + 1], False),  # a real tie
    ):
        lists, at = close(pa.array(scores, pa.int64())), servers.open(name)
        wanted = 0.5 if scores[0] == scores[1] else 1
        if refuses:
            with pytest.raises(sm.InputError, match=f"(?s){CLOSE}.*score_precision=exact"):
                sm.evaluate(lists, SINGLE_LABEL, "mrr", connection=at)
            at = servers.open(name)
            result = sm.evaluate(lists, SINGLE_LABEL, "mrr", connection=at, score_precision="exact")
        else:
            result = sm.evaluate(lists, SINGLE_LABEL, "mrr", connection=at)
        assert result["mrr"] == wanted


@by_turns(1)
def test_scores_of_many_digits_never_tie_in_silence(tmp_path: Path) -> None:
    near = [Decimal("1.00000000000000000002"), Decimal("1.00000000000000000001")]
    with pytest.raises(sm.InputError, match=CLOSE) as refused:
        sm.evaluate(close(pa.array(near, pa.decimal128(38, 20))), SINGLE_LABEL, "mrr")
    assert "set score_precision=exact, or subtract what the scores have in common" in str(
        refused.value
    )
    exact = {"score_precision": "exact", "metrics": ["mrr", "gauc"]}
    lists = close(pa.array(near, pa.decimal128(38, 20)))
    assert sm.evaluate(lists, SINGLE_LABEL | {"item_id": ["a"]}, **exact)["mrr"] == 0.5
    example = r"\n  query_id +lowest +highest +rows\n  q +1\.0{19}1 +1\.0{19}2 +2\n"
    assert re.search(example, str(refused.value))
    two = {"query_id": ["q", "q", "p", "p"], "item_id": ["a", "b", "a", "b"], "score": near * 2}
    with pytest.raises(sm.InputError, match=rf"{CLOSE[:-1]}2\n.*\n  p .*\n  q "):
        sm.evaluate(two, SINGLE_LABEL, "mrr")
    fine = pa.array([Decimal("1.02"), Decimal("1.01")], pa.decimal128(38, 20))
    assert sm.evaluate(close(fine), SINGLE_LABEL, "mrr")["mrr"] == 1
    huge = (
        "select 'q' as query_id, item as item_id, "
        "10000000000000000000000::hugeint + place as score "
        "from (values ('b', 2), ('a', 1)) as items(item, place)"
    )
    with duckdb.connect() as at, pytest.raises(sm.InputError, match=CLOSE):
        sm.evaluate(huge, SINGLE_LABEL, "mrr", connection=at)
    with duckdb.connect() as at:
        result = sm.evaluate(huge, SINGLE_LABEL, "mrr", connection=at, score_precision="exact")
        assert result["mrr"] == 1
    (tmp_path / "lists.csv").write_text(f"query_id,item_id,score\nq,b,{BIG + 1}\nq,a,{BIG}\n")
    for options in ({}, {"duplicate_rankings": "best_score"}):
        with pytest.raises(sm.InputError, match=CLOSE):
            sm.evaluate(str(tmp_path / "lists.csv"), SINGLE_LABEL, "mrr", **options)
    (tmp_path / "lists.csv").write_text("query_id,item_id,score\nq,b,2e300\nq,a,1e300\n")
    assert sm.evaluate(str(tmp_path / "lists.csv"), SINGLE_LABEL, "mrr")["mrr"] == 1


@pytest.mark.parametrize("name", ["duckdb", *OTHER_ENGINES])
def test_a_list_of_a_day_has_many_times(name: str, servers: Servers) -> None:
    """Of times with a zone too, whose rows are shown without a library of zones."""
    for kind in ("timestamp '2026-01-01 {}'", "timestamptz '2026-01-01 {}+00'"):
        times = [kind.format(clock) for clock in ("10:00", "11:00")]
        with duckdb.connect() as at:
            lists = at.sql(
                f"select 'q' as query_id, 'b' as item_id, {BIG + 1} as score, {times[0]} as ds "
                f"union all select 'q', 'a', {BIG}, {times[1]}"
            ).to_arrow_table()
        with pytest.raises(sm.InputError, match=CLOSE) as refused:
            sm.evaluate(lists, SINGLE_LABEL, "mrr", date="ds", connection=servers.open(name))
        assert "2026-01-01" in str(refused.value)
        if name == "duckdb":
            lists = lists.set_column(2, "score", pa.array([1.0, float("nan")]))
            with pytest.raises(sm.InputError, match="score is NaN in 1 row"):
                sm.evaluate(lists, SINGLE_LABEL, "mrr", date="ds")


@by_turns(0.6)
def test_exact_scores_are_numbers_of_one_type(tmp_path: Path) -> None:
    """What cannot be compared as it is, is refused by name, with the way out."""
    exact = {"score_precision": "exact"}
    path = tmp_path / "lists.csv"
    path.write_text(f"query_id,item_id,score\nq,b,{BIG + 1}\nq,a,{BIG}\n")
    for at, message in (
        (None, r"(?s)score is a text.*-> cast it in sql"),
        (sqlite3.connect(":memory:"), "the type VARCHAR"),
    ):
        with pytest.raises(sm.InputError, match=message):
            sm.evaluate(str(path), SINGLE_LABEL, "mrr", connection=at, **exact)
    options = {"labels": {"data": pa.table(SINGLE_LABEL)}, "metrics": ["mrr"], "conventions": exact}
    with pytest.raises(sm.InputError, match="compares numbers, not texts"):
        sm.validate(Spec(rankings={"file": str(path)}, **options))
    cast = f"select * replace (cast(score as bigint) as score) from '{path}'"
    assert sm.evaluate(cast, SINGLE_LABEL, "mrr", **exact)["mrr"] == 1
    near = [Decimal("1.00000000000000000002"), Decimal("1.00000000000000000001")]
    decimals = close(pa.array(near, pa.decimal128(38, 20)))
    with pytest.raises(sm.InputError, match="put the table into the database itself"):
        sm.evaluate(decimals, SINGLE_LABEL, "mrr", connection=sqlite3.connect(":memory:"), **exact)
    several = {"new": close(pa.array([BIG + 1, BIG])), "old": close(pa.array([2.5, 1.5]))}
    with pytest.raises(sm.InputError, match="give the scores of all runs the same type"):
        sm.evaluate(several, SINGLE_LABEL, "mrr", **exact)
    with pytest.raises(
        sm.SpecError, match="score_precision=exact: scores of models are 64-bit floats"
    ):
        sm.StreamingMetric("ndcg@2", score_precision="exact")


def test_lower_precision_that_was_asked_for_is_given() -> None:
    lists = close(pa.array([BIG + 1, BIG], pa.int64()))
    assert sm.evaluate(lists, SINGLE_LABEL, "mrr", score_precision="float32")["mrr"] == 0.5


# -- numbers at the ends of what there is ---------------------------------------------------


@by_turns(0.6)
def test_numbers_whose_sums_overflow_are_refused() -> None:
    large = {"query_id": ["q"] * 2, "item_id": ["a", "b"], "grade": [1.7e308, 1.0]}
    for metric in ("ndcg@3", "cg@3"):
        with pytest.raises(sm.InputError, match="grade is beyond 1e100 in 1 row"):
            sm.evaluate(LISTS, large, metric, gain="linear")
    result = sm.evaluate(LISTS, large | {"grade": [1e100, 1.0]}, "dcg@3", gain="linear")
    assert result["dcg@3"] == pytest.approx(1e100, rel=1e-12)
    assert math.isfinite(result.to_dicts()[0]["sum_sq"])
    with pytest.raises(sm.InputError, match="weight is beyond 1e100 in 2 rows"):
        sm.evaluate(LISTS | {"weight": [1e200] * 2}, SINGLE_LABEL, "mrr", weight="weight")
    with pytest.raises(sm.SpecError, match=r"finite, at most 1e100, given {1: 1e\+200}"):
        sm.evaluate(LISTS, SINGLE_LABEL, "ndcg@3", gain={1: 1e200})
    for text in ("f(beta=1e308)@1", "err(max_grade=60)@3"):
        with pytest.raises(sm.SpecError, match="and at most"):
            sm.evaluate(LISTS, SINGLE_LABEL, text)
    labels = {"query_id": ["q"] * 2, "item_id": ["a", "z"], "grade": [1, 1]}
    # precision 1, recall 1/2: with a great beta recall alone counts
    value = (1 + 1e12) * 0.5 / (1e12 + 0.5)
    assert sm.evaluate(LISTS, labels, "f(beta=1e6)@1")["f(beta=1000000)@1"] == pytest.approx(
        value, abs=1e-12
    )


def test_vectors_keep_their_direction_or_are_refused() -> None:
    for size, refused in ((1e300, True), (1e-200, True), (5e-324, True), (1e90, False)):
        vectors = [[size, size], [size, -size]]
        items = {"item_id": ["a", "b"], "vector": vectors}
        options = {"metrics": ["ils(similarity=vector)@2"], "items": pa.table(items)}
        if refused:
            with pytest.raises(sm.InputError, match="vector has numbers beyond 1e100, or none"):
                sm.evaluate(LISTS, SINGLE_LABEL | {"item_id": ["a"]}, **options)
        else:
            result = sm.evaluate(LISTS, SINGLE_LABEL | {"item_id": ["a"]}, **options)
            assert result["ils(similarity=vector)@2"] == pytest.approx(0, abs=1e-12)


# -- what was asked -------------------------------------------------------------------------


def test_a_baseline_is_a_system_whether_or_not_a_metric_compares() -> None:
    lists = LISTS | {"model": ["old", "new"]}
    with pytest.raises(sm.InputError, match="unknown system 'odl'; did you mean 'old'"):
        sm.evaluate(lists, SINGLE_LABEL, "mrr", system="model", baseline="odl")
    with pytest.raises(sm.SpecError, match="a baseline is a system; name the rankings' column"):
        sm.evaluate(LISTS, SINGLE_LABEL, "mrr", baseline="old")


def test_wrong_arguments_are_named_with_the_nearest() -> None:
    for argument, nearest in (
        ("item_col", "item"),
        ("queriess", "queries"),
        ("label_column", "label_columns"),
    ):
        with pytest.raises(sm.SpecError, match=f"{argument!r}; did you mean {nearest!r}"):
            sm.evaluate(LISTS, SINGLE_LABEL, "mrr", **{argument: "x"})
    with pytest.raises(sm.SpecError, match="unknown option 'gian'; did you mean 'gain'"):
        sm.evaluate(LISTS, SINGLE_LABEL, "mrr", gian="linear")
    with pytest.raises(sm.SpecError, match="arguments by themselves; give gain='linear'"):
        sm.evaluate(LISTS, SINGLE_LABEL, "mrr", conventions={"gain": "linear"})


def test_what_is_no_table_is_told_in_one_sentence() -> None:
    half = LISTS | {"item_id": ["\ud800", "b"]}
    for data in (half, pd.DataFrame(half, dtype=object)):
        with pytest.raises(sm.InputError, match="a text has half a character"):
            sm.evaluate(data, SINGLE_LABEL, "mrr")
    ids = pd.Series([1, "1"], dtype=object)
    with pytest.raises(sm.InputError, match="'item_id' has values of several types"):
        sm.evaluate(pd.DataFrame(LISTS | {"item_id": ids}), SINGLE_LABEL, "mrr")
    score_columns = (pa.array([Decimal(2), Decimal(1)], pa.decimal256(50, 2)),)
    for scores, at in product(score_columns, ("duckdb://", "sqlite://")):
        with pytest.raises(sm.InputError, match=r"'score' has the type .*, which no database"):
            sm.evaluate(pa.table(LISTS | {"score": scores}), SINGLE_LABEL, "mrr", connection=at)
