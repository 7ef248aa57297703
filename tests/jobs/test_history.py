"""Runs keep what they replace: they are told, taken back and removed, and nothing else goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from command import sqlmetrics
from job_days import days, engine, job, log
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import NoDataError
from sqlmetrics.jobs.history.log import effects, logged_runs
from sqlmetrics.jobs.history.removal import made_by_runs, retire, retirement, uninstall
from sqlmetrics.jobs.history.restore import restore
from sqlmetrics.jobs.run import write

__all__ = ["engine"]
KEEPING = engines(["duckdb", "sqlite", "postgres", "mariadb"], now=["duckdb"])
"""Databases whose runs keep what they replace."""
State = dict[str, list[tuple[Any, ...]]]


def state(engine: Database) -> State:
    """All rows of both tables, with all that stands in them."""
    by_table = {}
    for table in ("metrics", "metrics_of_queries"):
        rows = engine.records(f"select * from {table}")
        filled = ({name: value for name, value in row.items() if value is not None} for row in rows)
        by_table[table] = sorted(
            tuple(sorted((k, str(v)) for k, v in row.items())) for row in filled
        )
    return by_table


def regrade(engine: Database, number: int) -> None:
    """Other labels, so that other numbers come."""
    engine.execute(f"update truth set grade = {number % 4} where item_id = 'i{number % 3}'")


def changing_runs(engine: Database) -> Iterator[sm.Spec]:
    """Runs of all kinds, each behind the one before."""
    spec = job()
    write(spec, engine, days(0, 3))
    yield spec
    regrade(engine, 1)
    write(spec, engine, days(2, 5))  # new days, and one again
    yield spec
    write(spec, engine, days(1, 2))  # nothing changes but the run
    yield spec
    regrade(engine, 2)
    spec = job(metrics=["ndcg@3", "mrr", "hit@1"])
    write(spec, engine, full_refresh=True, allow_loss=99)  # metrics come and go
    yield spec
    engine.execute("delete from runs where ds = '2026-01-03'")
    write(spec, engine, days(0, 6))  # a day has no row any more
    yield spec


@by_turns(3.6)
@pytest.mark.parametrize("engine", KEEPING, indirect=True)
def test_each_run_can_be_taken_back_and_made_to_stand_again(engine: Database) -> None:
    write(job("other"), engine)
    states, spec = [], job()
    engine.execute("create table before_all as select * from metrics")
    states.append(state(engine))
    for changed in changing_runs(engine):
        spec = changed
        states.append(state(engine))
    ids = [run.run_id for run in logged_runs(spec, engine)]
    for number in range(len(ids), 0, -1):
        undone = restore(spec, engine, ids[number - 1])
        assert state(engine) == states[number - 1], f"run {number} is not undone"
        redone = restore(spec, engine, undone.run_id)
        assert state(engine) == states[number], f"run {number} does not stand again"
        restore(spec, engine, redone.run_id[:12])
    log = logged_runs(spec, engine)
    assert [run.restores for run in log[:5]] == [None] * 5
    assert log[-1].restores == redone.run_id
    engine.execute("drop table before_all")


@by_turns(6.4)
@pytest.mark.parametrize("engine", KEEPING, indirect=True)
def test_runs_says_what_changed(engine: Database) -> None:
    """Beside the tables before and after, compared in Python."""
    before: dict[tuple[Any, ...], Any] = {}
    wanted, spec = [], job()
    for changed in changing_runs(engine):
        spec = changed
        key = "metric_date, system, segment_name, segment_value, metric, k"
        rows = engine.rows(f"select {key}, value, run_id from metrics")
        after = {(str(row[0]), *row[1:6]): row[6] for row in rows}
        mine = {(str(row[0]), *row[1:6]) for row in rows if row[7] == rows_run(engine)}
        replaced = {fact for fact in before if fact in mine or fact not in after}
        changes = [
            abs(after[fact] - before[fact])
            for fact in replaced
            if fact in after and None not in (after[fact], before[fact])
            if differs(after[fact], before[fact])
        ]
        wanted.append(
            (
                len(after.keys() - before.keys()),
                len(replaced - after.keys()),
                sum(fact in after and differs(before[fact], after[fact]) for fact in replaced),
                max(changes, default=0) or None,
            )
        )
        before = after
    actual = [
        (
            effect.new,
            effect.removed,
            effect.changed,
            effect.largest and pytest.approx(abs(effect.largest[1])),
        )
        for effect in reversed(effects(spec, engine))
    ]
    assert wanted == actual
    assert [effect.is_known for effect in effects(spec, engine)] == [True] * 5
    assert {removed for _, removed, *_ in wanted} > {0}


def differs(value: float | None, other: float | None) -> bool:
    """Whether two values are not equal at 1e-12: sums in another order are."""
    return value != other if None in (value, other) else value != pytest.approx(other, abs=1e-12)


def rows_run(engine: Database) -> str:
    """The run that wrote last."""
    return logged_runs(job(), engine)[-1].run_id


@by_turns(2.8)
@pytest.mark.parametrize("engine", KEEPING, indirect=True)
def test_rows_are_kept_for_as_long_as_the_spec_says(engine: Database) -> None:
    for number in range(4):
        regrade(engine, number)
        write(job(output=output(keep=2)), engine, days(0, 2))
        write(job("other"), engine, days(0, 1))
    kept = engine.rows("select spec, count(distinct replaced_by) from metrics_archive group by 1")
    assert sorted(kept) == [("other", 3), ("shop", 2)]
    oldest, *_, last = logged_runs(job(), engine)[1:]
    with pytest.raises(sm.SpecError, match=r"changed days of .* after it.*restore " + last.short):
        restore(job(), engine, oldest.run_id)
    text = str(effects(job(), engine)[2])
    assert "(76 rows) is no longer kept" in text
    assert "change" not in text
    engine.execute("update metrics_archive set replaced_at = '2026-01-01 00:00:00'")
    write(job(output=output(keep="30 days")), engine, days(0, 1))
    assert {
        n
        for _, n in engine.rows(
            "select spec, count(distinct replaced_by) from metrics_archive group by 1"
        )
    } == {1, 3}
    write(job(output=output(keep="none")), engine, days(0, 1))
    assert engine.rows("select distinct spec from metrics_archive") == [("other",)]
    none = logged_runs(job(), engine)[-1]
    assert none.archived is None
    with pytest.raises(sm.SpecError, match="did not keep the rows that it replaced"):
        restore(job(), engine, none.run_id)


@by_turns(1.4)
@pytest.mark.parametrize("engine", KEEPING, indirect=True)
def test_of_two_runs_of_one_second_the_later_is_kept(engine: Database) -> None:
    for _ in range(3):
        write(job(output=output(keep=3)), engine, days(0, 1))
    kept = "select distinct replaced_by from metrics_archive"
    first, second = sorted(run for (run,) in engine.rows(kept))
    for run, time in (first, ".750000"), (second, ".250000"):
        engine.execute(
            f"update metrics_archive set replaced_at = '2026-01-01 00:00:00{time}' "
            f"where replaced_by = '{run}'"
        )
    last = write(job(output=output(keep=2)), engine, days(0, 1)).run_id
    assert {run for (run,) in engine.rows(kept)} == {first, last}


def output(**changed: Any) -> dict[str, Any]:
    return {"relation": "metrics", "per_query": "metrics_of_queries", **changed}


@pytest.mark.parametrize(
    "engine", engines(["chdb", "spark"], now=[], night=["spark"]), indirect=True
)
def test_where_tables_do_not_change_together_nothing_is_kept(engine: Database) -> None:
    with pytest.raises(sm.SpecError, match=r"output.keep: 3: .* has no transaction"):
        write(job(output=output(keep=3)), engine, days(0, 1))
    run = write(job(), engine, days(0, 1))
    with pytest.raises(sm.SpecError, match="keep no rows that they replace"):
        restore(job(), engine, run.run_id)
    with pytest.raises(sm.SpecError, match="drop the views and tables whose names begin"):
        retire(job(), engine)


@by_turns(2)
@pytest.mark.parametrize("engine", KEEPING, indirect=True)
def test_what_cannot_be_taken_back_says_why(engine: Database) -> None:
    with pytest.raises(NoDataError, match="this database has no run log metrics_runs"):
        restore(job(), engine, "0000")
    assert engine.find("metrics") is None
    first = write(job(), engine, days(0, 2))
    with pytest.raises(NoDataError, match="has no run of other"):
        restore(job("other"), engine, first.run_id)
    with pytest.raises(
        sm.SpecError, match=f"unknown run 'beef'.* these can be taken back: {first.run_id[:8]}"
    ):
        restore(job(), engine, "beef")
    with pytest.raises(sm.SpecError, match="unknown run"):
        restore(job(), engine, first.run_id[:3])
    regrade(engine, 1)
    second = write(job(), engine, days(1, 2))
    write(job(), engine, days(3, 4))
    before = state(engine)
    with pytest.raises(sm.SpecError, match=f"1 run changed days .* restore {second.run_id[:8]}"):
        restore(job(), engine, first.run_id)
    engine.execute("delete from runs where ds = '2026-01-01'")
    with pytest.raises(sm.SpecError, match="would lose 30 rows"):
        write(job(), engine, full_refresh=True)
    failed = logged_runs(job(), engine)[-1]
    with pytest.raises(sm.SpecError, match="changed nothing, it is failed: metrics would lose"):
        restore(job(), engine, failed.run_id)
    assert state(engine) == before
    undone = restore(job(), engine, second.run_id)
    with pytest.raises(
        sm.SpecError, match=f"taken back by .* restore {undone.run_id[:8]} to apply it"
    ):
        restore(job(), engine, second.run_id)
    restore(job(), engine, first.run_id)
    assert [str(day) for (day,) in engine.rows("select distinct metric_date from metrics")] == [
        "2026-01-04"
    ]


@by_turns(1.4)
@pytest.mark.parametrize("engine", KEEPING, indirect=True)
def test_a_spec_is_retired_and_comes_back(engine: Database) -> None:
    for name in ("shop", "other"):
        write(job(name), engine, days(0, 2))
    before = state(engine)
    preview = retirement(job(), engine)
    assert preview.rows == {"metrics": 60, "metrics_of_queries": 16}
    assert {view.name for view in preview.views} == {"metrics_shop_all", "metrics_shop_by_country"}
    with pytest.raises(sm.SpecError, match="now has 76 rows, not 75"):
        retire(job(), engine, 75)
    engine.execute("create view metrics_shop_mine as select * from metrics_shop_all")
    with pytest.raises(sm.SpecError, match="metrics_shop_mine reads metrics_shop_all"):
        retire(job(), engine)
    engine.execute("drop view metrics_shop_mine")
    assert state(engine) == before
    run = retire(job(), engine, 76)
    assert {dict(row)["spec"] for row in state(engine)["metrics"]} == {"other"}
    assert engine.find("metrics_shop_all") is None
    assert engine.find("metrics_other_all")
    restore(job(), engine, run)
    assert state(engine) == before
    assert engine.rows("select count(*) from metrics_shop_all") == [(4,)]
    retire(job(), engine, for_good=True)
    assert engine.rows("select distinct spec from metrics_archive") == []
    with pytest.raises(sm.SpecError, match="did not keep"):
        restore(job(), engine, logged_runs(job(), engine)[-1].run_id)
    with pytest.raises(NoDataError, match="metrics has no row of shop"):
        retirement(job(), engine)


@by_turns(2.8)
@pytest.mark.parametrize("engine", KEEPING, indirect=True)
def test_uninstall_removes_what_runs_made_and_nothing_else(engine: Database) -> None:
    def objects() -> set[str]:
        listed = {
            "SQLite": "select name from sqlite_master where type in ('table', 'view')",
            "PostgreSQL": "select relname from pg_class where relnamespace = "
            "current_schema()::regnamespace union select proname from pg_proc "
            "where pronamespace = current_schema()::regnamespace",
            "DuckDB": "select table_name from information_schema.tables union all "
            "select function_name from duckdb_functions() where not internal",
        }
        sql = "select table_name from information_schema.tables where table_schema = database()"
        names = {name for (name,) in engine.driver.rows(listed.get(engine.name, sql))}
        return names - (before_all & {"metrics_between"})  # which other tests leave there

    before_all = set[str]()
    engine.execute("create table metrics_mine as select * from truth")
    before_all |= objects()
    before = objects()
    try:
        for name in ("shop", "other"):
            write(job(name), engine, days(0, 2))
            write(job(name), engine, days(0, 1))
        retire(job("other"), engine)
        removable = made_by_runs(job(), engine)
        assert {entry.name: entry.rows for entry in removable if entry.rows} == {
            "metrics": 60,
            "metrics_of_queries": 16,
            "metrics_runs": 5,
            "metrics_metrics": 5,
            "metrics_definitions": 5,
            "metrics_archive": 120,
            "metrics_of_queries_archive": 32,
        }
        engine.execute("create view metrics_apart as select 1 as metrics, 'from metrics' as told")
        engine.execute("create view metrics_yours as select * from metrics_latest")
        with pytest.raises(sm.SpecError, match="metrics_yours reads metrics_latest"):
            uninstall(engine, removable, job())
        engine.execute("drop view metrics_yours")
        write(job(), engine, days(0, 1))
        with pytest.raises(sm.SpecError, match="a run has written in the meantime"):
            uninstall(engine, removable, job())
        uninstall(engine, made_by_runs(job(), engine), job())
        engine.execute("drop view metrics_apart")
        assert objects() == before
        with pytest.raises(NoDataError):
            made_by_runs(job(), engine)
    finally:
        engine.execute("drop table if exists metrics_mine")


# -- the commands ----------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a spec, a database, and two runs."""
    with connect(f"duckdb:///{tmp_path / 'shop.duckdb'}", create=True) as opened:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            opened.load(name, rows)
    spec = json.loads(job().model_dump_json(exclude_none=True))
    (tmp_path / "shop.yml").write_text(json.dumps(spec))
    called(tmp_path, "run", "--note", "the first one")
    with connect(f"duckdb:///{tmp_path / 'shop.duckdb'}") as opened:
        regrade(opened, 1)
    called(tmp_path, "run", "--start", "2026-01-02", "--end", "2026-01-04")
    return tmp_path


def called(folder: Path, verb: str, *words: str, expect: int = 0) -> tuple[str, str]:
    completed = sqlmetrics(
        verb, "shop.yml", *words, "--db", "shop.duckdb", folder=folder, expect=expect
    )
    return completed.stdout, completed.stderr


@by_turns(3)
def test_the_way_back_by_commands(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (80, 200):
        monkeypatch.setattr("sqlmetrics.tables.table.terminal_width", lambda w=width: w)
        table, _ = called(shop, "runs")
        assert max(map(len, table.splitlines())) <= width
        text = " ".join(table.split())
        assert "180 new rows" in text
        assert "changed; largest change +0.5 (mrr)" in text
        assert (len(table.splitlines()) == 3) == (width == 200)
    last, first = json.loads(called(shop, "runs", "-o", "json")[0])
    assert (last["start"], last["end"]) == ("2026-01-02", "2026-01-04")
    assert (first["new"], first["replaced"], first["note"]) == (180, 0, "the first one")
    assert last["replaced"] == 60
    assert len(json.loads(called(shop, "runs", "--last", "1", "-o", "json")[0])) == 1
    _, message = called(shop, "restore", last["run_id"][:8], "--note", "wrong labels")
    assert f"run {last['run_id'][:8]} (" in message
    undone = json.loads(called(shop, "runs", "-o", "json")[0])
    assert undone[0]["restores"] == last["run_id"]
    assert undone[0]["note"] == "wrong labels"
    assert undone[1]["taken_back_by"] == undone[0]["run_id"]
    sqlmetrics("restore", "shop.yml", "1234", "--db", "shp.duckdb", folder=shop, expect=2)
    sqlmetrics("uninstall", "--db", "shp.duckdb", "--yes", folder=shop, expect=2)
    assert {path.name for path in shop.iterdir()} == {"shop.duckdb", "shop.yml"}


@by_turns(3)
def test_removal_by_commands(shop: Path) -> None:
    with duckdb.connect(str(shop / "shop.duckdb")) as connection:
        connection.execute("create macro ndcg(a) as table select a as mine")
        mine = {
            name
            for (name,) in connection.execute(
                "select table_name from information_schema.tables where table_name[1] in ('r', 't')"
            ).fetchall()
        }
    listed, message = called(shop, "retire", expect=2)
    assert "metrics_shop_all" in listed
    assert "nothing is removed; give --rows 228 or --yes to remove it; the archives keep" in message
    called(shop, "retire", "--rows", "227", expect=2)
    assert "228 rows of shop removed; restore " in called(shop, "retire", "--rows", "228")[1]
    sqlmetrics("install", "shop.duckdb", "--print", folder=shop)
    assert "nothing is removed" in called(shop, "uninstall", expect=2)[1]
    called(shop, "uninstall", "--yes")
    sqlmetrics("uninstall", "--db", "shop.duckdb", "--yes", folder=shop, expect=4)
    sqlmetrics("install", "shop.duckdb", folder=shop)
    sqlmetrics("uninstall", "--db", "shop.duckdb", "--yes", folder=shop)
    with duckdb.connect(str(shop / "shop.duckdb")) as connection:
        remaining = {
            name
            for (name,) in connection.execute(
                "select table_name from information_schema.tables"
            ).fetchall()
        }
        macros = connection.execute(
            "select count(*) from duckdb_functions() where not internal"
        ).fetchone()
    assert remaining == mine == {"runs", "truth"}
    assert macros == (0,)
