"""An experiment looked at night by night: each day alone, and all days up to it, as rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

from sqlmetrics.catalog.online import online
from sqlmetrics.comparison.online.experiment import Look, experiment_log, looking
from sqlmetrics.comparison.online.ratios import UNITS, OnlineRatios
from sqlmetrics.comparison.online.verdict import MetricResult, Verdict
from sqlmetrics.comparison.periods import Period
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import InputError
from sqlmetrics.jobs.experiment.rows import LookedAt
from sqlmetrics.spec.click_experiment import ClickExperiment
from sqlmetrics.spec.days import Days, Ends, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.tables.table import printable

EVERY_DAY = "sqlmetrics_experiment_units"
"""The table of what requests of all days add; `UNITS` has those of one look."""

DAY, RUNNING = "day", "running"

NUMBERS = (
    *("value", "control_value", "difference", "difference_low", "difference_high"),
    *("always_low", "always_high", "p_value", "relative", "relative_low", "relative_high", "state"),
)
"""Columns of the table that a look gives each metric."""

UNDECIDED = {"wanted_pct", "end"}
"""Settings that change no number of a day, and no verdict before the end."""


def looks(
    spec: Spec, engine: Database, looked_at: LookedAt
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of the experiment's table of some days, and what should be known.

    The log is read once, from the first day of the experiment; then each look is that of
    `clicks experiment` over its own days.

    Args:
        spec: A spec with a click log and its experiment.
        engine: The database that holds the log.
        looked_at: The days.

    Raises:
        SpecError: If the log lacks what a metric needs.
    """
    settings = spec.clicks.experiment if spec.clicks else None
    if settings is None or not _is_on(settings, looked_at):
        return [], []
    by_day = looked_at.day is None
    with experiment_log(spec, engine, _until(looked_at), by_day=by_day) as whole:
        nights = _Nights(spec, settings, whole)
        if looked_at.day is not None:
            with keeping(engine, [whole.step]):
                return nights.rows(whole, looked_at.day, RUNNING), nights.notes
        with keeping(engine, [replace(whole.step, name=EVERY_DAY)]):
            of_run = nights.days(looked_at.ends)
            rows = [
                row
                for day in sorted({*of_run, *looked_at.later_days})
                for span in ((DAY, RUNNING) if day in of_run else (RUNNING,))
                for row in nights.look(day, span)
            ]
    return rows, nights.notes


def _until(looked_at: LookedAt) -> date | None:
    """The day before which reading may end; None if the log has to say."""
    days = looked_at.ends.days
    if looked_at.day is not None or days is None or days.end is None:
        return None
    return max([days.end, *(day + timedelta(1) for day in looked_at.later_days)])


def _is_on(settings: ClickExperiment, looked_at: LookedAt) -> bool:
    """Whether the experiment is on at any of the days."""
    days, until = looked_at.ends.days, _until(looked_at)
    if looked_at.day is not None or looked_at.later_days or days is None:
        return True
    is_over = settings.end and days.start and days.start >= settings.end
    return not (is_over or (settings.start and until and until <= settings.start))


@dataclass
class _Nights:
    """Looks at an experiment, while its log is there.

    Attributes:
        spec: What is asked.
        settings: What is asked of the experiment.
        whole: Its metrics, over all days.
        notes: What the last running total came to.
    """

    spec: Spec
    settings: ClickExperiment
    whole: OnlineRatios
    notes: list[str] = field(default_factory=list)

    def days(self, ends: Ends) -> set[date]:
        """The days of a run on which the log has requests of the experiment."""
        own_days = self.settings.days
        conditions = [
            *ends.of("metric_date"),
            *(own_days.ends.of("metric_date") if own_days else ()),
        ]
        conditions.append("metric_date is not null")
        where = "\n    and ".join(conditions)
        select = f"select distinct metric_date\nfrom {EVERY_DAY}\nwhere {where}"
        return {day_of(day) for (day,) in self.whole.log.engine.rows(select)}

    def look(self, day: date, span: str) -> list[dict[str, Any]]:
        """The rows of a day alone, or of all days up to it."""
        days = Days(start=day if span == DAY else self.settings.start, end=day + timedelta(1))
        before = self.whole.options.before
        condition = Period("", days).condition
        if before is not None:
            condition = f"(\n    {condition}\n)\nor (\n    {before.condition}\n)"
        step = Step(UNITS, f"select *\nfrom {EVERY_DAY}\nwhere {condition}")
        options = replace(self.whole.options, days=days)
        with step.there(self.whole.log.engine):
            return self.rows(replace(self.whole, options=options, covered={}), day, span)

    def rows(self, ratios: OnlineRatios, day: date, span: str) -> list[dict[str, Any]]:
        """The rows of a look; without numbers where nobody may look, or a variant is not there."""
        with looking(self.settings, ratios) as look:
            outcome = _outcome(look)
        if span == RUNNING:
            self.notes = [
                f"experiment: {verdict} ({printable(variant)}): {reason}"
                for variant, (verdict, reason) in outcome.verdicts.items()
            ]
        return [
            {
                "metric_date": day,
                "span": span,
                "control": self.settings.control,
                **outcome.counts,
                **self._of_metric(text, variant, outcome),
                **_of_verdict(outcome, variant, span),
            }
            for variant in look.treatments
            for text in self.settings.metrics
        ]

    def _of_metric(self, text: str, variant: str, outcome: _Outcome) -> dict[str, Any]:
        """What a row says of a metric."""
        measure, rails = online(text), {rail.metric: rail for rail in self.settings.guardrails}
        result = outcome.results.get((variant, str(measure)))
        decides = self.settings.model_dump_json(exclude=UNDECIDED)
        definition = f"{self.spec.definition_hash(measure)} {decides}"
        return {
            "system": variant,
            "metric": measure.name,
            "k": measure.k or 0,
            "role": "guardrail" if text in rails else "primary",
            "n_units": outcome.n_units.get(variant, 0),
            "control_units": outcome.n_units.get(self.settings.control, 0),
            "max_drop_pct": rails[text].max_drop_pct if text in rails else None,
            **{name: getattr(result, name, None) for name in NUMBERS},
            "definition_hash": hashlib.sha256(definition.encode()).hexdigest()[:16],
        }


@dataclass(frozen=True)
class _Outcome:
    """What a look came to.

    Attributes:
        counts: Columns that all rows have alike.
        n_units: Variant -> its users.
        results: Variant and metric -> its numbers; none where nobody may look.
        verdicts: Variant -> its verdict, and why.
    """

    counts: Mapping[str, Any]
    n_units: Mapping[str, int]
    results: Mapping[tuple[str, str], MetricResult]
    verdicts: Mapping[str, tuple[Verdict, str]]


def _outcome(look: Look) -> _Outcome:
    try:
        _ = look.triggered  # says first whether any request counts
        n_units, n_mixed = look.counts
    except InputError as error:
        nothing = {"n_days": look.days[0], "n_mixed": 0, "p_sample_ratio": None}
        reason = str(error).removeprefix("experiment: ")
        return _Outcome(nothing, {}, {}, dict.fromkeys(look.treatments, ("no verdict", reason)))
    counts = {
        "n_days": look.days[0],
        "n_mixed": n_mixed,
        "p_sample_ratio": look.mismatch.p_value,
    }
    if look.barred:
        return _Outcome(counts, n_units, {}, dict.fromkeys(look.treatments, look.barred))
    results = {(result.variant, result.metric): result for result in look.metrics}
    return _Outcome(counts, n_units, results, look.verdicts)


def _of_verdict(outcome: _Outcome, variant: str, span: str) -> dict[str, str | None]:
    """What a row says of the verdict: of a day alone, which decides nothing, why it has no number.

    Its state is none either.
    """
    verdict, reason = outcome.verdicts[variant]
    if span == RUNNING:
        return {"verdict": verdict, "reason": reason}
    return {"verdict": None, "state": None, "reason": None if outcome.results else reason}
