"""Whether the systems that a spec fuses are in its rankings, on each day."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import shortened, unknown
from sqlmetrics.evaluation.checks.absence import why_absent
from sqlmetrics.evaluation.checks.problem import Problem, refusal
from sqlmetrics.plan.plan import Plan
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.tables.table import many


def wrong_runs(plan: Plan, engine: Database) -> Iterator[Problem]:
    """Runs that no row has, and names of fused systems that rows have already."""
    if not plan.spec.rankings.fuse:
        return
    existing: set[str] = set().union(*_systems_by_day(plan, engine).values())
    if not existing:  # an empty table is told elsewhere
        return
    listed = sorted(map(shortened, existing))
    for system in plan.spec.rankings.fuse:
        source = f"fuse of {shortened(system.name)}"
        if system.name in existing:
            remedy = "give the fused ranking another name"
            yield Problem(
                "rankings",
                f"{source}: a system in the rows already has this name",
                1,
                remedy=remedy,
            )
        for run in system.run_names:
            if run not in existing and not why_absent(run, existing, plan.unfused, engine):
                message = f"{source}: {unknown('system', shortened(run), listed)}"
                yield Problem("rankings", message, 1)


def check_fused_runs(plan: Plan, engine: Database) -> None:
    """Raise InputError for what `wrong_runs` finds; for input that is not checked otherwise."""
    if problems := [*wrong_runs(plan, engine)]:
        raise refusal(problems)


def notes_of_gaps(plan: Plan, engine: Database) -> Iterator[str]:
    """Of which systems a ranking is fused on days that lack the rows of others."""
    for system in plan.spec.rankings.fuse:
        days_by_runs: dict[tuple[str, ...], list[str]] = {}
        for day, existing in _systems_by_day(plan, engine).items():
            lacking = tuple(run for run in system.run_names if run not in existing)
            if 0 < len(lacking) < len(system.run_names):
                days_by_runs.setdefault(lacking, []).append(day)
        for runs, days in days_by_runs.items():
            fused = f"so {shortened(system.name)} is fused from the others"
            lacks = f"{shortened(', '.join(runs))}, {fused}"
            more = f" and {many(len(days) - 1, 'other day')}" if len(days) > 1 else ""
            yield f"rankings: {days[0]}{more} lacks rows of {lacks}"


def _systems_by_day(plan: Plan, engine: Database) -> dict[str, set[str]]:
    """Day -> the systems that have rows; one empty day where there are none."""
    unfused = plan.unfused
    days = [key for key in unfused.shape.keys if key == "metric_date"]
    columns = ", ".join([*days, "system"])
    select = (
        f"select distinct {columns}\nfrom {unfused.shape.names['rankings']}\norder by {columns}"
    )
    systems_by_day: dict[str, set[str]] = {}
    for *day, system in engine.rows(with_stages(unfused.inputs, select)):
        systems_by_day.setdefault(str(day[0])[:10] if day else "", set()).add(str(system))
    return systems_by_day
