"""What the columns of a log are called, and how they are read, whichever form it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlmetrics.clicks.log import CLICK, Clicks, Events, FirstPosition, Impressions, Log
from sqlmetrics.source import Model
from sqlmetrics.stage import Column
from sqlmetrics.template import identifier, literal

DAY = "cast(to_timestamp({seconds}) at time zone 'UTC' as date)"
"""The day of a time in seconds."""

NUMBER = "sqlmetrics_request"
"""The request of a wide table that has none: the number of the row."""

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
        done: Of a wide table: action -> the column that says that it was done.
        requests: Of the requests.
        segments: Columns of impressions (and requests) that are segments.
        first_position: The position of the first item, or `each`.
        impressions_where: What rows meet that are impressions.
        events_where: What rows meet that are events.
        times: How a time is read as seconds.
    """

    impressions: Mapping[str, str]
    events: Mapping[str, str]
    done: Mapping[str, str] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    segments: tuple[str, ...] = ()
    first_position: FirstPosition = 1
    impressions_where: str = ""
    events_where: str = ""
    times: str = "epoch(cast({column} as timestamp))"

    @property
    def position(self) -> str:
        """The position as logged."""
        return f"cast({self.impressions['position']} as bigint)"

    @property
    def has_times(self) -> bool:
        """Whether it is known when items were shown and when something was done."""
        return "time" in self.impressions and "time" in self.events

    @property
    def logged(self) -> list[str]:
        """The names of the columns of an impression beside its position."""
        return [column.name for column in self.impression_columns()]

    def impression_columns(self) -> Iterator[Column]:
        """An impression's columns, under their own names, beside its position."""
        yield Column(f"cast({self.impressions['request']} as varchar)", "request_id")
        yield Column(f"cast({self.impressions['item']} as varchar)", "item_id")
        yield from self._texts(self.impressions)
        yield Column(self._seconds(self.impressions), "shown_at")
        for name in self.segments:
            yield Column(f"cast({identifier(name)} as varchar)", name)

    def request_columns(self) -> Iterator[Column]:
        """A request's columns, of the first of its rows."""
        request = self.requests["request"]
        yield Column(f"cast({request} as varchar)", "request_id")
        for column in self._texts(self.requests):
            yield Column(f"min({column.sql})", column.name)
        yield Column(DAY.format(seconds=f"min({self._seconds(self.requests)})"), "metric_date")
        for name in self.segments:
            yield Column(f"min(cast({identifier(name)} as varchar))", name)

    def event_columns(self, actions: tuple[str, ...]) -> Mapping[str, tuple[list[Column], str]]:
        """Action, or all of them -> the columns of its events, and what its rows meet."""
        given = self.events
        user = f"cast({given['user']} as varchar)" if "user" in given else "cast(null as varchar)"
        dwell = f"cast({given['dwell']} as double)" if "dwell" in given else "cast(null as double)"
        columns = [
            Column(f"cast({given['request']} as varchar)", "request_id"),
            Column(f"cast({given['item']} as varchar)", "item_id"),
            Column(user, "user_id"),
            Column(dwell, "dwell"),
            Column(self._seconds(given), "happened_at"),
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

    def _seconds(self, given: Mapping[str, str]) -> str:
        if "time" not in given:
            return "cast(null as double)"
        return self.times.format(column=given["time"])


UBI_OBJECT = "event_attributes ->> '$.object.object_id'"
UBI_POSITION = "event_attributes ->> '$.position.ordinal'"
UBI_TIMES = (
    "coalesce(epoch(try_cast({column} as timestamp)), try_cast({column} as double) / 1000e0)"
)
"""User Behavior Insights have texts like 2024-12-10T00:01:29.378Z, and milliseconds."""


def names_of(clicks: Clicks) -> Names:
    """The names of a log's columns."""
    if clicks.format == "ubi":
        return _ubi()
    if clicks.log is not None:
        return _wide(clicks.log)
    impressions, events = clicks.impressions or Impressions(), clicks.events or Events()
    return Names(
        impressions=_given(impressions.columns),
        events=_given(events.columns),
        requests=_given(clicks.requests.columns) if clicks.requests else {},
        segments=impressions.columns.segments,
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
        impressions_where="action_name = 'impression'",
        times=UBI_TIMES,
    )


def _wide(log: Log) -> Names:
    columns = {"request": NUMBER} | _given(log.columns)
    done = {action: identifier(name) for action, name in log.columns.done.items()}
    return Names(
        impressions=columns,
        events=columns,
        done=done or {CLICK: "clicked"},
        segments=log.columns.segments,
        first_position=log.first_position,
    )


def _given(columns: Model) -> dict[str, str]:
    """The roles that have a column."""
    given = columns.model_dump(exclude={"segments", "clicked", "actions"})
    return {role: identifier(name) for role, name in given.items() if isinstance(name, str)}
