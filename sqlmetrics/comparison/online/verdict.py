"""The verdict on an experiment: what each metric came to, what follows, and how it prints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from sqlmetrics.clicks.analysis.experiment import SampleRatioMismatch
from sqlmetrics.comparison.report import number
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.click_log import ClickExperiment
from sqlmetrics.stats import student
from sqlmetrics.stats.estimate import POWER, Estimate
from sqlmetrics.tables.table import Table, folded, many, printable
from sqlmetrics.tables.tabular import Block, Kinds, Tabular, kinds_of

Verdict: TypeAlias = Literal["ship", "do not ship", "not yet", "no verdict"]

State: TypeAlias = Literal["better", "worse", "held", "unclear"]
"""What a metric came to: `held` is a guardrail that lost no more than it may."""


@dataclass(frozen=True)
class MetricResult:
    """A metric of a variant beside control.

    Attributes:
        variant: The variant.
        metric: The metric.
        role: `primary` or `guardrail`.
        control_value: Its value in control.
        value: Its value in the variant.
        relative: The relative difference; None if control is 0.
        relative_low: The lower end of its interval.
        relative_high: The upper end.
        max_drop_pct: What a guardrail may lose, in percent.
        state: What it came to.
        days_needed: Days still needed for the wanted gain, of the primary metric.
        half_width: How far the interval of the difference goes to each side.
        variance_reduction: The share of its variance that the days before took away.
        since_first: The days since a user's first request that counts, like 2-3; None for all.
        difference: Its value less that in control.
        difference_low: The lower end of its interval by Student's t, for one look.
        difference_high: The upper end.
        always_low: The lower end of its always-valid interval.
        always_high: The upper end.
        p_value: The p-value of Welch's t, for one look.
    """

    variant: str
    metric: str
    role: str
    control_value: float | None
    value: float | None
    relative: float | None
    relative_low: float | None
    relative_high: float | None
    max_drop_pct: float | None
    state: State
    days_needed: int | None = None
    half_width: float | None = None
    variance_reduction: float | None = None
    since_first: str | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    always_low: float | None = None
    always_high: float | None = None
    p_value: float | None = None

    @property
    def change(self) -> str:
        """The relative difference with its interval, in words."""
        if self.relative is None:
            return f"from {number(self.control_value)} to {number(self.value)}"
        if self.relative_low is None or self.relative_high is None:
            return percent(self.relative)
        ends = f"{percent(self.relative_low)} to {percent(self.relative_high)}"
        return f"{percent(self.relative)} ({ends})"


@dataclass(frozen=True, repr=False)
class Experiment(Tabular):
    """The verdict on an experiment; it prints as a sentence and a table.

    Attributes:
        verdict: `ship`, `do not ship`, `not yet`, or `no verdict` where the sample ratio fails.
        variant: The variant that it is about; empty if there is no verdict.
        reason: Why, in a sentence.
        mismatch: The test of the sample ratio.
        n_mixed: Users in several variants, who are left out.
        metrics: One per variant and metric; none where the sample ratio fails.
        days: How many days the log has of it; None without times.
        share_triggered: The share of requests that count, where not all do.
        exposures: The primary metric by the days since a user's first request that counts.
        notes: What should be known.
    """

    verdict: Verdict
    variant: str
    reason: str
    mismatch: SampleRatioMismatch
    n_mixed: int
    metrics: tuple[MetricResult, ...]
    days: int | None
    notes: tuple[str, ...]
    share_triggered: float | None = None
    exposures: tuple[MetricResult, ...] = ()

    _schemas: ClassVar[Mapping[str, Kinds]] = {
        **dict.fromkeys(("metrics", "exposures"), kinds_of(MetricResult, state="string")),
        "verdict": {
            **dict.fromkeys(("verdict", "variant", "reason"), "string"),
            **dict.fromkeys(("p_sample_ratio", "share_triggered"), "double"),
            **dict.fromkeys(("n_mixed", "days"), "int64"),
        },
    }

    def to_dicts(self) -> dict[str, list[dict[str, Any]]]:
        """`metrics`, a row per variant and metric, `exposures` by days, and `verdict`, one row."""
        verdict_row = {
            "verdict": self.verdict,
            "variant": self.variant,
            "reason": self.reason,
            "p_sample_ratio": self.mismatch.p_value,
            "n_mixed": self.n_mixed,
            "days": self.days,
            "share_triggered": self.share_triggered,
        }
        return {
            "metrics": [vars(row) for row in self.metrics],
            "exposures": [vars(row) for row in self.exposures],
            "verdict": [verdict_row],
        }

    def _blocks(self) -> Iterator[Block]:
        name = printable(self.variant) if self.variant else ""
        subject = f" ({name})" if name and self.verdict == "not yet" else f" {name}"
        yield folded(f"{self.verdict}{subject.rstrip()}: {self.reason}")
        yield from self.mismatch.blocks()
        if self.metrics:
            yield (Table(_HEAD, [_cells(row) for row in self.metrics], 3),)
        if len({row.since_first for row in self.exposures}) > 1:
            head = [*_HEAD[:2], "days since first", *_HEAD[3:6]]
            cells = (_cells(row) for row in self.exposures)
            yield (Table(head, [row[:6] for row in cells], 3),)
        yield "\n".join(folded(f"note: {note}") for note in self.notes)


_HEAD = ["variant", "metric", "role", "control", "value", "relative", "state"]


def _cells(row: MetricResult) -> list[str]:
    names = [printable(row.variant), row.metric, row.since_first or row.role]
    change = row.change if row.relative is not None else "-"
    return [*names, number(row.control_value), number(row.value), change, row.state]


def percent(share: float) -> str:
    """A relative difference in percent."""
    return f"{100 * share:+.1f} %"


BEST_LAST: Sequence[Verdict] = ("do not ship", "not yet", "ship")


def gain(row: MetricResult) -> float:
    """How large an effect is, below 0 where it is no gain."""
    return abs(row.relative or 0.0) * (1 if row.state == "better" else -1)


def metric_result(
    row: Mapping[str, Any],
    settings: ClickExperiment,
    level: float,
    max_drop_pct: float | None,
    n_days: int | None,
) -> MetricResult:
    """A row of a comparison as the experiment reads it."""
    always, direction = settings.looks == "any", row["direction"]
    estimate: Estimate | None = row.get("statistic")
    intervals = [
        estimate.interval(level, always=is_always) if estimate else (None, None)
        for is_always in (False, True)
    ]
    ends = intervals[always]
    log_ratio = Estimate(*row["log_ratio"]) if row.get("log_ratio") else None
    low, high = log_ratio.interval(level, always=always) if log_ratio else (None, None)
    relative = None if low is None or high is None else (math.expm1(low), math.expm1(high))
    is_guardrail = max_drop_pct is not None
    state = (
        _held(row, relative, max_drop_pct / 100)
        if max_drop_pct is not None
        else _moved(ends, direction)
    )
    needed = None
    if not is_guardrail and log_ratio and settings.wanted_pct and n_days and state == "unclear":
        needed = _days_needed(log_ratio, settings.wanted_pct / 100, level, n_days, always=always)
    return MetricResult(
        row["system"],
        row["metric"],
        "guardrail" if is_guardrail else "primary",
        row["baseline_value"],
        row["value"],
        row["relative"],
        relative_low=relative and relative[0],
        relative_high=relative and relative[1],
        max_drop_pct=max_drop_pct,
        state=state,
        days_needed=needed,
        half_width=estimate.half_width(level, always=always) if estimate else None,
        variance_reduction=row["variance_reduction"],
        since_first=None if row["segment_name"] == ALL else row["segment_value"],
        difference=row["difference"],
        difference_low=intervals[0][0],
        difference_high=intervals[0][1],
        always_low=intervals[1][0],
        always_high=intervals[1][1],
        p_value=row["p_value"],
    )


def _moved(ends: tuple[float | None, float | None], direction: int) -> State:
    """Whether an interval of a difference lies on one side of 0."""
    low, high = ends
    if low is None or high is None or low <= 0 <= high:
        return "unclear"
    return "better" if (low > 0) == (direction > 0) else "worse"


def _held(row: Mapping[str, Any], relative: tuple[float, float] | None, drop: float) -> State:
    """Whether a relative difference lies within what may be lost, or beyond it."""
    if relative is None:
        return "held" if row["difference"] == 0 and row["value"] is not None else "unclear"
    low, high = relative
    least, most = (-high, -low) if row["direction"] > 0 else (low, high)
    if most <= drop:
        return "held"
    return "worse" if least > drop else "unclear"


def _days_needed(
    log_ratio: Estimate, wanted: float, level: float, n_days: int, *, always: bool
) -> int:
    """Days still needed for an interval that would show the wanted gain with 80 % power.

    The error falls with the square root of the days, if each brings as many new users.
    """
    half_width = log_ratio.half_width(level, always=always) or 0.0
    power = student.critical(2 * POWER - 1, log_ratio.df) * (log_ratio.standard_error or 0.0)
    return max(1, math.ceil(n_days * ((half_width + power) / math.log1p(wanted)) ** 2) - n_days)


def decided(rows: Sequence[MetricResult], *, is_over: bool) -> tuple[Verdict, str]:
    """The verdict on a variant, and why."""
    primary, *guardrails = rows
    if primary.state == "worse":
        return "do not ship", f"{primary.metric} got worse, {primary.change}"
    for row in guardrails:
        if row.state == "worse":
            return "do not ship", (
                f"the guardrail {row.metric} got worse by more than {row.max_drop_pct:g} %, "
                f"{row.change}"
            )
    doubts = [row for row in guardrails if row.state == "unclear"]
    if primary.state == "better" and not doubts:
        held = ", and all guardrails hold" if guardrails else ""
        return "ship", f"{primary.metric} got better, {primary.change}{held}"
    verdict: Verdict = "do not ship" if is_over else "not yet"
    if primary.state != "better":
        days = many(primary.days_needed or 0, "more day")
        needs = f"; about {days} would show the wanted gain" if primary.days_needed else ""
        end = " by the end" if is_over else " so far"
        return verdict, f"{primary.metric} has no clear gain{end}, {primary.change}{needs}"
    row = doubts[0]
    return verdict, (
        f"{primary.metric} got better, {primary.change}, but the guardrail {row.metric} may have "
        f"got worse by more than {row.max_drop_pct:g} %, {row.change}"
    )
