"""Exports for dbt and SQLMesh, without these tools: the SQL of the models, rendered, on DuckDB.

tests/stack has the tools themselves execute the files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import jinja2
import pytest
import yaml
from marked import by_turns

import sqlmetrics as sm

ODD = """it's {{ "odd" }} {% raw %} {# x #} @start_ds"""
SPEC: Mapping[str, Any] = {
    "name": ODD,
    "rankings": {
        "relation": "rankings",
        "columns": {"system": "system", "date": "ds", "score": "score"},
    },
    "labels": {"sql": "select * from labels where query_id <> '{{ none }}'"},
    "by": ["country"],
    "metrics": ["ndcg@2", "mrr", "num_q"],
    "baseline": ODD,
    "checks": [
        {"metric": "mrr", "min": 0.9, "severity": "warn"},
        {"metric": "mrr", "max_drop": 0.01},
        {"metric": "mrr", "min": 0.1, "confidence": 0.9},
    ],
    "output": {"relation": "rm", "per_query": "rm_per_query"},
}
LISTS = [
    ("2026-01-01", ODD, "q", "a", 2.0, "DE"),
    ("2026-01-01", ODD, "q", "b", 1.0, "DE"),
    ("2026-01-02", ODD, "q", "b", 2.0, "DE"),
    ("2026-01-02", ODD, "q", "a", 1.0, "DE"),
    ("2026-01-02", "new", "q", "a", 1.0, "DE"),
    ("2026-01-03", ODD, "q", "a", 1.0, "DE"),
]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A warehouse."""
    file = tmp_path / "shop.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            "create table rankings "
            "(ds date, system text, query_id text, item_id text, score double, country text)"
        )
        connection.executemany("insert into rankings values (?, ?, ?, ?, ?, ?)", LISTS)
        connection.execute(
            "create table labels as select 'q' as query_id, 'a' as item_id, 1 as grade"
        )
    return file


class Names(dict[str, Any]):
    """What stands among the SQL of a project, as far as a model needs it."""

    def __init__(self, start: str, end: str) -> None:
        super().__init__(
            config=lambda **_: "",
            source=lambda _, name: name,
            ref=lambda name: name,
            rm_start=lambda *_: start,
            rm_end=lambda *_: end,
            var=lambda _, otherwise: otherwise,
            invocation_id="run",
            run_started_at=Started(),
        )


class Started:
    """When a run began."""

    def strftime(self, _: str) -> str:
        """As text."""
        return "2026-01-05 00:00:00"


def rendered(file: Path, start: str = "2026-01-02", end: str = "2026-01-03") -> str:
    """A file of a project as dbt would execute it."""
    return (
        jinja2.Environment(autoescape=False).from_string(file.read_text()).render(Names(start, end))
    )


@by_turns(0.7)
def test_a_model_of_dbt_selects_what_a_run_writes(shop: Path, tmp_path: Path) -> None:
    """Whatever stands in names; of the days that are said; with an input that is a query."""
    folder = tmp_path / "project"
    sm.export(sm.Spec(**SPEC), "dbt", folder)
    sm.run(sm.Spec(**SPEC), connection=str(shop), start="2026-01-02", end="2026-01-03")
    with duckdb.connect(str(shop)) as connection:
        view = rendered(folder / "models/rm/rm_labels.sql")
        connection.execute(f"create view rm_labels as {view}")
        for table in ("rm", "rm_per_query"):
            ours = rows(connection, f"from {table}")
            assert ours
            assert rows(connection, rendered(folder / f"models/rm/{table}.sql")) == ours
        failures = {
            file.stem.removeprefix("rm__"): connection.execute(rendered(file)).fetchall()
            for file in folder.glob("tests/**/*.sql")
        }
    wrong = {name for name, failing_rows in failures.items() if failing_rows}
    assert wrong == {"check_mrr_min"}, "half of what is relevant stands second"
    sql = (folder / "tests/rm/checks/rm__check_mrr_min.sql").read_text()
    assert "severity='warn'" in sql
    properties = (folder / "models/rm/_rm.yml").read_text()
    assert "# left to `sqlmetrics check`: mrr with confidence 0.9" in properties


def rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """The rows, but for what tells the run, with numbers rounded."""
    result = connection.execute(query)
    apart = [column[0] not in ("run_id", "computed_at") for column in result.description or ()]
    return sorted(
        (
            tuple(
                round(value, 9) if isinstance(value, float) else value
                for value, keep in zip(row, apart, strict=True)
                if keep
            )
            for row in result.fetchall()
        ),
        key=str,
    )


@by_turns(1.4)
def test_the_unit_test_has_values_that_a_hand_can_check(tmp_path: Path) -> None:
    """Query 1 has its relevant item first, query 2 not at all: 1 and 0, .5 together."""
    fields = {
        **SPEC,
        "labels": {"relation": "labels"},
        "metrics": ["ndcg@10", "mrr", "hit@3", "precision@5", "recall@3"],
        "baseline": None,
    }
    sm.export(sm.Spec(**fields), "dbt", tmp_path)
    (test,) = yaml.safe_load((tmp_path / "models/rm/_rm.yml").read_text())["unit_tests"]
    values = {(row["metric"], row["segment_name"]): row["value"] for row in test["expect"]["rows"]}
    wanted = {"ndcg": 0.5, "mrr": 0.5, "hit": 0.5, "precision": 0.1, "recall": 0.5}
    assert values == {
        (metric, segment): value
        for metric, value in wanted.items()
        for segment in ("all", "country")
    }
    sm.export(sm.Spec(**fields), "sqlmesh", tmp_path / "mesh")
    tests = yaml.safe_load((tmp_path / "mesh/tests/test_rm.yaml").read_text())
    (test,) = tests.values()
    by_query = {row["query_id"]: row["mrr"] for row in test["outputs"]["ctes"]["per_query"]["rows"]}
    assert by_query == {"1": 1.0, "2": 0.0}
    assert math.isclose(sum(by_query.values()) / 2, wanted["mrr"])


@pytest.mark.long
def test_the_semantic_model_has_the_form_of_the_version(tmp_path: Path) -> None:
    for version in ("1.11", "1.12"):
        sm.export(sm.Spec(**SPEC), "dbt", tmp_path / version, dbt_version=version)
    old = yaml.safe_load((tmp_path / "1.11/models/rm/_rm_semantics.yml").read_text())
    new = yaml.safe_load((tmp_path / "1.12/models/rm/_rm.yml").read_text())["models"][0]
    assert [metric["name"] for metric in old["metrics"]] == [
        metric["name"] for metric in new["metrics"]
    ]
    assert not (tmp_path / "1.12/models/rm/_rm_semantics.yml").exists()
    (ratio,) = (metric for metric in new["metrics"] if metric["name"].endswith("mrr_by_country"))
    assert ratio["type"] == "ratio"
    (total,) = (metric for metric in new["metrics"] if metric["name"].endswith("num_q"))
    assert (total["type"], total["agg"]) == ("simple", "sum")


@pytest.mark.parametrize(
    ("tool", "changed", "options", "message"),
    [
        ("dbt", {"rankings": {"relation": "r"}}, {}, "no column of dates"),
        ("dbt", {"labels": {"file": "l.parquet"}}, {"dialect": "postgres"}, "DuckDB alone reads"),
        ("dbt", {"output": {"relation": '"my metrics"'}}, {}, "called by a word"),
        ("dbt", {"output": None}, {}, "the spec has no output"),
        ("dbt", {}, {"refs": "qrels"}, "the spec reads no table qrels; there are rankings"),
        ("dbt", {}, {"dbt_version": "2.0"}, r"--dbt-version is 1\.11 or 1\.12, given 2\.0"),
        ("dbt", {}, {"dialect": "mysql"}, "unknown dialect of dbt 'mysql'"),
        ("sqlmesh", {"output": {"relation": "a.rm"}}, {}, "names to have equally many parts"),
    ],
)
def test_what_cannot_be_exported_is_said_in_a_sentence(
    tool: str, changed: dict[str, Any], options: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(sm.SpecError, match=message):
        sm.export(sm.Spec(**(SPEC | {"baseline": None} | changed)), tool, tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_a_table_is_a_source_or_a_model_of_the_project(tmp_path: Path) -> None:
    """Sources by their schemas; a ref by its name alone; a file as a view that reads it."""
    duckdb.sql("select 'q' as query_id, 'i' as item_id, 1 as grade").write_parquet(
        str(tmp_path / "labels.parquet")
    )
    fields = {
        **SPEC,
        "name": "search",
        "rankings": {"relation": 'raw."Ranked Items"', "columns": {"date": "ds"}},
        "labels": {"file": str(tmp_path / "labels.parquet")},
        "queries": {"relation": "stg.queries", "columns": {"segments": ["country"]}},
        "baseline": None,
    }
    sm.export(sm.Spec(**fields), "dbt", tmp_path, refs="queries")
    model = (tmp_path / "models/rm/rm.sql").read_text()
    assert "from {{ source('search', 'ranked_items') }}" in model
    assert "from {{ ref('queries') }}" in model
    assert "from {{ ref('rm_labels') }}" in model
    (source,) = yaml.safe_load((tmp_path / "models/rm/_rm_sources.yml").read_text())["sources"]
    assert source["schema"] == "raw"
    assert source["tables"][0]["identifier"] == "Ranked Items"
    view = rendered(tmp_path / "models/rm/rm_labels.sql")
    assert duckdb.sql(view).fetchall() == [("q", "i", 1)]
