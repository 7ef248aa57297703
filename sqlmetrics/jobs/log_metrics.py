"""Metrics of a click log that are kept as sums, and the columns that a row of facts is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlmetrics.catalog.counterfactual import EstimatedMetric
from sqlmetrics.catalog.online import Online, online
from sqlmetrics.clicks.counterfactual.daily import NEW_ESTIMATES, terms
from sqlmetrics.clicks.counterfactual.terms import Term, product
from sqlmetrics.spec.spec import Spec

NEW_ONLINE = "sqlmetrics_new_online"
"""The table that keeps the sums of online metrics."""


@dataclass(frozen=True)
class LogMetric:
    """A metric, and where its sums are.

    Attributes:
        metric: Its text without the cutoff.
        k: The cutoff, 0 for none.
        table: One row per day, system and segment.
        numerator: The column of what is divided.
        denominator: That by which it is.
        n_queries: That of requests.
        n_clusters: That of what is independent.
        sum_x2: The squares of what each adds to the numerator.
        sum_w2: Those of what each adds to the denominator.
        sum_xw: The products of both.
    """

    metric: str
    k: int
    table: str
    numerator: str
    denominator: str
    n_queries: str
    n_clusters: str
    sum_x2: str
    sum_w2: str
    sum_xw: str


def log_metrics(spec: Spec) -> list[LogMetric]:
    """Those of a spec: of the log itself, then of what was not shown."""
    return [*(_online(online(text)) for text in spec.online), *_estimates(spec)]


def _online(metric: Online) -> LogMetric:
    column = metric.column
    return LogMetric(
        metric=metric.name,
        k=metric.k or 0,
        table=NEW_ONLINE,
        numerator=f"{column}_numerator",
        denominator=f"{column}_denominator",
        n_queries="n_requests",
        n_clusters=f"{column}_n_clusters",
        sum_x2=f"{column}_sum_x2",
        sum_w2=f"{column}_sum_w2",
        sum_xw=f"{column}_sum_xw",
    )


def _estimates(spec: Spec) -> Iterator[LogMetric]:
    counterfactual = spec.clicks.counterfactual if spec.clicks else None
    for term in terms(counterfactual) if counterfactual else ():
        yield _estimate(term)


def _estimate(term: Term) -> LogMetric:
    metric = EstimatedMetric(term.measure, term.estimator)
    x2, xw, w2 = (product(*pair) for pair in term.products)
    return LogMetric(
        metric=metric.name,
        k=metric.k or 0,
        table=NEW_ESTIMATES,
        numerator=f"sum_{term.x}",
        denominator=f"1e0 * sum_{term.w}",
        n_queries=f"sum_{term.counted}",
        n_clusters="n_clusters",
        sum_x2=x2,
        sum_w2=w2,
        sum_xw=xw,
    )
