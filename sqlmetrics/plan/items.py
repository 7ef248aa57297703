"""The ranked items with what is known of them, and of those above them in the list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.stage import Column, Stage, Window, equal

FACTS: Mapping[str, Column] = {
    "popularity": Column(
        "-ln({items}.popularity / catalogue.popularity) / ln(2e0)",
        "surprise",
    ),
    "category": Column("row_number() over {alike} - 1e0", "same_category_above"),
    "vector": Column("cosines.cosine_above", "cosine_above"),
}
"""What the rows get from a column of the items table."""


def stages(shape: Shape, ranked: str, shown: str) -> Iterator[Stage]:
    """The stages from the ranked rows and the items to `described`, one row per ranked item.

    Args:
        shape: What the tables hold.
        ranked: The stage of the ranked rows.
        shown: The condition of the rows that count, empty if all do.
    """
    items, keys = shape.names["items"], shape.keys
    roles = [role for role in FACTS if role in shape.columns["items"]]
    own = [f"{ranked}.{key}" for key in keys]
    alike = Window([*own, f"{items}.category"], [f"{ranked}.rnk asc"])
    columns = [
        Column(FACTS[role].sql.format(items=items, alike=alike), FACTS[role].name) for role in roles
    ]
    above = Window([*own, "components.dimension"], [f"{ranked}.rnk asc"], "unbounded preceding")
    view = {
        "keys": keys,
        "columns": [*own, f"{ranked}.rnk", *columns],
        "own": [*own, f"{ranked}.rnk"],
        "ranked": ranked,
        "items": items,
        "shown": shown,
        "roles": roles,
        "above": Window(above.partition, above.order, above.frame, "1 preceding"),
        "same_row": equal("cosines", ranked, (*keys, "rnk")),
    }
    if "popularity" in roles:
        yield Stage("catalogue", "catalogue", view)
    if "vector" in roles:
        for name in ("components", "directions", "cosines"):
            yield Stage(name, name, view)
    yield Stage("item_features", "item_features", view)
