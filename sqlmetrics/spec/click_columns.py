"""Where the tables of a click log are, and which columns they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from sqlmetrics.spec.source import Model, RankedLists, RankingColumns, Source

CLICK, PURCHASE = "click", "purchase"


class ImpressionColumns(Model):
    """The columns of the impressions: one row per item that was shown."""

    request: str | None = "request_id"
    """One search: the list that was shown at once. None if every row is one by itself, which only a
    wide table can be."""
    query: str | None = None
    """What was asked; equal texts are pooled."""
    item: str = "item_id"
    """What was shown."""
    position: str = "position"
    """Where it stood."""
    system: str | None = None
    """The ranker, or the bucket of an experiment."""
    user: str | None = None
    """Who saw it."""
    session: str | None = None
    """The visit that the request belongs to, for `session_success`."""
    team: str | None = None
    """For interleaved lists by team draft: the system that picked the item."""
    time: str | None = None
    """When it was shown: a timestamp, a text in ISO 8601, or a number."""
    day: str | None = None
    """Under which day it is stored: a column of hive folders, of partitions, or of dates. A run of
    some days reads those alone, and `day_margin` to either side."""
    propensity_score: str | None = None
    """How likely the logging policy was to choose the item at that position, above 0 and up to 1:
    for `counterfactual.policy`."""
    list_propensity_score: str | None = None
    """How likely the logging policy was to show the request's list, above 0 and up to 1, the same
    in all its rows: for mrr and hit of `counterfactual.rankings`."""
    segments: tuple[str, ...] = ()
    """Columns that `by` can name."""


class EventColumns(Model):
    """The columns of the events: one row something done with an item of a request."""

    request: str = "request_id"
    """The search that showed the item."""
    item: str = "item_id"
    """What it was done with."""
    action: str = "action"
    """What was done: `click`, `purchase`, or another name."""
    dwell: str | None = None
    """How many seconds the user stayed."""
    amount: str | None = None
    """What was paid for the item, for `revenue_per_request` and `average_order_value`: a number."""
    currency: str | None = None
    """The currency of the amount. Several are refused, since they do not add up."""
    user: str | None = None
    """Who did it."""
    time: str | None = None
    """When: a timestamp, a text in ISO 8601, or a number."""
    day: str | None = None
    """Under which day it is stored: a column of hive folders, of partitions, or of dates. A run of
    some days reads those alone, and `day_margin` to either side."""


class LogColumns(ImpressionColumns):
    """The columns of a wide table: an impression, and what was done with it."""

    clicked: str | None = None
    """1 where it was clicked."""
    actions: Mapping[str, str] = {}
    """Action -> the column that is 1 where it was done, like {purchase: is_bought}."""
    dwell: str | None = None
    """How many seconds the user stayed."""
    amount: str | None = None
    """What was paid for the item, for `revenue_per_request` and `average_order_value`: a number."""
    currency: str | None = None
    """The currency of the amount. Several are refused, since they do not add up."""

    @property
    def column_by_action(self) -> Mapping[str, str]:
        """Action -> its column."""
        clicked = {CLICK: self.clicked} if self.clicked else {}
        return clicked | dict(self.actions)


class RequestColumns(Model):
    """The columns of the requests: one row per search, also those without a result."""

    request: str = "request_id"
    """One search."""
    query: str | None = None
    """What was asked."""
    system: str | None = None
    """The ranker, or the bucket of an experiment."""
    user: str | None = None
    """Who asked."""
    time: str | None = None
    """When: a timestamp, a text in ISO 8601, or a number."""
    day: str | None = None
    """Under which day it is stored: a column of hive folders, of partitions, or of dates. A run of
    some days reads those alone, and `day_margin` to either side."""
    session: str | None = None
    """The visit that it belongs to."""
    results: str | None = None
    """How many results it had; without it, a request without impressions had none."""
    segments: tuple[str, ...] = ()
    """Columns that `by` can name; the impressions have them too."""


FirstPosition = Literal[0, 1, "each"]
TimeUnit = Literal["auto", "s", "ms", "us", "ns"]


class TimedSource(Source):
    """A table that may have times."""

    time_unit: TimeUnit | None = None
    """What times are that are numbers, or texts of numbers: since 1970 in `s`, `ms`, `us` or `ns`;
    `auto`: in the one of these in which the number lies between the years 1989 and 2286."""


class Impressions(TimedSource):
    """Rows (request, item, position [, query, system, user, time, segments])."""

    columns: ImpressionColumns = Field(default_factory=ImpressionColumns)
    first_position: FirstPosition = 1
    """The position of the first item: 0, 1, or `each` where some lists start at 0 and some at 1."""


class Events(TimedSource):
    """Rows (request, item, action [, dwell, user, time])."""

    columns: EventColumns = Field(default_factory=EventColumns)


class Log(TimedSource):
    """One wide table: impressions with what was done with them."""

    columns: LogColumns = Field(default_factory=LogColumns)
    first_position: FirstPosition = 1
    """The position of the first item: 0, 1, or `each` where some lists start at 0 and some at 1."""


class Requests(TimedSource):
    """Rows (request [, query, system, user, time, results, segments])."""

    columns: RequestColumns = Field(default_factory=RequestColumns)


class RankedColumns(RankingColumns):
    """Columns of ranked lists; the query is the request they are of."""

    query: str = "request_id"


class ClickRankings(RankedLists):
    """Rows (request, item, rank or score): what the ranker gave, before rules and filters."""

    columns: RankedColumns = Field(default_factory=RankedColumns)


class SourceColumns(RankedColumns):
    """Columns of the lists of two systems that were merged into the one that was shown."""

    system: str = "system"
    """The column of the system whose list it is."""


class SourceRankings(RankedLists):
    """Rows (request, system, item, rank or score): what each system gave, before the merge."""

    columns: SourceColumns = Field(default_factory=SourceColumns)
