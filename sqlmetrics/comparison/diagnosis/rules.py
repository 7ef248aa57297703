"""The rules of a diagnosis: patterns among metrics, what each means, and where to look next.

A rule is data: conditions on what moved between two systems, or on the numbers of one. It fires
where all of them hold. What "flat" is, the margin says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlmetrics.catalog.online import is_online
from sqlmetrics.stats import NOISE

Kind = Literal["up", "down", "flat", "least", "most", "equal", "half", "mix"]


@dataclass(frozen=True)
class Condition:
    """One condition of a rule.

    Attributes:
        metric: Of which metric.
        is_: `up` or `down`: it got better or worse, and the interval is beyond 0. `flat`: the
            interval lies within the margin. `least`, `most`: its value is at least or at most
            the limit. `equal`: it is the number of another metric; `half`: half of it or less.
            `mix`: the difference of the
            means is apart from that over common queries by more than the margin.
        limit: The limit, of `least` and `most`.
        other: The other metric, of `equal` and `half`.
    """

    metric: str
    is_: Kind
    limit: float = 0.0
    other: str = ""


@dataclass(frozen=True)
class Rule:
    """A pattern that has a reason.

    Attributes:
        title: What it is called in the report.
        conditions: All of them hold where it fires.
        meaning: What it says.
        look: What to look at next.
    """

    title: str
    conditions: tuple[Condition, ...]
    meaning: str
    look: str

    @property
    def of_a_pair(self) -> bool:
        """Whether it is about a change, not about one system."""
        return any(condition.is_ in ("up", "down", "flat", "mix") for condition in self.conditions)

    @property
    def rests_on_labels_of_others(self) -> bool:
        """Whether it says nothing where labels are made from the lists themselves.

        All that is relevant is found then, and nothing is without a judgment.
        """
        return any(name.startswith(_RECALL_METRICS) for name in self.metrics)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that it looks at."""
        names = [
            name
            for condition in self.conditions
            for name in (condition.metric, condition.other)
            if name
        ]
        return tuple(dict.fromkeys(names))


_NDCG, _RECALL = "ndcg@10", "recall@100"
_OF_SHOWN = "ndcg(ideal=shown_at_k)@10"
_JUDGED = "judged(average_over=common)@10"
_OF_HITS, _OF_ALL = (f"ndcg(average_over={over})@10" for over in ("hits", "labels"))

_FIRST, _SECOND = (f"idcg(gain=binary, ideal=labels_at_k)@{k}" for k in (1, 2))
"""Equal where no query has a second relevant item."""

TIED = "tied items"
"""The share of ranked items whose score another one of their list has."""

_RECALL_METRICS = ("recall", "hit", "num_rel", "judged")

RULES = (
    Rule(
        "more relevant items, same top 10",
        (Condition(_RECALL, "up"), Condition(_NDCG, "flat")),
        "the system finds more relevant items, but NDCG@10 is as high as before",
        "relevant items that only one system finds, and what the ranker knows about them",
    ),
    Rule(
        "fewer relevant items, same top 10",
        (Condition(_RECALL, "down"), Condition(_NDCG, "flat")),
        "the system finds fewer relevant items, and NDCG@10 does not show it",
        "the candidate sources and filters that changed",
    ),
    Rule(
        "better top 10, same recall",
        (Condition(_NDCG, "up"), Condition(_RECALL, "flat")),
        "NDCG@10 went up, and the system finds about as many relevant items as before",
        "the candidate sources, if you want to find more relevant items",
    ),
    Rule(
        "more relevant items, worse top 10",
        (Condition(_RECALL, "up"), Condition(_NDCG, "down")),
        "the system finds more relevant items, but NDCG@10 went down",
        "relevant items that new candidates push out of the top 10",
    ),
    Rule(
        "the reranker works",
        (Condition("mrr", "up"), Condition("hit@20", "flat")),
        "the first relevant item ranks higher, and about as many queries have one in the top 20",
        "recall: a reranker cannot rank items that no candidate source finds",
    ),
    Rule(
        "better order overall, worse top 10",
        (Condition("gauc", "up"), Condition("dcg@10", "down")),
        "more pairs of items are in the right order over whole lists, but DCG@10 went down",
        "a training loss that weights the top ranks, such as LambdaRank",
    ),
    Rule(
        "better offline, same online",
        (Condition(_NDCG, "up"), Condition("ctr", "flat")),
        "the labels say that the lists got better, but users do not click more",
        "whether the labels follow the positions of another ranker, what else the page shows, "
        "and whether the top results, which users see first, changed at all",
    ),
    Rule(
        "better offline, worse online",
        (Condition(_NDCG, "up"), Condition("ctr", "down")),
        "the labels say that the lists got better, but users click less",
        "clicked items with a low label or none: price, freshness or pictures may attract clicks",
    ),
    Rule(
        "same offline, better online",
        (Condition(_NDCG, "flat"), Condition("ctr", "up")),
        "users click more, but the labels say that the lists are as good as before",
        "new items without a label, and changes other than the order: titles, pictures, speed",
    ),
    Rule(
        "more clicks from fewer requests",
        (Condition("ctr", "up"), Condition("abandonment", "down")),
        "the click rate went up, but more requests get no click at all",
        "the abandoned requests: their queries, devices and countries",
    ),
    Rule(
        "the systems answer different queries",
        (Condition(_NDCG, "mix"),),
        "the means differ by another amount than on the queries that both systems answer",
        "the queries that only one system answers: missing rankings or different traffic",
    ),
    Rule(
        "good recall, poor order",
        (Condition("recall@20", "least", 0.8), Condition("mrr@20", "most", 0.4)),
        "most relevant items are in the top 20, but the first of them ranks low",
        "the ranker first, then the candidate sources",
    ),
    Rule(
        "relevant items miss the top 5",
        (Condition("hit@20", "least", 0.7), Condition("hit@5", "most", 0.4)),
        "for many queries the first relevant item is at ranks 6 to 20",
        "the ranker, and how many results users see without scrolling",
    ),
    Rule(
        "relevant items rank below 10",
        (Condition(_RECALL, "least", 0.5), Condition("recall@10", "half", other=_RECALL)),
        "at least half of the relevant items that are found rank below 10",
        "the ranker first, then the candidate sources",
    ),
    Rule(
        "one relevant item per query",
        (
            Condition("hit@20", "equal", other="recall@20"),
            Condition(_SECOND, "equal", other=_FIRST),
            Condition("num_rel", "least", 0.1),
        ),
        "no query has a second relevant item, so hit and recall are the same number",
        "mrr, which depends on the rank; recall adds nothing to hit",
    ),
    Rule(
        "good order, poor recall",
        (
            Condition(_OF_SHOWN, "least", 0.8),
            Condition(_NDCG, "most", 0.5),
            Condition("recall@20", "most", 0.5),
        ),
        "NDCG is high against the best order of the shown items, but low against all labels",
        "recall: an NDCG of the shown items alone hides relevant items that were not found",
    ),
    Rule(
        "a mean over hits hides failed queries",
        (Condition(_OF_HITS, "least", 0.6), Condition(_OF_ALL, "most", 0.4)),
        "NDCG is high over queries with a relevant item in the top 10, but low over all queries",
        "the mean over all queries: average_over=hits leaves out the queries without a hit",
    ),
    Rule(
        "many tied scores",
        (Condition(TIED, "least", 0.1),),
        "many items share their score with another item of the list: the rule for ties orders them",
        "sqlmetrics evaluate --tie-audit, which says how much tied scores change each metric",
    ),
    Rule(
        "few relevant labels per query",
        (Condition("num_rel", "most", 2.0),),
        "with so few relevant items per query, recall and NDCG move in large steps",
        "more labels per query, or more queries, before you trust a small difference",
    ),
    Rule(
        "no relevant label outside the lists",
        (Condition("num_rel_ret", "equal", other="num_rel"), Condition("num_rel", "least", 0.1)),
        "the lists contain every relevant item, as if the labels were made from these lists alone",
        "labels of items that other systems find: without them recall and NDCG may be too high",
    ),
    Rule(
        "many items without a label",
        (Condition(_JUDGED, "most", 0.7),),
        "an item without a label counts as not relevant, which is a guess",
        "sqlmetrics sheet, which lists the unlabelled items that matter most; --unjudged condensed",
    ),
)
"""All of them, those of two systems first."""

IN_A_SLICE = Rule(
    "worse in a segment",
    (),
    "the mean over all queries hides this loss",
    "the other segments (compare --by) and the queries that moved most (sqlmetrics report)",
)
"""What is told where a segment of two systems is worse, as `report` chooses it."""

_NAMES = tuple(dict.fromkeys(name for rule in RULES for name in rule.metrics))
ONLINE = tuple(name for name in _NAMES if is_online(name))
"""What has to be computed of a click log itself."""
METRICS = tuple(name for name in _NAMES if name not in (*ONLINE, TIED))
"""What has to be computed of lists."""


def fired(
    rule: Rule,
    values: Mapping[str, float],
    rows: Mapping[str, Mapping[str, Any]],
    before: Mapping[str, float],
    margin: float,
) -> list[str]:
    """The numbers behind a rule that fires; none where it does not."""
    numbers = []
    for condition in rule.conditions:
        text = (
            _of_value(condition, values)
            if condition.is_ in ("least", "most", "equal", "half")
            else _of_change(condition, values, rows, before, margin)
        )
        if not text:
            return []
        numbers.append(text)
    return numbers


def _of_value(condition: Condition, values: Mapping[str, float]) -> str:
    value = values.get(condition.metric)
    if value is None:
        return ""
    other_value = values.get(condition.other)
    if condition.is_ == "half":
        is_half = other_value is not None and value <= other_value / 2
        return (
            f"{condition.metric} {value:.4f}, {condition.other} {other_value:.4f}"
            if is_half
            else ""
        )
    if condition.is_ == "equal":
        same = other_value is not None and abs(value - other_value) <= NOISE * max(1.0, abs(value))
        return f"{condition.metric} and {condition.other} are both {value:.4f}" if same else ""
    is_met = value >= condition.limit if condition.is_ == "least" else value <= condition.limit
    return f"{condition.metric} {value:.4f}" if is_met else ""


def _of_change(
    condition: Condition,
    values: Mapping[str, float],
    rows: Mapping[str, Mapping[str, Any]],
    before: Mapping[str, float],
    margin: float,
) -> str:
    row = rows.get(condition.metric)
    if row is None or row["ci_low"] is None:
        return ""
    low, high, direction = row["ci_low"], row["ci_high"], row["direction"]
    if condition.is_ == "mix":
        if condition.metric not in values or condition.metric not in before:
            return ""
        difference = values[condition.metric] - before[condition.metric]
        mixed = difference - row["difference"]
        if abs(mixed) <= margin:
            return ""
        return (
            f"{condition.metric} {difference:+.4f} between the means, "
            f"{row['difference']:+.4f} over the "
            f"{row['n']:,} queries of both systems"
        )
    is_met = {
        "flat": -margin <= low and high <= margin,
        "up": low * direction > 0 and high * direction > 0,
        "down": low * direction < 0 and high * direction < 0,
    }[condition.is_]
    number = f"{condition.metric} {row['difference']:+.4f} ({low:+.4f} to {high:+.4f})"
    return number if is_met else ""
