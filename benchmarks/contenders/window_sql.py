"""What a good analyst writes: a window over the rows as they are, a join, a group by."""

from __future__ import annotations

import duckdb

from benchmarks.contenders import METRICS, THREADS
from benchmarks.data import Shape

SQL = """
with

ranked as (
    select *, row_number() over (partition by {list} order by {order}) as rnk
    from read_parquet($rankings)
),

judged as (
    select
        ranked.*,
        coalesce(labels.grade, 0) as grade,
        coalesce(labels.grade, 0) / log2(rnk + 1) as gain,
        coalesce(labels.grade >= 1, false) as hit
    from ranked
    left join read_parquet($labels) as labels using (query_id, item_id)
),

counted as (
    select *, count(*) filter (hit) over (partition by {list} order by rnk) as hits
    from judged
),

found as (
    select
        {list},
        coalesce(sum(gain) filter (rnk <= 10), 0) as dcg_10,
        coalesce(sum(gain) filter (rnk <= 100), 0) as dcg_100,
        count(*) filter (hit and rnk <= 10) as hits_10,
        count(*) filter (hit and rnk <= 100) as hits_100,
        min(rnk) filter (hit) as first,
        coalesce(sum(hits / rnk) filter (hit), 0) as precisions
    from counted
    group by {list}
),

ideal as (
    select *, row_number() over (partition by query_id order by grade desc) as rnk
    from read_parquet($labels)
),

wanted as (
    select
        query_id,
        sum(grade / log2(rnk + 1)) filter (rnk <= 10) as idcg_10,
        sum(grade / log2(rnk + 1)) filter (rnk <= 100) as idcg_100,
        count(*) filter (grade >= 1) as relevant
    from ideal
    group by query_id
)

select
    avg(dcg_10 / idcg_10),
    avg(dcg_100 / idcg_100),
    avg(hits_100 / relevant),
    avg(hits_10 / 10),
    avg(coalesce(1 / first, 0)),
    avg(precisions / relevant)
from found
inner join wanted using (query_id)
"""


def means(rankings: str, labels: str, shape: Shape) -> dict[str, float]:
    """The mean of each metric, over all lists of all systems."""
    connection = duckdb.connect(config={"threads": THREADS})
    sql = SQL.format(
        list="system, query_id" if shape.systems > 1 else "query_id",
        order="score desc, item_id desc" if shape.tied else "score desc",
    )
    row = connection.execute(sql, {"rankings": rankings, "labels": labels}).fetchall()[0]
    return dict(zip(METRICS, row, strict=True))
