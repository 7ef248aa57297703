"""ir_measures: what it takes from pytrec_eval, in its own notation."""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, version_of

CUTOFFS = (1, 3, 10)
PROVIDER = "pytrec_eval"
metrics = {
    "ndcg": "nDCG",
    "ap": "AP",
    "mrr": "RR",
    "rprec": "Rprec",
    **{f"ndcg@{k}": f"nDCG@{k}" for k in CUTOFFS},
    **{f"ap@{k}": f"AP@{k}" for k in CUTOFFS},
    **{f"precision@{k}": f"P@{k}" for k in CUTOFFS},
    **{f"recall@{k}": f"R@{k}" for k in CUTOFFS},
    **{f"hit@{k}": f"Success@{k}" for k in CUTOFFS},
}


def version() -> str:
    return version_of("ir_measures", "ir-measures")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    return by(PROVIDER, lists, labels, metrics[text])[0]


def mean(lists: Lists, labels: Labels, text: str) -> float:
    return by(PROVIDER, lists, labels, metrics[text])[1]


def by(provider: str, lists: Lists, labels: Labels, name: str) -> tuple[Values, float]:
    """The values of a measure, and their mean, from a provider of ir_measures."""
    tool = peer("ir_measures")
    measure = tool.parse_measure(name)
    results = tool.providers.registry[provider].calc([measure], labels, lists)
    values = {row.query_id: row.value for row in results.per_query}
    return values, results.aggregated[measure]
