"""A whole evaluation in plain Python: rows of tables in, numbers out."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlmetrics.proof.reference import (
    OF_SETS,
    Grades,
    Question,
    Value,
    combined,
    computed,
    hit_ranks,
    idcg,
    looks_at_all,
    looks_at_grades,
    n_relevant,
    num_rel,
    num_rel_ret,
    num_ret,
    pnr_parts,
    precision_bottom,
    recall_bottom,
    rounded,
)
from sqlmetrics.proof.reference_columns import PARTS_OF_WORTH, Catalogue
from sqlmetrics.proof.reference_world import (
    Facts,
    Key,
    Label,
    QueryRow,
    RankedRow,
    World,
    best_of,
    facts_of,
    grades_of,
    groups_of,
    in_order,
    label_columns_of,
    rows_of,
    thirds,
)


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
    questions: Sequence[Question],
    *,
    ties: str = "id_asc",
    score_precision: str = "double",
    duplicate_rankings: str = "best_score",
    identical_ids: str = "keep",
    min_score: float | None = None,
    depth: int | None = None,
    unjudged: str = "nonrelevant",
    negative_grades: str = "zero",
    missing: str = "zero",
    absent_systems: str = "skip",
    of_one_system: bool = False,
    segments: Sequence[str] = (),
    query_rows: Sequence[QueryRow] = (),
    catalogue: Catalogue | None = None,
    baseline: str | None = None,
    derived: Mapping[str, str] | None = None,
    rel: float = 1.0,
) -> Evaluation:
    """Evaluate every system on every day; duplicate labels count once, at their best.

    Args:
        rankings: In input order, for ties=input_order.
        labels: With dates, or without.
        questions: The metrics.
        ties: id_asc, id_desc, input_order, best, worst, include or average.
        score_precision: double, float32 or decimal6; exact for scores as they are given.
        duplicate_rankings: best_score, first or count.
        identical_ids: keep, or drop to leave out an item whose id is that of its query.
        min_score: The score below which an item is in no list, rounded as scores are; None for
            no such score.
        depth: The rank below which nothing counts, None for no such rank.
        unjudged: nonrelevant; condensed to leave out items without a label; skip or nan to
            leave out the queries where a metric looks at one, or to make its value NaN.
        negative_grades: zero, or unjudged to take such a label for none.
        missing: zero or drop.
        absent_systems: skip, or missing for days between a system's first and last day.
        of_one_system: Whether a query is of the system alone that has a list for it.
        segments: The names of the segments, in the order in which the rankings have them.
        query_rows: The queries table.
        catalogue: The items table.
        baseline: The system that the others are compared with.
        derived: Segments that are told by no row: name -> traffic or relevant_labels.
        rel: The grade from which a label is relevant, to them.
    """
    rows = rows_of(rankings, score_precision, min_score)
    scores = {key: best_of(list_rows) for key, list_rows in rows.items()}
    once = duplicate_rankings not in ("first", "count")
    world = World(
        {
            key: in_order(
                [*scores[key].items()] if once else list_rows,
                ties,
                marked=duplicate_rankings == "first",
            )
            for key, list_rows in rows.items()
        },
        scores,
        grades_of(labels, negative_grades),
        groups_of(labels, negative_grades),
        label_columns_of(labels),
        facts_of(rankings, query_rows, segments),
        frozenset(
            (query_row.date, query_row.query)
            for query_row in query_rows
            if query_row.date is not None
        ),
        missing,
        absent_systems,
        of_one_system,
        unjudged,
        depth,
        ties,
        identical_ids,
        catalogue or {},
        baseline,
    )
    result = Evaluation()
    parts = thirds(rankings, query_rows)
    groups: dict[tuple[Any, str, str, str], list[tuple[Any, str, str]]] = defaultdict(list)
    for key in _population(world, questions):
        date, system, query = key
        result.per_query[key] = [_per_query(question, world, key) for question in questions]
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
            _mean(question, {key: result.per_query[key][i] for key in keys}, world)
            for i, question in enumerate(questions)
        ]
    return result


def _how_many_relevant(labels: Mapping[str, Value], rel: float) -> str:
    """The number of relevant labels of a query, large ones together."""
    number = sum(grade is not None and grade >= rel for grade in labels.values())
    return str(number) if number < 2 else "2-5" if number < 6 else "6+"


def _population(world: World, questions: Sequence[Question]) -> list[Key]:
    """Every (day, system, query) that some metric's mean runs over."""
    days = {(date, query) for date, _, query in world.lists} | world.searched
    if all(date is None for date, _ in days):
        days |= set(world.graded)
    systems = {date: _systems(world, date) for date in {date for date, _ in days}}
    keys = {(date, system, query) for date, query in days for system in systems[date]}
    if world.of_one_system:
        keys &= set(world.lists)
    labelled = {key for key in keys if world.labels(key) is not None}
    if any(question.average_over in ("rankings", "either") for question in questions):
        labelled |= set(world.lists)
    return sorted(labelled, key=str)


def _systems(world: World, day: Any) -> set[str]:
    """The systems that count on a day: those with a list, or with lists before and after it."""
    days: dict[str, set[Any]] = defaultdict(set)
    for date, system, _ in world.lists:
        days[system].add(date)
    if day is None or world.absent_systems == "skip":
        return {system for system, system_days in days.items() if day in system_days}
    return {
        system
        for system, system_days in days.items()
        if min(system_days) <= day <= max(system_days)
    }


def _per_query(question: Question, world: World, key: Key) -> Value:
    """A metric of one query, None where it is left out of the mean."""
    if question.formula:
        if not _is_counted(question, world, key):
            return None
        values = [_per_query(component, world, key) for component in question.components]
        return combined(question.formula, values)
    question = world.with_ties(question, key)
    if not _is_counted(question, world, key):
        return None
    if _looks_at_unjudged(question, world, key):
        return math.nan if world.unjudged == "nan" else None
    value = world.value(question, key)
    if value is None:
        return _undefined(question, world, key)
    return rounded(value, question.rounding)


def _looks_at_unjudged(question: Question, world: World, key: Key) -> bool:
    """Whether an item without a label, among those that a metric looks at, forbids a value."""
    if world.unjudged not in ("skip", "nan") or not looks_at_grades(question):
        return False
    ends = [] if looks_at_all(question) else [question.arguments["k"]]
    last = min((end for end in (*ends, world.depth) if end is not None), default=math.inf)
    tied = (question.ties or world.ties) == "average"
    groups = world.groups(key) if tied else [[grade] for grade in world.grades(key)[0]]
    first = 0
    for group in groups:
        if first < last and None in group:
            return True
        first += len(group)
    return False


def _undefined(question: Question, world: World, key: Key) -> Value:
    """What a query counts for which a metric is undefined."""
    _, labels = world.grades(key)
    is_empty = key not in world.lists and not n_relevant(labels, question.arguments.get("rel", 1))
    values = {"skip": None, "zero": 0.0, "nan": math.nan, "one": 1.0, "one_if_empty": is_empty}
    value = values[question.no_relevant]
    return None if value is None else float(value)


def _is_counted(question: Question, world: World, key: Key) -> bool:
    """Whether a query is one of those that the mean of a metric is for."""
    is_ranked, question = key in world.lists, world.with_ties(question, key)
    if not _counts(question.average_over, world.labels(key) is not None, is_ranked):
        return False
    if not is_ranked and world.missing == "drop":
        return False
    k, rel = question.arguments.get("k"), question.arguments.get("rel", 1)
    return _has_relevant(question.average_over, *world.grades(key), k, rel)


def _has_relevant(
    average_over: str, grades: Grades, labels: Grades, k: int | None, rel: float
) -> bool:
    """Whether something relevant is where the mean wants it, if it wants any."""
    counters: dict[str, Callable[[], int]] = {
        "relevant": lambda: n_relevant(labels, rel),
        "common_relevant": lambda: n_relevant(labels, rel),
        "hits": lambda: len(hit_ranks(grades, k, rel)),
        "relevant_shown": lambda: len(hit_ranks(grades, None, rel)),
    }
    return average_over not in counters or counters[average_over]() > 0


def _mean(question: Question, values: Mapping[Key, Value], world: World) -> Mean:
    """The summary of one metric over some queries."""
    top, bottom, counted_values, absent, skipped = [], [], [], 0, 0
    counted = sum(1 for value in values.values() if value is not None)
    for key, value in values.items():
        is_ranked = key in world.lists
        if not _counts(question.average_over, world.labels(key) is not None, is_ranked):
            continue
        absent += not is_ranked
        skipped += value is None and (is_ranked or world.missing != "drop")
        if not _is_counted(question, world, key):
            continue
        counted_values.append(value)
        weight = world.facts.get((key[0], key[2]), Facts()).weight
        above, below = mean_parts(question, value, world, key)
        top.append(above * (1.0 if question.count else weight))
        bottom.append(below * weight)
    if question.name in OF_SETS:
        keys = [key for key, value in values.items() if value is not None]
        inputs = {
            "rows": [row for key in keys for row in world.rows(key)],
            "lists": [world.items(key) for key in keys],
            "catalogue": world.catalogue,
        }
        return Mean(computed(question, inputs) if keys else None, counted, skipped, absent)
    if question.average in SHARES:
        values_known = [value for value in counted_values if value is not None]
        return Mean(quantile(values_known, SHARES[question.average]), counted, skipped, absent)
    if question.average == "geometric":
        logs = [math.log(max(value, 0.00001)) for value in counted_values if value is not None]
        mean = math.exp(math.fsum(logs) / len(logs)) if logs else None
        return Mean(mean, counted, skipped, absent)
    total = sum(top) if any(map(math.isnan, top)) else math.fsum(top)
    mean = total / math.fsum(bottom) if math.fsum(bottom) else None
    return Mean(total if question.count else mean, counted, skipped, absent)


SHARES = {"median": 0.5, "min": 0.0, "p10": 0.1, "p90": 0.9, "max": 1.0}
"""Averages that are quantiles -> the share of the values that lies below."""


def quantile(values: Sequence[float], share: float) -> Value:
    """A quantile, on the line between two values; None of no values, NaN if one is NaN."""
    if not values or any(map(math.isnan, values)):
        return math.nan if values else None
    ordered = sorted(values)
    position, beyond = divmod(share * (len(ordered) - 1), 1)
    low, high = ordered[int(position)], ordered[min(int(position) + 1, len(ordered) - 1)]
    return low + beyond * (high - low)


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


def mean_parts(question: Question, value: Value, world: World, key: Key) -> tuple[float, float]:
    """What a query adds to the numerator and the denominator of a mean."""
    question = world.with_ties(question, key)
    if question.average == "micro":
        parts = [replace(question, name=name) for name in PARTS_OF_WORTH.get(question.name, ())]
        sums = [world.value(part, key) or 0.0 for part in parts]
        above, below = sums or micro_parts(question, world, key)
        if not _looks_at_unjudged(question, world, key):
            return above, below
        return (math.nan, below) if world.unjudged == "nan" else (0.0, 0.0)
    if value is None:
        return 0.0, 0.0
    weight = 1.0
    if question.name == "gauc":
        rows = world.rows(key)
        positives = sum(1 for _, grade in rows if grade >= question.arguments["rel"])
        weights = {"none": 1.0, "impressions": len(rows), "positives": positives}
        weight = weights[question.arguments["gauc_weight"]]
    return value * weight, weight


def _parts_of_whole_list(metric: Question, world: World, key: Key) -> tuple[float, float]:
    """The same of a metric that has no cutoff."""
    if metric.name == "arp":
        sums = [
            world.value(replace(metric, name=name), key) or 0.0 for name in ("sum_grade_rank", "cg")
        ]
        return sums[0], sums[1]
    (grades, labels), rel = world.grades(key), metric.arguments["rel"]
    hits = num_rel_ret(grades, labels, k=None, rel=rel) or 0.0
    returned = num_ret(grades, labels, k=None) or 0.0
    relevant = num_rel(grades, labels, rel=rel) or 0.0
    if metric.name == "set_recall":
        return hits, relevant
    if metric.name == "set_precision":
        return hits, returned
    weight = metric.arguments["beta"] ** 2
    return (1 + weight) * hits, returned + weight * relevant if relevant else 0.0


def micro_parts(question: Question, world: World, key: Key) -> tuple[float, float]:
    """What a query adds to the numerator and the denominator of a micro mean."""
    if question.name == "pnr":
        return pnr_parts(world.rows(key), **question.arguments)
    grades, labels = world.grades(key)
    arguments = dict(question.arguments)
    if question.name == "ndcg":
        best = idcg(grades, labels, **arguments) or 0.0
        del arguments["ideal"]
        return world.value(replace(question, name="dcg", arguments=arguments), key) or 0.0, best
    if question.name == "arp" or question.name.startswith("set_"):
        return _parts_of_whole_list(question, world, key)
    k, rel = arguments["k"], arguments["rel"]
    n_hits = (
        world.value(replace(question, name="num_rel_ret", arguments={"k": k, "rel": rel}), key)
        or 0.0
    )
    recall_denominator = recall_bottom(
        grades, labels, k, rel, arguments.get("recall_denominator", "r")
    )
    if question.name == "recall":
        return n_hits, recall_denominator
    listed = precision_bottom(grades, labels, k, rel, arguments["precision_denominator"])
    if question.name == "precision":
        return n_hits, listed
    weight = arguments.get("beta", 1) ** 2
    return (1 + weight) * n_hits, listed + weight * recall_denominator if recall_denominator else 0
