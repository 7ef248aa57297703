"""Every number on every engine: hard data, every metric by every preset, option and shape."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from marked import by_turns, engines
from slices import commit, is_all, keep, kept

from engines.starting import STARTED, Servers
from sqlmetrics.cli import learn
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.proof import doctor
from sqlmetrics.proof.doctor import TOLERANCE, cases, examine, executed, tables
from sqlmetrics.sql.conformance import keep as record
from sqlmetrics.sql.conformance import trust
from sqlmetrics.sql.dialects import DIALECTS

LONGEST = {"googlesql": 40}
"""How long the longest list is, where it is not 1,000: this evaluator is made to be right."""

FEW = ("preset house", "days, segments", "refuses")
"""Cases that tell most of what there is to tell."""


def some(name: str) -> bool:
    return name.startswith(FEW)


def fewer(name: str) -> bool:
    return name.startswith(FEW[1:])


def examined(name: str, servers: Servers, only: Callable[[str], bool] | None = None) -> Any:
    engine = servers.open(name)
    opened: Database = Database(engine)
    with opened as database:
        return examine(database, only=only, longest=LONGEST.get(name, 1000))


SOME = engines(STARTED, now=["duckdb", "sqlite"])
SHARES_OF_METRICS = {"trino": 0.15}
"""The part of all metrics that some numbers are of, where a query is long thought about."""


@by_turns(1)
@pytest.mark.parametrize("name", SOME)
def test_some_numbers(name: str, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    share = 1.0 if is_all() else SHARES_OF_METRICS.get(name, 1.0)
    texts = kept(f"metrics on {name}", doctor.texts(), share)
    monkeypatch.setattr(doctor, "texts", lambda: texts)
    report = examined(name, servers, some if name == "duckdb" else fewer)
    assert report.failures == []
    assert report.compared > (12_000 if name == "duckdb" else 6_000 * share / 3)
    assert 0 < report.largest <= TOLERANCE


ANOTHER_DOOR = ("clickhouse_connect", "spark_connect")
"""Engines that another name stands for too."""

WHOLE_ENGINES = engines([name for name in STARTED if name not in ANOTHER_DOOR], now=[])
SHARES = {
    "chdb": 0.3,
    "datafusion": 0.3,
    "googlesql": 0.1,
    "mariadb": 0.3,
    "postgres": 0.08,
    "sail": 0.04,
    "spark": 0.08,
    "sqlite": 0.08,
    "trino": 0.04,
}
"""The part of all cases that a run asks slow ones; the seed chooses, by night it is all of them."""


@pytest.mark.parametrize("name", WHOLE_ENGINES)
def test_every_number(name: str, servers: Servers) -> None:
    share = 1.0 if os.environ.get("SQLMETRICS_ALL") == "1" else SHARES.get(name, 1.0)
    report = examined(name, servers, lambda case: keep(f"{name}: {case}", share))
    assert report.failures == []
    assert len(report.findings) >= 90 * share / 2
    assert report.compared > 130_000 * share / 3
    if share == 1:
        assert len(report.findings) >= 90
        assert report.compared > 130_000
    if share == 1 and os.environ.get("UPDATE_GOLDEN"):
        record({"chdb": "clickhouse"}.get(name, name), executed(report), commit())


def test_what_was_executed_is_told() -> None:
    """The label of every engine that is executed above, by the file that a run has left."""
    for name in ("duckdb", "sqlite", "postgres", "mariadb", "clickhouse", "spark", "datafusion"):
        assert trust(DIALECTS[name]).level == "executed", name
    for name in ("bigquery", "databricks", "mysql", "redshift", "snowflake"):
        assert trust(DIALECTS[name]).level == "executed on a similar engine", name
    for name in ("sail", "trino"):
        assert trust(DIALECTS[name]).level == "executed in part", name
    labels = {row[0]: row[2] for row in learn.table("dialects").rows}
    assert labels.keys() == DIALECTS.keys()


@pytest.mark.long
def test_every_case_is_asked_of_every_dialect_that_can() -> None:
    """What a dialect has not is left out by name, and nothing else is."""
    unlike = {name: DIALECTS[name] for name in ("duckdb", "mariadb", "snowflake", "sqlite")}
    case_names = {name: {case.name for case in cases(dialect)} for name, dialect in unlike.items()}
    for name, dialect in unlike.items():
        left_out = case_names["duckdb"] - case_names[name]
        assert left_out <= {"score_precision=float32", "no_relevant=nan"}
        assert ("score_precision=float32" in left_out) == (not dialect.has_float32)
        assert ("no_relevant=nan" in left_out) == (not dialect.has_nan)


def test_the_hard_data_is_hard() -> None:
    hard_tables = tables()
    rankings = hard_tables["rankings"].to_pandas()
    sizes = rankings.groupby(["system", "query_id"]).size()
    assert (sizes.min(), sizes.max()) == (1, 1000)
    assert {"a", "A", "a ", "á", "a\u0301"} <= set(rankings["item_id"])
    tied = rankings.groupby(["system", "query_id", "score"]).size()
    assert (tied > 1).sum() > 20
    zeros = rankings[rankings["score"] == 0]["score"]
    assert {str(zero) for zero in zeros} == {"0.0", "-0.0"}
    assert set(rankings["query_id"]) ^ set(hard_tables["labels"].to_pandas()["query_id"]) == {
        "not ranked",
        "not labelled",
    }


@by_turns(2)
def test_a_wrong_number_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the doctor says of a database whose logarithm is a little off."""
    with connect() as database:
        driver = database.driver
        for way in ("table", "execute", "rows", "records"):
            monkeypatch.setattr(driver, way, _off(getattr(driver, way)))
        report = examine(database, only=lambda name: name == "preset house", longest=100)
    (finding,) = report.failures
    assert "dcg" in finding.where
    assert "1 of them failed" in str(report)


def _off(ask: Callable[..., Any]) -> Callable[..., Any]:
    return lambda sql, *arguments: ask(sql.replace("ln(2e0)", "ln(2.00001e0)"), *arguments)
