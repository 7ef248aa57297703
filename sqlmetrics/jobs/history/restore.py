"""A run taken back: the rows that it replaced stand again, and those that it wrote are archived."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.archive import archived, keeps
from sqlmetrics.jobs.exchange import ALL_DAYS, Exchange, Exchanged, TableRows
from sqlmetrics.jobs.history.log import (
    LoggedRun,
    logged_runs,
    named_run,
    standing_after,
    taken_back,
)
from sqlmetrics.jobs.new_rows import NewRows
from sqlmetrics.jobs.provenance import UNNAMED, Provenance
from sqlmetrics.jobs.schema import (
    EXPERIMENT,
    SPANS,
    TABLES,
    archives,
    check_own,
    columns_of,
    targets,
)
from sqlmetrics.spec.days import Ends, as_sql, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import TRANSACTION
from sqlmetrics.sql.template import identifier, lines, literal, relation
from sqlmetrics.tables.table import many

# The experiment's rows that come back with a run that is taken back.

SpanDay = tuple[str, date]
"""A span and a day, whose rows are written together."""

NAMED = 3
"""As many days are named in a note."""


def restored_rows(
    spec: Spec, engine: Database, run: LoggedRun
) -> tuple[dict[str, TableRows], list[str]]:
    """The rows that a run replaced, of the places that no later run has written.

    A run writes the running totals of later days too, and so may another run of other days after
    it: what that one wrote stays.

    Args:
        spec: Whose run, with its `output`.
        engine: Where its tables are.
        run: The run.

    Returns:
        Nothing, or the rows of the table; and which running totals hold the run's days as they are.
    """
    name, archive = targets(spec).get("experiment"), archives(spec).get("experiment")
    if name is None or archive is None or not columns_of(archive, engine):
        return {}, []
    of_spec = f"spec = {literal(spec.title)}"
    ids = ", ".join(literal(run_id) for run_id in (run.run_id, run.restores) if run_id)
    log = relation(targets(spec)["runs"])
    began = f"(select max(started_at) from {log} where run_id = {literal(run.run_id)})"
    places = _places(engine, archive, f"{of_spec} and replaced_by in ({ids})")
    places |= _places(engine, name, f"{of_spec} and run_id = {literal(run.run_id)}")
    later = _places(engine, name, f"{of_spec} and computed_at > {began}")
    chosen = places - later
    where = _among(chosen)
    kept = f"{of_spec}\n    and replaced_by = {literal(run.run_id)}\n    and {where}"
    select = f"select\n    {lines(EXPERIMENT)}\nfrom {relation(archive)}\nwhere {kept}"
    rows = TableRows(tuple(EXPERIMENT), select, replaces=where, ends=ALL_DAYS)
    stale = sorted(day for span, day in later if span == "running" and day >= (run.start or day))
    if not stale:
        return {"experiment": rows}, []
    rest = f" and {many(len(stale) - NAMED, 'more day')}" if len(stale) > NAMED else ""
    names = ", ".join(map(str, stale[:NAMED]))
    return {"experiment": rows}, [
        f"experiment: the running totals of {names}{rest} were written later and stay; run these "
        "days again"
    ]


def _places(engine: Database, table: str, where: str) -> set[SpanDay]:
    rows = engine.rows(f"select distinct span, metric_date\nfrom {relation(table)}\nwhere {where}")
    return {(str(span), day_of(day)) for span, day in rows}


def _among(places: Iterable[SpanDay]) -> str:
    """What rows of such places meet."""
    days_by_span = {span: sorted(day for other, day in places if other == span) for span in SPANS}
    conditions = [
        f"(span = {literal(span)} and metric_date in ({', '.join(map(as_sql, days))}))"
        for span, days in days_by_span.items()
        if days
    ]
    return f"({' or '.join(conditions)})" if conditions else "1 = 0"


# A change of the tables that evaluates nothing, and is a run in the log nevertheless.


@dataclass(frozen=True)
class LoggedChange:
    """Rows in the place of those of some days.

    Attributes:
        spec: Whose rows, with its `output`.
        engine: Where its tables are.
        outcome: What the run log calls it.
        provenance: What the run log says of whoever does it.
        run_id: The run.
        started: When it began, in UTC.
    """

    spec: Spec
    engine: Database
    outcome: str
    provenance: Provenance
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    _begun: float = field(default_factory=time.monotonic, repr=False)

    def carry_out(
        self,
        rows: Mapping[str, TableRows],
        ends: Ends,
        check: Callable[[], None],
        *,
        end: Sequence[str] | None = None,
        restores: str = "",
        is_kept: bool = True,
    ) -> Exchanged:
        """Replace the rows, all in one transaction where there are any.

        Args:
            rows: Table -> its new rows.
            ends: Of the days.
            check: What is looked at first, as the only writer.
            end: What is done in the end; by default the spec's views are made.
            restores: The run that is taken back.
            is_kept: Whether the archives get what is replaced.
        """
        new, engine = self._new_rows, self.engine

        def log(counts: Mapping[str, int], notes: Sequence[str]) -> str:
            entries = {table: str(n) for table, n in counts.items()}
            entries |= {"seconds": f"{time.monotonic() - self._begun:.3f}e0"}
            entries |= {"outcome": literal(self.outcome), **self.provenance.log_entries()}
            entries |= {"engine": literal(f"{engine.name} {engine.version}")}
            entries |= {"restores": literal(restores)} if restores else {}
            return new.log(
                ends, **entries, **({"message": literal("; ".join(notes))} if notes else {})
            )

        engine.driver.name_session(f"{self.spec.title} {self.run_id[:8]}")
        run = (new.run_id, new.now) if is_kept else None
        exchange = Exchange(self.spec, new.at, rows, ends, self.run_id[:8], run=run)
        return exchange.carry_out(engine, log, check, end)

    @cached_property
    def _new_rows(self) -> NewRows:
        translation = self.engine.translation
        now = literal(self.started.replace(tzinfo=None).isoformat(" "))
        moment = translation.expression(translation.dialect.times.moment, now)
        return NewRows(self.spec, translation, literal(self.run_id), moment, folder=Path())


@dataclass(frozen=True)
class Restored:
    """What `restore` did.

    Attributes:
        run_id: The run that it is itself.
        run: The run that it took back.
        rows: Table -> the rows that now stand for its days.
        notes: What should be known of the tables.
        can_be_undone: Whether this run can be taken back in turn.
    """

    run_id: str
    run: LoggedRun
    rows: dict[str, int]
    notes: Sequence[str]
    can_be_undone: bool


def restore(
    spec: Spec, engine: Database, name: str, *, provenance: Provenance = UNNAMED
) -> Restored:
    """Put back the rows that a run replaced or removed, in the place of those that it wrote.

    All tables change in one transaction. This is a run of its own in the log, whose `restores`
    names the other one, and can be taken back itself.

    Args:
        spec: Whose run, with its `output`.
        engine: Where its tables are.
        name: The run, by the beginning of its id, or `last`, of those that stand.
        provenance: What the run log says of whoever does it.

    Raises:
        NoDataError: If no run of the spec is in the log.
        SpecError: If the run changed nothing, was taken back, kept nothing, or others have changed
            the same days since; or the database keeps no rows.
        EngineError: If a table cannot be written.
    """
    with engine:
        _refuse_by_day(engine)
        check_own(spec, engine)
        change = LoggedChange(spec, engine, "restored", provenance)
        with engine.alone(targets(spec)["facts"]):
            run = named_run(name, logged_runs(spec, engine))
            of_experiment, stale = restored_rows(spec, engine, run)
            report = change.carry_out(
                _rows(spec, engine, run) | of_experiment,
                run.days.ends if run.days else ALL_DAYS,
                lambda: _check(spec, engine, run),
                restores=run.run_id,
            )
        keeps_rows = keeps(spec, engine.translation)
        notes = [*report.notes, *stale]
        return Restored(change.run_id, run, report.rows, notes, keeps_rows)


def _refuse_by_day(engine: Database) -> None:
    writing = engine.translation.dialect.writing
    if writing.replace != TRANSACTION or not writing.by_run:
        raise SpecError(
            f"runs on {engine.name} keep no rows that they replace, since all tables cannot "
            "change in one transaction there; so no run can be taken back"
        )


def _rows(spec: Spec, engine: Database, run: LoggedRun) -> dict[str, TableRows]:
    """Table -> the rows that a run replaced, of the tables of its days that it wrote."""
    archive_by_table = archives(spec)
    archive_by_table.pop("experiment", None)
    if run.per_query is None:
        archive_by_table.pop("per_query", None)
    rows_by_table = {}
    for table, name in archive_by_table.items():
        archived_columns = columns_of(name, engine)
        names = [
            column for column in archived_columns if column.casefold() not in TABLES[table].archived
        ]
        where = f"spec = {literal(spec.title)} and replaced_by = {literal(run.run_id)}"
        select = (
            f"select\n    {lines(map(identifier, names))}\nfrom {relation(name)}\nwhere {where}"
        )
        if archived_columns:
            rows_by_table[table] = TableRows(names, select)
    return rows_by_table


def _check(spec: Spec, engine: Database, run: LoggedRun) -> None:
    """Look, as the only writer, whether the days of a run stand as it left them.

    Raises:
        SpecError: If not; with what can be done.
    """
    runs = logged_runs(spec, engine)
    if not run.is_done:
        raise SpecError(f"run {run} changed nothing, it is {run.outcome}: {run.message or ''}")
    if by := taken_back(runs).get(run.run_id):
        raise SpecError(f"run {run} was taken back by {by}; restore {by.short} to apply it again")
    if later := standing_after(run, runs):
        examples = ", ".join(map(str, later[:3])) + (" ..." if len(later) > 3 else "")
        raise SpecError(
            f"{len(later):,} run{'s' * (len(later) > 1)} changed days of {run} after it: "
            f"{examples}; take back the last one first: restore {later[0].short}"
        )
    if run.archived is None:
        raise SpecError(
            f"run {run} did not keep the rows that it replaced: its spec has keep: none, or it "
            "was a compiled job"
        )
    n_kept = sum(archived(spec, engine, literal(run.run_id)).values())
    if n_kept != run.archived:
        raise SpecError(
            f"before run {run} its days had {run.archived:,} rows, but the archives have "
            f"{n_kept:,} of them; output.keep sets how long they are kept"
        )
