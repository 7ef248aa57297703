"""Ranges of days, replaced on every database that `run` writes to."""

from __future__ import annotations

import random
import socket
import subprocess
from collections import Counter, defaultdict
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from job_days import (
    CLICK_JOB,
    CLICK_TABLES,
    DUCKDB_USUALLY,
    FIRST,
    KEY,
    METRICS,
    NUMBERS,
    SLOW,
    WRITERS,
    by_day,
    changed,
    check,
    check_clicks,
    check_days,
    clear,
    click_job,
    click_log,
    days,
    engine,
    facts,
    job,
    log,
    per_query,
    reload,
    runs,
)
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.clicks.clean_log import log_tables
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.clicks.simulation import simulate
from sqlmetrics.engines.database import connect
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.jobs.archive import keeps
from sqlmetrics.jobs.days import on_days
from sqlmetrics.jobs.missing_days import data_days, open_days, parts
from sqlmetrics.jobs.provenance import Provenance, revision
from sqlmetrics.jobs.run import write
from sqlmetrics.spec.days import Days

__all__ = ["engine"]  # the fixture


def without(*gone: int, country: str = "", seed: int = 1) -> pa.Table:
    """The rankings but for some days, and but for a country."""
    rankings = log(seed=seed)[0]
    dates = pa.array([FIRST + timedelta(number) for number in range(6) if number not in gone])
    rankings = rankings.filter(pc.is_in(rankings["ds"], dates))
    return rankings.filter(pc.not_equal(rankings["country"], country))


@by_turns(1)
def test_a_range_replaces_itself_and_nothing_else(engine: Any) -> None:
    """Days that are open, are written in any order, are written again, and vanish."""
    spec = job()
    assert open_days(spec, engine, backfill=True) == [days(0, 6)]
    write(spec, engine, days(3, 5))
    write(spec, engine, days(1, 2))
    check(engine, [1, 3, 4])
    assert open_days(spec, engine, backfill=True) == [days(0, 1), days(2, 3), days(5, 6)]
    assert open_days(spec, engine, days(0, 3), backfill=True) == [days(0, 1), days(2, 3)]
    assert open_days(spec, engine, lookback=3) == [days(3, 6)]
    assert open_days(spec, engine, days(0, 4), lookback=2) == [days(2, 4)]
    assert open_days(spec, engine, backfill=True, lookback=2) == [
        days(0, 1),
        days(2, 3),
        days(4, 6),
    ]
    write(job("other"), engine, days(2, 5))
    check(engine, [1, 3, 4])
    batches = [part.days for part in parts(spec, engine, backfill=True, lookback=0, batch_days=1)]
    assert batches == [days(0, 1), days(2, 3), days(5, 6)]
    for part in batches:
        write(spec, engine, part)
    check(engine, [*range(6)])
    assert open_days(spec, engine, backfill=True) == []
    excluded = {FIRST + timedelta(day) for day in (1, 2, 4)}
    remaining = {FIRST + timedelta(day) for day in (0, 3, 5)}
    assert data_days(spec, engine, excluded) == remaining, "of the others no row is read"
    assert data_days(spec, engine, excluded | remaining) == set()
    wide = parts(spec, engine, days(0, 20), backfill=False, lookback=0, batch_days=4)
    assert [part.days for part in wide] == [days(0, 4), days(4, 20)], "each has a day of the data"
    all_parts = parts(spec, engine, backfill=False, lookback=0, batch_days=4)
    assert [part.days for part in all_parts] == [days(0, 4), days(4, 6)]
    before = runs(engine)
    write(spec, engine, days(2, 4))
    check(engine, [*range(6)])
    assert changed(before, runs(engine)) == {2, 3}
    reload(engine, without(2))
    write(spec, engine, days(1, 4))
    check(engine, [0, 1, 3, 4, 5])
    assert changed(before, runs(engine)) == {1, 2, 3}
    assert runs(engine, "other").keys() == {2, 3, 4}


@pytest.mark.parametrize("engine", engines(["spark"], now=[]), indirect=True)
def test_partitions_are_written_anew_or_dropped(engine: Any) -> None:
    """What Spark alone does, in as few runs as show it: the other stories are told by night."""
    first = write(job(), engine, days(0, 4))
    write(job("other"), engine, days(2, 4))
    reload(engine, without(2))
    last = write(job(), engine, days(1, 6))
    check(engine, [0, 1, 3, 4, 5])
    assert runs(engine) == {0: first.run_id} | dict.fromkeys([1, 3, 4, 5], last.run_id)
    assert runs(engine, "other").keys() == {2, 3}


@by_turns(1)
@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_ranges_that_are_open_or_empty_and_refreshes(engine: Any) -> None:
    write(job(), engine, Days(start=FIRST + timedelta(4)))
    check(engine, [4, 5])
    write(job(), engine, Days(end=FIRST + timedelta(1)))
    check(engine, [0, 4, 5])
    reload(engine, without(0, 1, 2))
    assert write(job(), engine).days == days(3, 6), "days without a row are not replaced"
    check(engine, [0, 3, 4, 5])
    with pytest.raises(sm.NoDataError, match=r"no rows from .*; the last day is 2026-01-06"):
        write(job(), engine, days(0, 2))
    check(engine, [0, 3, 4, 5])
    write(job(), engine, days(0, 2), check=False)
    check(engine, [3, 4, 5])
    reload(engine, without(country="US"))
    write(job(), engine, days(0, 5))
    assert {key[3] for key in facts(engine) if key[0] < "2026-01-06"} == {"all", "DE"}
    assert runs(engine).keys() == {*range(6)}
    reload(engine, without(5))
    message = r"all rows of 1 day \(from 2026-01-06 to 2026-01-06\).*--allow-loss 1 deletes"
    before = facts(engine)
    with pytest.raises(sm.SpecError, match=message):
        write(job(), engine, full_refresh=True)
    assert facts(engine) == before
    write(job(), engine, full_refresh=True, allow_loss=1)
    check(engine, [*range(5)])


@by_turns(3.1)
@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_nothing_of_the_past_goes_unless_it_is_named(engine: Any) -> None:
    """A source that keeps its last days and one system, and a metric that is taken out."""
    write(job(), engine)
    before, queries = facts(engine), rows_of_queries(engine)
    reload(engine, without(0, 1, 2, 3))
    swapped = job(metrics=[*METRICS[1:], "hit@1"])
    message = "all rows of 4 days (from 2026-01-01 to 2026-01-04)"
    for spec, allowed in ((job(), 0), (swapped, 3)):
        with pytest.raises(sm.SpecError) as error:
            sm.run(spec, engine, full_refresh=True, allow_loss=allowed)
        assert message in str(error.value)
        assert "--allow-loss 4 deletes numbers of 4 days" in str(error.value)
    assert facts(engine) == before, "nothing is written"
    (late,) = sm.run(job(), engine, lookback=6)
    assert runs(engine).keys() == {*range(6)}
    kept = "4 days of which the source has nothing keep their rows (from 2026-01-01 to 2026-01-04)"
    assert kept in late.notes
    sm.run(swapped, engine, full_refresh=True, allow_loss=4)
    now = facts(engine)
    assert {key[0][-1] for key in now if key[4] == "ndcg"} == {*"123456"}, "it keeps its history"
    assert {key[0][-1] for key in now if key[4] == "mrr"} == {*"56"}
    held = {key: row["ndcg_at_3"] for key, row in rows_of_queries(engine).items()}
    assert held == {key: row["ndcg_at_3"] for key, row in queries.items()}
    reload(engine, without(0, 1, 2, 3).filter(pc.field("system") == "new"))
    message = (
        r"30 on 2 days without new ones \(system old's 30; segment all 10, country 20; metric auc"
    )
    with pytest.raises(
        sm.SpecError, match=message + r".*deletes numbers of 2 days, 2 of them in part"
    ):
        sm.run(swapped, engine, full_refresh=True)
    (usual,) = sm.run(swapped, engine, lookback=1)
    message = (
        "this run removed 15 rows: 15 on 1 day without new ones (system old's 15; segment all 5"
    )
    assert not keeps(job(), engine.translation) or message in " ".join(usual.notes)


@by_turns(1.9)
@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_what_may_go_is_counted_over_all_batches(engine: Any) -> None:
    write(job(metrics=METRICS[:3]), engine)
    reload(engine, log()[0].filter(pc.field("system") == "new"))
    anew = {"backfill": True, "recompute": True, "batch_days": 3}
    with pytest.raises(sm.SpecError, match=r"--allow-loss 3 deletes numbers of 3 days, 3 of them"):
        sm.run(job(), engine, **anew, allow_loss=3)
    assert {key[0][-1] for key in facts(engine) if key[1] != "new"} == {*"456"}
    (report,) = sm.run(job(), engine, **anew, allow_loss=3)
    assert (report.lost_days, {key[1] for key in facts(engine)}) == (3, {"new"})


@by_turns(1.3)
@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_a_new_metric_brings_only_its_own_rows(engine: Any) -> None:
    """What is there stays as it was, in each byte, unless it shall be computed anew."""
    write(job(metrics=METRICS[:3]), engine)
    before, queries = facts(engine), rows_of_queries(engine)
    reload(engine, without(0, seed=2))
    spec = job(metrics=[*METRICS[1:3], "hit@1"])
    sm.run(spec, engine, backfill=True)
    now = facts(engine)
    assert {key: now[key] for key in before} == before
    new = {key: row for key, row in now.items() if key not in before}
    assert {(key[0][-1], key[4]) for key in new} == {(day, "hit") for day in "23456"}
    held = rows_of_queries(engine)
    assert {name: held[key][name] for key in queries for name in queries[key]} == {
        name: queries[key][name] for key in queries for name in queries[key]
    }
    assert sum(row["hit_at_1"] is not None for row in held.values()) == 5 * 2 * 4
    assert sm.run(spec, engine, backfill=True) == []
    extended = job(metrics=[*METRICS[1:3], "hit@1", "hit@2"])
    with pytest.raises(sm.SpecError, match=r"4 on 1 day .*segment country 4;.*--allow-loss 1 "):
        sm.run(extended, engine, backfill=True, recompute=True)
    (report,) = sm.run(extended, engine, backfill=True, recompute=True, allow_loss=1)
    assert any("rows of 5 days are replaced" in note for note in report.notes), report.notes
    anew = facts(engine)
    assert all(anew[key] == before[key] for key in before if key[4] == "ndcg")
    assert any(anew[key]["value"] != before[key]["value"] for key in before if key[4] == "mrr")


def rows_of_queries(engine: Any) -> dict[tuple[str, ...], dict[str, Any]]:
    """Key -> the row of the per-query table."""
    rows = engine.table("select * from metrics_of_queries").to_pylist()
    by_key = {(str(row["metric_date"]), row["system"], row["query_id"]): row for row in rows}
    assert len(by_key) == len(rows), "a key is doubled"
    return by_key


def test_the_revision_says_whether_the_folder_of_the_spec_was_clean(tmp_path: Path) -> None:
    assert revision(tmp_path) == ""
    (tmp_path / "search.yml").write_text("name: search", encoding="utf-8")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    clean = revision(tmp_path)
    assert len(clean) == 40
    (tmp_path / "search.yml").write_text("name: shop", encoding="utf-8")
    assert revision(tmp_path) == f"{clean}-dirty"


@by_turns(1)
@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_another_definition_needs_a_full_refresh_and_the_log_tells_all(engine: Any) -> None:
    report = write(job(), engine, days(0, 4), provenance=Provenance("it's new"))
    linear = job(conventions={"gain": "linear"})
    message = r"another definition of ndcg@3 \(from 2026-01-01 to 2026-01-04\).*--full-refresh"
    with pytest.raises(sm.SpecError, match=message):
        write(linear, engine, days(4, 6))
    check(engine, [0, 1, 2, 3])
    write(linear, engine, days(0, 4))  # all days that there are
    with pytest.raises(sm.SpecError, match="another definition"):
        write(job(), engine, days(0, 1))
    extended = job(metrics=[*METRICS, "ndcg(gain=linear)@3", "hit@1"])
    last = write(extended, engine, full_refresh=True)
    assert len(per_query(engine)) == 6 * 2 * 4
    assert {*runs(engine).values()} == {last.run_id}
    engine.execute("insert into truth values ('q1', 'i1', 3)")
    with pytest.raises(sm.InputError):
        write(extended, engine, days(1, 3))
    log_rows = engine.table("select * from metrics_runs order by started_at").to_pylist()
    (logged,) = (row for row in log_rows if row["run_id"] == report.run_id)
    assert (str(logged["range_start"]), str(logged["range_end"])) == ("2026-01-01", "2026-01-05")
    assert (logged["outcome"], logged["spec"], logged["message"]) == ("replaced", "shop", None)
    assert (logged["facts"], logged["per_query"]) == (
        report.rows["facts"],
        report.rows["per_query"],
    )
    assert 0 < logged["seconds"] < 60
    assert (logged["note"], logged["host"]) == ("it's new", socket.gethostname())
    assert logged["user_name"]
    assert logged["revision"] is None
    assert logged["engine"].startswith(engine.name)
    failed = log_rows[-1]
    assert (failed["outcome"], failed["facts"]) == ("failed", None)
    assert "for the same query: 1 -> remove" in failed["message"], "without the rows of an example"
    assert "duplicate_labels=max_grade" in failed["message"]


@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_rankings_without_dates_are_of_the_first_day(engine: Any) -> None:
    is_trino = engine.translation.dialect.name == "trino"  # it compares dates with no text
    day = "date '2026-01-02'" if is_trino else "'2026-01-02'"
    undated = job(
        rankings={"relation": "runs", "where": f"ds < {day}"}
        | {"columns": {"score": "score", "system": "system"}}
    )
    write(undated, engine)
    assert {key[0] for key in facts(engine)} == {"1970-01-01"}
    write(undated, engine, Days(start=date(2026, 3, 1)))
    assert {key[0] for key in facts(engine)} == {"1970-01-01", "2026-03-01"}
    assert {key[0] for key in per_query(engine)} == {"1970-01-01", "2026-03-01"}
    with pytest.raises(sm.SpecError, match="all rows are of one day"):
        write(undated, engine, days(0, 2))
    for name, problem in {
        "number": r"number is used as date, but has the type|number is not a date in 1 text",
        "nowhere": r"^rankings: unknown column 'nowhere'; .* \(used as date\)$",
    }.items():
        columns = {"score": "score", "system": "system", "date": name}
        sql = "select runs.*, 20260102 as number from runs"
        with pytest.raises(sm.InputError, match=problem):
            write(job(rankings={"sql": sql, "columns": columns}), engine, days(0, 2), adopt=True)


SEQUENCES = engines(WRITERS, now=["duckdb"], night=["mariadb", "chdb", *SLOW])


@by_turns(7.2)
@pytest.mark.parametrize("engine", SEQUENCES, indirect=True)
def test_runs_in_any_order_leave_what_the_last_of_each_day_wrote(engine: Any) -> None:
    """Ranges, open ends, late rows, days that went: after each the table is what it must be."""
    chance = random.Random(11)
    stands: dict[int, int] = {}
    for _ in range(10):
        seed, gone = chance.choice([1, 2]), chance.sample(range(6), chance.choice([0, 0, 1, 3]))
        reload(engine, without(*gone, seed=seed))
        present = {*range(6)} - {*gone}
        low, high = sorted(chance.sample(range(7), 2))
        kind = chance.choice(["range", "range", "from", "until", "all", "refresh"])
        interval = {
            "range": days(low, high),
            "from": Days(start=FIRST + timedelta(low)),
            "until": Days(end=FIRST + timedelta(high)),
        }.get(kind)
        replaced = {
            "range": {*range(low, high)},
            "from": {*range(low, 9)},
            "until": {*range(high)},
            "refresh": {*range(9)},
        }.get(kind, present)  # days without data that nobody named stay
        if not present & replaced:
            with pytest.raises(sm.NoDataError, match="the table has no rows"):
                write(job(), engine, interval)
            write(job(), engine, interval, check=False)
        else:
            lost = len({*stands} - present) if kind == "refresh" else 0
            if lost:
                before = facts(engine)
                with pytest.raises(sm.SpecError, match=f"--allow-loss {lost} deletes"):
                    write(job(), engine, full_refresh=True, allow_loss=lost - 1)
                assert facts(engine) == before
            write(job(), engine, interval, full_refresh=kind == "refresh", allow_loss=lost)
        stands = {day: seed for day, seed in stands.items() if day not in replaced}
        stands |= dict.fromkeys(present & replaced, seed)
        check_days(engine, stands)


@pytest.mark.long
@pytest.mark.xdist_group("duckdb")
def test_a_year_in_pieces_is_a_year(servers: Any) -> None:
    """Days, weeks and months in any order, overlapping, are what one run of a year is."""
    chance = random.Random(5)
    with connect(servers.open("duckdb")) as opened:
        for name, rows in zip(("runs", "truth"), log(days=365), strict=True):
            opened.load(name, rows)
        write(job("whole"), opened, days(0, 365))
        starts = list(range(0, 365, 20))
        chance.shuffle(starts)
        for start in starts:
            write(job(), opened, days(start, start + chance.choice([20, 31, 40])))
        numbers = "metric_date, system, segment_name, segment_value, metric, k, round(value, 9)"
        in_pieces, in_one_run = (
            opened.rows(f"select {numbers} from metrics where spec = '{name}' order by all")
            for name in ("shop", "whole")
        )
        assert in_pieces == in_one_run
        assert len({row[0] for row in in_pieces}) == 365


@pytest.mark.xdist_group("duckdb")
def test_tables_may_be_called_like_our_stages(servers: Any) -> None:
    with connect(servers.open("duckdb")) as opened:
        for name, rows in zip(("rankings", "labels"), log(), strict=True):
            opened.load(name, rows)
        columns = {"score": "score", "system": "system", "date": "ds"}
        spec = job(
            rankings={"relation": "rankings", "columns": columns},
            labels={"relation": "labels"},
            output={"relation": "metrics", "per_query": "metrics_of_queries", "runs": "facts"},
        )
        assert open_days(spec, opened, backfill=True) == [days(0, 6)]
        write(spec, opened)
        check(opened, [*range(6)])


CLICK_CELLS = [
    pytest.param(*cell.values, seed, marks=[*cell.marks, *[pytest.mark.long] * (seed > 1)])
    for seed in (1, 2)
    for cell in engines(WRITERS if seed == 1 else WRITERS[:2], now=["duckdb"], night=SLOW)
]


@by_turns(1)
@pytest.mark.parametrize(("writer", "seed"), CLICK_CELLS)
def test_a_click_log_by_days(writer: str, seed: int, servers: Any) -> None:
    """What a day reads of a log is enough: it has the numbers that the whole log gives it."""
    tables = click_log(seed)
    for name in ("impressions", "requests"):
        tables[name] = tables[name].append_column("Device", tables[name].column("system"))
    columns = CLICK_JOB["impressions"]["columns"] | {"segments": ["Device"]}
    job = click_job(impressions={"relation": "impressions", "columns": columns})
    output = job.output.model_copy(update={"per_query": "metrics_of_queries"})
    job = job.model_copy(update={"output": output})
    with connect(servers.open(writer)) as engine:
        for name, table in tables.items():
            engine.load(name, table)
        try:
            for ends in ((2, 5), (0, 3)):
                write(job, engine, days(*ends))
            check_clicks(facts(engine, "log"), tables)
            rows = engine.table("select * from metrics_of_queries").to_pylist()
            assert rows
            assert all(row["Device"] == row["system"] for row in rows)
            not_daily = click_job(daily=False)
            with pytest.raises(sm.SpecError, match="metrics holds log by day, from 2026-01-0"):
                write(not_daily, engine)
            with pytest.raises(sm.SpecError, match=r"--allow-loss 5 .* or set clicks: daily: true"):
                write(not_daily, engine, full_refresh=True)
            not_daily = not_daily.having(name="other")
            write(not_daily, engine)
            with pytest.raises(sm.SpecError, match=r"other as a whole, .*restore SPEC \w{8}\)"):
                write(not_daily, engine, days(0, 2))
        finally:
            clear(engine, *CLICK_TABLES)


TIMES_OF = {"impressions": "at", "events": "happened", "requests": "t"}


def stored_by_day(seed: int, hours: int = 0, *, texts: bool = False) -> dict[str, pa.Table]:
    """The log with the days of a zone so many hours ahead, under which its rows are stored."""
    tables = click_log(seed)
    for name, time in TIMES_OF.items():
        dates = [(row[time] + timedelta(hours=hours)).date() for row in tables[name].to_pylist()]
        stored = [str(day) for day in dates] if texts else dates
        tables[name] = tables[name].append_column("ds", pa.array(stored))
    return tables


@by_turns(1)
@pytest.mark.parametrize(("writer", "seed"), CLICK_CELLS)
def test_a_log_that_is_stored_by_day(writer: str, seed: int, servers: Any) -> None:
    """A run reads the days that it needs, and no other: what else there is may be anything."""
    tables = stored_by_day(seed, hours=-8, texts=seed == 2)
    with connect(servers.open(writer)) as engine:
        for name, table in tables.items():
            engine.load(name, table)
        try:
            assert list(open_days(by_day(), engine, backfill=True)) == [days(0, 5)]
            write(by_day(), engine, days(2, 5))
            assert list(open_days(by_day(), engine, backfill=True)) == [days(0, 2)]
            for name in ("impressions", "requests"):  # with an item that a list has already
                day = "2026-01-05" if seed == 2 else date(2026, 1, 5)
                far = engine.table(f"select * from {name}").to_pylist()[0] | {"ds": day}
                engine.load("far", pa.Table.from_pylist([far], tables[name].schema))
                engine.execute(f"insert into {name} select * from far")
                engine.execute("drop table far")
            write(by_day(), engine, days(0, 2))
            check_clicks(facts(engine, "log"), tables)
        finally:
            clear(engine, *CLICK_TABLES)


@by_turns(2)
def test_a_log_in_hive_folders(tmp_path: Path) -> None:
    """Of the folders of other days no file is opened."""
    stored, sources = stored_by_day(1, hours=-8), {}
    clicks = CLICK_JOB | {"cleaning": CLICK_JOB["cleaning"] | {"bots_of": "day"}}
    with connect() as engine:
        for name, table in stored.items():
            engine.load(name, table)
            engine.execute(f"copy {name} to '{tmp_path / name}' (format parquet, partition_by ds)")
            engine.execute(f"drop table {name}")
            columns = CLICK_JOB[name]["columns"] | {"day": "ds"}
            sources[name] = {"file": f"{tmp_path / name}/**/*.parquet", "columns": columns}
        spec = click_job(**(clicks | sources))
        assert open_days(spec, engine, backfill=True) == [days(0, 5)]
        write(spec, engine, days(3, 5))
        tables, _ = log_tables(on_days(spec, days(3, 5)).spec.clicks, engine, only_days=True)
        text = " ".join(tables.near["events"].files)
        assert "ds=2026-01-03" in text
        assert "ds=2026-01-01" not in text
        write(spec, engine, days(0, 3))
        actual = facts(engine, "log")
        for name, table in click_log(1).items():
            engine.load(name, table)
        rows = evaluate_clicks(click_job(**clicks), engine).facts().to_pylist()
    assert {key: row["value"] for key, row in actual.items()} == {
        tuple(str(row[name]) for name in KEY): pytest.approx(row["value"]) for row in rows
    }


@by_turns(1)
def test_rankings_in_hive_folders(tmp_path: Path) -> None:
    """A run names the files of its days; what is told of other days is known nevertheless."""
    rankings, labels = log()
    by_file = {"file": f"{tmp_path}/runs/**/*.parquet", "columns": job().rankings.columns}
    with connect() as engine:
        engine.load("runs", rankings)
        engine.load("truth", labels)
        paused = "ds = date '2026-01-04' and system = 'new'"
        engine.execute(f"delete from runs where {paused}")
        engine.execute(f"copy runs to '{tmp_path}/runs' (format parquet, partition_by ds)")
        engine.execute(f"copy truth to '{tmp_path}/truth.parquet'")
        truth = {"file": f"{tmp_path}/truth.parquet"}
        spec = job(rankings=by_file, labels=truth)
        read = opened(spec, engine, days(3, 5).ends).rankings.files
        assert [file.split("ds=")[1][:10] for file in read] == ["2026-01-04", "2026-01-05"]
        assert opened(spec, engine, days(0, 6).ends).rankings.files == ()
        for ends in ((3, 5), (0, 3), (5, 6)):
            write(spec, engine, days(*ends))
        from_files = facts(engine)
        engine.execute("delete from metrics")
        for ends in ((3, 5), (0, 3), (5, 6)):
            write(job(), engine, days(*ends))
        assert {key: row["value"] for key, row in from_files.items()} == {
            key: pytest.approx(row["value"]) for key, row in facts(engine).items()
        }
        with pytest.raises(sm.NoDataError, match="the last day is 2026-01-06"):
            write(spec, engine, days(8, 9))
        noted = [
            " ".join(write(job(baseline="new"), engine, days(*ends)).notes)
            for ends in ((2, 5), (4, 6))
        ]
        assert "the baseline new has no row on 2026-01-04, so no difference" in noted[0]
        assert "baseline" not in noted[1]
        beside = spec.having(metrics=["overlap@3"], baseline="new", by=())
        with pytest.raises(sm.InputError, match="it has lists on 5 other days: 2026-01-01 to"):
            write(beside, engine, days(3, 4), adopt=True)


@by_turns(1.5)
def test_bots_of_a_day_are_left_out_on_that_day_alone() -> None:
    """Whatever is stored under other days, and in whatever parts it is run."""
    cleaning = CLICK_JOB["cleaning"] | {"bots_of": "day"}
    tables = stored_by_day(1)
    events = tables["events"].to_pylist()
    busy = Counter((row["user"], row["happened"].replace(minute=0)) for row in events)
    bots = {(user, hour.date()) for (user, hour), n in busy.items() if n > 20}
    by_request: dict[str, list[Any]] = defaultdict(list)
    for row in tables["impressions"].to_pylist():
        by_request[row["request_id"]].append(row)
    kept = [
        rows
        for rows in by_request.values()
        if not any((row["user"], row["at"].date()) in bots or row["is_test"] for row in rows)
    ]
    with connect() as engine:
        for name, table in tables.items():
            engine.load(name, table)
        for ends in ((3, 5), (0, 2), (2, 3)):
            write(by_day(cleaning=cleaning), engine, days(*ends))
        actual = facts(engine, "log")
        online = evaluate_clicks(click_job(cleaning=cleaning), engine).online().to_pylist()
    by_key = {tuple(str(row[name]) for name in KEY): row for row in online}
    assert {key: row["value"] for key, row in by_key.items()} == {
        key: row["value"] for key, row in actual.items() if key in by_key
    }
    denominators = [row["denominator"] for row in online if row["metric"] == "abandonment"]
    assert len(bots) == 2
    assert sum(denominators) == len(kept)


@by_turns(1.2)
def test_a_margin_that_is_too_small_is_told() -> None:
    with connect() as engine:
        for name, table in stored_by_day(1, hours=-30).items():
            engine.load(name, table)
        with pytest.raises(sm.InputError) as error:
            write(by_day(), engine, days(2, 3))
        message = str(error.value)
        assert "stored more than 1 day from their time, like 2026-01-0" in message
        assert "set clicks.day_margin: 2 or more" in message
        for ends in ((0, 2), (2, 5)):
            write(by_day(day_margin=2), engine, days(*ends))
        check_clicks(facts(engine, "log"), click_log(1))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (20260101, "ds is used as day but has the type BIGINT"),
        ("20260101", "ds is used as day but has '20260101'"),
    ],
)
def test_a_column_that_is_no_day_is_refused(value: Any, message: str) -> None:
    with connect() as engine:
        for name, table in click_log(1).items():
            stored = pa.array([value] * table.num_rows)
            engine.load(name, table.append_column("ds", stored))
        with pytest.raises(sm.InputError, match=message):
            write(by_day(), engine, days(2, 3))


@by_turns(1.6)
def test_pooled_labels_and_rows_without_requests_by_days() -> None:
    """The days from which labels are learned are read too; rows keep their numbers."""
    tables = click_log(3)
    clicked = pa.array([row % 3 == 0 for row in range(tables["impressions"].num_rows)])
    wide = tables["impressions"].append_column("clicked", clicked.cast(pa.int64()))
    pooled: dict[str, Any] = {
        "labels": {"pool": "query_item", "window": {"end": "2026-01-04"}, "prior": 2},
        "evaluation": {"start": "2026-01-04"},
    }
    columns = {"request": None, "query": "query", "system": "system", "time": "at"}
    log = {"log": {"relation": "wide", "columns": columns}, "daily": True}
    output = {"relation": "metrics", "per_query": "metrics_of_queries"}
    without = sm.Spec(name="log", clicks=log, metrics=["mrr", "ctr"], output=output)
    for spec, ends in ((click_job(**pooled), [(4, 5), (3, 4)]), (without, [(2, 5), (0, 3)])):
        with connect() as engine:
            for name, table in {**tables, "wide": wide}.items():
                engine.load(name, table)
            evaluation = evaluate_clicks(spec, engine, confidence=0.95)
            for part in ends:
                write(spec, engine, days(*part))
            actual = facts(engine, "log")
            queries = engine.rows("from metrics_of_queries") if spec.output.per_query else []
        for row in evaluation.facts().to_pylist():
            stored = actual.pop(tuple(str(row[name]) for name in KEY))
            for name in NUMBERS:
                close = row[name] if row[name] is None else pytest.approx(row[name], rel=1e-9)
                assert stored[name] == close, (spec.clicks, name)
        assert actual == {}
        if queries:
            query_ids = evaluation.offline.per_query().column("query_id").to_pylist()
            assert sorted(row[3] for row in queries) == sorted(query_ids)


@by_turns(0.6)
def test_days_that_are_open_of_a_click_log(tmp_path: Any) -> None:
    simulated = simulate(tmp_path, requests=100, days=4, seed=3)
    clicks = {
        name: {"file": str(simulated.files[name]), "columns": {"time": column}}
        for name, column in (("impressions", "shown_at"), ("events", "happened_at"))
    }
    spec = sm.Spec(name="log", clicks=clicks, metrics=["mrr"], output={"relation": "metrics"})
    with connect() as engine:
        (everything,) = open_days(spec, engine, backfill=True)
        assert (everything.end - everything.start).days == 4  # type: ignore[operator]
        write(spec, engine, Days(start=everything.start, end=everything.start + timedelta(3)))
        (missing,) = open_days(spec, engine, backfill=True)
        assert missing == Days(start=everything.start + timedelta(3), end=everything.end)


@by_turns(1.6)
def test_labels_are_not_learned_from_the_days_of_a_run(tmp_path: Any) -> None:
    simulated = simulate(tmp_path, requests=100, days=4, seed=3)
    clicks = {
        "log": {
            "file": str(simulated.files["impressions"]),
            "columns": {"query": "query", "time": "shown_at", "actions": {"click": "is_test"}},
        },
        "labels": {"pool": "query_item", "window": {"end": "2026-01-03"}},
        "evaluation": {"start": "2026-01-03"},
    }
    spec = sm.Spec(name="log", clicks=clicks, metrics=["mrr"], output={"relation": "metrics"})
    with pytest.raises(sm.SpecError, match=r"on the days of this run: .* overlap"):
        write(spec, connect(), Days(start=date(2026, 1, 2), end=date(2026, 1, 4)))
