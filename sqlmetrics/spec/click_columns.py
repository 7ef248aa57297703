"""Where the tables of a click log are, and which columns they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from sqlmetrics.spec.source import Model, RankingColumns, Rankings, Source

CLICK, PURCHASE = "click", "purchase"


class ImpressionColumns(Model):
    """The columns of the impressions: one row an item that was shown.

    Attributes:
        request: One search: the list that was shown at once. None if every row is one by
            itself, which only a wide table can be.
        query: What was asked; equal texts are pooled.
        item: What was shown.
        position: Where it stood.
        system: The ranker, or the bucket of an experiment.
        user: Who saw it.
        time: When it was shown: a timestamp, a text in ISO 8601, or a number.
        segments: Columns that `by` can name.
    """

    request: str | None = "request_id"
    query: str | None = None
    item: str = "item_id"
    position: str = "position"
    system: str | None = None
    user: str | None = None
    time: str | None = None
    segments: tuple[str, ...] = ()


class EventColumns(Model):
    """The columns of the events: one row something done with an item of a request.

    Attributes:
        request: The search that showed the item.
        item: What it was done with.
        action: What was done: `click`, `purchase`, or another name.
        dwell: How many seconds the user stayed.
        user: Who did it.
        time: When: a timestamp, a text in ISO 8601, or a number.
    """

    request: str = "request_id"
    item: str = "item_id"
    action: str = "action"
    dwell: str | None = None
    user: str | None = None
    time: str | None = None


class LogColumns(ImpressionColumns):
    """The columns of a wide table: an impression, and what was done with it.

    Attributes:
        request: One search; None if every row is one by itself.
        query: What was asked; equal texts are pooled.
        item: What was shown.
        position: Where it stood.
        system: The ranker, or the bucket of an experiment.
        user: Who saw it.
        time: When it was shown: a timestamp, a text in ISO 8601, or a number.
        segments: Columns that `by` can name.
        clicked: 1 where it was clicked.
        actions: Action -> the column that is 1 where it was done, like {purchase: is_bought}.
        dwell: How many seconds the user stayed.
    """

    clicked: str | None = None
    actions: Mapping[str, str] = {}
    dwell: str | None = None

    @property
    def done(self) -> Mapping[str, str]:
        """Action -> its column."""
        clicked = {CLICK: self.clicked} if self.clicked else {}
        return clicked | dict(self.actions)


class RequestColumns(Model):
    """The columns of the requests: one row a search, also those without a result.

    Attributes:
        request: One search.
        query: What was asked.
        system: The ranker, or the bucket of an experiment.
        user: Who asked.
        time: When: a timestamp, a text in ISO 8601, or a number.
        results: How many results it had; without it, a request without impressions had none.
        segments: Columns that `by` can name; the impressions have them too.
    """

    request: str = "request_id"
    query: str | None = None
    system: str | None = None
    user: str | None = None
    time: str | None = None
    results: str | None = None
    segments: tuple[str, ...] = ()


FirstPosition = Literal[0, 1, "each"]
TimeUnit = Literal["auto", "s", "ms", "us", "ns"]


class Impressions(Source):
    """Rows (request, item, position [, query, system, user, time, segments]).

    Attributes:
        first_position: The position of the first item: 0, 1, or `each` where some lists start at
            0 and some at 1.
        time_unit: What times are that are numbers, or texts of numbers: since 1970 in `s`, `ms`,
            `us` or `ns`; `auto`: in the one of these in which the number lies between the years
            1989 and 2286.
    """

    columns: ImpressionColumns = ImpressionColumns()
    first_position: FirstPosition = 1
    time_unit: TimeUnit | None = None


class Events(Source):
    """Rows (request, item, action [, dwell, user, time]).

    Attributes:
        time_unit: What times are that are numbers, or texts of numbers: since 1970 in `s`, `ms`,
            `us` or `ns`; `auto`: in the one of these in which the number lies between the years
            1989 and 2286.
    """

    columns: EventColumns = EventColumns()
    time_unit: TimeUnit | None = None


class Log(Source):
    """One wide table: impressions with what was done with them.

    Attributes:
        first_position: The position of the first item: 0, 1, or `each` where some lists start at
            0 and some at 1.
        time_unit: What times are that are numbers, or texts of numbers: since 1970 in `s`, `ms`,
            `us` or `ns`; `auto`: in the one of these in which the number lies between the years
            1989 and 2286.
    """

    columns: LogColumns = LogColumns()
    first_position: FirstPosition = 1
    time_unit: TimeUnit | None = None


class Requests(Source):
    """Rows (request [, query, system, user, time, results, segments]).

    Attributes:
        time_unit: What times are that are numbers, or texts of numbers: since 1970 in `s`, `ms`,
            `us` or `ns`; `auto`: in the one of these in which the number lies between the years
            1989 and 2286.
    """

    columns: RequestColumns = RequestColumns()
    time_unit: TimeUnit | None = None


class RankedColumns(RankingColumns):
    """Columns of ranked lists; the query is the request they are of."""

    query: str = "request_id"


class ClickRankings(Rankings):
    """Rows (request, item, rank or score): what the ranker gave, before rules and filters."""

    columns: RankedColumns = RankedColumns()
