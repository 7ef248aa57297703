"""What the rankings offer to a physical plan, measured on their first rows."""

from __future__ import annotations

from sqlmetrics.engines.translated import Database
from sqlmetrics.physical import Offer
from sqlmetrics.plan import Plan
from sqlmetrics.sql import print_template, with_stages

ROWS = 1 << 17
"""How many rows are looked at."""

SCATTERED = 2
"""From so many runs of rows a list on, its items are not beside each other."""


def offered(plan: Plan, engine: Database) -> Offer | None:
    """What there is to choose a plan by; None where there is no choice.

    Args:
        plan: The portable plan.
        engine: Where the tables are.
    """
    if plan.shape.at.translation.changes:
        return None
    if plan.shape.at.rankings.template == "query":
        return Offer()  # even its first row may take long
    view = {
        "keys": plan.shape.keys,
        "sorter": plan.shape.sorters[0],
        "rankings": plan.shape.names["rankings"],
        "rows": ROWS,
    }
    select = print_template("evaluate/offered", view)
    lists, runs, longest, usual, tied = engine.rows(with_stages(plan.inputs, select))[0]
    if not lists or runs > SCATTERED * lists:
        return Offer()
    return Offer(longest, usual, tied / lists)
