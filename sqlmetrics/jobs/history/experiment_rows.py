"""The experiment's rows that come back with a run that is taken back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from sqlmetrics.engines.database import Database
from sqlmetrics.jobs.exchange import ALL_DAYS, TableRows
from sqlmetrics.jobs.history.log import LoggedRun
from sqlmetrics.jobs.schema import EXPERIMENT, SPANS
from sqlmetrics.jobs.tables import archives, columns_of, targets
from sqlmetrics.spec.days import as_sql, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import lines, literal, relation
from sqlmetrics.tables.table import many

Place = tuple[str, date]
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
    own = f"spec = {literal(spec.title)}"
    ids = ", ".join(literal(run_id) for run_id in (run.run_id, run.restores) if run_id)
    log = relation(targets(spec)["runs"])
    began = f"(select max(started_at) from {log} where run_id = {literal(run.run_id)})"
    places = _places(engine, archive, f"{own} and replaced_by in ({ids})")
    places |= _places(engine, name, f"{own} and run_id = {literal(run.run_id)}")
    later = _places(engine, name, f"{own} and computed_at > {began}")
    chosen = places - later
    where = _among(chosen)
    kept = f"{own}\n    and replaced_by = {literal(run.run_id)}\n    and {where}"
    select = f"select\n    {lines(EXPERIMENT)}\nfrom {relation(archive)}\nwhere {kept}"
    rows = TableRows(tuple(EXPERIMENT), select, replaces=where, ends=ALL_DAYS)
    stale = sorted(day for span, day in later if span == "running" and day >= (run.start or day))
    if not stale:
        return {"experiment": rows}, []
    more = f" and {many(len(stale) - NAMED, 'more day')}" if len(stale) > NAMED else ""
    names = ", ".join(map(str, stale[:NAMED]))
    return {"experiment": rows}, [
        f"experiment: the running totals of {names}{more} were written later and stay; run these "
        "days again"
    ]


def _places(engine: Database, table: str, where: str) -> set[Place]:
    rows = engine.rows(f"select distinct span, metric_date\nfrom {relation(table)}\nwhere {where}")
    return {(str(span), day_of(day)) for span, day in rows}


def _among(places: Iterable[Place]) -> str:
    """What rows of such places meet."""
    days_by_span = {span: sorted(day for other, day in places if other == span) for span in SPANS}
    conditions = [
        f"(span = {literal(span)} and metric_date in ({', '.join(map(as_sql, days))}))"
        for span, days in days_by_span.items()
        if days
    ]
    return f"({' or '.join(conditions)})" if conditions else "1 = 0"
