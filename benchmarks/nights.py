"""What a job costs by the days of a backfill, and a night by the days of history before it.

    python -m benchmarks.nights                                # DuckDB and PostgreSQL, 30 days
    python -m benchmarks.nights postgres --days 30 120 365 730

Every day has 4,000 queries of 20 items, which stand together in the table and come day by day: on
PostgreSQL it is cut by month, with an index on the day. So many days are backfilled into new
tables, by the usual batches of 31 days, and then the day after them, as `run --backfill` does it
at night. Each engine is a process of its own, and keeps its tables on disk; CPU seconds and memory
are those of the process and of the server. No time is told unless all engines have the same
numbers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.agreement import TOLERANCE
from benchmarks.engines import opened, servers_of
from benchmarks.process_tree import spending

ENGINES = ("duckdb", "postgres")
FIRST = date(2026, 1, 1)
QUERIES, ITEMS, PART = 4000, 20, 30
HEAD = "| engine | what | rows | s | CPU s | peak MB |\n|---|---|---:|---:|---:|---:|"

RANKINGS = """insert into rankings
select
    cast('{first}' as date) + cast(day as integer) as ds,
    concat('query-', query) as query_id,
    concat('item-', query, '-', item * 2 + (query * 31 + item * 7 + day) % 2) as item_id,
    20.0 - item + (query * 13 + item * 5 + day * 7) % 1000 / 1000.0 as score,
    case query % 3 when 0 then 'JP' when 1 then 'US' else 'DE' end as country
from generate_series({start}, {stop} - 1) as days(day)
cross join generate_series(1, {queries}) as queries(query)
cross join generate_series(1, {items}) as places(item)
order by day, query * 7919 % 4001, item"""

LABELS = """create table labels as
select
    concat('query-', query) as query_id,
    concat('item-', query, '-', item) as item_id,
    1 + (query + item) % 3 as grade
from generate_series(1, {queries}) as queries(query)
cross join generate_series(1, {labels}) as items(item)
where (query * 3 + item * 5) % 4 = 0"""

COLUMNS = "ds date, query_id text, item_id text, score double precision, country text"
METRICS = ["ndcg@10", "recall@20", "mrr"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a row a run."""
    options = _parser().parse_args(arguments)
    print(HEAD, flush=True)
    numbers: dict[str, list[float | None]] = {}
    for engine in options.engines:
        for run in measured(engine, options.days):
            expected = numbers.setdefault(run["what"], run["numbers"])
            if not _agree(expected, run["numbers"]):
                raise SystemExit(f"{run['what']}: {engine} has other numbers; no time is told")
            print(
                f"| {engine} | {run['what']} | {run['rows']:,} | {run['wall']:.1f} "
                f"| {run['cpu']:.1f} | {run['peak']:,.0f} |",
                flush=True,
            )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nights", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("engines", nargs="*", default=ENGINES, help=f"some of {', '.join(ENGINES)}")
    parser.add_argument("--days", type=int, nargs="*", default=[30], help="days of a backfill")
    return parser


def _agree(without: Sequence[float | None], right: Sequence[float | None]) -> bool:
    pairs = zip(without, right, strict=True)
    return all(
        expected == value
        or (expected is not None and value is not None and abs(expected - value) <= TOLERANCE)
        for expected, value in pairs
    )


def measured(engine: str, days: Sequence[int]) -> Iterator[dict[str, Any]]:
    """What each run took, in a process of its own for the engine.

    Args:
        engine: Where.
        days: How many days are backfilled, each time from the first one.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    code = "import sys; from benchmarks.nights import run; run(*sys.argv[1:])"
    command = [sys.executable, "-c", code, engine, *map(str, sorted(days))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith("{"):  # DuckDB draws how far a statement is, if it lasts long
                yield json.loads(line)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def run(name: str, *days: str) -> None:
    """Inside the process: fill the tables, run the jobs, print what each took."""
    with _database(name) as engine:
        end = 0
        for statement in _tables(name):
            engine.driver.execute(statement)
        for number in map(int, days):
            for statement in _more_days(name, end, number + 1):
                engine.driver.execute(statement)
            end = number + 1
            facts = f"facts_of_{number}"
            for start, stop, title in (
                (0, number, f"{number} days"),
                (number, end, f"the night after {number} days"),
            ):
                print(json.dumps({"what": title} | _spent(name, engine, facts, start, stop)))
                sys.stdout.flush()


@contextmanager
def _database(name: str) -> Iterator[Any]:
    """An empty database on disk."""
    import duckdb

    from sqlmetrics.engines.database import connect

    if name != "duckdb":
        with opened(name) as engine:
            yield engine
        return
    with (
        TemporaryDirectory() as folder,
        duckdb.connect(Path(folder) / "nights.duckdb") as database,
        connect(database) as engine,
    ):
        yield engine


def _spent(name: str, engine: Any, facts: str, start: int, stop: int) -> dict[str, Any]:
    """What it takes to backfill the days before `stop`, of which those before `start` are done."""
    import sqlmetrics as sm

    spec = sm.Spec(
        name="nights",
        rankings={"relation": "rankings", "columns": {"date": "ds"}},
        labels={"relation": "labels"},
        by=["country"],
        metrics=METRICS,
        output={"relation": facts, "per_query": f"{facts}_per_query"},
    )
    first, last = (FIRST + timedelta(day) for day in (start, stop))
    began = time.perf_counter()
    with spending(servers_of(name, engine)) as spent:
        sm.run(spec, engine, end=last, backfill=True)
    wall = time.perf_counter() - began
    rows = engine.rows(
        f"select value from {facts} where metric_date >= cast('{first}' as date) "
        "order by metric_date, metric, k, segment_name, segment_value"
    )
    taken = {"wall": wall, "cpu": spent.cpu, "peak": spent.peak}
    numbers = [value for (value,) in rows]
    return taken | {"rows": (stop - start) * QUERIES * ITEMS, "numbers": numbers}


def _tables(name: str) -> Iterator[str]:
    """The statements that make the tables, without a day."""
    is_cut = name == "postgres"
    yield f"create table rankings ({COLUMNS})" + " partition by range (ds)" * is_cut
    yield LABELS.format(queries=QUERIES, labels=2 * ITEMS)
    if is_cut:
        yield "create index on rankings (ds)"


def _more_days(name: str, start: int, stop: int) -> Iterator[str]:
    """The statements that add some days, a part of the table after the other."""
    is_cut = name == "postgres"
    for part in range(start // PART * PART, stop, PART):
        first, end = (FIRST + timedelta(day) for day in (part, part + PART))
        if is_cut and part >= start:
            table = f"create table rankings_{part} partition of rankings"
            yield f"{table} for values from ('{first}') to ('{end}')"
        days = {"start": max(part, start), "stop": min(part + PART, stop)}
        yield RANKINGS.format(first=FIRST, queries=QUERIES, items=ITEMS, **days)
    if is_cut:
        yield "analyze rankings, labels"


if __name__ == "__main__":
    main()
