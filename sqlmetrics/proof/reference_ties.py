"""Rank-biased overlap of lists with ties, in plain Python, from the paper's formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

Tied = Sequence[Sequence[str]]
"""The items of a list, best first, in groups of equal scores."""

Spans = dict[str, tuple[int, int]]
"""Item -> the first and the last rank that it shares, from 1 on."""

Value = float | None


def tied_rbo(own_ties: Tied, other_ties: Tied, *, p: float, rbo_ties: str, rbo_bound: str) -> Value:
    """Rank-biased overlap of lists with ties: extrapolated, the least, the most, or their gap."""
    if rbo_bound == "extrapolated":
        return rbo_extrapolated(own_ties, other_ties, p=p, rbo_ties=rbo_ties)
    least = rbo_least(own_ties, other_ties, p=p, rbo_ties=rbo_ties)
    most = rbo_most(own_ties, other_ties, p=p, rbo_ties=rbo_ties)
    return {"min": least, "max": most, "residual": most - least}[rbo_bound]


def rbo_extrapolated(own_ties: Tied, other_ties: Tied, *, p: float, rbo_ties: str) -> float:
    """What is not seen of the shorter list agrees as much as what is seen of it."""
    lists = TiedLists.of(own_ties, other_ties, rbo_ties)
    if lists is None:
        return 0.0
    s, l = lists.n_short, lists.n_long  # noqa: E741  # the paper's names
    at_end = lists.agreement(s)
    agreements = [
        lists.agreement(d, max(0, d - s) * at_end * lists.unseen[d]) for d in range(1, l + 1)
    ]
    return _weighted(agreements, p) + (lists.overlaps[l] + (l - s) * at_end) / l * p**l


def rbo_least(own_ties: Tied, other_ties: Tied, *, p: float, rbo_ties: str) -> float:
    """Nothing that is not seen is in both lists."""
    lists = TiedLists.of(own_ties, other_ties, rbo_ties)
    if lists is None:
        return 0.0
    depths = range(1, lists.n_long + 1)
    seen = _weighted([lists.agreement(d) for d in depths], p)
    rest = math.log(1 / (1 - p)) - math.fsum(p**d / d for d in depths)
    return seen + (1 - p) / p * lists.overlaps[-1] * rest


def rbo_most(own_ties: Tied, other_ties: Tied, *, p: float, rbo_ties: str) -> float:
    """What is not seen of the shorter list is what the longer one has alone, in its order."""
    lists = TiedLists.of(own_ties, other_ties, rbo_ties)
    if lists is None:
        return 0.0
    s, l = lists.n_short, lists.n_long  # noqa: E741
    agreements = []
    for d in range(1, l + 1):
        unseen = math.fsum(lists.part(item, d) for item in lists.alone[: max(0, d - s)])
        agreements.append(lists.agreement(d, unseen))
    shared = round(lists.overlaps[l])
    whole = l + s - shared
    agreements += [(2 * d - whole) / d for d in range(l + 1, whole + 1)]
    return _weighted(agreements, p) + p**whole


def _weighted(agreements: Sequence[float], p: float) -> float:
    return (1 - p) * math.fsum(a * p ** (d - 1) for d, a in enumerate(agreements, start=1))


@dataclass(frozen=True)
class TiedLists:
    """Two rankings whose items may share ranks, as Corsi and Urbano 2024 look at them.

    Attributes:
        short: Item -> the first and the last rank that it shares in the shorter list; with the
            meaning w the first alone, where all of it is.
        long: The same of the longer list.
        meaning: w, a or b.
    """

    short: Spans
    long: Spans
    meaning: str

    @classmethod
    def of(cls, own: Tied, other: Tied, meaning: str) -> TiedLists | None:
        """The two, None if one of them is empty."""
        short, long = sorted((_spans(own, meaning), _spans(other, meaning)), key=len)
        return cls(short, long, meaning) if short else None

    @property
    def n_short(self) -> int:
        """Length of the shorter list."""
        return len(self.short)

    @property
    def n_long(self) -> int:
        """Length of the longer one."""
        return len(self.long)

    @cached_property
    def alone(self) -> list[str]:
        """The items that the longer list has alone, in its order."""
        return [item for item in self.long if item not in self.short]

    @cached_property
    def overlaps(self) -> list[float]:
        """How much both lists have in common down to each depth."""
        both = {
            item: (max(first, self.long[item][0]), max(last, self.long[item][1]))
            for item, (first, last) in self.short.items()
            if item in self.long
        }
        return self._down(both, lambda item, d: _part(self.short[item], d) * self.part(item, d))

    @cached_property
    def sizes(self) -> list[float]:
        """What the overlap is divided by, at each depth."""
        depths = range(self.n_long + 1)
        if self.meaning == "a":
            return [*depths]
        power = 1 if self.meaning == "w" else 2
        short, long = (self._of_list(spans, power) for spans in (self.short, self.long))
        if self.meaning == "w":
            return [(short[d] + long[d]) / 2 for d in depths]
        return [math.sqrt(short[d] * long[d]) for d in depths]

    @cached_property
    def unseen(self) -> list[float]:
        """How much of an item that the longer list has alone there is on average, by depth."""
        spans = {item: self.long[item] for item in self.alone}
        counts = self._down({item: (first, first) for item, (first, _) in spans.items()}, self.part)
        totals = self._down(spans, self.part)
        return [total / n if n else 0.0 for total, n in zip(totals, counts, strict=True)]

    def part(self, item: str, depth: int) -> float:
        """How much of an item the longer list has down to a depth."""
        return _part(self.long[item], depth)

    def agreement(self, depth: int, unseen: float = 0.0) -> float:
        """The share in common down to a depth, with so much of unseen items."""
        return (self.overlaps[depth] + unseen) / self.sizes[depth]

    def _of_list(self, spans: Spans, power: int) -> list[float]:
        """The parts of a list's items, or their squares, added down to each depth.

        Behind its end it is as if one item came at each rank.
        """
        totals = self._down(spans, lambda item, d: _part(spans[item], d) ** power)
        return [total + max(0, d - len(spans)) for d, total in enumerate(totals)]

    def _down(self, spans: Spans, part: Callable[[str, int], float]) -> list[float]:
        """Parts of items added down to each depth; behind its last rank an item is wholly there."""
        parts: list[list[float]] = [[] for _ in range(self.n_long + 1)]
        wholes = [0] * (self.n_long + 1)
        for item, (first, last) in spans.items():
            wholes[last] += 1
            for depth in range(first, last):
                parts[depth].append(part(item, depth))
        return [math.fsum(p) + n for p, n in zip(parts, accumulate(wholes), strict=True)]


def _spans(groups: Tied, meaning: str) -> Spans:
    spans: Spans = {}
    for group in groups:
        first = len(spans) + 1
        last = first if meaning == "w" else first + len(group) - 1
        spans |= dict.fromkeys(group, (first, last))
    return spans


def _part(span: tuple[int, int], depth: int) -> float:
    first, last = span
    return max(0, min(depth, last) - first + 1) / (last - first + 1)
