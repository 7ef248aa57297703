"""Trino beside the promises of every engine: jobs in Iceberg tables, and the shape of its plans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from job_days import changed, check, clear, days, facts, job, log, per_query, runs
from job_files import day
from marked import by_night

import sqlmetrics as sm
from engines.server import REQUIRED, MissingError
from engines.trino_server import Cluster, cluster, kill, s3
from sqlmetrics.engines.catalog_lock import TableLock
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.jobs.dry_run import dry_run
from sqlmetrics.jobs.files import write_job
from sqlmetrics.jobs.history.removal import retire
from sqlmetrics.jobs.history.restore import restore
from sqlmetrics.jobs.missing_days import Part
from sqlmetrics.jobs.publish import publish
from sqlmetrics.jobs.run import write
from sqlmetrics.proof.doctor import TOLERANCE, cases, tables
from sqlmetrics.proof.verify import verify_spec

RANGES = ((0, 3), (2, 6), (4, 5))
"""Ranges of days, of which two write days again."""

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("trino")]


@pytest.fixture
def iceberg(servers: Any) -> Iterator[Database]:
    """The catalog of Iceberg tables, with the log of jobs."""
    with connect(servers.connection("trino_iceberg")) as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        yield engine
        clear(engine)


def run_job(folder: Path, engine: Database, start: int, end: int) -> None:
    """What the client does after `envsubst`, which puts the days into the files."""
    for file in ("01_tables.sql", "03_replacement.sql", "04_views.sql"):
        text = (folder / file).read_text()
        for parameter, number in (("${start}", start), ("${end}", end)):
            text = text.replace(parameter, day(number))
        for statement in filter(str.strip, re.split(r";\n(?:\n|$)", text)):
            engine.execute(statement)


def run_apart(folder: Path, url: Any, start: int, end: int) -> None:
    """The same over a connection of its own."""
    with connect(url) as engine:
        run_job(folder, engine, start, end)


def snapshots(engine: Database, table: str) -> int:
    """How many changes of an Iceberg table there were."""
    changed = (
        "cardinality(map_filter(summary, (key, n) -> key in ('added-records', 'deleted-records')))"
    )
    (row,) = engine.driver.rows(f'select count(*) from "{table}$snapshots" where {changed} > 0')
    return int(row[0])


def test_a_job_replaces_days_in_one_snapshot_a_table(tmp_path: Path, iceberg: Database) -> None:
    write_job(job(), "trino", tmp_path)
    for n_runs, (start, end) in enumerate(RANGES, 1):
        run_job(tmp_path, iceberg, start, end)
        for table in ("metrics", "metrics_of_queries"):
            assert snapshots(iceberg, table) == n_runs, table
    check(iceberg, [*range(6)])
    before = iceberg.rows("select count(*), min(run_id) from metrics")
    iceberg.execute("insert into metrics select * from metrics where day(metric_date) = 3")
    iceberg.execute("update metrics_metrics set label = 'of long ago'")
    run_job(tmp_path, iceberg, 2, 4)
    assert iceberg.rows("select count(*), min(run_id) from metrics") == before
    assert iceberg.rows("select count(*) from metrics_runs") == [(len(RANGES) + 1,)]
    assert iceberg.rows("select count(*) from metrics_metrics") == [(5,)]
    of_long_ago = iceberg.rows("select count(*) from metrics_metrics where label = 'of long ago'")
    assert of_long_ago == [(0,)]


def test_a_run_changes_each_table_once_the_fact_table_last(
    iceberg: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what it began, tells of a run that died, and is done again where it failed."""
    first = write(job(), iceberg, days(0, 6))
    assert first.rows == {"facts": 180, "per_query": 48}
    check(iceberg, [*range(6)])
    before = iceberg.rows("select run_id, count(*) from metrics group by run_id")
    execute = iceberg.driver.execute

    def stopped(sql: str) -> None:
        if sql.startswith('merge into "metrics" '):
            raise sm.EngineError("the cluster is gone")
        execute(sql)

    monkeypatch.setattr(iceberg.driver, "execute", stopped)
    with pytest.raises(sm.EngineError, match="the cluster is gone"):
        write(job(metrics=["mrr", "ndcg@3"]), iceberg, days(1, 3))
    monkeypatch.undo()
    assert iceberg.rows("select run_id, count(*) from metrics group by run_id") == before
    last = write(job(), iceberg, days(1, 3))
    check(iceberg, [*range(6)])
    assert changed({**runs(iceberg)}, dict.fromkeys(range(6), first.run_id)) == {1, 2}
    assert runs(iceberg)[1] == last.run_id
    outcomes = iceberg.rows("select outcome from metrics_runs order by started_at")
    assert [outcome for (outcome,) in outcomes] == ["replaced", "failed", "replaced"]
    for table, n_runs in (("metrics", 2), ("metrics_of_queries", 3)):
        assert snapshots(iceberg, table) == n_runs, table
    remaining = [name for (name,) in iceberg.rows("show tables") if "sqlmetrics" in name]
    assert remaining == [], "what was kept for a while is gone"
    definition = iceberg.rows("show create table metrics")[0][0]
    assert "COMMENT 'Ranking metrics: one row per spec, day" in definition


def test_runs_wait_for_each_other_and_take_the_place_of_dead_ones(iceberg: Database) -> None:
    url = iceberg.driver.url

    def run_alone(start: int, end: int) -> list[str]:
        with connect(url) as engine:
            return [*write(job(), engine, days(start, end)).notes]

    write(job(), iceberg, days(0, 1))
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(run_alone, 0, 4), pool.submit(run_alone, 2, 6)]
        day_counts: set[tuple[str, int]] = set()
        while not all(run.done() for run in futures):
            days_of = "select cast(metric_date as varchar), count(*) from metrics group by 1"
            day_counts |= {(day, n) for day, n in iceberg.rows(days_of)}
        assert [run.result() for run in futures] == [[], []]
    assert {n for _, n in day_counts} == {30}, "a reader sees each day whole"
    check(iceberg, [*range(6)])
    gone, claimant = (TableLock(iceberg.driver, "metrics_lock", "metrics") for _ in range(2))
    for lock, name in ((gone, "metrics_lock"), (claimant, f"metrics_lock_{gone.token}")):
        lock._names["process"] = "4194305 0"  # also one that took the lock from a dead one
        iceberg.execute(lock._create(name))
    (note,) = run_alone(1, 2)
    assert iceberg.rows("show tables like 'metrics_lock%'") == []
    assert note.startswith("a run was killed while it wrote metrics: process 4194305 on ")
    held = TableLock(iceberg.driver, "metrics_lock", "metrics")
    with held.held(1), connect(url) as other:
        other.driver.lock_timeout = 1
        with pytest.raises(sm.EngineError, match=r"another run writes metrics: process \d+ on"):
            write(job(), other, days(1, 2))
    iceberg.execute("create table metrics_lock (host varchar)")
    with pytest.raises(sm.EngineError, match="metrics_lock is a table that no run made"):
        write(job(), iceberg, days(1, 2))
    iceberg.execute("drop table metrics_lock")
    check(iceberg, [*range(6)])


def test_a_statement_that_meets_another_writer_is_tried_again(
    iceberg: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job without locks writes between the snapshot that a merge reads and its own."""
    write(job(), iceberg, days(0, 2))
    write(job(), iceberg, days(0, 2))
    statement = "merge into metrics using (select 1 as one) on metrics.k = -1 when matched then "
    trino = pytest.importorskip("trino")
    conflict = trino.exceptions.TrinoQueryError({"errorName": "ICEBERG_COMMIT_ERROR"}, "q")
    running, failures = type(iceberg.driver)._running, [conflict, conflict]

    def meeting(driver: Any, sql: str) -> Any:
        if failures and sql.startswith("merge"):
            raise failures.pop()
        return running(driver, sql)

    monkeypatch.setattr(type(iceberg.driver), "_running", meeting)
    iceberg.execute(f"{statement}delete")
    assert failures == []
    failures += [conflict] * 3
    with pytest.raises(sm.EngineError, match="another writer of the table was quicker, 3 times"):
        iceberg.execute(f"{statement}delete")
    monkeypatch.undo()


def test_what_has_no_place_is_refused(iceberg: Database, servers: Any) -> None:
    kept = job(output={"relation": "metrics", "keep": 3})
    with pytest.raises(sm.SpecError, match=r"output.keep: 3: .* has no transaction"):
        write(kept, iceberg, days(0, 1))
    run = write(job(), iceberg, days(0, 2))
    text = dry_run(job(), iceberg, Part(days(0, 1)))
    assert text.count("\nmerge into ") == 2
    assert "create table sqlmetrics_new_facts as" in text
    with pytest.raises(sm.SpecError, match="keep no rows that they replace"):
        restore(job(), iceberg, run.run_id)
    retire(job(), iceberg)
    assert iceberg.rows("select count(*) from metrics") == [(0,)]
    assert not [name for (name,) in iceberg.rows("show tables") if name.startswith("metrics_shop")]
    with connect(servers.connection("trino")) as memory:
        message = r"metrics: the catalog memory has the connector memory, .* Iceberg or Delta Lake"
        with pytest.raises(sm.SpecError, match=message):
            write(job(), memory, days(0, 1))
        assert memory.find("metrics") is None
        (can_write,) = memory.driver.writing_rights(["metrics"])
        assert can_write.startswith("no; metrics: the catalog memory")
        elsewhere = job(output={"relation": "iceberg.shop.metrics", "views": False})
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            memory.load(name, rows)
        assert write(elsewhere, memory, days(0, 1)).rows == {"facts": 30}
        for name in ("runs", "truth"):
            memory.execute(f"drop table {name}")


def test_a_spec_that_moves_has_the_same_tables(iceberg: Database) -> None:
    """Published from DuckDB they are the same bits, computed anew the same numbers."""
    blanks = {"run_id": None, "computed_at": None}
    with connect() as duck:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            duck.load(name, rows)
        write(job(), duck)
        numbers, queries = facts(duck), per_query(duck)
        wide = duck.rows("select * from metrics_wide order by all")
        publish(job(), duck, f"trino://test@{iceberg.driver.url.host}:{iceberg.driver.url.port}"
                "/iceberg/shop")  # fmt: skip
    assert facts(iceberg) == numbers
    assert per_query(iceberg) == queries
    assert iceberg.rows("select outcome from metrics_runs") == [("replaced",)]
    write(job(), iceberg)
    moved = facts(iceberg)
    assert moved.keys() == numbers.keys()
    for key, row in numbers.items():
        assert moved[key] | blanks == {
            name: near(value) for name, value in (row | blanks).items()
        }, key
    for key, values in queries.items():
        assert per_query(iceberg)[key] == tuple(map(near, values))
    moved_wide = iceberg.rows("select * from metrics_wide")
    assert sorted(moved_wide, key=str) == [tuple(map(near, row)) for row in sorted(wide, key=str)]


def near(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value


def test_two_jobs_that_meet_double_no_day(tmp_path: Path, iceberg: Database) -> None:
    write_job(job(), "trino", tmp_path)
    run_job(tmp_path, iceberg, 0, 1)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(run_apart, tmp_path, iceberg.driver.url, 0, 6) for _ in range(2)]
    failures = [str(run.exception()) for run in runs if run.exception()]
    assert len(failures) < 2, failures
    assert all("conflict" in failure for failure in failures), failures
    check(iceberg, [*range(6)])


@by_night
def test_tables_of_delta_lake_change_as_well() -> None:
    """On S3, whose stand-in refuses a second file of a name; two writers that meet are told so."""
    try:
        with s3() as url, cluster(url) as servers, connect(servers.url) as engine:
            for name, rows in zip(("runs", "truth"), log(), strict=True):
                engine.load(name, rows)
            names = {name: f"delta.shop.{name}" for name in ("metrics", "metrics_of_queries")}
            output = {"relation": names["metrics"], "per_query": names["metrics_of_queries"]}
            for ends in ((3, 5), (0, 4), (3, 6)):
                write(job(output=output), engine, days(*ends))
            with connect(servers.url.replace("iceberg", "delta")) as delta:
                check(delta, [*range(6)])
                rows = "select count(distinct run_id) from metrics"
                assert delta.rows(rows) == [(2,)]
                operations = delta.rows('select operation from "metrics$history" order by version')
                assert [name for (name,) in operations].count("MERGE") == 3
                update = "update metrics set ci_method = '{}' where k = 3"
                with ThreadPoolExecutor(4) as pool:
                    futures = [
                        pool.submit(delta.driver.execute, update.format(n)) for n in range(8)
                    ]
                errors = [str(future.exception()) for future in futures if future.exception()]
                assert all("another writer of the table was quicker" in text for text in errors)
                check(delta, [*range(6)])
    except MissingError as missing:
        (pytest.fail if REQUIRED else pytest.skip)(str(missing))


KILLED_AT = (
    ("create table sqlmetrics_per_query", 0.0),
    ("create table sqlmetrics_per_query", 0.4),
    ('merge into "metrics_of_queries" ', 0.0),
    ('merge into "metrics" ', 0.0),
    ('merge into "metrics" ', 0.3),
)
"""Statements of a run, and so many seconds after their begin a worker is killed."""


@by_night
def test_a_worker_that_is_killed_takes_no_number_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends whole or with an error, and the next one does what is left."""
    try:
        with cluster() as servers, connect(servers.url) as engine:
            lose_workers(servers, engine, monkeypatch)
    except MissingError as missing:
        (pytest.fail if REQUIRED else pytest.skip)(str(missing))


def lose_workers(servers: Cluster, engine: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill one of two workers while it works, over and over."""
    for name, rows in zip(("runs", "truth"), log(), strict=True):
        engine.load(name, rows)
    workers = [servers.work(), servers.work()]
    first = write(job(), engine, days(0, 6))
    errors = []
    for beginning, seconds in KILLED_AT:
        before = runs(engine)
        execute, (victim, *workers) = engine.driver.execute, workers

        def killing(sql: str) -> None:
            is_there = beginning in sql and victim.poll() is None  # noqa: B023
            timer = Timer(seconds, kill, [victim])  # noqa: B023
            if is_there:
                timer.start()
            execute(sql)  # noqa: B023
            if is_there:
                timer.join()

        monkeypatch.setattr(engine.driver, "execute", killing)
        try:
            report = write(job(), engine, days(1, 4))
            assert {runs(engine)[day] for day in (1, 2, 3)} == {report.run_id}
        except sm.EngineError as error:
            errors.append(str(error))
            assert runs(engine) == before, "the fact table is as it was"
        monkeypatch.undo()
        assert victim.poll() is not None, "it was killed"
        check(engine, [*range(6)])
        assert runs(engine)[5] == first.run_id
        workers.append(servers.work())
        again = write(job(), engine, days(1, 4))
        assert changed(before, runs(engine)) == {1, 2, 3}
        assert runs(engine)[1] == again.run_id
        check(engine, [*range(6)])
    assert errors, "a worker that works is missed"
    doubled = "select count(*) from metrics_runs group by run_id having count(*) > 1"
    assert engine.rows(doubled) == []


def test_fused_systems_are_those_of_the_reference(iceberg: Database) -> None:
    """A few metrics a query: all of them would have too many stages."""
    n_compared = 0
    with iceberg.scratch() as schema:
        for name, table in tables(40).items():
            iceberg.load(f"{schema}.{name}", table)
        for case in cases(iceberg.translation.dialect, schema, lambda name: "fused" in name):
            few = case.spec.having(metrics=["ndcg@3", "recall@3", "mrr"])
            for agreement in verify_spec(few, iceberg)[1]:
                assert agreement.largest <= TOLERANCE, (case.name, agreement)
                n_compared += agreement.compared
    assert n_compared > 1_000


def test_rows_move_between_workers_as_often_as_by_hand(iceberg: Database) -> None:
    """The rankings twice: to the lists that they are, and with the days' means at the end."""
    spec = job(by=[], metrics=["ndcg@10", "recall@10", "mrr"], output=None)
    text = sm.compile(spec, "trino")
    plan = "".join(row[0] for row in iceberg.driver.rows(f"explain (type distributed) {text}"))
    assert len(re.findall(r"Fragment \d+ \[HASH\]", plan)) == 6, plan
