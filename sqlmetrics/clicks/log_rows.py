"""A click log: where its rows are, which of them are read, and what is done with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

from sqlmetrics.clicks.columns import SESSION, Names
from sqlmetrics.spec.click_columns import CLICK, PURCHASE
from sqlmetrics.spec.click_log import RANKINGS, Clicks
from sqlmetrics.spec.days import Days
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import Column
from sqlmetrics.sql.template import identifier, lines, verbatim

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.engines.database import Database


# What is kept of a request: how much was logged, between which positions, of whom, its query.

KEYS = ("request_id", "item_id", "position")
"""What an impression must have."""


QUERY_TEXT = "query_text"
"""What was asked."""


@dataclass(frozen=True)
class RequestRows:
    """The columns of `logged_requests`, one row per request.

    Attributes:
        clicks: What was said of the log.
        names: What its columns are called.
        is_hashed: Whether rows are told apart by hashes.
    """

    clicks: Clicks
    names: Names
    is_hashed: bool = False

    @property
    def facts(self) -> list[str]:
        """What is known of a request beside its items, the least of several texts."""
        session = [SESSION] * self.names.has_sessions
        return [*["metric_date"] * self.clicks.daily, "system", *session, *self.names.segments]

    @property
    def may_divide(self) -> bool:
        """Whether the rows of a request may be of several lists, or of none."""
        return bool(self._one_list)

    @property
    def _texts(self) -> list[str]:
        """The facts that all rows of a list share as a rule."""
        systems = ["system"] * ("system" in self.names.impressions)
        return [*systems, *(fact for fact in self.facts if fact not in ("metric_date", "system"))]

    @property
    def _one_list(self) -> list[str]:
        """What the rows of a request meet that is one list of a system and a day."""
        has_systems, daily = "system" in self.names.impressions, self.clicks.daily
        of_system = ["count(system) = count(*)", "min(system) = max(system)"] * has_systems
        if self.is_hashed:
            # Rows without a system have a hash of their own.
            of_system = ["any_value(system) is not null"] * has_systems
            of_system += ["min(texts_hash) = max(texts_hash)"] * bool(self._texts)
        return [*of_system, *["min(metric_date) is not null"] * daily]

    def _fact(self, name: str) -> Column:
        """A fact of a request in order; where texts differ, DuckDB looks at it again."""
        is_one = self.is_hashed and name != "metric_date"
        return Column(f"{'any_value' if is_one else 'min'}({name})", name)

    @property
    def view(self) -> Mapping[str, Any]:
        """What the template of the stage prints."""
        between = "\n                and "
        conditions = [f"{key} is not null" for key in KEYS]
        counts = {"n_shown": between.join(conditions)}
        if "impressions" in self.names.read:
            counts = {"n_whole": counts["n_shown"]}
            counts["n_shown"] = between.join([*conditions, "is_unread = 0"])
        starts = ["shown_at"] if self.clicks.evaluation else []
        return {
            "counts": counts,
            "one_list": self._one_list,
            "facts": [
                *(Column(f"min({name})", "started_at") for name in starts),
                *map(self._fact, self.facts),
            ],
            "hashed": self._texts if self.is_hashed else [],
        }

    @property
    def counts(self) -> list[str]:
        """The columns that count the rows of a request, the wider first."""
        has_whole = "impressions" in self.names.read
        return ["n_logged", *["n_whole"] * has_whole, "n_shown"]

    @property
    def left_out(self) -> Mapping[str, str]:
        """Why rows of a request are left out by themselves -> how many, as SQL."""
        reasons = ["incomplete", *["unreadable time"] * (len(self.counts) - 2)]
        pairs = zip(reasons, self.counts[:-1], self.counts[1:], strict=True)
        return {reason: f"{before} - {after}" for reason, before, after in pairs}


def request_columns(spec: Spec, keys: Iterable[str]) -> list[str]:
    """The query's text and the segments that a click log has; none of another spec.

    Args:
        spec: What is asked; a segment that is called as one of its metrics is left out.
        keys: The keys of the table, likewise.
    """
    columns = spec.clicks.columns if spec.clicks else None
    if columns is None:
        return []
    used_names = {
        name.casefold() for name in (*keys, *(measure.column for measure in spec.measures))
    }
    candidates = (*[QUERY_TEXT] * (columns.query is not None), *columns.segments)
    return [name for name in dict.fromkeys(candidates) if name.casefold() not in used_names]


def of_requests(names: Iterable[str], key: str = "query_id") -> str:
    """A `select` of these columns, one row a request, while the log's lists are there.

    Args:
        names: The columns.
        key: What the request is called.
    """
    value_columns = [Column(f"min({identifier(name)})", identifier(name)) for name in names]
    columns = lines([Column("query_id", key), *value_columns])
    return f"select\n    {columns}\nfrom {RANKINGS}\ngroup by query_id"


def with_requests(per_query: pa.Table, spec: Spec, engine: Database) -> pa.Table:
    """A table of one row per request with these columns.

    Args:
        per_query: The table.
        spec: What was asked.
        engine: Where the log's lists are.
    """
    names = request_columns(spec, per_query.column_names)
    if not names:
        return per_query
    return per_query.join(engine.table(of_requests(names)), keys="query_id")


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
        actions = self.names.condition_by_action or self.answering
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
        column_actions = {*self.answering, *self.names.condition_by_action}
        return tuple(
            action for action in dict.fromkeys(self.measured) if action not in column_actions
        )

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
        ranges = self._ranges(table, column)
        return "(" + " or ".join(" and ".join(conditions) for conditions in ranges) + ")"

    def _stored(self, table: str) -> Iterator[str]:
        column = self.stored(table)
        if not column:
            return
        ranges = self._ranges(table, column)
        if len(ranges) == 1:
            yield from ranges[0]
        else:
            yield (
                "(\n" + "\n    or ".join(" and ".join(conditions) for conditions in ranges) + "\n)"
            )

    def _ranges(self, table: str, column: str) -> list[list[str]]:
        margins, is_date = self.margins(table), table in self.names.dated
        return [days.around(column, *margins, self._later, is_date=is_date) for days in self.days]

    def _later(self, day: str, number: int) -> str:
        translation = self.names.at
        times = translation.dialect.times
        moved = times.later.format(day=times.day.format(column=day), days=number)
        return translation.user_text(moved)
