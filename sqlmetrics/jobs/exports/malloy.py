"""Malloy: a source for all queries and one for each segment, with a measure per metric."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.catalog.dimension import NEVER, RATIO, MetricRow
from sqlmetrics.jobs.exports.slices import Slice, rows, slices
from sqlmetrics.jobs.exports.sums import ROLL_UP
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.tables import targets

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
                *(line for one in rows(target) for line in _measure(one)),
                "}",
                *(line for one in slices(target) for line in _source(one)),
                "",
            ]
        )
    }


def _measure(one: MetricRow) -> Iterator[str]:
    of = f"{{ where: metric = {_text(one.metric)} and k = {one.k} }}"
    yield ""
    yield f"  // {one.name}: {one.meaning}"
    yield f"  // {ROLL_UP[one.roll_up]}"
    yield f"  measure: `{one.column}` is"
    if one.roll_up == RATIO:
        yield f"    numerator.sum() {of}"
        yield f"    / nullif(denominator.sum() {of}, 0)"
    elif one.roll_up == NEVER:
        yield f"    pick max(value) {of}"
        yield f"    when count() {of} = 1"
        yield "    else null"
    else:
        yield f"    value.sum() {of}"


def _source(one: Slice) -> Iterator[str]:
    yield ""
    name = f"ranking_metrics_{one.key}" if one.column else "ranking_metrics"
    yield f"source: `{name}` is ranking_metrics_rows extend {{"
    yield f"  where: segment_name = {_text(one.segment)}"
    if one.column:
        yield f"  dimension: `{one.column}` is segment_value"
    yield "}"


def _text(value: str) -> str:
    """A text as Malloy writes it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
