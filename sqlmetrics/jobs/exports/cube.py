"""Cube: a cube for all queries and one for each segment, with a measure per metric."""

from __future__ import annotations

from typing import Any

from sqlmetrics.catalog.dimension import RATIO, MetricRow
from sqlmetrics.jobs.exports.slices import (
    Slice,
    columns_of,
    describe_metric,
    over_columns,
    query,
    rows,
    slices,
)
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.exports.yaml_text import Block, Flow, yaml_text


def files(target: Target) -> dict[str, str]:
    """The file of the cubes.

    Raises:
        SpecError: If the spec has no output.
    """
    cubes = [_cube(target, metric_slice) for metric_slice in slices(target)]
    text = yaml_text({"cubes": cubes}, "made by: sqlmetrics export cube")
    return {"model/cubes/ranking_metrics.yml": text}


def _cube(target: Target, metric_slice: Slice) -> dict[str, Any]:
    keys = ["metric_date", "system", *([metric_slice.column] if metric_slice.column else [])]
    row = " || '|' || ".join(f"cast({{CUBE}}.{key} as varchar)" for key in keys)
    name = f"ranking_metrics_{metric_slice.key}" if metric_slice.column else "ranking_metrics"
    texts = [Flow(name=key, sql=f"{{CUBE}}.{key}", type="string") for key in keys[1:]]
    date = "cast({CUBE}.metric_date as timestamp)"
    return {
        "name": name,
        "title": (
            f"{target.spec.title}: "
            f"{f'by {metric_slice.segment}' if metric_slice.column else 'all queries'}"
        ),
        "sql": Block(_escaped(query(target, metric_slice))),
        "dimensions": [
            {"name": "id", "sql": row, "type": "string", "primary_key": True, "public": False},
            Flow(name="metric_date", sql=date, type="time"),
            *texts,
        ],
        "measures": [measure for row in rows(target) for measure in _measures(row)],
    }


def _measures(metric_row: MetricRow) -> list[dict[str, Any]]:
    """The metric, and for a ratio the two sums that it is made of."""
    measure_fields = {
        "name": metric_row.column,
        "title": metric_row.name,
        "description": _escaped(describe_metric(metric_row)),
    }
    if metric_row.roll_up != RATIO:
        return [{**measure_fields, "type": "number", "sql": over_columns(metric_row)}]
    above, below = columns_of(metric_row).values()
    sums = [
        Flow(name=column, sql=f"{{CUBE}}.{column}", type="sum", public=False)
        for column in (above, below)
    ]
    return [
        *sums,
        {**measure_fields, "type": "number", "sql": f"{{{above}}} / nullif({{{below}}}, 0)"},
    ]


def _escaped(text: str) -> str:
    """A text in which Cube finds no reference of its own."""
    return text.replace("{", "\\{").replace("}", "\\}")
