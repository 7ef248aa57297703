"""What of the past a run would lose, replace and change: counted before it does so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.schema import TABLES, targets
from sqlmetrics.spec.days import day_of
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import finished, literal, relation
from sqlmetrics.stats import NOISE

if TYPE_CHECKING:
    from sqlmetrics.jobs.archive import Archive
    from sqlmetrics.jobs.exchange import Exchange

NAMED = 3
"""As many systems, segments and metrics are named in a message."""


def differs(new: str, old: str) -> str:
    """What two values meet that are not the same number; sums in another order are.

    >>> differs("new_value", "value")
    'abs(new_value - value) > 1e-12 * (1 + abs(value))'
    """
    return f"abs({new} - {old}) > {NOISE:g} * (1 + abs({old}))"


@dataclass(frozen=True)
class Loss:
    """Numbers that a run would take away.

    Attributes:
        days: Those that would have no row any more.
        n_days: The days that lose a number, each once.
        n_rows: The rows that would go.
        n_other_rows: Those of them on days that keep others.
        systems: Of these, whose they are: system -> rows.
        segments: And of which segments.
        metrics: And of which metrics.
        cause: Why no row is put in the place of those of whole days.
    """

    days: Sequence[date]
    n_days: int
    n_rows: int
    n_other_rows: int = 0
    systems: Mapping[str, int] = field(default_factory=dict)
    segments: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    cause: str = "the source no longer has"

    def __str__(self) -> str:
        words = []
        if self.days:
            ends = f"from {self.days[0]} to {self.days[-1]}"
            words.append(f"all rows of {_days(len(self.days))} ({ends}) that {self.cause}")
        if self.n_other_rows:
            n_days = _days(self.n_days - len(self.days))
            names_by_kind = {
                "system": self.systems,
                "segment": self.segments,
                "metric": self.metrics,
            }
            parts = "; ".join(_named(kind, rows) for kind, rows in names_by_kind.items())
            words.append(f"{self.n_other_rows:,} on {n_days} without new ones ({parts})")
        return f"{self.n_rows:,} rows: {'; and '.join(words)}"

    @property
    def confirmed(self) -> str:
        """What whoever allows it agrees to."""
        n_other_days = self.n_days - len(self.days)
        in_part = f", {n_other_days:,} of them in part" if n_other_days else ""
        return f"{_days(self.n_days)}{in_part}"


def check_losses(job: Exchange, engine: Database, allowed: int, option: str) -> tuple[str, int]:
    """Look what a table holds that a run has nothing to put in place of.

    Args:
        job: What is replaced.
        engine: Where the fact table is.
        allowed: Of so many days numbers may go.
        option: What was asked for, like `--full-refresh`.

    Returns:
        What is replaced and changes, as a sentence, empty if no row is; and the days that lose
        numbers.

    Raises:
        SpecError: If numbers of more days would go; with what they are, and the option to give.
    """
    loss = _loss(engine.rows(_printed(job, "losses")), job, engine)
    if loss.n_days > allowed:
        other = (
            "set clicks: daily: true, so that it computes days"
            if _is_whole(job)
            else "compute only days that the source has, with --start and --end"
        )
        raise SpecError(
            f"{targets(job.spec)['facts']} would lose {loss}. {option} removes past numbers only "
            f"if you allow it: --allow-loss {loss.n_days} deletes numbers of {loss.confirmed}; or "
            f"{other}"
        )
    return _changes(job, engine, loss), loss.n_days


def note_of_removed(job: Exchange, archive: Archive, engine: Database) -> str:
    """What a run of named days took away that nothing replaces; empty if nothing.

    Args:
        job: What was replaced.
        archive: What it kept.
        engine: Where the tables are.
    """
    if "facts" not in archive.columns:
        return ""
    rows = engine.rows(
        "select metric_date, system, segment_name, metric, k, count(*) as n_rows\n"
        f"from {relation(archive.names['facts'])}\n"
        f"where spec = {literal(job.spec.title)} and replaced_by = {archive.run_id} "
        "and is_removed = 1\ngroup by metric_date, system, segment_name, metric, k\n"
        "order by metric_date, system, segment_name, metric, k"
    )
    loss = _loss(rows, job, engine)
    short = archive.run_id.strip("'")[:8]
    return f"this run removed {loss}; restore {short} puts them back" if rows else ""


def _loss(rows_of_parts: Sequence[Sequence[Any]], job: Exchange, engine: Database) -> Loss:
    """The rows that go, counted by day, system, segment and metric, as one loss."""
    rows = [
        (day_of(day), str(system), str(segment), at_cutoff(metric, int(k)), int(n))
        for day, system, segment, metric, k, n in rows_of_parts
    ]
    new = f"select distinct metric_date from (\n{_new(job)}\n) as fresh"
    kept_days = {day_of(day) for (day,) in engine.rows(new)} if rows else set()
    days = {day for day, *_ in rows}
    partial_rows = [row for row in rows if row[0] in kept_days]
    return Loss(
        sorted(days - kept_days),
        len(days),
        sum(n for *_, n in rows),
        sum(n for *_, n in partial_rows),
        _summed((system, n) for _, system, _, _, n in partial_rows),
        _summed((segment, n) for _, _, segment, _, n in partial_rows),
        _summed((metric, n) for *_, metric, n in partial_rows),
        **({"cause": "a run of the whole log does not write"} if _is_whole(job) else {}),
    )


def _is_whole(job: Exchange) -> bool:
    """Whether a click log is evaluated as a whole, in the place of all days."""
    clicks = job.spec.clicks
    return clicks is not None and not clicks.daily and not job.ends.of("metric_date")


def _summed(counts: Iterable[tuple[str, int]]) -> Mapping[str, int]:
    """Name -> its rows, of counts by name."""
    rows = Counter[str]()
    for name, n in counts:
        rows[name] += n
    return rows


def _changes(job: Exchange, engine: Database, loss: Loss) -> str:
    """How many rows are replaced, and how many values of them change."""
    ((n_rows, n_days, n_changed, largest),) = engine.rows(_printed(job, "differences"))
    if not n_rows:
        return ""
    changed = "no value changes"
    if n_changed:
        by = f", by {float(largest):.4g} at most" if largest else ""
        changed = f"{int(n_changed):,} values change{by}"
    loss_note = f"; it removes {loss}" if loss.n_rows else ""
    return f"{int(n_rows):,} rows of {_days(int(n_days))} are replaced: {changed}{loss_note}"


def _printed(job: Exchange, template: str) -> str:
    replaces = job.rows["facts"].replaces
    view = {
        "facts": targets(job.spec)["facts"],
        "rows": _new(job),
        "keys": [f"held.{key} = fresh.{key}" for key in TABLES["facts"].key],
        "differs": differs("fresh.value", "held.value"),
        "where": [*job.of("metric_date"), *([f"({replaces})"] if replaces else [])],
    }
    return finished(print_template(f"jobs/{template}", view))


def _new(job: Exchange) -> str:
    return finished(job.rows["facts"].select).rstrip()


def _named(kind: str, rows: Mapping[str, int]) -> str:
    """The first of them with their rows, and how many others there are."""
    listed = [f"{name} {n:,}" for name, n in rows.items()]
    suffix = f" and {len(listed) - NAMED:,} more" if len(listed) > NAMED else ""
    return f"{kind} {', '.join(listed[:NAMED])}{suffix}"


def _days(n: int) -> str:
    return f"{n:,} day{'s' * (n != 1)}"
