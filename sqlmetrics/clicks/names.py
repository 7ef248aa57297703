"""What the columns of a log are called, and how they are read, whichever form it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlmetrics.clicks.log import Clicks
from sqlmetrics.clicks.source import CLICK, Events, FirstPosition, Impressions, Log
from sqlmetrics.source import Model
from sqlmetrics.stage import Column
from sqlmetrics.template import identifier, literal
from sqlmetrics.translation import Translation

NUMBER = "sqlmetrics_request"
"""The request of a wide table that has none: the number of the row."""

TEXTS = {
    "query": "query_text",
    "system": "system",
    "user": "user_id",
}
"""Roles that are texts -> their columns."""


EVENT = ("request_id", "item_id", "user_id", "dwell", "happened_at", "action")
"""The columns of an event."""


@dataclass(frozen=True)
class Names:
    """Role -> SQL of its column, for impressions, events and requests.

    Attributes:
        impressions: Of the impressions.
        events: Of the events: `action` and what else is known; in a wide table without action.
        done: Of a wide table: action -> the column that says that it was done.
        requests: Of the requests.
        segments: Columns of impressions (and requests) that are segments, as SQL.
        first_position: The position of the first item, or `each`.
        where: Table -> what its rows meet, of `impressions`, `events` and `requests`.
        micros: How a time is read as microseconds.
        day: How a time is read as a day.
        at: The dialect of the database.
    """

    impressions: Mapping[str, str]
    events: Mapping[str, str]
    done: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    segments: tuple[str, ...] = ()
    first_position: FirstPosition = 1
    where: Mapping[str, str] = field(default_factory=dict)
    micros: str = ""
    day: str = ""
    at: Translation = field(default_factory=Translation)

    @property
    def position(self) -> str:
        """The position as logged."""
        return f"cast({self.impressions['position']} as bigint)"

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
        given = self._roles(table)
        if "time" not in given:
            return "cast(null as bigint)"
        return self.at.expression(self.micros or self.at.dialect.times.micros, given["time"])

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
        yield Column(self._day(self.impressions), "metric_date")
        for name in self.segments:
            yield Column(f"cast({name} as varchar)", name)

    def request_columns(self) -> Iterator[Column]:
        """A request's columns, of the first of its rows."""
        yield Column(self.request("requests"), "request_id")
        for column in self._texts(self.requests):
            yield Column(f"min({column.sql})", column.name)
        yield Column(f"min({self._day(self.requests)})", "day")
        results = self.requests.get("results", "0")
        yield Column(f"max(cast({results} as bigint))", "n_results")
        for name in self.segments:
            yield Column(f"min(cast({name} as varchar))", name)

    def event_columns(self, actions: tuple[str, ...]) -> Mapping[str, tuple[list[Column], str]]:
        """Action, or all of them -> the columns of its events, and what its rows meet."""
        given = self.events
        user = f"cast({given['user']} as varchar)" if "user" in given else "cast(null as varchar)"
        dwell = f"cast({given['dwell']} as double)" if "dwell" in given else "cast(null as double)"
        columns = [
            Column(self.request("events"), "request_id"),
            Column(f"cast({given['item']} as varchar)", "item_id"),
            Column(user, "user_id"),
            Column(dwell, "dwell"),
            Column(self.moment("events"), "happened_at"),
        ]
        if not self.done:
            known = ", ".join(map(literal, actions))
            action = Column(f"cast({given['action']} as varchar)", "action")
            return {"": ([*columns, action], f"{given['action']} in ({known})")}
        return {
            action: ([*columns, Column(literal(action), "action")], f"{column} = 1")
            for action, column in self.done.items()
        }

    def _texts(self, given: Mapping[str, str]) -> Iterator[Column]:
        for role, name in TEXTS.items():
            text = given.get(role, "null")
            yield Column(f"cast({text} as varchar)", name)

    def _roles(self, table: str) -> Mapping[str, str]:
        roles: Mapping[str, str] = getattr(self, table)
        return roles

    def _day(self, given: Mapping[str, str]) -> str:
        if "time" not in given:
            return "cast(null as date)"
        return self.at.expression(self.day or self.at.dialect.times.day, given["time"])


UBI_OBJECT = "event_attributes ->> '$.object.object_id'"
UBI_POSITION = "event_attributes ->> '$.position.ordinal'"
UBI_MICROS = (
    "coalesce(epoch_us(try_cast({column} as timestamp)), try_cast({column} as bigint) * 1000)"
)
UBI_DAY = f"cast(make_timestamp({UBI_MICROS}) as date)"
"""User Behavior Insights have texts like 2024-12-10T00:01:29.378Z, and milliseconds."""


def names_of(clicks: Clicks, at: Translation) -> Names:
    """The names of a log's columns, in the dialect of its database."""
    names = _named(clicks)
    given = {"impressions": clicks.impressions or clicks.log, "events": clicks.events or clicks.log}
    sources = {**given, "requests": clicks.requests}
    where = {
        table: at.condition(source.where)
        for table, source in sources.items()
        if source and source.where
    }
    if clicks.format == "ubi":
        events = where.get("events")
        is_one = "action_name = 'impression'"
        where["impressions"] = f"({events}) and {is_one}" if events else is_one
    return replace(names, where=where, at=at)


def _named(clicks: Clicks) -> Names:
    if clicks.format == "ubi":
        return _ubi()
    if clicks.log is not None:
        return _wide(clicks.log)
    impressions, events = clicks.impressions or Impressions(), clicks.events or Events()
    return Names(
        impressions=_given(impressions.columns),
        events=_given(events.columns),
        requests=_given(clicks.requests.columns) if clicks.requests else {},
        segments=tuple(map(identifier, impressions.columns.segments)),
        first_position=impressions.first_position,
    )


def _ubi() -> Names:
    shared = {"request": "query_id", "user": "client_id", "time": "timestamp"}
    return Names(
        impressions={
            **shared,
            "query": "user_query",
            "item": f"({UBI_OBJECT})",
            "position": f"({UBI_POSITION})",
        },
        events={**shared, "item": f"({UBI_OBJECT})", "action": "action_name"},
        requests={**shared, "query": "user_query"},
        first_position="each",
        micros=UBI_MICROS,
        day=UBI_DAY,
    )


def _wide(log: Log) -> Names:
    columns = {"request": NUMBER} | _given(log.columns)
    done = {action: identifier(name) for action, name in log.columns.done.items()}
    return Names(
        impressions=columns,
        events=columns,
        done=done or {CLICK: "clicked"},
        segments=tuple(map(identifier, log.columns.segments)),
        first_position=log.first_position,
    )


def _given(columns: Model) -> dict[str, str]:
    """The roles that have a column."""
    given = columns.model_dump(exclude={"segments", "clicked", "actions"})
    return {role: identifier(name) for role, name in given.items() if isinstance(name, str)}
