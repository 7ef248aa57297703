"""Can the log answer: do its items move between positions, and are enough of them clicked?

Two positions are linked by the pairs of a query and an item that stood at both and were clicked.
A link holds as many clicks as those pairs have at that of the two which has fewer. A chain of
links holds what its weakest one does; a position hangs on the strongest chain to position 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import Any

from sqlmetrics.clicks.propensity.moves import Link, Standing
from sqlmetrics.evaluation.report.table import printable


@dataclass(frozen=True)
class Reach(Standing):
    """How well a position is tied to position 1.

    Attributes:
        link_clicks: The clicks of the weakest link of its strongest chain to position 1; 0 if
            there is none, infinite at position 1 itself.
    """

    link_clicks: float

    def to_dict(self) -> dict[str, Any]:
        """It, for JSON: without the end of what has none."""
        return vars(self) | {"link_clicks": None if self.link_clicks == inf else self.link_clicks}


@dataclass(frozen=True)
class Identifiability:
    """What a log can tell of a group of positions.

    Attributes:
        positions: Each position with its tie to position 1.
        components: The positions, those together between which a chain of links stands.
        links: All links.
        min_clicks: As many clicks a link needs.
    """

    positions: tuple[Reach, ...]
    components: tuple[tuple[int, ...], ...]
    links: tuple[Link, ...]
    min_clicks: int

    @property
    def strong(self) -> tuple[Link, ...]:
        """The links that hold enough clicks."""
        return tuple(one for one in self.links if one.clicks >= self.min_clicks)

    @property
    def weakest(self) -> float:
        """The clicks on which the worst tied position hangs; infinite if there is one alone."""
        return min(one.link_clicks for one in self.positions)

    def problems(self) -> Iterator[str]:
        """Why the propensities of this group cannot be told; nothing if they can."""
        group = self.positions[0].group
        of = f"of {printable(group)}: " if group is not None else ""
        if self.positions[0].position != 1:
            yield f"{of}nothing stood at position 1, to which propensities are relative"
            return
        first, *others = self.components
        if others:
            there = " | ".join(map(spans, self.components))
            yield (
                f"{of}positions {there} are not connected: no item that was clicked stood in "
                "several of these groups for the same query"
            )
        tied = (one for one in self.positions if one.position in first)
        weak = [one for one in tied if one.link_clicks < self.min_clicks]
        if weak:
            told = ", ".join(f"{one.position} on {one.link_clicks:,.0f}" for one in weak)
            yield f"{of}positions hang on too few clicks (min_clicks: {self.min_clicks}): {told}"

    def known(self) -> int:
        """Down to which position the log can answer."""
        last = 0
        for one in self.positions:
            if one.link_clicks < self.min_clicks:
                break
            last = one.position
        return last


def identifiability(
    standings: Sequence[Standing], links: Iterable[Link], min_clicks: int
) -> Identifiability:
    """What a log can tell of a group of positions.

    Args:
        standings: The positions that are to be told, sorted, with what stood there.
        links: Between them.
        min_clicks: As many clicks a link needs.
    """
    there = {one.position for one in standings}
    used = tuple(one for one in links if {one.above, one.below} <= there and one.clicks > 0)
    ties = strongest_chains(sorted(there), used)
    reaches = tuple(
        Reach(one.group, one.position, one.n_impressions, one.n_clicks, ties[one.position])
        for one in standings
    )
    return Identifiability(reaches, components(sorted(there), used), used, min_clicks)


def strongest_chains(positions: Sequence[int], links: Iterable[Link]) -> dict[int, float]:
    """Position -> the clicks of the weakest link of its strongest chain to the first position.

    0 where there is no chain; infinite at the first position.
    """
    ties = dict.fromkeys(positions, 0.0) | {positions[0]: inf}
    near: dict[int, list[tuple[int, float]]] = {one: [] for one in positions}
    for link in links:
        near[link.above].append((link.below, link.clicks))
        near[link.below].append((link.above, link.clicks))
    left = set(positions)
    while left:
        best = max(left, key=lambda one: (ties[one], -one))
        left.remove(best)
        for other, clicks in near[best]:
            if other in left:
                ties[other] = max(ties[other], min(ties[best], clicks))
    return ties


def components(positions: Sequence[int], links: Iterable[Link]) -> tuple[tuple[int, ...], ...]:
    """The positions, those together between which a chain of links stands; sorted."""
    home = {one: one for one in positions}
    for link in links:
        old, new = home[link.below], home[link.above]
        home = {one: new if own == old else own for one, own in home.items()}
    groups = (tuple(k for k in positions if home[k] == own) for own in dict.fromkeys(home.values()))
    return tuple(sorted(groups))


def spans(positions: Sequence[int]) -> str:
    """Positions in few words.

    >>> spans([1, 2, 3, 7, 9, 10])
    '1-3, 7, 9-10'
    """
    runs = groupby(enumerate(sorted(positions)), key=lambda one: one[1] - one[0])
    ends = ([position for _, position in run] for _, run in runs)
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in ends)


def refusal(found: Mapping[str | None, Identifiability], method: str) -> str:
    """Why a log cannot tell its propensities, and what to do; empty if it can."""
    problems = [problem for one in found.values() for problem in one.problems()]
    if not problems:
        return ""
    known = min(one.known() for one in found.values())
    less = [f"propensity.positions: {known}"] if known > 1 else []
    ways = [
        *less,
        "more days in the window",
        "traffic in random order (method: randomised)",
        "propensities that you know (method: given)",
    ]
    return (
        f"{method} cannot tell how often positions are looked at: {'; '.join(problems)}; use "
        + (", ".join(ways[:-1]) + " or " + ways[-1])
    )
