"""Open Semantic Interchange: data sets of one segment each, and metrics as SQL over them."""

from __future__ import annotations

from typing import Any

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
    """The document.

    Raises:
        SpecError: If the spec has no output.
    """
    metric_slices = slices(target)
    model = {
        "name": "ranking_metrics",
        "description": f"Ranking metrics of {target.spec.title}. A data set is of one segment, so "
        "that no query counts twice.",
        "datasets": [_dataset(target, metric_slice) for metric_slice in metric_slices],
        "metrics": [
            metric for metric_slice in metric_slices for metric in _metrics(target, metric_slice)
        ],
    }
    comment = "made by: sqlmetrics export osi; not run by a tool that reads OSI"
    return {"ranking_metrics.osi.yaml": yaml_text({"semantic_model": [model]}, comment)}


def _name(metric_slice: Slice) -> str:
    return f"ranking_metrics_{metric_slice.key}" if metric_slice.column else "ranking_metrics"


def _dataset(target: Target, metric_slice: Slice) -> dict[str, Any]:
    keys = ["metric_date", "system", *([metric_slice.column] if metric_slice.column else [])]
    sums = [name for row in rows(target) for name in columns_of(row).values()]
    return {
        "name": _name(metric_slice),
        "source": Block(query(target, metric_slice)),
        "primary_key": keys,
        "fields": [
            *(_field(key, {"dimension": {"is_time": key == "metric_date"}}) for key in keys),
            *(_field(name, {}) for name in sums),
        ],
    }


def _field(name: str, extra_fields: dict[str, Any]) -> dict[str, Any]:
    return Flow(name=name, expression=_expression(name), **extra_fields)


def _metrics(target: Target, metric_slice: Slice) -> list[dict[str, Any]]:
    end = f"_{metric_slice.key}" if metric_slice.column else ""
    return [
        {
            "name": f"{row.column}{end}",
            "description": f"{row.name}: {describe_metric(row)}",
            "expression": _expression(over_columns(row, _name(metric_slice))),
        }
        for row in rows(target)
    ]


def _expression(text: str) -> dict[str, Any]:
    return {"dialects": [{"dialect": "ANSI_SQL", "expression": text}]}
