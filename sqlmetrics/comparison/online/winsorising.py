"""Amounts of a few users are cut at a quantile, so that these few do not decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlmetrics.comparison.online.ratios import UNITS, OnlineRatios, OnlineTerm
from sqlmetrics.comparison.report.text import number
from sqlmetrics.comparison.statements import columns_stage, sums_stage
from sqlmetrics.engines.temporary import Step
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.stage import Column, Window, with_stages
from sqlmetrics.sql.template import double, literal
from sqlmetrics.tables.table import many

CUT = "sqlmetrics_winsorised_units"
"""The table of requests whose amounts are cut."""

NO_AMOUNT = (
    "winsorise cuts amounts of a click log, and no metric is of one; leave it out, or name "
    "revenue_per_request or average_order_value"
)

USER = "coalesce(user_id, request_id)"


@contextmanager
def winsorised(
    ratios: OnlineRatios, systems: Sequence[str], quantile: float | None
) -> Iterator[tuple[OnlineRatios, list[str]]]:
    """The same ratios where no user has a larger amount than a quantile of those above 0.

    The amounts of all requests of such a user shrink alike. The users of all systems together
    tell the quantile, an amount that one of them has: of n the one in place `quantile` * n.

    Args:
        ratios: The ratios.
        systems: Those that are compared; none for all.
        quantile: Between 0 and 1; None to cut nothing.

    Yields:
        The ratios, and what should be known.

    Raises:
        SpecError: If no metric is of an amount.
    """
    if quantile is None:
        yield ratios, []
        return
    amounts = [term for term in ratios.terms if term.measure.metric.needs == "amount"]
    terms = [term for term in amounts if term.measure.quantile is None]
    if not terms:
        raise SpecError(NO_AMOUNT)
    if not 0 < quantile < 1:
        raise SpecError(
            f"winsorise is a quantile above 0 and below 1, like 0.99; given {quantile:g}"
        )
    in_systems = f"system in ({', '.join(map(literal, systems))})" if systems else ""
    where = "\n    and ".join(filter(None, (in_systems, ratios.compared)))
    engine, notes, cuts = ratios.log.engine, list[str](), dict[str, Column]()
    for term in terms:
        for cap, n_below, n in engine.rows(_cap(term, where, quantile)):
            total = f"{term.column}_total"
            kept = f"case when {total} > {double(cap)} then {double(cap)} / {total} else 1e0 end"
            cuts[term.x] = Column(f"{term.x} * {kept}", term.x)
            notes.append(
                f"winsorised: {term.measure} of {n - n_below:,} of {many(n, *ratios.unit.names)} "
                f"with an amount counts as {number(cap)}, the quantile {quantile:g}"
            )
    step = Step(CUT, _cut(ratios, terms, cuts))
    ratios.statements.append(step.statement(engine.translation))
    with step.there(engine):
        yield replace(ratios, units=CUT, table=CUT), notes


def _cap(term: OnlineTerm, where: str, quantile: float) -> str:
    """The select of the quantile, of how many users have no more, and of how many there are."""
    unit = Column(USER, "unit_id")
    in_order = Window([], ["total asc"])
    columns = [
        "total",
        Column(f"row_number() over {in_order}", "place"),
        Column(f"count(*) over {in_order}", "n_below"),
        Column("count(*) over ()", "n"),
    ]
    stages = [
        columns_stage("amounts", "amounts of requests", [unit, term.x], UNITS, where),
        sums_stage(
            "totals",
            "one row per user: the amount",
            ["unit_id"],
            [Column(f"sum({term.x})", "total")],
            "amounts",
        ),
        columns_stage("places", "amounts in order", columns, "totals", "total > 0"),
    ]
    at = f"{double(quantile)} * n"
    last = f"where place >= {at}\n    and place < {at} + 1e0"
    return with_stages(stages, f"select\n    total,\n    n_below,\n    n\nfrom places\n{last}")


def _cut(ratios: OnlineRatios, terms: Sequence[OnlineTerm], cuts: dict[str, Column]) -> str:
    """The select of the requests; days before are of another user, so to say."""
    before = [f"case when {ratios.compared} then 0 else 1 end"] if ratios.compared else []
    user = Window([USER, "system", *before])
    totals = [Column(f"sum({term.x}) over {user}", f"{term.column}_total") for term in terms]
    columns = [cuts.get(name, name) for name in ratios.log.engine.columns(UNITS)]
    stages = [
        columns_stage("user_totals", "each request with its user's amount", ["*", *totals], UNITS),
        columns_stage("cut_units", "each with its part of what counts", columns, "user_totals"),
    ]
    return with_stages(stages, "select *\nfrom cut_units")
