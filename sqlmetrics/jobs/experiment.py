"""The rows of experiments that a job keeps, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

from sqlmetrics.engines.database import Database
from sqlmetrics.jobs.exchange import ALL_DAYS, TableRows
from sqlmetrics.jobs.schema import EXPERIMENT, columns_of, has_experiment, targets
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.spec.days import Days, Ends, as_sql, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import identifier, lines, literal, relation
from sqlmetrics.tables.table import many
from sqlmetrics.tables.tabular import arrow_table

# New rows of the experiment's table: those of a run's days, and the running totals after them.

KINDS: Mapping[str, str] = {
    "varchar": "string",
    "double": "double",
    "bigint": "int64",
    "integer": "int32",
    "date": "date32",
}
"""A column's type -> Arrow's."""

OF_RUN = ("spec", "run_id", "computed_at")
"""Columns that every row of a run has alike."""

NAMED = 3
"""As many days are named in a note."""


@dataclass(frozen=True)
class LookedAt:
    """The days whose rows a run writes.

    Attributes:
        ends: Of the run: each of these days gets both rows.
        later_days: Days after it that the table has: their running totals hold the run's days too.
        day: The day of rows of a log as a whole; None if each has its own.
    """

    ends: Ends
    later_days: Sequence[date] = ()
    day: date | None = None


class Looks(Protocol):
    """What looks at a spec's experiment, which a room above this one does."""

    def __call__(
        self, spec: Spec, engine: Database, looked_at: LookedAt
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Rows of the table without what the run says, and what should be known."""
        ...


@dataclass(frozen=True)
class HeldDay:
    """A day of the table.

    Attributes:
        day: The day.
        n_days: Of how many days its running total is.
        is_of_run: Whether the run replaces it.
    """

    day: date
    n_days: int
    is_of_run: bool


@dataclass(frozen=True)
class Looked:
    """What looks came to, before it is known which days the run replaces.

    Attributes:
        spec: What is asked, with its `output`.
        day: The day of a log as a whole, as SQL; empty if rows have their own.
        rows: Rows of the table without what the run says.
        notes: What should be known.
        held_days: The days that the table has.
    """

    spec: Spec
    day: str
    rows: Sequence[dict[str, Any]]
    notes: Sequence[str]
    held_days: Sequence[HeldDay]

    def table_rows(self, engine: Database, ends: Ends, run_id: str, now: str) -> TableRows:
        """The new rows in the place of those that hold a day of the run.

        Args:
            engine: Where the table is.
            ends: The days of the run.
            run_id: An SQL text that names the run.
            now: An SQL time: when it began.
        """
        names = [name for name in EXPERIMENT if name not in OF_RUN]
        table = arrow_table(self.rows, {name: KINDS[EXPERIMENT[name].type] for name in names})
        held = engine.register("sqlmetrics_new_experiment", table)
        sql_by_column = dict(zip(OF_RUN, (literal(self.spec.title), run_id, now), strict=True))
        columns = [
            f"{sql_by_column[name]} as {name}" if name in sql_by_column else identifier(name)
            for name in EXPERIMENT
        ]
        select = f"select\n    {lines(columns)}\nfrom {held}"
        if self.day:
            return TableRows(tuple(EXPERIMENT), select)
        of_day = " and ".join(ends.of("metric_date"))
        replaces = f"(span = 'running' or ({of_day}))" if of_day else ""
        return TableRows(tuple(EXPERIMENT), select, replaces=replaces, ends=_from(ends))

    def all_notes(self, engine: Database) -> list[str]:
        """What should be known, also of rows that stay."""
        warnings = (_shorter(self.held_days, self.rows), _other_settings(self, engine))
        return [*self.notes, *filter(None, warnings)]


def looked(
    spec: Spec,
    engine: Database,
    days: Days | None,
    looks: Looks | None,
    day: str,
    *,
    replaces_all: bool,
) -> Looked | None:
    """The looks at a spec's experiment that a run makes; None without one.

    A running total holds all days before it. So those of later days that are there are computed
    again: whatever the order of runs, the table has what one run over all days would write.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the log and the table are.
        days: The days of the run; None for those that the log has.
        looks: What looks at the experiment.
        day: The day of a log as a whole, as SQL; empty if rows have their own.
        replaces_all: Whether days go that the log no longer has, as in a full refresh.
    """
    if looks is None or not has_experiment(spec):
        return None
    ends = days.ends if days else ALL_DAYS
    held_days = [] if day else _held(spec, engine, ends)
    later_days = [row.day for row in held_days if not replaces_all and not (days and row.is_of_run)]
    rows, notes = looks(
        spec, engine, LookedAt(ends, later_days, date.fromisoformat(NO_DATE) if day else None)
    )
    return Looked(spec, day, rows, notes, held_days)


def _from(ends: Ends) -> Ends:
    """The days of a run and all after it."""
    return Ends(ends.start, None)


def _held(spec: Spec, engine: Database, ends: Ends) -> list[HeldDay]:
    """The days from the first one of a run on that the table has."""
    name = targets(spec)["experiment"]
    if not columns_of(name, engine):
        return []
    where = "\n    and ".join([f"spec = {literal(spec.title)}", *_from(ends).of("metric_date")])
    of_run = "\n            and ".join(ends.of("metric_date")) or "1 = 1"
    rows = engine.rows(
        "select\n    metric_date,\n    max(n_days) as n_days,\n"
        f"    max(\n        case\n            when {of_run}\n                then 1\n"
        "            else 0\n        end\n    ) as is_of_run\n"
        f"from {relation(name)}\nwhere {where}\n    and span = 'running'\n"
        "group by metric_date\norder by metric_date"
    )
    return [HeldDay(day_of(day), int(n_days or 0), bool(n)) for day, n_days, n in rows]


def _shorter(held: Sequence[HeldDay], rows: Sequence[Mapping[str, Any]]) -> str:
    """Whether the log has lost days of the experiment, which running totals then lack."""
    n_days = {row["metric_date"]: row["n_days"] for row in rows if row["span"] == "running"}
    for row in reversed(held):
        if (now := n_days.get(row.day)) is not None and now < row.n_days:
            return (
                f"experiment: up to {row.day} the log has {many(now, 'day')}, an earlier run read "
                f"{row.n_days:,}; keep all days since its start in the log, or its running totals "
                "are of fewer"
            )
    return ""


def _other_settings(looked: Looked, engine: Database) -> str:
    """Whether days that stay have another definition than those of the run."""
    name, spec = targets(looked.spec)["experiment"], looked.spec
    days = sorted({as_sql(row["metric_date"]) for row in looked.rows})
    hashes = sorted({row["definition_hash"] for row in looked.rows})
    if not days or not columns_of(name, engine):
        return ""
    rows = engine.rows(
        f"select distinct metric_date\nfrom {relation(name)}\n"
        f"where spec = {literal(spec.title)} and metric_date < {days[0]}\n"
        f"    and definition_hash not in ({', '.join(map(literal, hashes))})\norder by metric_date"
    )
    if not rows:
        return ""
    changed_days = [str(day_of(day)) for (day,) in rows]
    rest = (
        f" and {many(len(changed_days) - NAMED, 'more day')}" if len(changed_days) > NAMED else ""
    )
    return (
        f"experiment: rows of {', '.join(changed_days[:NAMED])}{rest} were computed with other "
        "settings; run these days again"
    )
