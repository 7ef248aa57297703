"""The lists of some queries, of two systems side by side, with titles and grades.

Only the rows of these queries are read: their ids are a condition of the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlmetrics.annotation import pool
from sqlmetrics.annotation.texts import texts
from sqlmetrics.comparison.breakdown.movers import (
    moved_queries,
    movers,
    movers_query,
    noises,
    sums_query,
)
from sqlmetrics.comparison.findings import Sums
from sqlmetrics.comparison.options import LOST, Movers, Options
from sqlmetrics.comparison.stages import columns_stage
from sqlmetrics.comparison.statements import Statements
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.report.failure import MOST_LOST
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.strategy import PORTABLE
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import identifier, literal

SHOWN = 10
"""So many items of a list are shown, and those below that have a grade above 0."""

LISTS = ("list", "baseline_list")

Row = dict[str, Any]


def movers_of(made: Statements, pairing: Pairing, asks: Options, sums: Sums) -> tuple[Row, ...]:
    """The queries that moved most, with both lists; none unless asked for.

    Args:
        made: The statements of the comparison.
        pairing: What is compared.
        asks: What is asked.
        sums: What came out of the warehouse.
    """
    if not asks.movers.count:
        return ()
    rows = _moved(made, pairing, asks.movers, sums, asks.level)
    if not rows:
        return ()
    return tuple(with_lists(rows, made.apart(*lists_query(pairing, rows, made.engine))))


def lost_queries(
    made: Statements, pairing: Pairing, asks: Options, sums: Sums, rows: Sequence[Row]
) -> tuple[Row, ...]:
    """The queries that lost most, of the metrics and systems that a gate does not let through.

    None where systems have queries of their own.

    Args:
        made: The statements of the comparison.
        pairing: What is compared.
        asks: What is asked.
        sums: What came out of the warehouse.
        rows: The rows that it does not let through.
    """
    if type(pairing) is not Pairing or pairing.periods or pairing.stored:
        return ()
    failed = {(row["metric"], row["system"]) for row in rows if row["segment_name"] == ALL}
    measures = tuple(m for m in pairing.measures if str(m) in {metric for metric, _ in failed})
    systems = tuple(s for s in pairing.systems if s in {system for _, system in failed})
    if not measures:
        return ()
    of_failed = replace(pairing, measures=measures, systems=systems)
    lost = _moved(made, of_failed, Movers(MOST_LOST, LOST), sums, asks.level)
    texts_by_query = _texts_of({row["query_id"] for row in lost}, pairing.plan, made)
    return tuple(
        {**row, "query_text": texts_by_query.get(row["query_id"])}
        for row in lost
        if (row["metric"], row["system"]) in failed
    )


def _moved(
    made: Statements, pairing: Pairing, wanted: Movers, sums: Sums, level: float
) -> list[Row]:
    """The queries that moved most, without their lists."""
    moves = [*moved_queries(pairing)]
    with made.kept(moves) as table:
        if table:
            moves = [Stage(moves[-1].name, "kept", {"table": table})]
        known = noises(pairing, sums.moments, made.rows(*sums_query(moves)))
        query = movers_query(pairing, moves, known, wanted)
        read = made.rows(*query) if known else []
    return movers(pairing, sums.moments, known, read, level)


def _texts_of(queries: set[str], plan: Plan, made: Statements) -> dict[str, str]:
    """Query -> its text, of those that have one."""
    lookup = texts(plan, made.engine).get("query_text")
    if lookup is None or not queries:
        return {}
    ids = ", ".join(map(literal, sorted(queries)))
    rows = made.apart([lookup], f"select *\nfrom {lookup.name}\nwhere query_id in ({ids})")
    return {row["query_id"]: row["query_text"] for row in rows}


def lists_query(pairing: Pairing, rows: Sequence[Row], engine: Database) -> tuple[list[Stage], str]:
    """The stages from the tables, and the select of one row per item of the lists.

    Args:
        pairing: What is compared.
        rows: The queries, as `movers` gives them; one at least.
        engine: Where the tables are.
    """
    plan = _of_queries(pairing.plan, {row["query_id"] for row in rows})
    lookups = texts(plan, engine)
    systems = ", ".join(map(literal, (pairing.baseline, *pairing.systems)))
    days = {str(row["metric_date"]) for row in rows if row["metric_date"]}
    of_days = f" and cast(metric_date as varchar) in ({', '.join(map(literal, sorted(days)))})"
    where = f"(rnk <= {SHOWN} or grade > 0e0)\n    and system in ({systems})"
    keys = [*plan.shape.keys, "item_id", "rnk", "grade"]
    shown = columns_stage(
        "shown_items",
        f"one row per item that is shown: the first {SHOWN}, and those with a grade above 0",
        [*keys],
        "ranked",
        where + of_days * bool(days),
    )
    columns = [Column(f"shown_items.{key}", key) for key in keys]
    columns += [Column(f"{stage.name}.{name}", name) for name, stage in lookups.items()]
    of = {"query_text": "query_id", "item_title": "item_id"}
    joins = {stage.name: equal(stage.name, "shown_items", (of[n],)) for n, stage in lookups.items()}
    view = {"columns": columns, "from": "shown_items", "joins": joins}
    view["about"] = "one row per item that is shown, with its title"
    last = Stage("titled_items", "comparison/titled", view)
    order = ", ".join([*plan.shape.keys, "rnk"])
    stages = [*lookups.values(), *pool.stages(plan, with_grades=True), shown, last]
    return stages, f"select *\nfrom titled_items\norder by {order}"


def _of_queries(plan: Plan, queries: set[str]) -> Plan:
    """The plan of some queries alone."""
    ids = ", ".join(map(literal, sorted(queries)))
    conditions = {
        table: f"cast({identifier(roles['query'])} as varchar) in ({ids})"
        for table, roles in plan.shape.columns.items()
        if "query" in roles and table in ("rankings", "labels")
    }
    return plan.by(PORTABLE, replace(plan.shape.bucket, conditions=conditions))


def with_lists(rows: Sequence[Row], items: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The queries with their text, and with both lists, each a list of rank, item, title, grade.

    Args:
        rows: The queries.
        items: The rows of `lists_query`.
    """
    lists: dict[tuple[str, str, str], list[Row]] = {}
    told: dict[str, Any] = {}
    for one in items:
        item = {
            "rank": int(one["rnk"]),
            "item_id": one["item_id"],
            "title": one.get("item_title"),
            "grade": None if one["grade"] is None else float(one["grade"]),
        }
        key = (_day(one.get("metric_date")), one["system"], one["query_id"])
        lists.setdefault(key, []).append(item)
        told[one["query_id"]] = one.get("query_text")
    return [
        {
            **row,
            "query_text": told.get(row["query_id"]),
            **{
                name: lists.get((_day(row["metric_date"]), row[of], row["query_id"]), [])
                for name, of in zip(LISTS, ("system", "baseline"), strict=True)
            },
        }
        for row in rows
    ]


def _day(value: Any) -> str:
    return str(value)[:10] if value else ""
