"""Which physical plan carries out an evaluation: by what metrics need and the data offers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.needs import Needs
from sqlmetrics.ranked import LISTS, PLANS, WINDOW, Listed, Windowed
from sqlmetrics.shape import Shape

USUAL = 128
"""How many items a list is taken to have where it was not measured."""

SHORTEST = 16
"""Lists are taken to be so long at least."""

LONGEST = 1024
"""Sorted lists beyond this many items cost more than a window."""

MANY_TIES = 0.5
"""The share of lists with equal scores from which on a window is cheaper."""


@dataclass(frozen=True)
class Offer:
    """What was measured of the rankings, on their first rows.

    Attributes:
        longest: The most items of a list.
        usual: The mean.
        tied: The share of lists with equal scores.
    """

    longest: int = USUAL
    usual: float = USUAL
    tied: float = 0.0

    def __str__(self) -> str:
        return f"lists of up to {self.longest:,} items, {self.tied:.0%} of them with equal scores"


@dataclass(frozen=True)
class Physical:
    """A physical plan.

    Attributes:
        name: One of `PLANS`.
        why: Why this one.
        longest: For `lists`: the last rank that is told.
        n_sorted: For `lists`: how many sorted lists there are beside that of all scores.
    """

    name: str
    why: str
    longest: int = 0
    n_sorted: int = 0

    def ranking(self, shape: Shape, needs: Needs, rankings: str, labels: str) -> Windowed:
        """What makes the stage `ranked`."""
        if self.name == LISTS:
            return Listed(shape, needs, rankings, labels, self.longest)
        return Windowed(shape, needs, rankings, labels)

    def __str__(self) -> str:
        return f"{self.name} ({PLANS[self.name]}), since {self.why}"


PORTABLE = Physical(WINDOW, "it is the same on every database")


def chosen(
    shape: Shape, needs: Needs, offer: Offer | None = None, name: str | None = None
) -> Physical:
    """The plan that fits.

    Args:
        shape: What the tables hold.
        needs: What the metrics need.
        offer: What was measured, to choose by.
        name: The plan that was asked for; None for the fastest, where something was measured.

    Raises:
        SpecError: If there is no such plan, or it would give wrong numbers.
    """
    if name is not None and name not in PLANS:
        raise SpecError(unknown("plan", name, PLANS))
    if name == WINDOW or (name is None and offer is None):
        return PORTABLE
    offer = offer or Offer()
    obstacles = list(_obstacles(shape, needs))
    if name and obstacles:
        raise SpecError(f"the plan {name} cannot be taken: {obstacles[0]}")
    if not name:
        obstacles += _costs(needs, offer)
    if obstacles:
        return Physical(WINDOW, obstacles[0])
    why, last = f"there are {offer}", _last_rank(needs, offer)
    return Physical(LISTS, why, last, len(needs.rows.running_hits))


def _obstacles(shape: Shape, needs: Needs) -> Iterator[str]:
    """Why lists of scores would not be enough."""
    options = shape.spec.options
    if shape.at.translation.changes:
        yield f"{shape.at.translation.dialect.title} has no such lists"
    if needs.every_item:
        yield f"{needs.every_item} counts items without a label too"
    if needs.pooled:
        yield f"{needs.pooled[0]} is a number of all lists together"
    if needs.reads_item or needs.reads_score:
        yield "metrics look at items beside their labels"
    if needs.rows.has_ties:
        yield "ties=average looks at every tie"
    if needs.rows.best_above:
        yield "a metric looks for the best label above an item"
    if options["depth"] != "none" or options["unjudged"] == "condensed":
        yield "depth and unjudged=condensed leave out rows"


def _costs(needs: Needs, offer: Offer) -> Iterator[str]:
    """Why lists of scores would cost more."""
    if _last_rank(needs, offer) > LONGEST:
        yield f"there are {offer}"
    if offer.tied > MANY_TIES:
        yield f"there are {offer}"


def _last_rank(needs: Needs, offer: Offer) -> int:
    """The deepest cutoff, or that of the longest list, with some room."""
    whole = max(SHORTEST, 1 << (offer.longest - 1).bit_length())
    return min(whole, needs.sums["retrieved"].deepest or whole)
