"""The experiment's table: each day alone and in running total, whatever the order of runs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.api import looks_of
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.jobs.dry_run import dry_run
from sqlmetrics.jobs.files import compile_job
from sqlmetrics.jobs.history.removal import made_by_runs
from sqlmetrics.jobs.history.restore import restore
from sqlmetrics.jobs.missing_days import Part
from sqlmetrics.jobs.publish import publish
from sqlmetrics.jobs.run import write
from sqlmetrics.spec.days import Days

COLUMNS = {
    "request": "request_id",
    "item": "item_id",
    "position": "position",
    "system": "variant",
    "user": "user_id",
    "time": "shown_at",
    "segments": ["differs"],
    "amount": "paid",
    "actions": {"click": "clicked", "purchase": "bought"},
}
EXPERIMENT: Mapping[str, Any] = {
    "variants": ["A", "B", "C"],
    "control": "A",
    "primary": "ctr@1",
    "guardrails": [{"metric": "purchases", "max_drop_pct": 20}],
}
FIRST = date(2026, 1, 1)
DAYS = 4
CLICKED = {"A": 0.3, "B": 0.45, "C": 0.3}


def log_rows(n_users: int = 240, days: int = DAYS) -> list[dict[str, Any]]:
    """Users of three variants who come back on other days; the first six are in two of them."""
    chance = random.Random(1)
    rows = []
    for user in range(n_users):
        for request in range(3):
            variant = "ABC"[(user + (request if user < 6 else 0)) % 3]
            day = FIRST + timedelta((user // 3 + request * 2) % days)
            for position in (1, 2):
                clicked = int(chance.random() < CLICKED[variant])
                bought = int(clicked and chance.random() < 0.5)
                rows.append(
                    {
                        "request_id": f"r{user}_{request}",
                        "item_id": f"i{position}",
                        "position": position,
                        "variant": variant,
                        "user_id": f"u{user}",
                        "differs": (user // 3 + request) % 3 > 0,
                        "shown_at": f"{day} 10:00:00",
                        "clicked": clicked,
                        "bought": bought,
                        "paid": round(chance.paretovariate(1.5), 2) if bought else None,
                    }
                )
    return rows


def spec_of(**changed: Any) -> sm.Spec:
    log = {"relation": "clicked", "columns": COLUMNS}
    clicks = {"log": log, "daily": True, "experiment": {**EXPERIMENT, **changed}}
    return sm.Spec(name="shop", clicks=clicks, metrics=["ctr"], output={"relation": "m"})


def loaded(engine: Database, rows: Sequence[dict[str, Any]]) -> None:
    """The log as a table, in the place of an older one."""
    if engine.find("clicked"):
        engine.execute("drop table clicked")
    engine.driver.load("clicked", pa.Table.from_pylist([*rows]))
    if engine.name == "PostgreSQL":
        engine.execute("analyze clicked")


def night(spec: sm.Spec, engine: Database, first: int, end: int | None = None) -> Any:
    """A run of some days, counted from the first."""
    start = FIRST + timedelta(first)
    days = Days(start=start, end=FIRST + timedelta(end or first + 1))
    return write(spec, engine, days, looks=looks_of(spec))


def rows_of(engine: Database) -> list[tuple[Any, ...]]:
    """All rows of the table, without what names the run."""
    rows = engine.records("select * from m_experiment order by metric_date, span, system, metric")
    unnamed = [
        {**row, "metric_date": str(row["metric_date"])[:10], "run_id": "", "computed_at": ""}
        for row in rows
    ]
    return [tuple(row.values()) for row in unnamed]


def without_late(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The log a night earlier: some requests of the first two days have not come yet."""
    return [
        row for row in rows if int(row["user_id"][1:]) % 4 != 1 or row["shown_at"] > "2026-01-02 24"
    ]


@by_turns(7)
def test_the_table_is_that_of_one_run_whatever_the_order() -> None:
    spec = spec_of()
    with connect() as engine:
        loaded(engine, log_rows())
        night(spec, engine, 0, DAYS)
        wanted = rows_of(engine)
        assert len(wanted) == DAYS * 2 * 2 * 2
        night(spec, engine, 1)
        assert rows_of(engine) == wanted, "a day again"
        engine.execute("delete from m_experiment")
        for day in (2, 0, 3, 1):
            night(spec, engine, day)
        assert rows_of(engine) == wanted, "days out of order"
        write(spec, engine, full_refresh=True, looks=looks_of(spec))
        assert rows_of(engine) == wanted, "all days that the log has"
        last = wanted[-1][1]
        loaded(engine, [row for row in log_rows() if row["shown_at"] < last])
        write(spec, engine, full_refresh=True, allow_loss=1, looks=looks_of(spec))
        assert rows_of(engine) == [row for row in wanted if row[1] < last], "a day has gone"


@by_turns(4)
@pytest.mark.parametrize("name", engines(["duckdb", "sqlite", "postgres"], now=["duckdb"]))
def test_late_rows_are_in_all_running_totals(name: str, servers: Servers) -> None:
    spec, rows = spec_of(variants=["A", "B"]), log_rows(120)
    with servers.open(name) as driver, Database(driver) as engine:
        loaded(engine, without_late(rows))
        night(spec, engine, 0, DAYS)
        before = rows_of(engine)
        loaded(engine, rows)
        report = night(spec, engine, 0, 2)
        late = rows_of(engine)
        assert late != before
        assert [row for row in late if row in before] == [
            row for row in late if row[2] == "day" and row[1] > "2026-01-02"
        ]
        assert report.rows["experiment"] == 2 * 2 * 2
        night(spec, engine, 0, DAYS)
        assert [rounded(row) for row in rows_of(engine)] == [*map(rounded, late)]


def rounded(row: Sequence[Any]) -> list[Any]:
    """A row without what floats add up to in another order."""
    return [float(f"{cell:.12g}") if isinstance(cell, float) else cell for cell in row]


@by_turns(1.5)
@pytest.mark.parametrize(
    "asked",
    [
        {"triggered": "differs"},
        {
            "primary": "revenue_per_request",
            "triggered": "differs",
            "winsorise": 0.9,
            "start": "2026-01-03",
            "end": "2026-01-06",
            "cuped_days": 2,
            "level": 0.8,
        },
    ],
)
def test_numbers_are_those_of_the_experiment(asked: dict[str, Any]) -> None:
    spec = spec_of(**asked)
    with connect() as engine:
        loaded(engine, log_rows())
        night(spec, engine, 0, DAYS)
        records = engine.records("select * from m_experiment")
        for span in ("running",) if "cuped_days" in asked else ("running", "day"):
            start = None if span == "running" else date(2026, 1, 4)
            days = {"start": start or asked.get("start"), "end": "2026-01-05"}
            result = sm.experiment(spec_of(**asked | days), engine)
            rows = {
                (row["system"], row["metric"] + (f"@{row['k']}" if row["k"] else "")): row
                for row in records
                if row["span"] == span and str(row["metric_date"])[:10] == "2026-01-04"
            }
            assert len(rows) == len(result.metrics) == 4
            for wanted in result.metrics:
                row = rows[wanted.variant, wanted.metric]
                for column in ("value", "control_value", "difference", "always_low", "p_value"):
                    assert row[column] == pytest.approx(getattr(wanted, column), rel=1e-12)
                assert row["relative_high"] == pytest.approx(wanted.relative_high, rel=1e-12)
                assert row["n_units"] == result.mismatch.counts[wanted.variant]
                assert row["p_sample_ratio"] == pytest.approx(result.mismatch.p_value, rel=1e-12)
                assert row["state"] == (wanted.state if span == "running" else None)
                assert (row["n_mixed"], row["n_days"]) == (result.n_mixed, result.days)


@by_turns(6)
def test_a_run_that_is_taken_back_takes_its_totals_along() -> None:
    spec, rows = spec_of(variants=["A", "B"]), log_rows()
    with connect() as engine:
        loaded(engine, without_late(rows))
        night(spec, engine, 0, 3)
        before = rows_of(engine)
        loaded(engine, rows)
        late = night(spec, engine, 1)
        after = rows_of(engine)
        restored = restore(spec, engine, late.run_id)
        assert (rows_of(engine), restored.notes) == (before, [])
        restore(spec, engine, restored.run_id)
        assert rows_of(engine) == after
        night(spec, engine, 3)  # holds what the late run read
        again = restore(spec, engine, late.run_id)
        assert "running totals of 2026-01-04 were written later" in " ".join(again.notes)
        assert [row for row in rows_of(engine) if row[1] < "2026-01-04"] == before


@by_turns(4)
def test_a_look_that_says_nothing_has_no_numbers() -> None:
    rows = log_rows()
    spec = spec_of(variants=["A", "B"], looks="end", start="2026-01-02", end="2026-01-04")
    with connect() as engine:
        loaded(engine, rows)
        assert night(spec, engine, 0).rows["experiment"] == 0
        night(spec, engine, 0, DAYS)
        verdicts = engine.records(
            "select metric_date, verdict, reason, value from m_experiment "
            "where span = 'running' and metric = 'ctr' order by metric_date"
        )
        assert verdicts[0]["verdict"] == "not yet"
        assert "allows one look then" in verdicts[0]["reason"]
        assert [row["value"] is None for row in verdicts] == [True, False]
        uneven = spec_of(variants=["A", "B"], shares={"A": 9, "B": 1})
        assert "experiment: no verdict (B): A has" in " ".join(night(uneven, engine, 0).notes)
        ((n, p),) = engine.rows(
            "select count(value), max(p_sample_ratio) from m_experiment "
            "where metric_date = date '2026-01-01'"
        )
        assert (n, p < 0.001) == (0, True)
        nowhere = spec_of(variants=["A", "Bee"])
        report = night(nowhere, engine, 0, 2)
        assert "no verdict (Bee): no request of Bee; unknown system 'Bee'" in " ".join(report.notes)
        other = night(spec_of(variants=["A", "B"]), engine, 3)
        assert "2026-01-01, 2026-01-02, 2026-01-03 were computed with other" in str(other.notes)
        loaded(engine, [row for row in rows if row["shown_at"] > "2026-01-02"])
        fewer = night(spec_of(variants=["A", "B"]), engine, 3)
        assert "up to 2026-01-04 the log has 3 days, an earlier run read 4" in str(fewer.notes)


@by_turns(5)
def test_the_table_goes_wherever_the_others_go(tmp_path: Path) -> None:
    spec, file = spec_of(variants=["A", "B"]), tmp_path / "bi.duckdb"
    database = str(tmp_path / "shop.duckdb")
    duckdb.connect(database).close()
    with connect(database) as engine:
        loaded(engine, log_rows())
    (report,) = sm.run(spec, database, start="2026-01-01", end="2026-01-03")
    assert report.rows["experiment"] == 8
    text = compile_job(spec, "postgres")
    assert "m_experiment" not in text["01_tables.sql"]
    assert "m_experiment is written by sqlmetrics run alone" in text["03_replacement.sql"]
    plain = spec.having(clicks=spec.clicks.model_copy(update={"experiment": None}))
    with connect(database) as engine:
        days = Part(Days(start=FIRST, end=FIRST + timedelta(1)))
        assert "-- m_experiment is written by sqlmetrics run alone" in dry_run(spec, engine, days)
        for version in (spec, plain):
            publish(version, engine, str(file))
            with connect(str(file)) as published:
                assert len(rows_of(published)) == 8
            assert "m_experiment" in {thing.name for thing in made_by_runs(version, engine)}


@by_turns(3)
def test_checks_fail_where_a_guardrail_or_the_sample_ratio_is_broken() -> None:
    rails = [{"metric": "purchases", "max_drop_pct": 1}]
    spec = spec_of(variants=["A", "B"], guardrails=rails, start="2026-01-02", end="2026-01-04")
    checks = [
        {"experiment": "guardrails"},
        {"experiment": "primary", "severity": "warn"},
        {"experiment": "sample_ratio"},
    ]
    spec = spec.having(checks=checks)

    def turned(**changed: Any) -> sm.Spec:
        experiment = spec.clicks.experiment.model_copy(update=changed)  # type: ignore[union-attr]
        clicks = spec.clicks.model_copy(update={"experiment": experiment})  # type: ignore[union-attr]
        return spec.having(clicks=clicks)

    def statuses(checked: sm.Spec, day: str) -> list[tuple[str, str]]:
        results = sm.check(checked, engine, day=day)
        return [(verdict.what, verdict.status) for verdict in results]

    names = ["purchases", "ctr@1", "sample ratio"]
    with connect() as engine:
        loaded(engine, log_rows(900))
        night(spec, engine, 0, DAYS)
        assert statuses(spec, "2026-01-03") == [(name, "ok") for name in names]
        (off, *_) = sm.check(spec, engine, day="2026-01-04")
        assert (off.status, off.note) == (
            "ok",
            "the experiment is from 2026-01-02 and before 2026-01-04",
        )
        worse = turned(control="B")
        night(worse, engine, 0, DAYS)
        results = sm.check(worse, engine, day="2026-01-03")
        assert [verdict.status for verdict in results] == ["FAILED", "warn", "ok"]
        with pytest.raises(sm.CheckError, match=r"purchases of A on 2026-01-03 is 0.2.* interval"):
            results.raise_if()
        uneven = turned(shares={"A": 9.0, "B": 1.0})
        night(uneven, engine, 0, DAYS)
        wanted = [("purchases", "FAILED"), ("ctr@1", "warn"), ("sample ratio", "FAILED")]
        assert statuses(uneven, "2026-01-03") == wanted
        later = turned(looks="end")
        night(later, engine, 0, DAYS)
        assert statuses(later, "2026-01-02") == [(name, "ok") for name in names]
        engine.execute("delete from m_experiment")
        (lost, *_) = sm.check(spec, engine, day="2026-01-03")
        assert (lost.rule, lost.status) == ("has a row", "FAILED")


@by_turns(3)
def test_a_backfill_looks_at_days_that_were_computed_before_the_experiment_was_said() -> None:
    spec = spec_of(variants=["A", "B"], start="2026-01-02")
    plain = spec.having(clicks=spec.clicks.model_copy(update={"experiment": None}))  # type: ignore[union-attr]
    with connect() as engine:
        loaded(engine, log_rows(120))
        sm.run(plain, engine, start="2026-01-01", end="2026-01-04")
        (first, *rest) = sm.run(spec, engine, backfill=True)
        assert (first.rows["experiment"], rest) == (3 * 2 * 2, [])
        assert sm.run(spec, engine, backfill=True) == []


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"experiment": "guardrail"}, "must be 'guardrails', 'primary' or 'sample_ratio'"),
        ({"experiment": "guardrails"}, "experiment: guardrails: there are none; add"),
        ({"experiment": "primary", "system": "Bee"}, "unknown variant 'Bee'"),
    ],
)
def test_a_check_of_an_experiment_that_cannot_be(check: dict[str, Any], message: str) -> None:
    spec = spec_of(guardrails=())
    with pytest.raises(sm.SpecError, match=message):
        spec.having(checks=[check])
    plain = spec.having(clicks=spec.clicks.model_copy(update={"experiment": None}))  # type: ignore[union-attr]
    with pytest.raises(sm.SpecError, match="experiment: primary: the spec has none; add clicks"):
        plain.having(checks=[{"experiment": "primary"}])


@by_turns(4)
def test_a_report_draws_the_nights_that_runs_have_written() -> None:
    spec = spec_of(guardrails=[{"metric": "abandonment", "max_drop_pct": 5}]).having(baseline="A")
    with connect() as engine:
        loaded(engine, log_rows(600))
        fresh = sm.report(spec, connection=engine)
        night(spec, engine, 0, DAYS)
        stored = sm.report(spec, connection=engine, language="zh")
        early = sm.report(spec, connection=engine, end="2026-01-04")
        uneven = spec_of(variants=["A", "B"], shares={"A": 9, "B": 1})
        night(uneven, engine, 0, DAYS)
        nothing = sm.report(uneven, connection=engine)
    keys = ["experiment", "experiment_days-B", "experiment_days-C"]
    by_key = {picture.key: picture for picture in fresh.pictures}
    assert [key for key in by_key if key.startswith("experiment")] == keys
    for picture in stored.pictures:
        if picture.key in by_key and picture.key.startswith("experiment"):
            assert [*picture.chart.rows] == [*by_key[picture.key].chart.rows]
    limits = {row["label"]: row["limit"] for row in by_key["experiment"].chart.rows}
    assert limits == {"B · ctr@1": None, "C · ctr@1": None} | dict.fromkeys(
        ["B · abandonment", "C · abandonment"], 0.05
    )
    text = by_key["experiment"].sentence(fresh.words)
    assert "B against A: ship. ctr@1 +" in text
    assert "C against A: not yet. ctr@1" in text
    assert "6 in several variants left out" in text
    assert "The experiment, up to 2026-01-" in fresh.headline
    assert ": ship (B). The experiment" in fresh.headline
    assert "上线" in stored.plot("experiment").sentence(stored.words)
    assert any("come from m_experiment, up to 2026-01-04" in note for note in stored.content.notes)
    assert [*fresh.content.notes][-2:] == [*stored.content.notes][-2:]
    assert "Up to 2026-01-03, 3 days" in early.plot("experiment").sentence(early.words)
    refused = nothing.plot("experiment")
    assert "B against A: no verdict. ctr@1 has no number" in refused.sentence(nothing.words)
    assert ([*refused.chart.rows], len(refused.cells)) == ([], 2)
    assert all("experiment_days" not in picture.key for picture in nothing.pictures)
