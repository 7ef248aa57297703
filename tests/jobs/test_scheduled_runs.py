"""What schedulers need: days in words, an exit code for "not yet", ranges, what a run has done."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner, Result
from job_days import FIRST, job, log
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.cli import cli
from sqlmetrics.clicks.simulation import simulate
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.jobs.days import day_named, days_between
from sqlmetrics.jobs.run import evaluated
from sqlmetrics.spec import days as days_module
from sqlmetrics.spec.days import Days

NOW = datetime(2026, 1, 3, 23, 30, tzinfo=UTC)
"""Late on the third day of the log in UTC; in Berlin the fourth has begun."""


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(days_module, "clock", lambda: NOW)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a database of six days, and a spec of it."""
    with connect(f"duckdb:///{tmp_path / 'shop.duckdb'}", create=True) as opened:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
    write_spec(tmp_path)
    return tmp_path


def write_spec(folder: Path, **changed: Any) -> None:
    checks = [{"metric": "mrr", "min": 0}, {"min_rows": 1}]
    fields = json.loads(job(**{"checks": checks, **changed}).model_dump_json(exclude_none=True))
    (folder / "shop.yml").write_text(yaml.safe_dump(fields))


def called(verb: str, folder: Path, *words: str, expect: int = 0) -> Result:
    """A command of the spec, with the exit code that it must have."""
    database = [] if "--dry-run" in words else ["--db", str(folder / "shop.duckdb")]
    result = CliRunner().invoke(cli, [verb, str(folder / "shop.yml"), *database, *words])
    error = result.exception
    code = error.exit_code if isinstance(error, SqlmetricsError) else result.exit_code
    assert code == expect, (result.output, error)
    return result


def stored_days(folder: Path) -> list[int]:
    """The days of the fact table by their numbers, from the first of the log."""
    with connect(f"duckdb:///{folder / 'shop.duckdb'}") as opened:
        rows = opened.rows("select distinct metric_date from metrics order by 1")
    return [(day - FIRST).days for (day,) in rows]


# -- days in words --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "zone", "day"),
    [
        ("today", None, date(2026, 1, 3)),
        ("today", "UTC", date(2026, 1, 3)),
        ("today", "Europe/Berlin", date(2026, 1, 4)),
        ("Yesterday ", "Europe/Berlin", date(2026, 1, 3)),
        ("-1 day", None, date(2026, 1, 2)),
        ("-3 days", "America/New_York", date(2025, 12, 31)),
        ("-0 days", None, date(2026, 1, 3)),
        ("2026-02-28", "Europe/Berlin", date(2026, 2, 28)),
        (date(2026, 2, 28), None, date(2026, 2, 28)),
    ],
)
def test_a_day_can_be_said_in_words(
    now: None, text: str | date, zone: str | None, day: date
) -> None:
    assert day_named(text, zone) == day


@pytest.mark.parametrize("text", ["tomorrow", "3 days", "+3 days", "-3", "-99999 days ago", ""])
def test_other_words_are_refused(now: None, text: str) -> None:
    with pytest.raises(sm.SpecError, match=r"--date is a date like 2026-01-31, today, yesterday"):
        day_named(text, option="--date")
    with pytest.raises(sm.SpecError, match="-99999 days"):
        day_named("-99999 days" + "9", None)


def test_an_end_that_is_no_later_is_refused(now: None) -> None:
    assert days_between("-2 days", "today") == Days(start="2026-01-01", end="2026-01-03")
    with pytest.raises(sm.SpecError, match="from 2026-01-03 and before 2026-01-02"):
        days_between("today", "yesterday")


@by_turns(1.5)
def test_a_run_of_yesterday_fills_yesterday(now: None, shop: Path) -> None:
    called("run", shop, "--start", "yesterday", "--end", "today")
    assert stored_days(shop) == [1]
    sql = called("run", shop, "--start", "-2 days", "--end", "yesterday", "--dry-run").stdout
    assert "'2026-01-01' as date" in sql
    called("check", shop, "--date", "yesterday")
    called("check", shop, "--start", "yesterday")
    output = called("show", shop, "--start", "yesterday", "--end", "today", "-o", "json").stdout
    assert {row["metric_date"] for row in json.loads(output)} == {"2026-01-02"}
    two = called("compare", shop, "--systems", "new", "--dates", "-2 days,yesterday", "-m", "mrr")
    assert "2026-01-02" in two.stdout
    assert "2026-01-01" in two.stdout
    spec = sm.Spec.read(shop / "shop.yml")
    with connect(f"duckdb:///{shop / 'shop.duckdb'}") as opened:
        assert {verdict.day for verdict in sm.check(spec, opened, day="yesterday")} == {
            date(2026, 1, 2)
        }


# -- not yet --------------------------------------------------------------------------


@by_turns(1)
def test_no_data_yet_is_told_apart_from_what_is_wrong(shop: Path) -> None:
    later = ("--start", "2026-03-01", "--end", "2026-03-02")
    called("check", shop, expect=4)  # no table yet
    result = called("run", shop, *later, expect=4)
    assert "from 2026-03-01 and before 2026-03-02; the last day is 2026-01-06" in str(
        result.exception
    )
    called("run", shop, "--start", "2026-13-01", expect=2)
    called("run", shop)
    called("check", shop, *later, expect=4)
    called("check", shop, "--date", "2026-03-01", expect=4)
    called("build", shop, *later, expect=4)
    called("show", shop, *later, expect=4)
    assert stored_days(shop) == [0, 1, 2, 3, 4, 5]


@by_turns(1)
def test_a_condition_that_leaves_all_out_is_no_waiting_matter(shop: Path) -> None:
    columns = {"score": "score", "system": "system", "date": "ds"}
    rankings = {"relation": "runs", "columns": columns}
    write_spec(shop, rankings=rankings | {"where": "system = 'nwe'"})
    called("run", shop, expect=2)
    called("run", shop, "--start", "2026-03-01", expect=4)
    write_spec(shop, rankings=rankings | {"where": "system = 'new'"})
    called("run", shop, "--start", "2026-03-01", expect=4)
    called("run", shop)


@by_turns(1)
@pytest.mark.parametrize("asked", [{"metrics": ["ndcg@5"]}, {"online": ["ctr@5"]}])
def test_a_click_log_waits_for_its_day_and_keeps_the_others(
    tmp_path: Path, asked: dict[str, Any]
) -> None:
    simulate(tmp_path, requests=40, users=20, queries=5, days=2)
    clicks = {
        "impressions": {
            "file": str(tmp_path / "impressions.parquet"),
            "columns": {"time": "shown_at"},
        },
        "events": {"file": str(tmp_path / "events.parquet")},
    }
    spec = sm.Spec(name="log", clicks=clicks, output={"relation": "numbers"}, **asked)
    with connect() as opened:
        sm.run(spec, opened)
        rows = opened.rows("select count(*) from numbers")
        with pytest.raises(sm.NoDataError, match="no impression is left"):
            sm.run(spec, opened, start="2035-01-01")
        with pytest.raises(sm.NoDataError, match="no impression is left"):
            evaluated(spec, opened, days_between("2035-01-01", None))
        assert opened.rows("select count(*) from numbers") == rows


# -- a range --------------------------------------------------------------------------


@by_turns(1)
def test_each_day_of_a_range_is_checked(shop: Path, tmp_path: Path) -> None:
    called("run", shop)
    spec = sm.Spec.read(shop / "shop.yml")
    with connect(f"duckdb:///{shop / 'shop.duckdb'}") as opened:
        one_by_one = [
            result
            for day in range(6)
            for result in sm.check(spec, opened, day=FIRST + timedelta(day))
        ]
        assert list(sm.check(spec, opened, start=FIRST)) == one_by_one
        assert list(sm.check(spec, opened, end="2026-01-03")) == one_by_one[:6]
        with pytest.raises(sm.SpecError, match=r"one day \(day\) or a range of days"):
            sm.check(spec, opened, day=FIRST, start=FIRST)
        opened.execute("delete from metrics where metric_date in ('2026-01-03', '2026-01-04')")
        results = sm.check(spec, opened, start=FIRST, end="2026-01-08")
    gaps = [result for result in results if result.is_of_gap]
    assert [(str(result.day), result.holds) for result in gaps] == [
        ("2026-01-03", False),
        ("2026-01-07", False),
    ]
    assert gaps[0].note.startswith("no row of shop from 2026-01-03 and before 2026-01-05; the last")
    assert gaps[1].note.startswith("no row of shop on this day")
    assert {str(result.day) for result in results if result.holds} == {
        "2026-01-01",
        "2026-01-02",
        "2026-01-05",
        "2026-01-06",
    }
    xml = tmp_path / "c.xml"
    table = called("check", shop, "--start", "2026-01-01", "--junit", str(xml), expect=1).stdout
    assert table.splitlines()[0].split()[:3] == ["status", "day", "metric"]
    assert table.splitlines()[1].split()[:3] == ["FAILED", "2026-01-03", "rows"]
    assert re.fullmatch(r"ok: \d+ checks of \d days; -v prints each", table.splitlines()[-1])
    verbose = called("check", shop, "--start", "2026-01-01", "-v", expect=1).stdout
    held = [line.split()[1] for line in verbose.splitlines() if line.startswith("ok ")]
    assert {*held} == {"2026-01-01", "2026-01-02", "2026-01-05", "2026-01-06"}
    names = [str(case.get("name")) for case in ET.parse(xml).getroot()[0]]
    assert "mrr min 0 new on 2026-01-02" in names
    assert len({*names}) == len(names)


@by_turns(0.6)
def test_warnings_alone_do_not_fail_for_a_gap(shop: Path) -> None:
    called("run", shop, "--end", "2026-01-03")
    write_spec(shop, checks=[{"metric": "mrr", "min": 0, "severity": "warn"}])
    called("check", shop, "--start", "2026-01-02", "--end", "2026-01-05")
    called("check", shop, "--start", "2026-01-04", expect=4)


@by_turns(2.5)
def test_build_checks_the_days_that_it_wrote(shop: Path) -> None:
    called("run", shop, "--start", "2026-01-02", "--end", "2026-01-05")

    def checked(*words: str) -> list[str]:
        summary = json.loads(called("build", shop, "-o", "json", *words).stdout)
        return sorted({check["day"] for check in summary["checks"]})

    assert checked("--backfill") == ["2026-01-01", "2026-01-05", "2026-01-06"]
    assert checked("--start", "2026-01-02", "--end", "2026-01-04") == ["2026-01-02", "2026-01-03"]
    assert checked("--end", "2026-01-02") == ["2026-01-01"]
    assert checked("--backfill") == ["2026-01-06"], "nothing was missing: the last day"
    assert checked() == ["2026-01-06"]
    write_spec(shop, checks=[{"metric": "mrr", "min": 2}])
    failed = called("build", shop, "-o", "json", expect=1)
    assert json.loads(failed.stdout)["exit_code"] == 1


# -- what a run has done --------------------------------------------------------------


@by_turns(2)
def test_a_summary_says_what_the_run_log_says(shop: Path) -> None:
    out = shop / "run.json"
    result = called("run", shop, "--end", "2026-01-03", "--out", str(out))
    assert result.stdout == ""
    called("run", shop, "--start", "2026-01-05")
    summary = json.loads(called("run", shop, "--backfill", "--lookback", "1", "-o", "json").stdout)
    assert (summary["outcome"], summary["exit_code"]) == ("replaced", 0)
    assert (summary["start"], summary["end"]) == ("2026-01-03", "2026-01-07")
    with connect(f"duckdb:///{shop / 'shop.duckdb'}") as opened:
        logged = opened.rows(
            "select run_id, range_start::varchar, range_end::varchar, facts, per_query "
            "from metrics_runs order by started_at"
        )
        hashes = dict(opened.rows("select metric, definition_hash from metrics where k = 0"))
        rows = opened.rows(
            "select count(*) from metrics where metric_date in "
            "('2026-01-03', '2026-01-04', '2026-01-06')"
        )
    first = json.loads(out.read_text())["runs"]
    names = ("metrics", "metrics_of_queries")
    assert [
        (run["run_id"], run["start"], run["end"], *(run["rows"][name] for name in names))
        for run in [*first, *summary["runs"]]
    ] == [logged[0], *logged[2:]]
    assert summary["rows"]["metrics"] == rows[0][0]
    assert hashes.items() <= summary["definitions"].items()
    assert "ndcg@3" in summary["definitions"]
    nothing = json.loads(called("run", shop, "--backfill", "-o", "json").stdout)
    assert (nothing["outcome"], nothing["runs"], nothing["rows"]) == ("nothing to do", [], {})
    late = called("run", shop, "--start", "2026-03-01", "-o", "json", expect=4)
    assert json.loads(late.stdout)["outcome"] == "no data"
    wrong = called(
        "run", shop, "--out", str(out), "--publish", "duckdb:///no/where.duckdb", expect=2
    )
    failed = json.loads(out.read_text())
    assert (failed["outcome"], failed["message"]) == ("failed", str(wrong.exception))
    called("run", shop, "--dry-run", "-o", "json", expect=2)


def events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def lineage(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    run = "0194e8a0-0000-7000-8000-000000000001"
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/nightly.run/{run}")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "search")
    return shop / "events.jsonl"


@by_turns(0.6)
def test_lineage_begins_and_ends(shop: Path, lineage: Path) -> None:
    first = ("--start", "2026-01-01", "--end", "2026-01-03")
    called("run", shop, *first, "--openlineage", str(lineage))
    called("run", shop, "--start", "2026-03-01", "--openlineage", str(lineage), expect=4)
    start, complete, again, fail = events(lineage)
    kinds = [event["eventType"] for event in (start, complete, again, fail)]
    assert kinds == ["START", "COMPLETE", "START", "FAIL"]
    assert start["run"]["runId"] == complete["run"]["runId"] != fail["run"]["runId"]
    assert (start["job"]["namespace"], start["job"]["name"]) == ("search", "sqlmetrics.shop")
    namespace = f"duckdb://{shop / 'shop.duckdb'}"
    assert {(dataset["namespace"], dataset["name"]) for dataset in start["inputs"]} == {
        (namespace, "shop.main.runs"),
        (namespace, "shop.main.truth"),
    }
    outputs = {dataset["name"]: dataset for dataset in complete["outputs"]}
    ends = ("", "_of_queries", "_runs", "_metrics", "_definitions")
    assert set(outputs) == {f"shop.main.metrics{end}" for end in ends}
    with connect(f"duckdb:///{shop / 'shop.duckdb'}") as opened:
        for name, dataset in outputs.items():
            table = name.removeprefix("shop.main.")
            fields = {field["name"] for field in dataset["facets"]["schema"]["fields"]}
            assert fields == {*opened.columns(table)}
        ((rows,),) = opened.rows("select count(*) from metrics")
    facts = outputs["shop.main.metrics"]
    assert facts["outputFacets"]["outputStatistics"]["rowCount"] == rows
    facets = complete["run"]["facets"]
    assert facets["parent"]["job"] == {"namespace": "airflow", "name": "nightly.run"}
    assert facets["nominalTime"]["nominalEndTime"] == "2026-01-03T00:00:00+00:00"
    assert facets["sqlmetrics_run"]["rows"]["metrics"] == rows
    assert "the table has no rows" in fail["run"]["facets"]["errorMessage"]["message"]
    assert all("_schemaURL" in facet for facet in facets.values())


@pytest.mark.parametrize(
    ("url", "namespace", "name"),
    [
        ("postgresql://ann:secret@db/sales", "postgres://db:5432", "sales.public.runs"),
        ("postgresql://db:5433/sales?schema=own", "postgres://db:5433", "sales.own.runs"),
        ("mysql://db/sales", "mysql://db:3306", "sales.runs"),
        ("clickhouse://db:8124/sales", "clickhouse://db:8124", "sales.runs"),
        ("sqlite:////a/b.db", "sqlite:///a/b.db", "runs"),
        ("duckdb:////a/b.duckdb", "duckdb:///a/b.duckdb", "b.main.runs"),
    ],
)
def test_tables_are_called_as_catalogues_call_them(url: str, namespace: str, name: str) -> None:
    from sqlmetrics.engines.url import parse_url
    from sqlmetrics.jobs.notices.columns import inputs, outputs

    columns = {"score": "score", "system": "system"}
    files = {"labels": {"file": "s3://lake/labels.parquet"}, "queries": {"file": "queries.csv"}}
    spec = job(rankings={"relation": "runs", "columns": columns}, **files)
    names = {(dataset.namespace, dataset.name) for dataset in inputs(spec, parse_url(url))}
    assert names == {
        (namespace, name),
        ("s3://lake", "labels.parquet"),
        ("file", os.path.abspath("queries.csv")),
    }
    named = job(rankings={"sql": "from other.runs, 'a.parquet'", "columns": columns})
    read = {dataset.name for dataset in inputs(named, parse_url(url))}
    assert os.path.abspath("a.parquet") in read
    assert any(table.endswith("other.runs") for table in read)
    # an alias is no name; of another grammar, a table beside what is made of its column is read
    unnested = "select * from runs AS r cross join lateral jsonb_array_elements(r.items) as i"
    named = job(rankings={"sql": unnested, "columns": columns})
    assert (namespace, name) in {
        (dataset.namespace, dataset.name) for dataset in inputs(named, parse_url(url))
    }
    assert {dataset.namespace for dataset in outputs(spec, parse_url(url))} == {namespace}


def test_a_server_that_is_not_there_fails_no_run(shop: Path) -> None:
    pytest.importorskip("openlineage", reason="pip install 'sqlmetrics[openlineage]'")
    result = called("run", shop, "--openlineage", "http://127.0.0.1:9/")
    assert "did not take the event START" in result.stderr
    assert stored_days(shop) == [0, 1, 2, 3, 4, 5]
