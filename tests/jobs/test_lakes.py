"""Jobs whose tables are those of Delta and of Iceberg: each run is one commit a table."""

from __future__ import annotations

import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engines.lakes import CATALOGS, GET, settings
from engines.server import REQUIRED, MissingError
from engines.starting import SMALL
from job_days import (
    FIRST,
    NUMBERS,
    check,
    check_clicks,
    click_job,
    click_log,
    days,
    facts,
    job,
    log,
    reload,
    same,
)
from marked import nightly

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.jobs.dry_run import dry_run
from sqlmetrics.jobs.history.removal import made_by_runs, retire
from sqlmetrics.jobs.history.restore import restore
from sqlmetrics.jobs.missing_days import Part
from sqlmetrics.jobs.partitions import ATTEMPTS, commit
from sqlmetrics.jobs.run import write

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("lakes")]

VERSIONS = {
    "delta": ("describe history {}", "version"),
    "iceberg": ("select * from lake.default.{}.snapshots order by committed_at", "snapshot_id"),
}
"""Format -> the commits of a table, and the column that names one."""

ENDS = ("runs", "metrics", "definitions")
ONE_DAY = "spec = 'shop' and metric_date = date '2026-01-01'"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Spark of both formats, with catalogs that end with it."""
    folder = tmp_path_factory.mktemp("lakes")
    try:
        configuration = SMALL | settings(folder)
    except (ImportError, MissingError) as missing:
        message = f"Delta and Iceberg are not here ({missing}); get them by: {GET}"
        (pytest.fail if REQUIRED else pytest.skip)(message)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]")
        for name in ("host", "bindAddress"):
            builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
        for name, text in configuration.items():
            builder = builder.config(name, text)
        opened = builder.getOrCreate()
    opened.sparkContext.setLogLevel("OFF")
    for catalog in ("lake", "files"):
        opened.sql(f"create namespace {catalog}.default")
    yield opened
    opened.stop()


@pytest.fixture(params=CATALOGS)
def tables(request: pytest.FixtureRequest, session: Any) -> str:
    """A format, of which the session makes tables by itself."""
    session.catalog.setCurrentCatalog(CATALOGS[request.param])
    session.conf.set("spark.sql.sources.default", request.param)
    return str(request.param)


@pytest.fixture
def engine(tables: str, session: Any) -> Iterator[Database]:
    """With a log, and without anything else."""
    with connect(session) as opened:
        for name, table in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, table)
        try:
            yield opened
        finally:
            for kind in ("view", "table"):
                for row in session.sql(f"show {kind}s").collect():
                    if not row.isTemporary:
                        opened.driver.execute(f"drop {kind} if exists {row[1]}")


def commits(session: Any, tables: str, name: str) -> list[Any]:
    """What names each commit that changed rows of a table, the first one first."""
    statement, column = VERSIONS[tables]
    rows = session.sql(statement.format(name)).collect()
    if tables == "delta":
        rows = [
            row for row in reversed(rows) if row.operation in ("WRITE", "MERGE", "DELETE", "UPDATE")
        ]
    return [row[column] for row in rows]


def days_at(session: Any, version: Any) -> dict[int, tuple[int, set[str]]]:
    """Day, by its number -> its rows and its runs, of an older version of the fact table."""
    rows = session.sql(
        "select metric_date, count(*) as n, collect_set(run_id) as runs "
        f"from metrics version as of {version} group by metric_date"
    ).collect()
    return {(row.metric_date - FIRST).days: (row.n, {*row.runs}) for row in rows}


def test_each_run_is_one_commit_a_table(engine: Database, session: Any, tables: str) -> None:
    first, second = (write(job(), engine, days(*ends)).run_id for ends in ((0, 4), (2, 6)))
    check(engine, [*range(6)])
    reload(engine, log()[0].filter([day != FIRST for day in log()[0]["ds"].to_pylist()]))
    third = write(job(), engine, days(0, 2)).run_id  # a day without a row any more goes
    check(engine, [*range(1, 6)])
    engine.driver.execute("alter table metrics_of_queries add columns (owner string)")
    engine.driver.execute("update metrics_of_queries set owner = 'ann'")
    fourth = write(job(metrics=["mrr"]), engine, days(1, 3)).run_id  # the other metrics stay
    check(engine, [*range(1, 6)])
    owners = engine.rows("select owner, count(*) as n from metrics_of_queries group by owner")
    assert owners == [("ann", 40)]
    versions = commits(session, tables, "metrics")
    assert len(versions) == 4
    assert len(commits(session, tables, "metrics_of_queries")) == 5
    days_of_versions = [days_at(session, version) for version in versions]
    assert {n for rows in days_of_versions for n, _ in rows.values()} == {30}
    runs_by_day = [{day: runs for day, (_, runs) in rows.items()} for rows in days_of_versions]
    later = {day: {second} for day in range(2, 6)}
    assert runs_by_day == [
        {day: {first} for day in range(4)},
        {0: {first}, 1: {first}, **later},
        {1: {third}, **later},
        {**later, 1: {third, fourth}, 2: {second, fourth}},
    ]
    log_rows = engine.rows("select outcome, facts from metrics_runs order by started_at")
    assert log_rows == [("replaced", n) for n in (120, 120, 30, 60)]
    (status,) = engine.records("select * from metrics_status")
    assert (status["n_unlogged_rows"], status["last_outcome"]) == (0, "replaced")
    names = {row[1] for row in session.sql("show tables").collect()}
    assert not [name for name in names if name.endswith(("_lock", "_replaced"))]
    planned = dry_run(job(), engine, Part(days(1, 3)))
    assert planned.count(" replace where\n    spec = 'shop'\n    and metric_date >= ") == 2
    for refused in (lambda: restore(job(), engine, "last"), lambda: retire(job(), engine)):
        with pytest.raises(sm.SpecError, match="Apache Spark"):
            refused()
    with pytest.raises(sm.SpecError, match="on Apache Spark drop the views and tables"):
        made_by_runs(job(), engine)


@pytest.mark.parametrize("tables", [nightly("delta"), "iceberg"], indirect=True)
def test_a_spec_moves_from_duckdb(engine: Database) -> None:
    """With a click log of the same days: nothing but the connection changes."""
    for name, table in (clicks := click_log(1)).items():
        engine.load(name, table)
    with connect() as duckdb:
        for name, table in {**clicks, **dict(zip(("runs", "truth"), log(), strict=True))}.items():
            duckdb.load(name, table)
        rows = []
        for database in (duckdb, engine):
            write(job(), database, days(0, 6))
            write(click_job(), database)
            rows.append(facts(database) | facts(database, "log"))
    check_clicks(facts(engine, "log"), clicks)
    moved, original = rows[1], rows[0]
    assert moved.keys() == original.keys()
    assert len(moved) > 180
    for key, row in original.items():
        for name in (*NUMBERS, "definition_hash", "n_clusters", "sum_x2", "sum_xw"):
            ours = moved[key][name]
            is_text = isinstance(row[name], str)
            assert ours == row[name] if is_text else same(ours, row[name]), (key, name)


class Overtaken:
    """Statements of a session, of which the first ones are overtaken by another commit.

    A function of Python's pauses a statement that has begun until the other one is there.
    """

    def __init__(self, session: Any, folder: Path, execute: Callable[[str], None]) -> None:
        self.session, self.execute = session, execute
        self.n_left, self.n_tried = 0, 0
        self.begun, self.committed = begun, committed = folder / "begun", folder / "committed"

        def paused(run_id: str) -> bool:
            begun.touch()
            while not committed.exists():
                time.sleep(0.1)
            return bool(run_id)

        session.udf.register("paused", paused, "boolean")

    def __call__(self, sql: str) -> None:
        """Execute a statement that another one may overtake."""
        for file in (self.begun, self.committed):
            file.unlink(missing_ok=True)
        self.n_tried, self.n_left = self.n_tried + 1, self.n_left - 1
        writer = threading.Thread(target=self._overtake)
        writer.start()
        try:
            self.execute(sql)
        finally:
            self.begun.touch()
            writer.join()

    def _overtake(self) -> None:
        while not self.begun.exists():
            time.sleep(0.1)
        if self.n_left >= 0:
            self.session.sql(f"update metrics set value = value + 1 where {ONE_DAY}")
        self.committed.touch()


def test_another_writer_is_waited_for_or_told(
    engine: Database, session: Any, tables: str, tmp_path: Path
) -> None:
    write(job(), engine, days(0, 2))
    kept = session.table("metrics").where(ONE_DAY).coalesce(1).localCheckpoint()
    kept.createOrReplaceTempView("kept_day")
    select = "select * from kept_day where paused(run_id)"
    statement = f"insert into metrics replace where {ONE_DAY}\n{select}"
    overtaken = Overtaken(session, tmp_path, engine.driver.execute)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.driver, "execute", overtaken)
        overtaken.n_left = 1
        commit("metrics", engine, statement)
        check(engine, [0, 1])
        n_tried = 2 if tables == "delta" else 1  # Iceberg's last commit has the day
        assert overtaken.n_tried == n_tried
        if tables == "delta":
            overtaken.n_left = ATTEMPTS
            with pytest.raises(sm.EngineError, match="something else than a run wrote metrics at"):
                commit("metrics", engine, statement)
            assert overtaken.n_tried == n_tried + ATTEMPTS


@pytest.mark.parametrize("tables", ["iceberg"], indirect=True)
def test_a_catalog_without_views(engine: Database, session: Any) -> None:
    output = {"relation": "files.default.metrics", "per_query": "files.default.of_queries"}
    with pytest.raises(sm.SpecError, match="has no views; set output"):
        write(job(output=output), engine, days(0, 1))
    spec = job(output=output | {"views": False})
    for _ in range(2):
        write(spec, engine, days(0, 2))
    rows = session.sql("select count(*), count(distinct run_id) from files.default.metrics")
    assert [tuple(row) for row in rows.collect()] == [(60, 1)]
    names = {row[1] for row in session.sql("show tables in files.default").collect()}
    assert names == {"metrics", "of_queries", *(f"metrics_{end}" for end in ENDS)}
    for name in names:
        session.sql(f"drop table files.default.{name}")


def test_tables_that_no_day_can_be_replaced_of_are_refused(
    engine: Database, session: Any, tables: str
) -> None:
    write(job(), engine, days(0, 1))
    session.sql("create table flat as select * from metrics")
    flat = job(output={"relation": "flat"})
    if tables == "delta":
        write(flat, engine, days(0, 2))
        assert engine.count("flat") == 60
        return
    with pytest.raises(sm.SpecError, match="not partitioned by spec and metric_date"):
        write(flat, engine, days(0, 2))


@pytest.mark.parametrize("tables", ["iceberg"], indirect=True)
def test_a_lock_is_taken_from_the_dead(engine: Database, session: Any) -> None:
    """Also from one that died while it took the lock from another one that was dead."""
    for name, session_name in (("metrics_lock", "first"), ("metrics_lock_first", "second")):
        holder = {"session": session_name, "host": socket.gethostname(), "process": "999999999 1"}
        properties = ", ".join(f"'sqlmetrics.{key}' = '{text}'" for key, text in holder.items())
        session.sql(f"create view {name} tblproperties ({properties}) as select 1 as n")
    with engine.alone("metrics") as died:
        assert died.startswith("a run was killed while it wrote metrics: process 999999999 on ")
    assert not [row[1] for row in session.sql("show views").collect() if "_lock" in row[1]]
