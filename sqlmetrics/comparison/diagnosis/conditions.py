"""Whether the conditions of a rule hold, and the numbers that say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlmetrics.comparison.diagnosis.rules import Condition, Rule
from sqlmetrics.stats import NOISE


def fired(
    rule: Rule,
    values: Mapping[str, float],
    rows: Mapping[str, Mapping[str, Any]],
    before: Mapping[str, float],
    margin: float,
) -> list[str]:
    """The numbers behind a rule that fires; none where it does not."""
    numbers = []
    for condition in rule.conditions:
        text = (
            _of_value(condition, values)
            if condition.is_ in ("least", "most", "equal", "half")
            else _of_change(condition, values, rows, before, margin)
        )
        if not text:
            return []
        numbers.append(text)
    return numbers


def _of_value(condition: Condition, values: Mapping[str, float]) -> str:
    value = values.get(condition.metric)
    if value is None:
        return ""
    other_value = values.get(condition.other)
    if condition.is_ == "half":
        is_half = other_value is not None and value <= other_value / 2
        return (
            f"{condition.metric} {value:.4f}, {condition.other} {other_value:.4f}"
            if is_half
            else ""
        )
    if condition.is_ == "equal":
        same = other_value is not None and abs(value - other_value) <= NOISE * max(1.0, abs(value))
        return f"{condition.metric} and {condition.other} are both {value:.4f}" if same else ""
    is_met = value >= condition.limit if condition.is_ == "least" else value <= condition.limit
    return f"{condition.metric} {value:.4f}" if is_met else ""


def _of_change(
    condition: Condition,
    values: Mapping[str, float],
    rows: Mapping[str, Mapping[str, Any]],
    before: Mapping[str, float],
    margin: float,
) -> str:
    row = rows.get(condition.metric)
    if row is None or row["ci_low"] is None:
        return ""
    low, high, direction = row["ci_low"], row["ci_high"], row["direction"]
    if condition.is_ == "mix":
        if condition.metric not in values or condition.metric not in before:
            return ""
        difference = values[condition.metric] - before[condition.metric]
        mixed = difference - row["difference"]
        if abs(mixed) <= margin:
            return ""
        return (
            f"{condition.metric} {difference:+.4f} between the means, "
            f"{row['difference']:+.4f} over the "
            f"{row['n']:,} queries that both have"
        )
    is_met = {
        "flat": -margin <= low and high <= margin,
        "up": low * direction > 0 and high * direction > 0,
        "down": low * direction < 0 and high * direction < 0,
    }[condition.is_]
    number = f"{condition.metric} {row['difference']:+.4f} ({low:+.4f} to {high:+.4f})"
    return number if is_met else ""
