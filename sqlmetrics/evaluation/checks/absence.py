"""Why a system that is known has no value: it has no list on the chosen days, or no label has."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, shortened, unknown
from sqlmetrics.evaluation.checks.problem import EXAMPLES, Problem, refusal
from sqlmetrics.evaluation.checks.rules import LARGEST
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.script import Script
from sqlmetrics.spec.mixture import Mixture
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
        every = _days(name, make_plan(plan.spec, shape.at.on_all_days), engine)
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


# Whether the systems that a spec fuses are in its rankings, on each day.


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


def wrong_scores(plan: Plan, engine: Database) -> Iterator[Problem]:
    """Scores that the fused systems of a spec cannot be made of."""
    mixtures = [(system.mixture, system.run_names) for system in plan.spec.rankings.fuse]
    yield from infinite_scores(plan, engine, mixtures)


def infinite_scores(
    plan: Plan, engine: Database, runs_by_mixture: Iterable[tuple[Mixture, Sequence[str]]]
) -> Iterator[Problem]:
    """Scores without an end in runs that are fused by their scores: norms and sums of them are NaN.

    Args:
        plan: The plan of the evaluation of the runs.
        engine: Where the tables are.
        runs_by_mixture: How runs are fused, and which ones.
    """
    unfused = plan.unfused
    runs = {run for mixture, names in runs_by_mixture if not mixture.reads_ranks for run in names}
    if not runs or "rank" in unfused.shape.columns["rankings"]:
        return
    columns = (*unfused.shape.keys, "item_id", "score")
    names = ", ".join(literal(run) for run in sorted(runs))
    condition = f"where abs(score) > {LARGEST!r}\n    and system in ({names})"
    source = f"from {unfused.shape.names['rankings']}\n{condition}"
    ((count,),) = engine.rows(with_stages(unfused.inputs, f"select count(*) as n\n{source}"))
    if count:
        keys = ", ".join(columns)
        select = f"select {keys}\n{source}\norder by {keys}\nlimit {EXAMPLES}"
        examples = engine.rows(with_stages(unfused.inputs, select))
        message = f"score is infinite in {many(count, 'row')}, and cannot be fused"
        remedy = "leave these rows out, or fuse by ranks (method rrf, or norm rank)"
        yield Problem("rankings", message, count, columns, examples, remedy)


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
            other_days = f" and {many(len(days) - 1, 'other day')}" if len(days) > 1 else ""
            yield f"rankings: {days[0]}{other_days} lacks rows of {lacks}"


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


# Input checks of some queries alone: those of the same share of all hashes in each table.


def share_of(check: bool | float) -> float:
    """Of which share of the queries the input is checked: 1 for all, 0 for none.

    Raises:
        SpecError: If it is no share.
    """
    try:
        share = float(check)
    except (TypeError, ValueError):
        share = math.nan
    if not (math.isfinite(share) and 0 <= share <= 1):
        raise SpecError(
            f"check must be True, False or a share of the queries like 0.01, given {check!r}"
        )
    return share


def sampled(plan: Plan, share: float) -> Plan:
    """The plan of the same evaluation of a share of the queries, and of rows without a query."""
    changed = {}
    for table in ("rankings", "labels", "queries"):
        source = getattr(plan.spec, table)
        if source is not None and "query" in plan.shape.columns.get(table, {}):
            column = plan.shape.columns[table]["query"]
            where = _condition(plan, column, share)
            if source.where:
                where = f"({source.where}\n) and {where}"
            changed[table] = source.model_copy(update={"where": where})
    return make_plan(plan.spec.having(**changed), plan.shape.at)


def _condition(plan: Plan, column: str, share: float) -> str:
    """What rows of the chosen queries meet, in the words of the database."""
    translation = plan.translation
    dialect, name = translation.dialect, translation.column(column)
    hashed = dialect.hashed.format(column=f"cast({name} as {dialect.text})")
    least = f"{min(int(share * 16**8), 16**8 - 1):08x}"
    return f"({name} is null or substr({hashed}, 1, 8) < '{least}')"


def sample_notes(check: bool | float) -> Iterator[str]:
    """What is said of checks that did not look at all."""
    share = share_of(check)
    if 0 < share < 1:
        yield (
            f"the input checks looked at {100 * share:g} % of the queries, chosen by hash; "
            "duplicates, NULL and NaN in other queries are not reported"
        )
