"""Rows are those of one spec, by the definitions that it has now: else a run says so first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
import yaml
from command import sqlmetrics
from job_days import DUCKDB_USUALLY, METRICS, days, engine, facts, job, log
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.checks.verdict import verdicts
from sqlmetrics.jobs.definitions import note_of_others
from sqlmetrics.jobs.run import write

__all__ = ["engine"]  # the fixture

pytestmark = by_turns(0.7)

COLUMNS = {"score": "score", "system": "system", "date": "ds"}


def rankings(**changed: Any) -> dict[str, Any]:
    return {"rankings": {"relation": "runs", "columns": COLUMNS} | changed}


@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_another_spec_of_the_same_name_is_refused_before_it_deletes(engine: Any) -> None:
    write(job(), engine)
    before = facts(engine)
    changed_specs = {
        "rankings from the table runs, but this one reads the table truth": job(
            **rankings(relation="truth")
        ),
        "labels from the table truth, but this one reads a query of runs": job(
            labels={"sql": "select * from runs", "columns": {"grade": "score"}}
        ),
        "its rankings had score in the column score, but this one has it in item_id": job(
            **rankings(columns=COLUMNS | {"score": "item_id"})
        ),
        "its rankings had system in the column system, but this one has none": job(
            **rankings(columns={"score": "score", "date": "ds"})
        ),
        "its labels had no date, but this one has it in ds": job(
            labels={"relation": "truth", "columns": {"date": "ds"}}
        ),
        "this one has hit@2: no metric is the same": job(metrics=["hit@2"]),
    }
    for reason, other in changed_specs.items():
        for chosen in ({"days": days(0, 2)}, {"full_refresh": True}, {}):
            with pytest.raises(sm.SpecError, match=f"{reason}.*--adopt"):
                write(other, engine, **chosen)
    assert facts(engine) == before
    write(job(metrics=["hit@2"]), engine, adopt=True)
    now = facts(engine)
    assert {key[4] for key in now.keys() - before.keys()} == {"hit"}
    assert {key: now[key] for key in before} == before
    with pytest.raises(sm.SpecError, match="no metric is the same"):
        write(job(), engine)
    if engine.name == "Apache Spark":  # no table of it takes an update
        return
    forget = "update metrics_runs set sources = null"  # then any spec may take the name
    if engine.name.startswith("ClickHouse"):
        forget = (
            "alter table metrics_runs update sources = null where true settings mutations_sync = 1"
        )
    engine.execute(forget)
    report = write(job(), engine)
    assert "keep their rows: hit@2 (6 days, retired after 2026-01-06)" in report.notes[-1]
    assert facts(engine).keys() == now.keys()
    logged = engine.rows("select sources, metrics from metrics_runs where sources is not null")
    ((sources, metrics),) = logged
    assert metrics == "ndcg@3, recall(rel=2)@5, mrr, auc, num_ret"
    assert json.loads(sources)["rankings"]["relation"] == "runs"


def test_a_spec_that_changed_is_the_same_spec(tmp_path: Path) -> None:
    """What it reads has moved, or has a number or a condition more; metrics come and go."""
    runs, truth = log(days=2)
    with connect() as engine:
        for schema in ("old", "new"):
            engine.execute(f"create schema {schema}")
        engine.load("runs", runs)
        for name in ("old.runs", "new.runs_v2"):
            engine.execute(f"create table {name} as select * from runs")
        engine.load("truth", truth)
        engine.execute(f"copy runs to '{tmp_path}/runs.parquet'")
        engine.execute(f"copy runs to '{tmp_path}/runs_2026-01-02.parquet'")
        (tmp_path / "there").mkdir()
        changes: list[dict[str, Any]] = [
            {},
            rankings(relation="old.runs"),
            rankings(relation="new.runs_v2"),
            rankings(relation=None, sql="select * from new.runs_v2 where query_id <> 'q0'"),
            {"metrics": METRICS[:2], "by": []},
            {"metrics": [*METRICS, "hit@1"], "labels": {"relation": "truth", "where": "grade < 9"}},
            rankings(relation=None, file=f"{tmp_path}/runs.parquet"),
        ]
        for changed in changes[:2]:
            write(job(**changed), engine)
        message = r"from the table old\.runs, but this one reads the table new\.runs_v2\."
        with pytest.raises(sm.SpecError, match=message):
            write(job(**changes[2]), engine)
        engine.execute("drop table old.runs")
        for changed in changes[2:]:
            write(job(**changed), engine)
        moved = tmp_path / "there" / "runs.parquet"
        (tmp_path / "runs.parquet").rename(moved)
        write(job(**rankings(relation=None, file=str(moved))), engine)
        (tmp_path / "runs.parquet").write_bytes(moved.read_bytes())
        with pytest.raises(sm.SpecError, match=f"the file {moved}, but this one reads"):
            write(job(**rankings(relation=None, file=f"{tmp_path}/runs.parquet")), engine)


@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_rows_of_another_definition_are_told(engine: Any) -> None:
    """By a run that would add to them, by check, and by what show says beside its numbers."""
    checks = [{"metric": "mrr", "min": 0}]
    write(job(checks=checks), engine, days(0, 4))
    assert all(result.holds for result in verdicts(job(checks=checks), engine))
    changes: dict[str, dict[str, Any]] = {
        "ties was 'id_asc', is 'id_desc'": {"conventions": {"ties": "id_desc"}},
        "where.rankings was not given, is \"query_id <> 'q0'\"": rankings(where="query_id <> 'q0'"),
        "where.labels was not given, is 'grade < 3'": {
            "labels": {"relation": "truth", "where": "grade < 3"}
        },
        "sql.rankings was not given, is 'select * from runs where score > 1'": rankings(
            relation=None, sql="select * from runs\nwhere score > 1 -- shown"
        ),
        "confidence was not given, is 0.5": {"confidence": 0.5},
    }
    for reason, changed in changes.items():
        spec = job(**changed, checks=checks)
        with pytest.raises(sm.SpecError) as refused:
            write(spec, engine, days(4, 6))
        assert reason in str(refused.value)
        assert reason in note_of_others(spec, engine)
        results = verdicts(spec, engine)
        assert {(result.rule, result.holds, reason in result.note) for result in results} == {
            ("definition", False, True)
        }
    write(spec, engine, full_refresh=True)
    assert note_of_others(spec, engine) == ""
    assert all(result.holds for result in verdicts(spec, engine))
    status = engine.rows("select n_metrics_redefined from metrics_status")
    assert [int(n) for (n,) in status] == [0]


def test_a_release_that_changes_a_number_says_so_in_its_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = job()
    before = {measure.name: spec.definition_hash(measure) for measure in spec.measures}
    monkeypatch.setattr("sqlmetrics.spec.definition.MEANINGS", {"mrr": 1})
    after = {measure.name: spec.definition_hash(measure) for measure in spec.measures}
    assert [name for name in before if before[name] != after[name]] == ["mrr"]
    assert spec.definition(spec.measure("mrr"))["meaning"] == 1


def test_show_definition_says_what_changed_and_when(tmp_path: Path) -> None:
    for name, rows in zip(("runs", "truth"), log(days=3), strict=True):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    spec: dict[str, Any] = {
        "rankings": {"file": "runs.parquet", "columns": COLUMNS},
        "labels": {"file": "truth.parquet"},
        "metrics": ["mrr"],
        "output": {"relation": "metrics"},
    }
    database, file = ("--db", "m.duckdb"), tmp_path / "shop.yml"
    file.write_text(yaml.safe_dump(spec))
    sqlmetrics("run", "shop.yml", *database, "--end", "2026-01-03", folder=tmp_path)
    spec["labels"]["where"] = "grade < 3"
    file.write_text(yaml.safe_dump(spec))
    output = sqlmetrics("show", "shop.yml", *database, "--definition", folder=tmp_path).stdout
    first, second, change, *text = output.splitlines()
    assert first.endswith(", from 2026-01-01 to 2026-01-02")
    assert second.endswith(", not computed yet")
    assert change == "  where.labels was not given, is 'grade < 3'"
    assert yaml.safe_load("\n".join(text))["where"] == {"labels": "grade < 3"}
    as_json = sqlmetrics(
        "show", "shop.yml", *database, "--definition", "-o", "json", folder=tmp_path
    ).stdout
    rows = json.loads(as_json)
    assert [row["changes"] for row in rows] == [None, change.strip()]
    assert [row["last_date"] for row in rows] == ["2026-01-02", None]
    assert json.loads(rows[0]["definition"])["ties"] == "id_asc"
    the_removed_metric_is_retired(spec, file, tmp_path)


def the_removed_metric_is_retired(spec: dict[str, Any], file: Path, folder: Path) -> None:
    """Shown, refused by a check, and in a view, with the day since when."""
    spec |= {"metrics": ["hit@1", "ndcg@3"], "checks": [{"metric": "mrr", "min": 0}]}
    file.write_text(yaml.safe_dump(spec))
    database = ("--db", "m.duckdb")
    sqlmetrics("run", "shop.yml", *database, "--adopt", "--start", "2026-01-03", folder=folder)
    output = sqlmetrics("show", "shop.yml", *database, "--definition", folder=folder).stdout
    assert ", from 2026-01-01 to 2026-01-02, retired since 2026-01-03\n" in output
    json_line = ("show", "shop.yml", *database, "--definition", "-o", "json")
    rows = json.loads(sqlmetrics(*json_line, folder=folder).stdout)
    retired = [(row["metric"], row["is_retired"], row["retired_since"]) for row in rows]
    assert retired == [("hit@1", False, None), ("ndcg@3", False, None), ("mrr", True, "2026-01-03")]
    refused = sqlmetrics("check", "shop.yml", *database, folder=folder, expect=2).stderr
    assert "the spec no longer has mrr, which is retired since 2026-01-03" in refused
    with duckdb.connect(str(folder / "m.duckdb")) as connection:
        view = "select name, cast(retired_since as varchar) from metrics_retired"
        assert connection.execute(view).fetchall() == [("mrr", "2026-01-03")]
    for _ in range(2):  # the second time there is nothing to do
        line = ("run", "shop.yml", *database, "--adopt", "--backfill")
        notes = sqlmetrics(*line, folder=folder).stderr
        assert "note: metrics that are no longer in the spec keep their rows: mrr (2 days" in notes
    assert "no day of shop is missing" in notes


def test_a_segment_that_is_a_condition_has_definitions_of_its_own() -> None:
    """A new one is added to the days to come, and a changed one is refused."""

    def cut(condition: str) -> sm.Spec:
        return job(by=["country", "early"], segments={"early": condition})

    with connect() as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        write(job(), engine, days(0, 2))
        write(cut("query_id < 'q2'"), engine, days(2, 4))
        with pytest.raises(sm.SpecError, match='segment was "query_id < \'q2\'", is "query_id < '):
            write(cut("query_id < 'q3'"), engine, days(4, 5))
        write(job(), engine, days(4, 5))
        assert engine.rows(
            "select segment_name, count(distinct definition_hash) from metrics "
            "where metric = 'mrr' group by segment_name order by 1"
        ) == [("all", 1), ("country", 1), ("early", 1)]
        defined = "select definition_hash from metrics_definitions"
        hashes = f"select 1 from metrics where definition_hash not in ({defined})"
        assert engine.rows(hashes) == []


def test_a_spec_without_checks_is_not_built(tmp_path: Path) -> None:
    for name, rows in zip(("runs", "truth"), log(days=2), strict=True):
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    spec = {
        "rankings": {"file": "runs.parquet", "columns": COLUMNS},
        "labels": {"file": "truth.parquet"},
        "metrics": ["mrr"],
        "output": {"relation": "metrics"},
    }
    wrong = [{"metric": "ndcg@3", "min": 0}]
    for checks, problem in ([], "the spec has no checks"), (wrong, "unknown metric of the spec"):
        (tmp_path / "shop.yml").write_text(yaml.safe_dump(spec | {"checks": checks}))
        failed = sqlmetrics("build", "shop.yml", "--db", "m.duckdb", folder=tmp_path, expect=2)
        assert problem in failed.stderr
        assert not (tmp_path / "m.duckdb").exists()
