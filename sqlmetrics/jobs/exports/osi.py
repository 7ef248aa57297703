"""Open Semantic Interchange: data sets of one segment each, and metrics as SQL over them."""

from __future__ import annotations

from typing import Any

from sqlmetrics.jobs.exports.slices import Slice, query, rows, slices
from sqlmetrics.jobs.exports.sums import columns_of, over_columns, told
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.exports.yaml_text import Block, Flow, yaml_text


def files(target: Target) -> dict[str, str]:
    """The document.

    Raises:
        SpecError: If the spec has no output.
    """
    own = slices(target)
    model = {
        "name": "ranking_metrics",
        "description": f"Ranking metrics of {target.spec.title}. A data set is of one segment, so "
        "that no query counts twice.",
        "datasets": [_dataset(target, one) for one in own],
        "metrics": [metric for one in own for metric in _metrics(target, one)],
    }
    comment = "made by: sqlmetrics export osi; not run by a tool that reads OSI"
    return {"ranking_metrics.osi.yaml": yaml_text({"semantic_model": [model]}, comment)}


def _name(one: Slice) -> str:
    return f"ranking_metrics_{one.key}" if one.column else "ranking_metrics"


def _dataset(target: Target, one: Slice) -> dict[str, Any]:
    keys = ["metric_date", "system", *([one.column] if one.column else [])]
    sums = [name for row in rows(target) for name in columns_of(row).values()]
    return {
        "name": _name(one),
        "source": Block(query(target, one)),
        "primary_key": keys,
        "fields": [
            *(_field(key, {"dimension": {"is_time": key == "metric_date"}}) for key in keys),
            *(_field(name, {}) for name in sums),
        ],
    }


def _field(name: str, more: dict[str, Any]) -> dict[str, Any]:
    return Flow(name=name, expression=_expression(name), **more)


def _metrics(target: Target, one: Slice) -> list[dict[str, Any]]:
    end = f"_{one.key}" if one.column else ""
    return [
        {
            "name": f"{row.column}{end}",
            "description": f"{row.name}: {told(row)}",
            "expression": _expression(over_columns(row, _name(one))),
        }
        for row in rows(target)
    ]


def _expression(text: str) -> dict[str, Any]:
    return {"dialects": [{"dialect": "ANSI_SQL", "expression": text}]}
