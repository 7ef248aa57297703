"""Observable Framework: a project that builds a static page, whose data are in its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlmetrics.jobs.exports.slices import describe_metric, facts, rows, slices
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.schema import has_baseline
from sqlmetrics.jobs.spec_views import name_in_views
from sqlmetrics.sql.template import environment, finished, literal

HEADER = "made by: sqlmetrics export observable"

DATABASES = {"duckdb": "metrics.duckdb", "postgres": "postgresql://reader@host:5432/warehouse"}
"""Dialect -> what the loader opens unless METRICS_DATABASE says otherwise."""

CONFIG = """\
// {made}
export default {{title: {title}, root: "src", head: "", search: false, pager: false}};
"""


def files(target: Target) -> dict[str, str]:
    """The project: its page, the loader of its data, and what npm has to know.

    Raises:
        SpecError: If the spec has no output.
    """
    heading = _text(f"Ranking quality: {target.spec.title}")
    package = {
        "name": f"ranking-metrics-{name_in_views(target.spec.title).replace('_', '-')}",
        "description": HEADER,
        "private": True,
        "type": "module",
        "scripts": {"build": "observable build", "dev": "observable preview"},
        "dependencies": {"@observablehq/framework": "^1.13.4", "@observablehq/plot": "^0.6.17"},
    }
    baseline = target.spec.baseline if has_baseline(target.spec) else None
    page = {
        "title": heading,
        "heading": heading,
        "metrics": _listed(
            {
                "name": metric_row.name,
                "column": metric_row.column,
                "metric": metric_row.metric,
                "k": metric_row.k,
                "roll_up": metric_row.roll_up,
                "label": metric_row.label,
                "about": describe_metric(metric_row),
            }
            for metric_row in rows(target)
        ),
        "segments": _text(
            [metric_slice.segment for metric_slice in slices(target) if metric_slice.column]
        ),
        "baseline": _text(baseline),
    }
    loader = {
        "dialect": target.dialect.name,
        "database": _text(target.options.get("database", DATABASES[target.dialect.name])),
        "query": _query(target),
    }
    return {
        "package.json": json.dumps(package, indent=2) + "\n",
        "observablehq.config.js": CONFIG.format(made=HEADER, title=heading),
        "src/index.md": _printed("index.md", page),
        "src/data/days.json.py": _printed("days.json.py", loader),
    }


def _printed(name: str, view: Mapping[str, Any]) -> str:
    text = environment().get_template(f"exports/observable/{name}.jinja").render(view)
    return finished(text).rstrip("\n") + "\n"


def _text(value: Any) -> str:
    """A value as JavaScript and Python both write it, that closes no tag of a page."""
    return json.dumps(value).replace("</", "<\\/")


def _listed(values: Any) -> str:
    return "[\n" + ",\n".join(f"  {_text(value)}" for value in values) + "\n]"


def _query(target: Target) -> str:
    """The facts of the spec, with dates as text."""
    names = ["system", "segment_name", "segment_value", "metric", "k", "value", "numerator"]
    names += ["denominator", "ci_low", "ci_high"]
    if has_baseline(target.spec):
        names += ["difference", "difference_low", "difference_high"]
    listed = ",\n    ".join(["cast(metric_date as varchar) as day", *names])
    where = f"spec = {literal(target.spec.title)}"
    order = "segment_name, segment_value, metric, k, system, metric_date"
    text = f"select\n    {listed}\nfrom {facts(target)}\nwhere {where}\norder by {order}"
    return text.replace("\\", "\\\\").replace('"""', '\\"""')
