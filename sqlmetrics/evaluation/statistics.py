"""What a strategy is chosen by: the tables, measured on their first rows."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.buckets import n_rows
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.strategy import TableStatistics
from sqlmetrics.sql.stage import print_template, with_stages

ROWS = 1 << 15
"""About how many rows are looked at."""

SCATTERED = 2
"""From so many runs of rows a list on, its items are not beside each other."""

SHORT = 3
"""Lists of fewer items on average may be parts of longer ones, whose other rows come later."""


def statistics_of(plan: Plan, engine: Database) -> TableStatistics | None:
    """What there is to choose a plan by; None where there is no choice.

    Args:
        plan: The portable plan.
        engine: Where the tables are.
    """
    if plan.translation.changes:
        return None
    if plan.shape.at.rankings.template == "query":
        return TableStatistics()  # even its first row may take long
    statistics = TableStatistics()
    if lists := _measured(plan, engine, "rankings"):
        statistics = TableStatistics(
            lists.longest,
            lists.usual,
            lists.tied / lists.number,
            scattered=lists.are_scattered,
        )
    if plan.shape.joined or plan.shape.at.labels.template == "query":
        return statistics
    queries = _measured(plan, engine, "labels")
    return (
        replace(statistics, labels=queries.usual, most=queries.longest) if queries else statistics
    )


class _Lists(NamedTuple):
    """Some lists, or the labels of some queries.

    Attributes:
        number: How many there are.
        runs: How many runs of rows they are in.
        longest: The most rows of one.
        usual: The mean.
        tied: How many have equal values.
    """

    number: int
    runs: int
    longest: int
    usual: float
    tied: int

    @property
    def are_scattered(self) -> bool:
        """Whether the items of a list are not beside each other."""
        return self.runs > SCATTERED * self.number


def _measured(plan: Plan, engine: Database, table: str) -> _Lists | None:
    """The lists of the first rows; of a file in which they are scattered, those of some queries.

    None where neither can tell.
    """
    first = _look(plan, engine, table, f"limit {ROWS}")
    if first.number and not first.are_scattered and first.usual >= SHORT:
        return first
    if (rows := n_rows(plan, engine, table)) is not None:
        step = rows // ROWS
        sample = (
            _look(plan, engine, table, f"where hash(query_id) % {step} = 0") if step > 1 else first
        )
        return sample if sample.number else None
    return None if first.are_scattered or not first.number else first


def _look(plan: Plan, engine: Database, table: str, chosen: str) -> _Lists:
    """What the chosen rows tell."""
    shape = plan.shape
    of_labels = table == "labels"
    view = {
        "keys": shape.label_keys if of_labels else shape.keys,
        "sorter": "grade" if of_labels else shape.sorters[0],
        "where": "grade <> 0" if of_labels else "",
        "table": shape.names[table],
        "chosen": chosen,
    }
    select = print_template("plan/offered", view)
    return _Lists(*engine.rows(with_stages(plan.inputs, select))[0])
