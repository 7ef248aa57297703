"""Evidence: a source with a query for each segment, and a page with a chart for each metric."""

from __future__ import annotations

from typing import Any

from sqlmetrics.catalog.dimension import MetricRow
from sqlmetrics.jobs.exports.slices import (
    ALL,
    Slice,
    describe_metric,
    over_columns,
    query,
    rows,
    slices,
)
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.exports.yaml_text import yaml_text

HEADER = "made by: sqlmetrics export evidence; not run"

OPTIONS: dict[str, dict[str, Any]] = {
    "duckdb": {"filename": "metrics.duckdb"},
    "postgres": {"host": "host", "port": 5432, "database": "warehouse", "user": "reader"},
}
"""Dialect -> what a connection of it has to know, to be filled in."""


def files(target: Target) -> dict[str, str]:
    """The connection, the queries and the page.

    Raises:
        SpecError: If the spec has no output.
    """
    kind = target.dialect.name
    connection = {"name": "ranking_metrics", "type": kind, "options": OPTIONS[kind]}
    folder = "sources/ranking_metrics"
    return {
        f"{folder}/connection.yaml": yaml_text(connection, HEADER),
        **{
            f"{folder}/{_name(metric_slice)}.sql": (
                f"-- {HEADER}\n{query(target, metric_slice).strip()}\n"
            )
            for metric_slice in slices(target)
        },
        "pages/ranking_metrics.md": _page(target),
    }


def _name(metric_slice: Slice) -> str:
    return metric_slice.key if metric_slice.column else f"{ALL}_queries"


def _page(target: Target) -> str:
    first, *_ = measures = rows(target)
    charts = [_chart(metric_row, "all_queries", "system") for metric_row in measures]
    for metric_slice in slices(target):
        if metric_slice.column:
            charts.append(_chart(first, _name(metric_slice), metric_slice.column))
    return f"# Ranking quality\n\n<!-- {HEADER} -->\n\n" + "\n".join(charts)


def _chart(metric_row: MetricRow, source: str, series: str) -> str:
    name = metric_row.column if series == "system" else f"{metric_row.column}_{source}"
    keys = ["metric_date", *dict.fromkeys(("system", series))]
    series_column = "system" if series == "system" else "line"
    line = "" if series_column == "system" else f", system || ', ' || {series} as line"
    return (
        f"## {metric_row.name}{'' if series_column == 'system' else f' by {series}'}\n\n"
        f"{describe_metric(metric_row)}\n\n"
        f"```sql {name}\n"
        f"select {', '.join(keys)}{line},\n    {over_columns(metric_row)} as value\n"
        f"from ranking_metrics.{source}\ngroup by {', '.join(keys)}\norder by metric_date\n```\n\n"
        f"<LineChart data={{{name}}} x=metric_date y=value series={series_column} yMin=0 />\n"
    )
