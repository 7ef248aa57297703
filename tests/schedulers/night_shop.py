"""A shop with six days of rankings, in a folder as the examples expect it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import duckdb

EXAMPLES = Path(__file__).parents[2] / "examples" / "schedulers"
FIRST = date(2026, 1, 1)
DAYS = 6
SPEC = """\
version: 1
name: search
rankings:
  relation: rankings
  columns: {query: query_id, item: sku, score: score, system: model, date: ds}
labels: {relation: judgments, columns: {query: query_id, item: sku, grade: grade}}
metrics: [ndcg@10, mrr]
output: {relation: ranking_metrics}
checks:
  - {metric: ndcg@10, min: 0.4}
"""
PROFILES = "outputs:\n  prod: {type: duckdb, path: shop.duckdb}\n"
TABLES = """
create table rankings as
select
    ds::date as ds, model, 'q' || q as query_id, 'sku-' || i as sku,
    case when model = 'new' then 1 / (1 + abs(i - q)) else 1 / i end as score
from
    (values ('old'), ('new')) as models(model), range(1, 6) as queries(q), range(1, 8) as items(i),
    (select unnest(range($first, $first + to_days($days), interval 1 day)) as ds) as days;
create table judgments as
select 'q' || q as query_id, 'sku-' || i as sku, greatest(0, 3 - abs(i - q)) as grade
from range(1, 6) as queries(q), range(1, 8) as items(i)
"""


def make(folder: Path, first: date = FIRST, days: int = DAYS) -> Path:
    """The folder with all that a job needs.

    Args:
        folder: An empty folder.
        first: The first day of the rankings.
        days: How many days there are.
    """
    (folder / "search.yml").write_text(SPEC)
    (folder / "profiles.yml").write_text(PROFILES)
    rankings, judgments = TABLES.split(";")
    with duckdb.connect(str(folder / "shop.duckdb")) as shop:
        shop.execute(rankings, {"first": first, "days": days})
        shop.execute(judgments)
    return folder


def rows_by_day(folder: Path) -> dict[date, int]:
    """Day -> its rows in the fact table: 4, of two systems and two metrics."""
    with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as shop:
        fact_table = shop.execute(
            "select 1 from duckdb_tables() where table_name = 'ranking_metrics'"
        )
        if not fact_table.fetchall():
            return {}
        query = "select metric_date, count(*) from ranking_metrics group by all order by all"
        return dict(shop.execute(query).fetchall())


def runs(folder: Path) -> list[tuple[date, date]]:
    """The ranges of the runs in their order, from the run log."""
    with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as shop:
        query = "select range_start, range_end from ranking_metrics_runs order by started_at"
        return shop.execute(query).fetchall()


def days(start: int, end: int) -> dict[date, int]:
    """What `rows_by_day` gives with the days from a number until before another."""
    return {FIRST + timedelta(day): 4 for day in range(start, end)}


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Variables of the environment, for as long as the block lasts."""
    old = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(old)
