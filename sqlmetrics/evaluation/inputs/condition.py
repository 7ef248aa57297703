"""A user's condition on a table: whether the database can read it."""

from __future__ import annotations

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, unknown
from sqlmetrics.sql.relation import Relation, source_text


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
        there = engine.columns(source_text(relation))
    except InputError:
        return ""
    try:
        engine.columns(source_text(relation, engine.translation.condition(text)))
    except InputError as error:
        from sqlmetrics.sql.transpile import columns_named

        known = {name.casefold() for name in there}
        named = columns_named(text, engine.translation.dialect)
        gaps = [name for name in named if name.casefold() not in known]
        return unknown("column", gaps[0], there) if gaps else str(error).partition(": ")[2]
    return ""
