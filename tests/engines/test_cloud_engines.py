# ruff: noqa: D102
"""The engines that cannot be executed here: the shape of their calls, on drivers made of paper."""

from __future__ import annotations

import json
import sys
from datetime import date
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sqlmetrics.engines.failure import ABSENT, DENIED, LOST, TYPE
from sqlmetrics.engines.registry import ENGINES, open_driver
from sqlmetrics.errors import EngineError

DATA = pa.table({"n": [1, None], "text": ["it's \\ é", None], "day": [date(2024, 2, 29), None]})


class Driver:
    """What was called, and what is answered or raised next."""

    def __init__(self) -> None:
        self.arguments: dict[str, Any] = {}
        self.calls: list[str] = []
        self.raises: dict[str, BaseException] = {}
        self.description: list[tuple[Any, ...]] = []
        self.answer: list[tuple[Any, ...]] = []
        self.autocommit = False
        self.closed = 0
        self.session_id = 8

    def connect(self, **arguments: Any) -> Driver:
        self.arguments = arguments
        return self

    def __call__(self, **arguments: Any) -> Driver:
        return self.connect(**arguments)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cursor(self) -> Driver:
        return self

    def execute(self, sql: str) -> None:
        self.calls.append(sql)
        for part, error in self.raises.items():
            if part in sql:
                raise error

    def cancel(self, timeout: float | None = None) -> None:
        self.calls.append("cancel")

    def describe(self, sql: str) -> list[tuple[Any, ...]]:
        self.execute(f"describe: {sql}")
        return self.description

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.answer

    def fetchall_arrow(self) -> pa.Table:
        return pa.table({"d": pa.array([1], pa.int32())})

    def fetch_arrow_all(self, force_return_table: bool) -> pa.Table:
        assert force_return_table
        return pa.table({"METRIC": ["ndcg"], "as it Is": pa.array([1], pa.int8())})

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def driver(monkeypatch) -> Driver:
    """Every driver's module, on paper."""
    paper = Driver()
    for name in (engine.module for engine in ENGINES):
        monkeypatch.delitem(sys.modules, f"sqlmetrics.engines.{name}", raising=False)

    class Error(Exception):
        error_name = ""

    class LostError(Error):
        pass

    def module(name: str, **content: Any) -> ModuleType:
        fake = ModuleType(name)
        fake.__dict__.update(content, __path__=[])
        monkeypatch.setitem(sys.modules, name, fake)
        return fake

    paper.Error, paper.Lost = Error, LostError
    module("redshift_connector", connect=paper.connect, Error=Error, InterfaceError=LostError)
    exceptions = SimpleNamespace(
        Error=Error,
        TrinoConnectionError=LostError,
        TrinoQueryError=type("QueryError", (Error,), {}),
    )
    auth = SimpleNamespace(BasicAuthentication=lambda user, password: ("basic", user))
    module("trino", exceptions=exceptions, auth=auth, dbapi=SimpleNamespace(connect=paper.connect))
    exc = module("databricks.sql.exc", Error=Error, RequestError=LostError)
    module("databricks", sql=module("databricks.sql", exc=exc, connect=paper.connect))
    tools = module("snowflake.connector.pandas_tools", write_pandas=_write(paper))
    errors = SimpleNamespace(Error=Error)
    connector = module(
        "snowflake.connector", errors=errors, connect=paper.connect, pandas_tools=tools
    )
    module("snowflake", connector=connector)
    _google(paper, module)
    return paper


def _write(paper: Driver) -> Any:
    def write_pandas(connection: Any, frame: Any, name: str, **options: Any) -> None:
        paper.calls.append(f"write_pandas {name} {list(frame.columns)} {len(frame)} {options}")

    return write_pandas


def _google(paper: Driver, module: Any) -> None:
    def query(sql: str, job_config: Any = None) -> Any:
        if job_config is None:
            return SimpleNamespace(result=lambda: answer(sql), cancel=paper.cancel)
        assert job_config.dry_run
        paper.execute(sql)
        fields = [("n", "INTEGER", "NULLABLE"), ("l", "STRING", "REPEATED")]
        names = ("name", "field_type", "mode")
        return SimpleNamespace(
            schema=[SimpleNamespace(**dict(zip(names, f, strict=True))) for f in fields],
            total_bytes_processed=12_345_678,
        )

    def answer(sql: str) -> Any:
        paper.execute(sql)
        return SimpleNamespace(to_arrow=lambda create_bqstorage_client: pa.table({"n": [1]}))

    def load_table_from_file(block: Any, destination: str, job_config: Any) -> Any:
        paper.calls.append(f"load {destination} {job_config.source_format}")
        return SimpleNamespace(result=lambda: None)

    def client(**arguments: Any) -> Any:
        paper.arguments = arguments
        home = SimpleNamespace(project="project", dataset_id="dataset")
        return SimpleNamespace(
            query=query,
            load_table_from_file=load_table_from_file,
            default_query_job_config=SimpleNamespace(default_dataset=home, labels={"team": "web"}),
            close=paper.close,
        )

    paper.NotFound = type("NotFound", (paper.Error,), {})
    config = SimpleNamespace
    bigquery = module(
        "google.cloud.bigquery", Client=client, QueryJobConfig=config, LoadJobConfig=config
    )
    core = module("google.api_core.exceptions", GoogleAPIError=paper.Error)
    module("google.api_core", exceptions=core)
    module("google", cloud=module("google.cloud", bigquery=bigquery))


def reason(engine: Any, driver: Driver, error: BaseException) -> str:
    driver.raises = {"failing": error}
    with pytest.raises(EngineError) as caught:
        engine.execute("failing")
    driver.raises = {}
    assert caught.value.sql == "failing"
    return caught.value.reason


def test_redshift(driver):
    driver.answer = [(7,)]
    with open_driver("redshift://ann:pw@host:5439/db?sslmode=require") as engine:
        login = {"host": "host", "port": 5439, "user": "ann", "password": "pw"}
        assert driver.arguments == login | {"database": "db", "sslmode": "require"}
        assert driver.autocommit
        driver.description = [("s", 1700, None, None, None, None, None)]
        assert engine.columns("t") == {"s": "DECIMAL"}
        engine.load("t", DATA)
        assert driver.calls[-1] == (
            """insert into "t" values\n(1, 'it\\'s \\\\ é', CAST('2024-02-29' AS DATE)),"""
            "\n(NULL, NULL, NULL)"
        )
        codes = {"42P01": ABSENT, "42501": DENIED, "42804": TYPE, "57P01": LOST}
        for code, wanted in codes.items():
            assert reason(engine, driver, driver.Error({"C": code, "M": "no"})) == wanted
        assert reason(engine, driver, BrokenPipeError()) == LOST
    assert driver.closed


def test_trino(driver):
    with open_driver("trino://ann:pw@host:8443/hive/web") as engine:
        assert driver.arguments["http_scheme"] == "https"
        assert driver.arguments["auth"] == ("basic", "ann")
        assert (driver.arguments["catalog"], driver.arguments["schema"]) == ("hive", "web")
        kinds = ["varchar(3)", "decimal(9,2)", "array(double)", "timestamp(6) with time zone"]
        driver.description = [(kind, kind) for kind in kinds]
        types = ["VARCHAR", "DECIMAL(9,2)", "DOUBLE[]", "TIMESTAMP WITH TIME ZONE"]
        assert list(engine.columns("t").values()) == types
        for name, wanted in {"TABLE_NOT_FOUND": ABSENT, "PERMISSION_DENIED": DENIED}.items():
            error = driver.Error("no")
            error.error_name = name
            assert reason(engine, driver, error) == wanted
        assert reason(engine, driver, driver.Lost("gone")) == LOST
        error.error_name = "QUERY_HAS_TOO_MANY_STAGES"
        assert "fewer metrics" in engine._brief(error)
        assert not engine.transactional


def test_databricks(driver):
    url = "databricks://token:pw@host/main/web?http_path=/sql/1"
    with open_driver(url) as engine:
        assert driver.arguments == {
            "server_hostname": "host",
            "access_token": "pw",
            "catalog": "main",
            "schema": "web",
            "http_path": "/sql/1",
        }
        assert engine.table("select 1").schema.types == [pa.int64()]
        error = driver.Error("[TABLE_OR_VIEW_NOT_FOUND] `x` SQLSTATE: 42P01")
        assert reason(engine, driver, error) == ABSENT
        engine.load("t", DATA)
        assert r"'it\'s \\ é'" in driver.calls[-1]


def test_snowflake(driver):
    with open_driver("snowflake://ann:pw@account/db/web?warehouse=wh&role=reader") as engine:
        login = {"account": "account", "user": "ann", "password": "pw"}
        context = {"database": "db", "schema": "web", "warehouse": "wh", "role": "reader"}
        assert driver.arguments == login | context
        driver.description = [
            ("N", 0, None, None, 38, 0, True),
            ("Mixed", 0, None, None, 9, 2, True),
        ]
        assert engine.columns("t") == {"n": "BIGINT", "Mixed": "DECIMAL(9,2)"}
        assert driver.calls[-1] == "describe: select * from t"
        table = engine.table("select 1")
        assert table.schema == pa.schema({"metric": pa.string(), "as it Is": pa.int64()})
        engine.load("web.Kept", DATA)
        call = "write_pandas Kept ['N', 'TEXT', 'DAY'] 2"
        assert driver.calls[-1] == f"{call} {{'use_logical_type': True, 'schema': 'WEB'}}"
        stats = {"partitionsTotal": 1200, "partitionsAssigned": 7, "bytesAssigned": 12_345_678}
        driver.answer = [(json.dumps({"GlobalStats": stats}),)]
        assert engine.estimate("select 1") == "about 12.3 MB, of 7 of 1,200 micro-partitions"
        assert driver.calls[-1] == "explain using json select 1"
        for user_tag in ("batch", ""):
            driver.answer = [("QUERY_TAG", user_tag, "", "SESSION", "", "STRING")]
            engine.name_session("o'ld shop 1a2b3c4d")
            tag = "alter session set query_tag = 'sqlmetrics o\\'ld shop 1a2b3c4d'"
            assert (driver.calls[-1] == tag) == (not user_tag), driver.calls[-1]
        error = driver.Error("no")
        error.sqlstate = "42S02"
        assert reason(engine, driver, error) == ABSENT


def test_bigquery(driver):
    with open_driver("bigquery://project/dataset") as engine:
        assert driver.arguments["project"] == "project"
        assert driver.arguments["default_query_job_config"].default_dataset == "project.dataset"
        assert engine.columns("t") == {"n": "BIGINT", "l": "VARCHAR[]"}
        engine.load("kept", DATA)
        assert driver.calls[-1] == "load project.dataset.kept PARQUET"
        assert engine.rows("select 1") == [(1,)]
        assert engine.estimate("select 1 as n") == "12.3 MB"
        assert driver.calls[-1] == "select 1 as n"
        engine.name_session("Shop, 7 1a2b3c4d" + "x" * 90)
        labels = engine._connection.default_query_job_config.labels
        assert labels == {"team": "web", "sqlmetrics": ("shop_7_1a2b3c4d" + "x" * 90)[:63]}
        assert reason(engine, driver, driver.NotFound("Not found: Table x")) == ABSENT
        assert reason(engine, driver, driver.Error("No matching signature for +")) == TYPE


@pytest.mark.parametrize(
    ("url", "stop"),
    [
        ("redshift://ann:pw@host:5439/db", "select pg_cancel_backend(7)"),
        ("trino://ann@host:8080/hive/web", "cancel"),
        ("databricks://token:pw@host/main/web?http_path=/sql/1", "cancel"),
        ("snowflake://ann:pw@account/db/web", "select system$cancel_all_queries(8)"),
        ("bigquery://project/dataset", "cancel"),
    ],
)
def test_a_signal_stops_the_statement_on_the_server(driver, url, stop):
    """What the command makes of SIGINT and SIGTERM, which a driver's own handler may not hear."""
    driver.answer = [(7,)]
    with open_driver(url) as engine:
        driver.raises = {"create table": KeyboardInterrupt()}
        with pytest.raises(KeyboardInterrupt):
            engine.execute("create table t as select 1")
        assert stop in driver.calls[driver.calls.index("create table t as select 1") :]
