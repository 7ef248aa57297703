"""Which days a job has still to do: those of the data of which the fact table lacks a metric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby, pairwise

from sqlmetrics.catalog.counterfactual import is_estimated
from sqlmetrics.catalog.online import is_online
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.checks.checks import check_columns
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.jobs.days import on_days
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.schema import check_own, targets
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.spec.days import Days, day_of, ranges
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import literal, relation

Metric = tuple[str, int]
"""A metric's text without the cutoff, and the cutoff, 0 for none."""

MOST_DAYS = 36_500
"""So many days are computed again by a run at most."""

USUAL_BATCH = 31
"""As many days of a backfill are one run: what it has done stands if the next one is stopped."""

MOST_PARTS = 8
"""In more parts than this the days between known ones are not looked for, but in one look."""

Moment = str
"""A time as a text, which orders as times do."""


def open_days(
    spec: Spec,
    engine: Database,
    days: Days | None = None,
    *,
    backfill: bool = False,
    lookback: int = 0,
) -> list[Days]:
    """The ranges of days that are to be computed.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the data and the fact table are.
        days: Which days are looked at; by default all.
        backfill: Whether those are wanted that the data has and of which the fact table has
            not all metrics.
        lookback: How many of the last days are wanted, for data that came late: up to the
            end of `days`, by default to the last day of the data.

    Raises:
        SpecError: If the spec's data has no dates, or `lookback` is above MOST_DAYS.
    """
    missing, again = _wanted(spec, engine, days, backfill=backfill, lookback=lookback)
    return list(ranges(missing | again))


def _wanted(
    spec: Spec, engine: Database, days: Days | None, *, backfill: bool, lookback: int
) -> tuple[set[date], set[date]]:
    """The days of which metrics are missing, and the last ones; the arguments are as above."""
    if lookback > MOST_DAYS:
        raise SpecError(f"lookback must be at most {MOST_DAYS:,} days, given {lookback:,}")
    _check_dated(spec)
    end = days.end if days else None
    missing, again = set[date](), set[date]()
    if backfill:
        computed_days = done_days(spec, engine)
        missing = data_days(spec, engine, computed_days, days) - computed_days
    if lookback and not end and (last := _last_day(spec, engine, days)):
        end = last + timedelta(1)
    if lookback and end:
        most = min(lookback, (end - date.min).days)
        again = {end - timedelta(back) for back in range(1, most + 1)}
    return missing, again


def _check_dated(spec: Spec) -> None:
    """Raise SpecError if the spec's data has no days."""
    if spec.clicks is None and spec.rankings.columns.date is None:
        raise SpecError(
            "missing days need a day column of the rankings; name it as rankings.columns.date"
        )


def _last_day(spec: Spec, engine: Database, days: Days | None) -> date | None:
    """The last day of the data; looked for first from where the fact table ends.

    Args:
        spec: What is asked.
        engine: Where the data and the fact table are.
        days: Which days are looked at, without an end; None for all.
    """
    facts, start = targets(spec)["facts"], days.start if days else None
    with engine:
        of_spec = f"where spec = {literal(spec.title)}"
        sql = f"select max(metric_date) as last_day from {relation(facts)} {of_spec}"
        last = engine.rows(sql)[0][0] if engine.find(facts) else None
        after = Days(start=max(filter(None, (start, day_of(last))))) if last else None
        for looked_at in dict.fromkeys(filter(None, (after, days))):
            if source_days := data_days(spec, engine, days=looked_at):
                return max(source_days)
        return None if days else max(data_days(spec, engine), default=None)


@dataclass(frozen=True)
class Part:
    """Days that a run replaces for itself.

    Attributes:
        days: Which days; None for all that there are.
        metrics: Of which metrics; None for all that the spec asks for.
        keeps_days: Whether days of which the data has nothing keep their rows.
    """

    days: Days | None
    metrics: frozenset[Metric] | None = None
    keeps_days: bool = True


def parts(
    spec: Spec,
    engine: Database,
    days: Days | None = None,
    *,
    backfill: bool,
    lookback: int,
    batch_days: int = 0,
    recompute: bool = False,
) -> list[Part]:
    """What is computed, one part after the other.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the data and the fact table are.
        days: Which days are looked at; by default all.
        backfill: Whether those are wanted of which the fact table lacks metrics; of days that
            have others, only these metrics.
        lookback: How many of the last days are wanted.
        batch_days: How many days with data a run replaces at most; 0 for `USUAL_BATCH` of a
            backfill, and for any number else.
        recompute: Whether days that lack a metric get all of them anew.

    Raises:
        SpecError: As above, and if `batch_days` is given where rankings have no dates.
    """
    if not (backfill or lookback):
        if batch_days:
            _check_dated(spec)
        batches_of_all = _batches(spec, engine, days, batch_days) if batch_days else [days]
        return [Part(batch, keeps_days=days is None) for batch in batches_of_all]
    missing, again = _wanted(spec, engine, days, backfill=backfill, lookback=lookback)
    lacking = lacking_metrics(spec, engine) if backfill and not recompute else {}
    metrics_by_day = {
        day: None if day in again else lacking.get(day) or None for day in sorted(missing | again)
    }
    longest = batch_days or (USUAL_BATCH if backfill else 0)
    return [
        Part(batch, metrics)
        for metrics, group in groupby(metrics_by_day, metrics_by_day.__getitem__)
        for part in ranges(group)
        for batch in _batches(spec, engine, part, longest)
    ]


def _batches(
    spec: Spec, engine: Database, days: Days | None, longest: int
) -> Iterator[Days | None]:
    """The parts of a range by the days that the data has of it; of no data, the range itself."""
    is_short = days and days.start and days.end and (days.end - days.start).days <= longest
    data = set() if not longest or is_short else data_days(spec, engine, days=days)
    if not data:
        yield days
        return
    yield from batches(days or Days(start=min(data), end=max(data) + timedelta(1)), data, longest)


def batches(days: Days, data: Set[date], longest: int) -> Iterator[Days]:
    """A range in parts that have at most so many days of the data, and at least one.

    Args:
        days: The range.
        data: The days of it that the data has.
        longest: How many of these a part has at most.

    >>> there = {date(2026, 1, 2), date(2026, 1, 3), date(2026, 1, 9)}
    >>> whole = Days(start=date(2026, 1, 1), end=date(2026, 2, 1))
    >>> for part in batches(whole, there, 2):
    ...     print(part)
    from 2026-01-01 and before 2026-01-09
    from 2026-01-09 and before 2026-02-01
    """
    starts = sorted(data)[longest::longest]
    for start, end in pairwise([days.start, *starts, days.end]):
        yield Days(start=start, end=end)


def data_days(
    spec: Spec, engine: Database, known_days: Set[date] = frozenset(), days: Days | None = None
) -> set[date]:
    """The days that the rankings, or what is left of a click log, have.

    Args:
        spec: What is asked.
        engine: Where its tables are.
        known_days: Days of which it need not be known: their rows are not read, so a night does
            not cost more with each day of history.
        days: Which days are looked at; None for all.
    """
    with engine:
        if spec.clicks is not None:
            from sqlmetrics.clicks.log_days import days_of_log

            log = on_days(spec, days).spec.clicks
            log_days = days_of_log(log, engine, known_days, ranges, days) if log else set()
            return {day for day in log_days if days is None or _is_in(day, days)}
        parts = [*between(days, known_days)]
        looked_at = parts if len(parts) <= MOST_PARTS else [days]
        return {day for part in looked_at for day in _days_of_rankings(spec, engine, part)}


def between(days: Days | None, done_days: Set[date]) -> Iterator[Days | None]:
    """What is left of a range without some days; None for all days.

    >>> known = {date(2026, 1, 2), date(2026, 1, 3)}
    >>> [str(part) for part in between(Days(start=date(2026, 1, 1)), known)]
    ['from 2026-01-01 and before 2026-01-02', 'from 2026-01-04']
    """
    start, end = (days.start, days.end) if days else (None, None)
    done_in_range = [day for day in done_days if days is None or _is_in(day, days)]
    for part in ranges(done_in_range):
        if start is None or (part.start and start < part.start):
            yield Days(start=start, end=part.start)
        start = part.end
    if not done_in_range:
        yield days
    elif end is None or (start and start < end):
        yield Days(start=start, end=end)


def _days_of_rankings(spec: Spec, engine: Database, days: Days | None) -> set[date]:
    with engine:
        question = on_days(spec, days)
        plan = make_plan(spec, opened(spec, engine, question.ends)).unfused
        check_columns(plan, engine, ignored_tables=("labels", "queries", "items"))
        shape = plan.shape
        day = shape.day("rankings")
        source = source_text(shape.tables["rankings"], shape.where["rankings"])
        rows = engine.rows(f"select distinct {day} as metric_date from {source}")
    return {day_of(day) for (day,) in rows if day is not None}


def done_days(spec: Spec, engine: Database) -> set[date]:
    """The days of which the tables have all of a spec's metrics, and its experiment."""
    computed_days = {day for day, lacks in lacking_metrics(spec, engine).items() if not lacks}
    return computed_days - _days_without_looks(spec, engine, computed_days)


def _days_without_looks(spec: Spec, engine: Database, days: Set[date]) -> set[date]:
    """Those of some days on which the spec's experiment is on, and of which it has no row."""
    experiment = spec.clicks.experiment if spec.clicks else None
    if experiment is None or not days:
        return set()
    name = targets(spec)["experiment"]
    with engine:
        rows = (
            engine.rows(
                f"select distinct metric_date\nfrom {relation(name)}\n"
                f"where spec = {literal(spec.title)}"
            )
            if engine.find(name)
            else []
        )
    looked_at = {day_of(day) for (day,) in rows}
    return {
        day for day in days - looked_at if experiment.days is None or _is_in(day, experiment.days)
    }


def lacking_metrics(spec: Spec, engine: Database) -> dict[date, frozenset[Metric]]:
    """Day of the fact table -> the metrics of a spec that it has still to be computed for."""
    facts = targets(spec)["facts"]
    with engine:
        check_own(spec, engine)
        if engine.find(facts) is None:
            return {}
        rows = engine.rows(
            "select metric_date, metric, k, min(computed_at) as computed_at\n"
            f"from {relation(facts)}\nwhere spec = {literal(spec.title)}\n"
            "group by metric_date, metric, k"
        )
    times_by_day: dict[date, dict[Metric, Moment]] = {}
    for day, metric, k, moment in rows:
        times_by_day.setdefault(day_of(day), {})[metric, int(k)] = str(moment)
    requested = {(metric, k) for metric, k, _ in hashes(spec)}
    first = {
        metric: min(
            (
                time_by_metric[metric]
                for time_by_metric in times_by_day.values()
                if metric in time_by_metric
            ),
            default="",
        )
        for metric in requested
    }
    return {
        day: frozenset(
            metric for metric in requested if _lacks(time_by_metric, metric, first[metric])
        )
        for day, time_by_metric in times_by_day.items()
    }


def _lacks(time_by_metric: Mapping[Metric, Moment], metric: Metric, first: Moment) -> bool:
    """Whether a day has still to be computed for a metric.

    Metrics of lists come together, and so do those of the log itself and estimates of what was
    not shown. A day that has none of
    a kind may have nothing to evaluate; that is so if it was computed when the metric was
    asked for already.

    Args:
        time_by_metric: What the day has, and when it was computed.
        metric: The metric.
        first: When any day was computed with it; empty if none was.
    """
    if metric in time_by_metric:
        return False
    if any(_kind(name) == _kind(metric[0]) for name, _ in time_by_metric):
        return True
    return not first or max(time_by_metric.values()) < first


def _kind(metric: str) -> tuple[bool, bool]:
    return is_online(metric), is_estimated(metric)


def _is_in(day: date, days: Days) -> bool:
    return (days.start or date.min) <= day < (days.end or date.max)
