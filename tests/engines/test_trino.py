"""Trino beside the promises of every engine: jobs in Iceberg tables, and the shape of its plans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from job_days import check, clear, job, log
from job_files import day

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.jobs.files import write_job
from sqlmetrics.proof.doctor import TOLERANCE, cases, tables
from sqlmetrics.proof.verify import verify

RANGES = ((0, 3), (2, 6), (4, 5))
"""Ranges of days, of which two write days again."""

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("trino")]


@pytest.fixture
def iceberg(servers: Any) -> Iterator[Database]:
    """The catalog of Iceberg tables, with the log of jobs."""
    url = servers.connection("trino").replace("/memory/default", "/iceberg/shop")
    with connect(url) as engine:
        engine.execute("create schema if not exists shop")
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


def test_two_jobs_that_meet_double_no_day(tmp_path: Path, iceberg: Database) -> None:
    write_job(job(), "trino", tmp_path)
    run_job(tmp_path, iceberg, 0, 1)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(run_apart, tmp_path, iceberg.driver.url, 0, 6) for _ in range(2)]
    failures = [str(run.exception()) for run in runs if run.exception()]
    assert len(failures) < 2, failures
    assert all("conflict" in failure for failure in failures), failures
    check(iceberg, [*range(6)])


def test_fused_systems_are_those_of_the_reference(iceberg: Database) -> None:
    """A few metrics a query: all of them would have too many stages."""
    n_compared = 0
    with iceberg.scratch() as schema:
        for name, table in tables(40).items():
            iceberg.load(f"{schema}.{name}", table)
        for case in cases(iceberg.translation.dialect, schema, lambda name: "fused" in name):
            few = case.spec.having(metrics=["ndcg@3", "recall@3", "mrr"])
            for agreement in verify(few, iceberg)[1]:
                assert agreement.largest <= TOLERANCE, (case.name, agreement)
                n_compared += agreement.compared
    assert n_compared > 1_000


def test_rows_move_between_workers_as_often_as_by_hand(iceberg: Database) -> None:
    """The rankings twice: to the lists that they are, and with the days' means at the end."""
    spec = job(by=[], metrics=["ndcg@10", "recall@10", "mrr"], output=None)
    text = sm.compile(spec, "trino")
    plan = "".join(row[0] for row in iceberg.driver.rows(f"explain (type distributed) {text}"))
    assert len(re.findall(r"Fragment \d+ \[HASH\]", plan)) == 6, plan
