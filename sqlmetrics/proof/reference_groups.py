"""Metrics of groups in plain Python: of subtopics, nuggets, intents, evidence sets.

A part of the reference. `groups` are the items of a query's labels with their grades, by group;
`items` is a list, best first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

Ids = Sequence[str]
Groups = Mapping[str, Mapping[str, float | None]]
Value = float | None


def relevant_in(groups: Groups, rel: float) -> dict[str, set[str]]:
    """The relevant items of every group that has one."""
    items_by_group = {
        group: {item for item, grade in graded.items() if grade is not None and grade >= rel}
        for group, graded in groups.items()
    }
    return {group: items for group, items in items_by_group.items() if items}


def novel_gains(items: Ids, groups: Mapping[str, set[str]], alpha: float) -> list[float]:
    """What each item adds: 1 for a group that is new, 1 - alpha for one that came once, ..."""
    above = dict.fromkeys(groups, 0)
    gains = []
    for item in items:
        item_groups = [group for group, group_items in groups.items() if item in group_items]
        gains.append(math.fsum((1 - alpha) ** above[group] for group in item_groups))
        for group in item_groups:
            above[group] += 1
    return gains


def greedy(groups: Mapping[str, set[str]], alpha: float, k: int) -> list[str]:
    """The list whose every item adds the most to those above it; of equal ones the last id.

    Gains that differ less than 1e-9 are equal: sums differ in their last bits.
    """
    remaining = {item for items in groups.values() for item in items}
    chosen: list[str] = []
    while remaining and len(chosen) < k:
        adds = {item: novel_gains([*chosen, item], groups, alpha)[-1] for item in remaining}
        best = max(remaining, key=lambda item: (math.floor(adds[item] * 1e9 + 0.5), item.encode()))
        chosen.append(best)
        remaining.remove(best)
    return chosen


def num_groups(groups: Groups, *, rel: float) -> Value:
    """How many groups have a relevant item."""
    return float(len(relevant_in(groups, rel)))


def group_rbp(items: Ids, groups: Groups, *, alpha: float, beta: float, rel: float) -> Value:
    """What each item adds, times the chance that a reader gets there."""
    gains = novel_gains(items, relevant_in(groups, rel), alpha)
    return math.fsum(gain * beta**above for above, gain in enumerate(gains))


def nrbp(items: Ids, groups: Groups, *, alpha: float, beta: float, rel: float) -> Value:
    """The same, divided by what a list has whose every item is of every group."""
    relevant_groups = relevant_in(groups, rel)
    gained = group_rbp(items, groups, alpha=alpha, beta=beta, rel=rel) or 0.0
    return (1 - (1 - alpha) * beta) * gained / len(relevant_groups) if relevant_groups else None


def groups_found(items: Ids, groups: Groups, *, k: int | None, rel: float) -> Value:
    """How many groups the top k shows an item of."""
    return float(
        sum(1 for group_items in relevant_in(groups, rel).values() if group_items & set(items[:k]))
    )


def subtopic_recall(items: Ids, groups: Groups, *, k: int | None, rel: float) -> Value:
    """Groups that are shown / groups."""
    return _mean(groups_found(items, groups, k=k, rel=rel), groups, rel)


def num_group_hits(items: Ids, groups: Groups, *, k: int, rel: float) -> Value:
    """Relevant items of each group in the top k, added."""
    return float(
        sum(len(group_items & set(items[:k])) for group_items in relevant_in(groups, rel).values())
    )


def p_ia(items: Ids, groups: Groups, *, k: int, rel: float) -> Value:
    """The mean over groups of precision at k."""
    return _mean((num_group_hits(items, groups, k=k, rel=rel) or 0.0) / k, groups, rel)


def sum_group_precision(items: Ids, groups: Groups, *, k: int | None, rel: float) -> Value:
    """Average precision of each group, added."""
    total = []
    for group_items in relevant_in(groups, rel).values():
        ranks = [rank for rank, item in enumerate(items[:k], start=1) if item in group_items]
        total += [n_hits / rank / len(group_items) for n_hits, rank in enumerate(ranks, start=1)]
    return math.fsum(total)


def ap_ia(items: Ids, groups: Groups, *, k: int | None, rel: float) -> Value:
    """The mean over groups of average precision."""
    return _mean(sum_group_precision(items, groups, k=k, rel=rel), groups, rel)


def sum_group_rr(items: Ids, groups: Groups, *, k: int | None, rel: float) -> Value:
    """1 / rank of the first item of each group, added."""
    first = (
        next(
            (rank for rank, item in enumerate(items[:k], start=1) if item in group_items), math.inf
        )
        for group_items in relevant_in(groups, rel).values()
    )
    return math.fsum(1 / rank for rank in first)


def mrr_ia(items: Ids, groups: Groups, *, k: int | None, rel: float) -> Value:
    """The mean over groups of 1 / rank of the first."""
    return _mean(sum_group_rr(items, groups, k=k, rel=rel), groups, rel)


def group_f1(items: Ids, groups: Groups, *, k: int | None, rel: float) -> Value:
    """Harmonic mean of groups found / groups and relevant items / items, both of the top k."""
    relevant_groups, top = relevant_in(groups, rel), items[:k]
    if not relevant_groups:
        return None
    recall = (groups_found(items, groups, k=k, rel=rel) or 0.0) / len(relevant_groups)
    hits = sum(
        1 for item in top if any(item in group_items for group_items in relevant_groups.values())
    )
    return 2 * recall * hits / len(top) / (recall + hits / len(top)) if hits else 0.0


def complete_groups(items: Ids, groups: Groups, *, k: int, rel: float) -> Value:
    """How many groups are complete in the top k, where each takes one rank."""
    return float(sum(_closed_up(items, relevant_in(groups, rel))[:k]))


def evidence_recall(items: Ids, groups: Groups, *, k: int, rel: float) -> Value:
    """Groups that are complete / groups."""
    return _mean(complete_groups(items, groups, k=k, rel=rel), groups, rel)


def evidence_precision(items: Ids, groups: Groups, *, k: int, rel: float) -> Value:
    """Groups that are complete / k."""
    return (complete_groups(items, groups, k=k, rel=rel) or 0.0) / k


def evidence_hit(items: Ids, groups: Groups, *, k: int, rel: float) -> Value:
    """1 if some group is complete."""
    return float(any(_closed_up(items, relevant_in(groups, rel))[:k]))


def best_early_share(items: Ids, groups: Groups, *, rel: float) -> Value:
    """The largest R-precision of any group."""
    relevant_sets = relevant_in(groups, rel).values()
    return max(
        (
            len(group_items & set(items[: len(group_items)])) / len(group_items)
            for group_items in relevant_sets
        ),
        default=0.0,
    )


def evidence_rprec(items: Ids, groups: Groups, *, rel: float) -> Value:
    """The same, undefined without a group."""
    return best_early_share(items, groups, rel=rel) if relevant_in(groups, rel) else None


def _closed_up(items: Ids, groups: Mapping[str, set[str]]) -> list[bool]:
    """The list with one entry a group, at its last item: whether it is a group, and complete."""
    entries: list[str | None] = []
    seen_items: dict[str, set[str]] = {group: set() for group in groups}
    for item in items:
        item_groups = sorted(
            (group for group, group_items in groups.items() if item in group_items), key=str.encode
        )
        for group in item_groups:
            seen_items[group].add(item)
            entries = [entry for entry in entries if entry != group]
        entries += item_groups or [None]
    return [entry is not None and seen_items[entry] == groups[entry] for entry in entries]


def _mean(total: Value, groups: Groups, rel: float) -> Value:
    number = len(relevant_in(groups, rel))
    return (total or 0.0) / number if number else None


# Rank-biased overlap of lists with ties, in plain Python, from the paper's formulas.

Tied = Sequence[Sequence[str]]
"""The items of a list, best first, in groups of equal scores."""

Spans = dict[str, tuple[int, int]]
"""Item -> the first and the last rank that it shares, from 1 on."""


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
    seen_agreement = _weighted([lists.agreement(d) for d in depths], p)
    rest = math.log(1 / (1 - p)) - math.fsum(p**d / d for d in depths)
    return seen_agreement + (1 - p) / p * lists.overlaps[-1] * rest


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
    n_union = l + s - shared
    agreements += [(2 * d - n_union) / d for d in range(l + 1, n_union + 1)]
    return _weighted(agreements, p) + p**n_union


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
    def of(cls, ranking: Tied, other: Tied, meaning: str) -> TiedLists | None:
        """The two, None if one of them is empty."""
        short, long = sorted((_spans(ranking, meaning), _spans(other, meaning)), key=len)
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
        shared_items = {
            item: (max(first, self.long[item][0]), max(last, self.long[item][1]))
            for item, (first, last) in self.short.items()
            if item in self.long
        }
        return self._down(
            shared_items, lambda item, d: _part(self.short[item], d) * self.part(item, d)
        )

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
