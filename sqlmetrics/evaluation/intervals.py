"""Intervals of means over queries, from the sums that a summary has anyway."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from typing import Any

from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.distributions import student
from sqlmetrics.evaluation.report.result import INTERVAL
from sqlmetrics.plan.plan import Plan

Row = dict[str, Any]


def check_confidence(level: float | None) -> None:
    """Raise SpecError for a level that is none."""
    if level is not None and not 0 < level < 1:
        raise SpecError(f"confidence is above 0 and below 1, like 0.95, given {level:g}")


def with_intervals(rows: Iterable[Row], plan: Plan, level: float) -> tuple[Row, ...]:
    """The summary's rows with `ci_low` and `ci_high`: Student's interval of each mean over queries.

    It takes the queries for independent draws of those that might be asked. None with less than
    two queries, with weights, and for what is no mean over queries: ratios of sums, counts and
    numbers of all lists together.

    Args:
        rows: One a metric, system and segment.
        plan: What was asked.
        level: The coverage, above 0 and below 1.
    """
    means = {
        (final.measure.name, final.measure.k or 0)
        for final in plan.needs.finals
        if not (final.denominator or final.measure.metric.count or final.measure.metric.pooled)
    }
    own = () if "weight" in plan.shape.facts else means
    return tuple(
        row | dict(zip(INTERVAL, _interval(row, own, level) or (None, None), strict=True))
        for row in rows
    )


def _interval(
    row: Row, means: Container[tuple[str, int]], level: float
) -> tuple[float, float] | None:
    n = row["n_queries"]
    if (row["metric"], row["k"]) not in means or n < 2:
        return None
    mean = row["numerator"] / n
    squares = max(0.0, row["sum_sq"] - n * mean * mean)
    reach = student.critical(level, n - 1) * math.sqrt(squares / (n - 1) / n)
    return mean - reach, mean + reach


def note(plan: Plan, level: float) -> str:
    """What a reader must know of them."""
    if "weight" in plan.shape.facts:
        return "intervals need queries that count alike; these are weighted, and have none"
    what = f"the {100 * level:g} % interval of a mean over queries (Student's t)"
    return f"± (ci_low to ci_high): {what}"
