"""The same input gives the same files: whatever the order of its rows, the threads and the plan."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from clicks.counterfactual_logs import (
    COLUMNS,
    ESTIMATE_METRICS,
    SCORED,
    THETA,
    new_lists,
    small_log,
)
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.cli.output import emit_result
from sqlmetrics.engines.database import connect
from sqlmetrics.plan.per_query import MOST_EXACT
from sqlmetrics.sql.template import EXACT_SUM
from sqlmetrics.sql.translation import Translation

METRICS = ["ndcg@10", "mrr", "ap", "rbp", "err@10", "recall@5", "f1@3", "dcg@20"]
QUERIES = 600


def _files(folder: Path, seed: int) -> list[Path]:
    """The same rankings in three orders, in small row groups, which threads share."""
    connection = duckdb.connect()
    world = f"range({QUERIES}) as queries(q), range(25) as ranks(i), (values ('a'), ('b')) as s(s)"
    connection.execute(
        "create table rankings as select 'q' || q as query_id, s as system, 'i' || (i * 7 + "
        f"hash(q, {seed}) % 7) as item_id, hash(q, i, s, {seed}) % 1000 / 997 as score, "
        f"q % 3 as country, 1 / (1 + q % 13) as weight from {world}"
    )
    connection.execute(
        "copy (select query_id, item_id, hash(query_id, item_id) % 4 as grade from rankings where "
        "system = 'a' and hash(query_id, item_id, 5) % 3 = 0) to "
        f"'{folder / 'labels.parquet'}' (row_group_size 2048)"
    )
    files = [folder / name / "rankings.parquet" for name in ("sorted", "mixed", "turned")]
    orders = ("query_id, system, item_id", f"hash(query_id, item_id, system, {seed})", "score")
    for file, order in zip(files, orders, strict=True):
        file.parent.mkdir()
        connection.execute(
            f"copy (select * from rankings order by {order}) to '{file}' (row_group_size 2048)"
        )
    return files


def _written(file: Path, threads: int, plan: str, **options: Any) -> dict[str, bytes]:
    """The files of an evaluation: its means in each format, and the values of queries."""
    connection = duckdb.connect()
    connection.execute(f"set threads = {threads}")
    result = sm.evaluate(
        file,
        file.parents[1] / "labels.parquet",
        METRICS,
        system="system",
        plan=plan,
        per_query=True,
        connection=connection,
        **options,
    )
    folder = file.with_name(f"{threads}_{plan}")
    folder.mkdir()
    for form in ("csv", "json", "markdown", "parquet"):
        emit_result(result, False, form, str(folder / f"means.{form}"))
    emit_result(result, True, "csv", str(folder / "queries.csv"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@by_turns(6)
def test_an_evaluation_has_the_same_bits(tmp_path: Path) -> None:
    files = _files(tmp_path, random.randrange(1000))
    options = {"confidence": 0.9, "by": ["country"], "weight": "weight"}
    first = _written(files[0], 1, "window", **options)
    for file, threads, plan in (
        (files[0], 8, "window"),
        (files[1], 4, "window"),
        (files[2], 2, "window"),
        (files[1], 4, "lists"),
        (files[0], 4, "counts"),
    ):
        assert _written(file, threads, plan, **options) == first, (file.parent.name, threads, plan)


@by_turns(8)
@pytest.mark.parametrize(
    "options",
    [
        {"by": ["country"], "contributions": True, "movers": 3},
        {"test": "bootstrap", "replicates": 200, "weight": "weight"},
        {"unpaired": True, "cluster": "country"},
    ],
    ids=["t", "bootstrap", "unpaired"],
)
def test_a_comparison_has_the_same_bits(options: dict[str, Any], tmp_path: Path) -> None:
    files = _files(tmp_path, random.randrange(1000))
    results = set()
    for file, threads in ((files[0], 1), (files[1], 4), (files[2], 2)):
        connection = duckdb.connect()
        connection.execute(f"set threads = {threads}")
        comparison = sm.compare(
            file,
            file.parents[1] / "labels.parquet",
            ["ndcg@10", "ap", "rbp"],
            connection=connection,
            **options,
        )
        results.add(comparison.to_json() + comparison.markdown())
    assert len(results) == 1


@by_turns(3)
def test_click_models_and_estimates_of_new_lists_have_the_same_bits() -> None:
    seed = random.randrange(1000)
    log, lists = small_log(seed, 1500), new_lists(seed, [f"q{n}" for n in range(6)])
    question = {
        "rankings": {"data": pa.Table.from_pylist(lists), "columns": SCORED | {"system": "system"}},
        "match": "query",
        "metrics": ESTIMATE_METRICS,
        "clip": 4,
    }
    estimates, models = set(), set()
    for order in range(3):
        random.Random(order).shuffle(log)
        clicks = sm.clicks.Clicks(log={"data": pa.Table.from_pylist(log), "columns": COLUMNS})
        connection = duckdb.connect()
        connection.execute(f"set threads = {order + 1}")
        with sm.clicks.clean(clicks, connection) as cleaned:
            metrics = sm.clicks.counterfactual_metrics(cleaned, question, curve=THETA)
            estimates.add(repr(metrics.estimates))
            models.add(repr(sm.clicks.click_models(cleaned).to_dicts()))
    assert len(estimates) == 1
    assert len(models) == 1


def test_the_sum_is_exact_and_leaves_the_session_as_it_was() -> None:
    rng = random.Random(7)
    floats = [
        rng.choice([rng.random(), -rng.random() * 1e9, rng.random() * 1e-9, 1 / 3, -0.0])
        for _ in range(500)
    ]
    worlds = {
        "floats": (floats, math.fsum(floats)),
        "none": ([], None),
        "null": ([None, 0.25], 0.25),
        "tiny": ([1e-14, 2e-14, 1.0], 1 + 3e-14),
        "huge": ([1e300, 1e300], 2e300),
        "infinite": ([math.inf, 1.0], math.inf),
        "beyond whole numbers": ([1e19, 1.0], 1e19),
    }
    connection = duckdb.connect()
    with connect(connection) as engine:
        for name, (values, total) in worlds.items():
            rows = ", ".join(
                f"(cast({'null' if v is None else repr(v)!r} as double))" for v in values
            )
            source = f"(values {rows})" if rows else "(select 1e0 where false)"
            select = f"select {Translation(executes=True).total('x')} from {source} as t(x)"
            assert engine.rows(select.replace("'null'", "null"))[0][0] == total, name
        nan = f"select isnan({EXACT_SUM}(x)) from (values (cast('nan' as double)), (1e0)) as t(x)"
        assert engine.rows(nan) == [(True,)]
    macros = f"select count(*) from duckdb_functions() where function_name = '{EXACT_SUM}'"
    assert connection.execute(macros).fetchone() == (0,)


@by_turns(1.5)
def test_hundreds_of_cutoffs_are_planned_as_fast_as_before() -> None:
    connection = duckdb.connect()
    connection.execute("create table runs as select 1 as query_id, 2 as item_id, 0.5 as score")
    connection.execute("create table truth as select 1 as query_id, 2 as item_id, 1 as grade")
    for cutoffs, most in ((20, 60), (MOST_EXACT + 1, 10)):
        metrics = [f"ndcg@{k}" for k in range(1, cutoffs + 1)]
        result = sm.evaluate("runs", "truth", metrics, connection=connection)
        assert result["ndcg@7"] == 1
        assert 2 < result.executed_sql.count(f"{EXACT_SUM}(") < most, cutoffs


@by_turns(1.6)
def test_a_session_within_another_keeps_the_sum() -> None:
    connection = duckdb.connect()
    connection.execute("create table runs as select 1 as query_id, 2 as item_id, 0.5 as score")
    connection.execute("create table truth as select 1 as query_id, 2 as item_id, 1 as grade")
    with connect(connection) as engine:
        for database in (engine, connection, engine):
            assert sm.evaluate("runs", "truth", "mrr", connection=database)["mrr"] == 1
