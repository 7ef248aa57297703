"""What stands beside what: systems or periods, query by query or each with its own queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.periods import Stored
from sqlmetrics.comparison.sums import resampling
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.comparison.sums.samples import Covariate, Samples
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.shape import segment
from sqlmetrics.spec.baseline import usual_baseline
from sqlmetrics.sql.template import literal

Ask = Callable[[str], list[dict[str, Any]]]
"""Runs a select over `per_query`."""


def design(
    plan: Plan, measures: Sequence[Measure], options: Options, ask: Ask
) -> tuple[Pairing, list[str]]:
    """What is compared with what, and what should be said of that.

    Args:
        plan: The plan of the evaluation.
        measures: The metrics.
        options: What is asked.
        ask: Runs a select over `per_query`.

    Raises:
        SpecError: If there are not two sides, or the test is not for such sides.
        InputError: If no list is of a system that is named.
    """
    sides = _of_dates if options.dates else _of_stored if options.stored else _of_systems
    names, notes = sides(plan, options, ask)
    baseline, *systems = names
    of_system = notes.pop(0) if options.dates else ""
    is_dated = "metric_date" in plan.shape.keys
    cluster = options.cluster or (None if options.stored else plan.spec.cluster)
    if cluster == "query_id" and not is_dated:
        cluster = None
    stored = _on_its_days(options.stored, plan, ask) if options.stored else None
    if stored:
        stored.check(measures)
        if stored.has_days and is_dated and not stored.by_day:
            notes.append("baseline_values have other days, so each query has the mean of its days")
    is_once = (options.dates or (stored and not stored.by_day)) and options.is_paired
    if cluster is None and is_dated and not is_once:
        cluster = "query_id"
        notes += _note_of_days(plan, options)
    compared = (plan, tuple(measures), tuple(systems), baseline)
    arguments = (*compared, options.by, cluster, options.dates, of_system, stored)
    if options.is_paired:
        return Pairing(*arguments), notes
    _check_test(options)
    if not (options.dates or stored):
        notes.append("unpaired: each system is compared on the queries that it has a list for")
    if cluster in (None, "query_id"):
        notes += _note_of_users(plan)
    return Samples(*arguments, covariate=_covariate(options)), notes


def _note_of_days(plan: Plan, options: Options) -> Iterator[str]:
    """That a query's days are no new evidence; a request of a click log is of one day."""
    if options.dates:
        yield "a query that appears again is one cluster, within a side and across both"
    elif plan.spec.clicks is None:
        yield "a query that appears on several days is one cluster"


def _note_of_users(plan: Plan) -> Iterator[str]:
    """That the requests of a user are no independent ones, where a click log names users."""
    columns = plan.spec.clicks.columns if plan.spec.clicks else None
    if columns and columns.user:
        yield (
            "requests are treated as independent, but the log names users, who return; use "
            f"--cluster {columns.user} to cluster by user"
        )


def _of_stored(plan: Plan, options: Options, ask: Ask) -> tuple[list[str], list[str]]:
    """The earlier run, and the systems that are compared with it."""
    if not options.is_paired and (options.carried or options.before or plan.shape.weighted):
        raise SpecError(
            "baseline_values cannot be compared unpaired with segments, weights, clusters or "
            "covariates; leave out paired=False (--unpaired), or leave these out"
        )
    existing = [plan.spec.title]
    if "system" in plan.shape.keys:
        existing = sorted(row["system"] for row in ask("select distinct system\nfrom per_query"))
    replace(options, baseline=None).check_systems(existing)
    return [options.stored.name if options.stored else "", *(options.systems or existing)], []


def _on_its_days(stored: Stored, plan: Plan, ask: Ask) -> Stored:
    """By day, if the two runs have one in common."""
    if not (stored.has_days and "metric_date" in plan.shape.query_keys):
        return replace(stored, by_day=not stored.has_days and "metric_date" not in plan.shape.keys)
    shared = ask(
        f"select count(*) as n\nfrom per_query\nwhere metric_date in (\n    {stored.days}\n)"
    )
    return replace(stored, by_day=bool(int(shared[0]["n"])))


def _covariate(options: Options) -> Covariate | None:
    if options.before:
        return Covariate(options.before.name, before=options.before)
    if options.covariate:
        return Covariate(options.covariate, column=segment(options.covariate))
    return None


def _check_test(options: Options) -> None:
    if options.test in ("wilcoxon", resampling.RANDOMIZATION):
        raise SpecError(
            f"{options.test} needs each query on both sides; use the test t or bootstrap, or "
            "compare the queries that both sides have (paired=True, --paired)"
        )
    if options.test == resampling.BOOTSTRAP and options.has_covariate:
        raise SpecError("only the test t adjusts for a covariate; leave out the other test")


def _of_systems(plan: Plan, options: Options, ask: Ask) -> tuple[list[str], list[str]]:
    """The baseline and the systems that are compared with it."""
    rows = "per_query"
    if options.before:
        rows += f"\nwhere {options.before.outside}"
    existing = [row["system"] for row in ask(f"select distinct system\nfrom {rows}")]
    if None in existing:  # which the checks would have told
        raise InputError(
            "rankings: system is NULL in some rows; leave these rows out or fill them in"
        )
    return system_sides(sorted(existing), options, plan.spec.baseline)


def system_sides(
    existing: Sequence[str], options: Options, usual: str | None
) -> tuple[list[str], list[str]]:
    """The baseline and the systems that are compared with it; and what should be said of that.

    Args:
        existing: The systems that are there, in order.
        options: What is asked.
        usual: The baseline of the spec; None if it names none.

    Raises:
        SpecError: If the baseline is none of them, or there is no other system.
        InputError: If a system that is named is none of them.
    """
    options.check_systems(existing)
    chosen = options.systems or existing
    named_baseline = options.baseline or (options.systems[0] if options.systems else usual)
    if named_baseline is not None and named_baseline not in existing:
        raise SpecError(unknown("system", named_baseline, existing))
    baseline, rule = (named_baseline, "") if named_baseline else usual_baseline(existing)
    other_systems = list(dict.fromkeys(system for system in chosen if system != baseline))
    if not other_systems:
        raise SpecError(one_system(baseline))
    return [baseline, *other_systems], [rule] if rule else []


def one_system(name: str) -> str:
    """What is said where there is no second system."""
    return (
        f"there is only one system, {name}, and compare needs two; name the column of systems "
        "(rankings.columns.system, system, --system), give several tables, or two days (dates, "
        "--dates)"
    )


def _of_dates(plan: Plan, options: Options, ask: Ask) -> tuple[list[str], list[str]]:
    """The periods by their names, the baseline first; and the system, before what is said."""
    system = ""
    if "system" in plan.shape.keys:
        existing = sorted(row["system"] for row in ask("select distinct system\nfrom per_query"))
        replace(options, baseline=None).check_systems(existing)
        chosen = options.systems or existing
        if len(chosen) > 1:
            raise SpecError(
                f"dates compare one system with itself, but there are {', '.join(chosen)}; name "
                "one (systems, --systems)"
            )
        system = chosen[0] if chosen else ""
    names = [period.name for period in options.dates]
    for period in options.dates:
        where = period.condition + (f" and system = {literal(system)}" if system else "")
        if not int(ask(f"select count(*) as n\nfrom per_query\nwhere {where}")[0]["n"]):
            raise InputError(
                f"dates: no query on {period.name}" + (f" of {system}" if system else "")
            )
    baseline = options.baseline or names[0]
    if baseline not in names:
        raise SpecError(f"dates: {unknown('baseline', baseline, names)}")
    return [baseline, *(name for name in names if name != baseline)], [system]
