"""What stands beside what: systems or periods, query by query or each with its own queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.earlier_run import Stored
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.sums import resampling
from sqlmetrics.comparison.sums.covariate import Covariate
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.comparison.sums.samples import Samples
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.shape import segment
from sqlmetrics.spec.baseline import usual_baseline
from sqlmetrics.sql.template import literal

Ask = Callable[[str], list[dict[str, Any]]]
"""Runs a select over `per_query`."""


def design(
    plan: Plan, measures: Sequence[Measure], asks: Options, ask: Ask
) -> tuple[Pairing, list[str]]:
    """What is compared with what, and what should be said of that.

    Args:
        plan: The plan of the evaluation.
        measures: The metrics.
        asks: What is asked.
        ask: Runs a select over `per_query`.

    Raises:
        SpecError: If there are not two sides, or the test is not for such sides.
        InputError: If no list is of a system that is named.
    """
    sides = _of_dates if asks.dates else _of_stored if asks.stored else _of_systems
    names, told = sides(plan, asks, ask)
    baseline, *others = names
    of_system = told.pop(0) if asks.dates else ""
    is_dated = "metric_date" in plan.shape.keys
    cluster = asks.cluster or (None if asks.stored else plan.spec.cluster)
    if cluster == "query_id" and not is_dated:
        cluster = None
    stored = _on_its_days(asks.stored, plan, ask) if asks.stored else None
    if stored:
        stored.check(measures)
        if stored.has_days and is_dated and not stored.by_day:
            told.append("baseline_values are of other days: a query has the mean of its days")
    is_once = (asks.dates or (stored and not stored.by_day)) and asks.is_paired
    if cluster is None and is_dated and not is_once:
        cluster = "query_id"
        told += _said_of_days(plan, asks)
    what = (plan, tuple(measures), tuple(others), baseline)
    own = (*what, asks.by, cluster, asks.dates, of_system, stored)
    if asks.is_paired:
        return Pairing(*own), told
    _check_test(asks)
    if not (asks.dates or stored):
        told.append("unpaired: each system has the queries that it has a list of")
    if cluster in (None, "query_id"):
        told += _said_of_users(plan)
    return Samples(*own, covariate=_covariate(asks)), told


def _said_of_days(plan: Plan, asks: Options) -> Iterator[str]:
    """That a query's days are no new evidence; a request of a click log is of one day."""
    if asks.dates:
        yield "a query that comes again is one cluster, within a side and over both"
    elif plan.spec.clicks is None:
        yield "a query comes again on other days: its days are one cluster"


def _said_of_users(plan: Plan) -> Iterator[str]:
    """That the requests of a user are no independent ones, where a click log names users."""
    columns = plan.spec.clicks.columns if plan.spec.clicks else None
    if columns and columns.user:
        yield (
            "requests are taken for independent, and the log names users, who come again: "
            f"--cluster {columns.user} takes the requests of a user together"
        )


def _of_stored(plan: Plan, asks: Options, ask: Ask) -> tuple[list[str], list[str]]:
    """The earlier run, and the systems that are compared with it."""
    if not asks.is_paired and (asks.carried or asks.before or plan.shape.weighted):
        raise SpecError(
            "baseline_values have no segments, weights, clusters or covariates, which need each "
            "query on both sides: leave out paired=False (--unpaired), or what needs them"
        )
    there = [plan.spec.title]
    if "system" in plan.shape.keys:
        there = sorted(row["system"] for row in ask("select distinct system\nfrom per_query"))
    replace(asks, baseline=None).check_systems(there)
    return [asks.stored.name if asks.stored else "", *(asks.systems or there)], []


def _on_its_days(stored: Stored, plan: Plan, ask: Ask) -> Stored:
    """By day, if the two runs have one in common."""
    if not (stored.has_days and "metric_date" in plan.shape.query_keys):
        return replace(stored, by_day=not stored.has_days and "metric_date" not in plan.shape.keys)
    shared = ask(
        f"select count(*) as n\nfrom per_query\nwhere metric_date in (\n    {stored.days}\n)"
    )
    return replace(stored, by_day=bool(int(shared[0]["n"])))


def _covariate(asks: Options) -> Covariate | None:
    if asks.before:
        return Covariate(asks.before.name, before=asks.before)
    if asks.covariate:
        return Covariate(asks.covariate, column=segment(asks.covariate))
    return None


def _check_test(asks: Options) -> None:
    if asks.test in ("wilcoxon", resampling.RANDOMIZATION):
        raise SpecError(
            f"{asks.test} needs each query on both sides: take the test t or bootstrap, or compare "
            "the queries that both sides have (paired=True, --paired)"
        )
    if asks.test == resampling.BOOTSTRAP and asks.has_covariate:
        raise SpecError("a covariate is adjusted for by the test t; leave out the other")


def _of_systems(plan: Plan, asks: Options, ask: Ask) -> tuple[list[str], list[str]]:
    """The baseline and the systems that are compared with it."""
    rows = "per_query"
    if asks.before:
        rows += f"\nwhere {asks.before.outside}"
    there = [row["system"] for row in ask(f"select distinct system\nfrom {rows}")]
    if None in there:  # which the checks would have told
        raise InputError("rankings: system is NULL in some rows: leave these out or fill them in")
    there.sort()
    asks.check_systems(there)
    chosen = asks.systems or there
    given = asks.baseline or (asks.systems[0] if asks.systems else plan.spec.baseline)
    if given is not None and given not in there:
        raise SpecError(unknown("system", given, there))
    baseline, rule = (given, "") if given else usual_baseline(there)
    others = list(dict.fromkeys(one for one in chosen if one != baseline))
    if not others:
        raise SpecError(one_system(baseline))
    return [baseline, *others], [rule] if rule else []


def one_system(name: str) -> str:
    """What is said where there is no second system."""
    return (
        f"there is one system, {name}, and compare needs two: name the column of systems "
        "(rankings.columns.system, system, --system), give several tables, or two days (dates, "
        "--dates)"
    )


def _of_dates(plan: Plan, asks: Options, ask: Ask) -> tuple[list[str], list[str]]:
    """The periods by their names, the baseline first; and the system, before what is said."""
    system = ""
    if "system" in plan.shape.keys:
        there = sorted(row["system"] for row in ask("select distinct system\nfrom per_query"))
        replace(asks, baseline=None).check_systems(there)
        chosen = asks.systems or there
        if len(chosen) > 1:
            raise SpecError(
                f"dates compare one system with itself, and there are {', '.join(chosen)}: name "
                "one (systems, --systems)"
            )
        system = chosen[0] if chosen else ""
    names = [one.name for one in asks.dates]
    for one in asks.dates:
        where = one.condition + (f" and system = {literal(system)}" if system else "")
        if not int(ask(f"select count(*) as n\nfrom per_query\nwhere {where}")[0]["n"]):
            raise InputError(f"dates: no query on {one.name}" + (f" of {system}" if system else ""))
    baseline = asks.baseline or names[0]
    if baseline not in names:
        raise SpecError(f"dates: {unknown('baseline', baseline, names)}")
    return [baseline, *(one for one in names if one != baseline)], [system]
