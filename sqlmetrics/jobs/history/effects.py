"""What runs changed, by the rows that the archives have of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database
from sqlmetrics.jobs.history.log import LoggedRun, logged_runs, taken_back
from sqlmetrics.jobs.losses import differs
from sqlmetrics.jobs.tables import archives, columns_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, relation
from sqlmetrics.tables.table import many

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
        summary = "; ".join(self._told())
        return f"{summary}; taken back by {self.undone_by.short}" if self.undone_by else summary

    def _told(self) -> Iterator[str]:
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
