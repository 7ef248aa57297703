"""Metabase: the query of a model for each segment, and the expressions of its metrics."""

from __future__ import annotations

from sqlmetrics.catalog.dimension import NEVER, RATIO, MetricRow
from sqlmetrics.jobs.exports.slices import Slice, query, rows, slices
from sqlmetrics.jobs.exports.sums import columns_of, told
from sqlmetrics.jobs.exports.target import Target

MADE = "made by: sqlmetrics export metabase; not run"


def files(target: Target) -> dict[str, str]:
    """The queries, and a page of what to type for each metric.

    Raises:
        SpecError: If the spec has no output.
    """
    made = {
        f"{_name(one)}.sql": f"-- {MADE}\n{query(target, one).strip()}\n" for one in slices(target)
    }
    lines = [
        "# Metrics for Metabase",
        "",
        f"<!-- {MADE} -->",
        "",
        "Save each query beside this page as a model of its name. A metric is a custom expression",
        "over a model:",
        "",
        *(line for one in rows(target) for line in _metric(one)),
    ]
    return {**made, "metrics.md": "\n".join(lines) + "\n"}


def _name(one: Slice) -> str:
    return f"ranking_metrics_{one.key}" if one.column else "ranking_metrics"


def _metric(one: MetricRow) -> list[str]:
    fields = [f"Sum([{name.replace('_', ' ').title()}])" for name in columns_of(one).values()]
    if one.roll_up == NEVER:  # of one row alone, which Metabase cannot say
        fields = [f"Max([{one.column.replace('_', ' ').title()}])"]
    text = " / ".join(fields) if one.roll_up == RATIO else fields[0]
    only = " Group it by day and system." if one.roll_up == NEVER else ""
    return [f"- {one.name} (`{one.column}`): `{text}`. {told(one)}{only}"]
