"""Databricks: a metric view of all queries and one by each segment, with a measure per metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlmetrics.catalog.dimension import TOTAL, MetricRow
from sqlmetrics.jobs.changes import quote_text
from sqlmetrics.jobs.exports.slices import (
    Slice,
    conditions,
    describe,
    describe_metric,
    facts,
    over_facts,
    rows,
    slices,
    synonyms,
    view_named,
)
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.exports.yaml_text import Block, Quoted, yaml_text
from sqlmetrics.sql.translation import Translation

HEADER = "made by: sqlmetrics export databricks; not run on Databricks"

N_SYNONYMS, LONGEST = 10, 255
"""As many synonyms a measure may have, and as many letters each of them and a display name."""


def files(target: Target) -> dict[str, str]:
    """The statements that make the metric views.

    Raises:
        SpecError: If the spec has no output.
    """
    views = "\n".join(_statement(target, metric_slice) for metric_slice in slices(target))
    return {"ranking_metrics_metric_views.sql": f"-- {HEADER}\n\n{views}"}


def _statement(target: Target, metric_slice: Slice) -> str:
    name = view_named(target, f"{metric_slice.key}_metric_view")
    has_metadata = target.dialect.name == "databricks"
    about = describe(target, metric_slice)
    comment = "" if has_metadata else f"comment {quote_text(Translation(target.dialect), about)}\n"
    view = _view(target, metric_slice)
    definition = yaml_text(view if has_metadata else _without_metadata(view)).replace(
        "$$", r"$\x24"
    )
    return (
        f"create or replace view {name}\nwith metrics\nlanguage yaml\n{comment}"
        f"as $$\n{definition}$$;\n"
    )


def _view(target: Target, metric_slice: Slice) -> dict[str, Any]:
    """The definition by version 1.1 of Databricks' specification."""
    translation = Translation(target.dialect)
    where = " and ".join(map(translation.value, conditions(target, metric_slice)))
    dimensions = [
        _column("metric_date", "metric_date", "Day", "Day of the rankings.", ["date", "day"])
        | {"format": {"type": "date", "date_format": "year_month_day", "leading_zeros": True}},
        _column("system", "system", "System", "What made the rankings.", ["model", "ranker"]),
    ]
    if metric_slice.column:
        about = f"Value of the segment {metric_slice.segment}."
        dimensions.append(
            _column(metric_slice.column, "segment_value", metric_slice.segment, about)
        )
    return {
        "version": "1.1",
        "comment": _text(describe(target, metric_slice)),
        "source": _text(facts(target)),
        "filter": _text(where),
        "dimensions": dimensions,
        "measures": [_measure(translation, metric_row) for metric_row in rows(target)],
    }


def _measure(translation: Translation, metric_row: MetricRow) -> dict[str, Any]:
    column = _column(
        metric_row.column,
        translation.value(over_facts(metric_row)),
        metric_row.label,
        describe_metric(metric_row),
        synonyms(metric_row),
    )
    decimals = {"type": "max" if metric_row.roll_up == TOTAL else "exact", "places": 4}
    return column | {"format": {"type": "number", "decimal_places": decimals}}


def _column(
    name: str, expression: str, title: str, about: str, other_names: Sequence[str] = ()
) -> dict[str, Any]:
    """A dimension or a measure."""
    synonyms = [_text(text) for text in other_names if text != title and len(text) <= LONGEST]
    return {
        "name": _text(name),
        "expr": _text(expression),
        "comment": _text(about),
        "display_name": _text(title[:LONGEST]),
    } | ({"synonyms": synonyms[:N_SYNONYMS]} if synonyms else {})


def _text(text: str) -> str:
    """A text that does not end the definition, which stands between dollars."""
    if "$$" in text:
        return Quoted(text)
    return Block(text) if "\n" in text else text


def _without_metadata(view: Mapping[str, Any]) -> dict[str, Any]:
    """The definition by version 0.1 of the specification, which Apache Spark reads."""
    columns = {
        kind: [{key: column[key] for key in ("name", "expr")} for column in view[kind]]
        for kind in ("dimensions", "measures")
    }
    return {"version": "0.1", "source": view["source"], "filter": view["filter"]} | columns
