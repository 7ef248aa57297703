"""ClickHouse evaluates large tables in buckets of queries, in the memory that it may take."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from math import sin
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from marked import engines
from memory import evaluate as by_duckdb
from worlds import FEWER, World, by_sql, differences, worlds

import sqlmetrics as sm
from engines.starting import Servers
from sqlmetrics.catalog.measure import parse
from sqlmetrics.engines.clickhouse import SPILLS
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation import statistics

DOORS = engines(["chdb", "clickhouse_connect"], now=[])
CHDB = pytest.mark.parametrize("name", engines(["chdb"], now=[]))
DAYS = ("2026-01-01", "2026-01-02")
METRICS = ["ndcg@3", "recall@5", "ap", "overlap@2", "hit(average_over=either)@2"]
QUERIES = pa.table(
    {
        "query_id": [f"q{n}" for n in range(12)],
        "country": ["de", "fr", None] * 4,
        "weight": [float(1 + n % 5) for n in range(12)],
    }
)


def world() -> tuple[pa.Table, pa.Table]:
    """12 labelled queries, 11 with a list, of three systems on two days, one of which has few."""
    rankings, labels = [], []
    for day in DAYS:
        for n in range(12):
            key = {"ds": day, "query_id": f"q{n}"}
            for m in range(n % 5 + 2):
                labels.append({**key, "item_id": f"i{m}", "grade": (n + m) % 3})
                scores = {"a": 1.0, "b": 2.0} | ({"rare": 3.0} if n == 7 else {})
                for system, of in scores.items() if n < 11 else ():
                    fields = {"item_id": f"i{m}", "system": system, "score": sin(of * n + m)}
                    rankings.append({**key, **fields})
    return pa.Table.from_pylist(rankings), pa.Table.from_pylist(labels)


def in_buckets(number: int) -> Any:
    """As if memory held that part of the queries alone."""
    return patch.object(statistics, "ceil", lambda _: number)


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("absent", ["skip", "missing"])
def test_buckets_of_queries_give_duckdb_s_numbers(name: str, absent: str, servers: Servers) -> None:
    """Also of a system that most buckets have not, and of queries that nobody answered."""
    options: dict[str, Any] = {
        "system": "system",
        "date": "ds",
        "queries": QUERIES,
        "weight": "weight",
        "by": "country",
        "segments": "relevant_labels",
        "baseline": "a",
        "where": "item_id <> 'i5'",
        "absent_systems": absent,
        "confidence": 0.9,
    }
    duck = by_duckdb(*world(), METRICS, **options)
    with in_buckets(3):
        result = sm.evaluate(*world(), METRICS, connection=servers.open(name), **options)
    assert result.executed_sql.count("insert into ") == 2
    assert len(result.to_dicts()) == len(duck.to_dicts()) > 100
    for row, other in zip(result.to_dicts(), duck.to_dicts(), strict=True):
        assert row == {key: _about(value) for key, value in other.items()}
    rows, duck_rows = (_sorted(evaluation.per_query()) for evaluation in (result, duck))
    for row, other in zip(rows, duck_rows, strict=True):
        assert row == {key: _about(value) for key, value in other.items()}


def _about(value: object) -> object:
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


def _sorted(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: (row["metric_date"], row["system"], row["query_id"]))


@CHDB
@FEWER
@given(world=worlds(ties="id_asc"), number=st.integers(2, 4))
def test_buckets_of_random_worlds_give_the_same(
    name: str, servers: Servers, world: World, number: int
) -> None:
    """Also where a bucket is empty."""
    metrics = [text for text in world.metrics if not parse(text).metric.pooled]
    world = replace(world, metrics=[*metrics, "mrr"])
    connection = servers.connection(name)
    try:
        uncut = world.evaluated(connection)
    except sm.SqlmetricsError:  # what ClickHouse has not, like the vectors of items
        reject()
    with in_buckets(number):
        result = world.evaluated(connection)
    assert result.executed_sql.count("insert into ") == number - 1
    assert differences(by_sql(result), by_sql(uncut)) == []


@CHDB
@pytest.mark.parametrize(
    "asked",
    [
        {"metrics": ["auc", "mrr"]},
        {"metrics": ["mrr"], "queries": QUERIES, "weight": "weight", "segments": "traffic"},
    ],
)
def test_what_is_of_all_queries_together_is_not_cut(
    name: str, asked: dict[str, Any], servers: Servers
) -> None:
    asked = {"system": "system", "date": "ds", **asked}
    with in_buckets(3):
        result = sm.evaluate(*world(), connection=servers.open(name), **asked)
    assert "insert into " not in result.executed_sql
    duck = by_duckdb(*world(), **asked)
    assert [row["value"] for row in result.to_dicts()] == [
        _about(row["value"]) for row in duck.to_dicts()
    ]


@CHDB
@pytest.mark.parametrize("number", [1, 4])
def test_what_is_wrong_in_several_buckets_is_told_at_once(
    name: str, number: int, servers: Servers
) -> None:
    """With the same counts and examples, however many buckets there are."""
    rankings, labels = world()
    rankings = pa.concat_tables([rankings, rankings.slice(5, 40)])
    labels = pa.concat_tables([labels, labels.slice(7, 11)])
    options = {"system": "system", "date": "ds", "metrics": ["mrr"]}
    with pytest.raises(sm.InputError) as duck:
        by_duckdb(rankings, labels, **options)
    with in_buckets(number), pytest.raises(sm.InputError) as error:
        sm.evaluate(rankings, labels, connection=servers.open(name), **options)
    assert str(error.value) == str(duck.value)
    assert "more than once for the same query: 40" in str(error.value)


@pytest.mark.parametrize("name", DOORS)
def test_memory_is_put_back_and_says_how_many_buckets_there_are(
    name: str, servers: Servers
) -> None:
    rows = sum(table.num_rows for table in world())
    with Database(servers.open(name)) as engine:
        settings = ("max_memory_usage", *SPILLS)
        before = [engine.driver._in_force(setting) for setting in settings]
        reports: list[tuple[int, int, int]] = []
        options = {
            "system": "system",
            "date": "ds",
            "progress": lambda *progress: reports.append(progress),
        }
        with patch.object(statistics, "WINDOW_BYTES", 2.2e9 / rows):
            result = sm.evaluate(*world(), "mrr", connection=engine, memory="1 GB", **options)
        assert result.executed_sql.count("insert into ") == 4
        assert [report[:2] for report in reports] == [(number, 5) for number in range(1, 6)]
        assert [engine.driver._in_force(setting) for setting in settings] == before
        with pytest.raises(sm.SpecError, match="memory must be a size like 4GB, given 'much'"):
            sm.evaluate(*world(), "mrr", connection=engine, memory="much", **options)


READER = """
import sqlmetrics as sm
from chdb.session import Session
from unittest.mock import patch
from sqlmetrics.evaluation import statistics

session = Session()
numbers = "select 'q' || toString(number % 9) as query_id, toString(number) as item_id"
session.query(f"create view runs as {numbers}, number * 7 % 31 as score from numbers(90)")
session.query(f"create view labels as {numbers}, number % 3 as grade from numbers(45)")
session.query(
    "set join_use_nulls = 1, group_by_use_nulls = 1, aggregate_functions_null_for_empty = 1, "
    "prefer_column_name_to_alias = 1, union_default_mode = 'ALL', session_timezone = 'UTC', "
    "output_format_arrow_string_as_string = 1"
)
values = []
for setting in ("readonly = 0", "readonly = 1"):
    session.query(f"set {setting}")
    with patch.object(statistics, "ceil", lambda _: 3):
        found = sm.evaluate("runs", "labels", "ndcg@5", memory="1GB", connection=session)
    values.append((found["ndcg@5"], found.executed_sql.count("insert into ")))
(one, cut), (other, whole) = values
assert abs(one - other) < 1e-12 and (cut, whole) == (2, 0), values
"""
"""`readonly = 1` lasts as long as the session: in a process of its own."""


@CHDB
def test_a_user_who_may_only_read_evaluates_in_one_statement(name: str, servers: Servers) -> None:
    servers.connection(name)
    command = [sys.executable, "-c", READER]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
