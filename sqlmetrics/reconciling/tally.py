"""The rows of the statement -> the value of a combination of options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlmetrics.conventions import OPTIONS
from sqlmetrics.measure import Measure
from sqlmetrics.reconciling.space import Point, Space
from sqlmetrics.reconciling.statement import Place, Statement, hit_of, place_of

Row = Mapping[str, Any]
Kind = tuple[Row, bool]
"""A row of the statement, and whether a mean runs over its queries."""


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
        place, _ = place_of(self.space, point)
        world = self.statement.worlds.get(place)
        return world is not None and self.space.formula(point) in world.formulas

    def mean(self, point: Point) -> float | None:
        """The summary of the metric; None if it runs over no query."""
        number = self._numbers[self.space.formula(point)]
        micro = self._says(point, "average") == "micro"
        filled = {"zero": 0.0, "one": 1.0}.get(str(self._says(point, "no_relevant")))
        top = bottom = 0.0
        for row, counts in self._kinds(point):
            if not counts:
                continue
            weight = row[f"weight_{number}"]
            top += row[f"top_{number}"] if micro else row[f"total_{number}"]
            bottom += row[f"bottom_{number}"] if micro else weight
            if filled is not None and not micro:
                top += filled * (row["weight"] - weight)
                bottom += row["weight"] - weight
        if self.space.measure.metric.count:
            return top
        return top / bottom if bottom else None

    def fits(self, point: Point, *, cut: bool = False) -> tuple[int, int]:
        """How many of the given values a point explains, and how many it has beside them."""
        number = self._numbers[self.space.formula(point)]
        undefined = {"zero": "zeros", "one": "ones"}.get(
            str(self._says(point, "no_relevant")), "unknown"
        )
        explained = beyond = 0
        for row, counts in self._kinds(point):
            if not row["is_given"]:
                beyond += row["queries"] if counts else 0
            elif counts:
                explained += row[f"{'cut' if cut else 'rounded'}_{number}"]
                explained += row[f"{undefined}_{number}"]
            else:
                explained += row["blank"]
        return int(explained), int(beyond)

    def _kinds(self, point: Point) -> Iterator[Kind]:
        """The rows of a point's world and order, each with whether its queries count."""
        place, rule = place_of(self.space, point)
        over = OPTIONS["average_over"].choice(self._says(point, "average_over"))
        flags = [*over.only, *(["is_ranked"] if self._says(point, "missing") == "drop" else [])]
        if over.name == "hits":
            at = self.statement.thresholds.index(hit_of(self.space, point))
            flags.append(f"is_hit_{at}")
        for row in self._by_rule[place, " ".join(rule)]:
            yield row, all(row[flag] for flag in flags)

    def _says(self, point: Point, name: str) -> object:
        return self.space.value(point, name) if name in self.space.tried else "none"

    @cached_property
    def _numbers(self) -> dict[Measure, int]:
        return {one: number for number, one in enumerate(self.statement.formulas)}

    @cached_property
    def _by_rule(self) -> dict[tuple[Place, str], list[Row]]:
        found: dict[tuple[Place, str], list[Row]] = {}
        for row in self.rows:
            place = (row["unjudged"], bool(row["all_orders"]))
            found.setdefault((place, row["rule"]), []).append(row)
        return found
