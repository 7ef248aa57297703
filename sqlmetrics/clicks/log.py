"""What a user says of a click log: where it is, how it is cleaned, what becomes a label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from sqlmetrics.clicks.online import is_online
from sqlmetrics.errors import SpecError
from sqlmetrics.source import Model, Source, condition

CLICK, PURCHASE = "click", "purchase"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(value: object) -> object:
    """A duration like `30m` in seconds; a number is seconds already.

    >>> seconds("30m"), seconds(5)
    (1800.0, 5)
    """
    if not isinstance(value, str):
        return value
    number, unit = value.strip()[:-1], value.strip()[-1:]
    try:
        return float(number) * UNITS[unit]
    except (KeyError, ValueError):
        raise ValueError("is a duration like 30m: a number and s, m, h or d") from None


class ImpressionColumns(Model):
    """The columns of the impressions: one row an item that was shown.

    Attributes:
        request: One search: the list that was shown at once. None if every row is one by
            itself, which only a wide table can be.
        query: What was asked; equal texts are pooled.
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
    """The columns of the events: one row something done with an item of a request."""

    request: str = "request_id"
    item: str = "item_id"
    action: str = "action"
    dwell: str | None = None
    user: str | None = None
    time: str | None = None


class LogColumns(ImpressionColumns):
    """The columns of a wide table: an impression, and what was done with it.

    Attributes:
        clicked: 1 where it was clicked.
        actions: Action -> the column that is 1 where it was done, like {purchase: is_bought}.
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
        results: How many results it had; without it, a request without impressions had none.
    """

    request: str = "request_id"
    query: str | None = None
    system: str | None = None
    user: str | None = None
    time: str | None = None
    results: str | None = None
    segments: tuple[str, ...] = ()


FirstPosition = Literal[0, 1, "each"]


class Impressions(Source):
    """Rows (request, item, position [, query, system, user, time, segments]).

    Attributes:
        first_position: The position of the first item: 0, 1, or `each` where some lists start at
            0 and some at 1.
    """

    columns: ImpressionColumns = ImpressionColumns()
    first_position: FirstPosition = 1


class Events(Source):
    """Rows (request, item, action [, dwell, user, time])."""

    columns: EventColumns = EventColumns()


class Log(Source):
    """One wide table: impressions with what was done with them."""

    columns: LogColumns = LogColumns()
    first_position: FirstPosition = 1


class Requests(Source):
    """Rows (request [, query, system, user, time, results, segments])."""

    columns: RequestColumns = RequestColumns()


Seconds = Annotated[float, BeforeValidator(seconds)]


class Cleaning(Model):
    """What is left out of a log, each step by its own option.

    Attributes:
        test: A condition of the impressions: that is no user's traffic.
        max_events_per_user_hour: A user with more events than this in an hour is a bot, and all
            that the user did or was shown is left out.
        min_dwell: Clicks with a shorter stay, in seconds, are accidental.
        attribution_window: Events later than this after the impression are no answer to it.
        deduplicate: Whether a repeated event (request, item, action) counts once, the first,
            and an item that was shown twice in a request once, where it stood highest.
        same_position: Of two items at one position: `first` keeps the one shown first, `drop`
            neither, `keep` both, ranked by their ids.
        unseen: Leave out what stands more than so many positions below the last click of a
            request: it was not looked at. None keeps all.
    """

    test: str | None = None
    max_events_per_user_hour: int | None = Field(default=None, gt=0)
    min_dwell: Seconds | None = Field(default=None, ge=0)
    attribution_window: Seconds | None = Field(default=None, ge=0)
    deduplicate: bool = True
    same_position: Literal["first", "drop", "keep"] = "keep"
    unseen: int | None = Field(default=None, ge=0)

    @field_validator("test")
    @classmethod
    def _condition(cls, text: str | None) -> str | None:
        return text if text is None else condition(text)


RATES = ("ctr", "coec", "purchase_rate")


class ClickLabels(Model):
    """What becomes a label.

    Attributes:
        grades: Action -> the grade of an item on which it was done; the highest wins.
        pool: `impression`: the labels of a request are its own clicks. `query_item`: all
            requests of a query share a rate of each item.
        rate: For `query_item`: `ctr`, `coec` (clicks over expected clicks, of its
            positions) or `purchase_rate` (purchases over impressions).
        prior: As many more impressions with the mean rate of all are added to each item.
        min_impressions: Items shown less often get no label.
        cuts: Rates from which on an item has the grade 1, 2, ...; none keeps the rate itself
            as the grade.
        quantiles: The same by quantiles of the rates of all items, like [0.5, 0.8, 0.95].
    """

    grades: Mapping[str, float] = {CLICK: 1.0}
    pool: Literal["impression", "query_item"] = "impression"
    rate: Literal["ctr", "coec", "purchase_rate"] = "ctr"
    prior: float = Field(default=0.0, ge=0)
    min_impressions: int = Field(default=1, ge=1)
    cuts: tuple[float, ...] = ()
    quantiles: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _cut_once(self) -> ClickLabels:
        if self.cuts and self.quantiles:
            raise ValueError("give cuts or quantiles, not both")
        if list(self.cuts or self.quantiles) != sorted(set(self.cuts or self.quantiles)):
            raise ValueError("cuts and quantiles must rise")
        if any(not 0 < one < 1 for one in self.quantiles):
            raise ValueError("quantiles lie between 0 and 1")
        return self


class Clicks(Model):
    """A click log: impressions and events, one wide table, or User Behavior Insights.

    Attributes:
        format: `ubi` for OpenSearch's User Behavior Insights: `requests` are its queries and
            `events` its events, with their columns as it names them.
        impressions: What was shown.
        events: What was done.
        log: Both in one table.
        requests: All searches, where those without a result shall count.
        cleaning: What is left out.
        labels: What becomes a label.
        daily: Whether each day is evaluated by itself.
    """

    format: Literal["ubi"] | None = None
    impressions: Impressions | None = None
    events: Events | None = None
    log: Log | None = None
    requests: Requests | None = None
    cleaning: Cleaning = Cleaning()
    labels: ClickLabels = ClickLabels()
    daily: bool = False

    @model_validator(mode="after")
    def _one_form(self) -> Clicks:
        given = {name for name in ("impressions", "events", "log") if getattr(self, name)}
        wanted: dict[str | None, list[set[str]]] = {
            "ubi": [{"events"}],
            None: [{"impressions", "events"}, {"log"}],
        }
        if given not in wanted[self.format]:
            raise ValueError(
                "give impressions and events, or log, or format: ubi with its events "
                f"(and requests: its queries); given {', '.join(sorted(given)) or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _each_by_itself(self) -> Clicks:
        if self.impressions and self.impressions.columns.request is None:
            raise ValueError("impressions need a column of requests; only a log can be without")
        if self.log and self.log.columns.request is None:
            if self.requests is not None:
                raise ValueError("a log without a column of requests has no table of requests")
            if self.log.first_position == "each":
                raise ValueError("first_position: each needs a column of requests")
        return self

    @property
    def columns(self) -> ImpressionColumns | None:
        """The columns of the impressions, where they are the user's own."""
        source = self.log or self.impressions
        return source.columns if source else None


RANKINGS, LABELS = "sqlmetrics_click_rankings", "sqlmetrics_click_labels"
"""What is left of a log: lists in the order in which they were shown, and what was answered."""


def lowered(given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a spec with a click log, as those of one with rankings and labels.

    Raises:
        SpecError: If it has rankings or labels of its own too.
    """
    own = [name for name in ("rankings", "labels") if given.get(name) is not None]
    if own and given.get("clicks") is not None and not _is_lowered(given["rankings"]):
        raise SpecError(f"clicks take the place of rankings and labels; given {', '.join(own)} too")
    clicks = given["clicks"] if isinstance(given["clicks"], Clicks) else Clicks(**given["clicks"])
    columns: dict[str, str] = {"score": "score"}
    if clicks.columns and clicks.columns.system:
        columns["system"] = "system"
    if clicks.daily:
        columns["date"] = "metric_date"
    metrics = given.get("metrics", ())
    metrics = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    return {
        **given,
        "clicks": clicks,
        "rankings": {"relation": RANKINGS, "columns": columns},
        "labels": {"relation": LABELS},
        "metrics": tuple(one for one in metrics if not is_online(one)),
        "online": (*given.get("online", ()), *filter(is_online, metrics)),
    }


def _is_lowered(rankings: Any) -> bool:
    return getattr(rankings, "relation", None) == RANKINGS
