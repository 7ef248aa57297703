"""What DuckDB's catalogue says of tables at once is what each of them says by itself."""

from __future__ import annotations

import duckdb
import pytest

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import EngineError, InputError

SETUP = """
create schema bi;
create table t (a integer, "B" varchar not null, c decimal(10, 2), d timestamptz);
create view v as select * from t;
alter table t add column e double;
create table bi.t2 (q double);
create table twice (a integer);
create table bi.twice (b integer);
create temporary table hidden (z integer);
"""
NAMES = ("t", "v", "bi.t2", "t2", "twice", "bi.twice", "hidden", "none", "bi.none", '"T"', "main.t")
NOWHERE = ["t2", "none", "bi.none"]
SURE = {"t", '"T"', "main.t", "bi.t2", "none", "bi.none"}
"""Of these the catalogue is believed; all others are asked by themselves."""


def test_tables_are_described_at_once_as_each_by_itself() -> None:
    with duckdb.connect() as user, connect(user) as engine:
        user.execute(SETUP)
        columns_by_name = {name: columns(engine, name) for name in NAMES}
        assert [name for name, types in columns_by_name.items() if not types] == NOWHERE
        described = engine.driver.described_tables(NAMES)
        assert described.keys() == SURE
        assert described == {name: columns_by_name[name] for name in described}
        with engine.reading():
            engine.look_up(NAMES)
            assert {name: columns(engine, name) for name in NAMES} == columns_by_name
            engine.execute("create table none (x integer)")
            assert columns(engine, "none") == {"x": "INTEGER"}, "what is made is there"


def columns(engine: Database, name: str) -> dict[str, str]:
    try:
        return dict(engine.columns(name))
    except InputError:
        return {}


def test_rows_are_counted_once_until_a_statement_runs() -> None:
    with duckdb.connect() as user, connect(user) as engine:
        user.execute("create table t as from range(3)")
        assert engine.count("t") == 3
        with engine.reading():
            assert engine.count("t") == 3
            user.execute("insert into t values (3)")
            assert engine.count("t") == 3
            engine.execute("insert into t values (4)")
            assert engine.count("t") == 5
        assert engine.count("t") == 5


def test_comments_and_the_like_are_all_made_or_none() -> None:
    with duckdb.connect() as user, connect(user) as engine:
        user.execute("create table t (a integer)")
        with pytest.raises((EngineError, InputError), match="none"):
            engine.execute_together(["insert into t values (1)", "insert into none values (1)"])
        assert engine.count("t") == 0
        engine.execute_together(["insert into t values (1)", "insert into t values (2)"])
        assert engine.count("t") == 2
