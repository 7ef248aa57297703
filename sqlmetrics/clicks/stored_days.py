"""Whether rows are stored under the days of their requests, as far as a run of some days tells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.spec.days import is_day
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.tables.cells import many

DAY = 86_400_000_000
"""Microseconds of a day."""


def problems(tables: ClickTables, engine: Database) -> Iterator[Problem]:
    """Columns of days that are none, and rows whose time lies further from them than was said.

    Args:
        tables: The stages of the log; nothing is looked at unless they are of some days alone.
        engine: Their database.
    """
    if not tables.read.days:
        return
    for table in ("impressions", "events", "requests"):
        relation = tables.relation(table)
        if table == "events" and tables.clicks.log is not None:
            continue  # the same rows
        if relation is not None and tables.read.stored(table):
            source = "log" if tables.clicks.log is not None else table
            look = _Look(tables, table, source, relation, engine)
            no_day = look.no_day()
            yield from [no_day] if no_day else look.far()


@dataclass(frozen=True)
class _Look:
    """A look at a table that is stored by day.

    Attributes:
        tables: The stages of the log.
        table: Its name there.
        source: And in the spec.
        relation: Where it is.
        engine: Its database.
    """

    tables: ClickTables
    table: str
    source: str
    relation: Relation
    engine: Database

    @property
    def _column(self) -> str:
        return self.tables.read.stored(self.table)

    def no_day(self) -> Problem | None:
        """What is wrong with the column itself, by its first value."""
        select = f"select cast({self._column} as varchar) from {source_text(self.relation)}"
        rows = self.engine.rows(f"{select} where {self._column} is not null limit 1")
        if not rows or is_day(rows[0][0]):
            return None
        name = self.tables.clicks.day_column(self.source)
        message = (
            f"{name} has {rows[0][0]!r}, and is wanted as day: a date, or a text like 2026-01-31"
        )
        return Problem(self.source, message, 1, remedy=f"make {name} a date in sql")

    def far(self) -> Iterator[Problem]:
        """Rows that are stored beyond the margin: others, which are not read, may be so too."""
        names, (before, after) = self.tables.names, self.tables.read.margins(self.table)
        # DuckDB alone tells the microseconds of no text
        day = self._column if names.at.changes else f"cast({self._column} as date)"
        stored = names.at.expression(names.at.dialect.times.micros, day)
        time = names.local_moment(self.table)
        far = f"{time} < {stored} - {before * DAY}"
        if after is not None:
            far += f" or {time} >= {stored} + {(after + 1) * DAY}"
        examples = ", ".join(
            f"min(case when {far} then cast({column} as varchar) end) as {name}"
            for name, column in (("its_day", self._column), ("its_time", names.time(self.table)))
        )
        read = " and ".join(self.tables.read.where(self.table, all_requests=True))
        ((count, its_day, its_time),) = self.engine.rows(
            f"select sum(case when {far} then 1 else 0 end) as n, {examples} "
            f"from {source_text(self.relation, read)}"
        )
        if count:
            message = (
                f"{many(int(count), 'row')} stored further from their time than "
                f"{many(before, 'day')}, like {its_day} for {its_time}: others may not be read"
            )
            remedy = f"give clicks.day_margin: {before + 1} or more, or leave out columns.day"
            yield Problem(self.source, message, int(count), remedy=remedy)
