"""Quantiles of what requests have, as means of what each request moves them by.

The quantile p of n values is the one in place p * n. Its error is that of the share of values up to
it, over the density there (Bahadur 1966). The density is told by the order statistics at the ends
of an interval of the share as of n independent requests; users are counted in the error of the
share, since a mean over requests is compared by users (Deng, Knoblich and Lu, Applying the Delta
Method in Metric Analytics, KDD 2018).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.comparison.online.units import OnlineTerm
from sqlmetrics.comparison.statements import columns_stage, sums_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step
from sqlmetrics.sql.stage import Column, Window, with_stages
from sqlmetrics.sql.template import double, literal

LINEAR = "sqlmetrics_quantile_units"
"""The table of requests with what each moves the quantiles by."""

REACH = 1.96
"""The order statistics that tell the density are so many standard errors of the share away."""


@dataclass(frozen=True)
class Quantile:
    """A quantile of the values of a system's requests.

    Attributes:
        value: The quantile.
        share: Of the values that are no larger.
        slope: How much larger it would be if the share were larger by 1: 1 over the density.
    """

    value: float
    share: float
    slope: float


def linearised(
    terms: Sequence[OnlineTerm], table: str, systems: Sequence[str], where: str, engine: Database
) -> Step:
    """The table of requests in which the mean of a term is its quantile.

    Args:
        terms: Those of quantiles.
        table: The requests.
        systems: Those that are compared.
        where: What its rows meet that are compared; empty of all.
        engine: Where they are.
    """
    chosen = f"system in ({', '.join(map(literal, systems))})"
    chosen += f"\n    and {where}" if where else ""
    columns = dict[str, object]()
    for term in terms:
        quantiles = dict(_quantiles(term, table, chosen, engine))
        columns[term.x] = Column("\n".join(_moved(term, quantiles)), term.x)
    kept = [columns.get(name, name) for name in engine.columns(table)]
    about = "requests with what each moves a quantile by"
    stages = [columns_stage("moved_units", about, kept, table, chosen)]
    return Step(LINEAR, with_stages(stages, "select *\nfrom moved_units"))


def _moved(term: OnlineTerm, quantiles: Mapping[str, Quantile]) -> Iterator[str]:
    """What a request moves the quantile of its system by, about the quantile; lines of SQL."""
    yield "case"
    yield f"    when {term.w} = 0 then 0e0"
    for system, quantile in quantiles.items():
        above = quantile.value + quantile.slope * quantile.share
        yield f"    when system = {literal(system)} and {term.x} <= {double(quantile.value)}"
        yield f"        then {double(above - quantile.slope)}"
        yield f"    when system = {literal(system)} then {double(above)}"
    yield "end"


def _quantiles(
    term: OnlineTerm, table: str, where: str, engine: Database
) -> Iterator[tuple[str, Quantile]]:
    """System -> the quantile of its requests."""
    p = term.measure.quantile or 0.0
    in_order = Window(["system"], [f"{term.x} asc"])
    numbered = [
        "system",
        Column(term.x, "spread"),
        Column(f"row_number() over {in_order}", "place"),
        Column(f"count(*) over {in_order}", "n_up_to"),
        Column(f"1e0 * count(*) over {Window(['system'])}", "n"),
    ]
    middle = f"{double(p)} * n - 1e-9"
    reach = f"{double(REACH * math.sqrt(p * (1 - p)))} * sqrt(n)"
    places = {"at": middle, "low": f"{middle} - {reach}", "high": f"{middle} + {reach}"}
    placed = [
        *("system", "spread", "place", "n_up_to", "n"),
        *(Column(_place(place), f"{name}_place") for name, place in places.items()),
    ]
    ends = [
        *(Column(_at(name, "spread"), f"{name}_value") for name in places),
        Column(f"{_at('at', 'n_up_to')} / max(n)", "share"),
        Column(f"({_at('high', 'place')} - {_at('low', 'place')}) / max(n)", "span"),
    ]
    where = f"{where}\n    and {term.w} > 0"
    stages = [
        columns_stage("numbered", "values in order", numbered, table, where),
        columns_stage("placed", "where the quantile is, and the ends", placed, "numbered"),
        sums_stage("ends", "one row per system", ["system"], ends, "placed"),
    ]
    for row in engine.records(with_stages(stages, "select *\nfrom ends\norder by system")):
        height = row["high_value"] - row["low_value"]
        slope = height / row["span"] if row["span"] else 0.0
        yield str(row["system"]), Quantile(row["at_value"], row["share"], slope)


def _place(place: str) -> str:
    """A place among n, from the first to the last; the row in it is the first from there on."""
    return f"case when {place} < 1e0 then 1e0 when {place} > n then n else {place} end"


def _at(name: str, column: str) -> str:
    """A column of the row in that place."""
    is_there = f"place >= {name}_place and place < {name}_place + 1e0"
    return f"max(case when {is_there} then {column} end)"
