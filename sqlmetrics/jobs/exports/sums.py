"""How the rows of a metric are put together, in SQL: the one place that every export asks."""

from __future__ import annotations

from collections.abc import Mapping

from sqlmetrics.catalog.dimension import NEVER, RATIO, MetricRow
from sqlmetrics.catalog.metric import at_cutoff, metric_of
from sqlmetrics.sql.template import literal


def is_row(metric_row: MetricRow) -> str:
    """The condition for the rows of a metric in the fact table.

    >>> from sqlmetrics.catalog.dimension import row_of
    >>> is_row(row_of("ndcg", 10))
    "metric = 'ndcg' and k = 10"
    """
    return f"metric = {literal(metric_row.metric)} and k = {metric_row.k}"


def over_facts(metric_row: MetricRow) -> str:
    """A metric over any rows of one spec and segment_name in the fact table.

    Ratios are sums over sums, totals are sums of values. What cannot be added up is there where
    one row is left, and NULL otherwise.
    """
    where = is_row(metric_row)
    parts = {
        part: f"case when {where} then {part} end" for part in ("value", "numerator", "denominator")
    }
    return combine(metric_row, parts, f"count(case when {where} then 1 end)")


def over_columns(metric_row: MetricRow, table: str = "") -> str:
    """The same over rows that have a column for each part of a metric.

    Args:
        metric_row: The metric.
        table: What stands before the names of columns, if anything has to.

    >>> from sqlmetrics.catalog.dimension import row_of
    >>> over_columns(row_of("mrr", 0))
    'sum(mrr_numerator) / nullif(sum(mrr_denominator), 0)'
    """
    prefix = f"{table}." if table else ""
    return combine(
        metric_row,
        {part: prefix + name for part, name in columns_of(metric_row).items()},
        "count(*)",
    )


def columns_of(metric_row: MetricRow) -> dict[str, str]:
    """Part of a metric -> the column that has it; no more parts than what adds up."""
    if metric_row.roll_up == RATIO:
        return {part: f"{metric_row.column}_{part}" for part in ("numerator", "denominator")}
    return {"value": metric_row.column}


def combine(metric_row: MetricRow, parts: Mapping[str, str], rows: str) -> str:
    """A metric of several rows as SQL.

    Args:
        metric_row: The metric.
        parts: Column of the fact table -> what holds it: `numerator` and `denominator` of a
            ratio, else `value`.
        rows: The number of rows as SQL.
    """
    if metric_row.roll_up == NEVER:
        return f"case when {rows} = 1 then max({parts['value']}) end"
    if metric_row.roll_up == RATIO:
        return f"sum({parts['numerator']}) / nullif(sum({parts['denominator']}), 0)"
    return f"sum({parts['value']})"


ROLL_UP = {
    "ratio": "Sums over sums: right over any days, systems and values of the segment.",
    "total": "A total: it adds up over days.",
    "none": "It cannot be added up: shown by single day and system, empty over several.",
}
"""What a description says of it."""


def describe_metric(metric_row: MetricRow) -> str:
    """A metric's description: its formula, which values are better, and how it adds up."""
    return f"{describe_value(metric_row)} {ROLL_UP[metric_row.roll_up]}"


def describe_value(metric_row: MetricRow) -> str:
    """A metric's formula, and which values are better."""
    better = (
        "" if metric_row.direction == "none" else f" {metric_row.direction.capitalize()} is better."
    )
    return f"{metric_row.meaning.rstrip('.')}.{better}"


def synonyms(metric_row: MetricRow) -> list[str]:
    """Other names of a metric: its text, its title, and what other tools call it.

    >>> from sqlmetrics.catalog.dimension import row_of
    >>> synonyms(row_of("mrr", 10))
    ['mrr@10', 'Reciprocal rank at 10', 'recip_rank@10', 'rr@10']
    """
    name, *settings = metric_row.metric.partition("(")
    metric = metric_of(name)
    aliases = [alias.removesuffix("@k") for alias in metric[0].aliases] if metric else []
    names = [
        at_cutoff(alias + "".join(settings), metric_row.k) for alias in aliases if "(" not in alias
    ]
    text_by_word = {text.casefold(): text for text in (*names, metric_row.label, metric_row.name)}
    text_by_word.pop(metric_row.column, None)
    return [*reversed(text_by_word.values())]
