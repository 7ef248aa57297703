"""What a strategy is chosen by: the tables, measured on their first rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.strategy import TableStatistics
from sqlmetrics.sql.stage import print_template, with_stages

ROWS = 1 << 15
"""How many rows are looked at."""

SCATTERED = 2
"""From so many runs of rows a list on, its items are not beside each other."""


def statistics_of(plan: Plan, engine: Database) -> TableStatistics | None:
    """What there is to choose a plan by; None where there is no choice.

    Args:
        plan: The portable plan.
        engine: Where the tables are.
    """
    if plan.shape.at.translation.changes:
        return None
    if plan.shape.at.rankings.template == "query":
        return TableStatistics()  # even its first row may take long
    lists, runs, longest, usual, tied = _measured(plan, engine, "rankings")
    if not lists or runs > SCATTERED * lists:
        return TableStatistics()
    found = TableStatistics(longest, usual, tied / lists)
    if plan.shape.joined or plan.shape.at.labels.template == "query":
        return found
    queries, runs, most, labels, _ = _measured(plan, engine, "labels")
    if not queries or runs > SCATTERED * queries:
        return found
    return replace(found, labels=labels, most=most)


def _measured(plan: Plan, engine: Database, table: str) -> tuple[Any, ...]:
    """Lists, their runs of rows, their longest and usual lengths, and those with equal values."""
    shape = plan.shape
    of_labels = table == "labels"
    view = {
        "keys": shape.label_keys if of_labels else shape.keys,
        "sorter": "grade" if of_labels else shape.sorters[0],
        "where": "grade <> 0" if of_labels else "",
        "table": shape.names[table],
        "rows": ROWS,
    }
    select = print_template("plan/offered", view)
    return engine.rows(with_stages(plan.inputs, select))[0]
