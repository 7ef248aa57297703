"""An experiment in a click log: the sample ratio, the primary metric, guardrails, and a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property, partial
from typing import Any, cast

from sqlmetrics.catalog.online import online
from sqlmetrics.clicks.analysis.experiment import SampleRatioMismatch, Unit, mismatch
from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.comparison.online.exposure import SINCE, by_exposure, spans
from sqlmetrics.comparison.online.ratios import UNITS, OnlineRatios, ratios_of
from sqlmetrics.comparison.online.trigger import Trigger, by_column, by_lists
from sqlmetrics.comparison.online.verdict import (
    BEST_LAST,
    Experiment,
    MetricResult,
    Verdict,
    decided,
    gain,
    metric_result,
    percent,
)
from sqlmetrics.comparison.online.winsorising import winsorised
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.periods import period
from sqlmetrics.comparison.statements import columns_stage
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.jobs.days import on_days
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.click_experiment import ClickExperiment
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.days import Days, day_of
from sqlmetrics.spec.named_values import named_in
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, with_stages
from sqlmetrics.sql.template import literal
from sqlmetrics.tables.table import many, printable

UNMIXED = "sqlmetrics_unmixed_units"
"""The table of the requests of users who were in one variant alone."""

TRIGGERED = "sqlmetrics_triggered_units"
"""The table of those of them in which the variants differ."""


def experiment(spec: Spec, connection: Any = None) -> Experiment:
    """The verdict on the experiment of a spec: its key `experiment` under `clicks`.

    Users (sessions, or requests, where the log names no users) in several variants are left out.
    If the shares of the others do not fit the plan, there is no verdict. Otherwise a variant is to
    be shipped if the interval of its primary metric lies above no gain, and those of all guardrails
    above what they may lose; it is not to be shipped if one lies below.

    Args:
        spec: A spec with a click log and its experiment.
        connection: The database that holds the log; see `evaluate`.

    Raises:
        SpecError: If the spec has no experiment, or the log lacks what a metric needs.
        InputError: If a variant has no request.
    """
    _, settings = _asked(spec)
    with (
        experiment_log(spec, connect(connection)) as ratios,
        keeping(ratios.log.engine, [ratios.step]),
        looking(settings, ratios) as look,
    ):
        return look.result()


def _asked(spec: Spec) -> tuple[Clicks, ClickExperiment]:
    """The log of a spec, and its experiment.

    Raises:
        SpecError: If there is none.
    """
    if spec.clicks is None or spec.clicks.experiment is None:
        raise SpecError(
            "the spec has no experiment; add clicks: {experiment: {variants: [old, new], control: "
            "old, primary: ctr@5}}"
        )
    return spec.clicks, spec.clicks.experiment


@contextmanager
def experiment_log(
    spec: Spec, engine: Database, until: date | None = None, *, by_day: bool = False
) -> Iterator[OnlineRatios]:
    """The metrics of a spec's experiment, before what requests add to them is kept.

    Args:
        spec: A spec with a click log and its experiment.
        engine: The database that holds the log.
        until: The day before which reading ends; by default that of the experiment.
        by_day: Whether each request has its day, and only those of its days are read.
    """
    clicks, settings = _asked(spec)
    of_log = {"metrics": settings.metrics, "online": (), "by": (), "baseline": settings.control}
    before = period(settings.days_before) if settings.days_before else None
    start = before.days.start if before else settings.start
    end = min(filter(None, (until, settings.end)), default=None)
    read = Days(start=start, end=end) if start or end else None
    dated = on_days(spec.having(**of_log), read).spec
    clicks = dated.clicks or clicks
    if by_day or (clicks.columns is not None and clicks.columns.time is not None):
        clicks = clicks.model_copy(update={"daily": True})
    options = Options(metrics=(), days=settings.days, before=before)
    names = named_in(dated)
    with (
        engine,
        engine.reading(),
        cleaned_log(clicks, engine, names=names, only_days=by_day and read is not None) as log,
    ):
        yield ratios_of(log, dated, options, settings.flags)


@contextmanager
def looking(settings: ClickExperiment, whole: OnlineRatios) -> Iterator[Look]:
    """A look at an experiment, while the block lasts.

    Args:
        settings: What is asked of it.
        whole: Its metrics, while what requests add to them is kept.
    """
    engine = whole.log.engine
    with (
        winsorised(whole, settings.variants, settings.winsorise) as (ratios, cut),
        keeping(engine, [Step(UNMIXED, _unmixed(ratios, settings))]),
        keeping(engine, [Step(TRIGGERED, _TRIGGERED)] * bool(settings.triggered)),
    ):
        table = TRIGGERED if settings.triggered else UNMIXED
        yield Look(settings, replace(ratios, table=table), cut)


def _trigger(settings: ClickExperiment, engine: Database) -> Trigger | None:
    """Which requests count; None for all of them."""
    if settings.lists is not None:
        return by_lists(settings.lists, settings.variants, engine)
    return by_column(settings.triggered, engine) if settings.triggered else None


def _in_variants(ratios: OnlineRatios, settings: ClickExperiment) -> list[Stage]:
    """The requests of the variants, and in how many of them each user is."""
    where = f"system in ({', '.join(map(literal, settings.variants))})"
    where += f"\n    and {ratios.compared}" if ratios.compared else ""
    about = "the requests of the variants"
    return [
        columns_stage("variant_units", about, ["*"], ratios.units, where),
        Stage("users", "clicks/users", {"served": "variant_units"}),
    ]


def _unmixed(ratios: OnlineRatios, settings: ClickExperiment) -> str:
    """The select of the requests of users who are in one variant alone."""
    trigger = _trigger(settings, ratios.log.engine)
    number = Column("coalesce(users.n_systems, 1)", "n_systems")
    flags = [Column(trigger.sql, "is_triggered")] if trigger else []
    view = {
        "about": "each request with the number of its user's variants",
        "columns": ["variant_units.*", number, *flags],
        "from": "variant_units",
        "joins": {
            "users": ["users.user_id = variant_units.user_id"],
            **(trigger.joins if trigger else {}),
        },
        "kind": "left",
    }
    read = trigger.stages if trigger else ()
    joined = Stage("joined_units", "comparison/joins", view)
    stages = [*_in_variants(ratios, settings), *read, joined]
    return with_stages(stages, "select *\nfrom joined_units\nwhere n_systems = 1")


_TRIGGERED = f"select *\nfrom {UNMIXED}\nwhere is_triggered = 1"

_SHARES = """\
select
    system,
    count(distinct coalesce(user_id, request_id)) as n_units
from {table}
group by system"""

_MIXED = "select count(*) as n_mixed\nfrom users\nwhere n_systems > 1"

_DAYS = """\
select
    count(distinct metric_date) as n_days,
    max(metric_date) as last_day
from sqlmetrics_unmixed_units"""

_FLAGGED = """\
select
    count(*) as n_requests,
    count(is_triggered) as n_known,
    coalesce(sum(is_triggered), 0) as n_triggered
from sqlmetrics_unmixed_units"""

_WEIGHTS = """\
select
    sum({weight}) as weight,
    sum(is_triggered * {weight}) as triggered_weight
from sqlmetrics_unmixed_units"""

_FIRST_DAYS = """\
select
    system,
    min(metric_date) as first_day
from sqlmetrics_online_units
group by system"""


@dataclass(frozen=True)
class Look:
    """What is asked of an experiment, while its requests are there.

    Attributes:
        settings: What is asked.
        ratios: Its metrics, over the requests that count.
        cut: What was cut of amounts, in words.
    """

    settings: ClickExperiment
    ratios: OnlineRatios
    cut: Sequence[str]

    def result(self) -> Experiment:
        """The verdict on the best variant."""
        share, of_trigger = self.triggered
        notes = (*self._notes(), *self.cut, *of_trigger)
        experiment_result = partial(
            Experiment,
            mismatch=self.mismatch,
            n_mixed=self.counts[1],
            days=self.days[0],
            share_triggered=share,
        )
        if self.barred:
            return experiment_result(self.barred[0], "", self.barred[1], metrics=(), notes=notes)
        gains = {row.variant: gain(row) for row in self.metrics if row.role == "primary"}
        variant, (verdict, reason) = max(
            self.verdicts.items(), key=lambda pair: (BEST_LAST.index(pair[1][0]), gains[pair[0]])
        )
        notes = (*notes, *self.ratios.of_covariate(), *self._treated_before())
        notes += tuple(
            f"{row.metric} of {printable(row.variant)}: the covariate changed the variance of the "
            f"difference by {percent(-row.variance_reduction)}"
            for row in self.metrics
            if row.variance_reduction
        )
        notes += tuple(self._diluted(self.metrics))
        return experiment_result(
            verdict,
            variant,
            reason,
            metrics=tuple(self.metrics),
            notes=notes,
            exposures=tuple(self._exposures(self.days[0] or 0)),
        )

    @cached_property
    def mismatch(self) -> SampleRatioMismatch:
        """The test of the sample ratio."""
        unit = cast(Unit, self.ratios.unit.names[1])
        return mismatch(self.counts[0], self.settings.shares, unit=unit)

    @cached_property
    def barred(self) -> tuple[Verdict, str] | None:
        """The verdict, and why, where no metric may be looked at; None where one may."""
        ratio, end = self.mismatch, self.settings.end
        if ratio.is_mismatch:
            shares = " and ".join(
                f"{printable(name)} has {n:,} {ratio.unit} where {ratio.expected[name]:,.0f} were "
                "planned"
                for name, n in ratio.counts.items()
            )
            reason = f"{shares} (p = {ratio.p_value:.3g}); find out why before you read the metrics"
            return "no verdict", reason
        if self.settings.looks == "end" and not self.is_over:
            reason = f"the experiment ends on {end}, and looks: end allows one look then"
            return "not yet", reason
        return None

    @cached_property
    def is_over(self) -> bool:
        """Whether the last day is among the days."""
        end, last_day = self.settings.end, self.days[1]
        return bool(end and last_day and last_day >= end - timedelta(1))

    @cached_property
    def metrics(self) -> list[MetricResult]:
        """The metrics of each variant."""
        return self._metrics(self.ratios, self.days[0])

    @cached_property
    def verdicts(self) -> dict[str, tuple[Verdict, str]]:
        """Variant -> its verdict, and why."""
        return {
            name: decided(
                [row for row in self.metrics if row.variant == name], is_over=self.is_over
            )
            for name in self.treatments
        }

    @property
    def treatments(self) -> list[str]:
        """The variants beside control."""
        return [name for name in self.settings.variants if name != self.settings.control]

    @cached_property
    def counts(self) -> tuple[dict[str, int], int]:
        """Variant -> its users, and how many were in several.

        Raises:
            InputError: If a variant has no request, or no user is in one variant alone.
        """
        engine = self.ratios.log.engine
        counts = {
            str(system): int(n)
            for system, n in engine.rows(_SHARES.format(table=self.ratios.table))
        }
        ((n_mixed,),) = engine.rows(with_stages(_in_variants(self.ratios, self.settings), _MIXED))
        lacks = [name for name in self.settings.variants if name not in counts]
        if lacks and not n_mixed:
            systems = engine.rows(f"select distinct system from {UNITS}")
            if not systems:
                raise self.ratios.log.absence()
            names = sorted(str(system) for (system,) in systems)
            raise InputError(
                f"experiment: no request of {lacks[0]}; {unknown('system', lacks[0], names)}"
            )
        if not counts and n_mixed:
            raise InputError(
                f"experiment: all {many(int(n_mixed), *self.ratios.unit.names)} are in several "
                "variants; if the log begins before the experiment, give start, its first day"
            )
        return {name: counts.get(name, 0) for name in self.settings.variants}, int(n_mixed)

    @cached_property
    def days(self) -> tuple[int | None, date | None]:
        """How many days there are, and the last one; None without times."""
        if not self.ratios.log.tables.clicks.daily:
            return None, None
        ((n_days, last_day),) = self.ratios.log.engine.rows(_DAYS)
        return int(n_days), None if last_day is None else day_of(last_day)

    def _metrics(
        self, ratios: OnlineRatios, n_days: int | None = None, name: str = ALL
    ) -> list[MetricResult]:
        """The metrics of each variant; by the values of a segment, if it is named."""
        settings = self.settings
        level = 1 - (1 - settings.level) / len(self.treatments)
        drops = {str(online(rail.metric)): rail.max_drop_pct for rail in settings.guardrails}
        return [
            metric_result(row, settings, level, drops.get(row["metric"]), n_days)
            for row in ratios.rows(settings.control, self.treatments)
            if row["segment_name"] == name
        ]

    def _exposures(self, n_days: int) -> Iterator[MetricResult]:
        """The primary metric by days since exposure, in order."""
        if n_days < 2:
            return
        step, ratios = by_exposure(self.ratios, n_days)
        with step.there(ratios.log.engine):
            order = [name for name, _ in spans(n_days)]
            rows = self._metrics(ratios, name=SINCE)
            yield from sorted(
                rows, key=lambda row: (row.variant, order.index(row.since_first or "0"))
            )

    @cached_property
    def triggered(self) -> tuple[float | None, list[str]]:
        """The share of requests that count, and how many do in words; None of all.

        Raises:
            InputError: If none does.
        """
        trigger = self.settings.triggered
        if not trigger:
            return None, []
        ((n, n_known, n_triggered),) = self.ratios.log.engine.rows(_FLAGGED)
        if n and not n_triggered:
            raise InputError(
                f"experiment: triggered: {trigger} holds for none of {many(n, 'request')}, and for "
                f"{n - n_known:,} it is not known; check that the request ids are those of the log"
            )
        share = n_triggered / n if n else None
        counted = f"{n_triggered:,} of {many(n, 'request')} ({share or 0:.1%})"
        lacks = f"; of {n - n_known:,} others it is not known" if n > n_known else ""
        return share, [f"triggered: {trigger} holds for {counted}, which count{lacks}"]

    def _diluted(self, metrics: Sequence[MetricResult]) -> Iterator[str]:
        """The primary metric over all requests, and what the triggered ones did for its error."""
        if not self.settings.triggered:
            return
        first = self.ratios.terms[:1]
        every = replace(self.ratios, table=UNMIXED, terms=first)
        ((weight, triggered_weight),) = self.ratios.log.engine.rows(
            _WEIGHTS.format(weight=first[0].w)
        )
        narrow = {row.variant: row.half_width for row in metrics if row.role == "primary"}
        for row in self._metrics(every):
            half_width = narrow[row.variant]
            width = (
                f"; counting those alone, the interval of this effect is "
                f"{half_width * triggered_weight / weight / row.half_width:.2f} times as wide"
                if half_width and row.half_width
                else ""
            )
            name = printable(row.variant)
            yield f"over all requests, {row.metric} of {name} is {row.change}{width}"

    def _notes(self) -> Iterator[str]:
        unit, n_mixed, n_days = self.ratios.unit, self.counts[1], self.days[0]
        if not unit.is_request:
            yield f"left out: {many(n_mixed, *unit.names)} in several variants"
        if n_days is not None:
            yield f"the log has {many(n_days, 'day')} of the experiment"
        if n_mixed and n_days and self.settings.start is None:
            yield from self._late_start()
        looks = (
            "always valid: look on any day"
            if self.settings.looks == "any"
            else "for one look at the end"
        )
        yield (
            f"intervals at {self.settings.level:.0%} over {unit.names[1]}, {looks}; a guardrail is "
            "held if its whole interval is within what it may lose"
        )

    def _treated_before(self) -> Iterator[str]:
        """Whether the days before are of the experiment itself."""
        before = self.ratios.options.before
        if before is None:
            return
        treatments = ", ".join(map(literal, self.treatments))
        where = f"{before.condition}\n    and system in ({treatments})"
        counted = f"select count(*) as n\nfrom {self.ratios.units}\nwhere {where}"
        ((n,),) = self.ratios.log.engine.rows(counted)
        if n:
            yield (
                f"{many(int(n), 'request')} of {before.name} had a variant already: a covariate "
                "that the variant moved hides its effect; give the experiment's first day as start"
            )

    def _late_start(self) -> Iterator[str]:
        """Whether the log begins before the experiment does: not all variants are there at once."""
        rows = self.ratios.log.engine.rows(_FIRST_DAYS)
        days = {str(name): day_of(day) for name, day in rows if name in self.settings.variants}
        first, last = (pick(days, key=days.__getitem__) for pick in (min, max))
        if days[first] < days[last]:
            yield (
                f"{printable(first)} has requests from {days[first]}, {printable(last)} from "
                f"{days[last]}: give start: {days[last]}, so that nobody is in both for what came "
                "before"
            )
