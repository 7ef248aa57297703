"""One quick pass over a table, by itself or along with an evaluation, before any look closely.

It says if there is anything to look for: a row that breaks a rule, an item that may be twice in
its list, ranks that may have gaps. Only DuckDB has what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlmetrics.bucket import Bucket
from sqlmetrics.clues import clues
from sqlmetrics.engines.translated import Database
from sqlmetrics.memory import parts
from sqlmetrics.plan import Plan
from sqlmetrics.rules import RowCheck, row_checks
from sqlmetrics.sql import print_template, source_text
from sqlmetrics.stage import Column
from sqlmetrics.template import identifier

BYTES = 24
"""What a row takes while its list is looked through."""

TYPES = dict.fromkeys(("DOUBLE", "FLOAT", "BIGINT", "INTEGER"), "number") | {"DATE": "date"}


@dataclass(frozen=True)
class Screen:
    """What one quick pass over a table says.

    Attributes:
        rows: How many rows there are.
        bad: How many meet a condition that no row may meet.
        alike: How many items of a query have the same 32 bits of hash as another one: all
            that are there twice, and one in four billions that is not.
        gaps: How many lists may not be ranked 1, 2, ... n: all that are not, and those of
            more than `clues.LONGEST` items.
    """

    rows: int
    bad: int
    alike: int
    gaps: int


CLEAR = Screen(rows=1, bad=0, alike=0, gaps=0)


def is_possible(plan: Plan, table: str) -> bool:
    """Whether a table can be looked through in one pass: where duplicates are refused."""
    refuses = plan.spec.options.get(f"duplicate_{table}") == "error"
    return refuses and not plan.shape.at.translation.changes


def suspects(plan: Plan, engine: Database, table: str) -> str:
    """What the rows of a table meet that break a rule; empty if it cannot be told.

    A rule that the type of a column already keeps is left out.
    """
    if not is_possible(plan, table):
        return ""
    shape = plan.shape
    columns = engine.columns(source_text(shape.tables[table], shape.where[table]))
    there = {name.casefold(): kind for name, kind in columns.items()}
    if not there.keys() >= {name.casefold() for name in shape.columns[table].values()}:
        return ""
    return "\nor ".join(
        rule.text(shape.columns[table][rule.role])
        for rule in row_checks(plan, table)
        if not _is_kept(rule, there[shape.columns[table][rule.role].casefold()])
    )


def _is_kept(rule: RowCheck, kind: str) -> bool:
    return rule.wanted != "" and rule.wanted == TYPES.get(kind, "")


def screen(plan: Plan, engine: Database, table: str) -> Screen:
    """Look through a table, in as many parts as fit into memory."""
    there = parts(plan, engine, BYTES, table)
    bad = suspects(plan, engine, table)
    found = [engine.rows(_text(plan, table, bad, one))[0] for one in there]
    return Screen(*map(sum, zip(*found, strict=True)))


def _text(plan: Plan, table: str, bad: str, bucket: Bucket) -> str:
    shape = plan.shape
    view = {
        "keys": list(_keys(shape.columns[table])),
        "columns": list(_clues(shape.columns[table], bad)),
        "source": source_text(shape.tables[table], bucket.of(table, shape.where[table])),
        "lists": "lists",
        "ranked": "rank" in shape.columns[table],
    }
    return print_template("checks/screen", view)


def _keys(columns: dict[str, str]) -> Iterator[str]:
    if "date" in columns:
        yield f"try_cast({identifier(columns['date'])} as date)"
    for role in ("system", "query"):
        if role in columns:
            yield identifier(columns[role])


def _clues(columns: dict[str, str], bad: str) -> Iterator[Column]:
    rank = f"try_cast({identifier(columns['rank'])} as bigint)" if "rank" in columns else ""
    return clues(identifier(columns["item"]), bad, rank)
