"""The same metrics in plain Python, written from the formulas.

This module is the proof of the SQL, and `tie_orders`, `reference_world` and
`reference_evaluation` with it, so they share nothing with it: no code, no text, no tables of
options. It is written to be read beside the papers, not to be fast.

A ranking is given to a metric as `grades`: the grades of its items in rank order, None
for an item without a label. `labels` are the grades of all labels of the query. A metric
that is undefined for a query returns None.

Other metrics are given the `items` themselves, best first, with the `other` list of the
same query, the baseline's, with the `groups` of the labels (`reference_groups`), or with the
`catalogue`: what is known of every item; or they are told of each item of the list if it is
`in_pool`: if it has a label, also one that counts as none; or they are given the labels
`graded`, by item. Metrics of pairs are given `rows`: score and grade of every item that has
both. Metrics of all lists together are given their `lists`, or the rows of all.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, combinations
from typing import Any

from sqlmetrics.proof.reference_columns import (
    Catalogue,
    Item,
    best_worth_dcg,
    dcg_of,
    discount_of,
    exposure_of,
    found_worth,
    label_worth,
    max_of,
    mean_of,
    median_of,
    min_of,
    ndcg_of,
    recall_of,
    share_of,
    sum_of,
)
from sqlmetrics.proof.reference_groups import (
    Groups,
    ap_ia,
    best_early_share,
    complete_groups,
    evidence_hit,
    evidence_precision,
    evidence_recall,
    evidence_rprec,
    greedy,
    group_f1,
    group_rbp,
    groups_found,
    mrr_ia,
    novel_gains,
    nrbp,
    num_group_hits,
    num_groups,
    p_ia,
    rbo_extrapolated,
    rbo_least,
    rbo_most,
    relevant_in,
    subtopic_recall,
    sum_group_precision,
    sum_group_rr,
    tied_rbo,
)

OF_TIED_LISTS = (rbo_extrapolated, rbo_least, rbo_most, tied_rbo)
"""Rank-biased overlap of lists with equal scores."""

OF_COLUMNS = (
    *(exposure_of, mean_of, median_of, sum_of, min_of, max_of, share_of),
    *(found_worth, label_worth, recall_of, dcg_of, best_worth_dcg, ndcg_of),
)
"""Metrics of columns of the items or the labels."""

OF_GROUPS = (
    ap_ia,
    best_early_share,
    complete_groups,
    evidence_hit,
    evidence_precision,
    evidence_recall,
    evidence_rprec,
    group_f1,
    group_rbp,
    groups_found,
    mrr_ia,
    nrbp,
    num_group_hits,
    num_groups,
    p_ia,
    subtopic_recall,
    sum_group_precision,
    sum_group_rr,
)
"""Metrics of groups that weigh no ranks."""

Grades = Sequence[float | None]
Ids = Sequence[str]
Flags = Sequence[bool]
Graded = Mapping[str, float | None]
Score = float | Decimal
"""A score: Python compares whole numbers, decimals and floats exactly."""

Scored = Sequence[tuple[Score, float]]
ShownLists = Sequence[Ids]
Gain = str | Mapping[float, float]
Value = float | None
Rounding = str | int


def gain(grade: float | None, rule: Gain, rel: float) -> float:
    """What a grade is worth; an item without a label has grade 0."""
    grade = 0.0 if grade is None else grade
    if isinstance(rule, Mapping):
        return rule.get(grade, 0.0)
    if rule == "exp":
        return math.pow(2.0, grade) - 1.0
    if rule == "linear":
        return grade
    return 1.0 if grade >= rel else 0.0


def cg(grades: Grades, labels: Grades, *, k: int | None) -> Value:
    """Sum of the grades in the top k."""
    return math.fsum(grade or 0.0 for grade in grades[:k])


def dcg(
    grades: Grades,
    labels: Grades,
    *,
    k: int | None,
    gain: Gain,
    discount: str,
    rel: float,
    p: float = 0.8,
    rounding: Rounding = "none",
) -> Value:
    """Sum of gain x discount in the top k."""
    return _discounted([_gain(grade, gain, rel) for grade in grades[:k]], discount, p, rounding)


def idcg(
    grades: Grades,
    labels: Grades,
    *,
    k: int | None,
    gain: Gain,
    discount: str,
    ideal: str,
    rel: float,
    p: float = 0.8,
    rounding: Rounding = "none",
) -> Value:
    """DCG of the best list that there could be, by what counts as that."""
    gains = sorted((_gain(grade, gain, rel) for grade in labels), reverse=True)
    best: list[float] = {
        "labels_at_k": lambda: gains[:k],
        "labels": lambda: gains,
        "shown_at_k": lambda: sorted((_gain(g, gain, rel) for g in grades), reverse=True)[:k],
        "all_k": lambda: [1.0] * (k or 0),
        "all_returned": lambda: [1.0] * len(grades[:k]),
        "min_k_r": lambda: [1.0] * n_relevant(labels, rel),
        "hits": lambda: [1.0] * len(hit_ranks(grades, k, rel)),
        "returned": lambda: gains[: len(grades[:k])],
    }[ideal]()
    return _discounted(best if ideal == "labels" else best[:k], discount, p, rounding)


def ndcg(
    grades: Grades,
    labels: Grades,
    *,
    k: int | None,
    gain: Gain,
    discount: str,
    ideal: str,
    rel: float,
    p: float = 0.8,
    rounding: Rounding = "none",
) -> Value:
    """DCG / IDCG, undefined if IDCG is 0."""
    settings: dict[str, Any] = {"k": k, "gain": gain, "discount": discount, "rel": rel, "p": p}
    best = idcg(grades, labels, ideal=ideal, rounding=rounding, **settings)
    return _ratio(dcg(grades, labels, rounding=rounding, **settings), best)


def best_dcg(grades: Grades, labels: Grades, **settings: Any) -> Value:
    """DCG of the labels, best first."""
    return idcg(grades, labels, ideal="labels_at_k", **settings)


def best_dcg_shown(grades: Grades, labels: Grades, **settings: Any) -> Value:
    """DCG of the items of the list, best first."""
    return idcg(grades, labels, ideal="shown_at_k", **settings)


def best_dcg_returned(grades: Grades, labels: Grades, **settings: Any) -> Value:
    """DCG of as many labels as items were returned, best first."""
    return idcg(grades, labels, ideal="returned", **settings)


def hits_first_dcg(grades: Grades, labels: Grades, **settings: Any) -> Value:
    """DCG of the hits, put first."""
    return idcg(grades, labels, ideal="hits", **settings | {"gain": "binary"})


def every_rank_dcg(grades: Grades, labels: Grades, **settings: Any) -> Value:
    """DCG of k relevant items."""
    return idcg(grades, labels, ideal="all_k", **settings | {"gain": "binary"})


def every_returned_dcg(grades: Grades, labels: Grades, **settings: Any) -> Value:
    """DCG of relevant items alone, as many as were returned."""
    return idcg(grades, labels, ideal="all_returned", **settings | {"gain": "binary"})


def num_q(grades: Grades, labels: Grades) -> Value:
    """1 for every query."""
    return 1.0


def num_ret(grades: Grades, labels: Grades, *, k: int | None) -> Value:
    """Length of the list, or of its top k."""
    return float(len(grades[:k]))


def num_rel(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """R, the number of relevant labels."""
    return float(sum(1 for grade in labels if grade is not None and grade >= rel))


def num_rel_ret(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Relevant items in the top k."""
    return float(len(hit_ranks(grades, k, rel)))


def num_rel_ret_r(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """Relevant items in the top R."""
    return float(len(hit_ranks(grades, n_relevant(labels, rel), rel)))


def num_judged(grades: Grades, labels: Grades, *, k: int | None) -> Value:
    """Items of the top k that have a label."""
    return float(sum(1 for grade in grades[:k] if grade is not None))


def recall(
    grades: Grades, labels: Grades, *, k: int | None, rel: float, recall_denominator: str
) -> Value:
    """Relevant in the top k / R, or what else counts as all of them."""
    bottom = recall_bottom(grades, labels, k, rel, recall_denominator)
    return _ratio(len(hit_ranks(grades, k, rel)), bottom)


def precision(
    grades: Grades, labels: Grades, *, k: int, rel: float, precision_denominator: str
) -> Value:
    """Relevant in the top k / k, also for a shorter list, or / what else counts as its length."""
    bottom = precision_bottom(grades, labels, k, rel, precision_denominator)
    return _ratio(len(hit_ranks(grades, k, rel)), bottom)


def f1(
    grades: Grades,
    labels: Grades,
    *,
    k: int,
    rel: float,
    precision_denominator: str,
    recall_denominator: str,
) -> Value:
    """Harmonic mean of precision and recall, 0 if both are 0."""
    recall_value = recall(grades, labels, k=k, rel=rel, recall_denominator=recall_denominator)
    exact = precision(grades, labels, k=k, rel=rel, precision_denominator=precision_denominator)
    if recall_value is None:
        return None
    return 2 * recall_value * exact / (recall_value + exact) if exact else 0.0


def recall_bottom(
    grades: Grades, labels: Grades, k: int | None, rel: float, denominator: str
) -> float:
    """What the hits of recall are divided by."""
    relevant = n_relevant(labels, rel)
    n_relevant_shown = len(hit_ranks(grades, None, rel))
    return {"r": relevant, "min_k_r": min(k or relevant, relevant), "shown": n_relevant_shown}[
        denominator
    ]


def precision_bottom(grades: Grades, labels: Grades, k: int, rel: float, denominator: str) -> float:
    """What the hits of precision are divided by."""
    relevant = n_relevant(labels, rel)
    return {"k": k, "returned": len(grades[:k]), "min_k_r": min(k, relevant)}[denominator]


def f(
    grades: Grades,
    labels: Grades,
    *,
    k: int,
    beta: float,
    rel: float,
    precision_denominator: str,
    recall_denominator: str,
) -> Value:
    """Harmonic mean of precision and recall, recall counting beta times as much."""
    recall_value = recall(grades, labels, k=k, rel=rel, recall_denominator=recall_denominator)
    exact = precision(grades, labels, k=k, rel=rel, precision_denominator=precision_denominator)
    if recall_value is None:
        return None
    return (1 + beta**2) * exact * recall_value / (beta**2 * exact + recall_value) if exact else 0.0


def set_precision(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """Relevant items of the list / its items, 0 for an empty list."""
    return len(hit_ranks(grades, None, rel)) / len(grades) if grades else 0.0


def set_recall(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """Relevant items of the list / R."""
    return _ratio(len(hit_ranks(grades, None, rel)), n_relevant(labels, rel))


def set_f(grades: Grades, labels: Grades, *, beta: float, rel: float) -> Value:
    """Harmonic mean of these two, recall counting beta times as much."""
    recall_value, exact = (
        set_recall(grades, labels, rel=rel),
        set_precision(grades, labels, rel=rel),
    )
    if recall_value is None or exact is None:
        return None
    return (1 + beta**2) * exact * recall_value / (beta**2 * exact + recall_value) if exact else 0.0


def set_relative_precision(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """Precision of the list / the highest that a list of its length can have."""
    relevant = n_relevant(labels, rel)
    if not relevant or not grades:
        return 0.0 if relevant else None
    return len(hit_ranks(grades, None, rel)) / len(grades) / min(1, relevant / len(grades))


def set_ap(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """Precision of the list x its recall."""
    recall_value, exact = (
        set_recall(grades, labels, rel=rel),
        set_precision(grades, labels, rel=rel),
    )
    return None if recall_value is None or exact is None else recall_value * exact


def set_hit(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """1 if any relevant item is in the list."""
    return 1.0 if hit_ranks(grades, None, rel) else 0.0


def hit(grades: Grades, labels: Grades, *, k: int, rel: float) -> Value:
    """1 if any relevant item is in the top k."""
    return 1.0 if hit_ranks(grades, k, rel) else 0.0


def mrr(grades: Grades, labels: Grades, *, k: int | None, rel: float, rr_of: str) -> Value:
    """1 / rank of the first relevant item, 0 without one; or of others.

    Over all it is undefined if the whole list has none.
    """
    if rr_of == "first":
        return first_reciprocal_rank(grades, labels, k=k, rel=rel)
    if rr_of == "highest_grade":
        return highest_reciprocal_rank(grades, labels, k=k, rel=rel)
    total = sum_reciprocal_rank(grades, labels, k=k, rel=rel)
    return _ratio(total, len(hit_ranks(grades, None, rel)))


def first_reciprocal_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """1 / rank of the first relevant item."""
    ranks = hit_ranks(grades, k, rel)
    return 1.0 / ranks[0] if ranks else 0.0


def sum_reciprocal_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """1 / rank of all relevant items, added."""
    return math.fsum(1.0 / rank for rank in hit_ranks(grades, k, rel))


def highest_reciprocal_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """1 / rank of the first item of the highest grade in the top k, if that is relevant."""
    top = [grade or 0.0 for grade in grades[:k]]
    best = max(top, default=0.0)
    return 1.0 / (1 + top.index(best)) if best >= rel else 0.0


def sum_precision(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Precision at the rank of each relevant item retrieved, summed."""
    ranks = hit_ranks(grades, k, rel)
    return math.fsum(n_hits / rank for n_hits, rank in enumerate(ranks, start=1))


def ap(grades: Grades, labels: Grades, *, k: int | None, rel: float, ap_denominator: str) -> Value:
    """Sum of precisions / R, or what else counts as all of them."""
    relevant, returned = n_relevant(labels, rel), len(grades[:k])
    n_relevant_shown = len(hit_ranks(grades, None, rel))
    bottom = {
        "r": relevant,
        "min_k_r": min(k or relevant, relevant),
        "min_k_shown": min(k or n_relevant_shown, n_relevant_shown),
        "k": k,
        "min_r_returned": min(relevant, returned),
        "hits": len(hit_ranks(grades, k, rel)),
        "shown": n_relevant_shown,
    }[ap_denominator]
    return _ratio(sum_precision(grades, labels, k=k, rel=rel), bottom)


def rprec(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """Precision at R."""
    return _ratio(num_rel_ret_r(grades, labels, rel=rel), n_relevant(labels, rel))


def misplaced_pairs(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Pairs of a relevant item of the top k and another above it."""
    return float(
        sum(rank - hit_number for hit_number, rank in enumerate(hit_ranks(grades, k, rel), start=1))
    )


def list_auc(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """The share of the pairs of the top k that the relevant item wins, one by one."""
    hits = hit_ranks(grades, k, rel)
    miss_ranks = [rank for rank in range(1, len(grades[:k]) + 1) if rank not in hits]
    won = [hit < miss for hit in hits for miss in miss_ranks]
    return sum(won) / len(won) if won else float(bool(hits))


def judged(grades: Grades, labels: Grades, *, k: int | None) -> Value:
    """Labelled items in the top k / items returned there, 0 for an empty list."""
    top = grades[:k]
    return sum(1 for grade in top if grade is not None) / len(top) if top else 0.0


def rbp(
    grades: Grades, labels: Grades, *, k: int | None, p: float, rel: float, rbp_of: str
) -> Value:
    """What a reader gains who goes on to the next item with probability p."""
    ranks = hit_ranks(grades, k, rel)
    gains = [1.0 if rbp_of == "relevant" else grades[rank - 1] or 0.0 for rank in ranks]
    return math.fsum(
        (1 - p) * p ** (rank - 1) * gained for rank, gained in zip(ranks, gains, strict=True)
    )


def sdcg(
    grades: Grades,
    labels: Grades,
    *,
    k: int,
    max_grade: float,
    discount: str,
    p: float = 0.8,
) -> Value:
    """DCG of grades from 0 to 1 / that of k items of the highest grade."""
    shares = [(grade or 0.0) / max_grade for grade in grades[:k]]
    return _discounted(shares, discount, p, "none") / _discounted([1.0] * k, discount, p, "none")


def bpm(grades: Grades, labels: Grades, *, k: int, max_grade: float, t: float) -> Value:
    """The mean gain of the items that are looked at: until they add up to t, or to k of them."""
    total = 0.0
    for rank, grade in enumerate(grades[:k], start=1):
        total += grade or 0.0
        if total >= t * max_grade:
            return total / max_grade / rank
    return total / max_grade / k


def compat(grades: Grades, labels: Grades, *, p: float, rel: float) -> Value:
    """Rank-biased overlap with the ideal order / that of the ideal order with itself."""
    if not n_relevant(labels, rel):
        return None
    shared = shared_with_ideal(grades, labels, p=p, rel=rel) or 0.0
    return shared / (shared_at_most(grades, labels, p=p, rel=rel) or 1.0)


def shared_with_ideal(grades: Grades, labels: Grades, *, p: float, rel: float) -> Value:
    """What the tops of the list and of its ideal order share, depth by depth."""
    ranks = range(1, len(grades) + 1)
    ideal = _ideal_ranks(grades, labels, rel)
    depths = range(1, max(len(grades), len(ideal)) + 1) if grades else range(0)
    n_new_by_depth = Counter(max(rank, ideal.index(rank) + 1) for rank in ranks if rank in ideal)
    shared = accumulate(n_new_by_depth[depth] for depth in depths)
    return math.fsum(p ** (d - 1) * n / d for d, n in zip(depths, shared, strict=True))


def shared_at_most(grades: Grades, labels: Grades, *, p: float, rel: float) -> Value:
    """The same if all items of the ideal order are there."""
    n = n_relevant(labels, rel)
    depths = range(1, max(len(grades), n) + 1) if grades else range(0)
    return math.fsum(p ** (d - 1) * min(d, n) / d for d in depths)


def _ideal_ranks(grades: Grades, labels: Grades, rel: float) -> list[int]:
    """The ranks of the relevant labels, best grade first; 0 for one that is not in the list."""
    order: list[int] = []
    for level in sorted({g for g in labels if g is not None and g >= rel}, reverse=True):
        ranks = [rank for rank, grade in enumerate(grades, start=1) if grade == level]
        order += [*ranks, *[0] * (list(labels).count(level) - len(ranks))]
    return order


def inst(grades: Grades, labels: Grades, *, k: int | None, max_grade: float, t: float) -> Value:
    """The mean gain at the ranks to k, each weighing the chance that a reader gets there.

    One goes on with the chance ((rank + t + left - 1) / (rank + t + left))^2, left being t less
    what was gained. Below the list, where nothing is gained, these chances make
    weight x (x / (x + n))^2 at the n-th rank.
    """
    gains = [(grade or 0.0) / max_grade for grade in grades[:k]]
    if not gains:
        return 0.0
    gained, looks, remaining, weight, x = 0.0, 0.0, t, 1.0, 0.0
    for rank, gain in enumerate(gains, start=1):
        gained, looks = gained + weight * gain, looks + weight
        remaining -= gain
        x = rank + t + remaining
        weight *= max((x - 1) / x, 0.0) ** 2
    below = None if k is None else k - len(gains)
    return gained / (looks + weight * x * x * _inverse_squares(x, below))


def inst_gained(
    grades: Grades, labels: Grades, *, k: int | None, max_grade: float, t: float
) -> Value:
    """Sum of gain x rest / x^2."""
    return sum(gain * rest / x**2 for gain, x, rest in _readings(grades, k, max_grade, t)[:-1])


def inst_looks(
    grades: Grades, labels: Grades, *, k: int | None, max_grade: float, t: float
) -> Value:
    """Sum of rest / x^2."""
    return sum(rest / x**2 for _, x, rest in _readings(grades, k, max_grade, t)[:-1])


def inst_log_of_rest(
    grades: Grades, labels: Grades, *, k: int | None, max_grade: float, t: float
) -> Value:
    """The logarithm of what is left below, about -1000 where nothing is."""
    rests = [rest for _, _, rest in _readings(grades, k, max_grade, t)]
    steps = [below / rest for rest, below in itertools.pairwise(rests) if rest]
    return sum(math.log(step) if step > 1e-12 else -1000 for step in steps) if grades else None


def inst_start(
    grades: Grades, labels: Grades, *, k: int | None, max_grade: float, t: float
) -> Value:
    """What is expected below the list."""
    return _readings(grades, k, max_grade, t)[-1][1] if grades else None


def inst_end(grades: Grades, labels: Grades, *, k: int, max_grade: float, t: float) -> Value:
    """What is expected below rank k."""
    return 2 * t + k - sum(grade or 0 for grade in grades[:k]) / max_grade if grades else None


def _readings(
    grades: Grades, k: int | None, max_grade: float, t: float
) -> list[tuple[float, float, float]]:
    """Gain, expectation and rest of INST at each rank, and below the last."""
    x, rest, readings = 2 * t, 1.0, []
    for grade in grades[:k]:
        gain = (grade or 0.0) / max_grade
        readings.append((gain, x, rest))
        rest *= max(1 - gain / x, 0.0) ** 2
        x += 1 - gain
    return [*readings, (0.0, x, rest)]


def insq(grades: Grades, labels: Grades, *, k: int | None, max_grade: float, t: float) -> Value:
    """The same where a reader expects 2t items in any case."""
    gained = sum(
        (grade or 0.0) / max_grade / (rank + 2 * t - 1) ** 2
        for rank, grade in enumerate(grades[:k], start=1)
    )
    return gained / _inverse_squares(2 * t, k)


def _inverse_squares(x: float, count: int | None) -> float:
    """1 / x^2 + 1 / (x + 1)^2 and so on, so many, or all of them."""
    first = min(1000, 1000 if count is None else count)
    total = sum(1 / (x + rank) ** 2 for rank in range(first))
    ends = [(x + first, 1)] if count is None else [(x + first, 1), (x + count, -1)]
    if count is None or count > first:  # Euler and Maclaurin
        total += sum(sign * (1 / y + 1 / (2 * y**2) + 1 / (6 * y**3)) for y, sign in ends)
    return total


def infap(grades: Grades, labels: Grades, in_pool: Flags, *, rel: float) -> Value:
    """Sum of inferred precisions / R."""
    return _ratio(sum_inferred_precision(grades, labels, in_pool, rel=rel), n_relevant(labels, rel))


def sum_inferred_precision(grades: Grades, labels: Grades, in_pool: Flags, *, rel: float) -> Value:
    """At each relevant item 1 / rank for itself, and what the items above are likely to be."""
    total, few = 0.0, 0.00001
    for rank in hit_ranks(grades, None, rel):
        judged = [grade for grade in grades[: rank - 1] if grade is not None]
        n_hits = len(hit_ranks(judged, None, rel))
        share_relevant = (n_hits + few) / (len(judged) + 2 * few)
        total += (1 + sum(in_pool[: rank - 1]) * share_relevant) / rank
    return total


def err(grades: Grades, labels: Grades, *, k: int | None, max_grade: float, stop: str) -> Value:
    """Mean of 1 / rank of the item at which a reader stops, 0 for one who never does."""
    total, still_reads = 0.0, 1.0
    for rank, grade in enumerate(grades[:k], start=1):
        stops = _stops(grade, max_grade, stop)
        total += still_reads * stops / rank
        still_reads *= 1 - stops
    return total


def pfound(
    grades: Grades, labels: Grades, *, k: int | None, max_grade: float, p_break: float, stop: str
) -> Value:
    """The chance that a reader finds what is sought, who may give up after each item."""
    total, look = 0.0, 1.0
    for grade in grades[:k]:
        stop_chance = _stops(grade, max_grade, stop)
        total += look * stop_chance
        look *= (1 - stop_chance) * (1 - p_break)
    return total


def _stops(grade: float | None, max_grade: float, rule: str) -> float:
    """The chance that a reader stops at an item."""
    if rule == "linear":
        return (grade or 0) / max_grade
    return (2 ** (grade or 0) - 1) / 2**max_grade


def bpref_bound(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """The smaller of R and the number of labels that are not relevant."""
    judged = [grade for grade in labels if grade is not None]
    relevant = n_relevant(labels, rel)
    return float(min(relevant, len(judged) - relevant))


def bpref_sum(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """For each relevant item the share of the judged bad items that it stands above."""
    bound = bpref_bound(grades, labels, rel=rel)
    total = 0.0
    for position, grade in enumerate(grades):
        if grade is not None and grade >= rel:
            bad = sum(
                1
                for grade_above in grades[:position]
                if grade_above is not None and grade_above < rel
            )
            total += 1 - min(bad, bound) / bound if bad and bound else 1.0
    return total


def bpref(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """The mean of that over all relevant labels."""
    return _ratio(bpref_sum(grades, labels, rel=rel), n_relevant(labels, rel))


def first_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Rank of the first relevant item."""
    ranks = hit_ranks(grades, k, rel)
    return float(ranks[0]) if ranks else None


def mean_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Mean rank of the relevant items retrieved."""
    ranks = hit_ranks(grades, k, rel)
    return sum(ranks) / len(ranks) if ranks else None


def arp(grades: Grades, labels: Grades, *, k: int | None) -> Value:
    """Mean rank, each item counting as much as its grade."""
    return _ratio(sum_grade_rank(grades, labels, k=k), cg(grades, labels, k=k))


def sum_grade_rank(grades: Grades, labels: Grades, *, k: int | None) -> Value:
    """Ranks times grades, summed."""
    return math.fsum(rank * (grade or 0.0) for rank, grade in enumerate(grades[:k], start=1))


def hole(grades: Grades, labels: Grades, *, k: int) -> Value:
    """Items of the top k without a label / k."""
    return sum(1 for grade in grades[:k] if grade is None) / k


def iprec(
    grades: Grades, labels: Grades, *, k: int | None, rel: float, recall: float, recall_level: str
) -> Value:
    """The best precision at any rank that has at least a share of the relevant items."""
    if not n_relevant(labels, rel):
        return None
    settings: dict[str, Any] = {"rel": rel, "recall": recall, "recall_level": recall_level}
    return best_precision(grades, labels, k=k, **settings)


def best_precision(
    grades: Grades, labels: Grades, *, k: int | None, rel: float, recall: float, recall_level: str
) -> Value:
    """The best of the precisions at every rank where enough is found, 0 without such a rank."""
    part = {"at_least": 0.9, "nearest": 0.5}[recall_level]
    enough = math.floor(recall * n_relevant(labels, rel) + part)
    hit_counts = [len(hit_ranks(grades, rank, rel)) for rank in range(1, len(grades[:k]) + 1)]
    precisions = (hits / rank for rank, hits in enumerate(hit_counts, start=1) if hits >= enough)
    return max(precisions, default=0.0)


def eleven_point_ap(
    grades: Grades, labels: Grades, *, k: int | None, rel: float, recall_level: str
) -> Value:
    """Interpolated precision, at 11 levels of recall."""
    if not n_relevant(labels, rel):
        return None
    return best_precisions(grades, labels, k=k, rel=rel, recall_level=recall_level)


def best_precisions(
    grades: Grades, labels: Grades, *, k: int | None, rel: float, recall_level: str
) -> Value:
    """The best precision from a level of recall on, at 0, 0.1 and so on to 1."""
    settings: dict[str, Any] = {"k": k, "rel": rel, "recall_level": recall_level}
    levels = [tenth / 10 for tenth in range(11)]
    precisions = [best_precision(grades, labels, recall=level, **settings) for level in levels]
    return math.fsum(value or 0.0 for value in precisions) / len(levels)


def overlap(items: Ids, other: Ids, *, k: int) -> Value:
    """Items in the top k of both lists / length of the longer top k."""
    top, two = items[:k], other[:k]
    return len(set(top) & set(two)) / max(len(top), len(two)) if top and two else 0.0


def jaccard(items: Ids, other: Ids, *, k: int) -> Value:
    """Items in the top k of both lists / of either."""
    top, two = set(items[:k]), set(other[:k])
    return len(top & two) / len(top | two) if top and two else 0.0


def unexpectedness(items: Ids, other: Ids, *, k: int) -> Value:
    """What is left of 1 without the share of k that both lists have."""
    return 1 - len(set(items[:k]) & set(other[:k])) / k if items and other else 0.0


def rbo(items: Ids, other: Ids, *, k: int | None, p: float) -> Value:
    """Rank-biased overlap, extrapolated: equation 32 of the paper, symbol by symbol."""
    short, long = sorted((items[:k], other[:k]), key=len)
    s, l = len(short), len(long)  # noqa: E741  # the paper's names
    if not s:
        return 0.0
    x = [len(set(short[:d]) & set(long[:d])) for d in range(l + 1)]
    agreements = [x[d] / d * p**d for d in range(1, l + 1)]
    uneven = [x[s] * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1)]
    tail = ((x[l] - x[s]) / l + x[s] / s) * p**l
    return (1 - p) / p * math.fsum(agreements + uneven) + tail


def p_mrr(items: Ids, other: Ids, graded: Graded, *, rel: float) -> Value:
    """Mean over relevant labels of how far each moved between two lists, as ratios of ranks."""
    relevant = [item for item, grade in graded.items() if grade is not None and grade >= rel]
    if not (items and other and relevant):
        return None
    changes = []
    for item in relevant:
        old, new = (ids.index(item) + 1 if item in ids else len(ids) + 1 for ids in (other, items))
        changes.append(1 - old / new if new > old else new / old - 1)
    return math.fsum(changes) / len(changes)


def novelty(items: Ids, catalogue: Catalogue, *, k: int) -> Value:
    """Mean of -log2 of the items' shares of all popularity."""
    total = math.fsum(item.popularity or 0.0 for item in catalogue.values())
    shares = [(catalogue[item].popularity or 0.0) / total for item in items[:k]]
    return math.fsum(-math.log2(share) for share in shares) / len(shares) if shares else None


def miuf(items: Ids, catalogue: Catalogue, *, k: int) -> Value:
    """Mean of -log2 of the shares of users that have the items."""
    bits = [_self_information(catalogue[item]) for item in items[:k]]
    return math.fsum(bits) / len(bits) if bits else None


def surprisal(items: Ids, catalogue: Catalogue, *, k: int) -> Value:
    """The same in units of the most that an item can have, summed / k."""
    entries = [catalogue[item] for item in items[:k]]
    most = [math.log2(item.users or 1.0) for item in entries]
    shares = [
        _self_information(item) / m if m else 0.0 for item, m in zip(entries, most, strict=True)
    ]
    return math.fsum(shares) / k


def _self_information(item: Item) -> float:
    return -math.log2((item.popularity or 0.0) / (item.users or 0.0))


def serendipity(items: Ids, grades: Grades, catalogue: Catalogue, *, k: int, rel: float) -> Value:
    """How far relevant items stand above their places by popularity, as a share of all items."""
    places = sorted({item.popularity or 0.0 for item in catalogue.values()}, reverse=True)
    n, surprises = len(catalogue), []
    for rank, (item, grade) in enumerate(zip(items[:k], grades[:k], strict=True), start=1):
        by_popularity = 1 + places.index(catalogue[item].popularity or 0.0)
        rank_share, popularity_share = (n + 1 - rank) / n, (n + 1 - by_popularity) / n
        is_relevant = grade is not None and grade >= rel
        surprises.append(max(rank_share - popularity_share, 0.0) if is_relevant else 0.0)
    return math.fsum(surprises) / len(surprises) if surprises else None


def ils(items: Ids, catalogue: Catalogue, *, k: int, similarity: str) -> Value:
    """Mean similarity over the pairs of the top k."""
    pairs = list(combinations((catalogue[item] for item in items[:k]), 2))
    if similarity == "category":
        alike = [1.0 if first.category == two.category else 0.0 for first, two in pairs]
    else:
        alike = [_cosine(first.vector, two.vector) for first, two in pairs]
    return math.fsum(alike) / len(alike) if alike else None


def categorical_diversity(items: Ids, catalogue: Catalogue, *, k: int) -> Value:
    """Different categories in the top k / k."""
    return len({catalogue[item].category for item in items[:k]}) / k


def alpha_dcg(
    items: Ids, groups: Groups, *, k: int, alpha: float, rel: float, discount: str, p: float
) -> Value:
    """What the items add to those above, discounted / that of items that are of every group."""
    relevant_groups = relevant_in(groups, rel)
    gained = group_dcg(items, groups, k=k, alpha=alpha, rel=rel, discount=discount, p=p)
    most = [len(relevant_groups) * (1 - alpha) ** above for above in range(k)]
    return _ratio(gained, _discounted(most, discount, p, "none"))


def alpha_ndcg(
    items: Ids, groups: Groups, *, k: int, alpha: float, rel: float, discount: str, p: float
) -> Value:
    """The same / that of the greedy list."""
    settings: dict[str, Any] = {"k": k, "alpha": alpha, "rel": rel, "discount": discount, "p": p}
    return _ratio(group_dcg(items, groups, **settings), best_group_dcg(items, groups, **settings))


def group_dcg(
    items: Ids, groups: Groups, *, k: int, alpha: float, rel: float, discount: str, p: float
) -> Value:
    """What the items of the top k add to those above, discounted."""
    gains = novel_gains(items[:k], relevant_in(groups, rel), alpha)
    return _discounted(gains, discount, p, "none")


def best_group_dcg(
    items: Ids, groups: Groups, *, k: int, alpha: float, rel: float, discount: str, p: float
) -> Value:
    """The same of the greedy list."""
    ideal = greedy(relevant_in(groups, rel), alpha, k)
    return group_dcg(ideal, groups, k=k, alpha=alpha, rel=rel, discount=discount, p=p)


def _cosine(first: Sequence[float], two: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(first, two, strict=True))
    return product / (math.hypot(*first) * math.hypot(*two))


def num_pos(rows: Scored, *, rel: float) -> Value:
    """Relevant items among the rows."""
    return float(sum(1 for _, grade in rows if grade >= rel)) if rows else None


def num_neg(rows: Scored, *, rel: float) -> Value:
    """The others."""
    return float(sum(1 for _, grade in rows if grade < rel)) if rows else None


def num_won(rows: Scored, *, rel: float) -> Value:
    """Of every relevant and every other item: how often the relevant one scores higher."""
    positives = [score for score, grade in rows if grade >= rel]
    negatives = [score for score, grade in rows if grade < rel]
    won = sum((p > n) + 0.5 * (p == n) for p in positives for n in negatives)
    return float(won) if rows else None


def gauc(rows: Scored, *, rel: float, gauc_weight: str) -> Value:
    """The share of those pairs that the relevant item wins; its weight is for the mean."""
    positives, negatives = num_pos(rows, rel=rel) or 0.0, num_neg(rows, rel=rel) or 0.0
    return _ratio(num_won(rows, rel=rel), positives * negatives)


def num_concordant(rows: Scored) -> Value:
    """Pairs in which the higher grade has the higher score."""
    return _pairs(rows, lambda scores, grades: scores * grades > 0)


def num_discordant(rows: Scored) -> Value:
    """Pairs in which the higher grade has the lower score."""
    return _pairs(rows, lambda scores, grades: scores * grades < 0)


def num_tied(rows: Scored) -> Value:
    """Pairs of different grades and equal scores."""
    return _pairs(rows, lambda scores, grades: scores == 0 and grades != 0)


def num_equal(rows: Scored) -> Value:
    """Pairs of equal grades."""
    return _pairs(rows, lambda _, grades: grades == 0)


def pnr(rows: Scored, *, tied_scores: str, equal_labels: str, pnr_form: str) -> Value:
    """Positive pairs / (positive + negative pairs), or / negative pairs."""
    return _ratio(*pnr_parts(rows, tied_scores, equal_labels, pnr_form))


def pnr_parts(
    rows: Scored, tied_scores: str, equal_labels: str, pnr_form: str
) -> tuple[float, float]:
    """What stands above and below the line of a positive-negative ratio."""
    pos, neg, tied = num_concordant(rows) or 0, num_discordant(rows) or 0, num_tied(rows) or 0
    if equal_labels == "concordant":
        pos += num_equal(rows) or 0
    pos += tied * {"half": 0.5, "concordant": 1}.get(tied_scores, 0)
    neg += tied * {"half": 0.5, "discordant": 1}.get(tied_scores, 0)
    return pos, pos + neg if pnr_form == "share" else neg


def _pairs(rows: Scored, counts: Callable[[int, int], bool]) -> Value:
    """How many pairs of rows count, by which has the higher score and which the higher grade."""
    if not rows:
        return None
    return float(
        sum(
            counts((s > t) - (s < t), (g > h) - (g < h)) for (s, g), (t, h) in combinations(rows, 2)
        )
    )


def auc(rows: Scored, *, rel: float, max_fpr: float) -> Value:
    """The area under the ROC curve, up to max_fpr standardised as McClish does."""
    positives, negatives = num_pos(rows, rel=rel) or 0.0, num_neg(rows, rel=rel) or 0.0
    if not positives or not negatives:
        return None
    if max_fpr == 1:
        return (num_won(rows, rel=rel) or 0.0) / (positives * negatives)
    area, fpr, tpr = 0.0, 0.0, 0.0
    for threshold in sorted({score for score, _ in rows}, reverse=True):
        grades_above = [grade for score, grade in rows if score >= threshold]
        new_fpr = sum(1 for grade in grades_above if grade < rel) / negatives
        new_tpr = sum(1 for grade in grades_above if grade >= rel) / positives
        end = min(new_fpr, max_fpr)
        if end > fpr:
            at_end = tpr + (new_tpr - tpr) * (end - fpr) / (new_fpr - fpr)
            area += (end - fpr) * (tpr + at_end) / 2
        fpr, tpr = new_fpr, new_tpr
    least, most = max_fpr**2 / 2, max_fpr
    return (1 + (area - least) / (most - least)) / 2


def coverage(lists: ShownLists, catalogue: Catalogue, *, k: int) -> Value:
    """Different items in the top k of any list / items of the catalogue."""
    return _ratio(len({item for items in lists for item in items[:k]}), len(catalogue))


def gini(lists: ShownLists, catalogue: Catalogue, *, k: int) -> Value:
    """How unequally the places in the top k go to the items: mean difference / 2 means."""
    count_by_item = Counter(item for items in lists for item in items[:k])
    counts = [*count_by_item.values(), *[0] * (len(catalogue) - len(count_by_item))]
    items = Counter(counts)  # by count: many items are shown as often as others
    difference_sum = sum(m * n * abs(x - y) for x, m in items.items() for y, n in items.items())
    return _ratio(difference_sum, 2 * len(counts) * sum(counts))


OF_SETS = {"auc", "coverage", "gini"}
"""The metrics of all lists together: of a single query it is only said if it adds to them."""

_gain = gain  # metrics have a parameter of this name


def _discounted(gains: Iterable[float], rule: str, p: float, rounding: Rounding) -> float:
    terms = (g * discount_of(rank, rule, p) for rank, g in enumerate(gains, start=1))
    return math.fsum(rounded(term, rounding) if rounding == "floor2" else term for term in terms)


def rounded(value: float, rounding: Rounding) -> float:
    """A value to some decimals; what is nearer than 1e-9 to a border counts as on it."""
    if rounding == "none" or not math.isfinite(value):
        return value
    if rounding == "floor2":
        return math.floor((value + 1e-9) * 100) / 100
    units = 10.0 ** int(rounding)
    return math.floor((value + 1e-9) * units + 0.5) / units


def hit_ranks(grades: Grades, k: int | None, rel: float) -> list[int]:
    """The ranks of relevant items."""
    return [
        rank
        for rank, grade in enumerate(grades[:k], start=1)
        if (0.0 if grade is None else grade) >= rel
    ]


def n_relevant(labels: Grades, rel: float) -> int:
    """How many labels are relevant."""
    return sum(1 for grade in labels if grade is not None and grade >= rel)


def _ratio(top: Value, bottom: Value) -> Value:
    return top / bottom if top is not None and bottom else None


def float32(score: float) -> float:
    """A score as a 32-bit float holds it."""
    return float(struct.unpack("f", struct.pack("f", score))[0])


def decimal6(score: float) -> float:
    """A score with 6 decimals, rounded half up."""
    return math.floor(score * 1e6 + 0.5) / 1e6 if math.isfinite(score) else score


@dataclass(frozen=True)
class Question:
    """A metric to compute.

    Attributes:
        name: A function of this module.
        arguments: Its keyword arguments.
        no_relevant: What an undefined value becomes: skip, zero, nan, one or
            one_if_empty. A metric for which that makes no sense has skip.
        average: macro, micro, geometric, median, min, p10, p90 or max.
        average_over: labels, rankings, common, either, relevant, common_relevant, hits
            or relevant_shown.
        rounding: none, 2, 4 or floor2, for a query's value.
        ties: average, or the rule that holds for all.
        count: Whether its summary is a total, not a mean.
        formula: Arithmetic over the values of other metrics, m0, m1 and so on; empty for a
            metric that is a function.
        components: These metrics.
    """

    name: str
    arguments: Mapping[str, Any]
    no_relevant: str = "skip"
    average: str = "macro"
    average_over: str = "labels"
    rounding: Rounding = "none"
    ties: str = ""
    count: bool = False
    formula: str = ""
    components: tuple[Question, ...] = ()


def combined(formula: str, values: Sequence[Value]) -> Value:
    """A formula over the values of metrics; None where one has none, or a divisor is 0."""
    if None in values:
        return None
    names = {f"m{i}": value for i, value in enumerate(values)}
    try:
        return float(eval(formula, {"__builtins__": {}}, names))  # noqa: S307 # read as arithmetic
    except ZeroDivisionError:
        return None


def looks_at_grades(question: Question) -> bool:
    """Whether a metric looks at the grades of the items of a list."""
    if question.arguments.get("min_grade") == 0:
        return False
    if question.name == "idcg":
        return question.arguments["ideal"] in ("shown_at_k", "hits")
    function: Callable[..., Value] = globals()[question.name]
    inputs = function.__annotations__.keys() & {"grades", "groups"}
    return bool(inputs) and question.name not in OF_NO_LIST


def looks_at_all(question: Question) -> bool:
    """Whether it looks at all of them, whatever its cutoff."""
    whole_list_choices = (
        ("ideal", ("shown_at_k",)),
        ("recall_denominator", ("shown",)),
        ("ap_denominator", ("shown", "min_k_shown")),
        ("rr_of", ("all",)),
    )
    by_choice = any(question.arguments.get(name) in choices for name, choices in whole_list_choices)
    return question.arguments.get("k") is None or question.name in OF_WHOLE_LIST or by_choice


OF_NO_LIST = {
    *("label_worth", "best_worth_dcg"),
    *("num_q", "num_ret", "num_rel", "num_judged", "judged", "hole", "bpref_bound"),
    *("best_dcg", "best_dcg_returned", "every_rank_dcg", "every_returned_dcg"),
    *("num_groups", "best_group_dcg"),
}
"""Metrics that are given the grades of a list, and look at none of them."""

OF_WHOLE_LIST = {
    *("best_dcg_shown", "complete_groups"),
    *("evidence_recall", "evidence_precision", "evidence_hit"),
}
"""Metrics that look at all of them, whatever their cutoff; a set of evidence takes one rank."""


def computed(question: Question, inputs: Mapping[str, Any]) -> Value:
    """A metric of what its function asks for by name, before any policy."""
    function: Callable[..., Value] = globals()[question.name]
    function_inputs = {name: inputs[name] for name in function.__annotations__ if name in inputs}
    return function(**function_inputs, **question.arguments)
