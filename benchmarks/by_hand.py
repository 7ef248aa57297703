"""The query by hand: what a careful analyst writes for six metrics, on any database with windows.

It numbers the items of each list by their scores, joins the labels, counts the relevant items down
each list, and sums; the ideal order is the labels of a query numbered by their grades. Linear gain,
an item without a label is worth nothing, a labelled query without a list has zeros.
"""

from __future__ import annotations

from collections.abc import Mapping

SQL = """
with

ranked as (
    select
        query_id,
        item_id,
        row_number() over (partition by query_id order by score desc) as rnk
    from {rankings} as rankings
),

judged as (
    select
        ranked.query_id,
        ranked.rnk,
        coalesce(labels.grade, 0) as grade,
        case when labels.grade >= 1 then 1 else 0 end as hit
    from ranked
    left join {labels} as labels
        on labels.query_id = ranked.query_id
            and labels.item_id = ranked.item_id
),

counted as (
    select
        query_id,
        rnk,
        hit,
        grade / (ln(rnk + 1) / ln(2)) as gain,
        sum(hit) over (
            partition by query_id order by rnk rows unbounded preceding
        ) as hits
    from judged
),

found as (
    select
        query_id,
        sum(case when rnk <= 10 then gain else 0 end) as dcg_10,
        sum(case when rnk <= 100 then gain else 0 end) as dcg_100,
        sum(case when rnk <= 10 then hit else 0 end) as hits_10,
        sum(case when rnk <= 100 then hit else 0 end) as hits_100,
        min(case when hit = 1 then rnk end) as first_hit,
        sum(case when hit = 1 then cast(hits as {double}) / rnk else 0 end) as precisions
    from counted
    group by query_id
),

ideal as (
    select
        query_id,
        grade,
        row_number() over (partition by query_id order by grade desc) as rnk
    from {labels} as labels
),

wanted as (
    select
        query_id,
        sum(case when rnk <= 10 then grade / (ln(rnk + 1) / ln(2)) else 0 end) as idcg_10,
        sum(case when rnk <= 100 then grade / (ln(rnk + 1) / ln(2)) else 0 end) as idcg_100,
        sum(case when grade >= 1 then 1 else 0 end) as relevant
    from ideal
    group by query_id
)

select
    avg(coalesce(found.dcg_10, 0) / wanted.idcg_10) as ndcg_10,
    avg(coalesce(found.dcg_100, 0) / wanted.idcg_100) as ndcg_100,
    avg(cast(coalesce(found.hits_100, 0) as {double}) / wanted.relevant) as recall_100,
    avg(cast(coalesce(found.hits_10, 0) as {double}) / 10) as precision_10,
    avg(coalesce(cast(1 as {double}) / found.first_hit, 0)) as mrr,
    avg(coalesce(found.precisions, 0) / wanted.relevant) as ap
from wanted
left join found
    on found.query_id = wanted.query_id
"""
"""One row: the means of `contenders.METRICS`, in their order."""

DOUBLES: Mapping[str, str] = {"postgres": "double precision"}
"""Dialect -> its word for a float of 64 bits, where that is not `double`."""


def sql(dialect: str, rankings: str = "rankings", labels: str = "labels") -> str:
    """The query as text of a dialect, over two tables, or queries in brackets."""
    double = DOUBLES.get(dialect, "double")
    return SQL.format(double=double, rankings=rankings, labels=labels)
