"""pytrec_eval: trec_eval 9.0.8 itself."""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, version_of

CUTOFFS = (1, 3, 10)
metrics = {
    "ndcg": "ndcg",
    "ap": "map",
    "mrr": "recip_rank",
    "rprec": "Rprec",
    **{f"ndcg@{k}": f"ndcg_cut_{k}" for k in CUTOFFS},
    **{f"ap@{k}": f"map_cut_{k}" for k in CUTOFFS},
    **{f"precision@{k}": f"P_{k}" for k in CUTOFFS},
    **{f"recall@{k}": f"recall_{k}" for k in CUTOFFS},
    **{f"hit@{k}": f"success_{k}" for k in CUTOFFS},
}


def version() -> str:
    return version_of("pytrec_eval", "pytrec-eval-terrier")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    tool, name = peer("pytrec_eval"), metrics[text]
    rows = tool.RelevanceEvaluator(labels, {name}).evaluate(lists)
    return {query: row[name] for query, row in rows.items()}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    values = list(per_query(lists, labels, text).values())
    return peer("pytrec_eval").compute_aggregated_measure(metrics[text], values)
