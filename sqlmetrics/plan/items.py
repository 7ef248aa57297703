"""The ranked items with what is known of them, and of those above them in the list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.catalog.metric import AGE, is_column_role
from sqlmetrics.plan.needs import SumStage
from sqlmetrics.plan.query_columns import MICROS_A_DAY, micros_of_day
from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.stage import Column, Stage, Window, equal
from sqlmetrics.sql.template import identifier


@dataclass(frozen=True)
class Feature:
    """A column of the ranked items.

    Attributes:
        sql: What it is.
        stages: What has to be known before.
    """

    sql: str
    stages: tuple[str, ...] = ()


FEATURES: Mapping[str, Feature] = {
    "grade": Feature("{ranked}.grade"),
    "surprise": Feature("-ln({items}.popularity / catalogue.popularity) / ln(2e0)", ("catalogue",)),
    "rarity": Feature("-ln({items}.popularity / {items}.users) / ln(2e0)"),
    "relative_rarity": Feature(
        "coalesce(\n    -ln({items}.popularity / {items}.users)\n"
        "    / nullif(ln({items}.users), 0e0),\n    0e0\n)"
    ),
    "popularity_rank": Feature("popularity_ranks.popularity_rank", ("popularity_ranks",)),
    "n_items": Feature("popularity_ranks.n_items", ("popularity_ranks",)),
    "same_category_above": Feature("row_number() over {alike} - 1e0"),
    "cosine_above": Feature("cosines.cosine_above", ("components", "directions", "cosines")),
}
"""What metrics may read of a ranked item."""


def stages(
    shape: Shape, sums: SumStage, condition: str, label_columns: Sequence[str]
) -> Iterator[Stage]:
    """The stages from the ranked rows and the items to `described`, one row per ranked item.

    Args:
        shape: What the tables hold.
        sums: What is summed over these rows; they have what it reads.
        condition: The condition of the rows that count, empty if all do.
        label_columns: The columns of the labels that ranked rows have.
    """
    ranked, items, keys = "ranked", shape.names["items"], shape.keys
    row_keys = [f"{ranked}.{key}" for key in keys]
    alike = Window([*row_keys, f"{items}.category"], [f"{ranked}.rnk asc"])
    own_columns = [
        Column(_age(shape, items, role) or f"{items}.{identifier(role)}", identifier(role))
        for role in filter(is_column_role, shape.columns["items"])
        if sums.reads(role)
    ]
    own_columns += [Column(f"{ranked}.{name}", name) for name in label_columns if sums.reads(name)]
    group_shares = [
        role
        for role in shape.columns["items"]
        if any(sums.reads(f"{kind}_share_of_{role}") for kind in TARGETS)
    ]
    own_columns += [
        Column(f"shares_of_{role}.{kind}_share_of_{role}", f"{kind}_share_of_{role}")
        for role in group_shares
        for kind in TARGETS
    ]
    read = {name: feature for name, feature in FEATURES.items() if sums.reads(name)}
    columns = [
        Column(feature.sql.format(items=items, ranked=ranked, alike=alike), name)
        for name, feature in read.items()
    ]
    before = tuple(dict.fromkeys(name for feature in read.values() for name in feature.stages))
    above = Window(
        [*row_keys, "components.dimension"], [f"{ranked}.rnk asc"], "unbounded preceding"
    )
    view = {
        "keys": keys,
        "columns": [*row_keys, f"{ranked}.rnk", *columns, *own_columns],
        "own": [*row_keys, f"{ranked}.rnk"],
        "ranked": ranked,
        "items": items,
        "shown": condition,
        "roles": [role for role in ROLES if role in shape.columns["items"]],
        "stages": before,
        "above": Window(above.partition, above.order, above.frame, "1 preceding"),
        "group_shares": group_shares,
        "same_row": equal("cosines", ranked, (*keys, "rnk")),
    }
    for role in group_shares:
        yield Stage(f"shares_of_{role}", "group_shares", {"group": role, "items": items})
    for name in (*before, "item_features"):
        yield Stage(name, name, view)
    windows = sums.row_columns.windows.items()
    if over_lists := [Column(window.sql(keys), name) for name, window in windows]:
        names = [*keys, "rnk", *read, *(column.name for column in own_columns)]
        about = "the same, with what the other items of a list say of each"
        view = {"columns": [*names, *over_lists], "about": about, "where": ""}
        view["from"] = "item_features"
        yield Stage(sums.rows, "columns", view)


def _age(shape: Shape, items: str, role: str) -> str:
    """How many days an item has on the day of the list; empty for a column that is no age."""
    if not role.startswith(f"{AGE}_"):
        return ""
    columns = ("ranked.metric_date", f"{items}.{identifier(role)}")
    micros = [micros_of_day(shape, column) for column in columns]
    return f"({' - '.join(micros)}) / {MICROS_A_DAY}"


TARGETS = ("catalogue", "equal")
"""The shares that the groups of a column have: by the catalogue's items, or all alike."""

ROLES = ("popularity", "users", "category", "vector")
"""What may be known of an item."""
