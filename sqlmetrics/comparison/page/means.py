"""The mean of several days, from the sums that each day has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from sqlmetrics.catalog.dimension import row_of
from sqlmetrics.errors import SpecError
from sqlmetrics.stats import student
from sqlmetrics.stats.estimate import INTERVAL, Estimate
from sqlmetrics.tables.tabular import Row


def pooled(rows: Sequence[Row], confidence: float) -> dict[str, Any] | None:
    """The mean of several days, with an interval made of theirs; None without a number.

    Args:
        rows: Of one metric, system and segment, with intervals of this confidence.
        confidence: The coverage.
    """
    rows = [row for row in rows if row["value"] is not None]
    if not rows:
        return None
    n = sum(row["n_queries"] for row in rows)
    if len(rows) == 1:
        only = rows[0]
        return {**{name: only.get(name) for name in ("value", *INTERVAL)}, "n": n}
    estimate = _mean(rows, n, confidence)
    return {"value": estimate.value, **estimate.ends(confidence), "n": n}


def _mean(rows: Sequence[Row], n: int, confidence: float) -> Estimate:
    """The mean of several days: over all queries where they count alike, else by the intervals."""
    if all(
        row.get("sum_sq") is not None and row["denominator"] == row["n_queries"] for row in rows
    ):
        value = sum(row["numerator"] for row in rows) / n
        if n < 2:
            return Estimate(value, None, 0)
        squares = max(0.0, sum(row["sum_sq"] for row in rows) - n * value * value)
        return Estimate(value, math.sqrt(squares / (n - 1) / n), n - 1)
    weights = [row["denominator"] or 0.0 for row in rows]
    if not all(weights):
        return Estimate(rows[-1]["value"], None, 0)
    total = sum(weights)
    value = sum(row["numerator"] for row in rows) / total
    errors = [_error(row, confidence) for row in rows]
    known_errors = [
        error * weight for error, weight in zip(errors, weights, strict=True) if error is not None
    ]
    if len(known_errors) < len(rows):
        return Estimate(value, None, 0)
    return Estimate(value, math.hypot(*known_errors) / total, n - len(rows))


def _error(row: Row, confidence: float) -> float | None:
    """The standard error behind an interval of Student's t."""
    if row.get("ci_low") is None or row["n_queries"] < 2:
        return None
    half_width = (row["ci_high"] - row["ci_low"]) / 2
    return float(half_width / student.critical(confidence, row["n_queries"] - 1))


HIGHEST = 1 + 1e-9
"""What is higher, such as a count or a rank, does not stand on an axis with shares."""


def panels(values: Iterable[tuple[str, float]]) -> dict[str, str]:
    """Metric -> the panel that it is drawn in: empty with shares, else one of its own.

    Args:
        values: Metrics, each as often as it has a value, and values.

    >>> panels([("mrr", 0.5), ("first_rank", 1.0), ("first_rank", 7.0)])
    {'mrr': '', 'first_rank': 'first_rank'}
    """
    highest: dict[str, float] = {}
    for metric, value in values:
        highest[metric] = max(abs(value), highest.get(metric, 0.0))
    return {metric: metric if value > HIGHEST else "" for metric, value in highest.items()}


def drawn_ends(row: Row, metric: str) -> dict[str, float]:
    """The ends of an interval as they are drawn: within the metric's range, at its value without.

    Args:
        row: With `value`, `ci_low` and `ci_high`; the table beside has these as they are.
        metric: Its text.
    """
    low, high = _limits(metric)
    ends = {name: row["value"] if row[name] is None else row[name] for name in INTERVAL}
    if low is not None:
        ends = {name: max(end, low) for name, end in ends.items()}
    return ends if high is None else {name: min(end, high) for name, end in ends.items()}


def _limits(metric: str) -> tuple[float | None, float | None]:
    """The least and the largest value; None where there is none, or this version knows none."""
    try:
        row = row_of(metric, 0)
    except SpecError:
        return None, None
    return row.low, row.high
