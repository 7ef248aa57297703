"""A job: days of metrics in a table, done in pieces, and what a dashboard asks of it.

Run it with `python examples/jobs.py`.
"""

import duckdb

import sqlmetrics as sm

TABLES = """
create table rankings as
select
    date '2026-03-01' + day::int as ds, 'v' || version as model, 'q' || query as query_id,
    'i' || item as item_id, hash(day, version, query, item) % 100 / 10.0 + item * version as score
from range(7) as a(day), range(1, 3) as b(version), range(50) as c(query), range(20) as d(item);
create table labels as
select 'q' || query as query_id, 'i' || item as item_id, item // 6 as grade
from range(50) as a(query), range(20) as b(item);
"""
DASHBOARD = """
select
    system,
    sum(ndcg_at_10_numerator) / sum(ndcg_at_10_denominator) as ndcg_at_10,
    count(*) as days,
    sum(ndcg_at_10_denominator) as queries
from ranking_metrics_wide
where segment_name = 'all' and metric_date >= date '2026-03-03'
group by all
order by all
"""


def main() -> None:
    """Do two days, then what is missing, then the last day again."""
    spec = sm.Spec(
        name="search",
        rankings={
            "relation": "rankings",
            "columns": {"score": "score", "system": "model", "date": "ds"},
        },
        labels={"relation": "labels"},
        metrics=["ndcg@10", "recall@10", "mrr"],
        output={"relation": "ranking_metrics", "per_query": "ranking_metrics_per_query"},
    )
    with duckdb.connect() as connection:
        connection.execute(TABLES)
        sm.run(spec, connection, start="2026-03-02", end="2026-03-04")
        for report in sm.run(spec, connection, backfill=True, lookback=1):
            print(report)
        print(connection.sql(DASHBOARD))


if __name__ == "__main__":
    main()
