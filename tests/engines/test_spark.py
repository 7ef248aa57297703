"""Spark over a partitioned folder of Parquet: DuckDB's numbers, and the plan that it chose."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlmetrics as sm
from engines.starting import SMALL
from sqlmetrics.engines.database import connect
from sqlmetrics.engines.spark import SETTINGS, STOPPED, Spark

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

METRICS = ["ndcg@10", "recall@100", "mrr"]
QUERIES, RESULTS = 60, 30

CLUSTER = """
import json, sys
from pyspark.sql import SparkSession
import sqlmetrics as sm
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
settings, metrics, *sources = map(json.loads, sys.argv[1:])
for name, value in settings.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
less = {"check": False, "per_query": False}
result = sm.evaluate(*sources, metrics, by="shard", connection=session, **less)
workers = session._jsc.sc().getExecutorMemoryStatus().size() - 1
print(json.dumps([workers, [[row["numerator"], row["n_queries"]] for row in result.to_dicts()]]))
session.stop()
"""

TWO = SMALL | {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.executor.extraJavaOptions": SMALL["spark.driver.extraJavaOptions"],
}
"""What the Spark of a driver and two workers is told."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rankings in partitions, and labels."""
    path = tmp_path_factory.mktemp("spark")
    rows = [(query, item) for query in range(QUERIES) for item in range(RESULTS)]
    rankings = {
        "query_id": [f"q{query}" for query, _ in rows],
        "item_id": [f"i{item}" for _, item in rows],
        "score": [float(query * 7 + item * 11 % 13) for query, item in rows],
        "shard": ["ab"[query % 2] for query, _ in rows],
    }
    some = [(query, item) for query, item in rows if (query + item) % 4 == 0]
    labels = {
        "query_id": [f"q{query}" for query, _ in some],
        "item_id": [f"i{item + 3}" for _, item in some],
        "grade": [item % 4 for _, item in some],
    }
    pq.write_to_dataset(pa.table(rankings), path / "rankings", partition_cols=["shard"])
    pq.write_to_dataset(pa.table(labels), path / "labels")
    return path


@pytest.fixture
def session(servers: Any) -> Any:
    return servers.connection("spark")


def sources(folder: Path) -> list[str]:
    return [f"select * from parquet.`{folder / name}`" for name in ("rankings", "labels")]


def on_duckdb(folder: Path) -> list[dict[str, Any]]:
    paths = [f"{folder / name}/" for name in ("rankings", "labels")]
    return sm.evaluate(*paths, METRICS, by="shard").to_dicts()


@contextmanager
def with_settings(session: Any, **extra: str) -> Iterator[None]:
    """The session as the engine sets it."""
    settings = SETTINGS | {f"spark.sql.{name}": value for name, value in extra.items()}
    before = {name: session.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    yield
    for name, value in before.items():
        session.conf.unset(name) if value is None else session.conf.set(name, value)


def plan_of(session: Any, text: str) -> str:
    return str(session.sql(text)._jdf.queryExecution().executedPlan().toString())


@pytest.fixture(scope="module")
def statements(folder: Path, servers: Any) -> list[str]:
    """What keeps the queries' values, the summary, the per-query table and the end."""
    session = servers.connection("spark")
    result = sm.evaluate(*sources(folder), METRICS, connection=session, check=False)
    return result.executed_sql.removesuffix(";\n").split(";\n\n")


def test_a_partitioned_folder_gives_what_duckdb_gives(folder, session):
    result = sm.evaluate(
        *sources(folder), METRICS, by="shard", connection=session, per_query=False
    ).to_dicts()
    wanted = on_duckdb(folder)
    assert len(wanted) == len(METRICS) * 3
    for ours, theirs in zip(result, wanted, strict=True):
        numbers = ("value", "numerator", "denominator", "sum_sq", "n_queries", "n_skipped")
        assert [ours[name] for name in numbers] == pytest.approx(
            [theirs[name] for name in numbers], abs=1e-9
        )
        assert [ours["metric"], ours["segment_value"]] == [
            theirs["metric"],
            theirs["segment_value"],
        ]


def test_without_per_query_only_the_summary_is_fetched(folder, session):
    less = {"check": False, "per_query": False}
    result = sm.evaluate(*sources(folder), METRICS, connection=session, **less)
    with pytest.raises(sm.SpecError, match="evaluate with per_query=True"):
        result.per_query()
    assert result["mrr"] == pytest.approx(on_duckdb(folder)[2]["value"], abs=1e-9)
    assert len(result.executed_sql.removesuffix(";\n").split(";\n\n")) == 3


def test_rows_move_once_by_query(statements, session):
    # no table is small enough to be sent to all: as it is with millions of rows
    many = {"autoBroadcastJoinThreshold": "-1", "shuffle.partitions": "2"}
    with with_settings(session, **many, **{"adaptive.enabled": "true"}):
        plan = plan_of(session, statements[0].partition("cache table sqlmetrics_per_query as\n")[2])
    assert "CartesianProduct" not in plan
    assert "BroadcastNestedLoopJoin" not in plan
    moved = re.findall(r"Exchange hashpartitioning\(([^)]*)\), (\w+)", plan)
    # the rankings once; the labels once for the join and once for their own order
    assert len(moved) == 3
    assert all(re.fullmatch(r"query_id#\d+, \d+", keys) for keys, _ in moved)


def test_the_summary_reads_what_was_kept(statements, session):
    keep, summary, per_query, drop = statements
    with with_settings(session):
        session.sql(keep)
        plans = [plan_of(session, text) for text in (summary, per_query)]
        session.sql(drop)
    for plan in plans:
        assert "Scan In-memory table sqlmetrics_per_query" in plan
        assert "CartesianProduct" not in plan


def test_a_cluster_of_two_workers_gives_what_duckdb_gives(folder, session):
    arguments = [json.dumps(argument) for argument in (TWO, METRICS, *sources(folder))]
    command = [sys.executable, "-c", CLUSTER, *arguments]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert completed.returncode == 0, completed.stderr
    workers, rows = json.loads(completed.stdout.splitlines()[-1])
    assert workers == 2
    wanted = [[row["numerator"], row["n_queries"]] for row in on_duckdb(folder)]
    assert [pytest.approx(row, abs=1e-9) for row in rows] == wanted


def test_frames_of_a_session_go_in_and_come_out(session):
    rows = [("q1", "a", 2.0, "x"), ("q1", "b", 1.0, "x"), ("q2", "a", 1.0, "y")]
    lists = session.createDataFrame(
        rows, "query_id string, item_id string, score double, country string"
    )
    labels = session.createDataFrame(
        [("q1", "b", 1), ("q2", "a", 2)], "query_id string, item_id string, grade int"
    )
    before = {table.name for table in session.catalog.listTables()}
    result = sm.evaluate(lists, labels, ["mrr"], by="country")
    assert [row["value"] for row in result.to_dicts()] == pytest.approx([0.75, 0.5, 1.0])
    lazy = result.to_spark()
    assert {table.name for table in session.catalog.listTables()} == before
    values = {row.segment_value: row.value for row in lazy.collect()}
    assert values == pytest.approx({"all": 0.75, "x": 0.5, "y": 1.0})
    assert result.to_spark(per_query=True).columns == ["system", "query_id", "mrr"]
    assert sm.compare({"a": lists, "b": lists}, labels, "mrr").to_dicts()[0]["difference"] == 0
    assert sm.evaluate(lists, labels, ["mrr"], connection="duckdb://")["mrr"] == 0.75
    of_arrow = sm.evaluate(lists.toArrow(), labels.toArrow(), ["mrr"], connection=session)
    with pytest.raises(sm.SpecError, match="needs tables, views or DataFrames of a Spark session"):
        of_arrow.to_spark()


@pytest.mark.parametrize(
    ("schema", "first", "second", "mrr"),
    [
        ("item_id array<string>", (["a", "b"],), (["a"],), 0.75),
        ("item_id array<string>, score array<double>", (["a", "b"], [1.0, 3.0]), (["a"], [1.0]), 1),
        ("item_id array<struct<id:string,score:double>>", ([("a", 1.0), ("b", 3.0)],),
         ([("a", 1.0)],), 1),
    ],
)  # fmt: skip
def test_arrays_are_lists(session, schema, first, second, mrr):
    lists = session.createDataFrame([("q1", *first), ("q2", *second)], f"query_id string, {schema}")
    labels = session.createDataFrame(
        [("q1", ["b"]), ("q2", ["a"])], "query_id string, item_id array<string>"
    )
    assert sm.evaluate(lists, labels, ["mrr"])["mrr"] == mrr


def test_lists_of_other_lengths_are_told(session):
    lists = session.createDataFrame(
        [("q1", ["a", "b"], [1.0])], "query_id string, item_id array<string>, score array<double>"
    )
    labels = session.createDataFrame([("q1", "b", 1)], "query_id string, item_id string, grade int")
    with pytest.raises(sm.InputError, match="make the lists of a row equally long"):
        sm.evaluate(lists, labels, ["mrr"])


def test_tables_that_no_day_can_be_replaced_of_are_refused(session):
    spec = sm.Spec(
        name="flat",
        rankings={"sql": "select 'q' as query_id, 'a' as item_id, 1e0 as score"},
        labels={"sql": "select 'q' as query_id, 'a' as item_id, 1 as grade"},
        metrics=["mrr"],
        output={"relation": "flat_metrics"},
    )
    sm.run(spec, session)
    session.sql("create table flat_copy using parquet as select * from flat_metrics")
    try:
        flat = spec.having(output={"relation": "flat_copy"})
        with pytest.raises(sm.SpecError, match="not partitioned by spec and metric_date"):
            sm.run(flat, session)
    finally:
        for name in ("flat_metrics", "flat_metrics_replaced", "flat_copy"):
            session.sql(f"drop table if exists {name}")


def test_the_cause_that_java_tells_is_in_the_message(session):
    with connect(session) as engine, pytest.raises(sm.EngineError) as error:
        engine.driver.execute(
            "create table nowhere using parquet location '/proc/none' as select 1 as a"
        )
    assert "calling o" not in str(error.value)
    assert "Mkdirs failed to create file:/proc/none" in str(error.value)


def test_a_stopped_session_is_one_line(session):
    class Context:
        _jsc = None

    class Stopped:
        _sc = Context()

    stopped = Spark(Stopped())
    with pytest.raises(sm.EngineError, match=f"the connection is lost: {STOPPED}"):
        stopped.__enter__()
