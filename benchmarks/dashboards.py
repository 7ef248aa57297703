"""Queries of a dashboard on a large fact table: `python -m benchmarks.dashboards FILE`.

3 years x 5 systems x 51 segments x 40 metrics are 11 M rows, made in FILE unless it is there.
Each query runs five times; told are its rows and the median of the seconds, and a bare scan of
two columns of the table, to know the machine by.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import duckdb

from sqlmetrics import Spec
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.changes import changes
from sqlmetrics.jobs.schema import FACTS
from sqlmetrics.jobs.views import make_views, view_statements
from sqlmetrics.tables.table import Table

SYSTEMS, SEGMENTS = 5, 51
NAMES = ("ndcg", "recall", "precision", "hit", "mrr", "ap", "f1", "err")
SPEC = Spec(
    name="shop",
    rankings={
        "relation": "r",
        "columns": {"score": "score", "system": "system", "date": "ds"},
    },
    labels={"relation": "l"},
    metrics=[f"{name}@{k}" for name in NAMES for k in (1, 3, 5, 10, 20)],
    output={"relation": "ranking_metrics"},
)
FILLED = [*FACTS][: [*FACTS].index("ci_method")]
"""The columns of an estimate stay empty."""
FILL = f"""
insert into ranking_metrics ({", ".join(FILLED)})
select
    'shop', date '2024-01-01' + day::int, 's' || system,
    case when segment = 0 then 'all' else 'country' end,
    case when segment = 0 then 'all' else 'c' || segment end,
    metric, k, mean, mean * 1000, 1000, 1000, 3, 1, mean * 1000, null, null, hash, 'run',
    timestamp '2027-01-01'
from (
    select *, hash(day, system, segment, metric, k) % 1000 / 1000.0 as mean
    from range($days) as a(day), range($systems) as b(system), range($segments) as c(segment),
        metrics
)
order by day
"""
SINGLE_METRIC = "segment_name = 'all' and metric = 'ndcg' and k = 10"
QUERIES = {
    "a bare scan of two columns": "select sum(numerator), sum(k) from ranking_metrics",
    "a metric by day and system, a quarter": "select metric_date, system, value from "
    f"ranking_metrics where {SINGLE_METRIC} and metric_date >= date '2026-10-01' order by all",
    "a metric by month and system, all days": "select date_trunc('month', metric_date), system, "
    f"sum(numerator) / sum(denominator) from ranking_metrics where {SINGLE_METRIC} group by all",
    "wide, the last 30 days": "select * from ranking_metrics_wide where "
    "metric_date >= date '2026-12-01' and segment_name = 'all'",
    "wide, a month by segment": "select segment_value, sum(ndcg_at_10_numerator) / "
    "sum(ndcg_at_10_denominator) from ranking_metrics_wide where "
    "metric_date >= date '2026-12-01' and segment_name = 'country' group by all",
    "latest": "select * from ranking_metrics_latest where segment_name = 'all'",
    "daily change, a week": "select * from ranking_metrics_daily_change where "
    "metric_date >= date '2026-12-24' and segment_name = 'all'",
    "all days together": f"select * from ranking_metrics_rollup where {SINGLE_METRIC}",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the table, and time the queries."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboards", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--days", type=int, default=1_096, help="of a new table")
    options = parser.parse_args(arguments)
    is_new = not options.file.exists()
    with duckdb.connect(options.file) as connection:
        with connect(connection) as engine:
            changes(SPEC, engine).carry_out(engine)
            if is_new:
                _fill(connection, options.days)
            make_views(SPEC, engine, view_statements(SPEC, engine, every=True))
        rows = [[name, *_timed(connection, query)] for name, query in QUERIES.items()]
    print(Table(["query", "rows", "seconds"], rows, 1).text())


def _fill(connection: duckdb.DuckDBPyConnection, days: int) -> None:
    connection.execute("create temporary table metrics (metric varchar, k integer, hash varchar)")
    metrics = [
        (measure.name, measure.k, SPEC.definition_hash(measure)) for measure in SPEC.measures
    ]
    connection.executemany("insert into metrics values (?, ?, ?)", metrics)
    connection.execute(FILL, {"days": days, "systems": SYSTEMS, "segments": SEGMENTS})


def _timed(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[str, str]:
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        rows = connection.execute(query).fetchall()
        seconds.append(time.perf_counter() - began)
    return f"{len(rows):,}", f"{median(seconds):.3f}"


if __name__ == "__main__":
    main()
