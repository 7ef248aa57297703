"""The rows of one spec and one segment, so that no query counts twice: what tools are given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlmetrics.catalog.dimension import MetricRow
from sqlmetrics.jobs.definitions import described
from sqlmetrics.jobs.exports.sums import columns_of, is_row
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.spec_views import bounded, own_name
from sqlmetrics.jobs.tables import targets
from sqlmetrics.spec.source import beside_table
from sqlmetrics.sql.stage import Column, print_template
from sqlmetrics.sql.template import finished, free_name, identifier, literal
from sqlmetrics.sql.translation import Translation

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
        column = free_name(own_name(segment), used_names.__contains__)
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
    name = bounded(beside_table(facts, f"{own_name(target.spec.title)}_{suffix}"))
    return Translation(target.dialect).name(name)
