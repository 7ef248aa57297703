"""The rows of the statement -> the value of a combination of options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.proof.reconcile.orders import name_of
from sqlmetrics.proof.reconcile.space import Point, Space
from sqlmetrics.proof.reconcile.statement import Statement
from sqlmetrics.proof.reconcile.worlds import (
    MICRO,
    Place,
    has,
    known_of,
    marks_of,
    name_column,
    place_of,
    summed,
)
from sqlmetrics.stats import TIED
from sqlmetrics.tables.tabular import Row

FILLED: Mapping[object, float] = {"zero": 0.0, "one": 1.0}
"""What a query counts for which the metric is undefined, by `no_relevant`."""


@dataclass(frozen=True)
class Tally:
    """What the statement found, for the points that it was made for.

    Attributes:
        space: The options.
        statement: What ran.
        rows: What it gave.
    """

    space: Space
    statement: Statement
    rows: Sequence[Row]

    def holds(self, point: Point) -> bool:
        """Whether the point's formula fits its other options, so that it was computed."""
        world_key, _ = place_of(self.space, point)
        world = self.statement.worlds.get(world_key)
        if world is None or self.space.formula(point) not in world.formulas:
            return False
        counts = (*marks_of(self.space, point), known_of(self.space, point))
        return all(mark in world.marks for mark in counts if mark)

    def mean(self, point: Point, order: str = "") -> float | None:
        """The summary of the metric; None if it runs over no query, or is no number.

        Args:
            point: The combination of options.
            order: The order of the lists instead of the point's rule for equal scores.
        """
        formula, way = self.space.formula(point), summed(self.space, point)
        weight = name_column(formula, "weight")
        parts = name_column(formula, "total", way), weight
        if way == MICRO:
            parts = name_column(formula, "numerator"), name_column(formula, "denominator")
        filling = self._filled(point)
        top = bottom = unfilled = 0.0
        for row in self._counted(point, order):
            top += row[parts[0]] or 0
            bottom += row[parts[1]] or 0
            undefined, filled = row["weight"] - row[weight], filling(row)
            if filled is None or way == MICRO:
                unfilled += undefined
            else:
                top += filled * undefined
                bottom += undefined
        if self.space.measure.metric.count:
            return top
        policy = self.space.value(point, "no_relevant")
        is_number = policy != "nan" or way == MICRO or unfilled <= TIED
        return top / bottom if bottom and is_number else None

    def fits(self, point: Point, *, cut: bool = False) -> tuple[int, int]:
        """How many of the given values a point explains, and how many it has beside them."""
        formula, way = self.space.formula(point), summed(self.space, point)
        fitting = name_column(formula, "cut" if cut else "rounded", way)
        filling = self._filled(point)
        explained = beyond = 0
        for row, counts in self._rows(point):
            if not row["is_given"]:
                beyond += row["queries"] if counts else 0
            elif counts:
                filled = filling(row)
                name = "unknown" if filled is None else "ones" if filled else "zeros"
                explained += row[fitting] + row[name_column(formula, name)]
            else:
                explained += row["blank"]
        return int(explained), int(beyond)

    def _filled(self, point: Point) -> Callable[[Row], float | None]:
        """What the queries of a row count for which the metric is undefined, None if nothing."""
        known_mark = known_of(self.space, point)
        if known_mark is None:
            filled = FILLED.get(self.space.value(point, "no_relevant"))
            return lambda _: filled
        name = has(known_mark)
        return lambda row: float(not row["is_ranked"] and not row[name])

    def _counted(self, point: Point, order: str) -> Iterator[Row]:
        return (row for row, counts in self._rows(point, order) if counts)

    def _rows(self, point: Point, order: str = "") -> Iterator[tuple[Row, bool]]:
        """The rows of a point's world and order, each with whether its queries count."""
        world_key, (ties, precision) = place_of(self.space, point)
        rule = (order or ties, precision)
        flags = [*OPTIONS["average_over"].choice(self.space.value(point, "average_over")).only]
        if self.space.value(point, "missing") == "drop":
            flags.append("is_ranked")
        flags += [has(mark) for mark in marks_of(self.space, point)]
        for row in self._by_rule[world_key, name_of(rule)]:
            yield row, all(row[flag] for flag in flags)

    @cached_property
    def _by_rule(self) -> dict[tuple[Place, str], list[Row]]:
        rows_by_rule: dict[tuple[Place, str], list[Row]] = {}
        for row in self.rows:
            world_key = (row["unjudged"], bool(row["all_orders"]))
            rows_by_rule.setdefault((world_key, row["rule"]), []).append(row)
        return rows_by_rule
