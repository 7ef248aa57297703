"""A run that is killed anywhere leaves its days whole, old or new, in all tables."""

from __future__ import annotations

import itertools
import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from job_days import check, clear, days, job, log
from killed_runs import before_statement, killed, spawning
from marked import by_night, by_turns, engines
from slices import keep

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.registry import open_driver
from sqlmetrics.jobs.history.restore import restore
from sqlmetrics.jobs.run import write

RANGE = days(1, 4)
KILLS = 200


LASTING = engines(["duckdb", "postgres", "sqlite", "mariadb"], now=["duckdb"])
"""Databases that outlive a process."""


@pytest.fixture(params=LASTING)
def url(request: pytest.FixtureRequest, servers: Any, tmp_path: Path) -> Iterator[str]:
    """Where it is, with all days done once."""
    files = {"duckdb": f"duckdb:///{tmp_path}/shop.duckdb", "sqlite": f"sqlite:///{tmp_path}/a.db"}
    where = files.get(request.param) or servers.connection(request.param)
    with connect(where, create=True) as engine:
        rankings, labels = log()
        engine.load("runs", rankings)
        engine.load("truth", labels)
        write(job(), engine)
        write(job("other"), engine)
    try:
        yield where
    finally:
        with connect(where) as engine:
            clear(engine)


def change(url: str, number: int) -> None:
    """Other labels, so that new numbers are not the old ones."""
    with connect(url) as engine:
        engine.execute(f"update truth set grade = {number % 3} + 1 where item_id = 'i1'")


def run_until(url: str, stop: Callable[[Database], None] | None) -> None:
    """What a child does: a run, with something in its way."""
    with connect(url) as engine:
        if stop:
            stop(engine)
        write(job(), engine, RANGE)


def restore_until(url: str, stop: Callable[[Database], None]) -> None:
    """What another child does: the last run taken back, with something in its way."""
    with connect(url) as engine:
        stop(engine)
        restore(job(), engine, "last")


def cut_off(engine: Database, number: int, url: str) -> None:
    """End the connection at its server before a statement."""
    server: Any = getattr(engine, "driver", engine)
    ((pid,),) = server.rows("select pg_backend_pid()")

    def end() -> None:
        with open_driver(url) as other:
            other.rows(f"select pg_terminate_backend({pid})")

    before_statement(engine, number, end)


def full_disk(_: Database, size: int) -> None:
    """No file grows over a size, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def child(
    url: str,
    stop: Callable[[Database], None] | None = None,
    work: Callable[..., None] = run_until,
) -> Any:
    process = spawning.Process(target=work, args=(url, stop))
    process.start()
    return process


def state(url: str) -> tuple[str, ...]:
    """The run that the days of RANGE stand for, after a look at all that must hold."""
    with connect(url) as engine:
        within = (
            "spec = 'shop' and metric_date >= date '2026-01-02' and metric_date < date '2026-01-05'"
        )
        runs = engine.rows(f"select distinct run_id from metrics where {within}")
        assert len(runs) == 1, "rows of two runs stand side by side"
        ((logged,),) = engine.rows(
            f"select count(*) from metrics_runs where run_id = '{runs[0][0]}' "
            "and outcome = 'replaced'"
        )
        assert logged == 1
        counts = engine.rows(
            "select spec, count(*), count(distinct metric_date) from metrics "
            "group by spec order by spec"
        )
        assert counts == [("other", *counts[1][1:]), ("shop", *counts[1][1:])]
        assert counts[1][2] == 6
        key = "metric_date, system, query_id"
        grouped = f"select {key} from metrics_of_queries where spec = 'shop' group by {key}"
        assert engine.rows(f"{grouped} having count(*) > 1") == []
        sums = engine.rows(
            "select m.metric_date, m.system, m.numerator, q.total from metrics as m join ("
            "select metric_date, system, sum(ndcg_at_3) as total from metrics_of_queries "
            "where spec = 'shop' group by metric_date, system) as q "
            "on q.metric_date = m.metric_date and q.system = m.system "
            "where m.spec = 'shop' and m.metric = 'ndcg' and m.segment_name = 'all'"
        )
        assert len(sums) == 12
        for *_, summary, queries in sums:
            assert summary == pytest.approx(queries, rel=1e-12), "two tables, two runs"
        kept = engine.rows(
            "select runs.run_id, max(archived), count(replaced_by) from metrics_runs as runs "
            "left join (select replaced_by from metrics_archive union all "
            "select replaced_by from metrics_of_queries_archive) as kept "
            "on kept.replaced_by = runs.run_id where outcome in ('replaced', 'restored') "
            "group by runs.run_id"
        )
        assert {n for _, archived, n in kept if n != archived} <= {0}, "an archive is not whole"
        return runs[0]


@by_turns(1.9)
def test_killed_before_any_statement(url: str) -> None:
    """A part of all statements, which the seed chooses; by night all of them."""
    before = state(url)
    changed = []
    for number in itertools.count():
        if not keep(f"killed before {number} of {url.partition(':')[0]}", 0.15):
            continue
        change(url, number)
        process = child(url, partial(killed, number=number))
        process.join(60)
        changed.append(state(url) != before)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
    assert number > 8
    assert changed[-1]
    assert changed == sorted(changed), "nothing is there before all is"
    with connect(url) as engine:
        outcomes = "select outcome, message from metrics_runs where outcome <> 'replaced'"
        died = engine.rows(outcomes)
        assert {outcome for outcome, _ in died} == {"failed"}, "the next run tells of each"
        assert all(message.startswith("it did not end: it was killed") for _, message in died)


@by_turns(2.5)
def test_a_way_back_that_is_killed(url: str) -> None:
    """All tables are as the run left them, or as they were before it, in the archives too."""
    first = state(url)
    for number in itertools.count():
        if not keep(f"restore killed before {number} of {url.partition(':')[0]}", 0.15):
            continue
        change(url, number)
        with connect(url) as engine:
            write(job(), engine, RANGE)
        before = state(url)
        process = child(url, partial(killed, number=number), restore_until)
        process.join(60)
        after = state(url)
        assert after in (before, first)
        if process.exitcode == 0:
            break
        if after == before:
            with connect(url) as engine:
                restore(job(), engine, "last")
        assert state(url) == first
    assert after == first
    assert number > 8


class StopError(Exception):
    """What a run is stopped with."""


def stopped(engine: Database, number: int, beginning: str = "") -> None:
    """Fail before a statement, of those that begin so."""
    driver: Any = getattr(engine, "driver", engine)
    execute, numbers = driver.execute, itertools.count()

    def counted(sql: str) -> None:
        # what is temporary goes with a connection, which stays here
        counts = sql.startswith(beginning) and not sql.startswith("drop")
        if counts and next(numbers) == number:
            raise StopError
        execute(sql)

    driver.execute = counted


@pytest.mark.parametrize("name", engines(["chdb", "spark"], now=[], night=["spark"]))
def test_without_transactions_each_day_of_a_table_is_whole(name: str, servers: Any) -> None:
    """As their pages promise: some days may be new and others old, and the next run mends it."""
    with connect(servers.open(name)) as engine:
        rankings, labels = log()
        engine.load("runs", rankings)
        engine.load("truth", labels)
        low: Any = getattr(engine, "driver", engine)
        try:
            write(job(), engine, days(0, 4))
            mixed = 0
            for number in range(80):
                execute = low.execute
                stopped(engine, number, "" if name == "chdb" else "alter table")
                try:
                    write(job(), engine, days(1, 4))
                    break
                except StopError:
                    pass
                finally:
                    low.execute = execute
                mixed += len(set(ids_by_day(engine, "metrics")[1:])) > 1
            assert number >= 12 if name == "spark" else number > 8  # 3 days of 2 tables
            assert mixed > 0
            write(job(), engine, days(1, 4))
            check(engine, [0, 1, 2, 3])
            assert len(set(ids_by_day(engine, "metrics")[1:])) == 1
        finally:
            clear(engine)


def ids_by_day(engine: Database, table: str) -> list[str]:
    """The run of each day, which is one."""
    rows = engine.rows(
        "select metric_date, min(run_id) as low, max(run_id) as high, count(*) as n "
        f"from {table} group by metric_date order by metric_date"
    )
    assert all(low == high for _, low, high, _ in rows), "a day of two runs"
    assert all(n > 0 for *_, n in rows)
    return [low for _, low, _, _ in rows]


@by_night
def test_killed_at_any_time(url: str) -> None:
    chance = random.Random(7)
    change(url, 0)
    began = time.monotonic()
    process = child(url)
    process.join(60)
    duration = time.monotonic() - began
    outcomes = []
    for number in range(KILLS):
        before = state(url)
        change(url, number)
        process = child(url)
        process.join(chance.uniform(0.2, 1.05) * duration)
        process.kill()
        process.join(60)
        outcomes.append(state(url) != before)
    assert 0 < sum(outcomes) < KILLS, "some must be done, and some not"
    write_whole(url)


def write_whole(url: str) -> None:
    """The next run repairs whatever is left."""
    before = state(url)
    with connect(url) as engine:
        write(job(), engine, RANGE)
    assert state(url) != before


@pytest.mark.long
def test_two_at_once(url: str) -> None:
    for number in range(5):
        change(url, number)
        processes = [child(url), child(url)]
        for process in processes:
            process.join(60)
        exit_codes = [process.exitcode for process in processes]
        # of a DuckDB file one process is the writer, and the other is told so
        assert 0 in exit_codes
        assert url.startswith("duckdb") or exit_codes == [0, 0]
        state(url)


@by_turns(1)
def test_two_of_one_process(tmp_path: Path) -> None:
    """Two threads that share a DuckDB: without a lock both would insert."""
    import duckdb

    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        with connect(connection) as engine:
            rankings, labels = log()
            engine.load("runs", rankings)
            engine.load("truth", labels)
        cursors = [connection.cursor() for _ in range(4)]
        errors: list[BaseException] = []

        def work(cursor: Any) -> None:
            try:
                write(job(), connect(cursor), RANGE)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(cursor,)) for cursor in cursors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        keys = "metric_date, system, segment_name, segment_value, metric, k"
        rows = connection.execute(
            f"select count(*), count(distinct ({keys})), count(distinct run_id) from metrics"
        ).fetchone()
        assert rows is not None
        assert rows[0] == rows[1] > 0
        assert rows[2] == 1


@pytest.mark.long
def test_a_full_disk(tmp_path: Path) -> None:
    where = f"duckdb:///{tmp_path}/shop.duckdb"
    with connect(where, create=True) as engine:
        rankings, labels = log()
        engine.load("runs", rankings)
        engine.load("truth", labels)
        write(job(), engine)
        write(job("other"), engine)
    before = state(where)
    size = (tmp_path / "shop.duckdb").stat().st_size
    codes = []
    for extra in (0, 1_000, 4_000, 10_000, 50_000, 300_000):
        change(where, extra)
        process = child(
            where, partial(full_disk, size=size + extra if extra > 4_000 else max(extra, 1))
        )
        process.join(60)
        codes.append(process.exitcode)
        assert process.exitcode == 0 or state(where) == before
    assert codes[0] != 0
    write_whole(where)


@pytest.fixture
def small_disk(servers: Any, tmp_path: Path) -> Iterator[str]:
    """A PostgreSQL whose new tables lie on a disk of 1 MB; its URL."""
    url = servers.connection("postgres")
    server = os.stat(url.split("host=")[1])
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(command, check=False).returncode:
        pytest.skip("no disk can be mounted here: it takes root")
    try:
        for folder in tmp_path.parents[:3]:  # the server is another user
            folder.chmod(0o755)
        tmp_path.chmod(0o755)
        (disk / "space").mkdir(mode=0o700)
        os.chown(disk / "space", server.st_uid, server.st_gid)
        with open_driver(url) as engine:
            engine.execute(f"create tablespace small location '{disk}/space'")
            engine.execute("alter database postgres set default_tablespace = small")
        yield url
        with connect(url) as engine:
            clear(engine)
        with open_driver(url) as engine:
            engine.execute("alter database postgres reset default_tablespace")
            engine.execute("drop table if exists ballast")
            engine.execute("drop tablespace small")
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.long
@pytest.mark.xdist_group("postgres")
def test_a_full_disk_of_postgres(small_disk: str) -> None:
    with connect(small_disk) as engine:
        rankings, labels = log()
        engine.load("runs", rankings)
        engine.load("truth", labels)
        write(job(), engine)
        write(job("other"), engine)
    before = state(small_disk)
    with open_driver(small_disk) as engine:
        engine.execute("create table ballast (x text)")
        with pytest.raises(sm.EngineError, match="No space left"):
            engine.execute(
                "insert into ballast select repeat('x', 9) from generate_series(1, 99999)"
            )
    messages = []
    for number in range(8):  # the first ones may find room in pages that are there
        try:
            change(small_disk, number)
            run_until(small_disk, None)
            before = state(small_disk)
        except sm.EngineError as error:
            messages.append(str(error))
            assert state(small_disk) == before
    assert messages
    assert all("No space left" in message for message in messages)
    with open_driver(small_disk) as engine:
        engine.execute("drop table ballast")
    write_whole(small_disk)


@pytest.mark.long
@pytest.mark.xdist_group("postgres")
def test_a_dropped_connection(servers: Any) -> None:
    url = servers.connection("postgres")
    with connect(url) as engine:
        rankings, labels = log()
        engine.load("runs", rankings)
        engine.load("truth", labels)
        write(job(), engine)
        write(job("other"), engine)
    try:
        before, changed = state(url), []
        for number in range(200):  # more than a run has statements
            change(url, number)
            with suppress(sm.EngineError):
                run_until(url, partial(cut_off, number=number, url=url))
                break
            changed.append(state(url) != before)
        assert len(changed) > 8
        assert changed == sorted(changed), "nothing is there before all is"
        assert state(url) != before
    finally:
        with connect(url) as engine:
            clear(engine)
