"""Columns of the queries, and the day of a query, beside the rows that metrics sum over."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlmetrics.catalog.metric import DAY, Metric, is_column_role, query_column
from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.stage import equal
from sqlmetrics.sql.template import identifier

MICROS_A_DAY = "86400000000e0"

OF_LABELS = ("labels", "ideal")
"""Relations whose rows have a day only where the labels have one."""


def micros_of_day(shape: Shape, column: str) -> str:
    """A day as microseconds since 1970-01-01."""
    translation = shape.translation
    return translation.expression(translation.dialect.times.micros, f"cast({column} as date)")


@dataclass(frozen=True)
class QueryColumnsRead:
    """What metrics read of a query itself.

    Attributes:
        shape: What the tables hold.
    """

    shape: Shape

    def joins(self, table: str, texts: Iterable[str]) -> dict[str, list[str]]:
        """The queries table and what it is joined by, if a text reads a column of it.

        Args:
            table: The stage that the texts are of.
            texts: What is selected from it.
        """
        roles = [role for role in self.shape.columns.get("queries", {}) if is_column_role(role)]
        names = "|".join(re.escape(identifier(query_column(role))) for role in roles)
        if not names or not any(re.search(rf"(?<!\w)(?:{names})(?!\w)", text) for text in texts):
            return {}
        queries = self.shape.names["queries"]
        return {queries: equal(queries, table, self.shape.known_keys)}

    def with_day(self, text: str, table: str) -> str:
        """The text, with the day of a row of the table where a metric reads it."""
        day = f"{table}.metric_date"
        for need in self.shape.spec.needed:
            name, _, role = need.partition(".")
            if name == "day":
                is_text = role.startswith("text_")
                days = f"{micros_of_day(self.shape, day)} / {MICROS_A_DAY}"
                sql = f"cast({day} as varchar)" if is_text else f"({days})"
                text = re.sub(rf"\b{query_column(role)}\b", sql.replace("\\", r"\\"), text)
        return text

    def problems(self) -> Iterator[str]:
        """Metrics that read what differs by day beside labels that hold for every day."""
        if "metric_date" in self.shape.label_keys:
            return
        has_days = "metric_date" in self.shape.known_keys
        for measure in self.shape.spec.components:
            for metric in (measure.metric, *measure.metric.part_metrics.values()):
                column = _column_of_a_day(metric, has_days=has_days)
                if metric.over in OF_LABELS and column:
                    yield (
                        f"{measure} reads {column} beside labels, which hold for every day here; "
                        "name the labels' column of days as their date"
                    )


def _column_of_a_day(metric: Metric, *, has_days: bool) -> str:
    """A column of the queries that a metric reads and that may differ by day; empty for none."""
    for need in metric.needs if metric.template else ():
        table, _, role = need.partition(".")
        if table == "day" or (table == "queries" and has_days):
            return DAY if table == "day" else f"{role.partition('_')[2]} of the queries"
    return ""
