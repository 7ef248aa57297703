"""Table macros: the same numbers as `evaluate`, from a client without Python."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from job_files import client
from marked import by_turns, sliced
from memory import evaluate

import sqlmetrics as sm
from sqlmetrics.catalog.metric import Metric
from sqlmetrics.cli import cli
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.macros import VALUES, Macro, install, macros, text

pytestmark = by_turns(0.25)

CUTOFFS: dict[str, list[int | None]] = {
    "none": [None],
    "required": [1, 3, 10, 1_000],
    "optional": [None, 1, 3, 10],
}


def named(macro: Macro) -> str:
    return macro.name


def tables(seed: int = 3) -> tuple[pa.Table, pa.Table]:
    """Lists with ties, of 1 to 11 items, and labels also of queries without a list."""
    chance = random.Random(seed)
    rankings = [
        {"query_id": f"q{q}", "item_id": f"i{i}", "score": float(chance.randrange(5))}
        for q in range(30)
        for i in range(chance.randrange(1, 12))
    ]
    labels = [
        {"query_id": f"q{q}", "item_id": f"i{i}", "grade": chance.randrange(4) * (q % 7 > 0)}
        for q in range(33)
        for i in range(8)
    ]
    return pa.Table.from_pylist(rankings), pa.Table.from_pylist(labels)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        for name, rows in zip(("runs", "truth"), tables(), strict=True):
            opened.register(name, rows)
        install(connect(opened))
        yield opened


def called(connection: duckdb.DuckDBPyConnection, macro: Macro, k: int | None) -> list[Any]:
    last = "" if k is None else f", {k}"
    return connection.execute(f"from {macro.name}('runs', 'truth'{last})").fetchall()


def texts(metric: Metric) -> dict[int | None, str]:
    """Cutoff -> the metric's text."""
    return {k: metric.name + (f"@{k}" if k else "") for k in CUTOFFS[metric.cutoff]}


@cache
def evaluated() -> sm.Result:
    """What `evaluate` gives for all of them."""
    metrics = {macro.metric.name: macro.metric for macro in macros()}
    metric_texts = [text for metric in metrics.values() for text in texts(metric).values()]
    return evaluate(*tables(), metric_texts, cell="macros")


@pytest.mark.parametrize("macro", sliced("macro", 0.25, macros(), attrgetter("name")), ids=named)
def test_a_macro_is_what_evaluate_gives(connection: Any, macro: Macro) -> None:
    result = evaluated()
    for k, metric in texts(macro.metric).items():
        measure = result.spec.measure(metric)
        actual = called(connection, macro, k)
        if macro.of_queries:
            rows = result.per_query().to_pylist()
            wanted = {row["query_id"]: row[measure.column] for row in rows}
            by_query = dict(actual)
            assert by_query.keys() == wanted.keys()
            assert [q for q, value in wanted.items() if by_query[q] != near(value)] == []
        else:
            (row,) = (
                row
                for row in result.to_dicts()
                if (row["metric"], row["k"]) == (measure.name, measure.k or 0)
            )
            assert list(actual[0]) == [near(row[name]) for name in VALUES]


def near(value: Any) -> Any:
    return value if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)


def test_tables_may_be_called_like_our_stages(connection: Any) -> None:
    """The docs say `from ndcg('rankings', 'labels', 10)`: also where they are called so."""
    wanted = pytest.approx(connection.execute("from ndcg('runs', 'truth', 10)").fetchone())
    for rankings, labels in (("rankings", "labels"), ("per_query", "summary"), ("ranked", "ideal")):
        connection.execute(f"create or replace table {rankings} as from runs")
        connection.execute(f"create or replace table {labels} as from truth")
        actual = connection.execute(f"from ndcg('{rankings}', '{labels}', 10)").fetchone()
        assert actual == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("insert into r select * from r limit 1", "an item stands more than once in a list of r"),
        ("update r set score = 'nan' where item_id = 'i1'", "a row without query, item or score"),
        ("update r set item_id = null where item_id = 'i1'", "a row without query, item or score"),
        ("insert into l select * from l limit 1", "more than once under the same query of l"),
        ("update l set grade = -1 where item_id = 'i1'", "with a grade below 0, in l"),
        ("update l set grade = null where item_id = 'i1'", "a row without query, item or grade"),
    ],
)
def test_no_wrong_number_in_silence(connection: Any, change: str, message: str) -> None:
    connection.execute("create or replace table r as from runs")
    connection.execute("create or replace table l as from truth")
    assert connection.execute("from ndcg('r', 'l', 10)").fetchone()[0] > 0
    connection.execute(change)
    for call in ("ndcg('r', 'l', 10)", "mrr('r', 'l')", "ap_of_queries('r', 'l')"):
        with pytest.raises(duckdb.Error, match=message):
            connection.execute(f"from {call}").fetchall()


@pytest.mark.parametrize("k", ["0", "-1", "null"])
def test_a_cutoff_is_1_or_more(connection: Any, k: str) -> None:
    with pytest.raises(duckdb.Error, match="the cutoff must be 1 or more"):
        connection.execute(f"from ndcg('runs', 'truth', {k})").fetchall()


def test_the_command_and_another_client(tmp_path: Path) -> None:
    """DuckDB's own command may be older than the module: the file is made for it."""
    file = tmp_path / "metrics.duckdb"
    older = {"storage_compatibility_version": "v1.4.0"}
    with duckdb.connect(str(file), config=older) as database:
        for name, rows in zip(("runs", "truth"), tables(), strict=True):
            database.register("held", rows)
            database.execute(f"create table {name} as from held")
    result = CliRunner().invoke(cli, ["install", str(file)])
    assert result.exit_code == 0, result.output
    assert "from ndcg('rankings', 'labels', 10)" in result.stdout
    query = "select round(value, 12) as value from ndcg('runs', 'truth', 10)"
    command = [client("duckdb"), "-readonly", "-noheader", "-list", str(file), query]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert float(output) == pytest.approx(sm.evaluate(*tables(), "ndcg@10")["ndcg@10"], abs=1e-12)


@by_turns(0.8)
def test_the_text_is_a_script() -> None:
    assert text() == CliRunner().invoke(cli, ["install", "none", "--print"]).stdout
    with duckdb.connect() as database:
        database.execute(text())
        database.execute(text())
        count = "select count(*) from duckdb_functions() where not internal"
        assert database.execute(count).fetchone() == (len(list(macros())),)
