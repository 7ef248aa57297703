"""Metabase: the query of a model for each segment, and the expressions of its metrics."""

from __future__ import annotations

from sqlmetrics.catalog.dimension import NEVER, RATIO, MetricRow
from sqlmetrics.jobs.exports.slices import Slice, columns_of, describe_metric, query, rows, slices
from sqlmetrics.jobs.exports.target import Target

HEADER = "made by: sqlmetrics export metabase; not run"


def files(target: Target) -> dict[str, str]:
    """The queries, and a page of what to type for each metric.

    Raises:
        SpecError: If the spec has no output.
    """
    query_files = {
        f"{_name(metric_slice)}.sql": f"-- {HEADER}\n{query(target, metric_slice).strip()}\n"
        for metric_slice in slices(target)
    }
    lines = [
        "# Metrics for Metabase",
        "",
        f"<!-- {HEADER} -->",
        "",
        "Save each query beside this page as a model of its name. A metric is a custom expression",
        "over a model:",
        "",
        *(line for metric_row in rows(target) for line in _metric(metric_row)),
    ]
    return {**query_files, "metrics.md": "\n".join(lines) + "\n"}


def _name(metric_slice: Slice) -> str:
    return f"ranking_metrics_{metric_slice.key}" if metric_slice.column else "ranking_metrics"


def _metric(metric_row: MetricRow) -> list[str]:
    fields = [
        f"Sum([{name.replace('_', ' ').title()}])" for name in columns_of(metric_row).values()
    ]
    if metric_row.roll_up == NEVER:  # of one row alone, which Metabase cannot say
        fields = [f"Max([{metric_row.column.replace('_', ' ').title()}])"]
    text = " / ".join(fields) if metric_row.roll_up == RATIO else fields[0]
    only = " Group it by day and system." if metric_row.roll_up == NEVER else ""
    return [
        (
            f"- {metric_row.name} (`{metric_row.column}`): `{text}`. "
            f"{describe_metric(metric_row)}{only}"
        )
    ]
