"""Every list beside the baseline's list of the same query: how much they share, by depth."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.plan.needs import SumStage
from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.stage import Stage, Window, equal
from sqlmetrics.sql.template import literal


def stages(shape: Shape, sums: SumStage, condition: str) -> Iterator[Stage]:
    """The stages from the ranked rows to `compared`, one row per list and depth.

    Args:
        shape: What the tables hold.
        sums: What is summed over these rows.
        condition: The condition of the rows that count, empty if all do.
    """
    keys, ranked = shape.keys, "ranked"
    view = {
        "keys": keys,
        "query_keys": shape.query_keys,
        "ranked": ranked,
        "name": literal(shape.spec.baseline or ""),
        "shown": condition,
        "same_query": equal("baseline", ranked, shape.query_keys),
        "same_list": equal("baseline", "lists", shape.query_keys),
        "list": Window(keys, []),
        "down": Window(keys, ["rnk asc"], "unbounded preceding"),
    }
    for name in ("baseline", "places", "depths", "in_common", sums.rows):
        yield Stage(name, name, view)
