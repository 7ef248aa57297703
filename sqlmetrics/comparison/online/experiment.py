"""An experiment in a click log: the sample ratio, the primary metric, guardrails, and a verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property, partial
from typing import Any, cast

from sqlmetrics.catalog.online import online
from sqlmetrics.clicks.analysis.experiment import SampleRatioMismatch, Unit, mismatch
from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.clicks.interleaving import source_items
from sqlmetrics.comparison.online.ratios import UNITS, OnlineRatios, ratios_of, winsorised
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
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.periods import Period, period
from sqlmetrics.comparison.statements import columns_stage, sums_stage
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import InputError, SpecError, shortened, unknown
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.jobs.days import on_days
from sqlmetrics.jobs.experiment import LookedAt
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.click_columns import SourceRankings
from sqlmetrics.spec.click_log import ClickExperiment, Clicks
from sqlmetrics.spec.days import Days, Ends, day_of
from sqlmetrics.spec.named_values import SYSTEM, named_in
from sqlmetrics.spec.reading import AnySpec, spec_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.stage import Column, Stage, Window, with_stages
from sqlmetrics.sql.template import identifier, literal, verbatim
from sqlmetrics.tables.table import many, printable

# The effect by day since a user's first request that counts: does it last, or is it novelty?

EXPOSED = "sqlmetrics_exposed_units"
"""The table of requests with the days since their user's first one."""

SINCE = "since_first"
"""The segment of these days: 0, 1, 2-3, 4-7 and so on, twice as many each time."""


def spans(n_days: int) -> Iterator[tuple[str, int]]:
    """The names of spans of days up to so many, each with the first day after it.

    >>> list(spans(5))
    [('0', 1), ('1', 2), ('2-3', 4), ('4-7', 8)]
    """
    yield "0", 1
    first = 1
    while first < n_days:
        yield (str(first) if first == 1 else f"{first}-{2 * first - 1}"), 2 * first
        first *= 2


def by_exposure(ratios: OnlineRatios, n_days: int) -> tuple[Step, OnlineRatios]:
    """The table of requests by days since exposure, and the first of the metrics over it.

    A day is one on which the log has requests.

    Args:
        ratios: The requests that count.
        n_days: On how many days they are.
    """
    days = Column(f"dense_rank() over {Window([], ['metric_date asc'])}", "day_number")
    user = Window(["coalesce(user_id, request_id)"])
    since = Column(f"day_number\n    - min(day_number) over {user}", "n_since")
    whens = [f"    when n_since < {end} then '{name}'" for name, end in spans(n_days)]
    span = Column("\n".join(["case", *whens, "end"]), segment(SINCE))
    rows = ratios.table
    stages = [
        columns_stage("numbered", "days in order", ["*", days], rows, "metric_date is not null"),
        columns_stage("exposures", "days since the user's first", ["*", since], "numbered"),
        columns_stage("spans", "these in spans", ["*", span], "exposures"),
    ]
    step = Step(EXPOSED, with_stages(stages, "select *\nfrom spans"))
    return step, replace(ratios, table=EXPOSED, by=(SINCE,), terms=ratios.terms[:1])


# Which requests of an experiment count: those in which the variants differ.

YES = frozenset({"true", "t", "yes", "y", "1", "1.0"})
NO = frozenset({"false", "f", "no", "n", "0", "0.0"})


@dataclass(frozen=True)
class Trigger:
    """Whether a request is triggered, as SQL beside its units: 1, 0, or NULL if nobody knows.

    Attributes:
        sql: The expression.
        stages: What it reads.
        joins: Stage -> the conditions on which it is joined.
    """

    sql: str
    stages: Sequence[Stage] = ()
    joins: Mapping[str, list[str]] = field(default_factory=dict)


def by_column(name: str, engine: Database) -> Trigger:
    """Requests in which a column of the log is true.

    Raises:
        InputError: If it has values that are neither yes nor no.
    """
    column = segment(name)
    values = {str(value) for (value,) in engine.rows(f"select distinct {column} from {UNITS}")}
    odd = sorted(value for value in values - {UNKNOWN} if value.lower() not in YES | NO)
    if odd:
        raise InputError(
            f"experiment: triggered: {name} has the value {printable(shortened(odd[0]))!r}, which "
            "is neither true nor false (1 or 0, yes or no); name a column that is true where the "
            "variants differ"
        )
    whens = [
        f"    when {column} in ({', '.join(map(literal, sorted(chosen)))}) then {flag}"
        for flag, words in ((1, YES), (0, NO))
        if (chosen := [value for value in values if value.lower() in words])
    ]
    return Trigger("\n".join(["case", *whens, "end"]) if whens else "cast(null as integer)")


def by_lists(source: SourceRankings, variants: Sequence[str], engine: Database) -> Trigger:
    """Requests for which the lists of the variants differ in an item or its place.

    Raises:
        InputError: If a column is not there, or a row has no rank or score.
    """
    columns = source.columns
    conditions = [
        f"{identifier(columns.system)} in ({', '.join(map(literal, variants))})",
        *([verbatim(source.where)] if source.where else []),
    ]
    relation = source_relation(source, "clicks_lists", engine)
    existing = engine.columns(source_text(relation))
    for name in (columns.query, columns.item, columns.system, columns.order):
        if name.casefold() not in map(str.casefold, existing):
            raise InputError(
                f"experiment: lists: {unknown('column', name, existing)}; name it in columns"
            )
    items = source_items(relation, columns, conditions)
    order = [f"ordered_by {'asc' if columns.rank else 'desc'}", "item_id asc"]
    list_rank = Column(f"row_number() over {Window(['request_id', 'system'], order)}", "list_rank")
    stages = [
        items,
        columns_stage(
            "variant_ranks",
            "each with its rank in the list of its variant",
            ["request_id", "item_id", list_rank],
            "source_items",
        ),
        sums_stage(
            "filled_ranks",
            "one row per request and rank: how many variants fill it, and with what",
            ["request_id", "list_rank"],
            [
                Column("count(*)", "n_lists"),
                Column("min(item_id)", "first_item"),
                Column("max(item_id)", "last_item"),
            ],
            "variant_ranks",
        ),
        sums_stage(
            "list_differences",
            "one row per request: how many variants have a list, and whether these differ",
            ["request_id"],
            [
                Column("max(n_lists)", "n_lists"),
                Column(
                    "max(case\n"
                    f"        when n_lists < {len(variants)} or first_item <> last_item then 1\n"
                    "        else 0\n    end)",
                    "differs",
                ),
            ],
            "filled_ranks",
        ),
    ]
    unordered = "select count(*) as n from source_items where ordered_by is null"
    ((n_unordered,),) = engine.rows(with_stages(stages[:1], unordered))
    if n_unordered:
        raise InputError(
            f"experiment: lists: {n_unordered:,} rows have no {columns.order}; leave them out "
            f"with where: {columns.order} is not null"
        )
    return Trigger(
        f"case when list_differences.n_lists = {len(variants)} then list_differences.differs end",
        stages,
        {"list_differences": ["list_differences.request_id = variant_units.request_id"]},
    )


UNMIXED = "sqlmetrics_unmixed_units"
"""The table of the requests of users who were in one variant alone."""

TRIGGERED = "sqlmetrics_triggered_units"
"""The table of those of them in which the variants differ."""


def experiment(spec: AnySpec, connection: Any = None) -> Experiment:
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
    spec = spec_of(spec)
    _, settings = _log_and_experiment(spec)
    with (
        experiment_log(spec, connect(connection)) as ratios,
        keeping(ratios.log.engine, [ratios.step]),
        looking(settings, ratios) as look,
    ):
        return look.result()


def _log_and_experiment(spec: Spec) -> tuple[Clicks, ClickExperiment]:
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
    clicks, settings = _log_and_experiment(spec)
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
    # control is a variant: who is none of the log's is told below, in the words of the experiment
    names = [name for name in named_in(dated) if name.role != SYSTEM]
    with (
        engine,
        engine.reading(),
        cleaned_log(clicks, engine, names=names, only_days=by_day and read is not None) as log,
    ):
        yield ratios_of(log, dated, options, settings.flags)


@contextmanager
def looking(settings: ClickExperiment, full_ratios: OnlineRatios) -> Iterator[Look]:
    """A look at an experiment, while the block lasts.

    Args:
        settings: What is asked of it.
        full_ratios: Its metrics, while what requests add to them is kept.
    """
    engine = full_ratios.log.engine
    with (
        winsorised(full_ratios, settings.variants, settings.winsorise) as (ratios, cut),
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
        with step.created_in(ratios.log.engine):
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


# An experiment looked at night by night: each day alone, and all days up to it, as rows.

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
    with experiment_log(spec, engine, _until(looked_at), by_day=by_day) as full_ratios:
        nights = _Nights(spec, settings, full_ratios)
        if looked_at.day is not None:
            with keeping(engine, [full_ratios.step]):
                return nights.rows(full_ratios, looked_at.day, RUNNING), nights.notes
        with keeping(engine, [replace(full_ratios.step, name=EVERY_DAY)]):
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
        full_ratios: Its metrics, over all days.
        notes: What the last running total came to.
    """

    spec: Spec
    settings: ClickExperiment
    full_ratios: OnlineRatios
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
        return {day_of(day) for (day,) in self.full_ratios.log.engine.rows(select)}

    def look(self, day: date, span: str) -> list[dict[str, Any]]:
        """The rows of a day alone, or of all days up to it."""
        days = Days(start=day if span == DAY else self.settings.start, end=day + timedelta(1))
        before = self.full_ratios.options.before
        condition = Period("", days).condition
        if before is not None:
            condition = f"(\n    {condition}\n)\nor (\n    {before.condition}\n)"
        step = Step(UNITS, f"select *\nfrom {EVERY_DAY}\nwhere {condition}")
        options = replace(self.full_ratios.options, days=days)
        with step.created_in(self.full_ratios.log.engine):
            return self.rows(replace(self.full_ratios, options=options, covered={}), day, span)

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
