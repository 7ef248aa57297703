"""Lightdash: dbt models of one segment each, with their metrics in `meta`."""

from __future__ import annotations

import re
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
from sqlmetrics.jobs.exports.yaml_text import yaml_text

HEADER = "made by: sqlmetrics export lightdash; not run"


def files(target: Target) -> dict[str, str]:
    """The models, and what Lightdash has to know of them.

    Raises:
        SpecError: If the spec has no output.
    """
    told_of = {
        "version": 2,
        "models": [_model(target, metric_slice) for metric_slice in slices(target)],
    }
    return {
        **{
            f"models/{_name(metric_slice)}.sql": (
                f"-- {HEADER}\n{_escaped(query(target, metric_slice)).strip()}\n"
            )
            for metric_slice in slices(target)
        },
        "models/_ranking_metrics_lightdash.yml": yaml_text(told_of, HEADER),
    }


def _name(metric_slice: Slice) -> str:
    return f"ranking_metrics_{metric_slice.key}_lightdash"


def _model(target: Target, metric_slice: Slice) -> dict[str, Any]:
    names = {column for row in rows(target) for column in columns_of(row).values()}
    metrics = {
        row.column: {
            "type": "number",
            "label": row.name,
            "description": _escaped(describe_metric(row)),
            "sql": re.sub(
                r"\w+",
                lambda word: f"${{TABLE}}.{word[0]}" if word[0] in names else word[0],
                over_columns(row),
            ),
        }
        for row in rows(target)
    }
    keys = ["metric_date", "system", *([metric_slice.column] if metric_slice.column else [])]
    hidden = {"meta": {"dimension": {"hidden": True}}}
    return {
        "name": _name(metric_slice),
        "description": (
            "Ranking metrics "
            f"{f'by {metric_slice.segment}' if metric_slice.column else 'of all queries'}"
        ),
        "config": {"materialized": "view"},
        "meta": {"metrics": metrics},
        "columns": [
            *({"name": key} for key in keys),
            *({"name": name, **hidden} for name in sorted(names)),
        ],
    }


def _escaped(text: str) -> str:
    """A text in which dbt finds no Jinja."""
    return re.sub(r"\{\{|\{%|\{#", lambda match: f"{{{{ '{match[0]}' }}}}", text)
