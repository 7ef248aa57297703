"""Metrics of groups in plain Python: of subtopics, nuggets, intents, evidence sets.

A part of the reference. `groups` are the items of a query's labels with their grades, by group;
`items` is a list, best first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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
