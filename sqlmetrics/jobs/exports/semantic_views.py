"""Snowflake: a semantic view of all queries and one by each segment, with a metric per metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import indent

from sqlmetrics.catalog.dimension import NEVER, RATIO, MetricRow
from sqlmetrics.jobs.changes import quote_text
from sqlmetrics.jobs.exports.slices import (
    Slice,
    combine,
    describe,
    describe_metric,
    is_row,
    rows,
    select,
    slices,
    synonyms,
    view_named,
)
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.views import create_view
from sqlmetrics.sql.stage import Column, print_template
from sqlmetrics.sql.template import identifier
from sqlmetrics.sql.translation import Translation

HEADER = "made by: sqlmetrics export snowflake; not run on Snowflake"

TABLE = "ranking_metrics"
"""What the logical table of each view is called."""

COLUMNS = ("metric", "k", "value", "numerator", "denominator")
"""What the table has beside its dimensions."""


@dataclass(frozen=True)
class Expression:
    """A fact, a dimension or a metric.

    Attributes:
        name: Its name.
        sql: Its SQL, in DuckDB's words.
        meaning: What people are told of it.
        synonyms: Its other names.
    """

    name: str
    sql: str
    meaning: str
    synonyms: Sequence[str] = ()

    def text(self, translation: Translation, modifier: str = "") -> str:
        """The expression as Snowflake writes it."""
        name = f"{modifier}{TABLE}.{translation.value(identifier(self.name))}"
        names = ", ".join(quote_text(translation, text) for text in self.synonyms)
        parts = [
            name,
            f"as {translation.value(self.sql)}",
            *([f"with synonyms = ({names})"] if names else []),
            f"comment = {quote_text(translation, self.meaning)}",
        ]
        return indent("\n    ".join(parts), " " * 8).lstrip()


def files(target: Target) -> dict[str, str]:
    """The statements that make the semantic views, and the views of rows that they are over.

    Raises:
        SpecError: If the spec has no output.
    """
    statements = [
        statement
        for metric_slice in slices(target)
        for statement in _statements(target, metric_slice)
    ]
    text = "".join(f"\n{statement};\n" for statement in statements)
    return {"ranking_metrics_semantic_views.sql": f"-- {HEADER}\n{text}"}


def _statements(target: Target, metric_slice: Slice) -> Iterator[str]:
    translation, about = Translation(target.dialect), describe(target, metric_slice)
    rows_name = view_named(target, f"{metric_slice.key}_rows")
    query = select(target, metric_slice, (Column(name, name) for name in COLUMNS))
    yield from create_view(translation, rows_name, query, f"{about} A row per metric.")

    def texts(expressions: Iterable[Expression], modifier: str = "") -> list[str]:
        return [expression.text(translation, modifier) for expression in expressions]

    view = {
        "name": view_named(target, f"{metric_slice.key}_semantic_view"),
        "table": TABLE,
        "rows": rows_name,
        "rows_comment": quote_text(translation, "A row per day, system and metric."),
        "facts": texts(
            (fact for metric_row in rows(target) for fact in _facts(metric_row)), "private "
        ),
        "dimensions": texts(_dimensions(metric_slice)),
        "metrics": texts(map(_metric, rows(target))),
        "comment": quote_text(translation, about),
    }
    yield print_template("exports/semantic_view", view)


def _dimensions(metric_slice: Slice) -> Iterator[Expression]:
    yield Expression("metric_date", "metric_date", "Day of the rankings.", ["date", "day"])
    yield Expression("system", "system", "What made the rankings.", ["model", "ranker"])
    if metric_slice.column:
        about = f"Value of the segment {metric_slice.segment}."
        yield Expression(metric_slice.column, identifier(metric_slice.column), about)


def _parts(metric_row: MetricRow) -> tuple[str, ...]:
    return ("numerator", "denominator") if metric_row.roll_up == RATIO else ("value",)


def _facts(metric_row: MetricRow) -> Iterator[Expression]:
    """The parts of a metric, which are NULL in the rows of others."""
    for part in _parts(metric_row):
        yield Expression(
            f"{metric_row.column}_{part}",
            f"case when {is_row(metric_row)} then {part} end",
            f"{part.capitalize()} of {metric_row.name}.",
        )
    if metric_row.roll_up == NEVER:
        yield Expression(
            f"{metric_row.column}_rows",
            f"case when {is_row(metric_row)} then 1 end",
            f"1 in a row of {metric_row.name}.",
        )


def _metric(metric_row: MetricRow) -> Expression:
    parts = {part: f"{TABLE}.{metric_row.column}_{part}" for part in _parts(metric_row)}
    return Expression(
        metric_row.column,
        combine(metric_row, parts, f"count({TABLE}.{metric_row.column}_rows)"),
        f"{metric_row.label}: {describe_metric(metric_row)}",
        synonyms(metric_row),
    )
