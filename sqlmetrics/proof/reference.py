"""The same metrics in plain Python, written from the formulas; imports no sibling.

This module is the proof of the SQL, so it shares nothing with it: no code, no text, no
tables of options. It is written to be read beside the papers, not to be fast.

A ranking is given to a metric as `grades`: the grades of its items in rank order, None
for an item without a label. `labels` are the grades of all labels of the query. A metric
that is undefined for a query returns None.

Other metrics are given the `items` themselves, best first, with the `other` list of the
same query, the baseline's, or with the `catalogue`: what is known of every item. Metrics
of pairs are given `rows`: score and grade of every item that has both. Metrics of all
lists together are given their `lists`, or the rows of all.
"""

from __future__ import annotations

import math
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby
from typing import Any

Grades = Sequence[float | None]
Ids = Sequence[str]
Scored = Sequence[tuple[float, float]]
Shown = Sequence[Ids]
Gain = str | Mapping[float, float]
Value = float | None
Rounding = str | int


def gain(grade: float | None, how: Gain, rel: float) -> float:
    """What a grade is worth; an item without a label has grade 0."""
    grade = 0.0 if grade is None else grade
    if isinstance(how, Mapping):
        return how.get(grade, 0.0)
    if how == "exp":
        return math.pow(2.0, grade) - 1.0
    if how == "linear":
        return grade
    return 1.0 if grade >= rel else 0.0


def discount(rank: int, how: str) -> float:
    """What a rank is worth, rank 1 being the best."""
    if how == "log2":
        return 1.0 / math.log2(rank + 1)
    if how == "log2_max2":
        return 1.0 / math.log2(max(rank, 2))
    return 1.0 / math.log(rank + 1)


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
    rounding: Rounding = "none",
) -> Value:
    """Sum of gain x discount in the top k."""
    return _discounted([_gain(grade, gain, rel) for grade in grades[:k]], discount, rounding)


def idcg(
    grades: Grades,
    labels: Grades,
    *,
    k: int | None,
    gain: Gain,
    discount: str,
    ideal: str,
    rel: float,
    rounding: Rounding = "none",
) -> Value:
    """DCG of the best list that there could be, by what counts as that."""
    gains = sorted((_gain(grade, gain, rel) for grade in labels), reverse=True)
    best: list[float] = {
        "labels_at_k": lambda: gains[:k],
        "labels": lambda: gains,
        "shown_at_k": lambda: sorted((_gain(g, gain, rel) for g in grades), reverse=True)[:k],
        "all_k": lambda: [1.0] * (k or 0),
        "min_k_r": lambda: [1.0] * _relevant(labels, rel),
        "hits": lambda: [1.0] * len(_hit_ranks(grades, k, rel)),
        "returned": lambda: gains[: len(grades[:k])],
    }[ideal]()
    return _discounted(best if ideal == "labels" else best[:k], discount, rounding)


def ndcg(
    grades: Grades,
    labels: Grades,
    *,
    k: int | None,
    gain: Gain,
    discount: str,
    ideal: str,
    rel: float,
    rounding: Rounding = "none",
) -> Value:
    """DCG / IDCG, undefined if IDCG is 0."""
    how: dict[str, Any] = {"k": k, "gain": gain, "discount": discount, "rel": rel}
    best = idcg(grades, labels, ideal=ideal, rounding=rounding, **how)
    return _ratio(dcg(grades, labels, rounding=rounding, **how), best)


def best_dcg(grades: Grades, labels: Grades, **how: Any) -> Value:
    """DCG of the labels, best first."""
    return idcg(grades, labels, ideal="labels_at_k", **how)


def best_dcg_shown(grades: Grades, labels: Grades, **how: Any) -> Value:
    """DCG of the items of the list, best first."""
    return idcg(grades, labels, ideal="shown_at_k", **how)


def best_dcg_returned(grades: Grades, labels: Grades, **how: Any) -> Value:
    """DCG of as many labels as items were returned, best first."""
    return idcg(grades, labels, ideal="returned", **how)


def hits_first_dcg(grades: Grades, labels: Grades, **how: Any) -> Value:
    """DCG of the hits, put first."""
    return idcg(grades, labels, ideal="hits", **how | {"gain": "binary"})


def every_rank_dcg(grades: Grades, labels: Grades, **how: Any) -> Value:
    """DCG of k relevant items."""
    return idcg(grades, labels, ideal="all_k", **how | {"gain": "binary"})


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
    return float(len(_hit_ranks(grades, k, rel)))


def num_rel_ret_r(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """Relevant items in the top R."""
    return float(len(_hit_ranks(grades, _relevant(labels, rel), rel)))


def num_judged(grades: Grades, labels: Grades, *, k: int | None) -> Value:
    """Items of the top k that have a label."""
    return float(sum(1 for grade in grades[:k] if grade is not None))


def recall(
    grades: Grades, labels: Grades, *, k: int | None, rel: float, recall_denominator: str
) -> Value:
    """Relevant in the top k / R, or what else counts as all of them."""
    bottom = _recall_bottom(grades, labels, k, rel, recall_denominator)
    return _ratio(len(_hit_ranks(grades, k, rel)), bottom)


def precision(
    grades: Grades, labels: Grades, *, k: int, rel: float, precision_denominator: str
) -> Value:
    """Relevant in the top k / k, also for a shorter list, or / what else counts as its length."""
    bottom = _precision_bottom(grades, labels, k, rel, precision_denominator)
    return _ratio(len(_hit_ranks(grades, k, rel)), bottom)


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
    found = recall(grades, labels, k=k, rel=rel, recall_denominator=recall_denominator)
    exact = precision(grades, labels, k=k, rel=rel, precision_denominator=precision_denominator)
    if found is None:
        return None
    return 2 * found * exact / (found + exact) if exact else 0.0


def _recall_bottom(grades: Grades, labels: Grades, k: int | None, rel: float, what: str) -> float:
    relevant = _relevant(labels, rel)
    shown = len(_hit_ranks(grades, None, rel))
    return {"r": relevant, "min_k_r": min(k or relevant, relevant), "shown": shown}[what]


def _precision_bottom(grades: Grades, labels: Grades, k: int, rel: float, what: str) -> float:
    relevant = _relevant(labels, rel)
    return {"k": k, "returned": len(grades[:k]), "min_k_r": min(k, relevant)}[what]


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
    found = recall(grades, labels, k=k, rel=rel, recall_denominator=recall_denominator)
    exact = precision(grades, labels, k=k, rel=rel, precision_denominator=precision_denominator)
    if found is None:
        return None
    return (1 + beta**2) * exact * found / (beta**2 * exact + found) if exact else 0.0


def hit(grades: Grades, labels: Grades, *, k: int, rel: float) -> Value:
    """1 if any relevant item is in the top k."""
    return 1.0 if _hit_ranks(grades, k, rel) else 0.0


def mrr(grades: Grades, labels: Grades, *, k: int | None, rel: float, rr_of: str) -> Value:
    """1 / rank of the first relevant item, 0 without one; or of others.

    Over all it is undefined if the whole list has none.
    """
    if rr_of == "first":
        return first_reciprocal_rank(grades, labels, k=k, rel=rel)
    if rr_of == "highest_grade":
        return highest_reciprocal_rank(grades, labels, k=k, rel=rel)
    total = sum_reciprocal_rank(grades, labels, k=k, rel=rel)
    return _ratio(total, len(_hit_ranks(grades, None, rel)))


def first_reciprocal_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """1 / rank of the first relevant item."""
    ranks = _hit_ranks(grades, k, rel)
    return 1.0 / ranks[0] if ranks else 0.0


def sum_reciprocal_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """1 / rank of all relevant items, added."""
    return math.fsum(1.0 / rank for rank in _hit_ranks(grades, k, rel))


def highest_reciprocal_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """1 / rank of the first item of the highest grade in the top k, if that is relevant."""
    top = [grade or 0.0 for grade in grades[:k]]
    best = max(top, default=0.0)
    return 1.0 / (1 + top.index(best)) if best >= rel else 0.0


def sum_precision(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Precision at the rank of each relevant item retrieved, summed."""
    ranks = _hit_ranks(grades, k, rel)
    return math.fsum(found / rank for found, rank in enumerate(ranks, start=1))


def ap(grades: Grades, labels: Grades, *, k: int | None, rel: float, ap_denominator: str) -> Value:
    """Sum of precisions / R, or what else counts as all of them."""
    relevant, returned = _relevant(labels, rel), len(grades[:k])
    bottom = {
        "r": relevant,
        "min_k_r": min(k or relevant, relevant),
        "k": k,
        "min_r_returned": min(relevant, returned),
        "hits": len(_hit_ranks(grades, k, rel)),
        "shown": len(_hit_ranks(grades, None, rel)),
    }[ap_denominator]
    return _ratio(sum_precision(grades, labels, k=k, rel=rel), bottom)


def rprec(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """Precision at R."""
    return _ratio(num_rel_ret_r(grades, labels, rel=rel), _relevant(labels, rel))


def judged(grades: Grades, labels: Grades, *, k: int | None) -> Value:
    """Labelled items in the top k / items returned there, 0 for an empty list."""
    top = grades[:k]
    return sum(1 for grade in top if grade is not None) / len(top) if top else 0.0


def rbp(grades: Grades, labels: Grades, *, k: int | None, p: float, rel: float) -> Value:
    """What a reader gains who goes on to the next item with probability p."""
    return math.fsum((1 - p) * p ** (rank - 1) for rank in _hit_ranks(grades, k, rel))


def err(grades: Grades, labels: Grades, *, k: int | None, max_grade: float) -> Value:
    """Mean of 1 / rank of the item at which a reader stops, 0 for one who never does."""
    total, still_reads = 0.0, 1.0
    for rank, grade in enumerate(grades[:k], start=1):
        stops = (2 ** (grade or 0) - 1) / 2**max_grade
        total += still_reads * stops / rank
        still_reads *= 1 - stops
    return total


def bpref_bound(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """The smaller of R and the number of labels that are not relevant."""
    judged = [grade for grade in labels if grade is not None]
    relevant = _relevant(labels, rel)
    return float(min(relevant, len(judged) - relevant))


def bpref_sum(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """For each relevant item the share of the judged bad items that it stands above."""
    bound = bpref_bound(grades, labels, rel=rel)
    total = 0.0
    for place, grade in enumerate(grades):
        if grade is not None and grade >= rel:
            bad = sum(1 for other in grades[:place] if other is not None and other < rel)
            total += 1 - min(bad, bound) / bound if bad and bound else 1.0
    return total


def bpref(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """The mean of that over all relevant labels."""
    return _ratio(bpref_sum(grades, labels, rel=rel), _relevant(labels, rel))


def first_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Rank of the first relevant item."""
    ranks = _hit_ranks(grades, k, rel)
    return float(ranks[0]) if ranks else None


def mean_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Mean rank of the relevant items retrieved."""
    ranks = _hit_ranks(grades, k, rel)
    return sum(ranks) / len(ranks) if ranks else None


def overlap(items: Ids, other: Ids, *, k: int) -> Value:
    """Items in the top k of both lists / length of the longer top k."""
    one, two = items[:k], other[:k]
    return len(set(one) & set(two)) / max(len(one), len(two)) if one and two else 0.0


def rbo(items: Ids, other: Ids, *, k: int | None, p: float) -> Value:
    """Rank-biased overlap, extrapolated: equation 32 of the paper, symbol by symbol."""
    short, long = sorted((items[:k], other[:k]), key=len)
    s, l = len(short), len(long)  # noqa: E741  # the paper's names
    if not s:
        return 0.0
    x = [len(set(short[:d]) & set(long[:d])) for d in range(l + 1)]
    seen = [x[d] / d * p**d for d in range(1, l + 1)]
    uneven = [x[s] * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1)]
    tail = ((x[l] - x[s]) / l + x[s] / s) * p**l
    return (1 - p) / p * math.fsum(seen + uneven) + tail


@dataclass(frozen=True)
class Item:
    """What is known of an item."""

    category: str | None = None
    popularity: float | None = None
    vector: Sequence[float] = ()


Catalogue = Mapping[str, Item]


def novelty(items: Ids, catalogue: Catalogue, *, k: int) -> Value:
    """Mean of -log2 of the items' shares of all popularity."""
    total = math.fsum(item.popularity or 0.0 for item in catalogue.values())
    shares = [(catalogue[item].popularity or 0.0) / total for item in items[:k]]
    return math.fsum(-math.log2(share) for share in shares) / len(shares) if shares else None


def ils(items: Ids, catalogue: Catalogue, *, k: int, similarity: str) -> Value:
    """Mean similarity over the pairs of the top k."""
    pairs = list(combinations((catalogue[item] for item in items[:k]), 2))
    if similarity == "category":
        alike = [1.0 if one.category == two.category else 0.0 for one, two in pairs]
    else:
        alike = [_cosine(one.vector, two.vector) for one, two in pairs]
    return math.fsum(alike) / len(alike) if alike else None


def _cosine(one: Sequence[float], two: Sequence[float]) -> float:
    product = math.fsum(a * b for a, b in zip(one, two, strict=True))
    return product / (math.hypot(*one) * math.hypot(*two))


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
        shown = [grade for score, grade in rows if score >= threshold]
        new_fpr = sum(1 for grade in shown if grade < rel) / negatives
        new_tpr = sum(1 for grade in shown if grade >= rel) / positives
        end = min(new_fpr, max_fpr)
        if end > fpr:
            at_end = tpr + (new_tpr - tpr) * (end - fpr) / (new_fpr - fpr)
            area += (end - fpr) * (tpr + at_end) / 2
        fpr, tpr = new_fpr, new_tpr
    least, most = max_fpr**2 / 2, max_fpr
    return (1 + (area - least) / (most - least)) / 2


def coverage(lists: Shown, catalogue: Catalogue, *, k: int) -> Value:
    """Different items in the top k of any list / items of the catalogue."""
    return _ratio(len({item for items in lists for item in items[:k]}), len(catalogue))


def gini(lists: Shown, catalogue: Catalogue, *, k: int) -> Value:
    """How unequally the places in the top k go to the items: mean difference / 2 means."""
    shown = Counter(item for items in lists for item in items[:k])
    counts = [*shown.values(), *[0] * (len(catalogue) - len(shown))]
    items = Counter(counts)  # by count: many items are shown as often as others
    apart = sum(m * n * abs(x - y) for x, m in items.items() for y, n in items.items())
    return _ratio(apart, 2 * len(counts) * sum(counts))


OF_SETS = {"auc", "coverage", "gini"}
"""The metrics of all lists together: of a single query it is only said if it adds to them."""

_gain = gain  # metrics have a parameter of this name


def _discounted(gains: Iterable[float], how: str, rounding: Rounding) -> float:
    terms = (g * discount(rank, how) for rank, g in enumerate(gains, start=1))
    return math.fsum(rounded(term, rounding) if rounding == "floor2" else term for term in terms)


def rounded(value: float, how: Rounding) -> float:
    """A value to some decimals; what is nearer than 1e-9 to a border counts as on it."""
    if how == "none" or not math.isfinite(value):
        return value
    if how == "floor2":
        return math.floor((value + 1e-9) * 100) / 100
    units = 10.0 ** int(how)
    return math.floor((value + 1e-9) * units + 0.5) / units


def _hit_ranks(grades: Grades, k: int | None, rel: float) -> list[int]:
    return [
        rank
        for rank, grade in enumerate(grades[:k], start=1)
        if (0.0 if grade is None else grade) >= rel
    ]


def _relevant(labels: Grades, rel: float) -> int:
    return sum(1 for grade in labels if grade is not None and grade >= rel)


def _ratio(top: Value, bottom: Value) -> Value:
    return top / bottom if top is not None and bottom else None


def float32(score: float) -> float:
    """A score as a 32-bit float holds it."""
    return float(struct.unpack("f", struct.pack("f", score))[0])


def decimal6(score: float) -> float:
    """A score with 6 decimals, rounded half up."""
    return math.floor(score * 1e6 + 0.5) / 1e6 if math.isfinite(score) else score


# -- the mean over all orders of ties -------------------------------------------------

FIRST_ALONE = ("hit", "mrr", "first_reciprocal_rank", "first_rank")
"""Metrics that only the first relevant item of a list decides."""

PRECISIONS = ("sum_precision", "ap")
"""Metrics that add up precisions."""


def expected(
    one: Question,
    metric: Callable[[Grades], Value],
    groups: Sequence[Sequence[Value]],
    depth: int | None,
) -> Value:
    """A metric's mean over all orders of the items of each group.

    Args:
        one: What is asked.
        metric: Its value for a list in rank order.
        groups: The grades of items with equal scores, best group first.
        depth: How many items count.
    """
    rel = one.arguments.get("rel", 1)
    if one.name in FIRST_ALONE and one.arguments.get("rr_of", "first") == "first":
        return _expected_of_first(metric, groups, rel)
    if one.name in PRECISIONS:
        return _expected_precisions(one, metric, groups, depth)
    return _expected_sum(metric, groups)


def _expected_sum(metric: Callable[[Grades], Value], groups: Sequence[Sequence[Value]]) -> Value:
    """Of a sum over ranks: in the turns of a group every item is once at every rank of it."""
    base = metric([grade for group in groups for grade in group])
    if base is None:
        return None
    changes = []
    for number, group in enumerate(groups):
        before = [grade for other in groups[:number] for grade in other]
        after = [grade for other in groups[number + 1 :] for grade in other]
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
        n, m = len(group), len(_hit_ranks(group, None, rel))
        if m:
            # the first of m among n items is the one at place: the others lie behind it
            values = (
                (math.comb(n - place, m - 1) / math.comb(n, m), _only(metric, above + place, rel))
                for place in range(1, n - m + 2)
            )
            chances = [(chance, value) for chance, value in values if value is not None]
            return math.fsum(c * v for c, v in chances) if chances else None
        above += n
    return metric([])


def _only(metric: Callable[[Grades], Value], rank: int, rel: float) -> Value:
    """The value of a list with one relevant item."""
    return metric([None] * (rank - 1) + [rel])


def _expected_precisions(
    one: Question,
    metric: Callable[[Grades], Value],
    groups: Sequence[Sequence[Value]],
    depth: int | None,
) -> Value:
    """Of a sum of precisions: a rank is relevant by chance, and so are those above it."""
    k, rel = one.arguments["k"], one.arguments["rel"]
    shares, above, sure = [], 0, 0
    for group in groups:
        n, m = len(group), len(_hit_ranks(group, None, rel))
        for place in range(1, n + 1):
            others = (m - 1) / (n - 1) if n > 1 else 0.0
            shares.append(m / n * (sure + 1 + (place - 1) * others) / (above + place))
        above, sure = above + n, sure + m
    ends = [end for end in (k, depth, len(shares)) if end is not None]
    total = math.fsum(shares[: min(ends)])
    if one.name == "sum_precision":
        return total
    listed = [grade for group in groups for grade in group]
    value = metric(listed)
    plain = sum_precision(listed[:depth], (), k=k, rel=rel)
    if value is None or not plain:  # nothing relevant there in this order
        in_front = sorted(listed, key=lambda grade: grade or 0.0, reverse=True)
        value, plain = metric(in_front), sum_precision(in_front[:depth], (), k=k, rel=rel)
    return value if value is None or not plain else value * (total / plain)


# -- a whole evaluation ---------------------------------------------------------------


@dataclass(frozen=True)
class RankedRow:
    """One row of the rankings; `order` is the score, or the rank negated."""

    query: str
    item: str
    order: float
    system: str = ""
    date: Any = None
    weight: float = 1.0
    segments: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Label:
    """One row of the labels; without a date it holds for every day."""

    query: str
    item: str
    grade: float
    date: Any = None


@dataclass(frozen=True)
class QueryRow:
    """One row of the queries table; without a date it holds for every day."""

    query: str
    date: Any = None
    weight: float | None = None
    segments: Mapping[str, str | None] = field(default_factory=dict)


@dataclass
class Facts:
    """What is known of a query: its weight, and its segments but for unknown ones."""

    weight: float = 1.0
    segments: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """A metric to compute.

    Attributes:
        name: A function of this module.
        arguments: Its keyword arguments.
        no_relevant: What an undefined value becomes: skip, zero, nan or one. A metric
            for which that makes no sense has skip.
        average: macro or micro.
        average_over: labels, rankings, common, either, relevant, common_relevant, hits
            or relevant_shown.
        rounding: none, 2, 4 or floor2, for a query's value.
        ties: average, or the rule that holds for all.
        count: Whether its summary is a total, not a mean.
    """

    name: str
    arguments: Mapping[str, Any]
    no_relevant: str = "skip"
    average: str = "macro"
    average_over: str = "labels"
    rounding: Rounding = "none"
    ties: str = ""
    count: bool = False


@dataclass
class Mean:
    """A line of the summary."""

    value: float | None
    n_queries: int
    n_skipped: int
    n_missing: int


@dataclass
class Evaluation:
    """All numbers: per (date, system, query), and per (date, system, segment, value)."""

    per_query: dict[tuple[Any, str, str], list[Value]] = field(default_factory=dict)
    summary: dict[tuple[Any, str, str, str], list[Mean]] = field(default_factory=dict)


def evaluate(
    rankings: Sequence[RankedRow],
    labels: Sequence[Label],
    asked: Sequence[Question],
    *,
    ties: str = "id_asc",
    score_precision: str = "double",
    depth: int | None = None,
    unjudged: str = "nonrelevant",
    negative_grades: str = "zero",
    missing: str = "zero",
    absent_systems: str = "skip",
    of_one_system: bool = False,
    segments: Sequence[str] = (),
    known: Sequence[QueryRow] = (),
    catalogue: Catalogue | None = None,
    baseline: str | None = None,
    derived: Mapping[str, str] | None = None,
    rel: float = 1.0,
) -> Evaluation:
    """Evaluate every system on every day; duplicates count once, at their best.

    Args:
        rankings: In input order, for ties=input_order.
        labels: With dates, or without.
        asked: The metrics.
        ties: id_asc, id_desc, input_order, best, worst or average.
        score_precision: double, float32 or decimal6.
        depth: The rank below which nothing counts, None for no such rank.
        unjudged: nonrelevant, or condensed to leave out items without a label.
        negative_grades: zero, or unjudged to take such a label for none.
        missing: zero or drop.
        absent_systems: skip, or missing for days between a system's first and last day.
        of_one_system: Whether a query is of the system alone that has a list for it.
        segments: The names of the segments, in the order in which the rankings have them.
        known: The queries table.
        catalogue: The items table.
        baseline: The system that the others are compared with.
        derived: Segments that are told by no row: name -> traffic or relevant_labels.
        rel: The grade from which a label is relevant, to them.
    """
    scores = _scores(rankings, score_precision)
    world = World(
        {key: _sorted(items, ties) for key, items in scores.items()},
        scores,
        _graded(labels, negative_grades),
        _facts(rankings, known, segments),
        frozenset((one.date, one.query) for one in known if one.date is not None),
        missing,
        absent_systems,
        of_one_system,
        unjudged == "condensed",
        depth,
        ties,
        catalogue or {},
        baseline,
    )
    result = Evaluation()
    parts = _thirds(rankings, known)
    groups: dict[tuple[Any, str, str, str], list[tuple[Any, str, str]]] = defaultdict(list)
    for key in _population(world, asked):
        date, system, query = key
        result.per_query[key] = [_per_query(one, world, key) for one in asked]
        groups[date, system, "all", "all"].append(key)
        fact = world.facts.get((date, query), Facts())
        for name in segments:
            value = fact.segments.get(name, "(unknown)")
            if (derived or {}).get(name) == "traffic":
                value = parts.get((date, query), parts.get((None, query), value))
            elif (derived or {}).get(name) == "relevant_labels":
                value = _how_many_relevant(world.labels(key) or {}, rel)
            groups[date, system, name, value].append(key)
    for group, keys in groups.items():
        result.summary[group] = [
            _mean(one, {key: result.per_query[key][i] for key in keys}, world)
            for i, one in enumerate(asked)
        ]
    return result


Key = tuple[Any, str, str]
"""Day, system, query."""


@dataclass(frozen=True)
class World:
    """The input, put in order.

    Attributes:
        lists: The items of every ranked list, best first, in groups of equal scores.
        scores: Their scores.
        graded: The grades of every labelled query's items, by day and query.
        facts: What is known of a query, by day and query.
        searched: The queries of a day that the queries table lists.
        missing: zero or drop.
        absent_systems: skip or missing.
        of_one_system: Whether a query is of the system alone that has a list for it.
        condensed: Whether items without a label are left out of the lists.
        depth: How many items of a list count, None for all.
        ties: The rule for equal scores.
        catalogue: What is known of items.
        baseline: The system that the others are compared with.
    """

    lists: Mapping[Key, list[list[str]]]
    scores: Mapping[Key, Mapping[str, float]]
    graded: Mapping[tuple[Any, str], Mapping[str, Value]]
    facts: Mapping[tuple[Any, str], Facts]
    searched: frozenset[tuple[Any, str]]
    missing: str
    absent_systems: str
    of_one_system: bool
    condensed: bool
    depth: int | None
    ties: str
    catalogue: Catalogue
    baseline: str | None

    def labels(self, key: Key) -> Mapping[str, Value] | None:
        """The labels of a query on a day: dated ones, else those that hold for every day."""
        date, _, query = key
        return self.graded.get((date, query), self.graded.get((None, query)))

    def grades(self, key: Key) -> tuple[Grades, Grades]:
        """The grades of a list in rank order, and of all labels."""
        grades = [grade for group in self.groups(key) for grade in group]
        return grades[: self.depth], list((self.labels(key) or {}).values())

    def groups(self, key: Key) -> list[list[Value]]:
        """The grades of a list in rank order, in groups of equal scores; depth is not cut."""
        labels = self.labels(key) or {}
        return [[labels.get(item) for item in group] for group in self.tied(key)]

    def items(self, key: Key) -> list[str]:
        """The items of a list that count, in rank order."""
        return [item for group in self.tied(key) for item in group][: self.depth]

    def tied(self, key: Key) -> list[list[str]]:
        """The items of a list in rank order, in groups of equal scores; depth is not cut."""
        labels = self.labels(key) or {}
        groups = list(self.lists.get(key, []))
        if self.condensed:
            groups = [[i for i in group if labels.get(i) is not None] for group in groups]
        if self.ties in ("best", "worst"):
            up = self.ties == "worst"
            groups = [
                sorted(group, key=lambda item: labels.get(item) or 0.0, reverse=not up)
                for group in groups
            ]
        return groups

    def given(self, key: Key) -> dict[str, Any]:
        """All that a metric can be given, by the names of its arguments."""
        grades, labels = self.grades(key)
        date, _, query = key
        return {
            "grades": grades,
            "labels": labels,
            "items": self.items(key),
            "other": self.items((date, self.baseline or "", query)),
            "catalogue": self.catalogue,
            "rows": self.rows(key),
        }

    def rows(self, key: Key) -> Scored:
        """Score and grade of the items of a list that have a label, best first."""
        labels, scores = self.labels(key) or {}, self.scores.get(key, {})
        rows = [(scores[item], labels.get(item)) for item in self.items(key)]
        return [(score, grade) for score, grade in rows if grade is not None]

    def value(self, one: Question, key: Key) -> Value:
        """A metric of one list, before any policy."""
        given = self.given(key)
        if one.name in OF_SETS:
            return 1.0 if given["rows" if one.name == "auc" else "grades"] else None
        if (one.ties or self.ties) != "average":
            return computed(one, given)

        def metric(grades: Grades) -> Value:
            return computed(one, given | {"grades": grades[: self.depth]})

        return expected(one, metric, self.groups(key), self.depth)


def _scores(
    rankings: Sequence[RankedRow], precision: str
) -> dict[tuple[Any, str, str], dict[str, float]]:
    """Item -> score of every list, the best one of duplicates."""
    best: dict[tuple[Any, str, str], dict[str, float]] = defaultdict(dict)
    for row in rankings:
        score = {"float32": float32, "decimal6": decimal6}.get(precision, float)(row.order)
        items = best[row.date, row.system, row.query]
        items[row.item] = max(score, items.get(row.item, score))
    return best


def _sorted(items: Mapping[str, float], ties: str) -> list[list[str]]:
    order = list(items)
    if ties != "input_order":
        order.sort(key=lambda item: item.encode(), reverse=ties == "id_desc")
    order.sort(key=lambda item: items[item], reverse=True)
    return [list(group) for _, group in groupby(order, key=lambda item: items[item])]


def _graded(
    labels: Sequence[Label], negative_grades: str
) -> dict[tuple[Any, str], dict[str, Value]]:
    """The grades by query; None for a label that counts as none, but makes its query labelled."""
    graded: dict[tuple[Any, str], dict[str, Value]] = defaultdict(dict)
    for row in labels:
        items = graded[row.date, row.query]
        grade: Value = row.grade
        if row.grade < 0:
            grade = None if negative_grades == "unjudged" else 0.0
        best = items.get(row.item)
        items[row.item] = best if grade is None else max(grade, grade if best is None else best)
    return graded


def _facts(
    rankings: Sequence[RankedRow], known: Sequence[QueryRow], segments: Sequence[str]
) -> dict[tuple[Any, str], Facts]:
    """What the rankings and the queries table say of each query, by day and query."""
    facts: dict[tuple[Any, str], Facts] = defaultdict(Facts)
    for row in rankings:
        fact = facts[row.date, row.query]
        fact.weight = row.weight
        pairs = zip(segments, row.segments, strict=True)
        fact.segments |= {name: value for name, value in pairs if value is not None}
    for one in known:
        days = {date for date, _ in facts} if one.date is None else {one.date}
        for date in days | {one.date}:
            fact = facts[date, one.query]
            fact.weight = fact.weight if one.weight is None else one.weight
            fact.segments |= {n: value for n, value in one.segments.items() if value is not None}
    return facts


def _thirds(rankings: Sequence[RankedRow], known: Sequence[QueryRow]) -> dict[tuple[Any, str], str]:
    """Head, torso and tail: which third of a day's traffic a query begins in, by day and query."""
    weights = {(one.date, one.query): one.weight for one in known if one.weight is not None}
    if not weights:
        weights = {(row.date, row.query): row.weight for row in rankings}
    parts: dict[tuple[Any, str], str] = {}
    above: dict[Any, float] = defaultdict(float)
    total: dict[Any, float] = defaultdict(float)
    for (date, _), weight in weights.items():
        total[date] += weight
    for date, query in sorted(weights, key=lambda key: (-weights[key], key[1].encode())):
        third = min(2, int(3 * above[date] / total[date])) if total[date] else 2
        parts[date, query] = ("head", "torso", "tail")[third]
        above[date] += weights[date, query]
    return parts


def _how_many_relevant(labels: Mapping[str, Value], rel: float) -> str:
    """The number of relevant labels of a query, large ones together."""
    number = sum(grade is not None and grade >= rel for grade in labels.values())
    return str(number) if number < 2 else "2-5" if number < 6 else "6+"


def _population(world: World, asked: Sequence[Question]) -> list[Key]:
    """Every (day, system, query) that some metric's mean runs over."""
    days = {(date, query) for date, _, query in world.lists} | world.searched
    if all(date is None for date, _ in days):
        days |= set(world.graded)
    systems = {date: _systems(world, date) for date in {date for date, _ in days}}
    keys = {(date, system, query) for date, query in days for system in systems[date]}
    if world.of_one_system:
        keys &= set(world.lists)
    labelled = {key for key in keys if world.labels(key) is not None}
    if any(one.average_over in ("rankings", "either") for one in asked):
        labelled |= set(world.lists)
    return sorted(labelled, key=str)


def _systems(world: World, day: Any) -> set[str]:
    """The systems that count on a day: those with a list, or with lists before and after it."""
    days: dict[str, set[Any]] = defaultdict(set)
    for date, system, _ in world.lists:
        days[system].add(date)
    if day is None or world.absent_systems == "skip":
        return {system for system, own in days.items() if day in own}
    return {system for system, own in days.items() if min(own) <= day <= max(own)}


def _per_query(one: Question, world: World, key: Key) -> Value:
    """A metric of one query, None where it is left out of the mean."""
    if not _is_counted(one, world, key):
        return None
    value = world.value(one, key)
    if value is None:
        return {"skip": None, "zero": 0.0, "nan": math.nan, "one": 1.0}[one.no_relevant]
    return rounded(value, one.rounding)


def computed(one: Question, given: Mapping[str, Any]) -> Value:
    """A metric of what its function asks for by name, before any policy."""
    function: Callable[..., Value] = globals()[one.name]
    wanted = {name: given[name] for name in function.__annotations__ if name in given}
    return function(**wanted, **one.arguments)


def _is_counted(one: Question, world: World, key: Key) -> bool:
    """Whether a query is one of those that the mean of a metric is for."""
    is_ranked = key in world.lists
    if not _counts(one.average_over, world.labels(key) is not None, is_ranked):
        return False
    if not is_ranked and world.missing == "drop":
        return False
    k, rel = one.arguments.get("k"), one.arguments.get("rel", 1)
    return _has_relevant(one.average_over, *world.grades(key), k, rel)


def _has_relevant(
    average_over: str, grades: Grades, labels: Grades, k: int | None, rel: float
) -> bool:
    """Whether something relevant is where the mean wants it, if it wants any."""
    found: dict[str, Callable[[], int]] = {
        "relevant": lambda: _relevant(labels, rel),
        "common_relevant": lambda: _relevant(labels, rel),
        "hits": lambda: len(_hit_ranks(grades, k, rel)),
        "relevant_shown": lambda: len(_hit_ranks(grades, None, rel)),
    }
    return average_over not in found or found[average_over]() > 0


def _mean(one: Question, values: Mapping[Key, Value], world: World) -> Mean:
    """The summary of one metric over some queries."""
    top, bottom, absent, skipped = [], [], 0, 0
    counted = sum(1 for value in values.values() if value is not None)
    for key, value in values.items():
        is_ranked = key in world.lists
        if not _counts(one.average_over, world.labels(key) is not None, is_ranked):
            continue
        absent += not is_ranked
        skipped += value is None and (is_ranked or world.missing != "drop")
        if not _is_counted(one, world, key):
            continue
        weight = world.facts.get((key[0], key[2]), Facts()).weight
        above, below = mean_parts(one, value, world, key)
        top.append(above * (1.0 if one.count else weight))
        bottom.append(below * weight)
    if one.name in OF_SETS:
        keys = [key for key, value in values.items() if value is not None]
        given = {
            "rows": [row for key in keys for row in world.rows(key)],
            "lists": [world.items(key) for key in keys],
            "catalogue": world.catalogue,
        }
        return Mean(computed(one, given) if keys else None, counted, skipped, absent)
    total = sum(top) if any(map(math.isnan, top)) else math.fsum(top)
    mean = total / math.fsum(bottom) if math.fsum(bottom) else None
    return Mean(total if one.count else mean, counted, skipped, absent)


def _counts(average_over: str, is_labelled: bool, is_ranked: bool) -> bool:
    return {
        "labels": is_labelled,
        "relevant": is_labelled,
        "hits": is_labelled,
        "relevant_shown": is_labelled,
        "rankings": is_ranked,
        "common": is_labelled and is_ranked,
        "either": is_labelled or is_ranked,
        "common_relevant": is_labelled and is_ranked,
    }[average_over]


def mean_parts(one: Question, value: Value, world: World, key: Key) -> tuple[float, float]:
    """What a query adds to the numerator and the denominator of a mean."""
    if one.average == "micro":
        return micro_parts(one, world, key)
    if value is None:
        return 0.0, 0.0
    weight = 1.0
    if one.name == "gauc":
        rows = world.rows(key)
        positives = sum(1 for _, grade in rows if grade >= one.arguments["rel"])
        weights = {"none": 1.0, "impressions": len(rows), "positives": positives}
        weight = weights[one.arguments["gauc_weight"]]
    return value * weight, weight


def micro_parts(one: Question, world: World, key: Key) -> tuple[float, float]:
    """What a query adds to the numerator and the denominator of a micro mean."""
    if one.name == "pnr":
        return pnr_parts(world.rows(key), **one.arguments)
    grades, labels = world.grades(key)
    given = dict(one.arguments)
    if one.name == "ndcg":
        best = idcg(grades, labels, **given) or 0.0
        del given["ideal"]
        return world.value(replace(one, name="dcg", arguments=given), key) or 0.0, best
    k, rel = given["k"], given["rel"]
    found = (
        world.value(replace(one, name="num_rel_ret", arguments={"k": k, "rel": rel}), key) or 0.0
    )
    wanted = _recall_bottom(grades, labels, k, rel, given.get("recall_denominator", "r"))
    if one.name == "recall":
        return found, wanted
    listed = _precision_bottom(grades, labels, k, rel, given["precision_denominator"])
    if one.name == "precision":
        return found, listed
    weight = given.get("beta", 1) ** 2
    return (1 + weight) * found, listed + weight * wanted if wanted else 0
