"""The rows of one spec and one segment, so that no query counts twice: what tools are given."""

from __future__ import annotations

from dataclasses import dataclass

from sqlmetrics.catalog.dimension import MetricRow
from sqlmetrics.jobs.definitions import described
from sqlmetrics.jobs.exports.sums import columns_of, is_row
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.spec_views import own_name
from sqlmetrics.jobs.tables import targets
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import finished, free_name
from sqlmetrics.sql.translation import Translation

ALL = "all"
"""The segment_name of the rows that stand for all queries."""

TAKEN = ("metric_date", "system", "n_queries", "value", "numerator", "denominator")
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
        *(name for metric_row in rows(target) for name in columns_of(metric_row).values()),
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
