"""Whether systems that somebody named are there on the days that are compared."""

from __future__ import annotations

from collections.abc import Iterable

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.checks.absence import why_absent
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import Script


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
            raise InputError(f"no list of this system: {reason}")
