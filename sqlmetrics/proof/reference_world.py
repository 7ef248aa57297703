"""What an evaluation is given, put in order in plain Python: lists, labels, what is known."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby, islice
from typing import Any

from sqlmetrics.proof.reference import (
    OF_SETS,
    Grades,
    Question,
    Score,
    Scored,
    Value,
    computed,
    decimal6,
    float32,
    hit_ranks,
    sum_precision,
)
from sqlmetrics.proof.reference_columns import OF_WORTH, Catalogue, value_of_label
from sqlmetrics.proof.reference_groups import Groups

# The mean of a metric over all orders of items with equal scores, in plain Python.

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


@dataclass(frozen=True)
class RankedRow:
    """One row of the rankings; `order` is the score, or the rank negated."""

    query: str
    item: str
    order: Score
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
    group: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)


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


OF_THE_TOP = {
    *("precision", "recall", "f", "f1", "hit", "hole", "judged", "cg"),
    *("num_ret", "num_rel_ret", "num_judged", "recall_of", "found_worth"),
}
"""Metrics that look at what is in the top k, whatever its order there."""

Key = tuple[Any, str, str]
"""Day, system, query."""


@dataclass(frozen=True)
class World:
    """The input, put in order.

    Attributes:
        lists: The items of every ranked list, best first, in groups of equal scores.
        scores: Their scores.
        graded: The grades of every labelled query's items, the best over all groups, by day
            and query.
        grouped: The same by group.
        label_columns: The columns of these items' labels by name, their largest values.
        facts: What is known of a query, by day and query.
        searched: The queries of a day that the queries table lists.
        missing: zero or drop.
        absent_systems: skip or missing.
        of_one_system: Whether a query is of the system alone that has a list for it.
        unjudged: What becomes of items without a label: nonrelevant, condensed, skip or nan.
        depth: How many items of a list count, None for all.
        ties: The rule for equal scores.
        identical_ids: keep, or drop to leave out an item whose id is that of its query.
        catalogue: What is known of items.
        baseline: The system that the others are compared with.
    """

    lists: Mapping[Key, list[list[str]]]
    scores: Mapping[Key, Mapping[str, Score]]
    graded: Mapping[tuple[Any, str], Mapping[str, Value]]
    grouped: Mapping[tuple[Any, str], Groups]
    label_columns: Mapping[tuple[Any, str], Mapping[tuple[str, str], float]]
    facts: Mapping[tuple[Any, str], Facts]
    searched: frozenset[tuple[Any, str]]
    missing: str
    absent_systems: str
    of_one_system: bool
    unjudged: str
    depth: int | None
    ties: str
    identical_ids: str
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
        if self.identical_ids == "drop":
            identical_ids = (key[2], again(key[2]))
            groups = [[item for item in group if item not in identical_ids] for group in groups]
        if self.unjudged == "condensed":
            groups = [[i for i in group if labels.get(i) is not None] for group in groups]
        if self.ties in ("best", "worst"):
            up = self.ties == "worst"
            groups = [
                sorted(group, key=lambda item: labels.get(item) or 0.0, reverse=not up)
                for group in groups
            ]
        return groups

    def tied_in_depth(self, key: Key) -> list[list[str]]:
        """The items of a list that count, in rank order, in groups of equal scores."""
        remaining = iter(self.items(key))
        groups = [[*islice(remaining, len(group))] for group in self.tied(key)]
        return [group for group in groups if group]

    def arguments(self, key: Key) -> dict[str, Any]:
        """All that a metric can be given, by the names of its arguments."""
        grades, labels = self.grades(key)
        date, _, query = key
        return {
            "grades": grades,
            "labels": labels,
            "items": self.items(key),
            "in_pool": [item in (self.labels(key) or {}) for item in self.items(key)],
            "graded": self.labels(key) or {},
            "other": self.items((date, self.baseline or "", query)),
            "own_ties": self.tied_in_depth(key),
            "other_ties": self.tied_in_depth((date, self.baseline or "", query)),
            "catalogue": self.catalogue,
            "groups": self.grouped.get((date, query), self.grouped.get((None, query), {})),
            "rows": self.rows(key),
            "day": date,
        }

    def worths(self, key: Key, *, column: str, rel: float) -> dict[str, Value]:
        """What the labels of a query are worth by a column."""
        date, _, query = key
        values = self.label_columns.get((date, query), self.label_columns.get((None, query), {}))
        labels = self.labels(key) or {}
        return {
            i: value_of_label(grade, values.get((i, column)), rel) for i, grade in labels.items()
        }

    def rows(self, key: Key) -> Scored:
        """Score and grade of the items of a list that have a label, best first."""
        labels, scores = self.labels(key) or {}, self.scores.get(key, {})
        graded = ((item, labels.get(item)) for item in self.items(key))
        return [(scores[item], grade) for item, grade in graded if grade is not None]

    def with_ties(self, question: Question, key: Key) -> Question:
        """The metric at the cutoff that holds for a list: with ties=include there can be more."""
        k = question.arguments.get("k")
        if (
            (question.ties or self.ties) != "include"
            or question.name not in OF_THE_TOP
            or k is None
        ):
            return question
        n_shown = 0
        for group in self.tied(key):
            n_shown += len(group) if n_shown < k else 0
        counted = n_shown if self.depth is None else min(n_shown, self.depth)
        return replace(question, arguments={**question.arguments, "k": max(k, counted)})

    def value(self, question: Question, key: Key) -> Value:
        """A metric of one list, before any policy."""
        inputs, groups = self.arguments(key), self.groups(key)
        if question.name in OF_WORTH:
            arguments = question.arguments
            worths = self.worths(key, column=arguments["column"], rel=arguments["rel"])
            groups = [[worths.get(item) for item in group] for group in self.tied(key)]
            listed = [worths.get(item) for item in self.items(key)]
            inputs |= {"grades": listed, "labels": [*worths.values()]}
        if question.name in OF_SETS:
            return 1.0 if inputs["rows" if question.name == "auc" else "grades"] else None
        if (question.ties or self.ties) != "average":
            return computed(question, inputs)

        def metric(grades: Grades) -> Value:
            return computed(question, inputs | {"grades": grades[: self.depth]})

        return expected(question, metric, groups, self.depth)


def rows_of(
    rankings: Sequence[RankedRow], precision: str, min_score: float | None = None
) -> dict[Key, list[tuple[str, Score]]]:
    """Item and score of the rows of every list, as they come; a list may end up empty."""
    rows: dict[Key, list[tuple[str, Score]]] = defaultdict(list)
    rounded = {"float32": float32, "decimal6": decimal6}.get(precision, float)
    for row in rankings:
        score = row.order if precision == "exact" else rounded(float(row.order))
        list_rows = rows[row.date, row.system, row.query]
        least = -math.inf if min_score is None else min_score
        is_exact = precision == "exact" and not isinstance(score, float)
        if score >= (Decimal(str(least)) if is_exact else rounded(least)):
            list_rows.append((row.item, score))
    return rows


def best_of(rows: Sequence[tuple[str, Score]]) -> dict[str, Score]:
    """Item -> score, the best one of duplicates."""
    best: dict[str, Score] = {}
    for item, score in rows:
        best[item] = max(score, best.get(item, score))
    return best


def again(item: str) -> str:
    """The name of an item's repeats, that no label has."""
    return f"{item}\0again"


def in_order(
    rows: Sequence[tuple[str, Score]], ties: str, *, marked: bool = False
) -> list[list[str]]:
    """The items, best first, in groups of equal scores.

    Args:
        rows: Item and score, as they come.
        ties: The rule for equal scores.
        marked: Whether repeats get a name of their own, that no label has.
    """
    order = [*rows]
    if ties != "input_order":
        order.sort(key=lambda row: row[0].encode(), reverse=ties == "id_desc")
    order.sort(key=lambda row: row[1], reverse=True)
    seen_items: set[str] = set()
    groups = []
    for _, group in groupby(order, key=lambda row: row[1]):
        items = []
        for item, _ in group:
            items.append(again(item) if marked and item in seen_items else item)
            seen_items.add(item)
        groups.append(items)
    return groups


def grades_of(
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


def label_columns_of(
    labels: Sequence[Label],
) -> dict[tuple[Any, str], dict[tuple[str, str], float]]:
    """The columns of the labels by query: (item, column) -> value, the largest of duplicates."""
    values: dict[tuple[Any, str], dict[tuple[str, str], float]] = defaultdict(dict)
    for row in labels:
        query_values = values[row.date, row.query]
        for column, value in row.columns.items():
            if value is not None:
                key = (row.item, column)
                query_values[key] = max(value, query_values.get(key, value))
    return values


def groups_of(labels: Sequence[Label], negative_grades: str) -> dict[tuple[Any, str], Groups]:
    """The grades of the items of each group, by query."""
    rows: dict[tuple[Any, str], dict[str, list[Label]]] = defaultdict(lambda: defaultdict(list))
    for row in labels:
        rows[row.date, row.query][row.group].append(row)
    return {
        key: {
            group: grades_of(group_labels, negative_grades)[key]
            for group, group_labels in groups.items()
        }
        for key, groups in rows.items()
    }


def facts_of(
    rankings: Sequence[RankedRow], query_rows: Sequence[QueryRow], segments: Sequence[str]
) -> dict[tuple[Any, str], Facts]:
    """What the rankings and the queries table say of each query, by day and query."""
    facts: dict[tuple[Any, str], Facts] = defaultdict(Facts)
    for row in rankings:
        fact = facts[row.date, row.query]
        fact.weight = row.weight
        pairs = zip(segments, row.segments, strict=True)
        fact.segments |= {name: value for name, value in pairs if value is not None}
    for query_row in query_rows:
        days = {date for date, _ in facts} if query_row.date is None else {query_row.date}
        for date in days | {query_row.date}:
            fact = facts[date, query_row.query]
            fact.weight = fact.weight if query_row.weight is None else query_row.weight
            fact.segments |= {
                n: value for n, value in query_row.segments.items() if value is not None
            }
    return facts


def thirds(
    rankings: Sequence[RankedRow], query_rows: Sequence[QueryRow]
) -> dict[tuple[Any, str], str]:
    """Head, torso and tail: which third of a day's traffic a query begins in, by day and query."""
    weights = {
        (query_row.date, query_row.query): query_row.weight
        for query_row in query_rows
        if query_row.weight is not None
    }
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
