"""40 numbers that people get from SQL of their own, each with what they call it and what it is.

Two tables: `runs` (query_id, item_id, score, country) and `truth` (query_id, item_id, grade). The
queries are as analysts write them; what is wrong with one, or which metric it is in truth, stands
beside it as what `reconcile` should say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Written:
    """A query by hand.

    Attributes:
        called: The metric as its author calls it.
        sql: The query.
        is_mistake: The known mistakes that it makes; one of them is to be named.
        is_metric: The metrics that it is in truth; one of them is to be named.
        departs: The conventions in which it may depart, with their values; one is to be named.
        printed: How the number is printed, as a format.
        is_right: Whether it is the metric that it is called, by common conventions.
    """

    called: str
    sql: str
    is_mistake: tuple[str, ...] = ()
    is_metric: tuple[str, ...] = ()
    departs: tuple[str, ...] = ()
    printed: str = "{:.4f}"
    is_right: bool = False


_RANKED = """
with ranked as (
    select query_id, item_id, country,
        {window}() over (partition by query_id order by score {order}) as rank
    from runs
),
judged as (
    select r.query_id, r.country, r.rank, coalesce(t.grade, 0) as grade, t.grade as given
    from ranked r left join truth t on t.query_id = r.query_id and t.item_id = r.item_id
),
good as (select query_id, count(*) as n from truth where grade >= {rel} group by query_id),
asked as (select distinct query_id from truth)
"""


def ranked_query(
    last: str, *, window: str = "row_number", order: str = "desc", rel: int = 1
) -> str:
    """A query over the ranked items, the good ones by query, and the queries that have labels."""
    by = f"{order}, item_id" if window == "row_number" else order
    return _RANKED.format(window=window, order=by, rel=rel) + last


def precision_query(k: int) -> str:
    """The right precision."""
    return ranked_query(
        f"select avg(coalesce(n, 0) / {k}.0) from asked left join (select query_id, count(*) as n "
        f"from judged where grade >= 1 and rank <= {k} group by 1) using (query_id)"
    )


def recall_query(k: int, *, rel: int = 1) -> str:
    """The right recall."""
    return ranked_query(
        f"select avg(coalesce(h.n, 0) / good.n) from good left join (select query_id, count(*) "
        f"as n from judged where grade >= {rel} and rank <= {k} group by 1) h using (query_id)",
        rel=rel,
    )


def hit_query(k: int) -> str:
    """The right hit."""
    return ranked_query(
        "select avg(case when h.query_id is null then 0 else 1 end) from good left join (select "
        f"distinct query_id from judged where grade >= 1 and rank <= {k}) h using (query_id)"
    )


def mrr_query(k: int, source: str = "good left join") -> str:
    """The right reciprocal rank, over the queries of a source."""
    return ranked_query(
        f"select avg(coalesce(rr, 0)) from {source} (select query_id, 1.0 / min(rank) as rr "
        f"from judged where grade >= 1 and rank <= {k} group by 1) using (query_id)"
    )


def ndcg_query(
    top: str = "(power(2, grade) - 1) / log2(rank + 1)",
    bottom: str = "",
    *,
    k: str = "rank <= 10",
    ideal_k: str = "",
    join: str = "left join",
    mean: str = "avg(coalesce(dcg, 0) / idcg)",
    window: str = "row_number",
    order: str = "desc",
    tail: str = "where idcg > 0",
) -> str:
    """NDCG@10, right by default, and wrong by what is given."""
    return ranked_query(
        f""",
dcgs as (select query_id, any_value(country) as country, sum({top}) as dcg
    from judged where {k} group by query_id),
ideals as (select query_id, sum({bottom or top}) as idcg from (
    select query_id, grade, row_number() over (partition by query_id order by grade desc) as rank
    from truth) where {ideal_k or k} group by query_id)
select {mean} from ideals {join} dcgs using (query_id) {tail}""",
        window=window,
        order=order,
    )


AP = """
, hits as (
    select query_id, rank, row_number() over (partition by query_id order by rank) as place
    from judged where grade >= 1 {cut}
),
aps as (select query_id, sum(place / rank) as total, count(*) as found from hits group by query_id)
"""

BINARY = "(case when grade >= 1 then 1 else 0 end) / log2(rank + 1)"

QUERIES: Mapping[str, Written] = {
    "P@15 called P@10": Written("precision@10", precision_query(15), is_metric=("precision@15",)),
    "P@5 called P@10": Written("precision@10", precision_query(5), is_metric=("precision@5",)),
    "R@20 called R@10": Written("recall@10", recall_query(20), is_metric=("recall@20",)),
    "rank < 10 in NDCG": Written("ndcg@10", ndcg_query(k="rank < 10"), is_metric=("ndcg@9",)),
    "NDCG@5 called NDCG": Written("ndcg", ndcg_query(k="rank <= 5"), is_metric=("ndcg@5",)),
    "precision called recall": Written(
        "recall@10", precision_query(10), is_metric=("precision@10",)
    ),
    "recall called precision": Written("precision@10", recall_query(10), is_metric=("recall@10",)),
    "MRR cut at 10": Written("mrr", mrr_query(10), is_metric=("mrr@10",)),
    "MRR@10 that is not cut": Written("mrr@10", mrr_query(1000), is_metric=("mrr",)),
    "hit called recall": Written("recall@5", hit_query(5), is_metric=("hit@5",)),
    "recall called hit": Written("hit@5", recall_query(5), is_metric=("recall@5",)),
    "hit@1 called hit@5": Written(
        "hit@5", hit_query(1), is_metric=("hit@1", "precision@1", "mrr@1")
    ),
    "DCG called NDCG": Written(
        "ndcg@10",
        ndcg_query(mean="avg(coalesce(dcg, 0))"),
        is_metric=("dcg(gain=exp)@10", "dcg@10"),
    ),
    "NDCG called DCG": Written("dcg@10", ndcg_query(), is_metric=("ndcg(gain=exp)@10", "ndcg@10")),
    "MRR called MAP": Written("ap", mrr_query(1000), is_metric=("mrr",)),
    "one share of all hits": Written(
        "precision@10",
        ranked_query("select sum((grade >= 1)::int) / count(*) from judged where rank <= 10"),
        is_metric=("precision(average=micro)@10",),
        departs=("average=micro",),
    ),
    "recall of all labels together": Written(
        "recall@10",
        ranked_query(
            "select (select count(*) from judged where grade >= 1 and rank <= 10)"
            " / (select sum(n) from good)"
        ),
        is_metric=("recall(average=micro)@10",),
        departs=("average=micro",),
    ),
    "a percentage": Written(
        "ndcg@10",
        ndcg_query(mean="100 * avg(coalesce(dcg, 0) / idcg)"),
        printed="{:.2f}",
        departs=("percent",),
    ),
    "cut, not rounded": Written(
        "ndcg@10", ndcg_query(mean="trunc(avg(coalesce(dcg, 0) / idcg), 4)"), departs=("cut",)
    ),
    "rounded in the query": Written(
        "ndcg@10",
        ndcg_query(mean="avg(round(coalesce(dcg, 0) / idcg, 2))"),
        departs=("rounding=2",),
    ),
    "worst first": Written("ndcg@10", ndcg_query(order="asc"), is_mistake=("worst_first",)),
    "worst first in MRR": Written(
        "mrr",
        ranked_query(
            "select avg(coalesce(rr, 0)) from good left join (select query_id, 1.0 / min(rank) "
            "as rr from judged where grade >= 1 group by 1) using (query_id)",
            order="asc",
        ),
        is_mistake=("worst_first",),
    ),
    "rank() in NDCG": Written("ndcg@10", ndcg_query(window="rank"), is_mistake=("shared_ranks",)),
    "dense_rank() in NDCG": Written(
        "ndcg@10", ndcg_query(window="dense_rank"), is_mistake=("dense_ranks",)
    ),
    "log2(rank + 2) in DCG alone": Written(
        "ndcg@10",
        ndcg_query(
            "(power(2, grade) - 1) / log2(rank + 2)", "(power(2, grade) - 1) / log2(rank + 1)"
        ),
        is_mistake=("rank_from_0_in_dcg",),
    ),
    "recall doubled by a join": Written(
        "recall@10",
        ranked_query(
            "select avg(coalesce(h.n, 0) / good.n) from good left join (select j.query_id, "
            "count(*) as n from judged j join (values (1), (2)) twice(i) on true "
            "where j.grade >= 1 and j.rank <= 10 group by 1) h using (query_id)"
        ),
        is_mistake=("doubled",),
    ),
    "ideal of the shown top 10": Written(
        "ndcg@10",
        ranked_query(
            """select avg(dcg / nullif(idcg, 0)) from (
    select query_id, sum((power(2, grade) - 1) / log2(rank + 1)) as dcg,
        sum((power(2, grade) - 1) / log2(best + 1)) as idcg
    from (select *, row_number() over (partition by query_id order by grade desc) as best
        from judged where rank <= 10) group by query_id)"""
        ),
        is_mistake=("ideal_of_top",),
    ),
    "ideal not cut": Written("ndcg@10", ndcg_query(ideal_k="true"), departs=("ideal=labels",)),
    "AP over the hits": Written(
        "ap",
        ranked_query(AP.format(cut="") + "select avg(total / found) from aps"),
        is_mistake=("ap_over_hits",),
        departs=("ap_denominator=hits",),
    ),
    "AP@10 over min(k, R)": Written(
        "ap@10",
        ranked_query(
            AP.format(cut="and rank <= 10")
            + "select avg(coalesce(total, 0) / least(10, n)) from good "
            "left join aps using (query_id)"
        ),
        is_right=True,
        departs=("ap_denominator=min_k_r",),
    ),
    "first ranks of hits alone": Written(
        "mrr",
        mrr_query(1000, "good join"),
        is_mistake=("hitless_dropped",),
        departs=("average_over=hits",),
    ),
    "items without a label fall out": Written(
        "ndcg@10",
        ndcg_query().replace(
            "from runs\n",
            "from runs where (query_id, item_id) in (select (query_id, item_id) from truth)\n",
        ),
        is_mistake=("ranked_after_join",),
        departs=("unjudged=condensed",),
    ),
    "queries without a list fall out": Written(
        "ndcg@10",
        ndcg_query(join="join"),
        is_mistake=("missing_dropped",),
        departs=("missing=drop",),
    ),
    "precision of what was returned": Written(
        "precision@10",
        ranked_query(
            "select avg(coalesce(p, 0)) from asked left join (select query_id, "
            "avg((grade >= 1)::int) as p from judged where rank <= 10 group by 1) using (query_id)"
        ),
        is_mistake=("divided_by_returned",),
        departs=("precision_denominator=returned",),
    ),
    "relevant from 2": Written("recall@10", recall_query(10, rel=2), departs=("rel=2",)),
    "binary gains": Written("ndcg@10", ndcg_query(BINARY), is_right=True, departs=("gain=binary",)),
    "a mean of countries": Written(
        "ndcg@10",
        ndcg_query(
            mean="country, avg(coalesce(dcg, 0) / idcg) as mean",
            join="join",
            tail="where idcg > 0 group by country",
        ).replace("select country, avg", "select avg(mean) from (select country, avg")
        + ")",
        is_mistake=("averaged_averages",),
    ),
    "DCG with the natural logarithm": Written(
        "dcg@10",
        ndcg_query("(power(2, grade) - 1) / ln(rank + 1)", mean="avg(coalesce(dcg, 0))", tail=""),
        departs=("discount=ln",),
    ),
    "all labels are relevant": Written(
        "recall@10",
        recall_query(10).replace(
            "where grade >= 1 group by query_id),\nasked", "group by query_id),\nasked"
        ),
        is_mistake=("grade_0_in_recall",),
    ),
    "F1 of the means": Written(
        "f1@10",
        f"select 2 * p * r / (p + r) from (select ({precision_query(10)}) as p, "
        f"({recall_query(10)}) as r)",
        is_mistake=("f1_of_means",),
    ),
}
"""What went wrong -> the query."""
