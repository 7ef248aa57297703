"""Metrics whose summary is a quantile of the values of queries: a median, the least, p10.

    metric_values ─> values_in_order ─> global_metrics

No percentile function is asked for: databases differ in which they have and in how they go
between two values. A value's place among the others is known everywhere, and so is how far
it is from the place that is wanted: the two values beside it are summed, each by how near.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlmetrics.plan.segments import SEGMENT, Segment
from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.stage import Column, Stage

QUANTILE, IN_ORDER = "quantile", "values_in_order"
"""The column of `metric_values` that says which one, and the stage that is read for it."""

Select = tuple[list[object], str, tuple[str, ...]]
"""A part of `global_metrics`: its columns, where they are from, and what they are grouped by."""


def in_order(shape: Shape, segments: Sequence[Segment]) -> Stage:
    """One row per query with a value and segment, with its place among them.

    Args:
        shape: What the tables hold.
        segments: The segments of the summary.
    """
    view = {
        "about": "a value's place among those of its segment, and the place that is wanted",
        "groups": [*shape.groups],
        "keys": ["metric", "k"],
        "segments": segments,
        "quantile": QUANTILE,
    }
    return Stage(IN_ORDER, IN_ORDER, view)


def select(shape: Shape) -> Select:
    """The values at the place that is wanted: between two, by how near each is."""
    keys = (*shape.groups, *SEGMENT, "metric", "k")
    return [*keys, Column(_BETWEEN, "pooled_value")], IN_ORDER, keys


_BETWEEN = """sum(
    metric_value
    * case
        when abs(n_below - place) < 1e0 then 1e0 - abs(n_below - place)
        else 0e0
    end
)"""
