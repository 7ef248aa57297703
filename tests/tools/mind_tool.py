"""The metrics of MIND (news recommendation), as in `deeprec_utils` of recommenders.

An impression is the rows shown: a score and a label each, 0 or 1. Equal scores come in the order
of an unstable sort, read backwards.
"""

from __future__ import annotations

from conftest import peer

from tools import Labels, Lists, Values, average, cutoff, version_of

MODULE = "recommenders.models.deeprec.deeprec_utils"
metrics = {"mrr": "mrr_score", **{f"ndcg@{k}": "ndcg_score" for k in (1, 3, 10)}}


def version() -> str:
    return version_of(MODULE, "recommenders")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """Impressions without a relevant row are left out: they are 0 / 0."""
    numpy, score = peer("numpy"), getattr(peer(MODULE), metrics[text])
    arguments = [cutoff(text)] if "@" in text else []
    values: Values = {}
    for query, scores in lists.items():
        grades = [int(labels.get(query, {}).get(str(item), 0) >= 1) for item in scores]
        if any(grades):
            predictions = numpy.array([*scores.values()])
            values[query] = float(score(numpy.array(grades), predictions, *arguments))
    return values


def mean(lists: Lists, labels: Labels, text: str) -> float:
    """`cal_metric` rounds the mean to 4 digits; this is the mean that it rounds."""
    return average(per_query(lists, labels, text))
