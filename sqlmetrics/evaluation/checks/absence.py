"""Why a system that is known has no value: it has no list on the chosen days, or no label has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.plan import plan as planned
from sqlmetrics.plan.script import Script
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.sql.template import literal
from sqlmetrics.tables.table import many


def why_absent(name: str, systems: Collection[str], plan: Plan, engine: Database) -> str:
    """What to tell of a system without a value; empty where it is unknown on all days.

    Args:
        name: The system.
        systems: The systems that have values.
        plan: The plan of the evaluation, of the chosen days.
        engine: Where its tables are.
    """
    shape = plan.shape
    if "metric_date" not in shape.keys or "system" not in shape.keys:
        return ""
    chosen = _days(name, plan, engine)
    if chosen:
        on = f"on the chosen days ({_listed(chosen)})"
        return f"{name} has lists {on}, but none of them has a labelled query"
    every = []
    if shape.at.ends:
        every = _days(name, planned(plan.spec, shape.at.on_all_days), engine)
    if not every:
        return ""
    listed = f"it has lists on {many(len(every), 'other day')}: {_listed(every)}"
    present_systems = f"; the chosen days have {', '.join(sorted(systems))}" if systems else ""
    return f"{name} has no list on the chosen days; {listed}{present_systems}"


def _days(name: str, plan: Plan, engine: Database) -> list[str]:
    """The days of a plan on which a system has a list, the first one first."""
    rows = f"from {plan.shape.names['rankings']} where system = {literal(name)}"
    select = f"select distinct metric_date {rows} order by metric_date"
    return [str(day)[:10] for (day,) in engine.rows(with_stages(plan.inputs, select)) if day]


def _listed(days: Sequence[str]) -> str:
    """One or two days by name, of more the first and the last."""
    return " and ".join(days) if len(days) < 3 else f"{days[0]} to {days[-1]}"


def check_present(names: Iterable[str], script: Script, plan: Plan, engine: Database) -> None:
    """Raise InputError for a system that has no value on the chosen days, and lists on others.

    Args:
        names: The systems; those that are unknown on all days are not looked at.
        script: How `per_query` is read, while it is kept.
        plan: The plan of the evaluation, of the chosen days.
        engine: Where its tables are.
    """
    names = list(names)
    if not names or "system" not in plan.shape.keys:
        return
    existing = [
        name for (name,) in engine.rows(script.over("select distinct system from per_query"))
    ]
    for name in names:
        reason = "" if name in existing else why_absent(name, existing, plan, engine)
        if reason:
            raise InputError(f"this system has no list: {reason}")
