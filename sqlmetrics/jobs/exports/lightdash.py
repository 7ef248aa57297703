"""Lightdash: dbt models of one segment each, with their metrics in `meta`."""

from __future__ import annotations

import re
from typing import Any

from sqlmetrics.jobs.exports.slices import Slice, query, rows, slices
from sqlmetrics.jobs.exports.sums import columns_of, over_columns, told
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.exports.yaml_text import yaml_text

MADE = "made by: sqlmetrics export lightdash; not run"


def files(target: Target) -> dict[str, str]:
    """The models, and what Lightdash has to know of them.

    Raises:
        SpecError: If the spec has no output.
    """
    told_of = {"version": 2, "models": [_model(target, one) for one in slices(target)]}
    return {
        **{
            f"models/{_name(one)}.sql": f"-- {MADE}\n{_escaped(query(target, one)).strip()}\n"
            for one in slices(target)
        },
        "models/_ranking_metrics_lightdash.yml": yaml_text(told_of, MADE),
    }


def _name(one: Slice) -> str:
    return f"ranking_metrics_{one.key}_lightdash"


def _model(target: Target, one: Slice) -> dict[str, Any]:
    names = {column for row in rows(target) for column in columns_of(row).values()}
    metrics = {
        row.column: {
            "type": "number",
            "label": row.name,
            "description": _escaped(told(row)),
            "sql": re.sub(
                r"\w+",
                lambda word: f"${{TABLE}}.{word[0]}" if word[0] in names else word[0],
                over_columns(row),
            ),
        }
        for row in rows(target)
    }
    keys = ["metric_date", "system", *([one.column] if one.column else [])]
    hidden = {"meta": {"dimension": {"hidden": True}}}
    return {
        "name": _name(one),
        "description": f"Ranking metrics {f'by {one.segment}' if one.column else 'of all queries'}",
        "config": {"materialized": "view"},
        "meta": {"metrics": metrics},
        "columns": [
            *({"name": key} for key in keys),
            *({"name": name, **hidden} for name in sorted(names)),
        ],
    }


def _escaped(text: str) -> str:
    """A text in which dbt finds no Jinja."""
    return re.sub(r"\{\{|\{%|\{#", lambda found: f"{{{{ '{found[0]}' }}}}", text)
