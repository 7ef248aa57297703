"""What a job costs by the days of a run, and a night by the months of history in its tables.

    python -m benchmarks.nights                                    # DuckDB and PostgreSQL, 30 days
    python -m benchmarks.nights postgres --days 30 120 365 --months 1 12 24

Every day has 4,000 queries of 20 items, in two parts of a year as a shop keeps them: a table cut
by month on PostgreSQL, with an index on the day. Days are then replaced by one run, and by one of
the last day alone after so many months of history. Each run is a process of its own; CPU seconds
and memory are those of the process and of the server. No time is told unless all engines have the
same numbers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

from benchmarks.agreement import TOLERANCE
from benchmarks.engines import opened, servers_of
from benchmarks.process_tree import spending

ENGINES = ("duckdb", "postgres")
FIRST = date(2026, 1, 1)
QUERIES, ITEMS = 4000, 20
HEAD = "| engine | what | rows | s | CPU s | peak MB |\n|---|---|---:|---:|---:|---:|"

RANKINGS = """insert into rankings
select
    cast('{first}' as date) + cast(day as integer) as ds,
    concat('query-', query) as query_id,
    concat('item-', query, '-', item * 2 + (query * 31 + item * 7 + day) % 2) as item_id,
    20.0 - item + (query * 13 + item * 5 + day * 7) % 1000 / 1000.0 as score,
    case query % 3 when 0 then 'JP' when 1 then 'US' else 'DE' end as country
from generate_series({start}, {stop}) as days(day)
cross join generate_series(1, {queries}) as queries(query)
cross join generate_series(1, {items}) as places(item)"""

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
    numbers: dict[str, Any] = {}
    for engine in options.engines:
        for days in options.days:
            _print(engine, f"{days} days", measured(engine, days, 0), numbers)
        for months in options.months:
            what = f"a night after {months} months"
            _print(engine, what, measured(engine, 1, months), numbers)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nights", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("engines", nargs="*", default=ENGINES, help=f"some of {', '.join(ENGINES)}")
    parser.add_argument("--days", type=int, nargs="*", default=[30], help="days of a run")
    parser.add_argument("--months", type=int, nargs="*", default=[], help="of history")
    return parser


def _print(engine: str, what: str, run: dict[str, Any], numbers: dict[str, Any]) -> None:
    expected = numbers.setdefault(what, run["numbers"])
    pairs = zip(expected, run["numbers"], strict=True)
    if any(abs(left - right) > TOLERANCE for left, right in pairs):
        raise SystemExit(f"{what}: {engine} has other numbers; no time is told")
    print(
        f"| {engine} | {what} | {run['rows']:,} | {run['wall']:.1f} | {run['cpu']:.1f} "
        f"| {run['peak']:,.0f} |",
        flush=True,
    )


def measured(engine: str, days: int, months: int) -> dict[str, Any]:
    """One run in a process of its own.

    Args:
        engine: Where.
        days: How many days are replaced by it.
        months: How many months of history its tables hold.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    code = "import sys; from benchmarks.nights import run; run(*sys.argv[1:])"
    command = [sys.executable, "-c", code, engine, str(days), str(months)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run(name: str, days: str, months: str) -> None:
    """Inside the process: fill the tables, run the job, print what it took."""
    import sqlmetrics as sm
    from sqlmetrics.jobs.run import write
    from sqlmetrics.spec.days import Days

    spec = sm.Spec(
        name="nights",
        rankings={"relation": "rankings", "columns": {"date": "ds"}},
        labels={"relation": "labels"},
        by=["country"],
        metrics=METRICS,
        output={"relation": "facts", "per_query": "facts_per_query"},
    )
    number = int(days)
    after = Days(start=FIRST + timedelta(1), end=FIRST + timedelta(1 + number))
    with opened(name) as engine:
        for statement in _tables(name, number + 1):
            engine.driver.execute(statement)
        write(spec, engine, Days(start=FIRST, end=FIRST + timedelta(1)))
        if history := 30 * int(months):
            for table in ("facts", "facts_per_query"):
                _fill(engine, table, history)
        servers, began = servers_of(name, engine), time.perf_counter()
        with spending(servers) as spent:
            write(spec, engine, after)
        wall = time.perf_counter() - began
        rows = engine.rows(
            "select value from facts where metric_date >= "
            f"cast('{after.start}' as date) order by metric_date, metric, k, segment_value"
        )
    taken = {"wall": wall, "cpu": spent.cpu, "peak": spent.peak}
    numbers = [value for (value,) in rows]
    print(json.dumps(taken | {"rows": number * QUERIES * ITEMS, "numbers": numbers}))


def _tables(name: str, days: int) -> Iterator[str]:
    """The statements that make the tables of so many days."""
    is_cut = name == "postgres"
    yield f"create table rankings ({COLUMNS})" + " partition by range (ds)" * is_cut
    sizes = {"queries": QUERIES, "items": ITEMS, "labels": 2 * ITEMS}
    for start in range(0, days, 30):
        first, end = (FIRST + timedelta(day) for day in (start, start + 30))
        if is_cut:
            part = f"create table rankings_{start} partition of rankings"
            yield f"{part} for values from ('{first}') to ('{end}')"
        stop = min(days, start + 30) - 1
        yield RANKINGS.format(first=FIRST, start=start, stop=stop, **sizes)
    yield LABELS.format(**sizes)
    if is_cut:
        yield "create index on rankings (ds)"
        yield "analyze rankings, labels"


def _fill(engine: Any, table: str, days: int) -> None:
    """Copy the rows of the first day to so many days before it."""
    columns = [name for name in engine.columns(table) if name != "metric_date"]
    names = ", ".join(columns)
    engine.driver.execute(
        f"insert into {table} (metric_date, {names})\n"
        f"select metric_date - cast(day as integer), {names}\n"
        f"from {table} cross join generate_series(1, {days}) as days(day)"
    )
    if engine.name == "PostgreSQL":
        engine.driver.execute(f"analyze {table}")


if __name__ == "__main__":
    main()
