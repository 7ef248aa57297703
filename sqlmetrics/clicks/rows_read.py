"""Which rows of a log are read: those of the spec's condition, of some requests, of some days.

A job of some days chooses the requests of those days and reads their rows. Where a table says under
which day each row is stored, it reads no other days of it than those, and some to either side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from sqlmetrics.clicks.columns import Names
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.days import Days
from sqlmetrics.sql.template import verbatim

MARGIN = 1
"""So many days a row may be stored beside that of its request, unless it was said."""

DAY = 86400
"""Seconds of a day."""


@dataclass(frozen=True)
class RowsRead:
    """What the rows of a table meet that are read.

    Attributes:
        clicks: What was said of the log.
        names: What its columns are called.
        days: The days of the requests that are read; none if all are.
        chosen: The table of these requests.
    """

    clicks: Clicks
    names: Names
    days: Sequence[Days]
    chosen: str

    def where(self, table: str, *, all_requests: bool = False, all_days: bool = False) -> list[str]:
        """What the rows of `impressions`, `events` or `requests` meet.

        Args:
            table: Which of them.
            all_requests: Whether those of other requests are read too.
            all_days: Whether those that are stored under other days are read too.
        """
        condition = self.names.where.get(table)
        conditions = [f"({verbatim(condition)})"] if condition else []
        if self.days and not all_days:
            conditions += self._stored(table)
        if self.days and not all_requests:
            request = self.names.request(table)
            conditions.append(f"{request}\n        in (select request_id from {self.chosen})")
        return conditions

    def stored(self, table: str) -> str:
        """The column that says under which day a row is stored; empty if there is none."""
        return self.names.day(table)

    def margins(self, table: str) -> tuple[int, int | None]:
        """How many days before and after that of its request a row may be stored.

        After it, for events, as long as they may follow: for ever without `attribution_window`.
        """
        margin = MARGIN if self.clicks.day_margin is None else self.clicks.day_margin
        if table != "events" or self.clicks.log is not None:
            return margin, margin
        window = self.clicks.cleaning.attribution_window
        return margin, None if window is None else margin + ceil(window / DAY)

    def stored_on(self, table: str, column: str) -> str:
        """What the column of days meets that is read of a table, as one condition."""
        ranges = [days.around(column, *self.margins(table), self._later) for days in self.days]
        return "(" + " or ".join(" and ".join(conditions) for conditions in ranges) + ")"

    def _stored(self, table: str) -> Iterator[str]:
        column = self.stored(table)
        if not column:
            return
        ranges = [days.around(column, *self.margins(table), self._later) for days in self.days]
        if len(ranges) == 1:
            yield from ranges[0]
        else:
            yield (
                "(\n" + "\n    or ".join(" and ".join(conditions) for conditions in ranges) + "\n)"
            )

    def _later(self, day: str, number: int) -> str:
        translation = self.names.at
        times = translation.dialect.times
        moved = times.later.format(day=times.day.format(column=day), days=number)
        return translation.own_text(moved)
