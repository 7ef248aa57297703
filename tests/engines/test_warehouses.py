"""`evaluate` on every engine: what must mean the same there, and what goes wrong there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from marked import by_turns
from memory import evaluate
from slices import kept

import sqlmetrics as sm
from engines.server import REQUIRED
from engines.starting import STARTED, Servers
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import EngineError, InputError, SpecError, SqlmetricsError
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.proof.doctor import examine

ENGINES = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in STARTED]
LOADED = ("duckdb", "sqlite", "postgres", "mariadb", "chdb", "spark")
"""Engines in which tables can be made by any name."""

METRICS = ["mrr", "precision@3", "judged@2", "dcg@3", "first_rank", "ndcg@3"]
COUNTS = ["num_q", "num_ret", "auc"]

LISTS: dict[str, dict[str, float]] = {
    "minus zero": {"b": 0.0, "a": -0.0},
    "case": {"A": 4, "a ": 3, "á": 2, "a": 1},
    "order": {"9": 1, "10": 1, "B": 1, "a": 1},
    "third": {"x": 3, "y": 2, "z": 1},
    "join": {"x": 2, "y": 1},
    "no hit": {"x": 2, "y": 1},
}
LABELS: dict[str, dict[str, float]] = {
    "minus zero": {"b": 1},
    "case": {"a": 1},
    "order": {"9": 2},
    "third": {"y": 1},
    "join": {"x": 0, "never shown": 3},
    "no hit": {"x": 0, "y": 0},
    "no list": {"x": 1},
}

Numbers = dict[str, dict[str, float | None]]


def rows(of: dict[str, dict[str, float]], value: str) -> pa.Table:
    triples = [
        (query, item, number) for query, by_item in of.items() for item, number in by_item.items()
    ]
    queries, items, numbers = zip(*triples, strict=True)
    return pa.table(
        {"query_id": queries, "item_id": items, value: pa.array(map(float, numbers), pa.float64())}
    )


@pytest.fixture(scope="module")
def results(servers: Servers) -> Callable[[str], sm.Result]:
    """What an engine makes of all metrics, asked for once."""

    @cache
    def result_of(name: str) -> sm.Result:
        tables = rows(LISTS, "score"), rows(LABELS, "grade")
        return sm.evaluate(*tables, METRICS + COUNTS, connection=servers.open(name))

    return result_of


@pytest.fixture(scope="module")
def answers(results: Callable[[str], sm.Result]) -> Callable[[str], Numbers]:
    """The values of each query on an engine."""

    def values_of(name: str) -> Numbers:
        return {row["query_id"]: row for row in results(name).per_query().to_pylist()}

    return values_of


@pytest.mark.parametrize("name", ENGINES)
def test_minus_zero_ties_with_zero(name: str, answers: Callable[[str], Numbers]) -> None:
    assert answers(name)["minus zero"]["mrr"] == 1 / 2  # a comes first, whatever its sign


@pytest.mark.parametrize("name", ENGINES)
def test_ids_are_equal_only_if_their_bytes_are(
    name: str, answers: Callable[[str], Numbers]
) -> None:
    assert answers(name)["case"]["mrr"] == 1 / 4
    assert answers(name)["case"]["judged_at_2"] == 0


@pytest.mark.parametrize("name", ENGINES)
def test_ties_are_in_the_order_of_bytes(name: str, answers: Callable[[str], Numbers]) -> None:
    assert answers(name)["order"]["first_rank"] == 2  # 10, 9, B, a


@pytest.mark.parametrize("name", ENGINES)
def test_a_division_is_none_of_whole_numbers(name: str, answers: Callable[[str], Numbers]) -> None:
    assert answers(name)["third"]["precision_at_3"] == pytest.approx(1 / 3, rel=1e-15)


@pytest.mark.parametrize("name", ENGINES)
def test_what_a_join_does_not_find_is_null(name: str, answers: Callable[[str], Numbers]) -> None:
    assert answers(name)["join"]["judged_at_2"] == 1 / 2
    assert answers(name)["join"]["dcg_at_3"] == 0


@pytest.mark.parametrize("name", ENGINES)
def test_a_sum_of_nothing_is_told_from_0(name: str, answers: Callable[[str], Numbers]) -> None:
    assert answers(name)["no hit"]["first_rank"] is None
    assert answers(name)["no hit"]["ndcg_at_3"] is None
    assert answers(name)["no hit"]["dcg_at_3"] == 0
    assert answers(name)["no list"]["mrr"] == 0
    assert answers(name)["no list"]["first_rank"] is None


@pytest.mark.parametrize("name", ENGINES)
def test_branches_of_other_types_are_one_column(
    name: str, results: Callable[[str], sm.Result]
) -> None:
    """Counts, ranks and means in the long summary, texts beside them."""
    result = results(name)
    tables = rows(LISTS, "score"), rows(LABELS, "grade")
    wanted = on_duckdb("branches", *tables, METRICS + COUNTS)
    assert result.summary().schema == wanted.summary().schema
    assert [row["value"] for row in result.to_dicts()] == pytest.approx(
        [row["value"] for row in wanted.to_dicts()], rel=1e-9
    )


@pytest.mark.parametrize("name", ENGINES)
def test_null_and_nan_scores_are_refused(name: str, servers: Servers) -> None:
    for score in kept(f"no score {name}", (None, float("nan")), 0.4):
        lists = pa.table(
            {"query_id": ["case"], "item_id": ["a"], "score": pa.array([score], pa.float64())}
        )
        with pytest.raises(InputError, match=r"NULL|NaN"):
            sm.evaluate(lists, rows(LABELS, "grade"), "mrr", connection=servers.open(name))


NAMES = {
    "hostile": ('q"u`ery', "it;em --", "sc'ore", "select %s"),
    "values": ("user", "current_date", "localtime", "current_user"),
    "words": ("order", "system", "rank", "group"),
}
"""What the columns of queries, items, scores and countries are called."""

VALUES = ["o'x", "'; drop table x; --", 'a"b', "\\", "%s {0} \\'", None]


def on_duckdb(key: str, *tables_and_metrics: Any, **options: Any) -> sm.Result:
    """What DuckDB gives, asked for once."""
    if key not in WANTED:
        WANTED[key] = evaluate(*tables_and_metrics, **options)
    return WANTED[key]


WANTED: dict[str, sm.Result] = {}


def on_engines(label: str, values: Iterable[Any], engines: Iterable[str] = STARTED) -> list[Any]:
    """Every engine with some of the values, by slices; with the others in long runs."""
    cells = []
    for engine in engines:
        mine = kept(f"{label} {engine}", values, 0.2)
        for value in values:
            marks = [pytest.mark.xdist_group(engine), *[pytest.mark.long] * (value not in mine)]
            cells.append(pytest.param(engine, value, marks=marks))
    return cells


@pytest.mark.parametrize(("name", "kind"), on_engines("names", NAMES))
def test_names_and_values_only_name(name: str, kind: str, servers: Servers) -> None:
    query, item, score, country = NAMES[kind]
    lists = rows(LISTS, "score")
    segments = [VALUES[list(LISTS).index(query)] for query in lists["query_id"].to_pylist()]
    lists = lists.append_column("country", pa.array(segments, pa.string()))
    lists = lists.rename_columns([query, item, score, country])
    options: dict[str, Any] = {
        "query": query,
        "item": item,
        "score": score,
        "by": country,
        "label_columns": {"query": "query_id", "item": "item_id"},
    }
    labels = rows(LABELS, "grade")
    metrics = ["mrr", "ndcg@3"]
    actual = sm.evaluate(
        lists, labels, metrics, connection=servers.open(name), **options
    ).to_dicts()
    wanted = on_duckdb(f"names {kind}", lists, labels, metrics, **options).to_dicts()
    assert [row["segment_value"] for row in actual] == [row["segment_value"] for row in wanted]
    for row, other in zip(actual, wanted, strict=True):
        assert row["value"] == (None if other["value"] is None else pytest.approx(other["value"]))


@pytest.mark.parametrize(
    ("name", "tables"),
    on_engines("stages", [("ranked", "ideal"), ("Summary", "per_query")], LOADED),
)
def test_tables_may_be_called_as_stages_are(
    name: str, tables: tuple[str, str], servers: Servers
) -> None:
    lists, labels = rows(LISTS, "score"), rows(LABELS, "grade")
    with servers.open(name) as engine:
        for table, data in zip(tables, (lists, labels), strict=True):
            engine.load(table, data)
        try:
            result = sm.evaluate(*tables, METRICS, connection=engine)
        finally:
            for table in tables:
                quoted = engine.quoted(f'"{table}"')
                engine.execute(f"drop table if exists {quoted}")
    wanted = on_duckdb("stages", lists, labels, METRICS)
    for metric in METRICS:
        assert result[metric] == pytest.approx(wanted[metric], rel=1e-9)


INJECTIONS = (
    "1 = 1) or (1 = 1",
    "1 = 1; drop table labels",
    "1 = 1 -- ",
    "1 = 1 /*",
    "1 = 1 union select 1",
    "score > 0) as x; select (1",
    "'\\' = '",
)


@pytest.mark.parametrize("name", ENGINES)
def test_hostile_conditions_fail_cleanly(name: str, servers: Servers) -> None:
    with Database(servers.open(name)) as engine:
        labels = engine.register("labels", rows(LABELS, "grade"))
        for where in INJECTIONS:
            try:
                lists, options = rows(LISTS, "score"), {"where": where, "connection": engine}
                result = sm.evaluate(lists, labels, "num_q", **options)
            except SqlmetricsError:
                continue
            assert where.endswith("-- ")  # a comment at the end is no harm
            assert result["num_q"] == len(LABELS)
        count = engine.rows(f"select count(*) from {labels}")[0][0]
    assert count == sum(map(len, LABELS.values()))


@by_turns(2.5)
@pytest.mark.parametrize("name", ENGINES)
def test_numbers_that_are_texts_are_refused(name: str, servers: Servers) -> None:
    lists = pa.table({"query_id": ["case"], "item_id": ["a"], "score": ["7"]})
    with servers.open(name) as engine:
        held = engine.register("texts", lists)
        labels = engine.register("labels", rows(LABELS, "grade"))
        if engine.dialect == "duckdb":
            assert sm.evaluate(held, labels, "num_q", connection=engine)["num_q"] == 7
            return
        with pytest.raises(InputError, match="used as score, a number, but has the type VARCHAR"):
            sm.evaluate(held, labels, "mrr", connection=engine)


@pytest.mark.parametrize("name", ENGINES)
def test_a_missing_table_is_told(name: str, servers: Servers) -> None:
    spec = sm.Spec(
        rankings={"relation": "nowhere"}, labels={"relation": "nothing"}, metrics=["mrr"]
    )
    with connect(servers.open(name)) as engine:
        tables = opened(spec, engine)
        with pytest.raises(InputError, match="nowhere"):
            run(spec, tables, engine)


@pytest.mark.parametrize(
    "text",
    [
        "ndcg(rel=1; drop table labels)@3",
        "rbp(p=0.5) or 1=1",
        "ndcg@3 -- ",
        "recall@1;1",
    ],
)
def test_hostile_metrics_are_refused(text: str) -> None:
    with pytest.raises(SpecError):
        sm.Spec(rankings={"relation": "r"}, labels={"relation": "l"}, metrics=[text])


def test_an_unknown_object_is_no_connection() -> None:
    with pytest.raises(SpecError, match=r"unknown connection: builtins\.int"):
        sm.evaluate([], [], "mrr", connection=7)


# -- PostgreSQL: collations, privileges, lost connections --------------------------------


@pytest.fixture
def postgres(servers: Servers) -> str:
    return str(servers.connection("postgres"))


def _statements(url: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def people(postgres: str) -> Iterator[str]:
    """A database that sorts like people do: 'a' < 'B', which their bytes are not."""
    import psycopg

    statement = "create database people template template0 encoding 'utf8' locale 'en_US.utf8'"
    try:
        _statements(postgres, "drop database if exists people", statement)
    except psycopg.Error as error:
        remedy = "apt-get install locales, localedef -i en_US -f UTF-8 en_US.UTF-8"
        (pytest.fail if REQUIRED else pytest.skip)(
            f"no locale en_US ({error}); get it by: {remedy}"
        )
    url = postgres.replace("/postgres?", "/people?")
    with psycopg.connect(url) as connection:
        assert connection.execute("select 'a' < 'B'").fetchone() == (True,)
    yield url
    _statements(postgres, "drop database people")


@by_turns(1.3)
@pytest.mark.xdist_group("postgres")
def test_a_database_that_sorts_like_people_do(people: str) -> None:
    with connect(people) as engine:
        report = examine(engine, only=lambda name: name == "preset house")
    assert report.failures == []
    result = sm.evaluate(rows(LISTS, "score"), rows(LABELS, "grade"), METRICS, connection=people)
    values = {row["query_id"]: row for row in result.per_query().to_pylist()}
    assert values["order"]["first_rank"] == 2


RANKED = "select 'q' as query_id, 'b' as item_id, 1e0::float8 as score"


@pytest.fixture
def reader(postgres: str) -> Any:
    """A connection that may read two tables, and nothing else."""
    import psycopg

    _statements(
        postgres,
        "drop schema if exists shop cascade",
        "create schema shop",
        f"create table shop.rankings as {RANKED}",
        "create table shop.labels as select 'q' as query_id, 'b' as item_id, 1 as grade",
        "create table shop.secret as table shop.labels",
        "drop role if exists reader",
        "create role reader",
        "grant usage on schema shop to reader",
        "grant select on shop.rankings, shop.labels to reader",
        "revoke temporary on database postgres from public",
    )
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("set role reader")
        yield connection
    _statements(postgres, "drop schema shop cascade", "drop role reader")


@pytest.mark.xdist_group("postgres")
def test_select_rights_are_enough(reader: Any) -> None:
    result = sm.evaluate("shop.rankings", "shop.labels", ["mrr", "auc"], connection=reader)
    assert result["mrr"] == 1
    assert "create" not in result.executed_sql


@by_turns(0.5)
@pytest.mark.xdist_group("postgres")
def test_the_recipe_for_a_traces_table_gives_the_numbers_of_its_page(postgres: str) -> None:
    import psycopg

    page = Path(__file__).parents[2] / "docs" / "how-to" / "traces.md"
    (recipe,) = re.findall(r"^```postgresql\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    *views, number = recipe.strip().split(";\n\n")
    listed = """[{"id": "reset"}, {"id": "login"}, {"id": "sso"}]', '["sso", "reset"]"""
    mistaken = """[{"id": "login"}, {"id": "delete"}]', '["delete"]"""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("create schema recipe; set search_path to recipe")
        connection.execute("create table traces (trace_id text, documents jsonb, expected jsonb)")
        connection.execute(
            f"insert into traces values ('t1', '{listed}'), ('t2', '[]', '[\"invoices\"]'),"
            f" ('t3', '{mistaken}'), ('t4', '[{{\"id\": \"login\"}}]', 'null'), ('t5', '[]', null)"
        )
        for view in views:
            connection.execute(view)
        assert connection.execute(number).fetchone() == (0.5, 3)
        result = sm.evaluate(
            "rankings", "labels", ["recall@2", "mrr"], rank="rank", connection=connection
        )
        connection.execute("drop schema recipe cascade")
    assert (result["recall@2"], result["mrr"]) == (0.5, 0.5)


@pytest.mark.xdist_group("postgres")
def test_a_missing_privilege_is_told(reader: Any) -> None:
    with pytest.raises(
        EngineError, match=r"a privilege is missing \(SELECT\): permission denied.*secret"
    ):
        sm.evaluate("shop.rankings", "shop.secret", "mrr", connection=reader)


@pytest.mark.xdist_group("postgres")
def test_a_lost_connection_is_told(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        me = connection.info.backend_pid
        _statements(postgres, f"select pg_terminate_backend({me})")
        with pytest.raises(EngineError, match="the connection is lost"):
            sm.evaluate("rankings", "labels", "mrr", connection=connection)


@by_turns(2.7)
@pytest.mark.xdist_group("postgres")
def test_the_command_line_names_the_file_of_the_sql_that_failed(
    postgres: str, tmp_path: Path
) -> None:
    _statements(
        postgres,
        "drop schema if exists shop2 cascade",
        "create schema shop2",
        f"create table shop2.rankings as {RANKED}",
        "create view shop2.labels as "
        "select 'q' as query_id, 'b' as item_id, 1 / (random() < 0)::int as grade",
    )
    line = ["evaluate", "shop2.rankings", "shop2.labels", "-m", "mrr", "--connection", postgres]
    completed = subprocess.run(
        [sys.executable, "-m", "sqlmetrics", *line],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert completed.returncode == 3
    assert "division by zero" in completed.stderr
    file = Path(completed.stderr.strip().rsplit("the SQL: ", 1)[1])
    assert "select" in file.read_text("utf-8")
    file.unlink()
    completed = subprocess.run(
        [sys.executable, "-m", "sqlmetrics", "--errors", "json", *line],
        capture_output=True,
        text=True,
        check=False,
    )
    error = json.loads(completed.stderr)
    assert error["exit_code"] == 3
    Path(error["sql"]).unlink()
    _statements(postgres, "drop schema shop2 cascade")


# -- MariaDB: the collation of most servers ----------------------------------------------


@by_turns(1)
@pytest.mark.xdist_group("mariadb")
def test_a_collation_that_ignores_case_does_not_merge_ids(servers: Servers) -> None:
    with servers.open("mariadb") as engine:
        engine.execute(
            "create or replace table loose "
            "(query_id varchar(20), item_id varchar(20), score double) "
            "character set utf8mb4 collate utf8mb4_general_ci"
        )
        engine.execute(
            "insert into loose values ('case', 'A', 4), ('case', 'a ', 3), ('case', 'a', 1)"
        )
        result = sm.evaluate("loose", rows(LABELS, "grade"), ["mrr"], connection=engine)
        values = {row["query_id"]: row["mrr"] for row in result.per_query().to_pylist()}
    assert values["case"] == 1 / 3
