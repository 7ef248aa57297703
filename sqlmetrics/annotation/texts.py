"""What a spec says of queries and items beside their ids: texts, titles, weights, segments.

This is the one place that knows where they stand: in the rankings, in the table `queries`
or in the table `items`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, unknown
from sqlmetrics.evaluation.checks import checks
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.relation import Relation, source_text, unmentioned
from sqlmetrics.sql.stage import Stage, equal

ROLES = {"query_text": "queries", "item_title": "items"}
"""What a column of texts comes from."""


@dataclass(frozen=True)
class QueryContext:
    """Where the segments and the weight of a query stand.

    Attributes:
        columns: Fact -> the column that has it, with its table.
        joins: The tables that must be joined for them, with their conditions.
    """

    columns: Mapping[str, str]
    joins: Mapping[str, list[str]]

    @property
    def weight(self) -> str:
        """The column of the weights, empty without weights."""
        return self.columns.get("weight", "")


def facts(shape: Shape, rankings: str) -> QueryContext:
    """The facts of the queries, for a select from a stage that has the rankings' own.

    Args:
        shape: What the tables hold.
        rankings: The stage that is selected from.
    """
    query_facts = shape.known_facts
    listed = {name: f"{rankings}.{name}" for name in shape.facts if name not in query_facts}
    if not query_facts:
        return QueryContext(listed, {})
    queries = shape.names["queries"]
    columns = listed | {name: f"{queries}.{name}" for name in query_facts}
    ordered = {name: columns[name] for name in shape.facts}
    return QueryContext(ordered, {queries: equal(queries, rankings, shape.known_keys)})


def texts(plan: Plan, engine: Database) -> dict[str, Stage]:
    """The stages with the texts that people read, for those that the spec has.

    Returns:
        `query_text` and `item_title`, each with the stage of the columns (`query_id`,
        `query_text`) or (`item_id`, `item_title`), one row per id. If an id has several
        texts it is the first in the order of the alphabet.

    Raises:
        InputError: If a table cannot be read or has not the columns.
    """
    text_sources = {
        "query_text": (plan.spec.queries, "query", "text", "query"),
        "item_title": (plan.spec.items, "item", "title", "item"),
    }
    stages: dict[str, Stage] = {}
    for column, (source, role, text, about) in text_sources.items():
        if source is not None and getattr(source.columns, text):
            relation = source_relation(source, f"{column}s", engine)
            column_by_role = {key: getattr(source.columns, key) for key in (role, text)}
            check_columns(ROLES[column], relation, column_by_role, engine)
            view = {
                "about": f"{about}: its {text}",
                "key": getattr(source.columns, role),
                "id": f"{role}_id",
                "text": getattr(source.columns, text),
                "id_text": column,
                "source": source_text(relation),
                "where": engine.translation.condition(source.where or ""),
            }
            stages[column] = Stage(
                unmentioned(f"{column}s", [*plan.shape.tables.values(), relation]),
                "annotation/lookup",
                view,
            )
    return stages


def check_columns(
    table: str, relation: Relation, column_by_role: Mapping[str, str], engine: Database
) -> None:
    """Refuse a table that lacks columns.

    Args:
        table: Its name, for messages.
        relation: Where it is.
        column_by_role: Role -> column.
        engine: What reads it.

    Raises:
        InputError: If it cannot be read or a column is not there; the nearest is told.
    """
    existing_columns = engine.columns(source_text(relation))
    folded = {name.casefold() for name in existing_columns}
    missing = [
        (role, name) for role, name in column_by_role.items() if name.casefold() not in folded
    ]
    if missing:
        problems = [
            f"{table}: {unknown('column', n, existing_columns)} (used as {r})" for r, n in missing
        ]
        raise InputError(problems)


def check_rankings(plan: Plan, engine: Database) -> None:
    """Refuse tables, the labels apart, that lack columns.

    Raises:
        InputError: As `check_columns` does.
    """
    checks.check_columns(plan, engine, ignored_tables=("labels",))
