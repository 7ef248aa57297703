"""The run log, read: what runs did, and which of them still stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import NoDataError, SpecError, did_you_mean
from sqlmetrics.jobs.losses import differs
from sqlmetrics.jobs.schema import archives, columns_of, targets
from sqlmetrics.spec.days import Days, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import identifier, literal, relation
from sqlmetrics.tables.table import many

SUCCEEDED = ("replaced", "restored", "retired")
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
        return self.outcome in SUCCEEDED

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


# What runs changed, by the rows that the archives have of them.

DECIMALS = 4

DIFFERS = differs("new_value", "value")


@dataclass(frozen=True)
class Effect:
    """What a run changed.

    Attributes:
        run: The run.
        kept: Rows that the archives still have of it, of both tables.
        before: Rows of the fact table that these days had before it.
        replaced: Those of them that others took the place of, or nothing.
        removed: Those of them in whose place no row came.
        changed: Those of them in whose place another value came.
        metrics: Those whose values changed or went, like `ndcg@10`.
        largest: The metric whose value changed most on a day, and by how much; None if none did.
        undone_by: The run that took it back; None if it stands.
    """

    run: LoggedRun
    kept: int = 0
    before: int = 0
    replaced: int = 0
    removed: int = 0
    changed: int = 0
    metrics: Sequence[str] = ()
    largest: tuple[str, float] | None = None
    undone_by: LoggedRun | None = field(default=None)

    @property
    def is_known(self) -> bool:
        """Whether the archives have all rows that it replaced."""
        return self.run.archived is not None and self.kept == self.run.archived

    @property
    def new(self) -> int:
        """Rows of the fact table that took no other's place."""
        return max(0, (self.run.facts or 0) - (self.before - self.removed))

    def __str__(self) -> str:
        summary = "; ".join(self._sentences())
        return f"{summary}; taken back by {self.undone_by.short}" if self.undone_by else summary

    def _sentences(self) -> Iterator[str]:
        run = self.run
        if not run.is_done:
            yield f"{run.outcome}: {run.message or 'the reason is unknown'}"
            return
        if run.restores:
            yield f"took back {run.restores[:8]}"
        if not self.is_known:
            yield f"{many(run.facts or 0, 'row')} written"
            before = f"what stood there before ({many(run.archived or 0, 'row')}) is no longer kept"
            yield before if run.archived else "the replaced rows were not kept"
            return
        if self.new:
            yield many(self.new, "new row")
        if self.removed:
            yield f"{many(self.removed, 'row')} removed"
        if stayed := self.replaced - self.removed:
            yield f"{self.changed:,} of {many(stayed, 'row')} changed"
        if self.largest:
            yield f"largest change {self.largest[1]:+.{DECIMALS}g} ({self.largest[0]})"

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON has; what the archives do not say any more is None."""
        run, is_known = self.run, self.is_known
        metric, change = self.largest or (None, None)
        return {
            "run_id": run.run_id,
            "started_at": str(run.started),
            "seconds": run.seconds,
            "user": run.user,
            "note": run.note,
            "outcome": run.outcome,
            "message": run.message,
            "start": run.start and str(run.start),
            "end": run.end and str(run.end),
            "rows": run.facts,
            "archived": run.archived,
            "kept": self.kept,
            "new": self.new if is_known else None,
            "replaced": self.replaced if is_known else None,
            "changed": self.changed if is_known else None,
            "removed": self.removed if is_known else None,
            "metrics": list(self.metrics) if is_known else None,
            "largest_change": change,
            "largest_change_of": metric,
            "restores": run.restores,
            "taken_back_by": self.undone_by and self.undone_by.run_id,
        }


def effects(spec: Spec, engine: Database) -> list[Effect]:
    """What each run of a spec changed, the last one first: one pass over the archived rows.

    Args:
        spec: Whose runs, with its `output`.
        engine: Where its tables are; nothing is written.

    Raises:
        NoDataError: If the run log has no run of the spec, or is not there.
    """
    with engine:
        runs = logged_runs(spec, engine)
        undone, kept_by_run = taken_back(runs), _kept(spec, engine)
        changed = _changed(spec, engine)
    return [
        Effect(
            run,
            kept_by_run.get(run.run_id, 0),
            undone_by=undone.get(run.run_id),
            **changed.get(run.run_id, {}),
        )
        for run in reversed(runs)
    ]


def _kept(spec: Spec, engine: Database) -> dict[str, int]:
    """Run -> the rows that the archives have of it."""
    counts: dict[str, int] = {}
    for name in archives(spec).values():
        if columns_of(name, engine):
            for run, n in engine.rows(
                f"select replaced_by, count(*) from {relation(name)}\n"
                f"where spec = {literal(spec.title)}\ngroup by replaced_by"
            ):
                counts[run] = counts.get(run, 0) + int(n)
    return counts


def _changed(spec: Spec, engine: Database) -> dict[str, Mapping[str, Any]]:
    """Run -> what its rows in the fact table's archive say."""
    facts = archives(spec)["facts"]
    if not columns_of(facts, engine):
        return {}
    is_other = (
        f"is_removed = 0 and ({DIFFERS} or (value is null and new_value is not null) "
        "or (value is not null and new_value is null))"
    )
    rows = engine.rows(
        f"select replaced_by, metric, k, count(is_removed), sum(coalesce(is_removed, 0)),\n"
        f"    sum(case when {is_other} then 1 else 0 end),\n"
        f"    min(case when {DIFFERS} then new_value - value end),\n"
        f"    max(case when {DIFFERS} then new_value - value end), count(*)\n"
        f"from {relation(facts)}\n"
        f"where spec = {literal(spec.title)}\ngroup by replaced_by, metric, k\n"
        "order by replaced_by, metric, k"
    )
    by_run: dict[str, list[Any]] = {}
    for run, *row in rows:
        by_run.setdefault(run, []).append(row)
    return {run: _summed(metrics) for run, metrics in by_run.items()}


def _summed(rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The rows of a run, a metric each, as attributes of its effect."""
    replaced, removed, changed = (sum(int(row[i]) for row in rows) for i in (2, 3, 4))
    names = [at_cutoff(metric, int(k)) for metric, k, *_ in rows]
    changes = [
        (name, float(change))
        for name, (*_, least, most, _) in zip(names, rows, strict=True)
        for change in (least, most)
        if change
    ]
    return {
        "before": sum(int(row[7]) for row in rows),
        "replaced": replaced,
        "removed": removed,
        "changed": changed,
        "metrics": [name for name, row in zip(names, rows, strict=True) if int(row[3] + row[4])],
        "largest": max(changes, key=lambda change: abs(change[1]), default=None),
    }
