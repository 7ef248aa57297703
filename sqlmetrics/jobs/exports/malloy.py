"""Malloy: a source for all queries and one for each segment, with a measure per metric."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.catalog.dimension import NEVER, RATIO, MetricRow
from sqlmetrics.jobs.exports.slices import ROLL_UP, Slice, rows, slices
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.schema import targets

CONNECTION = {"duckdb": "duckdb", "postgres": "postgres"}
"""Dialect -> what Malloy calls a connection of it, unless somebody names it otherwise."""


def files(target: Target) -> dict[str, str]:
    """The file of the sources.

    Raises:
        SpecError: If the spec has no output.
    """
    connection = f"{CONNECTION[target.dialect.name]}.table({_text(targets(target.spec)['facts'])})"
    return {
        "ranking_metrics.malloy": "\n".join(
            [
                "// made by: sqlmetrics export malloy",
                "// All segments: a query stands once in each, so take one of the sources below.",
                f"source: ranking_metrics_rows is {connection} extend {{",
                f"  where: spec = {_text(target.spec.title)}",
                *(line for metric_row in rows(target) for line in _measure(metric_row)),
                "}",
                *(line for metric_slice in slices(target) for line in _source(metric_slice)),
                "",
            ]
        )
    }


def _measure(metric_row: MetricRow) -> Iterator[str]:
    condition = f"{{ where: metric = {_text(metric_row.metric)} and k = {metric_row.k} }}"
    yield ""
    yield f"  // {metric_row.name}: {metric_row.meaning}"
    yield f"  // {ROLL_UP[metric_row.roll_up]}"
    yield f"  measure: `{metric_row.column}` is"
    if metric_row.roll_up == RATIO:
        yield f"    numerator.sum() {condition}"
        yield f"    / nullif(denominator.sum() {condition}, 0)"
    elif metric_row.roll_up == NEVER:
        yield f"    pick max(value) {condition}"
        yield f"    when count() {condition} = 1"
        yield "    else null"
    else:
        yield f"    value.sum() {condition}"


def _source(metric_slice: Slice) -> Iterator[str]:
    yield ""
    name = f"ranking_metrics_{metric_slice.key}" if metric_slice.column else "ranking_metrics"
    yield f"source: `{name}` is ranking_metrics_rows extend {{"
    yield f"  where: segment_name = {_text(metric_slice.segment)}"
    if metric_slice.column:
        yield f"  dimension: `{metric_slice.column}` is segment_value"
    yield "}"


def _text(value: str) -> str:
    """A text as Malloy writes it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
