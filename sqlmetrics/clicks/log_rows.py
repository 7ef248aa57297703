"""A click log: where its rows are, which of them are read, and what is done with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil

from sqlmetrics.clicks.columns import Names
from sqlmetrics.clicks.request_rows import RequestRows
from sqlmetrics.spec.click_columns import CLICK, PURCHASE
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.days import Days
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.template import verbatim

(
    *(NUMBERED, CHOSEN, BOTS, LOGGED, EXCLUDED, DEDUPLICATED, IRREGULAR, ATTRIBUTED, ANSWERS),
    ITEM_POSITIONS,
) = (
    f"sqlmetrics_{name}"
    for name in (
        *("numbered_log", "chosen_requests", "bots", "logged_requests", "excluded_requests"),
        *("deduplicated", "irregular_requests", "attributed_events", "answers"),
        "item_positions",
    )
)
"""Tables that are kept while a log is worked on."""


MARGIN = 1
"""So many days a row may be stored beside that of its request, unless it was said."""

DAY = 86400
"""Seconds of a day."""


@dataclass(frozen=True)
class LogRows:
    """The rows of a click log, as far as what was said of it tells.

    Attributes:
        clicks: What was said of it.
        impressions: Where the impressions are.
        events: Where the events are; the same in a wide table.
        names: What the columns are called there.
        requests: Where the requests are, if they are known.
        unnumbered: A wide table without requests; impressions and events are then read from
            its numbered copy.
        only_days: Whether only requests of the days that count are read. The report of a log
            counts what was cleaned on all days.
        near: Where `impressions`, `events` and `requests` are of those days, if that is said.
        measured: The actions that metrics name, be it also as labels or success.
        is_fast: Whether the SQL may use hashes and bits of DuckDB for speed, as what runs does;
            what is printed does not.
    """

    clicks: Clicks
    names: Names
    impressions: Relation
    events: Relation
    requests: Relation | None = None
    unnumbered: Relation | None = None
    only_days: bool = False
    near: Mapping[str, Relation] = field(default_factory=dict)
    measured: tuple[str, ...] = ()
    is_fast: bool = False

    @cached_property
    def rows(self) -> RequestRows:
        """What is kept of a request."""
        return RequestRows(self.clicks, self.names, is_hashed=self.is_hashed)

    @property
    def is_hashed(self) -> bool:
        """Whether rows are told apart by hashes of DuckDB, of which equal texts have one."""
        return self.is_fast and not self.names.at.changes

    @property
    def counts_requests(self) -> bool:
        """Whether what is counted of a request in order follows from its one row.

        It does not where what nobody looked at is left out: that depends on what was done.
        """
        return self.clicks.cleaning.unseen is None

    @cached_property
    def event_counts(self) -> Mapping[str, str]:
        """Action -> the column of answers that counts its events."""
        actions = self.names.done or self.answering
        return {action: f"n_events_{number}" for number, action in enumerate(actions, 1)}

    @property
    def counted_actions(self) -> Mapping[str, str]:
        """The same, if some events may be repeated."""
        return self.event_counts if self.clicks.cleaning.deduplicate else {}

    def relation(self, table: str, *, all_days: bool = False) -> Relation | None:
        """Where `impressions`, `events` or `requests` are, of the days that are read or of all."""
        relation_by_table = {
            "impressions": self.impressions,
            "events": self.events,
            "requests": self.requests,
        }
        return (
            relation_by_table[table] if all_days else self.near.get(table, relation_by_table[table])
        )

    def sources(self, *, of_all_days: bool = False) -> dict[str, str]:
        """`impressions`, `events` and `requests` -> their rows that are read, for FROM."""
        relation_by_table = {
            table: self.relation(table, all_days=of_all_days)
            for table in ("impressions", "events", "requests")
            if table != "events" or self.clicks.log is None  # else the same rows
        }
        return {
            table: source_text(
                relation,
                " and ".join(
                    self.read.where(
                        table,
                        all_requests=of_all_days or table == "requests",
                        all_days=of_all_days,
                    )
                ),
            )
            for table, relation in relation_by_table.items()
            if relation is not None
        }

    def reads(self, table: str) -> bool:
        """Whether the times of a table may be unreadable: they are texts or numbers."""
        return table in self.names.read

    @property
    def bots(self) -> bool:
        """Whether users may be bots."""
        return self.clicks.cleaning.max_events_per_user_hour is not None

    @property
    def bots_by_day(self) -> bool:
        """Whether a bot is one on the days of its busy hours alone."""
        return self.bots and self.clicks.cleaning.bots_of == "day"

    @property
    def leaves_out(self) -> bool:
        """Whether whole requests may be left out."""
        return self.bots or self.clicks.cleaning.test is not None

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """The actions that are looked at."""
        return (*self.answering, *self.only_measured)

    @cached_property
    def only_measured(self) -> tuple[str, ...]:
        """Those of metrics alone: no label, bot or limit of positions depends on them."""
        others = {*self.answering, *self.names.done}
        return tuple(action for action in dict.fromkeys(self.measured) if action not in others)

    @cached_property
    def answering(self) -> tuple[str, ...]:
        """Those that make an answer: clicks and purchases, and those of labels and of success."""
        return tuple(
            dict.fromkeys(
                [CLICK, *self.clicks.labels.grades, PURCHASE, *self.clicks.success_actions]
            )
        )

    @property
    def days(self) -> Sequence[Days]:
        """The days of the requests that are read; none if all are."""
        labels = self.clicks.labels
        days = [self.clicks.evaluation, *([labels.window] if labels.pools else [])]
        day_ranges = [day_range for day_range in days if day_range is not None]
        return day_ranges if self.only_days and len(day_ranges) == len(days) else ()

    @cached_property
    def read(self) -> RowsRead:
        """Which rows are read."""
        return RowsRead(self.clicks, self.names, self.days, CHOSEN)


@dataclass(frozen=True)
class RowsRead:
    """What the rows of a table meet that are read.

    A job of some days chooses the requests of those days and reads their rows. Where a table says
    under which day each row is stored, it reads no other days of it than those, and some to
    either side.

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
