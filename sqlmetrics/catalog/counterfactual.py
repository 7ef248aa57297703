"""Metrics of rankings and policies that were not shown, and how they are estimated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.errors import SpecError, unknown

ESTIMATORS = ("ips", "clipped_ips", "snips", "dr")
"""How a metric is estimated; `clicks.counterfactual.estimators` has the formulas."""


@dataclass(frozen=True)
class CounterfactualMetric:
    """What is estimated: a sum over the items of a list, or a click of a policy.

    Attributes:
        name: What it is called.
        title: What it says.
        of: `lists` or `policy`.
        discount: Of lists: what an item at `rnk` counts, with {k} for the cutoff.
        cutoff: Whether a cutoff is `needed`, `optional` or `none`.
        per: What a mean is taken over: `request` or `click`; of a policy `impression`.
        estimators: Those that it has.
    """

    name: str
    title: str
    of: str
    discount: str
    cutoff: str
    per: str
    estimators: tuple[str, ...] = ESTIMATORS


METRICS: Mapping[str, CounterfactualMetric] = {
    one.name: one
    for one in (
        CounterfactualMetric(
            "dcg",
            "sum over clicked items of 1 / log2(rank + 1)",
            "lists",
            "ln(2e0) / ln(1e0 + rnk)",
            "optional",
            "request",
        ),
        CounterfactualMetric(
            "precision",
            "clicked items in the first k places, over k",
            "lists",
            "1e0 / {k}",
            "needed",
            "request",
        ),
        CounterfactualMetric(
            "recall",
            "share of the clicks that fall on the first k places",
            "lists",
            "1e0",
            "needed",
            "click",
            ("ips", "clipped_ips"),
        ),
        CounterfactualMetric(
            "sum_reciprocal_rank",
            "sum over clicked items of 1 / rank",
            "lists",
            "1e0 / rnk",
            "optional",
            "request",
        ),
        CounterfactualMetric(
            "clicks",
            "clicks that the first k places would get: each counts by the propensity of its place",
            "lists",
            "new_propensity",
            "needed",
            "request",
        ),
        CounterfactualMetric(
            "ctr", "clicked impressions over impressions", "policy", "", "none", "impression"
        ),
    )
}
"""The metrics by name."""

_FIRST = (
    "depends on which clicked item stands first, and whether an unseen one above it would have "
    "been clicked is no sum over items: propensities of positions do not tell it, those of whole "
    "lists would. Take sum_reciprocal_rank or dcg"
)
_IDEAL = (
    "divides by the best list of each request, which biased clicks do not show. Take dcg: the "
    "best lists are the same for all rankings that are compared"
)
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("mrr", "rr", "hit", "success", "hit_rate"), _FIRST),
    **dict.fromkeys(("ndcg", "map", "ap", "rprec"), _IDEAL),
}
"""Metrics that look alike -> why they cannot be estimated."""


@dataclass(frozen=True)
class CounterfactualMeasure:
    """A metric as asked for.

    Attributes:
        metric: Which.
        k: Its cutoff, None for whole lists.
    """

    metric: CounterfactualMetric
    k: int | None = None

    def __str__(self) -> str:
        return at_cutoff(self.metric.name, self.k)

    @property
    def column(self) -> str:
        """The name of its columns."""
        return self.metric.name + (f"_at_{self.k}" if self.k else "")


def counterfactual_metric(text: str) -> CounterfactualMeasure:
    """A metric of its text, like `dcg@10`.

    Raises:
        SpecError: If there is none of that name, it cannot be estimated, or it takes no such
            cutoff.

    >>> str(counterfactual_metric("DCG @ 5"))
    'dcg@5'
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:@\s*(\d{1,9}))?\s*", text.casefold())
    name = match[1] if match else text
    if name in REFUSED:
        raise SpecError(f"counterfactual metric {text!r}: {name} {REFUSED[name]}")
    if match is None or name not in METRICS:
        raise SpecError(unknown("counterfactual metric", name, METRICS))
    metric, k = METRICS[name], int(match[2]) if match[2] else None
    if k == 0 or (k is not None and metric.cutoff == "none"):
        raise SpecError(f"counterfactual metric {text!r}: {name} takes no such cutoff")
    if k is None and metric.cutoff == "needed":
        raise SpecError(f"counterfactual metric {text!r}: {name} needs a cutoff, like {name}@10")
    return CounterfactualMeasure(metric, k)
