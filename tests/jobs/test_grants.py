"""With the rights that `grants` prints a role does its work; without any of them it says which."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command import sqlmetrics
from marked import by_turns, nightly

from sqlmetrics.engines.registry import open_driver
from sqlmetrics.jobs.views import NAMES

SPEC = """
version: 1
name: shop
rankings: {relation: logs.rankings, columns: {system: system}}
labels: {sql: "select query_id, item_id, grade from logs.labels as l"}
metrics: [ndcg@10]
output: {relation: marts.metrics, per_query: marts.metrics_of_queries}
checks: [{metric: ndcg@10, min: 0.1}]
"""

ROWS = {
    "logs.rankings": "select 'q' as query_id, 'a' as item_id, 1e0 as score, 'old' as system",
    "logs.labels": "select 'q' as query_id, 'a' as item_id, 1 as grade",
}


def statements(admin: Any, *texts: str) -> None:
    for text in texts:
        admin.execute(text)


@contextmanager
def postgres(admin: Any, url: str) -> Iterator[str]:
    """A database of its own with its sources, in which PUBLIC may nothing; the role's URL."""
    statements(admin, "create database granted", "revoke all on database granted from public")
    statements(admin, "create role nightly login")
    with open_driver(url.replace("/postgres?", "/granted?")) as database:
        statements(database, "create schema logs", "create schema marts")
        statements(database, *(f"create table {name} as {rows}" for name, rows in ROWS.items()))
    try:
        yield re.sub(r"//[^/]*/postgres\?", "//nightly@/granted?", url)
    finally:
        statements(admin, "drop database granted with (force)", "drop role nightly")


@contextmanager
def mariadb(admin: Any, url: str) -> Iterator[str]:
    names = ("logs", "marts", "granted")
    statements(admin, *(f"create database {name}" for name in names))
    statements(admin, *(f"create table {name} as {rows}" for name, rows in ROWS.items()))
    statements(admin, "create user nightly@'%'")
    try:
        yield url.replace("//root@", "//nightly@").replace("/sqlmetrics?", "/granted?")
    finally:
        statements(admin, *(f"drop database {name}" for name in names), "drop user nightly@'%'")


NIGHTLY = nightly("mariadb")  # a run for each of many rights

DATABASES = {"postgres": postgres, "mariadb": mariadb}
VIEWS = [f"metrics_{name}" for name in NAMES if name != "wide"]


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "s.yml").write_text(SPEC)
    return tmp_path


def printed(folder: Path, url: str, *options: str) -> list[str]:
    """The statements for a role, without the comments."""
    command = ("grants", "s.yml", "--role", "nightly", "--connection", url, *options)
    lines = sqlmetrics(*command, folder=folder).stdout.splitlines()
    return [line.rstrip(";") for line in lines if not line.startswith("--")]


def units(lines: list[str]) -> Iterator[str]:
    """Each right alone, as its own statement."""
    for line in lines:
        rights, rest = re.fullmatch("grant (.*?)( on .*)", line).groups()  # type: ignore[union-attr]
        yield from (f"grant {right}{rest}" for right in rights.split(", "))


def revoked(unit: str) -> str:
    return re.sub(" to (?=[^ ]+$)", " from ", unit.replace("grant ", "revoke ", 1))


MESSAGES = {
    "connect": "CONNECT|permission denied for database",
    "temporary": "CREATE TEMPORARY TABLES",
    "create temporary tables": "CREATE TEMPORARY TABLES|denied for user .* to database",
    "create view": "CREATE VIEW",
}
"""Right -> what a message says of it, where that is not its own name."""


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=by_turns(8)), NIGHTLY])
def test_each_right_is_needed_and_all_are_enough(kind: str, servers: Any, spec: Path) -> None:
    url = servers.connection(kind)
    with open_driver(url) as admin, DATABASES[kind](admin, url) as mine:
        connection = ("--connection", mine)
        lines = printed(spec, mine)
        database_url = url if kind == "mariadb" else url.replace("/postgres?", "/granted?")
        with open_driver(database_url) as granting:
            for line in lines:
                granting.execute(line)
            archived = [unit for unit in units(lines) if "_archive`" in unit]
            for unit in (unit for unit in units(lines) if unit not in archived):
                if kind == "postgres" or _is_needed(granting, unit):
                    _fails_without(granting, unit, spec, connection)
                if unit.startswith("grant create on"):  # for which all was dropped
                    sqlmetrics("run", "s.yml", *connection, folder=spec)
            sqlmetrics("run", "s.yml", *connection, folder=spec)
            sqlmetrics("run", "s.yml", *connection, folder=spec)  # what it replaces is kept now
            for unit in archived:
                # delete is for what more than ten runs have replaced, create for the first time
                if re.match("grant (select|insert) ", unit):
                    _fails_without(granting, unit, spec, connection)
            assert len(archived) == (10 if kind == "mariadb" else 0)


def _fails_without(granting: Any, unit: str, spec: Path, connection: tuple[str, str]) -> None:
    """A run says which right it lacks."""
    granting.execute(revoked(unit))
    failed = sqlmetrics("run", "s.yml", *connection, folder=spec, expect=3).stderr
    right = unit.removeprefix("grant ").partition(" on ")[0]
    assert re.search(MESSAGES.get(right, right), failed, re.IGNORECASE), (unit, failed)
    granting.execute(unit)


def _is_needed(granting: Any, unit: str) -> bool:
    """Whether a right is needed now, after all is made as it has to be for that."""
    right, name = re.fullmatch(r"grant (.*) on (\S+) to .*", unit).groups()  # type: ignore[union-attr]
    table = name.replace("`", "").partition(".")[2]
    if table in VIEWS:  # are as the wide one is
        return False
    if (right, table) == ("delete", "metrics_definitions"):  # of definitions that have changed
        return False
    is_view = table in ("metrics_wide", "metrics_shop_all")
    if right == "create":  # without it nothing can be granted on a view that is not there
        granting.execute("drop database marts")
        granting.execute("create database marts")
        return not is_view
    if right == "alter":
        column = {"metrics": "ci_method", "metrics_runs": "note"}.get(table, "ndcg_at_10")
        granting.execute(f"alter table {name} drop column {column}")
    if right == "update":
        run = "run_id, spec, started_at, outcome, message"
        granting.execute(
            f"insert into {name} ({run}) values ('x', 'shop', '2026-01-01', 'running', 'process 1')"
        )
    return True


@by_turns(3)
@pytest.mark.xdist_group("postgres")
def test_an_analyst_evaluates_and_a_reader_reads(servers: Any, spec: Path) -> None:
    url = servers.connection("postgres")
    with open_driver(url) as admin, postgres(admin, url) as mine:
        database_url, connection = url.replace("/postgres?", "/granted?"), ("--connection", mine)
        sqlmetrics("run", "s.yml", "--connection", database_url, folder=spec)
        with open_driver(database_url) as granting:
            reading = printed(spec, mine, "--kind", "reader")
            statements(granting, *reading)
            with open_driver(mine) as reader:
                for name in ("metrics", "metrics_wide", "metrics_shop_all", "metrics_of_queries"):
                    assert reader.rows(f"select count(*) from marts.{name}") == [(1,)]
            failed = sqlmetrics("show", "s.yml", *connection, folder=spec, expect=3).stderr
            assert "a privilege is missing (USAGE): permission denied for schema logs" in failed
            report = sqlmetrics("debug", *connection, folder=spec).stdout
            assert re.search("temporary tables +no; run needs them", report)
            assert re.search("run can write +no: CREATE on schema public is missing", report)
            granting.execute("grant create on schema marts to nightly")
            report = sqlmetrics("debug", "s.yml", *connection, folder=spec).stdout
            assert re.search('run can write +no: "marts"."metrics" belongs to postgres', report)
            granting.execute("revoke create on schema marts from nightly")
            report = sqlmetrics("debug", "s.yml", *connection, folder=spec).stdout
            assert re.search("run can write +no: CREATE on schema marts is missing", report)
            statements(granting, *map(revoked, units(reading)))
            statements(granting, *printed(spec, mine, "--kind", "analyst"))
        for command in ("show", "check", "verify", "validate"):
            sqlmetrics(command, "s.yml", *connection, folder=spec)
        failed = sqlmetrics("run", "s.yml", *connection, folder=spec, expect=3).stderr
        assert "a privilege is missing (" in failed


def test_rights_that_are_printed_alone(spec: Path) -> None:
    """Of databases that were not run: what stands there, and what is refused."""
    for dialect, statement in (
        ("snowflake", "grant create table, create view on schema marts to role nightly;"),
        ("bigquery", 'grant `roles/bigquery.dataEditor` on schema `marts` to "nightly";'),
        ("databricks", "grant use schema, create table on schema `marts` to `nightly`;"),
        ("clickhouse", 'grant select on "logs"."labels" to "nightly";'),
        ("spark", "-- nightly reads `logs`.`labels`"),
        ("trino", '-- nightly makes, changes, comments and drops tables and views in "marts"'),
    ):
        command = ("grants", "s.yml", "--role", "nightly", "--dialect", dialect)
        assert statement in sqlmetrics(*command, folder=spec).stdout
    for options, message in (
        (("--dialect", "duckdb"), "DuckDB has no printable rights; known: Postgr"),
        (("--dialect", "postgres", "--kind", "nighty"), "did you mean 'nightly'"),
        ((), "say where: --db FILE"),
    ):
        command = ("grants", "s.yml", "--role", "nightly", *options)
        assert message in sqlmetrics(*command, folder=spec, expect=2).stderr
