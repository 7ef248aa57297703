"""The mean of a metric over all orders of items with equal scores, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from sqlmetrics.proof.reference import Grades, Question, Value, hit_ranks, sum_precision

FIRST_ALONE = ("hit", "mrr", "first_reciprocal_rank", "first_rank")
"""Metrics that only the first relevant item of a list decides."""

PRECISIONS = ("sum_precision", "ap")
"""Metrics that add up precisions."""


def expected(
    question: Question,
    metric: Callable[[Grades], Value],
    groups: Sequence[Sequence[Value]],
    depth: int | None,
) -> Value:
    """A metric's mean over all orders of the items of each group.

    Args:
        question: What is asked.
        metric: Its value for a list in rank order.
        groups: The grades of items with equal scores, best group first.
        depth: How many items count.
    """
    rel = question.arguments.get("rel", 1)
    if question.name in FIRST_ALONE and question.arguments.get("rr_of", "first") == "first":
        return _expected_of_first(metric, groups, rel)
    if question.name in PRECISIONS:
        return _expected_precisions(question, metric, groups, depth)
    return _expected_sum(metric, groups)


def _expected_sum(metric: Callable[[Grades], Value], groups: Sequence[Sequence[Value]]) -> Value:
    """Of a sum over ranks: in the turns of a group every item is once at every rank of it."""
    base = metric([grade for group in groups for grade in group])
    if base is None:
        return None
    changes = []
    for number, group in enumerate(groups):
        before = [grade for other_group in groups[:number] for grade in other_group]
        after = [grade for other_group in groups[number + 1 :] for grade in other_group]
        for turn in range(1, len(group)):
            value = metric([*before, *group[turn:], *group[:turn], *after])
            changes.append(((value or 0.0) - base) / len(group))
    return base + math.fsum(changes)


def _expected_of_first(
    metric: Callable[[Grades], Value], groups: Sequence[Sequence[Value]], rel: float
) -> Value:
    """Of what the first relevant item decides: it is in the first group that has one."""
    above = 0
    for group in groups:
        n, m = len(group), len(hit_ranks(group, None, rel))
        if m:
            # the first of m among n items is the one at place: the others lie behind it
            values = (
                (
                    math.comb(n - position, m - 1) / math.comb(n, m),
                    _only(metric, above + position, rel),
                )
                for position in range(1, n - m + 2)
            )
            chances = [(chance, value) for chance, value in values if value is not None]
            return math.fsum(c * v for c, v in chances) if chances else None
        above += n
    return metric([])


def _only(metric: Callable[[Grades], Value], rank: int, rel: float) -> Value:
    """The value of a list with one relevant item."""
    return metric([None] * (rank - 1) + [rel])


def _expected_precisions(
    question: Question,
    metric: Callable[[Grades], Value],
    groups: Sequence[Sequence[Value]],
    depth: int | None,
) -> Value:
    """Of a sum of precisions: a rank is relevant by chance, and so are those above it."""
    k, rel = question.arguments["k"], question.arguments["rel"]
    shares, above, sure = [], 0, 0
    for group in groups:
        n, m = len(group), len(hit_ranks(group, None, rel))
        for position in range(1, n + 1):
            other_share = (m - 1) / (n - 1) if n > 1 else 0.0
            shares.append(m / n * (sure + 1 + (position - 1) * other_share) / (above + position))
        above, sure = above + n, sure + m
    ends = [end for end in (k, depth, len(shares)) if end is not None]
    total = math.fsum(shares[: min(ends)])
    if question.name == "sum_precision":
        return total
    listed = [grade for group in groups for grade in group]
    value = metric(listed)
    plain = sum_precision(listed[:depth], (), k=k, rel=rel)
    if value is None or not plain:  # nothing relevant there in this order
        in_front = sorted(listed, key=lambda grade: grade or 0.0, reverse=True)
        value, plain = metric(in_front), sum_precision(in_front[:depth], (), k=k, rel=rel)
    return value if value is None or not plain else value * (total / plain)
