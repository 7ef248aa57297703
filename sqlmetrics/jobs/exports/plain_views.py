"""Plain SQL: a view for each metric and segment, for tools that know nothing but tables."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.catalog.dimension import RATIO, MetricRow
from sqlmetrics.jobs.exports.slices import (
    Slice,
    describe_value,
    is_row,
    rows,
    select,
    slices,
    view_named,
)
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.views import create_view
from sqlmetrics.sql.stage import Column
from sqlmetrics.sql.template import identifier
from sqlmetrics.sql.translation import Translation

RATIO_COLUMNS = ("ci_low", "ci_high", "numerator", "denominator", "n_queries")
"""What stands beside the value of a ratio."""

ROLL_UP = {
    "ratio": "Over several rows: sum(numerator) / sum(denominator), never an average.",
    "total": "Over several rows: their sum.",
    "none": "Over several rows it has to be computed anew.",
}
"""What a view says of it."""


def files(target: Target) -> dict[str, str]:
    """The file of the views.

    Raises:
        SpecError: If the spec has no output.
    """
    statements = [
        statement
        for metric_row in rows(target)
        for metric_slice in slices(target)
        for statement in _statements(target, metric_row, metric_slice)
    ]
    text = "".join(f"\n{statement};\n" for statement in statements)
    return {"ranking_metrics_views.sql": f"-- made by: sqlmetrics export views\n{text}"}


def _statements(target: Target, metric_row: MetricRow, metric_slice: Slice) -> Iterator[str]:
    end = f"_{metric_slice.key}" if metric_slice.column else ""
    names = RATIO_COLUMNS if metric_row.roll_up == RATIO else ("n_queries",)
    columns = [
        Column("value", identifier(metric_row.column)),
        *(Column(name, name) for name in names),
    ]
    meaning = f"{metric_row.label}: {describe_value(metric_row)} {ROLL_UP[metric_row.roll_up]}"
    query = select(target, metric_slice, columns, *is_row(metric_row).split(" and "))
    name = view_named(target, f"{metric_row.column}{end}")
    yield from create_view(Translation(target.dialect), name, query, meaning)
