"""The same metrics in plain Python, written from the formulas; imports no sibling.

This module is the proof of the SQL, so it shares nothing with it: no code, no text, no
tables of options. It is written to be read beside the papers, not to be fast.

A ranking is given to a metric as `grades`: the grades of its items in rank order, None
for an item without a label. `labels` are the grades of all labels of the query. Metrics of
pairs are given `rows` instead: score and grade of every item that has both. A metric that
is undefined for a query returns None.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Grades = Sequence[float | None]
Scored = Sequence[tuple[float, float]]
Shown = Sequence[Sequence[str]]
Gain = str | Mapping[float, float]
Value = float | None


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
    grades: Grades, labels: Grades, *, k: int | None, gain: Gain, discount: str, rel: float
) -> Value:
    """Sum of gain x discount in the top k."""
    return _discounted([_gain(grade, gain, rel) for grade in grades[:k]], discount)


def idcg(
    grades: Grades,
    labels: Grades,
    *,
    k: int | None,
    gain: Gain,
    discount: str,
    ideal: str,
    rel: float,
) -> Value:
    """DCG of the best order of the labels (or of the shown items)."""
    items = grades if ideal == "shown_at_k" else labels
    gains = sorted((_gain(grade, gain, rel) for grade in items), reverse=True)
    return _discounted(gains if ideal == "labels" else gains[:k], discount)


def ndcg(
    grades: Grades,
    labels: Grades,
    *,
    k: int | None,
    gain: Gain,
    discount: str,
    ideal: str,
    rel: float,
) -> Value:
    """DCG / IDCG, undefined if IDCG is 0."""
    best = idcg(grades, labels, k=k, gain=gain, discount=discount, ideal=ideal, rel=rel)
    found = dcg(grades, labels, k=k, gain=gain, discount=discount, rel=rel)
    return _ratio(found, best)


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


def recall(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Relevant in the top k / R."""
    return _ratio(len(_hit_ranks(grades, k, rel)), _relevant(labels, rel))


def precision(grades: Grades, labels: Grades, *, k: int, rel: float) -> Value:
    """Relevant in the top k / k, also for a shorter list."""
    return len(_hit_ranks(grades, k, rel)) / k


def f1(grades: Grades, labels: Grades, *, k: int, rel: float) -> Value:
    """Harmonic mean of precision and recall, 0 if both are 0."""
    found = recall(grades, labels, k=k, rel=rel)
    exact = precision(grades, labels, k=k, rel=rel)
    if found is None or exact is None:
        return None
    return 2 * found * exact / (found + exact) if found + exact else 0.0


def hit(grades: Grades, labels: Grades, *, k: int, rel: float) -> Value:
    """1 if any relevant item is in the top k."""
    return 1.0 if _hit_ranks(grades, k, rel) else 0.0


def mrr(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """1 / rank of the first relevant item, 0 without one."""
    ranks = _hit_ranks(grades, k, rel)
    return 1.0 / ranks[0] if ranks else 0.0


def sum_precision(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Precision at the rank of each relevant item retrieved, summed."""
    ranks = _hit_ranks(grades, k, rel)
    return math.fsum(found / rank for found, rank in enumerate(ranks, start=1))


def ap(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Sum of precisions / R."""
    return _ratio(sum_precision(grades, labels, k=k, rel=rel), _relevant(labels, rel))


def rprec(grades: Grades, labels: Grades, *, rel: float) -> Value:
    """Precision at R."""
    return _ratio(num_rel_ret_r(grades, labels, rel=rel), _relevant(labels, rel))


def judged(grades: Grades, labels: Grades, *, k: int | None) -> Value:
    """Labelled items in the top k / items returned there, 0 for an empty list."""
    top = grades[:k]
    return sum(1 for grade in top if grade is not None) / len(top) if top else 0.0


def first_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Rank of the first relevant item."""
    ranks = _hit_ranks(grades, k, rel)
    return float(ranks[0]) if ranks else None


def mean_rank(grades: Grades, labels: Grades, *, k: int | None, rel: float) -> Value:
    """Mean rank of the relevant items retrieved."""
    ranks = _hit_ranks(grades, k, rel)
    return sum(ranks) / len(ranks) if ranks else None


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
            counts((s > t) - (s < t), (g > h) - (g < h))
            for (s, g), (t, h) in itertools.combinations(rows, 2)
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


def coverage(lists: Shown, n_items: int, *, k: int) -> Value:
    """Different items in the top k of any list / items of the catalogue."""
    return _ratio(len({item for items in lists for item in items[:k]}), n_items)


def gini(lists: Shown, n_items: int, *, k: int) -> Value:
    """How unequally the places in the top k go to the items: mean difference / 2 means."""
    shown = Counter(item for items in lists for item in items[:k])
    counts = [*shown.values(), *[0] * (n_items - len(shown))]
    apart = sum(abs(x - y) for x in counts for y in counts)
    return _ratio(apart, 2 * len(counts) * sum(counts))


OF_SETS = {"auc", "coverage", "gini"}
"""The metrics of all lists together: of a single query it is only said if it adds to them."""

OF_ROWS = {
    *("gauc", "num_neg", "num_pos", "num_won"),
    *("num_concordant", "num_discordant", "num_equal", "num_tied", "pnr"),
}
"""The metrics of pairs: their values come from scores and grades."""

_gain = gain  # metrics have a parameter of this name


def _discounted(gains: Iterable[float], how: str) -> float:
    return math.fsum(g * discount(rank, how) for rank, g in enumerate(gains, start=1))


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


# -- a whole evaluation ---------------------------------------------------------------


@dataclass(frozen=True)
class Ranked:
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
class Known:
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
class Asked:
    """A metric to compute.

    Attributes:
        name: A function of this module.
        arguments: Its keyword arguments.
        no_relevant: What an undefined value becomes: skip, zero, nan or one. A metric
            for which that makes no sense has skip.
        average: macro or micro.
        average_over: labels, rankings, common or hits.
        count: Whether its summary is a total, not a mean.
    """

    name: str
    arguments: Mapping[str, Any]
    no_relevant: str = "skip"
    average: str = "macro"
    average_over: str = "labels"
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
    rankings: Sequence[Ranked],
    labels: Sequence[Label],
    asked: Sequence[Asked],
    *,
    ties: str = "id_asc",
    score_precision: str = "double",
    depth: int | None = None,
    unjudged: str = "nonrelevant",
    negative_grades: str = "zero",
    missing: str = "zero",
    segments: Sequence[str] = (),
    known: Sequence[Known] = (),
    n_items: int = 0,
) -> Evaluation:
    """Evaluate every system on every day; duplicates count once, at their best.

    Args:
        rankings: In input order, for ties=input_order.
        labels: With dates, or without.
        asked: The metrics.
        ties: id_asc, id_desc or input_order.
        score_precision: double or float32.
        depth: The rank below which nothing counts, None for no such rank.
        unjudged: nonrelevant, or condensed to leave out items without a label.
        negative_grades: zero, or unjudged to take such a label for none.
        missing: zero or drop.
        segments: The names of the segments, in the order in which the rankings have them.
        known: The queries table.
        n_items: How many items the catalogue has.
    """
    world = World(
        _lists(rankings, ties, score_precision),
        _graded(labels, negative_grades),
        _facts(rankings, known, segments),
        frozenset((one.date, one.query) for one in known if one.date is not None),
        missing,
        unjudged == "condensed",
        depth,
        n_items,
    )
    result = Evaluation()
    groups: dict[tuple[Any, str, str, str], list[tuple[Any, str, str]]] = defaultdict(list)
    for key in _population(world, asked):
        date, system, query = key
        result.per_query[key] = [_per_query(one, world, key) for one in asked]
        groups[date, system, "all", "all"].append(key)
        fact = world.facts.get((date, query), Facts())
        for name in segments:
            groups[date, system, name, fact.segments.get(name, "(unknown)")].append(key)
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
        lists: The items of every ranked list, best first, with their scores.
        graded: The grades of every labelled query's items, by day and query.
        facts: What is known of a query, by day and query.
        searched: The queries of a day that the queries table lists.
        missing: zero or drop.
        condensed: Whether items without a label are left out of the lists.
        depth: How many items of a list count, None for all.
        n_items: How many items the catalogue has.
    """

    lists: Mapping[Key, Mapping[str, float]]
    graded: Mapping[tuple[Any, str], Mapping[str, Value]]
    facts: Mapping[tuple[Any, str], Facts]
    searched: frozenset[tuple[Any, str]]
    missing: str
    condensed: bool
    depth: int | None
    n_items: int

    def labels(self, key: Key) -> Mapping[str, Value] | None:
        """The labels of a query on a day: dated ones, else those that hold for every day."""
        date, _, query = key
        return self.graded.get((date, query), self.graded.get((None, query)))

    def grades(self, key: Key) -> tuple[Grades, Grades]:
        """The grades of a list in rank order, and of all labels."""
        labels = self.labels(key) or {}
        return [labels.get(item) for item in self.items(key)], list(labels.values())

    def scored(self, key: Key) -> Scored:
        """Score and grade of the items of a list that have a label, best first."""
        labels, items = self.labels(key) or {}, self.lists.get(key, {})
        rows = [(items[item], labels.get(item)) for item in self.items(key)]
        return [(score, grade) for score, grade in rows if grade is not None]

    def items(self, key: Key) -> list[str]:
        """The items of a list that count, best first."""
        labels, items = self.labels(key) or {}, list(self.lists.get(key, {}))
        if self.condensed:
            items = [item for item in items if labels.get(item) is not None]
        return items[: self.depth]


def _lists(
    rankings: Sequence[Ranked], ties: str, precision: str
) -> dict[tuple[Any, str, str], dict[str, float]]:
    best: dict[tuple[Any, str, str], dict[str, float]] = defaultdict(dict)
    for row in rankings:
        score = float32(row.order) if precision == "float32" else row.order
        items = best[row.date, row.system, row.query]
        items[row.item] = max(score, items.get(row.item, score))
    return {key: _sorted(items, ties) for key, items in best.items()}


def _sorted(items: Mapping[str, float], ties: str) -> dict[str, float]:
    order = list(items)
    if ties != "input_order":
        order.sort(key=lambda item: item.encode(), reverse=ties == "id_desc")
    order.sort(key=lambda item: items[item], reverse=True)
    return {item: items[item] for item in order}


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
    rankings: Sequence[Ranked], known: Sequence[Known], segments: Sequence[str]
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


def _population(world: World, asked: Sequence[Asked]) -> list[Key]:
    """Every (day, system, query) that some metric's mean runs over."""
    systems = {system for _, system, _ in world.lists}
    days = {(date, query) for date, _, query in world.lists} | world.searched
    if all(date is None for date, _ in days):
        days |= set(world.graded)
    keys = {(date, system, query) for date, query in days for system in systems}
    labelled = {key for key in keys if world.labels(key) is not None}
    if any(one.average_over == "rankings" for one in asked):
        labelled |= set(world.lists)
    return sorted(labelled, key=str)


def _per_query(one: Asked, world: World, key: Key) -> Value:
    """A metric of one query, None where it is left out of the mean."""
    if not _is_counted(one, world, key):
        return None
    value = computed(one, *world.grades(key), world.scored(key))
    if value is None:
        value = {"skip": None, "zero": 0.0, "nan": math.nan, "one": 1.0}[one.no_relevant]
    return value


def computed(one: Asked, grades: Grades, labels: Grades, rows: Scored) -> Value:
    """A metric of one list, None where it is undefined."""
    function: Callable[..., Value] = globals()[one.name]
    if one.name in OF_SETS:
        added = rows if one.name == "auc" else grades
        return 1.0 if added else None
    if one.name in OF_ROWS:
        return function(rows, **one.arguments)
    return function(grades, labels, **one.arguments)


def pooled(one: Asked, rows: Scored, lists: Shown, n_items: int) -> Value:
    """A metric of the lists of some queries together."""
    function: Callable[..., Value] = globals()[one.name]
    if one.name == "auc":
        return function(rows, **one.arguments)
    return function(lists, n_items, **one.arguments) if lists else None


def _is_counted(one: Asked, world: World, key: Key) -> bool:
    """Whether a query is one of those that the mean of a metric is for."""
    is_ranked = key in world.lists
    if not _counts(one.average_over, world.labels(key) is not None, is_ranked):
        return False
    if not is_ranked and world.missing == "drop":
        return False
    k, rel = one.arguments.get("k"), one.arguments.get("rel", 1)
    return one.average_over != "hits" or bool(_hit_ranks(world.grades(key)[0], k, rel))


def _mean(one: Asked, values: Mapping[Key, Value], world: World) -> Mean:
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
        above, below = mean_parts(one, value, *world.grades(key), world.scored(key))
        top.append(above * (1.0 if one.count else weight))
        bottom.append(below * weight)
    if one.name in OF_SETS:
        keys = [key for key, value in values.items() if value is not None]
        rows = [row for key in keys for row in world.scored(key)]
        value = pooled(one, rows, [world.items(key) for key in keys], world.n_items)
        return Mean(value, counted, skipped, absent)
    total = sum(top) if any(map(math.isnan, top)) else math.fsum(top)
    mean = total / math.fsum(bottom) if math.fsum(bottom) else None
    return Mean(total if one.count else mean, counted, skipped, absent)


def _counts(average_over: str, is_labelled: bool, is_ranked: bool) -> bool:
    return {
        "labels": is_labelled,
        "hits": is_labelled,
        "rankings": is_ranked,
        "common": is_labelled and is_ranked,
    }[average_over]


def mean_parts(
    one: Asked, value: Value, grades: Grades, labels: Grades, rows: Scored
) -> tuple[float, float]:
    """What a query adds to the numerator and the denominator of a mean."""
    if one.average == "micro":
        return micro_parts(one, grades, labels, rows)
    if value is None:
        return 0.0, 0.0
    weight = 1.0
    if one.name == "gauc":
        positives = sum(1 for _, grade in rows if grade >= one.arguments["rel"])
        weights = {"none": 1.0, "impressions": len(rows), "positives": positives}
        weight = weights[one.arguments["gauc_weight"]]
    return value * weight, weight


def micro_parts(one: Asked, grades: Grades, labels: Grades, rows: Scored) -> tuple[float, float]:
    """What a query adds to the numerator and the denominator of a micro mean."""
    if one.name == "pnr":
        return pnr_parts(rows, **one.arguments)
    k, rel = one.arguments.get("k"), one.arguments.get("rel", 1)
    found, wanted = len(_hit_ranks(grades, k, rel)), _relevant(labels, rel)
    if one.name == "ndcg":
        best = idcg(grades, labels, **one.arguments) or 0.0
        own = {name: value for name, value in one.arguments.items() if name != "ideal"}
        return dcg(grades, labels, **own) or 0.0, best
    if one.name == "recall":
        return found, wanted
    if one.name == "precision":
        return found, k or 0
    return 2 * found, (k or 0) + wanted if wanted else 0
