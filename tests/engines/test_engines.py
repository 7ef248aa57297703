"""What is promised of every engine, once for all of them."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import date, datetime
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.engines.failure import ABSENT, DENIED, LOST, TYPE, StatementError
from sqlmetrics.engines.registry import open_driver
from sqlmetrics.errors import EngineError, InputError

IDS = ["a", "A", "a ", " a", "á", "a\u0301", "ß", "ss", "😀", "10", "9", "", "x" * 1000]
NASTY = ["q'uote", 'dou"ble', "back`tick", "back\\slash", "new\nline", "tab\t", "\r\n", "%s", "--;"]
TEXTS = [*IDS, *NASTY, "NULL", "\\N", "nan", None]
NAMES = ["select", "a b", "we`ird\\", 'q"uote', "é", "x;--"]


def hard() -> pa.Table:
    """One column per kind, with what is easily lost."""
    rows = len(TEXTS)
    numbers = [2**53 + 1, -(2**63), 2**63 - 1, 0, None]
    floats = [-0.0, 0.1, 1 / 3, 1e300, 5e-324, -1.5, None, 2.0, 1e15, 123456789.123456789]
    days = [date(1970, 1, 1), date(1900, 2, 28), date(2024, 2, 29), None]
    return pa.table(
        {
            "n": pa.array(range(rows), pa.int64()),
            "id": pa.array(TEXTS, pa.string()),
            "whole": pa.array((numbers * rows)[:rows], pa.int64()),
            "value": pa.array((floats * rows)[:rows], pa.float64()),
            "day": pa.array((days * rows)[:rows], pa.date32()),
            "flag": pa.array(([True, False, None] * rows)[:rows], pa.bool_()),
        }
    )


def read(engine: Any, name: str, columns: str = "*", rest: str = "order by n") -> pa.Table:
    return engine.table(f"select {columns} from {engine.quoted(name)} {rest}")


@by_turns(1.6)
def test_hard_data_comes_back_as_it_was(engine):
    name = engine.register("hard", hard())
    back = read(engine, name)
    assert back.column_names == hard().column_names
    types = [field.type for field in back.schema]
    if engine.name not in ("MariaDB",):  # its booleans are numbers
        assert types == hard().schema.types
    assert back.to_pydict() == hard().to_pydict()


def test_the_sign_of_zero_is_kept_or_zero_is_plain(engine):
    name = engine.register("signs", pa.table({"n": [1], "value": [-0.0]}))
    sign = math.copysign(1, read(engine, name)["value"][0].as_py())
    assert sign == (1 if engine.name in ("SQLite", "MariaDB") else -1)


def test_nan_is_kept_or_refused(engine):
    data = pa.table({"n": [1, 2, 3], "value": [math.nan, math.inf, -math.inf]})
    if not engine.holds_nan:
        with pytest.raises(InputError, match="column 'value' has NaN or infinity"):
            engine.register("nans", data)
        return
    values = read(engine, engine.register("nans", data))["value"].to_pylist()
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, -math.inf]


def test_ids_compare_as_their_bytes(engine):
    name = engine.register("ids", pa.table({"id": IDS}))
    source = engine.quoted(name)
    counted = engine.rows(f"select count(distinct id) from {source}")
    assert counted == [(len(IDS),)]
    ordered = engine.table(f"select id from {source} order by id")["id"].to_pylist()
    assert ordered == sorted(IDS, key=str.encode)


def test_kinds_are_told_in_one_vocabulary(engine):
    name = engine.register("hard", hard())
    kinds = engine.columns(engine.quoted(name))
    flag = "BIGINT" if engine.name == "MariaDB" else "BOOLEAN"
    expected = {"n": "BIGINT", "id": "VARCHAR", "whole": "BIGINT", "value": "DOUBLE"}
    assert kinds == expected | {"day": "DATE", "flag": flag}


def test_empty_tables_and_columns_of_nulls(engine):
    name = engine.register("empty", hard().slice(0, 0))
    assert read(engine, name).num_rows == 0
    nulls = pa.table({"n": [1], "none": pa.nulls(1), "value": pa.nulls(1, pa.float64())})
    assert read(engine, engine.register("nulls", nulls)).to_pylist() == [
        {"n": 1, "none": None, "value": None}
    ]


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_do_nothing_but_name(engine, name):
    data = pa.table({"n": [1, 2], name: ["a", "b"]})
    if engine.name == "Apache Spark" and not name.isidentifier():
        held = engine.register("plain_name", data)  # its tables are plain words
    elif engine.name == "MariaDB" and name == "we`ird\\":
        held = engine.register("plain_name", data)
    else:
        held = engine.register(f"{name} t", data)  # GoogleSQL reads a table before a column
    column = engine.quoted('"' + name.replace('"', '""') + '"')
    back = read(engine, held, f"n, {column}")
    assert back.to_pylist() == data.to_pylist()


def test_decimals_do_not_leak(engine):
    decimal = "numeric" if engine.dialect == "bigquery" else "decimal(10, 2)"
    if engine.name == "GoogleSQL":
        pytest.skip("its cells of NUMERIC are bytes; our SQL has none")
    sql = f"select cast(1.25 as {decimal}) as d, count(*) as c, sum(n) as s from (select 1 as n) x"
    table = engine.table(sql)
    assert not [field for field in table.schema if pa.types.is_decimal(field.type)]
    assert table["c"].type == pa.int64()
    assert [float(value) for value in table.to_pylist()[0].values()] == [1.25, 1.0, 1.0]
    assert all(type(value) in (int, float) for value in engine.rows(sql)[0])


def test_find_and_free_names(engine):
    name = engine.register("found", pa.table({"n": [1]}))
    assert engine.find("found") == name == "found"
    assert engine.find("nowhere_to_be_found") is None
    assert engine.find("select 1 from found") is None
    assert engine.find("some/file.parquet") is None
    assert engine.free_name("found") == "found_2"
    assert engine.free_name("free") == "free"
    again = engine.register("found", pa.table({"n": [2]}))
    assert again == "found_2"


def test_a_name_is_free_where_a_look_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    """MariaDB denies a look at tables that are not there: each name was taken, without an end."""
    with open_driver("sqlite:///:memory:") as engine:
        denied = StatementError("MariaDB", DENIED, "SELECT command denied")
        monkeypatch.setattr(type(engine), "columns", Mock(side_effect=denied))
        assert engine.free_name("ranked") == "ranked"
        assert engine.find("ranked") == "ranked"


def test_what_is_registered_goes_with_the_connection(engine, request, servers):
    if request.node.callspec.params["engine"] in ("datafusion", "googlesql", "sqlite", "duckdb"):
        pytest.skip("a new one is a new database")
    with servers.open(request.node.callspec.params["engine"]) as other:
        other.register("gone", pa.table({"n": [1]}))
    assert engine.find("gone") is None


def failing(engine: Any, sql: str) -> EngineError:
    with pytest.raises(EngineError) as caught:
        engine.table(sql)
    error = caught.value
    assert error.sql == sql
    assert str(error).startswith(f"{engine.name} failed: ")
    assert "\n" not in str(error)
    assert "Traceback" not in str(error)
    assert engine.rows("select 1 as one") == [(1,)], "the connection can be used again"
    assert engine.table("select 2 as two").to_pydict() == {"two": [2]}
    return error


def test_a_missing_table_or_column_is_told(engine):
    name = engine.quoted(engine.register("there", pa.table({"n": [1]})))
    for sql in ("select * from not_there", f"select not_there from {name}"):
        error = failing(engine, sql)
        assert "not_there" in str(error)
        assert getattr(error, "reason", ABSENT) == ABSENT
    with pytest.raises(InputError, match="cannot be read"):
        engine.columns("not_there")


MISMATCH = {
    "clickhouse": "select 'a' + 1 from there",
    "mysql": "insert into there values ('x')",
    "bigquery": "select 'a' + 1 from there",
}


def test_a_type_mismatch_is_told(engine):
    engine.register("there", pa.table({"n": [1], "t": ["x"]}))
    if engine.dialect in ("sqlite", "duckdb"):
        pytest.skip("SQLite has no types to mismatch; DuckDB's are input errors, tested elsewhere")
    sql = MISMATCH.get(engine.dialect, "select cast(t as integer) from there")
    if engine.dialect in ("mysql", "mariadb"):
        sql = "insert into there values ('x', 'y')"
    assert failing(engine, sql).reason == TYPE


def test_an_error_while_running_does_not_spoil_the_next_answer(engine):
    """Chdb gave the failed query's empty table as the answer to the next."""
    engine.register("there", pa.table({"n": [1, 0]}))
    if engine.dialect == "clickhouse":
        failing(engine, "select throwIf(number = 3) from numbers(10)")
    elif engine.name in ("PostgreSQL", "Apache Spark", "GoogleSQL"):
        failing(engine, "select 1 / n from there")
    assert engine.rows("select count(*) from there") == [(2,)]


def test_syntax_errors_are_told(engine):
    failing(engine, "selec 1")


@pytest.fixture
def writable(engine):
    """A table of two rows, where tables can be changed."""
    if engine.name in ("DataFusion", "GoogleSQL", "Apache Spark"):
        pytest.skip("it does not change tables here")
    with engine.scratch() as schema:
        yield engine.quoted(engine.load(f"{schema}.t", pa.table({"n": [1, 2]})))


def test_a_transaction_is_all_or_nothing(engine, writable):
    with engine.transaction():
        engine.execute(f"insert into {writable} values (3)")
    count = f"select count(*) from {writable}"
    assert engine.rows(count) == [(3,)]
    if not engine.transactional:
        return
    with pytest.raises(EngineError, match="not_there"), engine.transaction():  # noqa: PT012
        engine.execute(f"delete from {writable}")
        engine.execute("insert into not_there values (1)")
    assert engine.rows(count) == [(3,)]


def test_what_is_made_is_dropped_also_after_a_failure(engine):
    if engine.name in ("GoogleSQL", "DataFusion", "Trino"):
        create, drop = "create table made as select 1 as n", "drop table made"
    elif engine.name == "Apache Spark":
        create, drop = "create temporary view made as select 1 as n", "drop view made"
    else:
        temporary = "temp" if engine.dialect in ("sqlite", "duckdb") else "temporary"
        create, drop = f"create {temporary} table made as select 1 as n", "drop table made"
    create = "-- what it is for\n" * 60 + create  # no pattern takes long over it
    with engine.temporary(create, drop):
        assert engine.rows("select n from made") == [(1,)]
    assert engine.find("made") is None
    with pytest.raises(ZeroDivisionError), engine.temporary(create, drop):
        1 / 0  # noqa: B018
    assert engine.find("made") is None


def test_scratch_is_dropped_also_after_a_failure(engine):
    if engine.name == "GoogleSQL":
        pytest.skip("it has no schemas")
    with engine.scratch() as schema:
        name = engine.load(f"{schema}.kept", hard())
        assert engine.find(name) == name
        assert read(engine, name).num_rows == hard().num_rows
    assert engine.find(name) is None
    with suppress(EngineError), engine.scratch() as schema:
        engine.load(f"{schema}.kept", hard())
        engine.execute("select * from not_there")
    assert engine.find(f"{schema}.kept") is None


def test_many_rows_load(engine):
    rows = 20_000 if engine.name == "GoogleSQL" else 150_000
    table = pa.table({"n": pa.array(range(rows)), "id": [f"item {n}" for n in range(rows)]})
    source = engine.quoted(engine.register("many", table))
    counted = engine.rows(f"select count(*), count(distinct id), max(n) from {source}")
    assert counted == [(rows, rows, rows - 1)]


def test_lists_and_other_kinds_are_refused_by_name(engine):
    if engine.dialect == "duckdb":
        pytest.skip("DuckDB reads them")
    with pytest.raises(InputError, match=r"column 'v' has the type list<.*cannot be loaded into"):
        engine.register("lists", pa.table({"v": [[1.0]]}))
    with pytest.raises(InputError, match="differ only in case"):
        engine.register("twice", pa.table([[1], [2]], names=["a", "A"]))
    with pytest.raises(InputError, match="data in memory must be a DataFrame"):
        engine.register("none", object())


def test_timestamps_come_back(engine):
    if engine.name in ("GoogleSQL",):
        pytest.skip("our SQL there has none")
    moment = datetime(2024, 2, 29, 12, 30, 15, 123456)
    table = pa.table({"n": [1], "at": pa.array([moment], pa.timestamp("us"))})
    assert read(engine, engine.register("moments", table))["at"].to_pylist() == [moment]


def test_the_engine_says_what_it_is(engine):
    assert engine.name
    assert engine.version[0].isdigit()


@by_turns(1.7)
@pytest.mark.xdist_group("postgres")
def test_a_lost_connection_and_a_missing_privilege_on_postgres(servers):
    with servers.open("postgres") as root, root.scratch() as schema:
        root.load(f"{schema}.secret", pa.table({"n": [1]}))
        root.execute("create role reader login")
        try:
            root.execute("set role reader")
            denied = rf"{DENIED} \(USAGE\): permission denied"
            with pytest.raises(EngineError, match=denied) as caught:
                root.rows(f"select * from {schema}.secret")
            assert "secret" in caught.value.sql
            with pytest.raises(EngineError, match=DENIED):
                root.columns(f"{schema}.secret")
        finally:
            root.execute("reset role")
            root.execute("drop role reader")
    with servers.open("postgres") as engine:
        engine.register("t", pa.table({"n": [1]}))
        with pytest.raises(EngineError, match=LOST):
            engine.rows("select pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(EngineError, match=LOST):
            engine.columns("t")


@by_turns(1.9)
@pytest.mark.xdist_group("mariadb")
def test_a_lost_connection_and_a_missing_privilege_on_mariadb(servers):
    from sqlmetrics.engines.registry import open_driver

    url = servers.connection("mariadb")
    with servers.open("mariadb") as root, root.scratch() as schema:
        root.load(f"{schema}.secret", pa.table({"n": [1]}))
        root.execute("create user reader")
        try:
            root.execute("grant create temporary tables on sqlmetrics.* to reader")
            with open_driver(url.replace("root@", "reader@")) as reader:
                with pytest.raises(EngineError, match=f"MariaDB failed: {DENIED}"):
                    reader.rows(f"select * from {schema}.secret")
                with pytest.raises(EngineError, match=DENIED):
                    reader.columns(f"{schema}.secret")
                assert reader.rows("select 1") == [(1,)]
        finally:
            root.execute("drop user reader")
    with servers.open("mariadb") as engine:
        with suppress(EngineError):
            engine.execute("kill connection_id()")
        with pytest.raises(EngineError, match=LOST):
            engine.rows("select 1")


@pytest.mark.xdist_group("sqlite")
def test_the_tests_of_an_engine_share_a_worker(request):
    """By the group behind their names, which pytest 9.2 no longer takes from pytest-xdist 3.8."""
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("only for a worker of --dist loadgroup")
    assert request.node.nodeid.endswith("@sqlite")


@by_turns(1.1)
def test_what_is_too_small_for_64_bits_is_no_error(engine):
    """Few readers are left at rank 5,000; PostgreSQL refuses exp(-1000) and power(0.5, 4999)."""
    items = [f"i{n}" for n in range(5000)]
    rows = [(query, item, 5000 - n) for query in ("all", "late") for n, item in enumerate(items)]
    grades = [*(("all", item, 3.0) for item in items), ("late", "i4999", 3.0)]
    rankings, labels = (
        pa.table(dict(zip(("query_id", "item_id", number), zip(*table, strict=True), strict=True)))
        for number, table in (("score", rows), ("grade", grades))
    )
    # s = 7/8: the chance to reach rank r is 8^-(r - 1)
    wanted = {
        "err": (7 * math.log(8 / 7), 7 / 8 / 5000),
        "pfound": (7 / 8 / (1 - 0.85 / 8), 0),
        "pfound(p_break=0.99)": (7 / 8 / (1 - 0.01 / 8), 0),
        "rbp(p=0.5)": (1, 0),
    }
    result = sm.evaluate(rankings, labels, list(wanted), connection=engine)
    means = {text: (first + second) / 2 for text, (first, second) in wanted.items()}
    assert {text: result[text] for text in wanted} == pytest.approx(means, rel=1e-12)


RUNNING = {
    "ClickHouse": "select getSetting('log_comment')",
    "MariaDB": "select info from information_schema.processlist where id = connection_id()",
    "PostgreSQL": "select current_setting('application_name')",
    "Trino": "select query from system.runtime.queries where state = 'RUNNING'",
}
"""How a server tells what runs."""


def test_a_server_is_told_the_spec_and_the_run(engine):
    engine.name_session("o'ld\nshop, \\ 1a2b3c4d")
    tag = "sqlmetrics o'ld shop, \\ 1a2b3c4d"
    name = engine.register("hard", hard())
    assert len(read(engine, name)) == len(TEXTS)
    product = engine.name.partition(" (")[0]
    if sql := RUNNING.get(product):
        assert any(tag in str(row[0]) for row in engine.rows(sql))
    if product == "Apache Spark":
        assert engine._connection.getTags() == {tag.replace(",", " ")}


def test_a_database_says_what_a_query_would_read_or_nothing(engine):
    """Of tables that have statistics; no engine fails."""
    with engine.scratch() as schema:
        engine.load(f"{schema}.hard", hard())
        estimate = engine.estimate(f"select * from {engine.quoted(f'{schema}.hard')}")
    has_numbers = ("ClickHouse", "DuckDB", "MariaDB", "PostgreSQL", "Apache Spark", "Trino")
    assert ("about" in estimate) == engine.name.startswith(has_numbers), estimate
