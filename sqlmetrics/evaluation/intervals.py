"""Intervals of means over queries, from the sums that a summary has anyway."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any

from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.distributions import student
from sqlmetrics.plan.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("ci_low", "ci_high")


def check_confidence(level: float | None) -> None:
    """Raise SpecError for a level that is none."""
    if level is not None and not 0 < level < 1:
        raise SpecError(f"confidence is above 0 and below 1, like 0.95, given {level:g}")


def with_intervals(summary: pa.Table, plan: Plan, level: float) -> pa.Table:
    """The summary with `ci_low` and `ci_high`: Student's interval of each mean over queries.

    It takes the queries for independent draws of those that might be asked. NULL with less than
    two queries, with weights, and for what is no mean over queries: ratios of sums, counts and
    numbers of all lists together.

    Args:
        summary: One row a metric, system and segment.
        plan: What was asked.
        level: The coverage, above 0 and below 1.
    """
    import pyarrow as pa

    means = {
        (final.measure.name, final.measure.k or 0)
        for final in plan.needs.finals
        if not (final.denominator or final.measure.metric.count or final.measure.metric.pooled)
    }
    weighted = "weight" in plan.shape.facts
    found = [
        _interval(row, () if weighted else means, level) or (None, None)
        for row in summary.to_pylist()
    ]
    for place, name in enumerate(COLUMNS):
        column = pa.array([pair[place] for pair in found], pa.float64())
        summary = summary.append_column(name, column)
    return summary


def _interval(
    row: Mapping[str, Any], means: Container[tuple[str, int]], level: float
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
    return f"±: the {100 * level:g} % interval of a mean over queries (Student's t)"
