"""What the columns of a log are called, and how they are read, whichever form it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import indent

from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.spec.click_columns import FirstPosition, TimeUnit
from sqlmetrics.spec.days import Days
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import Column, print_template
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.sql.timestamps import READERS, Reader
from sqlmetrics.sql.translation import Translation

# When something was logged: columns of times, and texts and numbers that are read as times.

MICROS, LOGGED = "sqlmetrics_micros", "sqlmetrics_time"
"""The columns that a table gains: its times, and the texts from which they are read."""

FACTORS: Mapping[str, str] = {"s": "1e6", "ms": "1e3", "us": "1e0", "ns": "1e-3"}
"""Unit -> how many microseconds it has."""

RANGES: Mapping[str, tuple[str, str]] = {
    "s": ("6e8", "1e10"),
    "ms": ("6e11", "1e13"),
    "us": ("6e14", "1e16"),
    "ns": ("6e17", "1e19"),
}
"""Unit -> numbers that are of it, if it is not said: the years 1989 to 2286. A day like 20260101
is none of them."""

TIMES = ("TIMESTAMP", "DATE")
TEXT_TYPES = ("VARCHAR", "JSON", "ENUM")
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
NUMBERS = (*INTEGERS, *(f"U{type_name}" for type_name in INTEGERS), "DOUBLE", "FLOAT", "DECIMAL")
"""How the types of columns begin, in DuckDB's words."""


@dataclass(frozen=True)
class Reading:
    """How a column becomes times.

    Attributes:
        column: Its name.
        unit: Of what numbers are, or `auto`.
        is_number: Whether all its values are numbers.
    """

    column: str
    unit: TimeUnit
    is_number: bool = False

    def of(self, relation: Relation, translation: Translation) -> Relation:
        """A table with its times beside its own columns.

        Raises:
            SpecError: If the database's texts cannot be read as times here.
        """
        reader = _reader(translation, self.column)
        column = identifier(self.column)
        number = f"cast({column if self.is_number else LOGGED} as double)"
        factor = indent(_factor(number, self.unit), "    ").lstrip()
        micros = f"cast(floor({number} * {factor} + 0.5e0) as bigint)"
        view = {
            "text": translation.expression(reader.text, column),
            "is_number": "" if self.is_number else translation.expression(reader.is_number, LOGGED),
            "of_number": micros,
            "of_text": ""
            if self.is_number
            else f"else {translation.expression(reader.micros, LOGGED)}",
            "logged": LOGGED,
            "micros": MICROS,
            "relation": relation,
        }
        return Relation("made", print_template("clicks/timed", view))


def reading(
    column: str | None, kind: str | None, unit: TimeUnit | None, translation: Translation
) -> Reading | None:
    """How a column is read; None if it has times already, or there is none.

    Args:
        column: Its name.
        kind: Its type in DuckDB's words; None if it is not known.
        unit: What was said of its numbers.
        translation: The dialect: SQLite's types say nothing of the values.

    Raises:
        InputError: If it can have no times.
    """
    if column is None or (kind is None and unit is None):
        return None
    type_name = (kind or "").upper()
    if translation.dialect.casts_texts or not type_name or type_name.startswith(TEXT_TYPES):
        return Reading(column, unit or "auto")
    if type_name.startswith(TIMES):
        return None
    if type_name.startswith(NUMBERS):
        return Reading(column, unit or "auto", is_number=True)
    raise InputError(
        f"{column} is used as time but has the type {kind}; give timestamps, texts like "
        "2026-01-31T08:00:00+08:00, or numbers since 1970"
    )


def day(translation: Translation, micros: str, template: str) -> str:
    """The day of a time in microseconds."""
    return translation.expression(template.format(column=_reader(translation, "").moment), micros)


def local(translation: Translation, micros: str, zone: str) -> str:
    """What clocks in a zone show at a time, both in microseconds, as SQL.

    Raises:
        SpecError: If the database cannot tell.
    """
    return translation.expression(_in_zone(translation, zone).local.replace("{zone}", zone), micros)


def local_day(translation: Translation, micros: str, zone: str) -> str:
    """The day that it is in a zone at a time in microseconds, as SQL.

    Raises:
        SpecError: If the database cannot tell.
    """
    return translation.expression(
        _in_zone(translation, zone).local_day.replace("{zone}", zone), micros
    )


def _in_zone(translation: Translation, zone: str) -> Reader:
    reader = READERS.get(translation.dialect.name)
    if reader is not None and reader.local:
        return reader
    raise SpecError(
        f"clicks.time_zone: {translation.dialect.title} cannot tell the days of {zone} "
        "here; leave it out, "
        "and give times as clocks there show them, without a zone, by sql: select ..., or by a view"
    )


def _factor(number: str, unit: TimeUnit) -> str:
    """What a number is multiplied by; NULL if it is of no unit."""
    if unit != "auto":
        return FACTORS[unit]
    whens = [
        f"    when {number} >= {first} and {number} < {end} then {FACTORS[name]}"
        for name, (first, end) in RANGES.items()
    ]
    return "\n".join(["case", *whens, "end"])


def _reader(translation: Translation, column: str) -> Reader:
    if translation.dialect.name in READERS:
        return READERS[translation.dialect.name]
    raise SpecError(
        f"{translation.dialect.title}: texts and numbers are not read as times here; "
        f"give {column or 'time'}"
        " as a timestamp, by sql: select ..., or by a view"
    )


NUMBER = "sqlmetrics_request"
"""The request of a wide table that has none: the number of the row."""

SESSION = "session_id"
"""The column of sessions."""

TEXTS = {
    "query": "query_text",
    "system": "system",
    "user": "user_id",
}
"""Roles that are texts -> their columns."""


@dataclass(frozen=True)
class Names:
    """Role -> SQL of its column, for impressions, events and requests.

    Attributes:
        impressions: Of the impressions.
        events: Of the events: `action` and what else is known; in a wide table without action.
        condition_by_action: Of a wide table: action -> what a row meets on which it was done.
        requests: Of the requests.
        segments: Columns of impressions (and requests) that are segments, as SQL.
        first_position: The position of the first item, or `each`.
        where: Table -> what its rows meet, of `impressions`, `events` and `requests`.
        has_texts: Whether positions are texts.
        read: Of which of these three the times are texts or numbers; they are read already.
        randomised: What the impressions meet that stood in random order; empty if none is asked.
        dated: Of which of these three rows are stored under dates that are compared with no text.
        at: The dialect of the database.
        zone: Whose days count; empty for UTC.
    """

    impressions: Mapping[str, str]
    events: Mapping[str, str]
    condition_by_action: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    segments: tuple[str, ...] = ()
    first_position: FirstPosition = 1
    where: Mapping[str, str] = field(default_factory=dict)
    has_texts: bool = False
    read: frozenset[str] = frozenset()
    dated: frozenset[str] = frozenset()
    at: Translation = field(default_factory=Translation)
    randomised: str = ""
    zone: str = ""

    @property
    def has_sessions(self) -> bool:
        """Whether it is known of which session a request is."""
        return "session" in self.impressions

    def has_visits(self, *roles: str) -> bool:
        """Whether times and these roles are known of all requests, also of those without a result.

        Args:
            roles: Like `query` and `session`.
        """
        tables = [self.impressions, *([self.requests] if self.requests else [])]
        return self.has_times and all({"time", *roles} <= table.keys() for table in tables)

    @property
    def visitor(self) -> str:
        """Whose searches are one visit: a session, where the log has them, else a user."""
        return "session" if self.has_sessions else "user"

    @property
    def has_amounts(self) -> bool:
        """Whether it is known what was paid."""
        return "amount" in self.events

    @property
    def has_stays(self) -> bool:
        """Whether it is known how long users stayed."""
        return "dwell" in self.events

    @property
    def position(self) -> str:
        """The position as logged; it is a whole number, also where it is a text."""
        position = self.impressions["position"]
        number = f"cast({position} as double)" if self.has_texts else position
        return f"cast({number} as bigint)"

    @property
    def has_times(self) -> bool:
        """Whether it is known when items were shown and when something was done."""
        return "time" in self.impressions and "time" in self.events

    @property
    def first_time(self) -> str:
        """When the first row of a request was logged, in microseconds."""
        return f"min({self.moment('requests')})"

    def request(self, table: str) -> str:
        """The request of a row of `impressions`, `events` or `requests`."""
        return f"cast({self._roles(table)['request']} as varchar)"

    def moment(self, table: str) -> str:
        """When such a row was logged, in microseconds."""
        sql_by_role = self._roles(table)
        if "time" not in sql_by_role:
            return "cast(null as bigint)"
        if table in self.read:
            return MICROS
        return self.at.expression(self.at.dialect.times.micros, sql_by_role["time"])

    def local_moment(self, table: str) -> str:
        """What clocks in the zone of the days show then, in microseconds."""
        return self._local(self.moment(table))

    def time(self, table: str) -> str:
        """The column of a table that says when something was logged."""
        return self._roles(table)["time"]

    def day(self, table: str) -> str:
        """The column of a table that says under which day a row is stored; empty without one."""
        return self._roles(table).get("day", "")

    def day_conditions(self, days: Days, micros: str) -> list[str]:
        """What a time in microseconds meets that lies in some days."""
        return days.conditions_on(micros, self.zone, self._local)

    def day_number(self, micros: str) -> str:
        """The day of a time in microseconds, counted from 1970."""
        return _floored(self._local(micros), "86400e6")

    def hour(self, micros: str) -> list[str]:
        """What tells the hour of a time in microseconds: its number since 1970, and its offset.

        An hour that clocks show twice is two hours.
        """
        local_micros = self._local(micros)
        return [
            _floored(local_micros, "3600e6"),
            *([f"{local_micros} - {micros}"] if self.zone else []),
        ]

    def _local(self, micros: str) -> str:
        return local(self.at, micros, self.zone) if self.zone else micros

    def unread(self, table: str) -> list[Column]:
        """Whether the time of such a row is there and cannot be read, where that can be."""
        if table not in self.read:
            return []
        is_unread = f"case when {LOGGED} is not null and {MICROS} is null then 1 else 0 end"
        return [Column(is_unread, "is_unread")]

    @property
    def day_of_time(self) -> str:
        """The day on which an item was shown, by its time."""
        return self._day("impressions")

    @property
    def logged(self) -> list[str]:
        """The names of the columns of an impression beside its position."""
        return [column.name for column in self.impression_columns()]

    def impression_columns(self) -> Iterator[Column]:
        """An impression's columns, under their own names, beside its position."""
        yield Column(self.request("impressions"), "request_id")
        yield Column(f"cast({self.impressions['item']} as varchar)", "item_id")
        yield from self._texts(self.impressions)
        yield Column(self.moment("impressions"), "shown_at")
        yield Column(self._day("impressions"), "metric_date")
        if "team" in self.impressions:
            yield Column(f"cast({self.impressions['team']} as varchar)", "picked_by")
        for role in ("propensity_score", "list_propensity_score"):
            if role in self.impressions:
                yield Column(f"cast({self.impressions[role]} as double)", role)
        if self.has_sessions:
            yield Column(f"cast({self.impressions['session']} as varchar)", SESSION)
        for name in self.segments:
            yield Column(f"cast({name} as varchar)", name)
        if self.randomised:
            yield Column(f"case when {self.randomised} then 1 else 0 end", "is_randomised")

    def request_columns(self, *, begun: bool = False) -> Iterator[Column]:
        """A request's columns, of the first of its rows; also when it began, if that is asked."""
        yield Column(self.request("requests"), "request_id")
        for column in self._texts(self.requests):
            yield Column(f"min({column.sql})", column.name)
        if begun:
            yield Column(self.first_time, "started_at")
        yield Column(f"min({self._day('requests')})", "day")
        results = self.requests.get("results", "0")
        yield Column(f"max(cast({results} as bigint))", "n_results")
        if self.has_sessions:
            session = self.requests.get("session", "null")
            yield Column(f"min(cast({session} as varchar))", SESSION)
        for name in self.segments:
            yield Column(f"min(cast({self._of_requests(name)} as varchar))", name)

    def _of_requests(self, segment: str) -> str:
        """The column of the requests that a segment is: of the same role, else of the same name."""
        roles = (role for role, column in self.impressions.items() if column == segment)
        return next((self.requests[role] for role in roles if role in self.requests), segment)

    def event_columns(self, actions: tuple[str, ...]) -> Mapping[str, tuple[list[Column], str]]:
        """Action, or all of them -> the columns of its events, and what its rows meet."""
        sql_by_role = self.events
        user = (
            f"cast({sql_by_role['user']} as varchar)"
            if "user" in sql_by_role
            else "cast(null as varchar)"
        )
        dwell = (
            f"cast({sql_by_role['dwell']} as double)"
            if "dwell" in sql_by_role
            else "cast(null as double)"
        )
        columns = [
            Column(self.request("events"), "request_id"),
            Column(f"cast({sql_by_role['item']} as varchar)", "item_id"),
            Column(user, "user_id"),
            Column(dwell, "dwell"),
            *self._amount,
            Column(self.moment("events"), "happened_at"),
            *self.unread("events"),
        ]
        if not self.condition_by_action:
            action_literals = ", ".join(map(literal, actions))
            action = Column(f"cast({sql_by_role['action']} as varchar)", "action")
            return {"": ([*columns, action], f"{sql_by_role['action']} in ({action_literals})")}
        return {
            action: ([*columns, Column(literal(action), "action")], condition)
            for action, condition in self.condition_by_action.items()
        }

    @property
    def _amount(self) -> Iterator[Column]:
        if self.has_amounts:
            yield Column(f"cast({self.events['amount']} as double)", "amount")

    def _texts(self, sql_by_role: Mapping[str, str]) -> Iterator[Column]:
        for role, name in TEXTS.items():
            text = sql_by_role.get(role, "null")
            yield Column(f"cast({text} as varchar)", name)

    def _roles(self, table: str) -> Mapping[str, str]:
        roles: Mapping[str, str] = getattr(self, table)
        return roles

    def _day(self, table: str) -> str:
        sql_by_role = self._roles(table)
        if "time" not in sql_by_role:
            return "cast(null as date)"
        if self.zone:
            return local_day(self.at, self.moment(table), self.zone)
        if table in self.read:
            return day(self.at, MICROS, self.at.dialect.times.day)
        return self.at.expression(self.at.dialect.times.day, sql_by_role["time"])


def _floored(micros: str, unit: str) -> str:
    """How many whole units a time has, on lines of its own where its text has some."""
    if "\n" not in micros:
        return f"floor({micros} / {unit})"
    return f"floor(\n{indent(micros, '    ')} / {unit}\n)"
