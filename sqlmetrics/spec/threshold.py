"""What a user says of the numbers: at least this, at most that, no such drop, not too old."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Literal

from pydantic import Field, model_validator

from sqlmetrics.spec.source import Model
from sqlmetrics.stats import CONFIDENCE

PREVIOUS = "previous"

EVERY_VALUE = "*"
"""The value of a segment that stands for each."""

ALWAYS = "always"

GUARDRAILS, PRIMARY, SAMPLE_RATIO = "guardrails", "primary", "sample_ratio"
"""What is asked of an experiment."""

LIMITS = ("min", "max", "max_drop", "max_drop_pct", "max_rise", "min_queries")
"""What is asked of a metric."""

OF_TABLE = ("max_age", "min_rows")
"""What is asked of the fact table as a whole."""


class Threshold(Model):
    """What must hold on the last day of the fact table; everything given must hold."""

    metric: str | None = None
    """Which metric, as the spec names it."""
    min: float | None = None
    """The least value."""
    max: float | None = None
    """The greatest value."""
    max_drop: float | None = Field(default=None, ge=0)
    """By how much it may be worse than `against`: lower, or higher if lower is better."""
    max_drop_pct: float | None = Field(default=None, ge=0)
    """By how many percent of it."""
    max_rise: float | None = Field(default=None, ge=0)
    """By how much it may be higher, whether that is better or not."""
    against: str = PREVIOUS
    """`previous`, the day before that the table has, or a baseline system."""
    min_queries: int | None = Field(default=None, ge=1)
    """Of how many queries it must be a mean, at least."""
    system: str | None = None
    """Of which system; by default of each."""
    segment: dict[str, str] = Field(default={}, max_length=1)
    """Of which segment, like {country: DE}; by default of all queries together. With the value `*`
    of each."""
    confidence: Annotated[float, Field(gt=0, lt=1)] | Literal["always"] | None = None
    """Like 0.95: it fails only if the confidence interval says so too. `always` takes all days so
    far, and an interval of 95 % at all looks together: a check every day stays safe."""
    since: date | None = None
    """The first of these days, for `always`; by default the first one of the table."""
    max_age: int | None = Field(default=None, ge=0)
    """How many days ago the last day may be."""
    min_rows: int | None = Field(default=None, ge=1)
    """How many rows the fact table must have for the last day."""
    experiment: Literal["guardrails", "primary", "sample_ratio"] | None = None
    """What must hold of the experiment up to that day: `guardrails`, which may lose so much,
    `primary`, which may lose nothing, or `sample_ratio`, the shares as planned."""
    severity: Literal["fail", "warn"] = "fail"
    """`warn` tells what does not hold, and does not fail."""

    @property
    def level(self) -> float:
        """The coverage of its intervals."""
        return self.confidence if isinstance(self.confidence, float) else CONFIDENCE

    @property
    def certainty(self) -> str:
        """How sure it must be, as the end of a rule's text; empty if the number alone counts."""
        if self.confidence is None:
            return ""
        since = f" since {self.since}" if self.since else ""
        return f", confidence {self.confidence}{since}"

    def unfit(self, baseline: str | None) -> Iterator[str]:
        """Why it does not fit a spec with such a baseline; nothing if it does."""
        if self.confidence == ALWAYS and self.against not in (PREVIOUS, baseline):
            yield (
                f"checks: confidence: {ALWAYS} against {self.against} needs the sums that a run "
                f"stores beside a baseline; add to the spec: baseline: {self.against}"
            )

    @model_validator(mode="after")
    def _asks_something(self) -> Threshold:
        of_metric = [name for name in LIMITS if getattr(self, name) is not None]
        of_table = [name for name in OF_TABLE if getattr(self, name) is not None]
        if self.metric is None and of_metric:
            raise ValueError(
                f"{', '.join(of_metric)}: name the metric of this limit, like metric: ndcg@10"
            )
        if self.metric is not None and not of_metric:
            raise ValueError(f"{self.metric} has no limit; give one of {', '.join(LIMITS)}")
        if not of_metric and not of_table and self.experiment is None:
            raise ValueError(f"give a metric and a limit, or {', '.join(OF_TABLE)} or experiment")
        if self.since is not None and self.confidence != ALWAYS:
            raise ValueError(
                f"since is the first day of confidence: {ALWAYS}; add that, or leave since out"
            )
        return self
