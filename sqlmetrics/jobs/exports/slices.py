"""The rows of one spec and one segment, so that no query counts twice: what tools are given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlmetrics.catalog.dimension import NEVER, RATIO, MetricRow
from sqlmetrics.catalog.metric import at_cutoff, metric_of
from sqlmetrics.jobs.definitions import described
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.schema import targets
from sqlmetrics.jobs.spec_views import bounded, name_in_views
from sqlmetrics.spec.source import beside_table
from sqlmetrics.sql.stage import Column, print_template
from sqlmetrics.sql.template import finished, free_name, identifier, literal
from sqlmetrics.sql.translation import Translation

# How the rows of a metric are put together, in SQL: the one place that every export asks.


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


ALL = "all"
"""The segment_name of the rows that stand for all queries."""

TAKEN = (
    *("metric_date", "system", "metric", "k", "n_queries"),
    *("value", "numerator", "denominator", "ci_low", "ci_high"),
)
"""Columns that a segment's own cannot be called."""


@dataclass(frozen=True)
class Slice:
    """A segment of a spec.

    Attributes:
        segment: Its segment_name in the fact table: `all`, `country`.
        column: What its values stand in: `country`; empty for all queries.
    """

    segment: str
    column: str = ""

    @property
    def key(self) -> str:
        """What it is called within an export: `all`, `by_country`."""
        return f"by_{self.column}" if self.column else ALL


def rows(target: Target) -> list[MetricRow]:
    """The metrics of the spec, in its order."""
    return described(target.spec)


def slices(target: Target) -> list[Slice]:
    """All queries, then a slice for each entry of `by`."""
    used_names = {
        *TAKEN,
        *(
            name
            for metric_row in rows(target)
            for name in (metric_row.column, *columns_of(metric_row).values())
        ),
    }
    metric_slices = [Slice(ALL)]
    for segment in target.spec.by:
        column = free_name(name_in_views(segment), used_names.__contains__)
        used_names.add(column)
        metric_slices.append(Slice(segment, column))
    return metric_slices


def facts(target: Target) -> str:
    """The fact table's name, quoted as its database does it.

    Raises:
        SpecError: If the spec has no output.
    """
    return Translation(target.dialect).name(targets(target.spec)["facts"])


def query(target: Target, metric_slice: Slice) -> str:
    """One row a day, system and value of the segment; a column for each part of each metric."""
    view = {
        "facts": targets(target.spec)["facts"],
        "spec": target.spec.title,
        "slice": metric_slice,
        "parts": [
            (is_row(row), part, column)
            for row in rows(target)
            for part, column in columns_of(row).items()
        ],
    }
    return Translation(target.dialect).text(finished(print_template("exports/slice", view)))


def select(
    target: Target, metric_slice: Slice, columns: Iterable[Column], *more_conditions: str
) -> str:
    """The rows of a slice as the fact table has them, with its day, system and segment first."""
    keys = [Column("metric_date", "metric_date"), Column("system", "system")]
    if metric_slice.column:
        keys.append(Column("segment_value", identifier(metric_slice.column)))
    view = {
        "columns": [*keys, *columns],
        "facts": targets(target.spec)["facts"],
        "conditions": [*conditions(target, metric_slice), *more_conditions],
    }
    translation = Translation(target.dialect)
    return translation.text(finished(print_template("exports/rows", view))).rstrip()


def conditions(target: Target, metric_slice: Slice) -> list[str]:
    """What the rows of a slice meet in the fact table."""
    return [
        f"spec = {literal(target.spec.title)}",
        f"segment_name = {literal(metric_slice.segment)}",
    ]


def describe(target: Target, metric_slice: Slice) -> str:
    """What the rows of a slice are, in a sentence."""
    kind = f"by {metric_slice.segment}" if metric_slice.column else "of all queries"
    return f"Ranking metrics {kind}, of the spec {target.spec.title}."


def view_named(target: Target, suffix: str) -> str:
    """The name of a view of the spec beside its fact table, quoted as its database does it.

    Raises:
        SpecError: If the spec has no output.
    """
    facts = targets(target.spec)["facts"]
    name = bounded(beside_table(facts, f"{name_in_views(target.spec.title)}_{suffix}"))
    return Translation(target.dialect).name(name)
