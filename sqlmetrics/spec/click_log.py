"""What a user says of a click log: where it is, how it is cleaned, what becomes a label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from math import inf
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from sqlmetrics.catalog.counterfactual import EstimatedMetric
from sqlmetrics.catalog.online import is_online, online
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.click_columns import (
    CLICK,
    PURCHASE,
    ClickRankings,
    Events,
    ImpressionColumns,
    Impressions,
    Log,
    RequestColumns,
    Requests,
    SourceRankings,
)
from sqlmetrics.spec.click_propensity import ClickPropensity
from sqlmetrics.spec.counterfactual import Counterfactual, lacks
from sqlmetrics.spec.days import Days
from sqlmetrics.spec.source import Finite, Model
from sqlmetrics.spec.zones import UTC, checked_zone
from sqlmetrics.sql.user_sql import condition
from sqlmetrics.stats import CONFIDENCE

# What a user says of an experiment: its variants, its metrics, and what may not get worse.

LISTS_DIFFER = "lists_differ"
"""What triggers a request: its list would have been another one in another variant."""


class Guardrail(Model):
    """A metric that may not get much worse."""

    metric: str
    """An online metric, like `abandonment`."""
    max_drop_pct: float = Field(ge=0, le=100)
    """The largest relative loss that is acceptable, in percent; where less is better, the largest
    rise."""


class ClickExperiment(Model):
    """An experiment in a click log (`clicks experiment`): ship, do not ship, or not yet."""

    variants: tuple[str, ...] = Field(min_length=2)
    """The systems of the log that users were assigned to."""
    control: str
    """The variant that the others are compared with."""
    shares: Mapping[str, float] | None = None
    """Variant -> its planned share of the traffic, or weight. Default: equal shares."""
    start: date | None = None
    """The first day. Default: that of the log."""
    end: date | None = None
    """The day after the last one. From then on the verdict is final."""
    primary: str
    """The online metric that decides, like `ctr@5`."""
    guardrails: tuple[Guardrail, ...] = ()
    """What may not get worse than so much."""
    looks: Literal["any", "end"] = "any"
    """`any`: the intervals are always valid, so look on any day. `end`: intervals of one look,
    which are narrower, and no verdict before the last day."""
    triggered: str | None = None
    """Which requests count: `lists_differ` for those whose `lists` differ between the variants, or
    a column of segments that is true (1, yes) for them. Default: all."""
    lists: SourceRankings | None = None
    """What each variant has for a request, shown or not, for `triggered: lists_differ`."""
    cuped_days: int | None = Field(default=None, gt=0)
    """So many days before `start` tell what users did before, which narrows the intervals
    (CUPED)."""
    winsorise: float | None = Field(default=None, gt=0, lt=1)
    """Cut what a user paid at this quantile of all who paid, like 0.99, so that a few do not
    decide. Default: cut nothing."""
    wanted_pct: float | None = Field(default=None, gt=0)
    """The smallest relative gain worth shipping, in percent: says how many days are still
    needed."""
    level: float = Field(default=CONFIDENCE, gt=0, lt=1)
    """The level of the intervals, for all variants together."""

    @model_validator(mode="after")
    def _fits(self) -> ClickExperiment:
        if self.control not in self.variants or len(set(self.variants)) < len(self.variants):
            raise ValueError(
                "variants must be different and include control, given "
                f"{', '.join(self.variants)} and control {self.control}"
            )
        if self.shares and set(self.shares) != set(self.variants):
            raise ValueError(
                f"shares must name each variant, given {', '.join(self.shares)}; the variants are "
                f"{', '.join(self.variants)}"
            )
        if self.looks == "end" and self.end is None:
            raise ValueError("looks: end needs end, the day after the last one")
        if (self.triggered == LISTS_DIFFER) != (self.lists is not None):
            raise ValueError(
                f"triggered: {LISTS_DIFFER} and lists need each other; give both, or leave out "
                "lists and name a column of the log"
            )
        if self.cuped_days and not self.start:
            raise ValueError("cuped_days are days before start; give start, the first day")
        if self.start and self.end and self.start >= self.end:
            raise ValueError(f"end must come after start, given {self.start} and {self.end}")
        return self

    @model_validator(mode="after")
    def _has_directions(self) -> ClickExperiment:
        for text in self.metrics:
            try:
                measure = online(text)
            except SpecError as error:
                raise ValueError(str(error)) from None
            if measure.metric.better == "none":
                settings = f"({measure.action}, better=higher), or lower"
                remedy = f"write {measure.metric.name}{settings}"
                remedy = remedy if measure.action else "name another metric"
                raise ValueError(f"neither more nor less of {text} is better; {remedy}")
        names = [str(online(text)) for text in self.metrics]
        if len(set(names)) < len(names):
            raise ValueError(f"name each metric once, given {', '.join(names)}")
        return self

    @property
    def metrics(self) -> tuple[str, ...]:
        """Its metrics, the primary one first."""
        return (self.primary, *(guardrail.metric for guardrail in self.guardrails))

    @property
    def days(self) -> Days | None:
        """Its days; None for all of the log."""
        return Days(start=self.start, end=self.end) if self.start or self.end else None

    @property
    def days_before(self) -> str:
        """The days before it that are read too, the first and the last one; empty for none."""
        if not (self.start and self.cuped_days):
            return ""
        return f"{self.start - timedelta(self.cuped_days)}..{self.start - timedelta(1)}"

    @property
    def flags(self) -> tuple[str, ...]:
        """The column of the log that says which requests count; none of all, or of lists."""
        return (self.triggered,) if self.triggered and self.lists is None else ()


# What is left out of a click log.

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
        raise ValueError("is not a duration like 30m: give a number and s, m, h or d") from None


Seconds = Annotated[
    float,
    Field(ge=0),
    BeforeValidator(seconds),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0, "pattern": r"\d\s*[smhd]\s*$"}),
]
"""A number of them, or a text like `30m`."""

NEEDS = {
    "min_dwell": ("dwell",),
    "attribution_window": ("time",),
    "max_events_per_user_hour": ("user", "time"),
}
"""Option of the cleaning -> the columns of the events that it looks at."""


class Cleaning(Model):
    """What is left out of a log, each step by its own option."""

    test: str | None = None
    """A condition of the impressions: that is no user's traffic."""
    max_events_per_user_hour: int | None = Field(default=None, gt=0)
    """A user with more events than this in an hour is a bot, and all that the user did or was shown
    is left out."""
    bots_of: Literal["log", "day"] = "log"
    """`log`: a bot is left out on every day. `day`: on those days (in UTC) on which it had such an
    hour, and no other day is read to find bots."""
    min_dwell: Seconds | None = None
    """Clicks with a shorter stay, in seconds, are accidental."""
    attribution_window: Seconds | None = None
    """Events later than this after the impression are no answer to it."""
    deduplicate: bool = True
    """Whether a repeated event (request, item, action) counts once, the first. An item that was
    shown twice in a request always counts once, where it stood highest: else its events would count
    twice."""
    same_position: Literal["first", "drop", "keep"] = "keep"
    """Of two items at one position: `first` keeps the one shown first, `drop` neither, `keep` both,
    ranked by their ids.
    """
    unseen: int | None = Field(default=None, ge=0)
    """Leave out what stands more than so many positions below the last click of a request: it was
    not looked at. None keeps all."""

    @field_validator("test")
    @classmethod
    def _condition(cls, text: str | None) -> str | None:
        return text if text is None else condition(text)


# What a user says of interleaved lists: how two systems' lists became the one that was shown.

TEAM_DRAFT = "team_draft"
"""The method that needs no rankings."""


class ClickInterleaving(Model):
    """How the lists of two systems were merged, and how clicks are credited."""

    method: Literal["team_draft", "balanced", "debiased_balanced"] = "team_draft"
    """`team_draft`: a click is the system's that picked the item, which `columns.team` of the
    impressions names. `balanced`: the systems took turns, and each has the clicks as far down its
    list as the last one. `debiased_balanced`: they took turns too, and a click counts by how
    likely its item is looked at in the list of each; needs propensities."""
    rankings: SourceRankings | None = None
    """The lists before the merge; not for `team_draft`."""
    baseline: str | None = None
    """The system that the other is compared to; by default the one called control, prod, old or the
    like, else the first in the alphabet."""

    @model_validator(mode="after")
    def _of_its_method(self) -> ClickInterleaving:
        if self.method == TEAM_DRAFT and self.rankings is not None:
            raise ValueError(
                f"rankings: method {TEAM_DRAFT} does not use them; leave them out and name "
                "columns.team"
            )
        if self.method != TEAM_DRAFT and self.rankings is None:
            raise ValueError(f"method {self.method} needs rankings, the lists before the merge")
        return self


# What becomes a label of a click log.

OF_POOL: Mapping[str, tuple[str, ...]] = {
    "impression": ("grades",),
    "query_item": ("rate", "prior", "min_impressions", "cuts", "quantiles", "window", "max_rank"),
}
"""Pool -> the options that only it has."""


OPENSEARCH = "opensearch_coec"

CORRECTED = ("ips", "coee")
"""Rates that need propensities."""


class ClickLabels(Model):
    """What becomes a label."""

    grades: Mapping[str, Annotated[Finite, Field(ge=0)]] = {CLICK: 1.0}
    """For `impression`: action -> the grade of an item on which it was done; the highest wins."""
    pool: Literal["impression", "query_item"] = "impression"
    """`impression`: the labels of a request are its own clicks. `query_item`: all requests with the
    same text share a rate of each item."""
    rate: Literal["ctr", "coec", "purchase_rate", "ips", "coee", "sdbn", "opensearch_coec"] = "ctr"
    """For `query_item`: `ctr`, `coec` (clicks over expected clicks, of its positions),
    `purchase_rate` (purchases over impressions), `ips` (clicks, each over the propensity of its
    position, over impressions) or `coee` (clicks over expected examinations: the sum of the
    propensities); these two need `propensity`. `sdbn`: last clicks over impressions down to the
    last click. `opensearch_coec` is the number of OpenSearch's search-relevance, for
    `format: ubi`."""
    prior: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """As many more impressions with the mean rate of all are added to each item; for `coec` as many
    more clicks, done and expected."""
    min_impressions: int = Field(default=1, ge=1)
    """Items shown less often for a query get no label."""
    cuts: tuple[float, ...] = ()
    """Rates from which on an item has the grade 1, 2, ...; without cuts and quantiles the rate
    itself is the grade."""
    quantiles: tuple[float, ...] = ()
    """Shares of all labelled pairs of a query and an item: the grade is 1, 2, ... where the rate is
    above that of so many of them, like [0.5, 0.8, 0.95].
    """
    max_rank: int | None = Field(default=None, ge=1)
    """For `opensearch_coec`: its maxRank; events at lower positions do not count."""
    window: Days | None = None
    """The days of the requests from which pooled labels are learned; needs `evaluation` beside
    it."""

    @model_validator(mode="after")
    def _of_its_pool(self) -> ClickLabels:
        fields = type(self).model_fields
        for pool, names in OF_POOL.items():
            set_names = [name for name in names if getattr(self, name) != fields[name].default]
            if set_names and pool != self.pool:
                raise ValueError(
                    f"{', '.join(set_names)}: only for pool {pool}, and the pool is {self.pool}"
                )
        return self

    @model_validator(mode="after")
    def _as_opensearch_has_it(self) -> ClickLabels:
        if self.rate == OPENSEARCH and self.prior:
            raise ValueError(f"rate {OPENSEARCH} has no prior; leave prior out, or set rate: coec")
        if self.rate != OPENSEARCH and self.max_rank is not None:
            raise ValueError(f"max_rank: only for rate {OPENSEARCH}, and the rate is {self.rate}")
        return self

    @model_validator(mode="after")
    def _cut_once(self) -> ClickLabels:
        if self.cuts and self.quantiles:
            raise ValueError("give cuts or quantiles, not both")
        if list(self.cuts or self.quantiles) != sorted(set(self.cuts or self.quantiles)):
            raise ValueError("cuts and quantiles must rise; write them in ascending order")
        if any(not 0 < quantile < 1 for quantile in self.quantiles):
            raise ValueError("quantiles must be between 0 and 1")
        highest = 1 if self.rate in ("ctr", "purchase_rate", "sdbn") else inf
        if any(not 0 < cut <= highest or cut == inf for cut in self.cuts):
            raise ValueError(f"cuts of {self.rate} are above 0" + " and at most 1" * (highest == 1))
        return self

    @property
    def pools(self) -> bool:
        """Whether requests share their labels."""
        return self.pool == "query_item"

    @property
    def corrects(self) -> bool:
        """Whether the rate is one of how often positions are looked at."""
        return self.rate in CORRECTED


QUERY_TEXT = "query_text"
"""The column of the rankings that has what was asked."""


class Clicks(Model):
    """A click log: impressions and events, one wide table, or User Behavior Insights."""

    format: Literal["ubi"] | None = None
    """`ubi` for OpenSearch's User Behavior Insights: `requests` are its queries and `events` its
    events, with their columns as it names them."""
    impressions: Impressions | None = None
    """What was shown."""
    events: Events | None = None
    """What was done."""
    log: Log | None = None
    """Both in one table."""
    requests: Requests | None = None
    """All searches, where those without a result shall count."""
    ranked: ClickRankings | None = None
    """What the ranker gave, to be compared with what was shown (`clicks soundness`)."""
    cleaning: Cleaning = Field(default_factory=Cleaning)
    """What is left out."""
    labels: ClickLabels = Field(default_factory=ClickLabels)
    """What becomes a label."""
    propensity: ClickPropensity = Field(default_factory=ClickPropensity)
    """How often positions are looked at; for the rates `ips` and `coee`, and
    `clicks propensities`."""
    counterfactual: Counterfactual | None = None
    """What is estimated of a ranking that was not shown (`clicks counterfactual`)."""
    evaluation: Days | None = None
    """The days of the requests that are evaluated; None for all. A request is of the day on which
    it began."""
    interleaving: ClickInterleaving | None = None
    """How the lists of two systems were merged into the one that was shown
    (`clicks interleaving`)."""
    experiment: ClickExperiment | None = None
    """Variants that users were assigned to, and when to ship one (`clicks experiment`)."""
    success_actions: tuple[str, ...] = Field(default=(CLICK,), min_length=1)
    """The actions of which one is a success, for `session_success`, `time_to_success` and what
    follows a search."""
    time_zone: str | None = None
    """Whose days count, and whose hours for `bots_of: day`: a name like Asia/Tokyo. Times without a
    zone are of UTC. Default: UTC."""
    daily: bool = False
    """Whether each day is evaluated by itself."""
    day_margin: int | None = Field(default=None, ge=0, le=366)
    """How many days a row may be stored under another day than that of its request, 1 unless
    given: for columns named `day`. A run of some days reads so many more before and after."""
    lists_from: Literal["impressions", "hit_ids"] | None = None
    """For `ubi`, what says what was shown: `impressions`, which are events, or `hit_ids`, the
    queries' query_response_hit_ids. None: the hit ids if there is no impression among the
    events."""

    @field_validator("time_zone")
    @classmethod
    def _named_zone(cls, name: str | None) -> str | None:
        return name if name is None else checked_zone(name)

    @property
    def zone(self) -> str:
        """Whose days count, where they are not those of UTC; else empty."""
        return "" if self.time_zone in (None, UTC) else str(self.time_zone)

    @model_validator(mode="after")
    def _one_form(self) -> Clicks:
        source_names = {name for name in ("impressions", "events", "log") if getattr(self, name)}
        forms_by_format: dict[str | None, list[set[str]]] = {
            "ubi": [{"events"}],
            None: [{"impressions", "events"}, {"log"}],
        }
        if source_names not in forms_by_format[self.format]:
            raise ValueError(
                "give impressions and events, or a log, or format: ubi with events (and the "
                f"queries as requests); given {', '.join(sorted(source_names)) or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _lists_of_ubi(self) -> Clicks:
        if self.lists_from and self.format != "ubi":
            raise ValueError("lists_from only applies to format: ubi; leave it out")
        if self.lists_from == "hit_ids" and self.requests is None:
            raise ValueError("lists_from: hit_ids needs the table of queries; name it as requests")
        return self

    @model_validator(mode="after")
    def _ubi_as_it_is(self) -> Clicks:
        """Columns that are fixed cannot be named, and those that are not there not be used."""
        if self.format != "ubi":
            return self
        named_sources = [
            name for name, source in self.sources.items() if source.columns.model_fields_set
        ]
        if named_sources:
            keys = " and ".join(f"clicks.{name}.columns" for name in named_sources)
            raise ValueError(
                f"format: ubi fixes the names of all columns; leave out {keys}, or give "
                "impressions and events by sql without a format"
            )
        if self.cleaning.min_dwell is not None:
            raise ValueError("cleaning: format: ubi has no dwell, so leave out min_dwell")
        return self

    @model_validator(mode="after")
    def _pooled_of_something(self) -> Clicks:
        if self.labels.pools and self.columns and self.columns.query is None:
            raise ValueError(f"labels of pool query_item need {self._log_key}.columns.query")
        bought = self.log is None or PURCHASE in self.log.columns.column_by_action
        if self.labels.rate == "purchase_rate" and not bought:
            raise ValueError(f"rate purchase_rate needs {self._log_key}.columns.actions.{PURCHASE}")
        return self

    @model_validator(mode="after")
    def _can_succeed(self) -> Clicks:
        column_by_action = self.log.columns.column_by_action if self.log else None
        lacks = [
            action
            for action in self.success_actions
            if column_by_action and action not in column_by_action
        ]
        if lacks:
            raise ValueError(f"success_actions need log.columns.actions.{lacks[0]}")
        columns = self.columns
        if self.success_actions != (CLICK,) and columns and not (columns.session or columns.time):
            raise ValueError(f"success_actions need {self._log_key}.columns.session, or time")
        return self

    @model_validator(mode="after")
    def _interleaves(self) -> Clicks:
        interleaving = self.interleaving
        if interleaving is None:
            return self
        if interleaving.method == TEAM_DRAFT and (
            self.columns is None or self.columns.team is None
        ):
            raise ValueError(
                f"interleaving by {TEAM_DRAFT} needs {self._log_key}.columns.team, the system that "
                "picked an item" + " (format: ubi has none)" * (self.columns is None)
            )
        if interleaving.method != TEAM_DRAFT and self.cleaning.unseen is not None:
            raise ValueError(
                f"interleaving by {interleaving.method} needs whole lists; leave out "
                "cleaning.unseen"
            )
        return self

    @model_validator(mode="after")
    def _of_opensearch(self) -> Clicks:
        if self.labels.rate == OPENSEARCH and (
            self.format != "ubi" or self.lists_from == "hit_ids"
        ):
            raise ValueError(
                f"rate {OPENSEARCH} uses the positions of the logged events, so it needs format: "
                "ubi with events of the action impression; for other logs set rate: coec"
            )
        return self

    @model_validator(mode="after")
    def _has_propensities(self) -> Clicks:
        propensity, rate = self.propensity, self.labels.rate
        if self.labels.corrects and not propensity.is_known:
            raise ValueError(
                f"rate {rate} needs the propensities of positions; add propensity: {{method: "
                "harvest}, or another method"
            )
        if propensity.method in ("harvest", "em") and self.columns and self.columns.query is None:
            raise ValueError(
                f"propensity by {propensity.method} needs {self._log_key}.columns.query"
            )
        segments = self.columns.segments if self.columns else ()
        if propensity.by is not None and propensity.by not in segments:
            where = f"{self._log_key}.columns.segments" if self.columns else "format: ubi"
            raise ValueError(
                f"propensity.by must be a segment, given {propensity.by}; {where} has "
                f"{', '.join(segments) or 'none'}"
            )
        return self

    @model_validator(mode="after")
    def _can_be_asked(self) -> Clicks:
        if self.counterfactual and (problem := self.lacks(self.counterfactual)):
            raise ValueError(problem)
        return self

    def lacks(self, counterfactual: Counterfactual) -> str:
        """What the log lacks for a question about what was not shown; empty if nothing."""
        return lacks(counterfactual, self.columns, f"{self._log_key}.columns")

    @model_validator(mode="after")
    def _can_be_cleaned(self) -> Clicks:
        if self.format == "ubi":
            return self
        lacks = []
        if self.cleaning.bots_of == "day":
            if self.cleaning.max_events_per_user_hour is None:
                lacks.append("bots_of needs max_events_per_user_hour")
            timed = [name for name, columns in self._timed.items() if columns.time is None]
            lacks += [f"bots_of: day needs {name}.columns.time" for name in timed]
        for name, roles in NEEDS.items():
            table = "log" if self.log else "events"
            missing = [role for role in roles if not self._has(table, role)]
            if getattr(self.cleaning, name) is not None and missing:
                columns = " and ".join(f"{table}.columns.{role}" for role in missing)
                lacks.append(f"{name} needs {columns}")
        if lacks:
            raise ValueError(f"cleaning: {'; '.join(lacks)}")
        return self

    def _has(self, table: str, role: str) -> bool:
        return getattr(getattr(self, table).columns, role) is not None

    @model_validator(mode="after")
    def _days_apart(self) -> Clicks:
        learned, evaluated = self.labels.window, self.evaluation
        if not (learned or evaluated):
            return self
        if learned and evaluated and evaluated.overlaps(learned):
            raise ValueError(
                f"labels.window ({learned}) and evaluation ({evaluated}) overlap: labels would be "
                "learned from the requests that are evaluated"
            )
        if self.labels.pools and not (learned and evaluated):
            raise ValueError(
                "labels.window and evaluation belong together: without both, labels are learned "
                "from evaluated requests; given only "
                f"{'labels.window' if learned else 'evaluation'}"
            )
        for section, columns in self._timed.items():
            if columns.time is None:
                raise ValueError(f"labels.window and evaluation need {section}.columns.time")
        return self

    @model_validator(mode="after")
    def _stored_by_day(self) -> Clicks:
        stored = [name for name, source in self.sources.items() if self.day_column(name)]
        if self.day_margin is not None and not stored:
            raise ValueError(
                "day_margin needs a table with a day column; name it in columns.day, or "
                "leave day_margin out"
            )
        for name in stored:
            if getattr(self.sources[name].columns, "time", None) is None:
                raise ValueError(f"{name}.columns.day needs {name}.columns.time")
        if self.log and self.log.columns.request is None and stored:
            raise ValueError("log.columns.day needs log.columns.request, a column of requests")
        return self

    @model_validator(mode="after")
    def _each_by_itself(self) -> Clicks:
        if self.impressions and self.impressions.columns.request is None:
            raise ValueError(
                "impressions need a column of requests; name it as impressions.columns.request"
            )
        if self.log and self.log.columns.request is None:
            if self.requests is not None:
                raise ValueError(
                    "requests: a log without a column of requests cannot be joined to them; "
                    "leave requests out, or name log.columns.request"
                )
            if self.log.first_position == "each":
                raise ValueError(
                    "first_position: each needs log.columns.request, a column of requests"
                )
        return self

    @model_validator(mode="after")
    def _has_days(self) -> Clicks:
        if self.time_zone and not self.is_timed:
            raise ValueError(f"time_zone needs {self._log_key}.columns.time")
        if self.daily and not self.is_timed:
            raise ValueError(f"daily: days need {self._log_key}.columns.time")
        return self

    @property
    def is_timed(self) -> bool:
        """Whether the log says when its requests were; format ubi always does."""
        return self.columns is None or self.columns.time is not None

    @property
    def judges_itself(self) -> bool:
        """Whether labels are learned from the requests that they judge."""
        return not self.labels.pools or self.labels.window is None

    def day_column(self, source: str) -> str | None:
        """The column of a source that says under which day a row is stored."""
        return getattr(self.sources[source].columns, "day", None)

    @property
    def _log_key(self) -> str:
        """Where the impressions are said."""
        return "log" if self.log else "impressions"

    @property
    def _timed(self) -> Mapping[str, ImpressionColumns | RequestColumns]:
        """The columns that tell when a request began, where they are the user's own."""
        if self.columns is None:
            return {}
        requests = {"requests": self.requests.columns} if self.requests else {}
        return {self._log_key: self.columns, **requests}

    @property
    def segments(self) -> tuple[str, ...]:
        """What `by` can name."""
        return (*(self.columns.segments if self.columns else ()), QUERY_TEXT)

    @property
    def sources(self) -> Mapping[str, Log | Impressions | Events | Requests]:
        """Its tables, as far as they are given."""
        optional_sources = {
            "log": self.log,
            "impressions": self.impressions,
            "events": self.events,
            "requests": self.requests,
        }
        return {name: source for name, source in optional_sources.items() if source is not None}

    @property
    def estimated(self) -> tuple[EstimatedMetric, ...]:
        """The metrics of what was not shown, by their estimators; none if none is asked for."""
        return self.counterfactual.estimated if self.counterfactual else ()

    @property
    def name(self) -> str:
        """A short name for it."""
        first = self.log or self.impressions or self.events
        return first.name if first and first.data is None else "clicks"

    @property
    def columns(self) -> ImpressionColumns | None:
        """The columns of the impressions, where they are the user's own."""
        source = self.log or self.impressions
        return source.columns if source else None


RANKINGS, LABELS = "sqlmetrics_click_rankings", "sqlmetrics_click_labels"
"""What is left of a log: lists in the order in which they were shown, and what was answered."""

RANKS = "sqlmetrics_click_ranks"
"""The ranks of what was answered, as far as positions tell them."""


def _texts(value: Any) -> Any:
    """What is written as a text or as a list of them, as a list; anything else as it is."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _each_once(texts: Iterable[Any]) -> tuple[Any, ...]:
    """Online metrics that `metrics` and `online` both name, or spell in two ways, once."""
    text_by_metric: dict[str, Any] = {}
    for text in texts:
        try:
            name = str(online(text))
        except (SpecError, TypeError, AttributeError):  # which is told where the spec is read
            name = repr(text)
        text_by_metric.setdefault(name, text)
    return tuple(text_by_metric.values())


def lowered(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a spec with a click log, as those of one with rankings and labels.

    Raises:
        SpecError: If it has rankings or labels of its own too.
    """
    own_tables = [name for name in ("rankings", "labels") if values.get(name) is not None]
    if own_tables and not _is_lowered(values.get("rankings")):
        raise SpecError(f"clicks replace rankings and labels; leave out {', '.join(own_tables)}")
    log = _read(values["clicks"])
    metrics, of_log = _texts(values.get("metrics")), _texts(values.get("online"))
    conventions = values.get("conventions") or {}
    is_read = _is_list(metrics) and _is_list(of_log) and isinstance(conventions, Mapping)
    if log is None or not is_read:  # what is wrong is told where the spec is read
        return {**values, "rankings": {"relation": RANKINGS}}
    columns = {"score": "score"} | _named(log)
    by_columns = _texts(values.get("by"))
    query_columns = [values.get("cluster"), *(by_columns if _is_list(by_columns) else ())]
    user = log.columns.user if log.columns else None
    clicks = _with_segment(log, user) if user and user in query_columns else values["clicks"]
    return {
        **values,
        "clicks": clicks,
        "name": values.get("name") or log.name,
        "rankings": {"relation": RANKINGS, "columns": columns},
        "labels": {"relation": LABELS},
        "metrics": tuple(metric for metric in metrics if not is_online(metric)),
        "online": _each_once([*of_log, *filter(is_online, metrics)]),
        # a request is a list of one system: no other one misses it
        "conventions": {"missing": "drop", **conventions},
    }


def _read(clicks: Any) -> Clicks | None:
    """A log; None if it is wrong, which is told where the spec is read."""
    try:
        return Clicks.model_validate(clicks)
    except ValidationError:
        return None


def _with_segment(log: Clicks, name: str) -> Clicks:
    """The log with a column among its segments, which it has for something else too."""
    source = log.log or log.impressions
    if source is None or name in source.columns.segments:
        return log
    segments = (*source.columns.segments, name)
    columns = source.columns.model_copy(update={"segments": segments})
    changed = source.model_copy(update={"columns": columns})
    return log.model_copy(update={"log" if log.log else "impressions": changed})


def _named(log: Clicks) -> dict[str, str]:
    """The columns that the rankings have besides."""
    system = {"system": "system"} if log.columns and log.columns.system else {}
    return system | ({"date": "metric_date"} if log.daily else {})


def _is_lowered(rankings: Any) -> bool:
    return getattr(rankings, "relation", None) == RANKINGS
