"""Numbers made of several metrics: how they are read, what they are worth, what is refused."""

from __future__ import annotations

import polars as pl
import pytest
from marked import by_turns
from memory import evaluate

import sqlmetrics as sm
from sqlmetrics.catalog.measure import RESERVED, metric_texts, parse
from sqlmetrics.catalog.tool_names import in_our_words
from sqlmetrics.jobs.schema import BASELINE, FACTS

RUN = {"a": {"x": 3, "y": 2, "z": 1}, "b": {"x": 2, "y": 1}, "c": {"x": 1}, "d": {"y": 1}}
QRELS = {"a": {"y": 1, "w": 1}, "b": {"x": 1}, "c": {"x": 0}, "d": {"x": 1}}
"""Query a: mrr 1/2, recall@2 1/2; b: 1 and 1; c: 0 and none; d: 0 and 0."""

FORMULAS = {
    "sum = 0.75 * mrr + 0.25*recall@2": ("0.75 * mrr + 0.25 * recall@2", "0 to 1", "higher"),
    "X=P@2-(R@2 - 1)": ("precision@2 - (recall@2 - 1)", "0 to 2", "none"),
    "loss = 1 - mrr": ("1 - mrr", "0 to 1", "lower"),
    "level = iprec@0.3 / 2": ("iprec(recall=0.3) / 2", "0 to 0.5", "higher"),
    "turned = -mrr / -2e0": ("(-1) * mrr / (-2)", "0 to 0.5", "higher"),
    "ranks = first_rank + mean_rank * mrr": ("first_rank + mean_rank * mrr", "1 or more", "none"),
    "share = (recall(rel=2)@2) / ndcg@2": ("recall(rel=2)@2 / ndcg@2", "0 or more", "none"),
    "odd = 2 * (mrr - dcg@2)": ("2 * (mrr - dcg@2)", "any number", "none"),
    "product = mrr * (1 - hole@2)": ("mrr * (1 - hole@2)", "0 to 1", "higher"),
}
"""Text -> how it is written out, its range, and which values are better."""

REFUSED = {
    "x =": "cannot be read; write it like",
    "x = 3": "a formula has 1 to 20 metrics, given 0",
    "x = mrr +": "write arithmetic over metrics",
    "x = mrr ** 2": "write arithmetic over metrics",
    "x = mrr; drop table t": "';' cannot be read",
    "x = mrr / 1e999": "it cannot be read",
    "x = ngcd@3": "did you mean 'ndcg'",
    "x = coverage@3": "coverage@3 has no value for a single query",
    "ndcg = mrr": "'ndcg' already has a meaning here",
    "ctr = mrr": "'ctr' already has a meaning here",
    "ndcg_at_5 = mrr": "'ndcg_at_5' already has a meaning here",
    "system = mrr": "a column is already called 'system'",
    "n_queries = mrr": "a column is already called 'n_queries'",
    "x_ci_low = mrr": "a column is already called 'x_ci_low'",
    "x = mrr * 1e9 * 1e9": "the numbers in it come to more than 1e+15",
    f"x = {'-' * 900}mrr": "it cannot be read",
    "order = mrr": "'order' is a keyword of SQL",
    "window = mrr": "'window' is a keyword of SQL",
    "größe = mrr": "a to z, digits and _",
    f"x = {'+ '.join(f'mrr@{k} ' for k in range(1, 22))}": "has 1 to 20 metrics, given 21",
    f"x = {'+'.join(['P@10'] * 199)}": "written out, has more than 1,000",
}


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_read_and_says_what_it_is(text: str) -> None:
    measure = parse(text)
    metric = measure.metric
    assert (metric.formula, metric.range, metric.better) == FORMULAS[text]
    assert parse(measure.text) == measure
    assert str(measure) == measure.column == text.partition("=")[0].strip().lower()


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(sm.SpecError) as refusal:
        sm.Spec(rankings={"relation": "r"}, labels={"relation": "l"}, metrics=[text])
    assert REFUSED[text] in str(refusal.value)


def test_a_formula_is_worth_what_it_says_in_each_query_and_on_average() -> None:
    texts = ["blend = 0.75 * mrr + 0.25 * recall@2", "quotient = (1 - mrr) / recall@2", "mrr"]
    result = evaluate(RUN, QRELS, texts)
    rows = {row["query_id"]: row for row in result.per_query().to_pylist()}
    assert {query: row["blend"] for query, row in rows.items()} == {
        "a": 0.5, "b": 1.0, "c": None, "d": 0.0,
    }  # fmt: skip
    assert {query: row["quotient"] for query, row in rows.items()} == {
        "a": 1.0, "b": 0.0, "c": None, "d": None,
    }  # fmt: skip
    by_metric = {row["metric"]: row for row in result.to_dicts()}
    assert (
        by_metric["blend"]["value"],
        by_metric["blend"]["n_queries"],
        by_metric["blend"]["n_skipped"],
    ) == (
        0.5,
        3,
        1,
    )
    assert (by_metric["quotient"]["value"], by_metric["quotient"]["n_skipped"]) == (0.5, 2)
    half = "half = num_rel_ret(average_over=labels) * 0.5"  # its own mean leaves c out
    (row,) = evaluate(RUN, QRELS, [half], average_over="relevant").to_dicts()
    assert (row["value"], row["n_queries"]) == (pytest.approx(1 / 3), 3)


def test_names_are_given_by_mappings_and_in_the_words_of_a_tool() -> None:
    mapping = {"blend": "0.5 * ndcg@3 + 0.5 * mrr"}
    text = "blend = 0.5 * ndcg@3 + 0.5 * mrr"
    assert metric_texts(mapping) == metric_texts(text) == (text,)
    assert metric_texts(["mrr, recall@3", mapping]) == ("mrr", "recall@3", text)
    tables = {"rankings": {"relation": "r"}, "labels": {"relation": "l"}}
    for metrics in (mapping, [mapping], text, [text]):
        assert [m.text for m in sm.Spec(**tables, metrics=metrics).measures] == [text]
    assert in_our_words("blend = hits@5 + mrr", "ranx") == [
        "blend = dcg(gain=binary, discount=none)@5 + mrr"
    ]
    spec = sm.Spec(**tables, metrics=["blend = P.5 / 2"], preset="trec_eval")
    assert spec.measures[0].text == "blend = precision@5 / 2"
    assert all(RESERVED.fullmatch(name) for name in (*FACTS, *BASELINE))
    spec = sm.Spec(**tables, metrics={"Loss": "1 - mrr"})
    assert spec.measure("LOSS") == spec.measure("loss") == spec.measures[0]
    with pytest.raises(sm.SpecError, match="loss is 1 - mrr in this spec"):
        spec.measure("loss = 1 - ap")
    for conventions, reason in (
        ({"gain": ["exp", "linear"]}, "a formula is one number, but gain is exp, linear"),
        ({"average": "median"}, "a formula is one number, but average is median"),
    ):
        with pytest.raises(sm.SpecError, match=reason):
            sm.Spec(**tables, metrics=["x = 1 - ndcg@3"], conventions=conventions)
    with pytest.raises(sm.SpecError, match="is also the name of a segment"):
        sm.Spec(**tables, metrics=["shop = 1 - mrr"], by=["Shop"])
    with pytest.raises(sm.SpecError, match="x = mrr and x = ap would share the column x"):
        sm.Spec(**tables, metrics=["x = mrr", "x = ap"])
    with pytest.raises(sm.SpecError, match="write the formula of x as a text"):
        sm.Spec(**tables, metrics=[{"x": None}])
    with pytest.raises(sm.SpecError, match="a formula needs a plain mean"):
        sm.Spec(**tables, metrics=["x = mrr + ndcg(average=p10)@3"])


@by_turns(2.0)
def test_a_formula_has_its_place_in_a_comparison_and_in_a_training_loop() -> None:
    text = "blend = 0.75 * mrr + 0.25 * recall@2"
    rows = [
        (s, q, f"d{i}", (i + q) % 5 if s == "a" else i * (q % 3))
        for s in "ab"
        for q in range(30)
        for i in range(5)
    ]
    runs = pl.DataFrame(rows, schema=["system", "query_id", "item_id", "score"], orient="row")
    labels = pl.DataFrame({"query_id": range(30), "item_id": ["d1"] * 30, "grade": [1] * 30})
    compared = sm.compare(
        runs, labels, [text, "loss = 1 - mrr", "mrr"], system="system", baseline="a"
    )
    differences = {row["metric"]: row["difference"] for row in compared.to_dicts()}
    assert differences["loss"] == pytest.approx(-differences["mrr"], abs=1e-12)
    assert differences["blend"] != 0
    verdicts = {row["metric"]: row["direction"] for row in compared.rows}
    assert verdicts == {"blend": 1, "loss": -1, "mrr": 1}
    page = sm.report(runs, labels, [text], system="system", baseline="a")
    assert "blend" in page.text
    metric = sm.StreamingMetric([text, "mrr"])
    metric.update([[3.0, 2, 1], [1, 2, 3]], [[0, 1, 1], [0, 0, 1]])
    assert metric.compute()["blend"] == pytest.approx(0.75 * 0.75 + 0.25 * 0.75)


def test_input_checks_and_notes_look_at_what_a_formula_is_made_of() -> None:
    graded = {"a": {"y": 7}}
    with pytest.raises(sm.InputError, match="is above max_grade=4"):
        evaluate(RUN, graded, ["x = err(max_grade=4)@3 / 2"])
    with pytest.raises(sm.InputError, match="has no gain in the table"):
        evaluate(RUN, graded, ["x = 1 - ndcg(gain={1: 1})@3"])
    with pytest.raises(sm.SpecError, match="needs the items table"):
        evaluate(RUN, graded, ["x = ils(similarity=vector)@3 / 2"])
    with pytest.raises(sm.SpecError, match="needs more than scores and labels"):
        sm.StreamingMetric(["x = novelty@3 * mrr"])
    assert any(
        "relevant is from 9 on" in n for n in evaluate(RUN, graded, ["x = 1 - mrr(rel=9)"]).notes
    )
