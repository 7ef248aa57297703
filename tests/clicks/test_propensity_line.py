"""Propensities in the line: days, forms of logs, definitions, results, jobs, texts of SQL."""

from __future__ import annotations

import io
import json
import logging
import random
import re
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from command import sqlmetrics
from marked import by_turns
from position_bias import simulated_log

import sqlmetrics as sm
from sqlmetrics.cli import cli, common
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.engines.database import connect

FIRST_WEEK, SECOND_WEEK = {"end": "2026-01-08"}, {"start": "2026-01-08"}
COLUMNS = {
    "request": "request",
    "query": "query",
    "item": "item",
    "position": "position",
    "time": "time",
    "user": "user",
}
WIDE = {**COLUMNS, "clicked": "clicked"}
COLUMNS_OF_FEW = {role: WIDE[role] for role in ("request", "query", "item", "clicked")}
EARLY, LATE = (1, 0.5, 0.25, 0.2), (1, 0.9, 0.8, 0.7)


@cache
def two_weeks() -> pa.Table:
    """A week in which lower positions are looked at seldom, and one in which they are not."""
    weeks = []
    for planted, other in ((EARLY, False), (LATE, True)):
        log = simulated_log(1, 40_000, planted, queries=20, swaps=2).log
        late = pa.compute.greater_equal(log["time"], pa.scalar("2026-01-08").cast("timestamp[us]"))
        weeks.append(log.filter(late if other else pa.compute.invert(late)))
    return pa.concat_tables(weeks)


def clicks_of(**options: Any) -> dict[str, Any]:
    return {"log": {"data": two_weeks(), "columns": {**COLUMNS, "clicked": "clicked"}}, **options}


POOLED = {"pool": "query_item", "rate": "coee", "prior": 1, "window": FIRST_WEEK}
HARVEST = {"method": "harvest", "positions": 4, "replicates": 30}


def propensities_of(clicks: dict[str, Any]) -> dict[int, float]:
    with sm.clicks.clean(sm.clicks.Clicks(**clicks)) as log:
        rows = log.estimate_propensities().curve.rows
    return {row.position: row.propensity for row in rows}


def near(planted: tuple[float, ...]) -> Any:
    return pytest.approx(dict(enumerate(planted, start=1)), rel=0.1)


@by_turns(1)
def test_propensities_are_learned_in_the_window_and_never_from_evaluated_days() -> None:
    in_window = clicks_of(labels=POOLED, evaluation=SECOND_WEEK, propensity=HARVEST)
    assert propensities_of(in_window) == near(EARLY)
    beside = clicks_of(evaluation=SECOND_WEEK, propensity=HARVEST)
    assert propensities_of(beside) == near(EARLY)
    assert propensities_of(clicks_of(evaluation=FIRST_WEEK, propensity=HARVEST)) == near(LATE)
    with pytest.raises(sm.InputError, match=r"none of 0 impressions of requests \(not from 2025"):
        propensities_of(clicks_of(evaluation={"start": "2025-01-01"}, propensity=HARVEST))


@by_turns(1.5)
def test_a_result_has_them_and_says_what_is_doubtful() -> None:
    spec = sm.Spec(
        clicks=clicks_of(labels=POOLED, evaluation=SECOND_WEEK, propensity=HARVEST),
        metrics=["ndcg(gain=linear)@4", "ctr"],
    )
    result = evaluate_clicks(spec)
    assert result.propensities is not None
    assert result.propensities.curve.at(2) == pytest.approx(0.5, rel=0.1)
    assert [row["position"] for row in result.to_dicts()["propensities"]] == [1, 2, 3, 4]
    assert "propensities (harvest): {1: 1, 2: 0." in result.text()
    assert "propensities (harvest)" in result.html()
    curve = {k: result.propensities.curve.at(k) for k in range(1, 5)}
    propensity = {"method": "given", "given": curve}
    again = evaluate_clicks(
        sm.Spec(
            clicks=clicks_of(labels=POOLED, evaluation=SECOND_WEEK, propensity=propensity),
            metrics=["ndcg(gain=linear)@4"],
        )
    )
    metric = "ndcg(gain=linear)@4"
    assert again.offline[metric] == pytest.approx(result.offline[metric], abs=1e-12)
    plain = evaluate_clicks(
        sm.Spec(
            clicks=clicks_of(labels={**POOLED, "rate": "ctr"}, evaluation=SECOND_WEEK),
            metrics=[metric],
        )
    )
    assert plain.propensities is None
    assert plain.offline[metric] != pytest.approx(result.offline[metric], abs=1e-4)


@by_turns(0.5)
def test_who_asks_for_no_label_needs_no_propensity() -> None:
    few = two_weeks().slice(0, 40)
    clicks = {"log": {"data": few, "columns": WIDE}, "propensity": HARVEST}
    clicks["labels"] = {"pool": "query_item", "rate": "ips"}
    assert evaluate_clicks(sm.Spec(clicks=clicks, metrics=["ctr"])).online().num_rows == 1
    with pytest.raises(sm.InputError, match="harvest cannot tell how often users look at"):
        evaluate_clicks(sm.Spec(clicks=clicks, metrics=["mrr(rel=0.1)"]))


def test_a_log_of_events_says_what_a_wide_one_does() -> None:
    log = two_weeks()
    clicked = log.filter(pa.compute.equal(log["clicked"], 1))
    actions = clicked.append_column("action", pa.array(["click"] * clicked.num_rows))
    columns = {"request": "request", "item": "item", "time": "time", "user": "user"}
    events = {
        "impressions": {"data": two_weeks(), "columns": COLUMNS},
        "events": {"data": actions, "columns": columns},
    }
    options = {"labels": POOLED, "evaluation": SECOND_WEEK, "propensity": HARVEST}
    assert propensities_of({**events, **options}) == pytest.approx(
        propensities_of(clicks_of(**options)), rel=1e-12
    )


def spec_of(**propensity: Any) -> sm.Spec:
    columns = {**COLUMNS, "clicked": "clicked", "segments": ["randomised"]}
    clicks = {
        "log": {"relation": "shown", "columns": columns},
        "labels": POOLED,
        "evaluation": SECOND_WEEK,
        "propensity": {"positions": 4, **propensity},
    }
    if propensity["method"] == "given":
        del clicks["propensity"]["positions"]
    return sm.Spec(
        name="log",
        clicks=clicks,
        metrics=["ndcg(gain=linear)@4"],
        output={"relation": "metrics"},
    )


def test_the_method_is_a_part_of_the_definition_and_the_number_of_samples_is_not() -> None:
    def definition(**propensity: Any) -> str:
        spec = spec_of(**propensity)
        return spec.definition_hash(spec.measures[0])

    first = definition(method="harvest")
    assert definition(method="harvest", replicates=7, confidence=0.5) == first
    definitions = [
        definition(method="em"),
        definition(method="harvest", pairs="adjacent"),
        definition(method="harvest", max_weight=3),
        definition(method="harvest", by="randomised"),
        definition(method="given", given={1: 1, 2: 0.5}),
        definition(method="given", given={1: 1, 2: 0.6}),
    ]
    assert len({first, *definitions}) == 7
    log = {"relation": "shown", "columns": WIDE}
    plain = sm.Spec(clicks={"log": log}, metrics=["mrr"])
    beside = sm.Spec(clicks={"log": log, "propensity": HARVEST}, metrics=["mrr"])
    hashes = {spec.definition_hash(spec.measures[0]) for spec in (plain, beside)}
    assert len(hashes) == 1, "labels that are not corrected do not know of propensities"


@by_turns(2)
def test_a_run_writes_what_an_evaluation_says() -> None:
    with connect() as engine:
        engine.load("shown", two_weeks())
        spec = spec_of(method="harvest")
        sm.run(spec, engine, start="2026-01-09", end="2026-01-11")
        rows = engine.records("select metric_date, value from metrics order by 1")
        daily = spec.clicks.model_copy(
            update={"daily": True, "evaluation": sm.Spec.model_validate(spec).clicks.evaluation}
        )
        result = evaluate_clicks(spec.having(clicks=daily, rankings=None, labels=None), engine)
        wanted = {str(row["metric_date"]): row["value"] for row in result.offline.to_dicts()}
    assert len(rows) == 2
    for row in rows:
        assert row["value"] == pytest.approx(wanted[str(row["metric_date"])], rel=1e-12)


def test_a_text_of_sql_has_what_needs_no_look_at_the_log() -> None:
    text = sm.compile(spec_of(method="given", given={1: 1, 2: 0.5}), "postgres")
    assert "-- propensity: method=given, given=1:1 2:0.5, by=none, max_weight=10" in text
    assert "2 as position,\n        0.5e0 as propensity" in text
    shuffled = sm.compile(spec_of(method="randomised", randomised="randomised = 1"), "clickhouse")
    assert "random_positions as (" in shuffled
    for method in ("harvest", "em"):
        with pytest.raises(sm.SpecError, match=f"by {method} are estimated while the log is read"):
            sm.compile(spec_of(method=method))


@by_turns(0.5)
def test_the_sql_of_random_traffic_gives_the_labels_of_an_evaluation() -> None:
    log = simulated_log(1, 20_000, EARLY, queries=10, randomised=0.5).log
    spec = spec_of(method="randomised", randomised="randomised = 1", replicates=0)
    with connect() as engine:
        engine.load("shown", log)
        wanted = evaluate_clicks(spec, engine).offline["ndcg(gain=linear)@4"]
        *statements, query = sm.compile(spec).rsplit(";\n\n", 1)
        for statement in "".join(statements).split(";\n\n"):
            engine.driver.execute(statement)
        (row,) = engine.driver.records(query.rstrip(";\n"))
    assert row["value"] == pytest.approx(wanted, rel=1e-12)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"labels": {"pool": "query_item", "rate": "ips"}}, r"add propensity: {method: harvest}"),
    ({"propensity": {"method": "harvest", "tolerance": 0.1}}, "tolerance: only for method em"),
    (
        {"propensity": {"method": "given"}},
        r"method given needs the propensities by position; write given: {1: 1, 2: 0.6}",
    ),
    ({"propensity": {"method": "randomised"}}, "needs randomised, a condition"),
    ({"propensity": {"method": "given", "given": {2: 0.5}}}, "relative to position 1; give it too"),
    ({"propensity": {"method": "given", "given": {1: 0}}}, "numbers above 0 .*given 1: 0"),
    ({"propensity": {"method": "harvest", "by": "device"}}, "given device; log.columns.segments"),
    ({"propensity": {"method": "given", "given": {"a": {1: 1}}}}, "by is not said"),
    ({"propensity": {"method": "harvested"}}, "'harvest' or 'em', given 'harvested'"),
    ({"propensity": {"methods": "em"}}, "did you mean 'method'"),
]


@pytest.mark.parametrize(("options", "why"), WRONG)
def test_what_is_wrong_is_told(options: dict[str, Any], why: str) -> None:
    with pytest.raises(sm.SpecError, match=why):
        sm.Spec(clicks={"log": {"relation": "shown", "columns": WIDE}, **options}, metrics=["mrr"])


@by_turns(1)
def test_the_line_prints_a_table_or_one_object_a_line(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    with connect() as engine:
        engine.load("shown", two_weeks().slice(0, 20_000))
        engine.execute(f"copy shown to '{file}'")
    call = ["clicks", "propensities", str(file)]
    table = CliRunner().invoke(cli, call)
    assert table.exit_code == 0, table.output
    assert "weakest link" in table.output
    rows = CliRunner().invoke(cli, [*call, "-o", "json", "-q"]).output.splitlines()
    records = [json.loads(row) for row in rows if row.startswith("{")]
    assert [record["position"] for record in records] == [1, 2, 3, 4]
    assert set(records[0]) == {"position", "propensity", "ci_low", "ci_high", "method"}


class Terminal(io.StringIO):
    """A stream on which something may be drawn."""

    def isatty(self) -> bool:
        """It says so."""
        return True


EM_SPEC = """
name: search
clicks:
  log: {file: log.parquet, columns: {request: request, query: query, item: item, clicked: clicked}}
  propensity: {method: em, positions: 4, replicates: 0, max_rounds: 3}
  labels: {pool: query_item, rate: ips}
metrics: [mrr(rel=0.1)]
output: {relation: metrics}
"""
WHERE_EM_RUNS = ["clicks propensities em.yml", "show em.yml", "run em.yml --db jobs.duckdb"]


@by_turns(2)
@pytest.mark.parametrize("call", WHERE_EM_RUNS)
def test_rounds_are_drawn_on_a_terminal_and_nowhere_else(call: str, tmp_path: Path) -> None:
    pq.write_table(two_weeks().slice(0, 20_000), tmp_path / "log.parquet")
    (tmp_path / "em.yml").write_text(EM_SPEC)
    outputs = {}
    for name, stream in (("terminal", Terminal()), ("file", io.StringIO())):
        with (
            chdir(tmp_path),
            patch.object(common, "WAIT", 0),
            redirect_stdout(io.StringIO()),
            redirect_stderr(stream),
        ):
            cli(call.split(), standalone_mode=False)
        outputs[name] = stream.getvalue()
    assert re.search(r"em round 3: log-likelihood -[\d,.]+, largest change", outputs["terminal"])
    assert "log-likelihood" not in outputs["file"]
    assert not logging.getLogger("sqlmetrics").handlers


ODD_SPEC = """
name: search
clicks:
  log:
    relation: shown
    columns: {request: request, query: query, item: item, clicked: clicked, system: system}
  propensity: {method: harvest, positions: 4, min_clicks: 1, replicates: 30}
  labels: {pool: query_item, rate: ips}
metrics: [ndcg(gain=linear)@4]
output: {relation: metrics}
"""
BEFORE_USE = [
    *("clicks odd.yml", "clicks odd.yml -o json", "clicks judgments odd.yml"),
    *("clicks propensities odd.yml", "show odd.yml -o csv", "run odd.yml"),
    *("compare odd.yml --unpaired", "diagnose odd.yml"),
]
REPORTS = {"clicks odd.yml", "clicks propensities odd.yml", *BEFORE_USE[-2:]}


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid of 9 places in which all are looked at alike, as good as at random."""
    folder, chance = tmp_path_factory.mktemp("odd"), random.Random(1)
    rows = [
        {
            "request": request,
            "query": f"q{request % 3}",
            "item": f"i{item}",
            "position": position,
            "clicked": int(chance.random() < 0.1),
            "system": "ab"[request % 2],
        }
        for request in range(200)
        for position, item in enumerate(chance.sample(range(9), 9), 1)
    ]
    with connect(str(folder / "shop.duckdb"), create=True) as engine:
        engine.load("loaded", pa.Table.from_pylist(rows))
        engine.execute("create table shown as select * from loaded")
    (folder / "odd.yml").write_text(ODD_SPEC)
    return folder


@by_turns(4)
@pytest.mark.parametrize("call", BEFORE_USE)
def test_that_correction_does_not_help_is_said_wherever_it_is_used(call: str, odd: Path) -> None:
    completed = sqlmetrics(*call.split(), "--db", "shop.duckdb", folder=odd)
    output = " ".join((completed.stdout if call in REPORTS else completed.stderr).split())
    assert "correction adds more noise" in output
    assert "55.6% of the impressions were below position 4" in output


@by_turns(0.9)
def test_what_cannot_be_corrected_is_told() -> None:
    propensity = {"method": "given", "given": {1: 1, 2: 0.05}}
    rows = [
        {"request": n, "query": "q", "item": f"i{k}", "position": k, "clicked": int(n % k == 1)}
        for n in range(30)
        for k in (1, 2)
    ]

    def warnings(clicked: bool, **changes: Any) -> str:
        clicked_rows = [row if clicked else row | {"clicked": 0} for row in rows]
        log = {"data": pa.Table.from_pylist(clicked_rows), "columns": COLUMNS_OF_FEW}
        with sm.clicks.clean(
            sm.clicks.Clicks(log=log, propensity={**propensity, **changes})
        ) as cleaned:
            return " ".join(cleaned.estimate_propensities().warnings())

    assert "none of the impressions with a known propensity was clicked" in warnings(False)
    assert "max_weight cuts off 50% of the weight of clicks" in warnings(True)
    assert "cuts off" not in warnings(True, max_weight=20)
    alike = warnings(True, given={1: 1, 2: 1})
    assert "there is nothing to correct: positions change the mean rate by only 0.0%" in alike
