"""Input checks of some queries alone: those of the same share of all hashes in each table."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sqlmetrics.errors import SpecError
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.plan import plan as planned


def share_of(check: bool | float) -> float:
    """Of which share of the queries the input is checked: 1 for all, 0 for none.

    Raises:
        SpecError: If it is no share.
    """
    share = float(check)
    if not (math.isfinite(share) and 0 <= share <= 1):
        raise SpecError(
            f"check must be True, False or a share of the queries like 0.01, given {check}"
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
    return planned(plan.spec.having(**changed), plan.shape.at)


def _condition(plan: Plan, column: str, share: float) -> str:
    """What rows of the chosen queries meet, in the words of the database."""
    translation = plan.translation
    dialect, name = translation.dialect, translation.column(column)
    hashed = dialect.hashed.format(column=f"cast({name} as {dialect.text})")
    least = f"{min(int(share * 16**8), 16**8 - 1):08x}"
    return f"({name} is null or substr({hashed}, 1, 8) < '{least}')"


def note(check: bool | float) -> Iterator[str]:
    """What is said of checks that did not look at all."""
    share = share_of(check)
    if 0 < share < 1:
        yield (
            f"the input checks looked at {100 * share:g} % of the queries, chosen by hash; "
            "duplicates, NULL and NaN in other queries are not reported"
        )
