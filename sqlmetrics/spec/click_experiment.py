"""What a user says of an experiment: its variants, its metrics, and what may not get worse."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Literal

from pydantic import Field, model_validator

from sqlmetrics.catalog.online import online
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.click_columns import SourceRankings
from sqlmetrics.spec.days import Days
from sqlmetrics.spec.source import Model
from sqlmetrics.stats import CONFIDENCE

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
