"""Whether the tables of a click log have the columns that are wanted of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlmetrics.clicks.times import TEXTS, TIMES
from sqlmetrics.clicks.ubi import COLUMNS
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, unknown
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.evaluation.inputs.condition import wrong_condition
from sqlmetrics.evaluation.inputs.missing import absent, unreadable
from sqlmetrics.spec.click_columns import Log
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.source import Source
from sqlmetrics.sql.relation import Relation, source_text


def check(
    clicks: Clicks, relations: Mapping[str, Relation], engine: Database
) -> dict[str, dict[str, str]]:
    """The types of the columns of each table, by their names in small letters.

    Args:
        clicks: What was said of the log.
        relations: Where each of its sources is.
        engine: Their database.

    Raises:
        InputError: If a table cannot be read, or lacks a column.
    """
    kinds: dict[str, dict[str, str]] = {}
    problems: list[Problem] = []
    for table, source in clicks.sources.items():
        kind_by_column = _columns(table, source, relations[table], engine)
        kinds[table] = folded = {name.casefold(): kind for name, kind in kind_by_column.items()}
        for role, name in _wanted(clicks, table, source):
            if name.casefold() not in folded:
                message = f"{unknown('column', name, kind_by_column)} (wanted as {role})"
                problems.append(Problem(table, message, 1))
            elif role == "day" and not folded[name.casefold()].startswith((*TIMES, *TEXTS)):
                message = f"{name} has the type {folded[name.casefold()]}, and is wanted as day"
                remedy = "make it a date, or a text like 2026-01-31, in sql"
                problems.append(Problem(table, message, 1, remedy=remedy))
    problems += _conditions(clicks, relations, engine)
    if problems:
        raise InputError(problems)
    return kinds


def _conditions(
    clicks: Clicks, relations: Mapping[str, Relation], engine: Database
) -> Iterator[Problem]:
    """The conditions that cannot be read."""
    conditions = [(table, "where", source.where) for table, source in clicks.sources.items()]
    first_source = next(name for name in ("log", "impressions", "events") if name in relations)
    for table, key, text in (*conditions, (first_source, "cleaning.test", clicks.cleaning.test)):
        if wrong := wrong_condition(text, relations[table], engine):
            yield Problem(table, f"{key} {text!r}: {wrong}", 1)


def _columns(table: str, source: Source, relation: Relation, engine: Database) -> Mapping[str, str]:
    try:
        return engine.columns(source_text(relation))
    except InputError as error:
        message = absent(source, engine) or unreadable(source, relation, error, engine)
        raise InputError(f"{table}: {message}") from None


def _wanted(clicks: Clicks, table: str, source: Source) -> Iterator[tuple[str, str]]:
    """Roles and the columns that have them."""
    if clicks.format == "ubi":
        yield from ((name, name) for name in COLUMNS[table])
        return
    columns = source.columns.model_dump(exclude={"clicked", "actions"})
    segments = columns.pop("segments", ())
    yield from ((role, name) for role, name in columns.items() if name is not None)
    yield from ((f"segment {name}", name) for name in segments)
    if isinstance(source, Log):
        yield from source.columns.done.items()
