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
from sqlmetrics.comparison.statements import Statements, columns_stage
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.report.failure import MOST_LOST
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.strategy import PORTABLE
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.tables.tabular import Row

SHOWN = 10
"""So many items of a list are shown, and those below that have a grade above 0."""

LISTS = ("list", "baseline_list")


def movers_of(
    statements: Statements, pairing: Pairing, options: Options, sums: Sums
) -> tuple[Row, ...]:
    """The queries that moved most, with both lists; none unless asked for.

    Args:
        statements: The statements of the comparison.
        pairing: What is compared.
        options: What is asked.
        sums: What came out of the warehouse.
    """
    if not options.movers.count:
        return ()
    rows = _moved(statements, pairing, options.movers, sums, options.level)
    if not rows:
        return ()
    return tuple(with_lists(rows, statements.apart(*lists_query(pairing, rows, statements.engine))))


def lost_queries(
    statements: Statements, pairing: Pairing, options: Options, sums: Sums, rows: Sequence[Row]
) -> tuple[Row, ...]:
    """The queries that lost most, of the metrics and systems that a gate does not let through.

    None where systems have queries of their own.

    Args:
        statements: The statements of the comparison.
        pairing: What is compared.
        options: What is asked.
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
    lost_rows = _moved(statements, of_failed, Movers(MOST_LOST, LOST), sums, options.level)
    texts_by_query = _texts_of({row["query_id"] for row in lost_rows}, pairing.plan, statements)
    return tuple(
        {**row, "query_text": texts_by_query.get(row["query_id"])}
        for row in lost_rows
        if (row["metric"], row["system"]) in failed
    )


def _moved(
    statements: Statements, pairing: Pairing, selection: Movers, sums: Sums, level: float
) -> list[Row]:
    """The queries that moved most, without their lists."""
    moves = [*moved_queries(pairing)]
    with statements.kept(moves) as table:
        if table:
            moves = [Stage(moves[-1].name, "kept", {"table": table})]
        translation = pairing.plan.translation
        rows = statements.rows(*sums_query(moves, translation))
        noise_by_key = noises(pairing, sums.moments, rows)
        query = movers_query(pairing, moves, noise_by_key, selection)
        read = statements.rows(*query) if noise_by_key else []
    return movers(pairing, sums.moments, noise_by_key, read, level)


def _texts_of(queries: set[str], plan: Plan, statements: Statements) -> dict[str, str]:
    """Query -> its text, of those that have one."""
    lookup = texts(plan, statements.engine).get("query_text")
    if lookup is None or not queries:
        return {}
    ids = ", ".join(map(literal, sorted(queries)))
    rows = statements.apart([lookup], f"select *\nfrom {lookup.name}\nwhere query_id in ({ids})")
    return {row["query_id"]: row["query_text"] for row in rows}


def lists_query(pairing: Pairing, rows: Sequence[Row], engine: Database) -> tuple[list[Stage], str]:
    """The stages from the tables, and the select of one row per item of the lists.

    Args:
        pairing: What is compared.
        rows: The queries, as `movers` gives them; one at least.
        engine: Where the tables are.
    """
    plan = of_queries(pairing.plan, {row["query_id"] for row in rows})
    days = {str(row["metric_date"]) for row in rows if row["metric_date"]}
    return items_query(plan, (pairing.baseline, *pairing.systems), days, engine)


def items_query(
    plan: Plan, systems: Sequence[str], days: set[str], engine: Database
) -> tuple[list[Stage], str]:
    """The stages from the tables, and the select of one row per item that is shown.

    Args:
        plan: The plan of some queries, as `of_queries` gives it.
        systems: Whose lists; of a plan without systems all.
        days: The days of the lists; none for all.
        engine: Where the tables are.
    """
    lookups = texts(plan, engine)
    of_systems = f"\n    and system in ({', '.join(map(literal, systems))})" if systems else ""
    of_days = f" and cast(metric_date as varchar) in ({', '.join(map(literal, sorted(days)))})"
    where = f"(rnk <= {SHOWN} or grade > 0e0){of_systems}"
    keys = [*plan.shape.keys, "item_id", "rnk", "grade"]
    shown_items = columns_stage(
        "shown_items",
        f"one row per printed item: the first {SHOWN}, and those with a grade above 0",
        [*keys],
        "ranked",
        where + of_days * bool(days),
    )
    columns = [Column(f"shown_items.{key}", key) for key in keys]
    columns += [Column(f"{stage.name}.{name}", name) for name, stage in lookups.items()]
    id_by_text = {"query_text": "query_id", "item_title": "item_id"}
    joins = {
        stage.name: equal(stage.name, "shown_items", (id_by_text[n],))
        for n, stage in lookups.items()
    }
    view = {"columns": columns, "from": "shown_items", "joins": joins}
    view["about"] = "one row per printed item, with its title"
    last = Stage("titled_items", "comparison/titled", view)
    order = ", ".join([*plan.shape.keys, "rnk"])
    stages = [*lookups.values(), *pool.stages(plan, with_grades=True), shown_items, last]
    return stages, f"select *\nfrom titled_items\norder by {order}"


def of_queries(plan: Plan, queries: set[str]) -> Plan:
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
    text_by_query: dict[str, Any] = {}
    for row in items:
        item = {
            "rank": int(row["rnk"]),
            "item_id": row["item_id"],
            "title": row.get("item_title"),
            "grade": None if row["grade"] is None else float(row["grade"]),
        }
        key = (_day(row.get("metric_date")), row["system"], row["query_id"])
        lists.setdefault(key, []).append(item)
        text_by_query[row["query_id"]] = row.get("query_text")
    return [
        {
            **row,
            "query_text": text_by_query.get(row["query_id"]),
            **{
                name: lists.get((_day(row["metric_date"]), row[side], row["query_id"]), [])
                for name, side in zip(LISTS, ("system", "baseline"), strict=True)
            },
        }
        for row in rows
    ]


def _day(value: Any) -> str:
    return str(value)[:10] if value else ""
