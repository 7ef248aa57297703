"""A user's condition on a table: whether the database can read it."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, unknown
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.plan.plan import Plan
from sqlmetrics.sql.relation import Relation, source_text

OF_TEXTS = "every column of a CSV file is text: write cast(age as integer) > 17"


def wrong_condition(text: str | None, relation: Relation, engine: Database) -> str:
    """What is wrong with a condition; empty if nothing is, or the table cannot be read without.

    Args:
        text: The condition.
        relation: The table, as the engine's translation takes it.
        engine: Where it is.
    """
    if not text:
        return ""
    try:
        columns = engine.columns(source_text(relation))
    except InputError:
        return ""
    try:
        engine.columns(source_text(relation, engine.translation.condition(text)))
    except InputError as error:
        from sqlmetrics.sql.transpile import columns_named

        existing = {name.casefold() for name in columns}
        used_columns = columns_named(text, engine.translation.dialect)
        gaps = [name for name in used_columns if name.casefold() not in existing]
        return unknown("column", gaps[0], columns) if gaps else str(error).partition(": ")[2]
    return ""


def wrong_segments(plan: Plan, engine: Database) -> Iterator[Problem]:
    """Segments whose conditions the database cannot read, though their columns are there."""
    segments, shape = plan.spec.segments, plan.shape
    for table, relation in shape.tables.items():
        for name in shape.made_of.of(table):
            if name not in segments or shape.made_of.kind(name):
                continue
            if wrong := wrong_condition(segments[name], relation, engine):
                message = f"segment {name} {segments[name]!r}: {wrong}"
                yield Problem(table, message, 1, remedy=OF_TEXTS * bool(relation.separator))
