"""Whether the conditions of a rule hold, and the numbers that say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlmetrics.comparison.diagnosis.rules import Condition, Rule

SAME = 1e-12
"""Two numbers of one list are the same up to here."""


def fired(
    rule: Rule,
    values: Mapping[str, float],
    rows: Mapping[str, Mapping[str, Any]],
    before: Mapping[str, float],
    margin: float,
) -> list[str]:
    """The numbers behind a rule that fires; none where it does not."""
    told = []
    for one in rule.conditions:
        text = (
            _of_value(one, values)
            if one.is_ in ("least", "most", "equal", "half")
            else _of_change(one, values, rows, before, margin)
        )
        if not text:
            return []
        told.append(text)
    return told


def _of_value(one: Condition, values: Mapping[str, float]) -> str:
    value = values.get(one.metric)
    if value is None:
        return ""
    other = values.get(one.other)
    if one.is_ == "half":
        is_half = other is not None and value <= other / 2
        return f"{one.metric} {value:.4f}, {one.other} {other:.4f}" if is_half else ""
    if one.is_ == "equal":
        same = other is not None and abs(value - other) <= SAME * max(1.0, abs(value))
        return f"{one.metric} and {one.other} are both {value:.4f}" if same else ""
    holds = value >= one.limit if one.is_ == "least" else value <= one.limit
    return f"{one.metric} {value:.4f}" if holds else ""


def _of_change(
    one: Condition,
    values: Mapping[str, float],
    rows: Mapping[str, Mapping[str, Any]],
    before: Mapping[str, float],
    margin: float,
) -> str:
    row = rows.get(one.metric)
    if row is None or row["ci_low"] is None:
        return ""
    low, high, direction = row["ci_low"], row["ci_high"], row["direction"]
    if one.is_ == "mix":
        if one.metric not in values or one.metric not in before:
            return ""
        apart = values[one.metric] - before[one.metric]
        mixed = apart - row["difference"]
        if abs(mixed) <= margin:
            return ""
        return (
            f"{one.metric} {apart:+.4f} between the means, {row['difference']:+.4f} over the "
            f"{row['n']:,} queries that both have"
        )
    holds = {
        "flat": -margin <= low and high <= margin,
        "up": low * direction > 0 and high * direction > 0,
        "down": low * direction < 0 and high * direction < 0,
    }[one.is_]
    number = f"{one.metric} {row['difference']:+.4f} ({low:+.4f} to {high:+.4f})"
    return number if holds else ""
