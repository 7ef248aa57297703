"""Which requests of an experiment count: those in which the variants differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlmetrics.clicks.interleaving.credits import source_items
from sqlmetrics.comparison.online.ratios import UNITS
from sqlmetrics.comparison.statements import columns_stage, sums_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, shortened, unknown
from sqlmetrics.evaluation.inputs.open import source_relation
from sqlmetrics.plan.segments import UNKNOWN
from sqlmetrics.plan.shape import segment
from sqlmetrics.spec.click_columns import SourceRankings
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.stage import Column, Stage, Window, with_stages
from sqlmetrics.sql.template import identifier, literal, verbatim
from sqlmetrics.tables.table import printable

YES = frozenset({"true", "t", "yes", "y", "1", "1.0"})
NO = frozenset({"false", "f", "no", "n", "0", "0.0"})


@dataclass(frozen=True)
class Trigger:
    """Whether a request is triggered, as SQL beside its units: 1, 0, or NULL if nobody knows.

    Attributes:
        sql: The expression.
        stages: What it reads.
        joins: Stage -> the conditions on which it is joined.
    """

    sql: str
    stages: Sequence[Stage] = ()
    joins: Mapping[str, list[str]] = field(default_factory=dict)


def by_column(name: str, engine: Database) -> Trigger:
    """Requests in which a column of the log is true.

    Raises:
        InputError: If it has values that are neither yes nor no.
    """
    column = segment(name)
    values = {str(value) for (value,) in engine.rows(f"select distinct {column} from {UNITS}")}
    odd = sorted(value for value in values - {UNKNOWN} if value.lower() not in YES | NO)
    if odd:
        raise InputError(
            f"experiment: triggered: {name} has the value {printable(shortened(odd[0]))!r}, which "
            "is neither true nor false (1 or 0, yes or no); name a column that is true where the "
            "variants differ"
        )
    whens = [
        f"    when {column} in ({', '.join(map(literal, sorted(chosen)))}) then {flag}"
        for flag, words in ((1, YES), (0, NO))
        if (chosen := [value for value in values if value.lower() in words])
    ]
    return Trigger("\n".join(["case", *whens, "end"]) if whens else "cast(null as integer)")


def by_lists(source: SourceRankings, variants: Sequence[str], engine: Database) -> Trigger:
    """Requests for which the lists of the variants differ in an item or its place.

    Raises:
        InputError: If a column is not there, or a row has no rank or score.
    """
    columns = source.columns
    conditions = [
        f"{identifier(columns.system)} in ({', '.join(map(literal, variants))})",
        *([verbatim(source.where)] if source.where else []),
    ]
    relation = source_relation(source, "clicks_lists", engine)
    existing = engine.columns(source_text(relation))
    for name in (columns.query, columns.item, columns.system, columns.order):
        if name.casefold() not in map(str.casefold, existing):
            raise InputError(
                f"experiment: lists: {unknown('column', name, existing)}; name it in columns"
            )
    items = source_items(relation, columns, conditions)
    order = [f"ordered_by {'asc' if columns.rank else 'desc'}", "item_id asc"]
    place = Column(f"row_number() over {Window(['request_id', 'system'], order)}", "place")
    stages = [
        items,
        columns_stage(
            "variant_places",
            "each with its place",
            ["request_id", "item_id", place],
            "source_items",
        ),
        sums_stage(
            "places",
            "one row per request and place: how many variants fill it, and with what",
            ["request_id", "place"],
            [
                Column("count(*)", "n_lists"),
                Column("min(item_id)", "first_item"),
                Column("max(item_id)", "last_item"),
            ],
            "variant_places",
        ),
        sums_stage(
            "list_differences",
            "one row per request: how many variants have a list, and whether these differ",
            ["request_id"],
            [
                Column("max(n_lists)", "n_lists"),
                Column(
                    "max(case\n"
                    f"        when n_lists < {len(variants)} or first_item <> last_item then 1\n"
                    "        else 0\n    end)",
                    "differs",
                ),
            ],
            "places",
        ),
    ]
    unordered = "select count(*) as n from source_items where ordered_by is null"
    ((n_unordered,),) = engine.rows(with_stages(stages[:1], unordered))
    if n_unordered:
        raise InputError(
            f"experiment: lists: {n_unordered:,} rows have no {columns.order}; leave them out "
            f"with where: {columns.order} is not null"
        )
    return Trigger(
        f"case when list_differences.n_lists = {len(variants)} then list_differences.differs end",
        stages,
        {"list_differences": ["list_differences.request_id = variant_units.request_id"]},
    )
