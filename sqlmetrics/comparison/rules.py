"""The rules of a diagnosis: patterns among metrics, what each means, and where to look next.

A rule is data: conditions on what moved between two systems, or on the numbers of one. It fires
where all of them hold. What "flat" is, the margin says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["up", "down", "flat", "least", "most", "equal", "mix"]


@dataclass(frozen=True)
class Condition:
    """One condition of a rule.

    Attributes:
        metric: Of which metric.
        is_: `up` or `down`: it got better or worse, and the interval is beyond 0. `flat`: the
            interval lies within the margin. `least`, `most`: its value is at least or at most
            the limit. `equal`: it is the number of another metric. `mix`: the difference of the
            means is apart from that over common queries by more than the margin.
        limit: The limit, of `least` and `most`.
        other: The other metric, of `equal`.
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
        return any(one.is_ in ("up", "down", "flat", "mix") for one in self.conditions)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that it looks at."""
        names = [name for one in self.conditions for name in (one.metric, one.other) if name]
        return tuple(dict.fromkeys(names))


_NDCG, _RECALL = "ndcg@10", "recall@100"
_SHOWN = "ndcg(ideal=shown_at_k)@10"

RULES = (
    Rule(
        "new candidates rank low",
        (Condition(_RECALL, "up"), Condition(_NDCG, "flat")),
        "more of the relevant are found, but the first ten are as they were",
        "relevant items that one system alone finds, and what the ranker knows of them",
    ),
    Rule(
        "lost below the first page",
        (Condition(_RECALL, "down"), Condition(_NDCG, "flat")),
        "fewer of the relevant are found, and the first ten do not show it",
        "the candidate sources and filters that changed",
    ),
    Rule(
        "a better order of the same items",
        (Condition(_NDCG, "up"), Condition(_RECALL, "flat")),
        "the relevant sit higher, and no more of them are found",
        "the candidate sources, if more is wanted: the ranker has done its part",
    ),
    Rule(
        "found, and ranked worse",
        (Condition(_RECALL, "up"), Condition(_NDCG, "down")),
        "more of the relevant are found, and they sit lower",
        "what the new candidates push out of the first ten",
    ),
    Rule(
        "the reranker works",
        (Condition("mrr", "up"), Condition("hit@20", "flat")),
        "the first relevant item comes earlier among the same candidates",
        "recall: what no candidate source finds cannot be ranked",
    ),
    Rule(
        "the tail was sorted, not the head",
        (Condition("gauc", "up"), Condition("dcg@10", "down")),
        "pairs are in better order over whole lists, and the first ten got worse",
        "a loss that weighs the first ranks, like LambdaRank's",
    ),
    Rule(
        "moved by which queries were counted",
        (Condition(_NDCG, "mix"),),
        "the systems' means are apart otherwise than the same queries are",
        "the queries that one system alone answers: missing rankings, other traffic",
    ),
    Rule(
        "good recall, poor order",
        (Condition("hit@20", "least", 0.8), Condition("mrr@20", "most", 0.4)),
        "most queries have a relevant item in the first twenty, and it comes late",
        "the ranker, before the candidate sources",
    ),
    Rule(
        "relevant items wait below the first five",
        (Condition("hit@20", "least", 0.7), Condition("hit@5", "most", 0.4)),
        "many first relevant items stand at ranks 6 to 20",
        "the ranker, and how many results people see without scrolling",
    ),
    Rule(
        "one target a query",
        (Condition("hit@20", "equal", other="recall@20"),),
        "hit and recall are one number: each query has one relevant item",
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
        "few relevant labels a query",
        (Condition("num_rel", "most", 2.0),),
        "recall and NDCG move in large steps",
        "more labels a query, or more queries, before small differences are believed",
    ),
    Rule(
        "no label outside what was retrieved",
        (Condition("num_rel_ret", "equal", other="num_rel"), Condition("num_rel", "least", 0.1)),
        "every relevant item stands in the list: the labels were made from it",
        "labels of items that other systems find; recall and NDCG are too high until then",
    ),
    Rule(
        "many items without a judgment",
        (Condition("judged@10", "most", 0.7),),
        "an unjudged item counts as not relevant, which is a guess",
        "sqlmetrics sheet, which lists them by how much they matter; unjudged=condensed",
    ),
)
"""All of them, those of two systems first."""

METRICS = tuple(dict.fromkeys(name for rule in RULES for name in rule.metrics))
"""What has to be computed for them."""
