"""A run of a job: a spec's numbers of some days take the place of the old ones, or nothing does."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property

import sqlmetrics
from sqlmetrics.catalog.online import online
from sqlmetrics.clicks.evaluate import cleaned_log
from sqlmetrics.clicks.online_sums import sums
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import table
from sqlmetrics.errors import SpecError, SqlmetricsError
from sqlmetrics.evaluation.execution import USUALLY, Execution
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.report.notes import notes
from sqlmetrics.evaluation.run import executing
from sqlmetrics.jobs.days import days_of, on_days
from sqlmetrics.jobs.definitions import check_definitions
from sqlmetrics.jobs.partitions import replace_by_day
from sqlmetrics.jobs.replacement import ALL_DAYS, NEW_FACTS, NEW_ONLINE, Replacement
from sqlmetrics.jobs.tables import check_own, prepared, targets
from sqlmetrics.jobs.views import make_views, view_statements
from sqlmetrics.plan.plan import plan as planned
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.spec.days import Days, as_sql, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.template import literal, relation

MESSAGE = 500
"""As many characters of an error go into the run log."""


@dataclass(frozen=True)
class RunReport:
    """What a run wrote.

    Attributes:
        run_id: The run.
        days: Which days were replaced; None for all that the spec had.
        rows: Table -> the rows that now stand for these days.
        notes: Sentences about the input that a reader should know.
        last_day: The last day that has numbers; None without dates.
        headline: The first metric of the spec on that day, by system.
        seconds: How long it took.
    """

    run_id: str
    days: Days | None
    rows: dict[str, int]
    notes: tuple[str, ...] = ()
    last_day: date | None = None
    headline: tuple[tuple[str, float | None], ...] = ()
    seconds: float = 0.0


def write(
    spec: Spec,
    engine: Database,
    days: Days | None = None,
    *,
    full_refresh: bool = False,
    check: bool = True,
    how: Execution = USUALLY,
) -> RunReport:
    """Evaluate a spec, and put its numbers in place of those of the same days.

    All tables change in one transaction, under a lock where two writers could meet: a run
    that fails leaves them as they were, and says so in the run log. Rows of other specs and
    days are not touched. The per-query table gains columns for new metrics.

    Args:
        spec: What is asked, with its `output`.
        engine: A database that may be written to.
        days: Which days; by default those that the data has, from the first to the last.
            Rankings without dates are all of the first of them, by default of 1970-01-01.
        full_refresh: Whether all days of the spec go, also those that the data has no more.
        check: Whether to look for bad input first.
        how: How the evaluation is carried out.

    Raises:
        SpecError: If the spec has no output, or the days and the spec do not go together, or
            the table holds other days by another definition of a metric, or is no run's.
        SqlmetricsError: As `evaluate` does, and if a table cannot be written.
    """
    targets(spec)
    if not engine.translation.dialect.writing.by_run:
        known = ", ".join(one.title for one in DIALECTS.values() if one.writing.by_run)
        raise SpecError(
            f"run writes to {known}; for {engine.name} print the statements: "
            "sqlmetrics compile SPEC --job FOLDER"
        )
    if days and full_refresh:
        raise SpecError("a full refresh replaces all days; leave out start and end")
    with engine:
        check_own(spec, engine)
        job = _Job(spec, engine, days_of(spec, days), full_refresh, datetime.now(UTC))
        try:
            return job.done(check=check, how=how)
        except SqlmetricsError as error:
            job.log_failure(error)
            raise


@dataclass
class _Job:
    spec: Spec
    engine: Database
    days: Days | None
    full_refresh: bool
    started: datetime

    def __post_init__(self) -> None:
        self.run_id = str(uuid.uuid4())
        self._begun = time.monotonic()
        self._notes: list[str] = []

    def done(self, *, check: bool, how: Execution) -> RunReport:
        """Evaluate, lock, replace."""
        with ExitStack() as evaluation:
            per_query, self._notes = evaluation.enter_context(
                _evaluated(self._asked, self.engine, self.days, check=check, how=how)
            )
            days = self._replaced_days()
            last_day, headline = self._headline()
            job = self._replacement(days)
            message = "; ".join(self._notes)[:MESSAGE]
            with self.engine.alone(targets(self.spec)["facts"]):
                for statement in prepared(self.spec, self.engine):
                    self.engine.execute(statement)
                views = view_statements(self.spec, self.engine)
                with self.engine.transaction():
                    if not self.full_refresh:
                        check_definitions(self.spec, job.ends, self.engine)
                    if job.at.dialect.by_day:
                        replace_by_day(job, self.engine, per_query)
                    for statement in () if job.at.dialect.by_day else job.statements(per_query):
                        self.engine.execute(statement)
                    rows = self._counts(job)
                    self.engine.execute(self._logged(job, days, rows, "replaced", message))
                    if job.at.dialect.undoes_views:
                        make_views(self.spec, self.engine, views)
                if not job.at.dialect.undoes_views:
                    make_views(self.spec, self.engine, views)
        seconds = time.monotonic() - self._begun
        told = tuple(self._notes)
        return RunReport(self.run_id, days, rows, told, last_day, headline, seconds)

    def log_failure(self, error: SqlmetricsError) -> None:
        """Say in the run log that it failed; if that cannot be done, the error is told anyway."""
        with suppress(SqlmetricsError):
            for statement in prepared(self.spec, self.engine):
                self.engine.execute(statement)
            job = self._replacement(self.days)
            message = " ".join(str(error).split())[:MESSAGE]
            self.engine.execute(self._logged(job, self.days, {}, "failed", message))

    @cached_property
    def _asked(self) -> Spec:
        return on_days(self.spec, self.days)

    @property
    def _is_dated(self) -> bool:
        """Whether the evaluation says of which day a row is."""
        return self._asked.rankings.columns.date is not None

    def _replacement(self, days: Days | None) -> Replacement:
        at = self.engine.translation
        now = self.started.replace(tzinfo=None).isoformat(" ")
        first = days.start if days and days.start else date.fromisoformat(NO_DATE)
        return Replacement(
            self.spec,
            at,
            literal(self.run_id),
            at.expression(at.dialect.times.moment, literal(now)),
            days.ends if days else ALL_DAYS,
            "" if self._is_dated else as_sql(first),
            self.run_id[:8],
        )

    def _replaced_days(self) -> Days | None:
        """The days that are replaced: those given, else those that there are."""
        if self.full_refresh:
            return None
        if self.days:
            return self.days
        tables = [NEW_FACTS] * bool(self.spec.metrics) + [NEW_ONLINE] * bool(self.spec.online)
        ends = [
            self.engine.rows(f"select min(metric_date), max(metric_date) from {name}")[0]
            for name in tables
        ]
        there = [day_of(day) for pair in ends for day in pair if day is not None]
        if not there:
            return Days(start=date.max - timedelta(1), end=date.max)  # nothing is replaced
        return Days(start=min(there), end=max(there) + timedelta(1))

    def _headline(self) -> tuple[date | None, tuple[tuple[str, float | None], ...]]:
        """The last day that has numbers, which may be before the end of the range; and these."""
        if not self.spec.metrics:
            return None, ()
        first = self._asked.measures[0]
        rows = self.engine.rows(
            f"select system, metric_date, value from {NEW_FACTS} where segment_name = 'all' "
            f"and metric = {literal(first.name)} and k = {first.k or 0}"
        )
        last = max((str(day) for _, day, _ in rows), default="")
        values = sorted((system, value) for system, day, value in rows if str(day) == last)
        return day_of(last) if last and self._is_dated else None, tuple(values)

    def _counts(self, job: Replacement) -> dict[str, int]:
        """Table -> its rows of the replaced days."""
        names = {key: name for key, name in targets(self.spec).items() if key != "runs"}
        where = " and ".join(job.of("metric_date"))
        return {
            key: int(self.engine.rows(f"select count(*) from {relation(name)} where {where}")[0][0])
            for key, name in names.items()
        }

    def _logged(
        self,
        job: Replacement,
        days: Days | None,
        rows: Mapping[str, int],
        outcome: str,
        message: str,
    ) -> str:
        seconds = time.monotonic() - self._begun
        ends = days.ends if days else ALL_DAYS
        return job.logged(
            {
                "seconds": f"{seconds:.3f}e0",
                "range_start": ends.start or "cast(null as date)",
                "range_end": ends.end or "cast(null as date)",
                "facts": str(rows.get("facts", "cast(null as bigint)")),
                "per_query": str(rows.get("per_query", "cast(null as bigint)")),
                "engine": literal(f"{self.engine.name} {self.engine.version}"),
                "version": literal(sqlmetrics.__version__),
                "outcome": literal(outcome),
                "message": literal(message) if message else "cast(null as varchar)",
            }
        )


@contextmanager
def _evaluated(
    spec: Spec, engine: Database, days: Days | None, *, check: bool, how: Execution
) -> Iterator[tuple[str, list[str]]]:
    """The query of the per-query table, with notes, while it and the new rows are there."""
    if spec.clicks is None:
        with _lists(spec, engine, days, check=check, how=how) as lists:
            yield lists
        return
    asked = [online(text) for text in spec.online]
    with ExitStack() as made:
        log = made.enter_context(cleaned_log(spec.clicks, engine, only_days=True))
        log.tables.check(asked)
        if asked:
            made.enter_context(table(engine, NEW_ONLINE, sums(log.tables, asked, spec)))
        if not spec.metrics:
            yield "", []
            return
        made.enter_context(log.views())
        yield made.enter_context(_lists(spec, engine, None, check=check, how=how))


@contextmanager
def _lists(
    spec: Spec, engine: Database, days: Days | None, *, check: bool, how: Execution
) -> Iterator[tuple[str, list[str]]]:
    dated = spec.rankings.columns.date is not None
    tables = replace(opened(spec, engine), ends=days.ends if days and dated else None)
    the_plan = planned(spec, tables)
    with (
        how.limited(engine),
        executing(the_plan, engine, check=check, per_query=True, how=how) as script,
        table(engine, NEW_FACTS, script.summary),
    ):
        select = f"select system, metric, k, value from {NEW_FACTS} where segment_name = 'all'"
        numbers = engine.rows(select)
        yield script.per_query, notes(the_plan, script, engine, numbers, check=check)
