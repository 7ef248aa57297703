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
        return any(name.startswith(_FOUND) for name in self.metrics)

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
_SHOWN = "ndcg(ideal=shown_at_k)@10"
_JUDGED = "judged(average_over=common)@10"
_OF_HITS, _OF_ALL = (f"ndcg(average_over={over})@10" for over in ("hits", "labels"))

_FIRST, _SECOND = (f"idcg(gain=binary, ideal=labels_at_k)@{k}" for k in (1, 2))
"""Equal where no query has a second relevant item."""

TIED = "tied items"
"""The share of ranked items whose score another one of their list has."""

_FOUND = ("recall", "hit", "num_rel", "judged")

RULES = (
    Rule(
        "new candidates rank low",
        (Condition(_RECALL, "up"), Condition(_NDCG, "flat")),
        "more relevant items are found, but NDCG of the first ten is as it was",
        "relevant items that one system alone finds, and what the ranker knows of them",
    ),
    Rule(
        "lost below the first page",
        (Condition(_RECALL, "down"), Condition(_NDCG, "flat")),
        "fewer relevant items are found, and NDCG of the first ten does not show it",
        "the candidate sources and filters that changed",
    ),
    Rule(
        "a better order of as many relevant items",
        (Condition(_NDCG, "up"), Condition(_RECALL, "flat")),
        "NDCG of the first ten went up, and about as many relevant items are found",
        "the candidate sources, if more is wanted: the ranker has done its part",
    ),
    Rule(
        "found, and ranked worse",
        (Condition(_RECALL, "up"), Condition(_NDCG, "down")),
        "more relevant items are found, and NDCG of the first ten went down",
        "what the new candidates push out of the first ten",
    ),
    Rule(
        "the reranker works",
        (Condition("mrr", "up"), Condition("hit@20", "flat")),
        "the first relevant item comes earlier, and about as many queries have one in the first "
        "twenty",
        "recall: what no candidate source finds cannot be ranked",
    ),
    Rule(
        "the tail was sorted, not the head",
        (Condition("gauc", "up"), Condition("dcg@10", "down")),
        "pairs are in better order over whole lists, and DCG of the first ten went down",
        "a loss that weighs the first ranks, like LambdaRank's",
    ),
    Rule(
        "better offline, the same online",
        (Condition(_NDCG, "up"), Condition("ctr", "flat")),
        "the labels say that the lists got better, and people click no more",
        "labels learned from another ranker's positions, what else stands on the page, and "
        "whether the first results, which people look at, changed at all",
    ),
    Rule(
        "better offline, worse online",
        (Condition(_NDCG, "up"), Condition("ctr", "down")),
        "the labels say that the lists got better, and people click less",
        "what people click that has no label or a low one: price, freshness, pictures",
    ),
    Rule(
        "the same offline, better online",
        (Condition(_NDCG, "flat"), Condition("ctr", "up")),
        "people click more in lists that the labels find as good as before",
        "new items without a label, and what changed beside the order: titles, pictures, speed",
    ),
    Rule(
        "more clicks of fewer requests",
        (Condition("ctr", "up"), Condition("abandonment", "down")),
        "people who click do so more often, and more of them click nothing",
        "the requests that are abandoned: their queries, devices and countries",
    ),
    Rule(
        "moved by which queries were counted",
        (Condition(_NDCG, "mix"),),
        "the systems' means are apart otherwise than the same queries are",
        "the queries that one system alone answers: missing rankings, other traffic",
    ),
    Rule(
        "good recall, poor order",
        (Condition("recall@20", "least", 0.8), Condition("mrr@20", "most", 0.4)),
        "most relevant items are in the first twenty, and the first of them comes late",
        "the ranker, before the candidate sources",
    ),
    Rule(
        "relevant items wait below the first five",
        (Condition("hit@20", "least", 0.7), Condition("hit@5", "most", 0.4)),
        "many first relevant items stand at ranks 6 to 20",
        "the ranker, and how many results people see without scrolling",
    ),
    Rule(
        "relevant items stand beyond the tenth rank",
        (Condition(_RECALL, "least", 0.5), Condition("recall@10", "half", other=_RECALL)),
        "the relevant items are found, and half of them or more below the first page",
        "the ranker, before the candidate sources",
    ),
    Rule(
        "one target a query",
        (
            Condition("hit@20", "equal", other="recall@20"),
            Condition(_SECOND, "equal", other=_FIRST),
            Condition("num_rel", "least", 0.1),
        ),
        "hit and recall are one number: no query has a second relevant item",
        "mrr, which tells ranks apart; recall adds nothing",
    ),
    Rule(
        "a good order of poor lists",
        (
            Condition(_SHOWN, "least", 0.8),
            Condition(_NDCG, "most", 0.5),
            Condition("recall@20", "most", 0.5),
        ),
        "against the best order of what was shown NDCG is high, against all labels it is not",
        "recall: an NDCG of shown items alone hides what was not found",
    ),
    Rule(
        "a mean over hits alone",
        (Condition(_OF_HITS, "least", 0.6), Condition(_OF_ALL, "most", 0.4)),
        "over queries with a relevant item in the first ten NDCG is high, over all it is not",
        "the mean over all: one over hits leaves out what failed (average_over)",
    ),
    Rule(
        "many tied scores",
        (Condition(TIED, "least", 0.1),),
        "items share their score with others of their list: the rule for ties orders them",
        "sqlmetrics evaluate --tie-audit, which says what the order of equal scores is worth",
    ),
    Rule(
        "few relevant labels a query",
        (Condition("num_rel", "most", 2.0),),
        "recall and NDCG move in large steps",
        "more labels a query, or more queries, before small differences are believed",
    ),
    Rule(
        "no relevant item outside what was retrieved",
        (Condition("num_rel_ret", "equal", other="num_rel"), Condition("num_rel", "least", 0.1)),
        "every relevant item stands in its list, as where labels are made from the lists alone",
        "labels of items that other systems find: without them recall and NDCG may be too high",
    ),
    Rule(
        "many items without a judgment",
        (Condition(_JUDGED, "most", 0.7),),
        "an unjudged item counts as not relevant, which is a guess",
        "sqlmetrics sheet, which lists them by how much they matter; unjudged=condensed",
    ),
)
"""All of them, those of two systems first."""

IN_A_SLICE = Rule(
    "worse in a segment",
    (),
    "the means over all queries hide it",
    "sqlmetrics report, and compare --by: the other segments, and the queries that moved most",
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
            f"{row['n']:,} queries that both have"
        )
    is_met = {
        "flat": -margin <= low and high <= margin,
        "up": low * direction > 0 and high * direction > 0,
        "down": low * direction < 0 and high * direction < 0,
    }[condition.is_]
    number = f"{condition.metric} {row['difference']:+.4f} ({low:+.4f} to {high:+.4f})"
    return number if is_met else ""
