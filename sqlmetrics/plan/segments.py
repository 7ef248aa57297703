"""What the segments of a spec are made of: columns, conditions, or what is known of a query.

rankings, queries ─> columns and conditions, and the length of a query's text
label_sums ────────> how many labels of a query are relevant
queries_by_traffic ─> head, torso and tail: where a query begins when all stand by falling
                      weight: in the first third of all traffic, the second, or the last
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlmetrics.spec.segments import KINDS, QUERY_LENGTH, RELEVANT_LABELS, TRAFFIC
from sqlmetrics.spec.source import Queries, QueryColumns
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import Dialect
from sqlmetrics.sql.stage import Column, Stage, Window
from sqlmetrics.sql.template import identifier, verbatim
from sqlmetrics.sql.translation import Translation

Segment = tuple[str, str, list[str]]
"""Its name, its value as SQL, and the columns that it is grouped by."""

SEGMENT = ("segment_name", "segment_value")

UNKNOWN = "(unknown)"
"""The value of a segment for a query of which it is not known."""

BY_TRAFFIC = "queries_by_traffic"

THIRDS = """case
    when {above} * 3e0 < {total} then 'head'
    when {above} * 3e0 < {total} * 2e0 then 'torso'
    else 'tail'
end"""
"""The part of the traffic that a query begins in, by what stands above it and by all."""


_LENGTH = """case
    when {column} is null then '(unknown)'
    when trim({column}) = '' then '0'
    else
        case length(replace(
            replace(replace(trim({column}), '   ', ' '), '  ', ' '), '  ', ' '
        )) - length(replace({column}, ' ', ''))
            when 0 then '1'
            when 1 then '2'
            when 2 then '3-4'
            when 3 then '3-4'
            else '5+'
        end
end"""
"""How many words a text has, which up to 12 blanks are between, in words that all dialects have."""


@dataclass(frozen=True)
class Segments:
    """The segments that a spec asks for.

    Attributes:
        spec: What was asked.
        trace_queries: What traces say of their queries, if the spec names no table of them.
        are_values: Whether the rankings have the values of conditions, in columns of `by_` and
            the name, and not what these are made of.
    """

    spec: Spec
    trace_queries: Queries | None = None
    are_values: bool = False

    def of(self, table: str) -> tuple[str, ...]:
        """Those whose values stand in the rows of a table, `rankings` or `queries`."""
        return tuple(name for name in self.spec.query_columns if self._table(name) == table)

    def kind(self, name: str) -> str:
        """`traffic`, `relevant_labels`, `query_length`; empty for a column or a condition."""
        text = self.spec.segments.get(name, "")
        return text if text in KINDS else ""

    def having(self, kind: str) -> str:
        """The first segment of a kind, empty if there is none."""
        return next((name for name in self.spec.query_columns if self.kind(name) == kind), "")

    def _table(self, name: str) -> str:
        """Where a segment stands: a condition is one on `queries`, where there is such a table."""
        if name not in self.spec.segments:
            listed = self._query_columns.segments if self._query_columns else ()
            return "queries" if name in listed else "rankings"
        kind = self.kind(name)
        if kind in (TRAFFIC, RELEVANT_LABELS):
            return ""
        return "queries" if kind or self._query_columns else "rankings"

    @property
    def _query_columns(self) -> QueryColumns | None:
        """The columns of the table of queries, if there is one."""
        queries = self.spec.queries or self.trace_queries
        return queries.columns if queries else None

    @cached_property
    def text(self) -> str:
        """The column of the queries' texts, empty if no segment needs it, or there is none."""
        columns = self._query_columns
        return (columns.text or "") if columns and self.having(QUERY_LENGTH) else ""

    def columns(self, table: str, dialect: Dialect) -> dict[str, str]:
        """What segments are made of in a table: what to call it -> its column."""
        column_by_use: dict[str, str] = {}
        for name in self.of(table):
            if name not in self.spec.segments:
                column_by_use[f"segment {name}" if name in self.spec.by else "the cluster"] = name
            elif not self.kind(name):
                from sqlmetrics.sql.transpile import columns_named

                condition_columns = columns_named(self.spec.segments[name], dialect)
                column_by_use |= {
                    f"part of segment {name}: {column}": column for column in condition_columns
                }
        return column_by_use

    def value(self, name: str, translation: Translation) -> str:
        """The value of a segment in a row of its table, as SQL; NULL where it is not known."""
        if name not in self.spec.segments:
            return f"cast({identifier(name)} as varchar)"
        if self.are_values and self._table(name) == "rankings":
            return identifier(f"by_{name}")
        if self.kind(name) == QUERY_LENGTH:
            return translation.expression(_LENGTH, f"cast({identifier(self.text)} as varchar)")
        met, unmet = (verbatim(translation.condition(self.spec.segments[name])) for _ in range(2))
        return f"case\n    when {met} then 'true'\n    when not ({unmet}) then 'false'\nend"

    def fact(self, name: str, relevant: str) -> str:
        """The value for a query of a segment that stands in no table's rows.

        Args:
            name: Which.
            relevant: The number of the query's relevant labels, as SQL.
        """
        if self.kind(name) == TRAFFIC:
            above, total = (f"{BY_TRAFFIC}.{column}" for column in ("above", "total"))
            whens = THIRDS.format(above=above, total=total)
            return whens.replace("case", f"case\n    when {above} is null then '{UNKNOWN}'", 1)
        return (
            f"case\n    when coalesce({relevant}, 0e0) < 1e0 then '0'\n"
            f"    when {relevant} < 2e0 then '1'\n    when {relevant} < 6e0 then '2-5'\n"
            "    else '6+'\nend"
        )

    def problems(self, *, weighted: bool) -> Iterator[str]:
        """What segments need and have not."""
        name = self.having(TRAFFIC)
        if name and not weighted:
            yield (
                f"segments.{name}: head, torso and tail need the traffic of each query; name its "
                "column as weight in rankings.columns or queries.columns"
            )
        name = self.having(QUERY_LENGTH)
        if name and not self.text:
            yield (
                f"segments.{name}: the length of queries needs their texts; name the column in "
                "queries.columns.text"
            )


def by_traffic(source: str, keys: tuple[str, ...]) -> Stage:
    """One row per query: the traffic of those that have more of it, and of all.

    Args:
        source: A stage with one row per query and its `weight`.
        keys: What identifies a row; every day has its own head.
    """
    days = [key for key in keys if key != "query_id"]
    order = ["weight desc", *(f"{key} asc" for key in keys if key == "query_id")]
    above = Window(days, order, "unbounded preceding", "1 preceding")
    columns = [
        *keys,
        Column(f"coalesce(sum(weight) over {above}, 0e0)", "above"),
        Column(f"sum(weight) over {Window(days)}", "total"),
    ]
    about = "one row per query: the traffic of the queries with more, and of all queries"
    view = {"about": about, "columns": columns, "from": source, "where": ""}
    return Stage(BY_TRAFFIC, "columns", view)
