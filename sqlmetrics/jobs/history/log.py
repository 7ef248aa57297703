"""The run log, read: what runs did, and which of them still stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import NoDataError, SpecError, did_you_mean
from sqlmetrics.jobs.tables import columns_of, targets
from sqlmetrics.spec.days import Days, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import identifier, literal, relation

DONE = ("replaced", "restored", "retired")
"""The outcomes of runs that changed the tables; others failed, or are running."""

SHORT = 8
"""As many characters of a run's id are shown."""

LAST = "last"
"""Whoever says so means the last run that stands."""

LEAST = 4
"""As many characters name a run at least."""

LISTED = 3
"""As many runs are named where one is unknown."""


@dataclass(frozen=True)
class LoggedRun:
    """A row of the run log.

    Attributes:
        run_id: The run.
        started: When it began, in UTC.
        seconds: How long it took; None of compiled text.
        start: The first day that it replaced; None if that end is open.
        end: The day after the last one; likewise.
        facts: Rows of the fact table that stood for these days then.
        per_query: The same of the per-query table; None if it wrote none.
        outcome: `replaced`, `restored`, `retired`, `running` or `failed`.
        message: Why it failed, or what should be known of the input.
        user: Who ran it; None if that is not known.
        note: Why, in their words.
        archived: Rows that it replaced or removed, all in the archives then; None if it kept none.
        restores: The run that it took back.
    """

    run_id: str
    started: datetime
    seconds: float | None
    start: date | None
    end: date | None
    facts: int | None
    per_query: int | None
    outcome: str
    message: str | None
    user: str | None
    note: str | None
    archived: int | None
    restores: str | None

    @property
    def short(self) -> str:
        """The beginning of its id."""
        return self.run_id[:SHORT]

    @property
    def finished(self) -> datetime:
        """When it wrote, as the only writer: the order in which runs replaced one another."""
        return self.started + timedelta(seconds=self.seconds or 0)

    @property
    def days(self) -> Days | None:
        """The days that it replaced; None for all."""
        return Days(start=self.start, end=self.end) if self.start or self.end else None

    @property
    def is_done(self) -> bool:
        """Whether it changed the tables."""
        return self.outcome in DONE

    def overlaps(self, other: LoggedRun) -> bool:
        """Whether both replaced a day."""
        return self.days is None or other.days is None or self.days.overlaps(other.days)

    def __str__(self) -> str:
        return f"{self.short} ({self.started:%Y-%m-%d %H:%M})"


_READ = {
    "run_id": "run_id",
    "started": "started_at",
    "seconds": "seconds",
    "start": "range_start",
    "end": "range_end",
    "facts": "facts",
    "per_query": "per_query",
    "outcome": "outcome",
    "message": "message",
    "user": "user_name",
    "note": "note",
    "archived": "archived",
    "restores": "restores",
}
"""Attribute -> column of the run log."""


def logged_runs(spec: Spec, engine: Database) -> list[LoggedRun]:
    """The runs of a spec, in the order in which they wrote.

    Args:
        spec: Whose runs, with its `output`.
        engine: Where the run log is.

    Raises:
        NoDataError: If there is no run log, or it has no run of the spec.
    """
    table = targets(spec)["runs"]
    if not columns_of(table, engine):
        raise NoDataError(f"this database has no run log {table}, so no run was made here")
    rows = engine.records(
        f"select {', '.join(map(identifier, _READ.values()))} from {relation(table)} "
        f"where spec = {literal(spec.title)} order by started_at, run_id, outcome"
    )
    if not rows:
        raise NoDataError(f"the run log {table} has no run of {spec.title}")
    # whose views failed after its rows were written is there twice: what it did comes first
    runs: dict[str, LoggedRun] = {}
    for row in rows:
        run = _run({name: row[column] for name, column in _READ.items()})
        if run.run_id not in runs or run.is_done:
            runs[run.run_id] = run
    return sorted(runs.values(), key=lambda run: (run.finished, run.started, run.run_id))


def _run(row: Mapping[str, Any]) -> LoggedRun:
    """A row in Python's types, whichever the driver gives."""
    fields = dict(row)
    fields["started"] = datetime.fromisoformat(str(row["started"])[:26])
    fields |= {end: day_of(row[end]) if row[end] is not None else None for end in ("start", "end")}
    counts = ("facts", "per_query", "archived")
    fields |= {name: int(row[name]) if row[name] is not None else None for name in counts}
    return LoggedRun(**fields)


def taken_back(runs: Sequence[LoggedRun]) -> dict[str, LoggedRun]:
    """Run -> the run that took it back, of those that do not stand any more.

    A run that was taken back stands again once the one that took it back is taken back itself.

    Args:
        runs: All of a spec, in the order in which they wrote.
    """
    undone: dict[str, LoggedRun] = {}
    for run in reversed(runs):
        if run.is_done and run.restores and run.run_id not in undone:
            undone[run.restores] = run
    return undone


def standing_after(run: LoggedRun, runs: Sequence[LoggedRun]) -> list[LoggedRun]:
    """The runs that wrote after a run, on days of it, and stand; the last one first.

    A run and the one that took it back are no change together, if both wrote after this one.
    """
    undone = taken_back(runs)
    later = runs[[logged_run.run_id for logged_run in runs].index(run.run_id) + 1 :]
    ids = {later_run.run_id for later_run in later}
    return [
        later_run
        for later_run in reversed(later)
        if later_run.is_done and later_run.run_id not in undone and later_run.restores not in ids
        if later_run.overlaps(run)
    ]


def named_run(name: str, runs: Sequence[LoggedRun]) -> LoggedRun:
    """The run that a person names by the beginning of its id, or `last`, of those that stand.

    Runs that took others back are not meant by `last`, so it goes back step by step.

    Args:
        name: What they say.
        runs: All of a spec, in the order in which they wrote.

    Raises:
        SpecError: If no run begins so, or several do.
    """
    ids = {run.run_id: run for run in runs}
    text = name.strip().casefold()
    if text == LAST:
        undone = taken_back(runs)
        standing = [run for run in runs if run.is_done and not run.restores]
        if standing := [run for run in standing if run.run_id not in undone]:
            return standing[-1]
        raise SpecError("no run can be taken back")
    matches = [run for run_id, run in ids.items() if run_id.casefold().startswith(text)]
    if len(matches) == 1 and len(text) >= LEAST:
        return matches[0]
    if len(matches) > 1 and text:
        examples = ", ".join(map(str, matches[:LEAST]))
        raise SpecError(
            f"{len(matches)} runs begin with {name!r}: {examples} ...; give more of the id"
        )
    restorable = [*islice(restorable_runs(runs), LISTED)]
    suggestion = did_you_mean(name, [run.short for run in runs])
    examples = ", ".join(map(str, reversed(restorable)))
    can_be_restored = (
        f"these can be taken back: {examples}" if restorable else "no run can be taken back"
    )
    raise SpecError(f"unknown run {name!r}{suggestion or ';'} {can_be_restored}")


def restorable_runs(runs: Sequence[LoggedRun]) -> Iterator[LoggedRun]:
    """The runs that can be taken back, the last first: none wrote their days later, rows are kept.

    Args:
        runs: All of a spec, in the order in which they wrote.
    """
    undone = taken_back(runs)
    for run in reversed(runs):
        is_kept = run.is_done and run.archived is not None and run.run_id not in undone
        if is_kept and not standing_after(run, runs):
            yield run
