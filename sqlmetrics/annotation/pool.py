"""What the systems show: the stage `ranked` of a plan, with items and whether they are labelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, unknown
from sqlmetrics.evaluation.checks import checks
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.relation import Relation, source_text, unmentioned
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import literal

# What a spec says of queries and items beside their ids: texts, titles, weights, segments.
#
# This is the one place that knows where they stand: in the rankings, in the table `queries`
# or in the table `items`.

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


def stages(plan: Plan, *, with_labels: bool = True, with_grades: bool = False) -> list[Stage]:
    """The plan's stages up to `ranked`, whose rows get `item_id` and `is_labelled`.

    An item with a label of any kind is labelled, and an item without one keeps its place
    also where the spec would leave it out of the lists (unjudged=condensed).

    Args:
        plan: The plan of the evaluation.
        with_labels: Whether labels are looked at; without them nothing is labelled, and
            the labels need not be there yet.
        with_grades: Whether rows get their `grade` too, NULL without a label.
    """
    names = [stage.name for stage in plan.per_query]
    before, ranked = plan.per_query[: names.index("ranked")], plan.per_query[names.index("ranked")]
    rankings, labels = ranked.view["rankings"], ranked.view["labels"]
    rank = next(
        column for column in ranked.view["columns"] if getattr(column, "name", column) == "rnk"
    )
    weight = facts(plan.shape, rankings).weight
    columns = [
        *(Column(f"{rankings}.{key}", key) for key in (*plan.shape.keys, "item_id")),
        *([Column(weight, "weight")] if weight == f"{rankings}.weight" else []),
        Column(f"case when {labels}.query_id is null then 0 else 1 end", "is_labelled"),
        *([Column(f"{labels}.grade", "grade")] if with_grades else []),
        rank,
    ]
    inputs = plan.inputs if with_labels else without_labels(plan, plan.inputs)
    view = {**ranked.view, "columns": columns, "where": ""}
    return [*inputs, *before, Stage("ranked", "ranked", view)]


def lot(plan: Plan, seed: int, keys: Sequence[str], prefix: str = "") -> str:
    """The random number of a query or a pair; the same on every engine.

    Args:
        plan: The plan of the evaluation.
        seed: Another seed gives other numbers.
        keys: The columns that it is identified by.
        prefix: What stands before the names of the columns.
    """
    texts = {"metric_date": f"cast({prefix}metric_date as varchar)"}
    key_sql = " || '|' || ".join(texts.get(key, f"{prefix}{key}") for key in keys)
    translation = plan.translation
    return translation.expression(translation.dialect.hashed, f"{literal(f'{seed}|')} || {key_sql}")


def rankings_alone(plan: Plan) -> list[Stage]:
    """The tables without the labels."""
    return [stage for stage in plan.inputs if stage.name != plan.shape.names["labels"]]


def without_labels(plan: Plan, stages: Sequence[Stage]) -> list[Stage]:
    """The stages with a table of labels that has no row, which need not be there."""
    name = plan.shape.names["labels"]
    types = {"metric_date": "date", "grade": "double"}
    keys = (*plan.shape.labelled_keys, "grade")
    columns = [Column(f"cast(null as {types.get(key, 'varchar')})", key) for key in keys]
    empty = Stage(name, "annotation/no_labels", {"columns": columns})
    return [empty if stage.name == name else stage for stage in stages]
