"""A run taken back: the rows that it replaced stand again, and those that it wrote are archived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.archives.archive import archived, keeps
from sqlmetrics.jobs.exchange import ALL_DAYS, TableRows
from sqlmetrics.jobs.history.experiment_rows import restored_rows
from sqlmetrics.jobs.history.log import (
    LoggedRun,
    logged_runs,
    named_run,
    standing_after,
    taken_back,
)
from sqlmetrics.jobs.history.logged_change import LoggedChange
from sqlmetrics.jobs.provenance import UNNAMED, Provenance
from sqlmetrics.jobs.schema import TABLES
from sqlmetrics.jobs.tables import archives, check_own, columns_of, targets
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import TRANSACTION
from sqlmetrics.sql.template import identifier, lines, literal, relation


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
