"""What the systems show: the stage `ranked` of a plan, with items and whether they are labelled."""

from __future__ import annotations

from collections.abc import Sequence

from sqlmetrics.annotation.texts import facts
from sqlmetrics.plan.plan import Plan
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import literal


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
