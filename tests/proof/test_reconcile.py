"""`reconcile` finds the conventions behind a number, and does not believe in coincidences."""

from __future__ import annotations

import json
import math
import os
import random
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from command import sqlmetrics
from hand_cases import _countdown, _rows
from marked import by_turns, first, long, sliced
from memory import database, evaluate

import sqlmetrics as sm
from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.metric import listed
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.cli import cli
from sqlmetrics.engines.database import connect
from sqlmetrics.evaluation.question import question
from sqlmetrics.proof.reconcile import matching, result
from sqlmetrics.proof.reconcile.matching import MeanMatch
from sqlmetrics.proof.reconcile.reconcile import _counted
from sqlmetrics.proof.reconcile.result import Candidate, Reconciliation
from sqlmetrics.proof.reconcile.statement import Tally
from sqlmetrics.proof.reconcile.worlds import HELD, RARE, SPEC_WIDE, Point

pytestmark = by_turns(0.2)

CASES = Path(__file__).parents[1] / "cases" / "presets.toml"
DATA = tomllib.loads(CASES.read_text(encoding="utf-8"))["data"]

PRINTED = {
    "toy": [
        ("trec_eval", ".3244"), ("ir_measures", ".3244"), ("trec_eval_9", ".4055"),
        ("ranx", ".3506"), ("torchmetrics", ".4152"), ("evidently", ".6656"),
        ("replay", ".3977"), ("recommenders", ".4304"),
    ],
    "positives": [("recommenders", ".4304"), ("replay", ".3977")],
    "ranks": [("rectools", ".3673"), ("rectools_achievable", ".5227")],
}  # fmt: skip
"""What the tools themselves printed as NDCG@3: docs of the conventions, and toy.toml."""


@cache
def toy(name: str = "toy") -> tuple[pa.Table, pa.Table]:
    """The rankings and the labels of the conventions' toy data."""
    rankings, labels = (
        pa.Table.from_pylist(
            [
                {"query_id": row["query"], "item_id": row["item"], number: row[number]}
                for row in _rows(DATA[name][table], number, _countdown)
            ]
        )
        for table, number in (("lists", "score"), ("labels", "grade"))
    )
    return rankings, labels


def world(seed: int) -> tuple[pa.Table, pa.Table]:
    """Lists with ties, near ties, short and missing lists, and queries without labels."""
    rng = random.Random(seed)
    scores = [3.0, 2.0, 1.0, 1.00000001, 1.0000002]
    runs: list[dict[str, Any]] = []
    truth: list[dict[str, Any]] = []
    for query in (f"q{number}" for number in range(9)):
        if rng.random() < 0.85:
            for item in rng.sample(range(9), rng.randint(1, 6)):
                score = rng.choice(scores)
                runs.append({"query_id": query, "item_id": f"i{item}", "score": score})
        if rng.random() < 0.85:
            for item in rng.sample(range(9), rng.randint(1, 5)):
                grade = float(rng.choice([0, 0, 1, 2, 3]))
                truth.append({"query_id": query, "item_id": f"i{item}", "grade": grade})
    return pa.Table.from_pylist(runs), pa.Table.from_pylist(truth)


def reconcile(*arguments: Any, **options: Any) -> Reconciliation:
    """`sm.reconcile` in the database of this process."""
    return sm.reconcile(*arguments, **({"connection": database()} | options))


Counted = tuple[Tally, dict[Point, int]]


@cache
def counted(seed: int | None, metric: str, departures: int = 2) -> Counted:
    """The statement's rows for a world, or for the toy data: they fit any number."""
    tables = toy() if seed is None else world(seed)
    with connect(database()) as engine:
        spec, places = question(engine, *tables, metric)
        return _counted(spec, places, result.read("0.5"), departures, engine)


def matched(rows: Counted, number: str) -> Reconciliation:
    """What `reconcile` makes of the rows for a number."""
    return MeanMatch(*rows, 2, result.read(number)).reconciled()


def evaluated(tables: tuple[pa.Table, pa.Table], candidate: Candidate, **options: Any) -> Any:
    """What a candidate gives, by `evaluate`."""
    conventions: dict[str, Any] = {**candidate.conventions, **options}
    options = {
        "cell": f"candidate {candidate.words}",
        "preset": candidate.presets[0],
        **conventions,
    }
    return evaluate(*tables, candidate.metric, **options)[candidate.metric]


def way_to(point: Point, rows: Counted) -> tuple[str, str, dict[str, Any]]:
    """A point as `evaluate` takes it: the metric's text, a preset, and the departures."""
    tally, points = rows
    ways = {name: tally.space.departures(point, name) for name in tally.space.presets}
    preset = min(ways, key=lambda name: len(ways[name]))
    assert len(ways[preset]) == points[point]
    departures: dict[str, Any] = dict(ways[preset])
    measure = tally.space.measure
    if "rel" in departures:
        measure = measure.having("rel", departures.pop("rel"))
    return str(measure), preset, departures


# -- a number ----------------------------------------------------------------------------


@by_turns(2)
@pytest.mark.parametrize(
    ("data", "preset", "printed"),
    [(data, *pair) for data, pairs in PRINTED.items() for pair in pairs],
)
def test_a_tool_s_own_number_names_the_tool_first(data: str, preset: str, printed: str) -> None:
    if data == "toy":
        reconciled = matched(counted(None, "ndcg@3"), printed)
    else:
        reconciled = reconcile(*toy(data), "ndcg@3", printed, departures=0)
    first = reconciled.candidates[0]
    assert preset in first.presets
    assert first.departures == {}
    assert all(candidate.distance > 0 for candidate in reconciled.candidates[1:])
    if len(first.presets) > 1:
        assert f"several match: {len(first.presets)} presets" in str(reconciled)


MEANS = ["ndcg@3", "recall@3", "mrr", "ap"]


@cache
def toy_means(preset: str) -> sm.Result:
    """What sqlmetrics itself gives on the toy data."""
    return evaluate(*toy(), MEANS, preset=preset, cell=f"told by {preset}")


def tool_has(preset: str, text: str) -> bool:
    """Whether a tool has a metric, as sqlmetrics means it."""
    metric = parse(text)
    return PRESETS[preset].has(metric.metric.name, metric.k)


@by_turns(4)
@pytest.mark.parametrize("metric", first(1, MEANS))
@pytest.mark.parametrize("preset", sliced("mean", 0.3, PRESETS))
def test_every_preset_s_mean_names_it_first(metric: str, preset: str) -> None:
    mean = toy_means(preset)[metric]
    if mean is None or math.isnan(mean) or not tool_has(preset, metric):
        pytest.skip("a mean that is NaN names nothing, nor one that the tool does not have")
    reconciled = matched(counted(None, metric), f"{mean:.4f}")
    first, *rest = reconciled.candidates
    assert (first.departures, first.cut) == ({}, False)
    exact = [candidate for candidate in reconciled.candidates if not candidate.distance]
    assert any(preset in candidate.presets for candidate in exact)
    assert all(candidate.distance for candidate in rest[len(exact) - 1 :])
    assert ("several match" in str(reconciled)) == (len(exact) > 1 or len(first.presets) > 1)


@by_turns(0.3)
def test_the_numbers_of_presets_told_to_the_command_itself() -> None:
    for preset in ("sklearn", "lenskit"):
        mean = evaluate(*toy(), "ndcg@3", preset=preset)["ndcg@3"]
        reconciled = reconcile(*toy(), "ndcg@3", f"{mean:.4f}", departures=0)
        assert preset in reconciled.candidates[0].presets


@by_turns(4.1)
@pytest.mark.parametrize(
    ("metric", "printed"),
    [
        ("ap@3", ".3611"),  # recommenders, MAP
        pytest.param("ndcg@3", ".3994", marks=pytest.mark.long),  # evidently with no_feedback_users
        pytest.param("ndcg@3", ".4382", marks=pytest.mark.long),  # recommenders, raw gains
        pytest.param("ndcg@3", ".4541", marks=pytest.mark.long),  # recommenders, exp gains
    ],
)
def test_what_tools_give_by_their_own_options_is_found(metric: str, printed: str) -> None:
    reconciled = matched(counted(None, metric), printed)
    assert reconciled.candidates
    for candidate in reconciled.candidates:
        assert evaluated(toy(), candidate) == pytest.approx(candidate.value, abs=1e-12)
    assert "chance alone would match" in str(reconciled).replace("\n    ", " ")


@by_turns(1.1)
def test_the_words_of_a_mean_over_hits() -> None:
    mean = evaluate(*toy(), "ndcg@3", preset="house", average_over="hits")["ndcg@3"]
    reconciled = matched(counted(None, "ndcg@3"), str(mean))
    words = " ".join(candidate.words for candidate in reconciled.candidates)
    assert "the mean runs over queries with a relevant item in the top k" in words


@pytest.mark.parametrize("name", [*OPTIONS, "rel"])
def test_every_option_that_is_tried_has_words(name: str) -> None:
    if name == "rel":
        assert matching.departure(name, 2) == "relevant from grade 2"
        return
    scope = OPTIONS[name].scope
    if scope == "metric" or name in (*SPEC_WIDE, *HELD):
        values = ("none", 100) if name in HELD else [c.name for c in OPTIONS[name].choices[:2]]
        words = {matching.departure(name, value) for value in values}
        assert len(words) == 2


def test_a_number_that_was_cut_off_is_a_departure() -> None:
    rounded = reconcile(*toy(), "ndcg@3", ".3243", departures=0)  # .324372
    assert rounded.candidates[0].cut is True
    assert rounded.candidates[0].distance == 1
    text = " ".join(str(rounded).split())
    assert "trec_eval or ir_measures, but the value is cut off, not rounded" in text


@by_turns(0.5)
def test_what_is_known_is_not_varied() -> None:
    reconciled = reconcile(*toy(), "ndcg(gain=linear)@3", ".4382", ties="input_order")
    assert reconciled.candidates
    for candidate in reconciled.candidates:
        assert not {"gain", "ties"} & candidate.departures.keys()
        assert evaluated(toy(), candidate, ties="input_order") == pytest.approx(candidate.value)


def test_a_mean_of_rounded_values_that_weigh_is_found() -> None:
    """2/3 is .67, and weighs 4 beside 1, which weighs 3: (4 * .67 + 3 * 1) / 7."""
    lists = {"q": {"x": 4.0, "a": 3.0, "b": 2.0, "c": 1.0}, "r": {"a": 3.0, "b": 2.0, "c": 1.0}}
    grades = {"q": {"x": 0, "a": 1, "b": 0, "c": 0}, "r": {"a": 1, "b": 0, "c": 0}}
    reconciled = reconcile(lists, grades, "gauc", ".811429")
    first = reconciled.candidates[0]
    assert first.value == pytest.approx((4 * 0.67 + 3) / 7, rel=1e-12)
    assert first.departures == {"gauc_weight": "impressions"}


METRICS = ["ndcg@3", "ap", "f(beta=2)@2", "gauc", "pnr"]
MORE_METRICS = [
    "ndcg", "recall@2", "num_q", "ap@3", "mrr", "precision@3", "hit@2", "rprec", "f1@3",
    "dcg@2", "judged@3", "first_rank", "mean_rank", "num_rel_ret", "bpref", "rbp(p=0.5)", "err@3",
]  # fmt: skip


@pytest.mark.parametrize("metric", [*first(1, METRICS), *map(long, MORE_METRICS)])
def test_every_combination_gives_what_evaluate_gives(metric: str) -> None:
    rng = random.Random(metric)
    seed = rng.randrange(1000)
    tally, points = counted(seed, metric, 1)
    wide = (*SPEC_WIDE, *HELD)
    alike: dict[tuple[Any, ...], dict[str, Point]] = {}
    rare = [
        point
        for point in points
        if any(tally.space.value(point, name) in values for name, values in RARE.items())
    ]
    some = (rng.sample(these, min(200, len(these))) for these in (list(points), rare))
    for point in chain(*some):
        values: dict[str, Any] = dict(zip(tally.space.tried, point, strict=True))
        measure = tally.space.measure
        for name, value in values.items():
            if name not in wide and (name, value) != ("rel", 1):
                measure = measure.having(name, value)
        key = tuple(values[name] for name in wide)
        alike.setdefault(key, {})[str(measure)] = point
    for key in [*rng.sample(list(alike), min(4, len(alike))), [*alike][-1]]:
        conventions = dict(zip(wide, key, strict=True))
        result = evaluate(*world(seed), list(alike[key]), cell=f"{metric} {key}", **conventions)
        for text, point in alike[key].items():
            expected = result[text]
            expected = None if expected is None or math.isnan(expected) else expected
            assert tally.mean(point) == pytest.approx(expected, abs=1e-12), (text, conventions)


@by_turns(2)
@pytest.mark.parametrize(
    "metric", ["mrr", *map(long, ["ndcg@3", "recall@2", "ap@3", "f1@2", "pnr"])]
)
def test_the_truth_is_among_the_candidates(metric: str) -> None:
    """A preset and what departs from it is found, or what is as simple and gives the same.

    The mean is told to ten decimals: to six, a simpler combination can fit as well.
    """
    rng = random.Random(metric)
    for seed in (21,) if metric == "mrr" else (21, 22, 23):
        rows = counted(seed, metric)
        far = [point for point, distance in rows[1].items() if distance]
        for point in rng.sample(far, 5):
            text, preset, departures = way_to(point, rows)
            result = evaluate(
                *world(seed), text, cell=f"{seed} {text}", preset=preset, **departures
            )
            mean = result[text]
            if mean is None or math.isnan(mean):
                continue
            reconciled = matched(rows, f"{mean:.10f}")
            assert min(candidate.distance for candidate in reconciled.candidates) <= rows[1][point]
            same = [
                candidate
                for candidate in reconciled.candidates
                if candidate.value == pytest.approx(mean, abs=1e-9)
            ]
            assert same, (text, preset, departures)
            assert min(candidate.distance for candidate in same) <= rows[1][point]
            candidate = rng.choice(reconciled.candidates)
            assert evaluated(world(seed), candidate) == pytest.approx(candidate.value, abs=1e-12)


@by_turns(1.1)
def test_ranks_days_weights_and_queries() -> None:
    rankings, labels = world(5)
    days = ["2026-03-01"] * rankings.num_rows
    dated = rankings.append_column("ds", pa.array(days))
    queries = pa.table({"query_id": [f"q{i}" for i in range(9)], "w": [1.0 + i for i in range(9)]})
    for options in ({"date": "ds"}, {"queries": queries, "weight": "w"}, {"depth": 2}):
        mean = evaluate(dated, labels, "ndcg@3", preset="trec_eval", **options)["ndcg@3"]
        reconciled = reconcile(dated, labels, "ndcg@3", str(mean), departures=0, **options)
        assert "trec_eval" in reconciled.candidates[0].presets
    ranked = {"q1": ["a", "b", "c"], "q2": ["d", "a"]}
    graded = {"q1": {"b": 2, "x": 1}, "q2": {"a": 1}}
    mean = evaluate(ranked, graded, "ndcg@3", preset="lenskit")["ndcg@3"]
    reconciled = reconcile(ranked, graded, "ndcg@3", str(mean), departures=1)
    assert "lenskit" in reconciled.candidates[0].presets
    assert not any("ties" in candidate.departures for candidate in reconciled.candidates)


@by_turns(0.4)
def test_duplicates_negative_grades_and_joined_labels() -> None:
    rankings, labels = world(6)
    options: dict[str, Any] = {
        "duplicate_rankings": "best_score",
        "duplicate_labels": "max_grade",
        "negative_grades": "unjudged",
    }
    extra = labels.slice(0, 1).set_column(2, "grade", pa.array([-1.0]))
    twice = pa.concat_tables([rankings, rankings.slice(0, 3)])
    graded = pa.concat_tables([labels, labels.slice(0, 2), extra])
    mean = evaluate(twice, graded, "ap@3", preset="trec_eval", **options)["ap@3"]
    reconciled = reconcile(twice, graded, "ap@3", str(mean), departures=0, **options)
    assert "trec_eval" in reconciled.candidates[0].presets
    joined = rankings.append_column("grade", pa.array([float(i % 3) for i in range(len(rankings))]))
    mean = evaluate(joined, None, "ndcg@3", preset="sklearn")["ndcg@3"]
    reconciled = reconcile(joined, None, "ndcg@3", str(mean), departures=0)
    assert "sklearn" in reconciled.candidates[0].presets


@by_turns(1)
def test_a_table_without_an_order_cannot_be_read_in_order() -> None:
    with duckdb.connect() as connection:
        runs, truth = toy()  # noqa: RUF059
        connection.execute("create table runs as select * from runs")
        connection.execute("create table truth as select * from truth")
        reconciled = reconcile(
            "runs", "truth", "ndcg@3", ".3244", connection=connection, departures=1
        )
        assert "trec_eval" in reconciled.candidates[0].presets
        assert not any(
            "input_order" in candidate.departures.values() for candidate in reconciled.candidates
        )
        plan = connection.execute(f"explain {reconciled.executed_sql}").fetchall()[0][1]
    for table in ("runs", "truth"):
        assert len(re.findall(rf"Table: \S*\.{table}\b", plan)) == 1


@by_turns(0.8)
@pytest.mark.parametrize("metric", sliced("statement", 0.4, ["ndcg@3", "ap", "pnr"]))
def test_one_statement_reads_the_files_once(metric: str, tmp_path: Path) -> None:
    """Whatever the conventions, by the engine's own plan; input checks are asked apart."""
    files = [str(tmp_path / name) for name in ("runs.parquet", "labels.parquet")]
    for table, file in zip(toy(), files, strict=True):
        pq.write_table(table, file)
    reconciled = reconcile(*files, metric, ".5", departures=1)
    with duckdb.connect() as connection:
        plan = connection.execute(f"explain (format json) {reconciled.executed_sql}").fetchall()[0][
            1
        ]
    read = [
        scan["extra_info"] for scan in _operators(json.loads(plan)) if "PARQUET" in scan["name"]
    ]
    assert len(read) == 2
    assert sorted("score" in scan["Projections"] for scan in read) == [False, True]


def _operators(plan: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for operator in plan:
        yield operator
        yield from _operators(operator["children"])


# -- chance ------------------------------------------------------------------------------


@by_turns(3)
@pytest.mark.parametrize("metric", ["ndcg@3", "recall@2", "gauc"])
def test_a_border_of_scores_holds_as_given(metric: str) -> None:
    """In every order and precision: 1.00000001 is below it, but not with 6 decimals."""
    rankings, labels = world(6)
    options = {"min_score": 1.0000001}
    for preset in ("house", "trec_eval", "torchmetrics"):
        mean = evaluate(rankings, labels, metric, preset=preset, **options)[metric]
        reconciled = reconcile(rankings, labels, metric, f"{mean:.6f}", departures=1, **options)
        assert any(
            preset in candidate.presets
            for candidate in reconciled.candidates
            if not candidate.departures
        )
        for candidate in reconciled.candidates[:4]:
            assert evaluated((rankings, labels), candidate, **options) == pytest.approx(
                candidate.value
            )


@by_turns(1)
def test_items_that_are_their_own_query_are_told_of() -> None:
    """BEIR leaves them out: known, it is tried so."""
    rows = [("q", "q", 2.0), ("q", "a", 1.0), ("p", "b", 1.0)]
    names = ("query_id", "item_id", "score")
    rankings = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    labels = pa.table({"query_id": ["q", "p"], "item_id": ["a", "c"], "grade": [1.0, 1.0]})
    (note,) = reconcile(rankings, labels, "mrr", ".25", departures=0).notes
    assert note.startswith("1 items have the id of their query;")
    reconciled = reconcile(rankings, labels, "mrr", ".5", departures=0, identical_ids="drop")
    assert not reconciled.notes
    assert reconciled.candidates


def test_nothing_fits_and_the_nearest_are_told() -> None:
    reconciled = matched(counted(None, "ndcg@3"), "0.12345678")
    assert reconciled.candidates == ()
    assert "no combination matches. The nearest:" in str(reconciled)
    apart = [
        abs(candidate.value - 0.12345678)
        for candidate in reconciled.nearest
        if candidate.value is not None
    ]
    assert len(apart) == 5
    assert apart == sorted(apart)


@pytest.mark.long
def test_accidents_are_about_as_many_as_expected() -> None:
    """Numbers that no convention made match as often as was told, on the whole.

    They are drawn evenly between the least and the largest value that conventions give. Of
    3,000 numbers with 4 decimals some 240 values match, which come in clumps, so that their
    count scatters by a tenth or so; what is told of a number is smoothed over its neighbours,
    and was at most a tenth too much where this was written.
    """
    for decimals in (2, 3, 4):
        rng = random.Random(decimals)
        claimed, met = 0.0, 0
        for seed in (21, None):
            tally, points = counted(seed, "ndcg@3")
            means = map(tally.mean, points)
            values = result.distinct_by_chance(value for value in means if value is not None)
            for _ in range(1500):
                number = result.read(f"{rng.uniform(values[0], values[-1]):.{decimals}f}")
                claimed += result.expected_by_chance(values, number.number, number.unit)
                met += sum(number.is_rounded(value) for value in values)
        assert met * 0.75 < claimed < met * 1.33


@by_turns(0.9)
def test_few_digits_are_told_to_be_a_coincidence() -> None:
    reconciled = matched(counted(None, "ndcg@3"), "0.4")
    assert reconciled.expected_by_chance is not None
    assert reconciled.expected_by_chance > 10
    assert "this may well be a coincidence" in str(reconciled)


# -- values of queries -------------------------------------------------------------------


@by_turns(1.9)
def test_per_query_values_name_the_options_that_explain_them_all() -> None:
    values = {"q1": ".7350", "q2": ".6309", "q3": ".3869", "q4": "0", "q5": "0"}
    reconciled = reconcile(*toy(), "ndcg@3", values=values, departures=1)
    assert reconciled.candidates[0].presets == ("ranx",)
    assert (reconciled.candidates[0].explained, reconciled.candidates[0].beyond) == (5, 0)
    values = {"q1": ".7350", "q2": ".5", "q3": ".3869", "q4": "0"}
    reconciled = reconcile(*toy(), "ndcg@3", values=values, departures=1)
    assert reconciled.candidates[0].presets == ("trec_eval_9", "beir", "mteb")
    assert reconciled.candidates[1].presets == ("trec_eval", "ir_measures")
    assert reconciled.candidates[1].beyond == 1


@pytest.mark.parametrize(
    "preset", sliced("table", 0.4, ["house", "sklearn", "lenskit", "evidently", "opensearch"])
)
def test_a_preset_s_own_per_query_table_names_it(preset: str) -> None:
    tables = world(11)
    table = evaluate(*tables, "ndcg@3", preset=preset).per_query()
    reconciled = reconcile(*tables, "ndcg@3", values=table, departures=0)
    assert preset in reconciled.candidates[0].presets
    assert reconciled.candidates[0].explained == table.num_rows


@by_turns(1.5)
@pytest.mark.parametrize("metric", ["gauc", *map(long, ["ndcg@3", "recall@2", "ap@3", "mrr"])])
def test_the_truth_explains_every_value(metric: str) -> None:
    rng = random.Random(metric)
    rows = counted(23, metric, 1)
    far = [point for point, distance in rows[1].items() if distance]
    for point in rng.sample(far, 2):
        text, preset, departures = way_to(point, rows)
        result = evaluate(*world(23), text, preset=preset, **departures)
        table = result.per_query()
        column = table.column_names[-1]
        reconciled = reconcile(*world(23), metric, values=table, column=column, departures=1)
        best = reconciled.candidates[0]
        assert best.explained == table.num_rows, (text, preset, departures)
        assert best.distance <= 1


@by_turns(1.2)
def test_values_that_nothing_explains() -> None:
    reconciled = reconcile(*toy(), "ndcg@3", values={"q1": ".7350", "q2": ".1234"}, departures=1)
    assert reconciled.candidates == ()
    assert reconciled.nearest[0].explained == 1


# -- what is wrong -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("abc", "value must be a number like 0.3506 or 35.06%, given 'abc'"),
        (float("nan"), "value must be a number"),
        (float("inf"), "value must be a number"),
        ("0,3506", "value must be a number"),
        (True, "value must be a number"),
        ("1e999999999", "value must be a number"),
        ("", "value must be a number"),
        ("135.06", "ndcg is 0 to 1, so it cannot be 135.06"),
        ("-0.2", "ndcg is 0 to 1, so it cannot be -0.2"),
        (None, "give either a value or per-query values"),
    ],
)
def test_numbers_that_are_none(value: Any, message: str) -> None:
    with pytest.raises(sm.SpecError, match=re.escape(message)):
        reconcile(*toy(), "ndcg@3", value)


def test_other_questions_that_are_refused() -> None:
    def refused(message: str, **options: Any) -> None:
        with pytest.raises(sm.SpecError, match=message):
            reconcile(*toy(), "ndcg@3", ".5", **options)

    refused("tries all presets", preset="ranx")
    refused("set best_score or count", duplicate_rankings="first")
    refused("departures must be a whole number from 0 to 3, given 9", departures=9)
    refused("missing must be zero or drop", missing="error")
    refused("takes one metric", gain=["exp", "linear"])
    refused("unknown option 'tie'", tie="best")


def test_values_that_are_refused() -> None:
    def refused(message: str, values: Any, **options: Any) -> None:
        with pytest.raises((sm.SpecError, sm.InputError), match=message):
            reconcile(*toy(), "ndcg@3", values=values, **options)

    refused("query 'q1': value must be a number", {"q1": "abc"})
    refused("query 'q1': ndcg is 0 to 1", {"q1": 7})
    refused("the table has no values", {"q1": None})
    refused("the table has no values", {})
    twice = pa.table({"query_id": ["q1", "q1"], "value": [0.5, 0.5]})
    refused("query 'q1' appears twice", twice)
    refused("unknown column 'score'", twice, column="score")
    refused("unknown column 'query_id'", pa.table({"q": ["q1"], "value": [0.5]}))


@by_turns(0.5)
def test_several_systems_are_refused() -> None:
    rankings, labels = toy()
    half = rankings.num_rows // 2
    models: list[str] = ["new"] * half + ["old"] * (rankings.num_rows - half)
    two_systems = rankings.append_column("model", pa.array(models))
    with pytest.raises(sm.InputError, match="there are 'new', 'old'; choose one"):
        reconcile(two_systems, labels, "ndcg@3", ".5", system="model")
    days = ["2026-03-01"] * half + ["2026-03-02"] * (rankings.num_rows - half)
    dated = rankings.append_column("ds", pa.array(days))
    reconciled = reconcile(dated, labels, "ndcg@3", ".5", date="ds", departures=0)
    assert "the mean is over the queries of all days" in reconciled.notes[0]
    new = {"system": "model", "where": "model = 'new'", "departures": 1}
    assert reconcile(two_systems, labels, "ndcg@3", ".5", **new).tried > 100


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("auc", "auc is one number for all lists"),
        ("coverage@3", "coverage@3 is one number for all lists"),
        ("gini@3", "gini@3 is one number for all lists"),
        ("overlap@3", "only takes rankings and labels; overlap@3 needs a second system"),
        ("rbo", "rbo needs a second system"),
        ("novelty@3", "novelty@3 needs a table of items"),
        ("ils(similarity=vector)@3", "needs a table of items"),
    ],
)
def test_metrics_that_are_refused_by_name(metric: str, message: str) -> None:
    with pytest.raises(sm.SpecError, match=re.escape(message)):
        reconcile(*toy(), metric, ".5")


@pytest.mark.long
def test_every_other_metric_is_taken() -> None:
    for metric in listed():
        refused = metric.pooled or metric.needs or "similarity" in metric.options
        if not refused:
            text = metric.name + ("@3" if metric.cutoff == "required" else "")
            assert reconcile(*toy(), text, "1", departures=0).tried > 0


def test_pairs_of_scores_take_no_depth_and_no_order() -> None:
    with pytest.raises(sm.SpecError, match="gauc compares scores, so it cannot have a depth here"):
        reconcile(*toy(), "gauc", ".5", depth=2)
    tried = counted(None, "gauc", 1)[0].space.tried
    assert len(tried["ties"]) == 1
    assert tried["gauc_weight"] == ("none", "impressions", "positives")
    assert {"tied_scores", "equal_labels", "pnr_form"} <= counted(None, "pnr", 1)[
        0
    ].space.tried.keys()


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [(".3506", 0.3506, 1e-4), ("35.06 %", 0.3506, 1e-4), ("0.50", 0.5, 0.01), ("12", 12, 1),
     ("3.5e-2", 0.035, 0.001), ("7%", 0.07, 0.01)],
)  # fmt: skip
def test_digits_say_how_near_is_near(text: str, number: float, unit: float) -> None:
    read = result.read(text)
    assert read.number == pytest.approx(number)
    assert read.unit == pytest.approx(unit)
    assert read.is_rounded(number + unit * 0.49)
    assert not read.is_rounded(number + unit * 0.51)
    assert read.is_cut(number + unit * 0.99)


# -- the command line --------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The toy data as TREC files, and per-query values as CSV."""
    rankings, labels = toy()
    runs = "".join(
        f"{row['query_id']} Q0 {row['item_id']} 1 {row['score']} run\n"
        for row in rankings.to_pylist()
    )
    qrels = "".join(
        f"{row['query_id']} 0 {row['item_id']} {row['grade']:.0f}\n" for row in labels.to_pylist()
    )
    (tmp_path / "run.txt").write_text(runs)
    (tmp_path / "qrels.txt").write_text(qrels)
    (tmp_path / "theirs.csv").write_text(
        "query_id,map,ndcg\nq1,.1,.7350\nq2,.2,.5\nq3,,.3869\nq4,.3,0\n"
    )
    return tmp_path


@by_turns(1.2)
def test_the_command_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ("reconcile", "run.txt", "qrels.txt", "-m", "ndcg@3", "--departures", "1")
    out = sqlmetrics(*line, "--value", "35.06%", folder=folder).stdout
    assert out.splitlines()[0] == "ndcg@3 = 35.06%"
    assert re.search(r"^0 +0\.350558 +\S+ +ranx$", out, re.MULTILINE)
    message = sqlmetrics(*line, folder=folder, expect=2).stderr
    assert "give either a value or per-query values" in message
    monkeypatch.chdir(folder)
    line = (*line[:-1], "0")
    parsed = json.loads(stdout_of(*line, "--value", ".3506", "-o", "json"))
    assert parsed["candidates"][0]["presets"] == ["ranx"]
    assert stdout_of(*line, "--value", ".3506", "--sql").startswith("with\n")
    stdout_of(*line, "--value", ".12345678", expect=1)


def stdout_of(*arguments: str, expect: int = 0) -> str:
    """What the command prints, in this process."""
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == expect, result.output
    return result.output


@pytest.mark.long
def test_the_page_shows_what_is_printed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(__file__).parents[2] / "docs" / "reconcile.md"
    block = re.compile(r"^```console\n\$ sqlmetrics (.*?)\n(.*?)^```", re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(folder)

    def current(match: re.Match[str]) -> str:
        return f"```console\n$ sqlmetrics {match[1]}\n{stdout_of(*match[1].split())}```"

    page = path.read_text(encoding="utf-8")
    fresh, count = block.subn(current, page)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(fresh, encoding="utf-8")
    assert count == 6
    assert path.read_text(encoding="utf-8") == fresh
