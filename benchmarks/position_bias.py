"""Does correction for positions help? And what does expectation maximisation cost?

`python -m benchmarks.position_bias` simulates logs of the position-based model whose truth is
known, and prints how well the rates of labels rank the truth (Spearman's correlation over the
pairs of a query and an item), by size of the log, by how much items move and by how well the
ranker knows them, beside the bias and noise that the product tells. `--cost 20_000_000` measures
the compression and the rounds of a log of so many impressions, beside scans of what was compressed.
DuckDB alone is needed.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise, product
from statistics import fmean, median
from typing import Any

import duckdb

import sqlmetrics as sm
from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.clicks.log_rows import ITEM_POSITIONS
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.clicks.propensity.estimate import estimate
from sqlmetrics.engines.temporary import Step
from sqlmetrics.sql.stage import select_of

PLANTED = (1, 0.7, 0.5, 0.4, 0.33, 0.28, 0.24, 0.2, 0.18, 0.16)
QUERIES, CANDIDATES, BATCH = 200, 20, 50_000

ITEMS = """
create or replace table items as
select
    *,
    {skill} * row_number() over (partition by query order by attractiveness desc)
        + 5 * sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) as guess
from (
    select query, item, pow(random(), 2.2) as attractiveness
    from range({queries}) as queries (query), range({candidates}) as items (item)
)
"""

SHOWN_ROWS = """
insert into shown
with requests as (
    -- the first queries are asked more often
    select request, cast(floor({queries} * pow(random(), 2)) as bigint) as query
    from range({first}, {last}) as requests (request)
),

moved as (
    select
        requests.request,
        items.*,
        items.place + {moves} * sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) as height
    from requests
    inner join (
        select *, row_number() over (partition by query order by guess) as place from items
    ) as items on items.query = requests.query
),

placed as (
    select *, row_number() over (partition by request order by height) as position from moved
)

select
    request,
    'q' || query as query,
    'i' || item as item,
    position,
    cast(random() < attractiveness * propensity as integer) as clicked
from placed
inner join propensities using (position)
"""

RANKED = """
with rated as (
    select attractiveness, rate
    from judged
    inner join items on query_text = 'q' || query and item_id = 'i' || item
)
select corr(truth, guess) from (
    select
        rank() over (order by attractiveness) + count(*) over (partition by attractiveness) / 2
            as truth,
        rank() over (order by rate) + count(*) over (partition by rate) / 2 as guess
    from rated
)
"""


SCAN = f"""
select
    position,
    sum(n_impressions) as n_impressions,
    sum(n_clicks) as n_clicks,
    sum(n_purchases) as n_purchases,
    max(query_text) as last_query,
    max(item_id) as last_item
from {ITEM_POSITIONS}
group by position
"""
"""All columns of the compressed table, and one row a position."""


def simulated(impressions: int, moves: float, skill: float, seed: int, queries: int) -> Any:
    """A database with a log: `shown` and `items`."""
    database = duckdb.connect()
    database.execute("set threads = 1; set memory_limit = '3GB'")
    database.execute(f"select setseed({(seed % 100) / 100})").fetchall()
    database.execute(ITEMS.format(skill=skill, queries=queries, candidates=CANDIDATES))
    database.execute(
        "create table shown (request bigint, query text, item text, position bigint, clicked int)"
    )
    rows = ", ".join(f"({k}, {p})" for k, p in enumerate(PLANTED, start=1))
    database.execute(
        f"create table propensities as from (values {rows}) as p (position, propensity)"
    )
    requests = impressions // len(PLANTED)
    for first in range(0, requests, BATCH):
        last = min(first + BATCH, requests)
        database.execute(SHOWN_ROWS.format(queries=queries, first=first, last=last, moves=moves))
    return database


def clicks_of(rate: str = "ctr", **propensity: Any) -> sm.clicks.Clicks:
    """What is said of the log."""
    columns = {"request": "request", "query": "query", "item": "item", "clicked": "clicked"}
    return sm.clicks.Clicks(
        log={"relation": "shown", "columns": columns},
        labels={"pool": "query_item", "rate": rate},
        propensity={"method": "harvest", "min_clicks": 1, "replicates": 0, **propensity},
    )


def correlation(log: CleanLog, database: Any, rate: str, curve: PropensityCurve | None) -> float:
    """How well a rate of labels ranks the truth."""
    labels = log.tables.clicks.labels.model_copy(update={"rate": rate})
    clicks = log.tables.clicks.model_copy(update={"labels": labels})
    rated = replace(log, tables=replace(log.tables, clicks=clicks, propensities=curve))
    database.register("judged", rated.judgments())
    return float(database.execute(RANKED).fetchall()[0][0])


def ranked(impressions: int, moves: float, skill: float, seed: int) -> list[float]:
    """The correlation of each rate, and the bias and noise."""
    database = simulated(impressions, moves, skill, seed, QUERIES)
    with sm.clicks.clean(clicks_of(), database) as log:
        estimated = estimate(log.tables, log.engine)
        true = PropensityCurve.given(dict(enumerate(PLANTED, start=1)))
        curves = (
            *(("ctr", None), ("coec", None)),
            *(("ips", true), ("ips", estimated.curve), ("coee", true), ("coee", estimated.curve)),
        )
        rates = [correlation(log, database, rate, curve) for rate, curve in curves]
        of = estimated.correction
        return [*rates, of.bias if of else 0.0, of.noise if of else 0.0]


def table(sizes: Sequence[int], seeds: int) -> Iterator[str]:
    """The lines of the table, each as soon as it is known."""
    heads = ["ranker", "impressions", "items move by", "ctr", "coec", "ips, true", "ips"]
    heads += ["coee, true", "coee", "bias", "noise", "is told"]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for skill, size, moves in product((1, 0), sizes, (0.3, 1, 3, 10)):
        runs = [ranked(size, moves, skill, seed) for seed in range(1, seeds + 1)]
        *rates, bias, noise = (fmean(column) for column in zip(*runs, strict=True))
        cells = ["good" if skill else "none", f"{size:,}", f"{moves:g}"]
        cells += [f"{rate:.2f}" for rate in rates] + [f"{bias:.0%}", f"{noise:.0%}"]
        yield f"| {' | '.join([*cells, 'helps' if bias > noise else 'may harm'])} |"


@contextmanager
def timed(title: str) -> Iterator[None]:
    """Tell what a step took."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    took = time.process_time() - cpu, time.perf_counter() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{title}: {took[0]:.1f} CPU s, {took[1]:.1f} s, peak {peak:.2f} GB", flush=True)


def cost(impressions: int) -> None:
    """What the compression and the estimators cost, and a round beside a scan."""
    with timed("simulated"):
        database = simulated(impressions, 1, 1, 1, 20_000)
    with timed("cleaned"), sm.clicks.clean(clicks_of(), database) as log:
        tables = log.tables
        kept = replace(tables, keeps_positions=True)
        step = Step(ITEM_POSITIONS, select_of(kept.stages_of("item_positions")))
        with timed("harvest, with compression"):
            estimate(tables, log.engine)
        with ExitStack() as stack:
            with timed("compressed"):
                stack.enter_context(step.created_in(log.engine))
            scan = median(_laps(lambda _: log.engine.rows(SCAN), range(30)))
        print(f"    a scan of the compressed table: {1000 * scan:.0f} CPU ms")
        for replicates in (0, 200):
            clicks = clicks_of(method="em", replicates=replicates)
            ends: list[float] = []
            with timed(f"em, with compression, {replicates} replicates"):
                estimated = estimate(
                    replace(tables, clicks=clicks),
                    log.engine,
                    lambda _, ends=ends: ends.append(time.process_time()),
                )
            lap = median(end - start for start, end in pairwise(ends))
            print(f"    {len(estimated.rounds)} rounds; {estimated.rounds[-1]}")
            print(f"    a round: {1000 * lap:.0f} CPU ms, {lap / scan:.1f} scans")


def _laps(act: Callable[[int], object], numbers: Iterable[int]) -> Iterator[float]:
    """The CPU seconds of each call."""
    for number in numbers:
        start = time.process_time()
        act(number)
        yield time.process_time() - start


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or what a large log costs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.position_bias", description=__doc__)
    parser.add_argument("--sizes", default="30_000,300_000,3_000_000", help="impressions")
    parser.add_argument("--seeds", type=int, default=3, help="logs a line")
    parser.add_argument("--cost", type=int, default=0, help="instead: of so many impressions")
    options = parser.parse_args(arguments)
    if options.cost:
        cost(options.cost)
        return
    for line in table([int(size) for size in options.sizes.split(",")], options.seeds):
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
