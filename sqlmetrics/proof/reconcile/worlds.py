"""What has to be evaluated for a number of points: a few worlds, each with many metrics.

What becomes of unjudged items, and whether metrics are means over all orders of equal
scores, changes the rows that are summed: each pair is a world of its own. The rules for
equal scores are its systems, the formulas its metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure, Setting
from sqlmetrics.catalog.metric import catalog
from sqlmetrics.plan.expressions import graded_part
from sqlmetrics.proof.reconcile.space import Point, Space
from sqlmetrics.spec.spec import Spec

MICRO, JUDGED = "micro", "judged"

_NOWHERE: Any = {"rankings": {"relation": "rankings"}, "labels": {"relation": "labels"}}

Place = tuple[str, bool]
"""What identifies a world: `unjudged`, and whether metrics are means over all orders."""

Rule = tuple[str, str]
"""What sorts a list: `ties` and `score_precision`."""


@dataclass
class Evaluations:
    """An evaluation of its own.

    Attributes:
        unjudged: The value of that option.
        all_orders: Whether a metric is the mean over all orders of equal scores.
        rules: The rules for the order of a list.
        formulas: The metrics, without the policies of their means -> how their values are
            summed: rounded in which way, or `micro`.
        marks: Metrics that say by their value for a query whether a mean runs over it: a count
            by whether it has one, the share of labelled items by whether it is 1.
    """

    unjudged: str
    all_orders: bool
    rules: dict[Rule, None] = field(default_factory=dict)
    formulas: dict[Measure, dict[str, None]] = field(default_factory=dict)
    marks: dict[Measure, None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The stage of its sums."""
        return f"{self.unjudged}_{'on_average' if self.all_orders else 'in_order'}"

    def asked(self, formula: Measure) -> Measure:
        """A formula as it is asked for: with what it is a ratio of, if that is summed."""
        return formula.having("average", "micro") if MICRO in self.formulas[formula] else formula

    def metrics(self) -> Iterator[Measure]:
        """All that is evaluated."""
        yield from map(self.asked, self.formulas)
        yield from self.marks


def place_of(space: Space, point: Point) -> tuple[Place, Rule]:
    """The world of a point, and the rule for the order of its lists."""
    ties, precision, unjudged = (
        str(space.value(point, name)) for name in ("ties", "score_precision", "unjudged")
    )
    unjudged_rule = "nonrelevant" if unjudged == "skip" else unjudged
    return (unjudged_rule, OPTIONS["ties"].choice(ties).all_orders), (ties, precision)


def summed(space: Space, point: Point) -> str:
    """How the values of queries are summed: rounded in which way, or `micro`."""
    if space.value(point, "average") == "micro":
        return MICRO
    rounding = space.value(point, "rounding")
    return str(rounding) if OPTIONS["rounding"].choice(rounding).term == "{value}" else "none"


def marks_of(space: Space, point: Point) -> list[Measure]:
    """What says by its value for a query whether a mean runs over it, if it picks some.

    A count of relevant items in the top k has all that such a choice may look at: the
    grade of a relevant item, and the cutoff. Of `unjudged=skip`, the share of labelled items
    has: what it leaves has the values that it has otherwise.
    """
    over = space.value(point, "average_over")
    marks = [_hits(space, point, over)] if OPTIONS["average_over"].choice(over).sql else []
    if space.value(point, "unjudged") == "skip":
        looked_at = _looked_at(space.formula(point))
        marks += [looked_at] if looked_at else []
    return marks


@cache
def _looked_at(formula: Measure) -> Measure | None:
    return graded_part(Spec(**_NOWHERE, metrics=("num_q",)), formula, JUDGED)


def known_of(space: Space, point: Point) -> Measure | None:
    """The count that has a value for queries with a relevant label, where that decides a value."""
    if space.value(point, "no_relevant") != "one_if_empty":
        return None
    return _hits(space, point, "relevant")


def _hits(space: Space, point: Point, over: Setting | None) -> Measure:
    rel = space.value(point, "rel")
    settings = [pair for pair in space.formula(point).settings if pair[0] == "ties"]
    settings += [] if rel in (None, 1) else [("rel", rel)]
    alike = Measure(space.measure.metric, tuple(settings), space.measure.k)
    return alike.part(catalog()["num_rel_ret"]).having("average_over", over)  # type: ignore[arg-type]


def worlds_of(
    points: Iterable[tuple[Space, Point]], spec: Spec, orders: Iterable[str] = ()
) -> dict[Place, Evaluations]:
    """What has to be evaluated for points; formulas that their world refuses are left out.

    Args:
        points: Each with the space that it is of.
        spec: What is given.
        orders: Orders of a list that no option has, like `orders.WORST_FIRST`.
    """
    worlds: dict[Place, Evaluations] = {}
    for space, point in points:
        world_key, rule = place_of(space, point)
        world = worlds.setdefault(world_key, Evaluations(*world_key))
        world.rules[rule] = None
        if not world.all_orders:
            world.rules |= dict.fromkeys((order, rule[1]) for order in orders)
        world.formulas.setdefault(space.formula(point), {})[summed(space, point)] = None
        counts = [*marks_of(space, point), known_of(space, point)]
        world.marks |= dict.fromkeys(mark for mark in counts if mark)
    for world in worlds.values():
        bare = spec.having(metrics=("num_q",), conventions=conventions_of(spec, world))
        for measures in (world.formulas, world.marks):
            for measure in [measure for measure in measures if bare.unfit(measure)]:
                del measures[measure]
    return {world_key: world for world_key, world in worlds.items() if world.formulas}


def conventions_of(spec: Spec, world: Evaluations) -> dict[str, Any]:
    """The conventions of a world: what is given for bad input, its own, and no policies."""
    option_names = (
        *("min_score", "depth", "duplicate_rankings", "identical_ids"),
        *("negative_grades", "absent_systems"),
    )
    bare = {
        "missing": "zero",
        "no_relevant": "skip",
        "average": "macro",
        "average_over": "labels",
        "rounding": "none",
    }
    world_options = {
        "unjudged": world.unjudged,
        "ties": "average" if world.all_orders else "id_asc",
    }
    return {name: spec.options[name] for name in option_names} | bare | world_options


def name_column(formula: Measure, part: str, way: str = "none") -> str:
    """The statement's column of a sum of a formula."""
    return f"{formula.column}_{part}" + ("" if way == "none" else f"_rounding{way}")


def has(mark: Measure) -> str:
    """The statement's column that says whether a mean runs over a query."""
    return f"has_{mark.column}"
