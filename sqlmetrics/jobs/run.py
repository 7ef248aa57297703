"""A run of a job: a spec's numbers of some days take the place of the old ones, or nothing does."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import InputError, SpecError, SqlmetricsError
from sqlmetrics.evaluation.checks.kept import input_hash
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.evaluation.execution import USUALLY, Execution, Progress, executing, run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.report.notes import notes
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.jobs.archive import keeps
from sqlmetrics.jobs.changes import changes
from sqlmetrics.jobs.days import Question, days_of, on_days
from sqlmetrics.jobs.definitions import (
    hashes,
    note_of_days_that_stay,
    note_of_files,
    note_of_retired,
)
from sqlmetrics.jobs.exchange import ALL_DAYS, adding
from sqlmetrics.jobs.experiment import Looks, looked
from sqlmetrics.jobs.log_metrics import NEW_ONLINE
from sqlmetrics.jobs.missing_days import Part
from sqlmetrics.jobs.new_rows import NEW_FACTS, NewRows
from sqlmetrics.jobs.provenance import UNNAMED, Provenance
from sqlmetrics.jobs.schema import check_own, columns_of, has_baseline, targets
from sqlmetrics.jobs.sources import CHECKED_INPUT, check_same_spec, run_that_checked
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.plan.tables import ShownLists
from sqlmetrics.spec.days import Days, Ends, day_of, ranges
from sqlmetrics.spec.named_values import named_in
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import MERGE, TRANSACTION
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.template import literal, relation
from sqlmetrics.tables.table import printable

if TYPE_CHECKING:
    from sqlmetrics.clicks.result import ClickResult


# Runs that have begun: each says so in the run log, and the next one tells of those that died.
#
# A run that fails or is stopped says so itself. One that is killed, runs out of memory or loses its
# machine cannot; its row stays as `running`, and its process, or its session, is gone.

RUNNING = "running"
"""The outcome of a run that has begun and not ended."""

LONGEST = timedelta(days=1)
"""A run of another machine of which nothing can be known is taken for dead after that."""

DIED = "it did not end: it was killed, ran out of memory, or lost its machine or connection"


def begin(new: NewRows, ends: Ends, engine: Database, entries: Mapping[str, str]) -> list[str]:
    """Say in the run log that a run has begun, where its row can be deleted again.

    Args:
        new: The run.
        ends: Of its days.
        engine: Where its tables are; they are made if they are not there.
        entries: Columns of the run log -> SQL values.

    Returns:
        A sentence for each run of the spec that began before and did not say how it ended, and
        one if new tables cannot have their comments.

    Raises:
        EngineError: If the tables cannot be written.
    """
    spec = new.spec
    if not _can_delete(engine):
        return []
    with engine.alone(targets(spec)["facts"]) as killed, engine.reading(anew=True):
        lacking = changes(spec, engine)
        has_log = bool(columns_of(targets(spec)["runs"], engine))
        notes = [*filter(None, [killed]), *lacking.make(engine)]
        open_runs = _open_runs(spec, engine) if has_log else []
        notes += [note for row in open_runs if (note := _open_run_note(row, spec, engine))]
        process = literal(f"process {os.getpid()}, session {engine.driver.session}")
        outcome = {"outcome": literal(RUNNING), "message": process, "sources": ""}
        engine.execute(new.log(ends, **dict(entries) | outcome))
    return notes


def ended(new: NewRows, engine: Database) -> None:
    """Delete the row that says that a run has begun: another one says how it ended."""
    if _can_delete(engine):
        table = engine.translation.name(targets(new.spec)["runs"])
        engine.execute(f"delete from {table} where run_id = {new.run_id} and {_is_running()}")


def _can_delete(engine: Database) -> bool:
    return engine.translation.dialect.writing.replace in (TRANSACTION, MERGE)


def _is_running() -> str:
    return f"outcome = {literal(RUNNING)}"


def _open_runs(spec: Spec, engine: Database) -> list[dict[str, Any]]:
    columns = "run_id, started_at, user_name, host, message"
    return engine.records(
        f"select {columns} from {relation(targets(spec)['runs'])} "
        f"where spec = {literal(spec.title)} and {_is_running()} order by started_at"
    )


def _open_run_note(row: Mapping[str, Any], spec: Spec, engine: Database) -> str:
    """What is to be said of a run that began; empty if it goes on."""
    whose = " on ".join(str(row[name]) for name in ("user_name", "host") if row[name])
    began = datetime.fromisoformat(str(row["started_at"]))
    run = f"the run {row['run_id'][:8]} of {whose or 'nobody'}, begun at {began:%Y-%m-%d %H:%M}"
    goes_on = _goes_on(row, began, engine)
    if goes_on is None:
        return f"{run}, has not logged its end: it may still be running, or was killed"
    if goes_on:
        return ""
    translation = engine.translation
    engine.execute(
        f"update {translation.name(targets(spec)['runs'])} set outcome = 'failed', "
        f"message = {translation.value(literal(DIED))} where run_id = "
        f"{translation.value(literal(row['run_id']))} "
        f"and {_is_running()}"
    )
    return f"{run}, failed: {DIED}; its days are unchanged"


def _goes_on(row: Mapping[str, Any], began: datetime, engine: Database) -> bool | None:
    """Whether a run's process or session is still there; None if that cannot be known."""
    process, _, session = str(row["message"]).removeprefix("process ").partition(", session ")
    if row["host"] == socket.gethostname() and process.isdigit():
        return _is_process(int(process))
    is_there = engine.driver.has_session(session) if session else None
    is_old = datetime.now(UTC).replace(tzinfo=None) - began > LONGEST
    return False if is_there is None and is_old else is_there


def _is_process(number: int) -> bool:
    """Whether a process of this machine is there."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


LOG = logging.getLogger("sqlmetrics.jobs")

MESSAGE = 500
"""As many characters of an error go into the run log."""


FULL_REFRESH = "--full-refresh"

STOPPED = "stopped by Ctrl-C or SIGTERM"
"""What the run log says of a run that a signal ended."""


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
        lost_days: So many days lost numbers, of those that `allow_loss` let go.
    """

    run_id: str
    days: Days | None
    rows: dict[str, int]
    notes: tuple[str, ...] = ()
    last_day: date | None = None
    headline: tuple[tuple[str, float | None], ...] = ()
    seconds: float = 0.0
    lost_days: int = 0


def write(
    spec: Spec,
    engine: Database,
    days: Days | Part | None = None,
    *,
    full_refresh: bool = False,
    recompute: bool = False,
    allow_loss: int = 0,
    adopt: bool = False,
    check: bool | float = True,
    execution: Execution = USUALLY,
    provenance: Provenance = UNNAMED,
    looks: Looks | None = None,
) -> RunReport:
    """Evaluate a spec, and put its numbers in place of those of the same days.

    All tables change in one transaction, under a lock where two writers could meet: a run
    that fails leaves them as they were, and says so in the run log. Rows of other specs and
    days are not touched, nor those of metrics and segments that the spec asks for no more. The
    per-query table gains columns for new metrics.

    Args:
        spec: What is asked, with its `output`.
        engine: A database that may be written to.
        days: Which days; by default those that the data has.
            Rankings without dates are all of the first of them, by default of 1970-01-01.
            A part also says of which metrics, and what becomes of days without data.
        full_refresh: Whether all days of the spec are replaced.
        recompute: Whether days are computed anew that nobody named.
        allow_loss: Of so many days these two may take numbers away that the data has no more.
        adopt: Whether rows of its name are the spec's own, whatever wrote them.
        check: Whether to look for bad input first.
        execution: How the evaluation is carried out.
        provenance: What the run log says of whoever runs it.
        looks: What looks at the spec's experiment; None leaves its table as it is.

    Raises:
        SpecError: If the spec has no output, or the days and the spec do not go together, or
            the table holds other days by another definition of a metric, is no run's, or has
            rows of another spec of that name, or would lose more than `allow_loss`.
        SqlmetricsError: As `evaluate` does, and if a table cannot be written.
    """
    targets(spec)
    if not engine.translation.dialect.writing.by_run:
        dialect_titles = ", ".join(
            dialect.title for dialect in DIALECTS.values() if dialect.writing.by_run
        )
        raise SpecError(
            f"run writes to {dialect_titles}; for {engine.name} print the statements with "
            "sqlmetrics compile SPEC --job FOLDER"
        )
    part = days if isinstance(days, Part) else Part(days, keeps_days=days is None)
    if part.days and full_refresh:
        raise SpecError("a full refresh replaces all days; leave out start and end")
    with engine, engine.keeping_rows(), engine.reading():
        engine.driver.check_replaces(targets(spec)["facts"])
        check_own(spec, engine)
        keeps(spec, engine.translation)
        if not adopt:
            check_same_spec(spec, engine)
        part = replace(part, days=days_of(spec, part.days))
        allowed = allow_loss if full_refresh or recompute else None
        option = FULL_REFRESH if full_refresh else "--recompute"
        job = _Run(spec, engine, part, allowed, option, datetime.now(UTC), provenance, looks)
        try:
            return job.execute(check=check, execution=execution)
        except (SqlmetricsError, KeyboardInterrupt) as error:
            job.log_failure(_line(error))
            raise


def _line(error: BaseException) -> str:
    """What failed in one line of the run log, where examples of rows have no place."""
    details = error.details if isinstance(error, InputError) else [str(error)]
    texts = (detail.line if isinstance(detail, Problem) else str(detail) for detail in details)
    return " ".join("; ".join(texts).split()) or STOPPED


def write_parts(
    spec: Spec, engine: Database, parts: Sequence[Part], *, allow_loss: int = 0, **options: Any
) -> Iterator[RunReport]:
    """Write one part after the other, with one budget of days that may lose numbers.

    Args:
        spec: What is asked, with its `output`.
        engine: A database that may be written to.
        parts: Which days, and of which metrics.
        allow_loss: Of so many days all parts together may take numbers away.
        options: The other arguments of `write`.

    Yields:
        What was written of each part, before the next one begins.
    """
    for part in parts:
        report = write(spec, engine, part, allow_loss=allow_loss, **options)
        allow_loss -= report.lost_days
        yield report


@dataclass
class _Run:
    spec: Spec
    engine: Database
    part: Part
    allowed_loss: int | None
    option: str
    started: datetime
    provenance: Provenance
    looks: Looks | None = None

    def __post_init__(self) -> None:
        self.run_id = str(uuid.uuid4())
        self._input = ""
        self._begun = time.monotonic()

    def execute(self, *, check: bool | float, execution: Execution) -> RunReport:
        """Evaluate, then exchange the rows."""
        self.engine.driver.name_session(f"{self.spec.title} {self.run_id[:8]}")
        begun_notes = self._begin()
        if check is True:
            question = self._asked
            definitions = (":".join(map(str, parts)) for parts in sorted(hashes(self.spec)))
            parts = [str(question.ends), question.day, *definitions]
            self._input = input_hash(question.spec, parts, self.engine)
        earlier_run = run_that_checked(self.spec, self._input, self.engine)
        if earlier_run:
            begun_notes.append(
                f"run {earlier_run[:8]} checked the same bytes; they were not checked again"
            )
        looks = looked(
            self.spec,
            self.engine,
            self.part.days,
            self.looks,
            self._asked.day,
            replaces_all=self.option == FULL_REFRESH,
        )
        with _evaluated(
            self._asked,
            self.engine,
            check=check,
            is_checked=bool(earlier_run),
            execution=execution,
        ) as (per_query, notes):
            days = self._replaced_days()
            last_day, headline = self._headline()
            ends = self._replaced_ends(days)
            stays = note_of_days_that_stay(self.spec, ends, self.engine)
            retired = note_of_retired(self.spec, ends, self.engine)
            other_files = note_of_files(self.spec, self.engine)
            of_spec = [stays, retired, other_files, self._note_of_baseline()]
            all_notes = [*begun_notes, *notes, *filter(None, of_spec)]
            new = self._new_rows()
            exchange = new.exchange(
                per_query, ends, self.run_id[:8], self.allowed_loss, self.option
            )
            if looks:
                all_notes += looks.all_notes(self.engine)
                of_looks = looks.table_rows(self.engine, ends, new.run_id, new.now)
                exchange = replace(exchange, rows={**exchange.rows, "experiment": of_looks})
            exchange_report = exchange.carry_out(
                self.engine,
                lambda counts, exchange_notes: self._ended(
                    new, ends, counts, [*all_notes, *exchange_notes]
                ),
            )
        return RunReport(
            self.run_id,
            days,
            exchange_report.rows,
            (*all_notes, *exchange_report.notes),
            last_day,
            headline,
            self._seconds,
            exchange_report.lost_days,
        )

    def _begin(self) -> list[str]:
        """Say that it has begun, to programs that listen and in the run log; what died before."""
        log_fields = {"run_id": self.run_id, "spec": self.spec.title}
        LOG.info("run %s of %s begins", self.run_id[:8], self.spec.title, extra=log_fields)
        return begin(self._new_rows(), self._ends, self.engine, self.provenance.log_entries())

    @property
    def _ends(self) -> Ends:
        return self.part.days.ends if self.part.days else ALL_DAYS

    def _ended(self, new: NewRows, ends: Ends, counts: Mapping[str, int], notes: list[str]) -> str:
        """What adds to the run log that it went well, in the place of that it began."""
        ended(new, self.engine)
        entries = self._log_entries("replaced", "; ".join(notes), counts)
        if self._input:
            entries[CHECKED_INPUT] = literal(self._input)
        return new.log(ends, **entries)

    def log_failure(self, message: str) -> None:
        """Say in the run log that it failed; if that cannot be done, the error is told anyway.

        Where the connection is lost, it is said over a new one.
        """
        try:
            self._log_failure(self.engine, message)
        except SqlmetricsError:
            if self.engine.driver.url is not None:
                with suppress(SqlmetricsError), connect(self.engine.driver.url) as engine:
                    self._log_failure(engine, message)

    def _log_failure(self, engine: Database, message: str) -> None:
        entries = self._log_entries("failed", message, engine=engine)
        with adding(self.spec, engine), engine.reading(anew=True):
            changes(self.spec, engine).make(engine)
            ended(self._new_rows(), engine)
            engine.execute(self._new_rows().log(self._ends, **entries))

    @cached_property
    def _asked(self) -> Question:
        return on_days(self.spec, self.part.days)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _new_rows(self) -> NewRows:
        translation = self.engine.translation
        now = self.started.replace(tzinfo=None).isoformat(" ")
        moment = translation.expression(translation.dialect.times.moment, literal(now))
        run_id = literal(self.run_id)
        metrics = self.part.metrics or {(metric, k) for metric, k, _ in hashes(self.spec)}
        return NewRows(
            self.spec, translation, run_id, moment, self._asked.day, folder=Path(), metrics=metrics
        )

    def _log_entries(
        self,
        outcome: str,
        message: str,
        counts: Mapping[str, int] | None = None,
        engine: Database | None = None,
    ) -> dict[str, str]:
        """What the run log says beside the days."""
        engine = engine or self.engine
        entries = {table: str(n) for table, n in (counts or {}).items()}
        entries |= {"seconds": f"{self._seconds:.3f}e0", "outcome": literal(outcome)}
        entries |= self.provenance.log_entries()
        entries["engine"] = literal(f"{engine.name} {engine.version}")
        return entries | ({"message": literal(message[:MESSAGE])} if message else {})

    def _replaced_days(self) -> Days | None:
        """The days that are replaced: those given, else those that there are; None for all."""
        if self.option == FULL_REFRESH and self.allowed_loss is not None:
            return None
        if self.part.days:
            return self.part.days
        if self._asked.day:  # a click log as a whole, whose rows have no day of their own
            no_day = date.fromisoformat(NO_DATE)
            return Days(start=no_day, end=no_day + timedelta(1))
        new_days = self._new_days
        if not new_days:
            return Days(start=date.max - timedelta(1), end=date.max)  # nothing is replaced
        return Days(start=min(new_days), end=max(new_days) + timedelta(1))

    def _replaced_ends(self, days: Days | None) -> Ends:
        """The same as SQL, without days that nobody named and of which there is nothing new."""
        ends = days.ends if days else ALL_DAYS
        parts = [*ranges(self._new_days)]
        if days is None or not self.part.keeps_days or self._asked.day or parts in ([], [days]):
            return ends
        return replace(ends, only=tuple(part.ends for part in parts))

    @property
    def _new_days(self) -> set[date]:
        """The days that have a new row."""
        return {*self._systems_by_day}

    @cached_property
    def _systems_by_day(self) -> dict[date, set[str]]:
        """The days that have a new row, and whose they are."""
        metrics_by_table: dict[str, Sequence[Any]] = {NEW_FACTS: self.spec.metrics}
        if self.spec.clicks is not None:
            from sqlmetrics.clicks.counterfactual.evaluate import NEW_ESTIMATES

            metrics_by_table |= {
                NEW_ONLINE: self.spec.online,
                NEW_ESTIMATES: self.spec.estimated,
            }
        tables = [name for name, metrics in metrics_by_table.items() if metrics]
        if self._asked.day:
            tables = []
        systems_by_day: dict[date, set[str]] = {}
        for name in tables:
            rows = self.engine.rows(f"select distinct metric_date, system from {name}")
            for day, system in rows:
                if day is not None:
                    systems_by_day.setdefault(day_of(day), set()).add(str(system))
        return systems_by_day

    def _note_of_baseline(self) -> str:
        """The days that others have rows of and the baseline has none; empty without any."""
        baseline = self.spec.baseline if has_baseline(self.spec) else None
        days = sorted(
            day for day, systems in self._systems_by_day.items() if baseline not in systems
        )
        if baseline is None or not days:
            return ""
        when = (
            f"on {days[0]}"
            if len(days) == 1
            else f"on {len(days):,} days (from {days[0]} to {days[-1]})"
        )
        return (
            f"the baseline {printable(baseline)} has no row {when}, so no difference from it is "
            "computed"
        )

    def _headline(self) -> tuple[date | None, tuple[tuple[str, float | None], ...]]:
        """The last day that has numbers, which may be before the end of the range; and these."""
        if not self.spec.metrics:
            return None, ()
        first = self._asked.spec.measures[0]
        rows = self.engine.rows(
            f"select system, metric_date, value from {NEW_FACTS} where segment_name = 'all' "
            f"and metric = {literal(first.name)} and k = {first.k or 0}"
        )
        last = max((str(day) for _, day, _ in rows), default="")
        values = sorted((system, value) for system, day, value in rows if str(day) == last)
        return day_of(last) if last and not self._asked.day else None, tuple(values)


@contextmanager
def _evaluated(
    question: Question,
    engine: Database,
    *,
    check: bool | float,
    is_checked: bool,
    execution: Execution,
) -> Iterator[tuple[str, list[str]]]:
    """The query of the per-query table, with notes, while it and the new rows are there."""
    spec = question.spec
    if spec.clicks is None:
        with _lists(
            question, engine, check=check, is_checked=is_checked, execution=execution
        ) as lists:
            yield lists
        return
    from sqlmetrics.clicks.clean_log import cleaned_log
    from sqlmetrics.clicks.counterfactual.evaluate import kept_estimates
    from sqlmetrics.clicks.steps import online_step

    with (
        cleaned_log(spec.clicks, engine, names=named_in(spec), only_days=True) as log,
        keeping(engine, online_step(log.tables, spec, NEW_ONLINE, moments=True)),
        kept_estimates(log, spec, required=bool(check)) as estimated,
    ):
        if not spec.metrics:
            if check:
                log.check_segments(spec.by)
            if check and not engine.rows(f"select 1 as row_exists from {NEW_ONLINE} limit 1"):
                raise log.absence()
            yield "", [*estimated, *log.label_notes]
            return
        with (
            log.views() as shown_lists,
            _lists(question, engine, check=check, execution=execution, shown_lists=shown_lists) as (
                per_query,
                notes_of_lists,
            ),
        ):
            yield per_query, [*notes_of_lists, *estimated, *log.label_notes]


@contextmanager
def _lists(
    question: Question,
    engine: Database,
    *,
    check: bool | float,
    is_checked: bool = False,
    execution: Execution,
    shown_lists: ShownLists | None = None,
) -> Iterator[tuple[str, list[str]]]:
    with ExitStack() as exit_stack:
        with engine.reading():
            tables = replace(opened(question.spec, engine, question.ends), shown_lists=shown_lists)
            plan = make_plan(question.spec, tables, moments=True)
            exit_stack.enter_context(execution.limited(engine))
            evaluation = executing(
                plan,
                engine,
                check=check and not is_checked,
                per_query=True,
                execution=execution,
            )
            script = exit_stack.enter_context(evaluation)
        exit_stack.enter_context(keeping(engine, [Step(NEW_FACTS, script.summary)]))
        select = f"select system, metric, k, value from {NEW_FACTS} where segment_name = 'all'"
        numbers = engine.rows(select)
        of_input = notes(plan, script, engine, numbers, check=check)
        yield script.per_query, [*tables.notes, *of_input]


def evaluated(
    spec: Spec,
    engine: Database,
    days: Days | None = None,
    *,
    check: bool | float = True,
    per_query: bool = False,
    confidence: float | None = None,
    progress: Progress | None = None,
) -> Result | ClickResult:
    """The numbers that a run of some days would write; no table is written.

    The arguments are those of `write`, of `evaluate` and of `evaluate_clicks`.
    """
    question = on_days(spec, days)
    if spec.clicks is not None:
        from sqlmetrics.clicks.evaluate import evaluate_clicks

        return evaluate_clicks(
            question.spec,
            engine,
            check=check,
            per_query=per_query,
            confidence=confidence,
            progress=progress,
            unshown=True,
        )
    days_of(spec, days)
    with engine:
        tables = opened(question.spec, engine, question.ends)
        return run(
            question.spec,
            tables,
            engine,
            check=check,
            per_query=per_query,
            confidence=confidence,
        )
