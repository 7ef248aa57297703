"""Malloy: one source over the fact table, two lines a metric."""

from __future__ import annotations

from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.tables import targets
from sqlmetrics.sql.template import literal

CONNECTION = {"duckdb": "duckdb", "postgres": "postgres"}
"""Dialect -> what Malloy calls a connection of it, unless somebody names it otherwise."""


def files(target: Target) -> dict[str, str]:
    """The file of the source.

    Raises:
        SpecError: If the spec has no output.
    """
    table = targets(target.spec)["facts"]
    lines = [
        "// made by: sqlmetrics export malloy",
        f"source: ranking_metrics is {CONNECTION[target.dialect.name]}.table({literal(table)}) "
        "extend {",
        f"  where: spec = {literal(target.spec.title)} and segment_name = 'all'",
    ]
    for measure in target.spec.measures:
        one = f"{{ where: metric = {literal(measure.metric.name)} and k = {measure.k or 0} }}"
        lines.append(f"  measure: {measure.column} is")
        lines.append(f"    numerator.sum() {one} / nullif(denominator.sum() {one}, 0)")
    return {"ranking_metrics.malloy": "\n".join([*lines, "}"]) + "\n"}
