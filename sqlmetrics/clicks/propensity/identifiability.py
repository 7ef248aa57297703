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
from sqlmetrics.tables.table import printable


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
        return tuple(link for link in self.links if link.clicks >= self.min_clicks)

    @property
    def weakest(self) -> float:
        """The clicks on which the worst tied position hangs; infinite if there is one alone."""
        return min(reach.link_clicks for reach in self.positions)

    def problems(self) -> Iterator[str]:
        """Why the propensities of this group cannot be told; nothing if they can."""
        group = self.positions[0].group
        prefix = f"of {printable(group)}: " if group is not None else ""
        if self.positions[0].position != 1:
            yield f"{prefix}no item was shown at position 1, which propensities are relative to"
            return
        first, *other_components = self.components
        if other_components:
            groups = " | ".join(map(spans, self.components))
            yield (
                f"{prefix}positions {groups} are not connected: no clicked item was shown in "
                "several of these groups for the same query"
            )
        tied = (reach for reach in self.positions if reach.position in first)
        weak = [reach for reach in tied if reach.link_clicks < self.min_clicks]
        if weak:
            examples = ", ".join(f"{reach.position} on {reach.link_clicks:,.0f}" for reach in weak)
            yield (
                f"{prefix}positions depend on too few clicks (min_clicks: {self.min_clicks}): "
                f"{examples}"
            )

    def known(self) -> int:
        """Down to which position the log can answer."""
        last = 0
        for reach in self.positions:
            if reach.link_clicks < self.min_clicks:
                break
            last = reach.position
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
    positions = {standing.position for standing in standings}
    used = tuple(
        link for link in links if {link.above, link.below} <= positions and link.clicks > 0
    )
    ties = strongest_chains(sorted(positions), used)
    reaches = tuple(
        Reach(
            standing.group,
            standing.position,
            standing.n_impressions,
            standing.n_clicks,
            ties[standing.position],
        )
        for standing in standings
    )
    return Identifiability(reaches, components(sorted(positions), used), used, min_clicks)


def strongest_chains(positions: Sequence[int], links: Iterable[Link]) -> dict[int, float]:
    """Position -> the clicks of the weakest link of its strongest chain to the first position.

    0 where there is no chain; infinite at the first position.
    """
    ties = dict.fromkeys(positions, 0.0) | {positions[0]: inf}
    near: dict[int, list[tuple[int, float]]] = {position: [] for position in positions}
    for link in links:
        near[link.above].append((link.below, link.clicks))
        near[link.below].append((link.above, link.clicks))
    unvisited = set(positions)
    while unvisited:
        best = max(unvisited, key=lambda position: (ties[position], -position))
        unvisited.remove(best)
        for neighbour, clicks in near[best]:
            if neighbour in unvisited:
                ties[neighbour] = max(ties[neighbour], min(ties[best], clicks))
    return ties


def components(positions: Sequence[int], links: Iterable[Link]) -> tuple[tuple[int, ...], ...]:
    """The positions, those together between which a chain of links stands; sorted."""
    home = {position: position for position in positions}
    for link in links:
        old, new = home[link.below], home[link.above]
        home = {
            position: new if component == old else component for position, component in home.items()
        }
    groups = (
        tuple(k for k in positions if home[k] == component)
        for component in dict.fromkeys(home.values())
    )
    return tuple(sorted(groups))


def spans(positions: Sequence[int]) -> str:
    """Positions in few words.

    >>> spans([1, 2, 3, 7, 9, 10])
    '1-3, 7, 9-10'
    """
    runs = groupby(enumerate(sorted(positions)), key=lambda numbered: numbered[1] - numbered[0])
    ends = ([position for _, position in run] for _, run in runs)
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in ends)


def refusal(identifiability_by_group: Mapping[str | None, Identifiability], method: str) -> str:
    """Why a log cannot tell its propensities, and what to do; empty if it can."""
    problems = [
        problem
        for identified in identifiability_by_group.values()
        for problem in identified.problems()
    ]
    if not problems:
        return ""
    last_position = min(identified.known() for identified in identifiability_by_group.values())
    less = [f"propensity.positions: {last_position}"] if last_position > 1 else []
    ways = [
        *less,
        "more days in the window",
        "traffic in random order (method: randomised)",
        "propensities that you know (method: given)",
    ]
    return (
        f"{method} cannot tell how often users look at each position: {'; '.join(problems)}; use "
        + (", ".join(ways[:-1]) + " or " + ways[-1])
    )
