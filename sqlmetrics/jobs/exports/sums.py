"""How the rows of a metric are put together, in SQL: the one place that every export asks."""

from __future__ import annotations

from collections.abc import Mapping

from sqlmetrics.catalog.dimension import NEVER, RATIO, MetricRow
from sqlmetrics.sql.template import literal


def is_row(one: MetricRow) -> str:
    """The condition for the rows of a metric in the fact table.

    >>> from sqlmetrics.catalog.dimension import row_of
    >>> is_row(row_of("ndcg", 10))
    "metric = 'ndcg' and k = 10"
    """
    return f"metric = {literal(one.metric)} and k = {one.k}"


def over_facts(one: MetricRow) -> str:
    """A metric over any rows of one spec and segment_name in the fact table.

    Ratios are sums over sums, totals are sums of values. What cannot be added up is there where
    one row is left, and NULL otherwise.
    """
    where = is_row(one)
    parts = {
        part: f"case when {where} then {part} end" for part in ("value", "numerator", "denominator")
    }
    return _together(one, parts, f"count(case when {where} then 1 end)")


def over_columns(one: MetricRow, table: str = "") -> str:
    """The same over rows that have a column for each part of a metric.

    Args:
        one: The metric.
        table: What stands before the names of columns, if anything has to.

    >>> from sqlmetrics.catalog.dimension import row_of
    >>> over_columns(row_of("mrr", 0))
    'sum(mrr_numerator) / nullif(sum(mrr_denominator), 0)'
    """
    of = f"{table}." if table else ""
    return _together(one, {part: of + name for part, name in columns_of(one).items()}, "count(*)")


def columns_of(one: MetricRow) -> dict[str, str]:
    """Part of a metric -> the column that has it; no more parts than what adds up."""
    if one.roll_up == RATIO:
        return {part: f"{one.column}_{part}" for part in ("numerator", "denominator")}
    return {"value": one.column}


def _together(one: MetricRow, parts: Mapping[str, str], rows: str) -> str:
    if one.roll_up == NEVER:
        return f"case when {rows} = 1 then max({parts['value']}) end"
    if one.roll_up == RATIO:
        return f"sum({parts['numerator']}) / nullif(sum({parts['denominator']}), 0)"
    return f"sum({parts['value']})"


ROLL_UP = {
    "ratio": "Sums over sums: right over any days, systems and values of the segment.",
    "total": "A total: it adds up over days.",
    "none": "It cannot be added up: shown by single day and system, empty over several.",
}
"""What a description says of it."""


def told(one: MetricRow) -> str:
    """A metric's description: its formula, which values are better, and how it adds up."""
    better = "" if one.direction == "none" else f" {one.direction.capitalize()} is better."
    return f"{one.meaning.rstrip('.')}.{better} {ROLL_UP[one.roll_up]}"
