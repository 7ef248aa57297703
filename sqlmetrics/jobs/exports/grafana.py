"""Grafana: a dashboard with a panel for each metric, over a PostgreSQL data source."""

from __future__ import annotations

import json
from typing import Any

from sqlmetrics.catalog.dimension import MetricRow
from sqlmetrics.jobs.exports.slices import Slice, describe_metric, over_columns, query, rows, slices
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.spec_views import name_in_views

SOURCE = {"type": "grafana-postgresql-datasource", "uid": "${DS_RANKING_METRICS}"}
WIDTH, HEIGHT = 12, 9


def files(target: Target) -> dict[str, str]:
    """The dashboard, to be imported.

    Raises:
        SpecError: If the spec has no output.
    """
    overall, *segments = slices(target)
    panels = [(overall, metric_row) for metric_row in rows(target)]
    panels += [(segment, rows(target)[0]) for segment in segments]
    board = {
        "__inputs": [
            {
                "name": "DS_RANKING_METRICS",
                "label": "PostgreSQL with the ranking metrics",
                "type": "datasource",
                "pluginId": SOURCE["type"],
            }
        ],
        "title": f"Ranking quality: {target.spec.title}",
        "uid": f"sqlmetrics-{name_in_views(target.spec.title)}"[:40],
        "description": "made by: sqlmetrics export grafana; not run",
        "schemaVersion": 39,
        "time": {"from": "now-30d", "to": "now"},
        "panels": [_panel(target, number, *panel) for number, panel in enumerate(panels)],
    }
    return {"ranking_metrics.json": json.dumps(board, indent=2) + "\n"}


def _panel(
    target: Target, number: int, metric_slice: Slice, metric_row: MetricRow
) -> dict[str, Any]:
    line = f"system || ', ' || {metric_slice.column}" if metric_slice.column else "system"
    rows_of_days = query(target, metric_slice).strip().replace("\n", "\n    ")
    text = (
        f"select metric_date as time, {line} as metric,\n    {over_columns(metric_row)} as value\n"
        f"from (\n    {rows_of_days}\n) as days\nwhere $__timeFilter(metric_date)\n"
        "group by 1, 2\norder by 1"
    )
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": f"{metric_row.name}{f' by {metric_slice.segment}' if metric_slice.column else ''}",
        "description": describe_metric(metric_row),
        "datasource": SOURCE,
        "gridPos": {
            "h": HEIGHT,
            "w": WIDTH,
            "x": WIDTH * (number % 2),
            "y": HEIGHT * (number // 2),
        },
        "targets": [{"refId": "A", "datasource": SOURCE, "format": "time_series", "rawSql": text}],
    }
