"""Metrics of rankings and policies that were not shown, and how they are estimated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlmetrics.catalog.metric import at_cutoff, column_at_cutoff
from sqlmetrics.errors import SpecError, unknown

ESTIMATORS = ("ips", "clipped_ips", "snips", "dr")
"""How a metric is estimated; `clicks.counterfactual.lists` and `.policy` have the formulas."""


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
        unit: Of its values.
        weighs_lists: Whether whole lists are weighed, by `list_propensity_score`, and not their
            items.
    """

    name: str
    title: str
    of: str
    discount: str
    cutoff: str
    per: str
    estimators: tuple[str, ...] = ESTIMATORS
    unit: str = ""
    weighs_lists: bool = False
    better = "higher"
    count = False

    @property
    def label(self) -> str:
        """Its title for people, in a few words."""
        words = self.name.replace("_", " ")
        return f"Counterfactual {words.upper() if len(words) < 4 else words}"

    @property
    def range(self) -> str:
        """Where its values lie, whatever the estimator."""
        return "0 to 1" if self.per == "click" else "0 or more"


_PROPENSITY_ESTIMATORS = ("ips", "clipped_ips", "snips")

METRICS: Mapping[str, CounterfactualMetric] = {
    metric.name: metric
    for metric in (
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
            unit="share",
        ),
        CounterfactualMetric(
            "recall",
            "share of the clicks that fall on the first k places",
            "lists",
            "1e0",
            "needed",
            "click",
            ("ips", "clipped_ips"),
            "share",
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
            "clicks on the first k places, each by how often its new place is looked at",
            "lists",
            "new_propensity",
            "needed",
            "request",
            unit="count",
        ),
        CounterfactualMetric(
            "mrr",
            "1 / rank of the first clicked item, 0 without one",
            "lists",
            "",
            "optional",
            "request",
            _PROPENSITY_ESTIMATORS,
            weighs_lists=True,
        ),
        CounterfactualMetric(
            "hit",
            "requests with a click on one of the first k places, over all",
            "lists",
            "",
            "needed",
            "request",
            _PROPENSITY_ESTIMATORS,
            "share",
            weighs_lists=True,
        ),
        CounterfactualMetric(
            "ctr",
            "clicked impressions over impressions",
            "policy",
            "",
            "none",
            "impression",
            unit="share",
        ),
    )
}
"""The metrics by name."""

FIRST = (
    "depends on which clicked item stands first, and whether an unseen one above it would have "
    "been clicked is no sum over items: propensities of positions do not tell it, those of whole "
    "lists do. Take sum_reciprocal_rank or dcg"
)
"""Why metrics of whole lists need more than the propensities of positions."""
_IDEAL = (
    "divides by the best list of each request, which biased clicks do not show. Take dcg: the "
    "best lists are the same for all rankings that are compared"
)
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("ndcg", "map", "ap", "rprec"), _IDEAL),
}
"""Metrics that look alike -> why they cannot be estimated."""

_ALIASES: Mapping[str, str] = {"rr": "mrr", "success": "hit", "hit_rate": "hit"}


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
        return column_at_cutoff(self.metric.name, self.k)


def counterfactual_metric(text: str) -> CounterfactualMeasure:
    """A metric of its text, like `dcg@10`.

    Raises:
        SpecError: If there is none of that name, it cannot be estimated, or it takes no such
            cutoff.

    >>> str(counterfactual_metric("DCG @ 5"))
    'dcg@5'
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:@\s*(\d{1,9}))?\s*", text.casefold())
    name = _ALIASES.get(match[1], match[1]) if match else text
    if name in REFUSED:
        raise SpecError(f"counterfactual metric {text!r}: {name} {REFUSED[name]}")
    if match is None or name not in METRICS:
        raise SpecError(unknown("counterfactual metric", name, METRICS))
    metric, k = METRICS[name], int(match[2]) if match[2] else None
    if k == 0 or (k is not None and metric.cutoff == "none"):
        raise SpecError(f"counterfactual metric {text!r}: {name} does not take this cutoff")
    if k is None and metric.cutoff == "needed":
        raise SpecError(f"counterfactual metric {text!r}: {name} needs a cutoff, like {name}@10")
    return CounterfactualMeasure(metric, k)


@dataclass(frozen=True)
class EstimatedMetric:
    """A metric by one of its estimators, as the fact table has it.

    >>> one = estimated_metric("DCG(estimator=snips)@10")
    >>> str(one), one.name, one.k, one.column
    ('dcg(estimator=snips)@10', 'dcg(estimator=snips)', 10, 'dcg_estimator_snips_at_10')

    Attributes:
        measure: The metric and its cutoff.
        estimator: How it is estimated.
    """

    measure: CounterfactualMeasure
    estimator: str

    def __str__(self) -> str:
        return at_cutoff(self.name, self.k)

    @property
    def metric(self) -> CounterfactualMetric:
        """What is known of the metric."""
        return self.measure.metric

    @property
    def k(self) -> int | None:
        """Its cutoff, None for whole lists."""
        return self.measure.k

    @property
    def name(self) -> str:
        """Its text without the cutoff: no metric of lists, and no online one, has that option."""
        return f"{self.metric.name}(estimator={self.estimator})"

    @property
    def column(self) -> str:
        """The name of its column in wide tables and views."""
        return column_at_cutoff(f"{self.metric.name}_estimator_{self.estimator}", self.k)

    @property
    def meaning(self) -> str:
        """What it says, in one line."""
        subject = (
            "a policy that did not choose" if self.metric.of == "policy" else "lists not shown"
        )
        is_of_items = self.metric.of == "lists" and not self.metric.weighs_lists
        of_clicks = self.estimator == "snips" and is_of_items
        over = ", over all weighed clicks" if of_clicks else ""
        return f"{self.metric.title}{over}; of {subject}, estimated by {self.estimator}"

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """The least and the largest value that it can have; None where there is none.

        What `dr` corrects may take it below 0; weighed clicks can be more than there are places.
        """
        if self.estimator == "dr":
            return None, None
        is_share = self.metric.per == "click" or self.estimator == "snips"
        return 0.0, 1.0 if is_share and self.metric.name != "clicks" else None


def estimated_metrics(
    metrics: Iterable[str], estimators: Iterable[str]
) -> Iterator[EstimatedMetric]:
    """Each metric by each estimator that it has.

    Raises:
        SpecError: As `counterfactual_metric` does.
    """
    names = tuple(estimators)
    for measure in map(counterfactual_metric, metrics):
        yield from (
            EstimatedMetric(measure, name) for name in names if name in measure.metric.estimators
        )


_TEXT = re.compile(r"\s*(\w+)\s*\(\s*estimator\s*=\s*(\w+)\s*\)\s*(@.*)?", re.IGNORECASE)


def is_estimated(text: str) -> bool:
    """Whether a metric's text names an estimator, like `dcg(estimator=ips)@10`."""
    return isinstance(text, str) and _TEXT.fullmatch(text) is not None


def estimated_metric(text: str) -> EstimatedMetric:
    """A metric by an estimator of its text, like `dcg(estimator=ips)@10`.

    Raises:
        SpecError: If there is no such metric or estimator, or the metric has it not.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise SpecError(
            f"counterfactual metric {text!r} cannot be read; write it like dcg(estimator=ips)@10"
        )
    measure, name = counterfactual_metric(f"{match[1]}{match[3] or ''}"), match[2].casefold()
    if name not in measure.metric.estimators:
        estimators = measure.metric.estimators
        raise SpecError(f"counterfactual metric {text!r}: {unknown('estimator', name, estimators)}")
    return EstimatedMetric(measure, name)
