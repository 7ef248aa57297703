"""40 more numbers of hand-written SQL, written before `reconcile` was asked for any of them.

Some are of mistakes that it does not know. Tables and fields are those of `hand_written`.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.hand_written import (
    AP,
    BINARY,
    Written,
    hit_query,
    mrr_query,
    ndcg_query,
    precision_query,
    ranked_query,
    recall_query,
)

_EXP = "(power(2, grade) - 1)"
_MEDIAN = "median(coalesce(dcg, 0) / idcg)"


def _of_hits(value: str, source: str = "good left join", window: str = "row_number") -> str:
    """A value of the ranks of a query's hits, 0 where there is none, and its mean."""
    return ranked_query(
        f"select avg(coalesce(v, 0)) from {source} (select query_id, {value} as v from judged "
        "where grade >= 1 group by 1) using (query_id)",
        window=window,
    )


MORE_QUERIES: Mapping[str, Written] = {
    "median of NDCG": Written(
        "ndcg@10", ndcg_query(mean=_MEDIAN), is_mistake=("median_of_queries",)
    ),
    "median of MRR": Written(
        "mrr",
        mrr_query(1000).replace("avg(", "median("),
        is_mistake=("median_of_queries",),
    ),
    "median of recall": Written(
        "recall@10",
        recall_query(10).replace("select avg(", "select median("),
        is_mistake=("median_of_queries",),
    ),
    "sum of recall": Written(
        "recall@10",
        recall_query(10).replace("select avg(", "select sum("),
        is_mistake=("sum_of_queries",),
    ),
    "sum of NDCG": Written(
        "ndcg@5",
        ndcg_query(k="rank <= 5", mean="sum(coalesce(dcg, 0) / idcg)"),
        is_mistake=("sum_of_queries",),
    ),
    "1 - precision": Written(
        "precision@10",
        precision_query(10).replace("select avg(", "select 1 - avg("),
        is_mistake=("one_minus_it",),
    ),
    "1 - NDCG as a loss": Written(
        "ndcg@5",
        ndcg_query(k="rank <= 5", mean="avg(1 - coalesce(dcg, 0) / idcg)"),
        is_mistake=("one_minus_it",),
    ),
    "root of the rank": Written(
        "ndcg@10", ndcg_query(f"{_EXP} / sqrt(rank)"), is_mistake=("sqrt_of_rank",)
    ),
    "root of the rank in DCG": Written(
        "dcg@10",
        ndcg_query("grade / sqrt(rank)", mean="avg(coalesce(dcg, 0))", tail=""),
        is_mistake=("sqrt_of_rank",),
    ),
    "1 + log2(rank)": Written(
        "ndcg@10", ndcg_query(f"{_EXP} / (1 + log2(rank))"), is_mistake=("one_more_than_log2",)
    ),
    "last hit in MRR": Written("mrr", _of_hits("1.0 / max(rank)"), is_mistake=("last_hit",)),
    "mean rank in MRR": Written("mrr", _of_hits("1.0 / avg(rank)"), is_mistake=("mean_hit",)),
    "1 / the mean of first ranks": Written(
        "mrr",
        ranked_query(
            "select 1 / avg(f) from (select min(rank) as f from judged where grade >= 1 "
            "group by query_id)"
        ),
        is_mistake=("mrr_of_mean_rank",),
    ),
    "precisions at every rank": Written(
        "ap@10",
        ranked_query(
            "select avg(coalesce(v, 0)) from good left join (select query_id, sum(p) / 10 as v "
            "from (select query_id, rank, sum((grade >= 1)::int) over (partition by query_id "
            "order by rank) / rank as p from judged) where rank <= 10 group by 1) using (query_id)"
        ),
        is_mistake=("precision_at_every_rank",),
    ),
    "AP@10 over 10": Written(
        "ap@10",
        ranked_query(
            AP.format(cut="and rank <= 10")
            + "select avg(coalesce(total, 0) / 10) from good left join aps using (query_id)"
        ),
        departs=("ap_denominator=k",),
    ),
    "sum of DCG / sum of IDCG": Written(
        "ndcg@10",
        ndcg_query(mean="sum(coalesce(dcg, 0)) / sum(idcg)"),
        departs=("average=micro",),
    ),
    "recall of what the list has": Written(
        "recall@5",
        ranked_query(
            "select avg(n / total) from (select query_id, count(*) as total, "
            "count(*) filter (rank <= 5) as n from judged where grade >= 1 group by 1)"
        ),
        is_mistake=("recall_of_shown", "hitless_dropped"),
        departs=("recall_denominator=shown",),
    ),
    "rank < 10 in precision": Written(
        "precision@10",
        precision_query(10).replace("rank <= 10", "rank < 10"),
        is_mistake=("rank_below_k",),
    ),
    "rank < 10 in recall": Written(
        "recall@10",
        recall_query(10).replace("rank <= 10", "rank < 10"),
        is_metric=("recall@9",),
    ),
    "MRR over all labelled queries": Written(
        "mrr", _of_hits("1.0 / min(rank)", "asked left join"), is_right=True
    ),
    "2^grade without - 1": Written(
        "ndcg@10", ndcg_query("power(2, grade) / log2(rank + 1)"), is_mistake=("gain_of_grade_0",)
    ),
    "grade / rank": Written(
        "dcg@10",
        ndcg_query("grade / rank", mean="avg(coalesce(dcg, 0))", tail=""),
        departs=("discount=reciprocal",),
    ),
    "hit of queries with a list": Written(
        "hit@5",
        hit_query(5).replace("good left join", "(select distinct query_id from runs) r left join"),
        departs=("average_over=rankings", "average_over=common", "missing=drop"),
        is_right=True,
    ),
    "precision over judged items": Written(
        "precision@10",
        ranked_query(
            "select avg(p) from (select query_id, avg((grade >= 1)::int) as p from judged "
            "where rank <= 10 and given is not null group by 1)"
        ),
        is_mistake=("divided_by_judged",),
    ),
    "hits of 2, relevant of 1": Written(
        "recall@10",
        recall_query(10).replace("where grade >= 1 and rank", "where grade >= 2 and rank"),
        is_mistake=("other_rel_in_hits",),
    ),
    "rank() in MRR": Written(
        "mrr", _of_hits("1.0 / min(rank)", window="rank"), departs=("ties=best",)
    ),
    "a percentage of recall": Written(
        "recall@10",
        recall_query(10).replace("select avg(", "select 100 * avg("),
        printed="{:.2f}",
        departs=("percent",),
    ),
    "all queries of both tables": Written(
        "hit@10",
        hit_query(10).replace(
            "from good left join",
            "from (select query_id from runs union select query_id from truth) a left join",
        ),
        departs=("average_over=either",),
        is_right=True,
    ),
    "ideal of five": Written(
        "ndcg@10", ndcg_query(ideal_k="rank <= 5"), is_mistake=("ideal_capped_at_5",)
    ),
    "log() is log10": Written(
        "dcg@10",
        ndcg_query(f"{_EXP} / log(rank + 1)", mean="avg(coalesce(dcg, 0))", tail=""),
        is_mistake=("log10",),
    ),
    "precision at R": Written(
        "precision@10",
        ranked_query(
            "select avg(coalesce(h, 0)) from good left join (select query_id, count(*) / any_value"
            "(n) as h from judged join good using (query_id) where grade >= 1 and rank <= n "
            "group by 1) using (query_id)"
        ),
        is_metric=("rprec",),
    ),
    "1 / (rank + 1) in MRR": Written(
        "mrr", _of_hits("1.0 / (min(rank) + 1)"), is_mistake=("rank_from_0_in_mrr",)
    ),
    "log2(rank + 2) in both": Written(
        "ndcg@10", ndcg_query(f"{_EXP} / log2(rank + 2)"), is_mistake=("rank_from_0",)
    ),
    "grades over 2^grade - 1": Written(
        "ndcg@10",
        ndcg_query("grade / log2(rank + 1)", f"{_EXP} / log2(rank + 1)"),
        is_mistake=("linear_over_exp",),
    ),
    "queries without a hit fall out of recall": Written(
        "recall@10",
        recall_query(10).replace("good left join", "good join"),
        is_mistake=("hitless_dropped",),
        departs=("average_over=hits",),
    ),
    "share of the grades": Written(
        "recall@10",
        ranked_query(
            "select avg(coalesce(s, 0) / total) from (select query_id, sum(grade) as total from "
            "truth group by 1 having sum(grade) > 0) left join (select query_id, sum(grade) as s "
            "from judged where rank <= 10 group by 1) using (query_id)"
        ),
        is_mistake=("recall_of_grades",),
    ),
    "MAP called MRR": Written(
        "mrr",
        ranked_query(
            AP.format(cut="")
            + "select avg(coalesce(total, 0) / n) from good left join aps using (query_id)"
        ),
        is_metric=("ap",),
    ),
    "a mean of countries in MRR": Written(
        "mrr",
        ranked_query(
            "select avg(m) from (select country, avg(rr) as m from (select query_id, "
            "any_value(country) as country, coalesce(max(case when grade >= 1 then 1.0 / rank "
            "end), 0) as rr from judged join good using (query_id) group by 1) group by 1)"
        ),
        is_mistake=("averaged_averages",),
    ),
    "geometric mean of AP": Written(
        "ap",
        ranked_query(
            AP.format(cut="") + "select exp(avg(ln(greatest(coalesce(total, 0) / n, 0.00001)))) "
            "from good left join aps using (query_id)"
        ),
        is_mistake=("geometric_mean",),
    ),
    "binary gains, ideal of 10": Written(
        "ndcg@10",
        ndcg_query(
            BINARY,
            mean="avg(coalesce(dcg, 0) / (select sum(1 / log2(i + 1)) from range(1, 11) t(i)))",
        ),
        is_mistake=("ideal_of_k",),
        departs=("ideal=all_k",),
    ),
}
"""What went wrong -> the query."""
