"""Compiled jobs, executed by the databases' own clients: the same tables without our Python."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from engines.starting import SMALL
from job_days import (
    CLICK_JOB,
    METRICS,
    WRITERS,
    check,
    check_clicks,
    clear,
    click_job,
    click_log,
    days,
    expected,
    facts,
    job,
    log,
)
from job_files import SQL, called, client, day, psql
from marked import by_night, by_turns

import sqlmetrics as sm
from sqlmetrics.clicks.simulation import simulate
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.jobs.files import CLIENTS, compile_job, write_job
from sqlmetrics.jobs.job import job_text
from sqlmetrics.jobs.run import write
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.translation import Translation

pytestmark = by_turns(0.3)


RANGES = ((0, 3), (2, 6), (4, 5))
"""Ranges of days, of which two write days again."""


def script(folder: Path) -> str:
    return "\n".join((folder / name).read_text() for name in SQL)


@by_turns(1)
def test_duckdb_s_command(tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    older = {"storage_compatibility_version": "v1.4.0"}  # the command may be older than the module
    with duckdb.connect(str(file), config=older) as connection, connect(connection) as opened:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
    write_job(job(), "duckdb", tmp_path)
    for start, end in RANGES:
        days = [f"set variable start = '{day(start)}'", f"set variable \"end\" = '{day(end)}'"]
        command = [client("duckdb"), "-bail", "-cmd", days[0], "-cmd", days[1], str(file)]
        called(tmp_path, command, script(tmp_path))
    with connect(f"duckdb:///{file}") as opened:
        check(opened, [*range(6)])
        assert len(opened.rows("select * from metrics_runs where facts > 0")) == len(RANGES)


@by_turns(1)
@pytest.mark.xdist_group("postgres")
def test_psql(tmp_path: Path, servers: Any) -> None:
    url = servers.connection("postgres")
    with connect(url) as opened:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
        try:
            write_job(job(), "postgres", tmp_path)
            for start, end in RANGES:
                psql(tmp_path, url, start, end)
            check(opened, [*range(6)])
            write(job(), opened)  # the two ways share the tables
            check(opened, [*range(6)])
        finally:
            clear(opened)


def test_sqlite3_s_command(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with connect(f"sqlite:///{file}", create=True) as opened:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
    write_job(job(), "sqlite", tmp_path)
    for start, end in RANGES:
        days = [
            f".parameter set :start \"'{day(start)}'\"",
            f".parameter set :end \"'{day(end)}'\"",
        ]
        command = [client("sqlite3"), "-bail", "-cmd", days[0], "-cmd", days[1], str(file)]
        called(tmp_path, command, script(tmp_path))
    with connect(f"sqlite:///{file}") as opened:
        check(opened, [*range(6)])


def test_a_name_with_a_line_break_is_refused() -> None:
    """It would end a comment, and be indented with the text around it."""
    with pytest.raises(sm.SpecError, match="one line of printable characters"):
        compile_job(job(name="two\nlines"), "sqlite")


def test_labels_of_a_window_are_compiled() -> None:
    """The days from which labels are learned stay; those of the run are parameters."""
    labels = {"pool": "query_item", "window": {"end": "2026-01-04"}}
    files = compile_job(click_job(labels=labels, evaluation={"start": "2026-01-04"}))
    condition = 'epoch_us("at") < 1767484800000000'
    assert files["02_evaluation.sql"].count(condition) == 1  # where requests are chosen
    assert "getvariable('end')" in files["02_evaluation.sql"]
    assert "-- evaluation: requests on the days of this run\n\n" in files["02_evaluation.sql"]


@by_turns(0.9)
@pytest.mark.parametrize("name", CLIENTS)
def test_a_click_log_s_days_are_the_client_s_parameters(name: str) -> None:
    labels = {"pool": "query_item", "window": {"end": "2026-01-04"}}
    spec = click_job(labels=labels, evaluation={"start": "2026-01-04"})
    if not (CLIENTS[name].keep or dialect_named(name).keep):
        with pytest.raises(sm.SpecError, match="has no temporary tables"):
            compile_job(spec, name)
        return
    text = "".join(compile_job(spec, name).values())
    assert "sqlmetrics_yours" not in text  # what stands for them while a text is translated
    for parameter in ("start", "end"):
        assert CLIENTS[name].parameter.format(name=parameter) in text


def test_a_table_that_a_stage_would_hide_is_refused() -> None:
    impressions = CLICK_JOB["impressions"] | {"relation": "Events_Read"}
    with pytest.raises(sm.SpecError, match=r"called 'events_read', which.*like main\.events_read"):
        compile_job(click_job(impressions=impressions))


@pytest.mark.parametrize("name", ["duckdb", "sqlite"])
def test_the_manifest_s_command(tmp_path: Path, name: str) -> None:
    """As it stands, but for the file and the day."""
    file = {"duckdb": "FILE.duckdb", "sqlite": "FILE.db"}[name]
    older = {"storage_compatibility_version": "v1.4.0"}
    url = f"sqlite:///{tmp_path}/{file}"
    database = duckdb.connect(str(tmp_path / file), config=older) if name == "duckdb" else url
    with connect(database, create=True) as opened:
        for table, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(table, rows)
    if name == "duckdb":
        database.close()
    folders = {str(Path(client(program)).parent) for program in ("duckdb", "sqlite3")}
    write_job(job(name='it\'s; -- "one"'), name, tmp_path)
    command = json.loads((tmp_path / "manifest.json").read_text())["run"]
    command = command.replace("2026-01-02", day(2)).replace("2026-01-01", day(0))
    path = os.pathsep.join([*folders, os.environ["PATH"]])
    completed = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert completed.returncode == 0, completed.stderr
    with connect(f"{name}:///{tmp_path}/{file}") as opened:
        days_by_spec = opened.rows(
            "select spec, count(distinct metric_date) from metrics group by spec"
        )
    assert days_by_spec == [('it\'s; -- "one"', 2)]


def test_sqlite_s_module(tmp_path: Path) -> None:
    """The same text by any program that has SQLite: here Python's own module."""
    file = tmp_path / "shop.db"
    with connect(f"sqlite:///{file}", create=True) as opened:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
    write_job(job(), "sqlite", tmp_path)
    with sqlite3.connect(file, isolation_level=None) as connection:
        for statement in statements(tmp_path):
            connection.execute(statement, {"start": day(1), "end": day(5)})
    with connect(f"sqlite:///{file}") as opened:
        check(opened, [1, 2, 3, 4])
        before = facts(opened)
    write_job(job(metrics=METRICS[1:], by=[]), "sqlite", tmp_path)
    with sqlite3.connect(file, isolation_level=None) as connection:
        for statement in statements(tmp_path):
            connection.execute(statement, {"start": day(0), "end": day(3)})
    with connect(f"sqlite:///{file}") as opened:
        now = facts(opened)
        runs = dict(opened.rows("select run_id, max(metric_date) from metrics group by run_id"))
    assert before.keys() <= now.keys(), "rows of a metric and a segment that were taken out stay"
    gone = METRICS[0].partition("@")[0]
    assert {key[0] for key in now.keys() - before.keys()} == {day(0)}
    assert {key[4] for key in now if key[0] == day(0)} == {key[4] for key in now} - {gone}
    assert len(runs) == 2


@by_turns(1)
def test_sqlite_s_module_of_a_click_log(tmp_path: Path) -> None:
    """Its views have no parameter of the client's."""
    file, tables = tmp_path / "shop.db", click_log(1)
    with connect(f"sqlite:///{file}", create=True) as opened:
        for name, rows in tables.items():
            opened.load(name, rows)
    write_job(click_job(), "sqlite", tmp_path)
    with sqlite3.connect(file, isolation_level=None) as connection:
        for start, end in ((2, 5), (0, 3)):
            for statement in statements(tmp_path):
                connection.execute(statement, {"start": day(start), "end": day(end)})
    with connect(f"sqlite:///{file}") as opened:
        check_clicks(facts(opened, "log"), tables)


@by_turns(1)
@pytest.mark.xdist_group("postgres")
def test_psql_of_a_click_log(tmp_path: Path, servers: Any) -> None:
    url, tables = servers.connection("postgres"), click_log(1)
    with connect(url) as opened:
        for name, rows in tables.items():
            opened.load(name, rows)
        try:
            write_job(click_job(), "postgres", tmp_path)
            for start, end in ((2, 5), (0, 3)):
                psql(tmp_path, url, start, end)
            check_clicks(facts(opened, "log"), tables)
        finally:
            clear(opened, *tables)


@pytest.mark.long
@pytest.mark.xdist_group("mariadb")
def test_mariadb_s_command(tmp_path: Path, servers: Any) -> None:
    url = servers.connection("mariadb")
    socket = url.split("unix_socket=")[1]
    with connect(url) as opened:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
        try:
            write_job(job(), "mariadb", tmp_path)
            for start, end in RANGES:
                days = f"set @start = '{day(start)}', @end = '{day(end)}'"
                options = [f"--socket={socket}", "--user=root", f"--init-command={days}"]
                command = [client("mariadb"), "--no-defaults", *options, "sqlmetrics"]
                called(tmp_path, command, script(tmp_path))
            check(opened, [*range(6)])
        finally:
            clear(opened)


def statements(folder: Path) -> list[str]:
    return [
        statement for statement in re.split(r";\n(?:\n|$)", script(folder)) if statement.strip()
    ]


@pytest.mark.xdist_group("chdb")
def test_chdb(tmp_path: Path, servers: Any) -> None:
    with connect(servers.open("chdb")) as opened:
        session: Any = opened.driver._connection
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
        try:
            write_job(job(), "clickhouse", tmp_path)
            for start, end in RANGES:
                parameters = {"start": day(start), "end": day(end)}
                for statement in statements(tmp_path):
                    session.query(statement, params=parameters)
            check(opened, [*range(6)])
            write(job(), opened, days(1, 3))  # the two ways share the tables
            check(opened, [*range(6)])
        finally:
            clear(opened)


KINDS = {
    "string": pa.string(),
    "date": pa.date32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "datetime": pa.string(),
}
"""BigQuery's types, as the evaluator of its language is given them; it keeps no times."""


def evaluated(engine: Any, statement: str) -> None:
    """A statement of BigQuery's: the evaluator knows queries, the rest is done around them."""
    created = re.match(r"create table if not exists `(\w+)` \((.*)\)", statement, re.DOTALL)
    into = re.match(r"insert into `(\w+)` \(.*?\)\n((?:with|select).*)", statement, re.DOTALL)
    gone = re.match(r"delete from `(\w+)`\nwhere\n(.*)", statement, re.DOTALL)
    kept = re.match(r"create temporary table (sqlmetrics_this_run) as\n(.*)", statement, re.DOTALL)
    if created and created[1] not in engine._tables:
        listed, _, _ = created[2].partition("primary key (")
        columns = [line.split()[:2] for line in listed.strip().splitlines()]
        empty = {name.strip("`"): pa.array([], KINDS[kind.strip(",")]) for name, kind in columns}
        engine._put(created[1], pa.table(empty))
    elif into:
        stored, new = engine._arrow(f"select * from {into[1]}"), engine._arrow(into[2])
        new = new.rename_columns(stored.column_names)
        engine._put(into[1], pa.concat_tables([stored, new.cast(stored.schema)]))
    elif gone:
        remaining = f"select * from {gone[1]} where not ({gone[2]})"
        engine._put(gone[1], engine._arrow(remaining))
    elif kept:
        moment = "cast(started_at as string) as started_at"
        engine._put(kept[1], engine._arrow(f"select run_id, {moment} from ({kept[2]})"))
    elif view := re.match(r"create or replace view `\w+`\n.*?as\n(.*)", statement, re.DOTALL):
        engine._arrow(view[1])
    elif not created and not statement.startswith(("alter table", "begin ", "commit ")):
        engine.execute(statement)


def evaluate_all(engine: Any, folder: Path, ranges: Iterable[tuple[int, int]]) -> None:
    for start, end in ranges:
        for statement in statements(folder):
            plain = re.sub(r"(?m)^\s*--.*\n", "", statement).strip()
            for parameter, number in (("@start", start), ("@end", end)):
                plain = plain.replace(parameter, f"date '{day(number)}'")
            evaluated(engine, plain)


@pytest.mark.xdist_group("googlesql")
def test_bigquery_s_text(tmp_path: Path, servers: Any) -> None:
    """By Google's evaluator of its language; the client itself needs its cloud."""
    with servers.open("googlesql") as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine._put(name, rows)
        write_job(job(), "bigquery", tmp_path)
        evaluate_all(engine, tmp_path, ((0, 3), (2, 6), (4, 5)))
        check(Database(engine), [*range(6)])


@pytest.mark.xdist_group("googlesql")
def test_bigquery_s_text_of_a_click_log(tmp_path: Path, servers: Any) -> None:
    changed: dict[str, Any] = {}
    tables = click_log(1)
    with servers.open("googlesql") as engine:
        for name, table in tables.items():
            columns = CLICK_JOB[name]["columns"]
            moments = pc.strftime(table[columns["time"]], "%Y-%m-%d %H:%M:%S")
            engine._put(name, table.drop([columns["time"]]).append_column("moment", moments))
            read = f"select *, cast(moment as timestamp) as logged_at from {name}"
            changed[name] = {"sql": read, "columns": columns | {"time": "logged_at"}}
        write_job(click_job(**changed), "bigquery", tmp_path)
        evaluate_all(engine, tmp_path, ((2, 5), (0, 3)))
        check_clicks(facts(Database(engine), "log"), tables)


@pytest.mark.xdist_group("spark")
def test_spark_s_variables(tmp_path: Path, servers: Any) -> None:
    """As spark-sql does it: ${start} is a variable of the session."""
    with connect(servers.open("spark")) as opened:
        session: Any = opened.driver._connection
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
        try:
            write_job(job(), "spark", tmp_path)
            for start, end in ((0, 3), (2, 6), (4, 5)):
                session.sql(f"set start = {day(start)}")
                session.sql(f"set end = {day(end)}")
                for statement in statements(tmp_path):
                    session.sql(statement).collect()
            check(opened, [*range(6)])
        finally:
            clear(opened)


@by_night
@pytest.mark.xdist_group("spark")
def test_spark_sql_s_command(tmp_path: Path, servers: Any) -> None:
    """The command itself, with a catalogue of its own."""
    servers.connection("spark")  # skips without Java
    sources = {}
    for name, rows in zip(("runs", "truth"), log(), strict=True):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
        sources[name] = {"sql": f"select * from parquet.`{tmp_path}/{name}.parquet`"}
    columns = {"score": "score", "system": "system", "date": "ds"}
    spec = job(rankings=sources["runs"] | {"columns": columns}, labels=sources["truth"])
    write_job(spec, "spark", tmp_path)
    (tmp_path / "job.sql").write_text(script(tmp_path))
    home = Path(importlib.util.find_spec("pyspark").origin).parent  # type: ignore[union-attr,arg-type]
    environment = os.environ | {"SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    command = [client("spark-sql"), "--conf", f"spark.sql.warehouse.dir={tmp_path}/warehouse"]
    command += [part for name, value in SMALL.items() for part in ("--conf", f"{name}={value}")]
    for start, end in ((0, 3), (2, 6)):
        days = ["-d", f"start={day(start)}", "-d", f"end={day(end)}"]
        completed = subprocess.run(
            [*command, *days, "-f", "job.sql"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert completed.returncode == 0, completed.stderr[-3_000:]
    key = "metric_date, system, segment_name, segment_value, metric, k"
    query = f"select {key}, value, n_queries from metrics"
    printed = subprocess.run(
        [*command, "-S", "-e", query],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    lines = [line.split("\t") for line in printed.stdout.splitlines()]
    rows = {tuple(line[:6]): line[6:] for line in lines if len(line) == 8}
    wanted = expected([*range(6)]).to_dicts()
    assert len(rows) == len(lines) == len(wanted)
    for row in wanted:
        value, n = rows[tuple(str(row[name]) for name in key.split(", "))]
        assert value == "NULL" if row["value"] is None else near(row["value"]) == float(value)
        assert int(n) == row["n_queries"]


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-9)


@by_turns(1)
def test_a_click_log(tmp_path: Path) -> None:
    """Of a click log too; the days decide which requests are evaluated."""
    simulated = simulate(tmp_path / "log", requests=300, days=4, seed=3)
    clicks = {
        "impressions": {
            "file": str(simulated.files["impressions"]),
            "columns": {"query": "query", "system": "system", "time": "shown_at"},
        },
        "events": {
            "file": str(simulated.files["events"]),
            "columns": {"dwell": "dwell", "time": "happened_at"},
        },
        "cleaning": {"min_dwell": 5, "attribution_window": "30m"},
        "daily": True,
    }
    output = {"relation": "metrics", "per_query": "metrics_of_queries"}
    spec = sm.Spec(
        name="log", clicks=clicks, metrics=["mrr", "ctr@3", "abandonment"], output=output
    )
    key = "metric_date, system, segment_name, segment_value, metric, k"
    numbers = (
        f"select {key}, value, numerator, denominator, n_queries, definition_hash from metrics"
    )
    with connect() as opened:
        write(spec, opened)
        wanted = opened.rows(f"{numbers} order by all")
        dates = sorted({row[0] for row in wanted})
    write_job(spec, "duckdb", tmp_path)
    with duckdb.connect() as connection:
        for start in dates:
            connection.execute(f"set variable start = '{start}'")
            connection.execute(f"set variable \"end\" = '{start + timedelta(1)}'")
            connection.execute(script(tmp_path))
        actual = connection.execute(f"{numbers} order by all").fetchall()
    assert len(actual) == len(wanted) > 10
    for row, other in zip(actual, wanted, strict=True):
        for value, close in zip(row, other, strict=True):
            exact = not isinstance(close, float)
            assert value == (close if exact else pytest.approx(close, rel=1e-9))


def test_the_same_bytes() -> None:
    assert compile_job(job(), "postgres") == compile_job(job(), "postgres")


@pytest.mark.parametrize("name", CLIENTS)
def test_the_files_and_their_hashes(name: str) -> None:
    files = compile_job(job(), name)
    kept = CLIENTS[name].keep or dialect_named(name).keep
    assert [*files] == [file for file in (*SQL, "manifest.json") if kept or file[:2] != "02"]
    manifest = json.loads(files["manifest.json"])
    for file, digest in manifest["files"].items():
        assert hashlib.sha256(files[file].encode()).hexdigest() == digest
        assert file in manifest["run"]
    text = "".join(files.values())
    assert "sqlmetrics_yours" not in text
    for parameter in ("start", "end"):
        assert CLIENTS[name].parameter.format(name=parameter) in text
    assert set(manifest["metrics"]) == {"ndcg@3", "recall(rel=2)@5", "mrr", "auc", "num_ret"}


@by_turns(0.7)
def test_without_tables_for_a_while_each_insert_computes() -> None:
    """As on Trino and Databricks; here DuckDB is told that it cannot keep anything."""
    at = Translation(replace(dialect_named("duckdb"), keep=""))
    with connect() as opened:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
        for part in (days(0, 4), days(3, 6)):
            text = job_text(job(), at, part, "'a run'", at.expression("current_timestamp", "0"))
            assert text.evaluation == []
            for statement in (*text.tables, *text.replacement):
                opened.execute(statement)
        check(opened, [*range(6)])
        assert opened.rows("select facts from metrics_runs order by 1")[0][0] > 0


def test_a_dialect_without_a_client_is_refused() -> None:
    with pytest.raises(sm.SpecError, match="compiled jobs do not exist for Presto"):
        compile_job(job(), "presto")


def test_all_writers_have_a_client() -> None:
    names = {"chdb": "clickhouse", "trino_iceberg": "trino"}
    assert {names.get(writer, writer) for writer in WRITERS} <= set(CLIENTS)
