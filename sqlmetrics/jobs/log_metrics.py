"""Metrics of a click log that are kept as sums, and the columns that a row of facts is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlmetrics.catalog.counterfactual import EstimatedMetric
from sqlmetrics.catalog.online import Online, online
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal

if TYPE_CHECKING:
    from sqlmetrics.clicks.counterfactual.terms import Term

NEW_ONLINE = "sqlmetrics_new_online"
"""The table that keeps the sums of online metrics."""

LONGEST = 54
"""A ratio whose parts have more letters stands on two lines."""


@dataclass(frozen=True)
class LogMetric:
    """A metric, and where its sums are.

    Attributes:
        metric: Its text without the cutoff.
        k: The cutoff, 0 for none.
        table: One row per day, system and segment.
        sums: Column of the fact table -> what it is made of there, as SQL: `numerator`,
            `denominator`, `n_queries` and those of intervals.
    """

    metric: str
    k: int
    table: str
    sums: Mapping[str, str]

    def columns(self, spec: Spec, names: Iterable[str]) -> Iterator[str]:
        """These columns of the fact table, as lines of a select list."""
        numerator, denominator = self.sums["numerator"], self.sums["denominator"]
        line_break = "\n   " if len(numerator + denominator) > LONGEST else ""
        sql_by_column = {
            "spec": literal(spec.title),
            "metric": literal(self.metric),
            "k": str(self.k),
            "value": f"{numerator}{line_break} / nullif({denominator}, 0e0)",
            "sum_sq": "cast(null as double)",
            "sum_x": numerator,
            **self.sums,
            **{
                name: f"cast({self.sums.get(name, 0)} as bigint)"
                for name in ("n_queries", "n_skipped", "n_missing", "n_clusters")
            },
        }
        for name in names:
            yield f"{sql_by_column[name]} as {name}" if name in sql_by_column else name


def log_metrics(spec: Spec) -> list[LogMetric]:
    """Those of a spec: of the log itself, then of what was not shown."""
    return [*(_online(online(text)) for text in spec.online), *_estimates(spec)]


def _online(metric: Online) -> LogMetric:
    names = ("numerator", "denominator", "n_clusters", "sum_x2", "sum_w2", "sum_xw")
    sums = {name: f"{metric.column}_{name}" for name in names} | {"n_queries": "n_requests"}
    return LogMetric(metric.name, metric.k or 0, NEW_ONLINE, sums)


def _estimates(spec: Spec) -> Iterator[LogMetric]:
    counterfactual = spec.clicks.counterfactual if spec.clicks else None
    if counterfactual:
        from sqlmetrics.clicks.counterfactual.evaluate import terms

        yield from map(_estimate, terms(counterfactual))


def _estimate(term: Term) -> LogMetric:
    from sqlmetrics.clicks.counterfactual.evaluate import NEW_ESTIMATES
    from sqlmetrics.clicks.counterfactual.terms import product

    metric = EstimatedMetric(term.measure, term.estimator)
    x2, xw, w2 = (product(*pair) for pair in term.products)
    sums = {
        "numerator": f"sum_{term.x}",
        "denominator": f"1e0 * sum_{term.w}",
        "n_queries": f"sum_{term.counted}",
        "n_clusters": "n_clusters",
        "sum_x2": x2,
        "sum_w2": w2,
        "sum_xw": xw,
    }
    return LogMetric(metric.name, metric.k or 0, NEW_ESTIMATES, sums)
