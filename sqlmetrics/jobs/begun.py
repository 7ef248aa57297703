"""Runs that have begun: each says so in the run log, and the next one tells of those that died.

A run that fails or is stopped says so itself. One that is killed, runs out of memory or loses its
machine cannot; its row stays as `running`, and its process, or its session, is gone.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.jobs.changes import changes
from sqlmetrics.jobs.new_rows import NewRows
from sqlmetrics.jobs.tables import columns_of, targets
from sqlmetrics.spec.days import Ends
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import MERGE, TRANSACTION
from sqlmetrics.sql.template import literal, relation

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
        notes += [note for row in open_runs if (note := _told(row, spec, engine))]
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


def _told(row: Mapping[str, Any], spec: Spec, engine: Database) -> str:
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
