"""Two lists of a query beside each other, by depth, where items of equal scores share places.

Of n items that share places each is there by a part: by 1/n at the first of these places, 2/n
at the second. So what an item of both lists adds to the overlap at depth d is a product of two
such parts, and changes its form at three depths at most: where the later of the two comes up,
and where each is wholly there. The overlap is a running sum of these changes, each of which is
written as `square` x d^2 + `slope` x d + `base`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from sqlmetrics.plan.needs import SumStage
from sqlmetrics.plan.shape import Shape
from sqlmetrics.sql.stage import Column, Stage, Window, equal
from sqlmetrics.sql.template import literal

NORM = """sqrt(
        first_rank - 1e0
        + (rnk - first_rank + 1e0) * (rnk - first_rank + 1e0) / n_tied
    )"""
"""The root of the squares of all parts of a list down to a depth that it reaches."""

MEANINGS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "w": {
            "share": "1e0",
            "reach": "first_rank + n_tied - 1e0",
            "unseen": "rnk",
            "size": "(own_reach + other_reach) / 2e0",
        },
        "a": {"share": "n_tied", "reach": "rnk", "unseen": "rnk", "size": "rnk"},
        "b": {
            "share": "n_tied",
            "reach": NORM,
            "unseen": "sqrt(rnk)",
            "size": "own_reach * other_reach",
        },
    }
)
"""What equal scores mean -> how many places an item shares, how much of a list is there at a depth
that it reaches, and at one below its end, and what of both the overlap is divided by."""


def stages(shape: Shape, sums: SumStage, condition: str) -> Iterator[Stage]:
    """From the ranked items to one row per list and depth.

    Args:
        shape: What the tables hold.
        sums: What is summed over these rows.
        condition: The condition of the rows that count, empty if all do.
    """
    meaning, suffix = MEANINGS[sums.suffix.removeprefix("_")], sums.suffix
    names = ("items", "baseline", "lengths", "pairs", "parts", "steps", "depths", "overlaps")
    stage_names = {name: f"tied_{name}{suffix}" for name in names}
    keys = shape.keys
    view = {
        **stage_names,
        "keys": keys,
        "query_keys": shape.query_keys,
        "meaning": meaning,
        "same_query": equal("baseline", "own", shape.query_keys),
        "same_list": equal("own", "lengths", keys),
        "same_lengths": equal("lengths", "baseline", shape.query_keys),
        "of_list": equal("lengths", "steps", keys),
        "list": Window(keys, []),
        "by_rank": Window(keys, ["rnk asc"]),
        "down": Window(keys, ["rnk asc"], "unbounded preceding"),
    }
    tie = Window([*keys, "tied_rnk"], [])
    columns = [
        *keys,
        "item_id",
        Column("rnk * 1e0", "rnk"),
        Column("tied_rnk * 1e0", "first_rank"),
        Column(f"count(*) over {tie} * 1e0", "n_tied"),
    ]
    about = "one row per ranked item: the first of the places that it shares, and how many share"
    items = {"about": about, "columns": columns, "from": "ranked", "where": condition}
    yield Stage(stage_names["items"], "columns", items)
    yield Stage(
        stage_names["baseline"],
        "columns",
        {
            "about": "the lists that the others are compared with",
            "columns": [*shape.query_keys, "item_id", "rnk", "first_rank", "n_tied"],
            "from": stage_names["items"],
            "where": f"system = {literal(shape.spec.baseline or '')}",
        },
    )
    for name in names[2:]:
        yield Stage(stage_names[name], f"tied_{name}", view)
    yield Stage(sums.rows, "tied_agreement", view)
