"""scikit-learn: a row a list, with the items of the list alone. It averages over tied orders."""

from __future__ import annotations

import math

from conftest import peer

from tools import Labels, Lists, Values, average, version_of

CUTOFFS = (1, 3, 10)
Call = tuple[str, dict[str, float]]
metrics: dict[str, Call] = {
    "ndcg": ("ndcg_score", {}),
    "dcg": ("dcg_score", {}),
    **{f"ndcg@{k}": ("ndcg_score", {"k": k}) for k in CUTOFFS},
    **{f"dcg@{k}": ("dcg_score", {"k": k}) for k in CUTOFFS},
    **{f"dcg(discount=ln)@{k}": ("dcg_score", {"k": k, "log_base": math.e}) for k in CUTOFFS},
}


def version() -> str:
    return version_of("sklearn.metrics", "scikit-learn")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """Lists of one item are left out: scikit-learn refuses them."""
    function, arguments = metrics[text]
    score = getattr(peer("sklearn.metrics"), function)
    return {
        query: float(
            score(
                [[labels.get(query, {}).get(str(item), 0) for item in scores]],
                [[*scores.values()]],
                **arguments,
            )
        )
        for query, scores in lists.items()
        if len(scores) > 1
    }


def mean(lists: Lists, labels: Labels, text: str) -> float:
    """Rows of one matrix must be equally long, so the mean over lists is the caller's."""
    return average(per_query(lists, labels, text))
