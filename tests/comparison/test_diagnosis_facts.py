"""`diagnose` on random worlds: no sentence says what plain Python finds otherwise in the data."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

import pyarrow as pa
from marked import by_turns
from worlds import EXAMPLES

import sqlmetrics as sm
from sqlmetrics.comparison.diagnosis.diagnosis import MARGIN
from sqlmetrics.comparison.diagnosis.rules import ONLINE, RULES

Lists = Mapping[str, Mapping[str, float]]
"""Query -> item -> score."""
SYSTEMS = 6
"""As many in a world: one evaluation tries the rules of one system as often, those of two fewer."""
ALMOST = 1e-9


@dataclass(frozen=True)
class Facts:
    """What is true of a system, by its lists and the labels.

    Attributes:
        lists: Its lists.
        grades: Query -> item -> grade.
        drops: Whether a query without a list does not count.
    """

    lists: Lists
    grades: Mapping[str, Mapping[str, int]]
    drops: bool

    def order(self, query: str) -> list[str]:
        """The items of a list, best first."""
        scores = self.lists.get(query, {})
        return sorted(scores, key=lambda item: (-scores[item], item.encode()))

    def relevant(self, query: str) -> set[str]:
        """The relevant items of a query."""
        return {item for item, grade in self.grades[query].items() if grade >= 1}

    def queries(self) -> list[str]:
        """The queries that count."""
        return [query for query in self.grades if query in self.lists or not self.drops]

    def with_relevant(self) -> list[str]:
        """Those of them that have something to find."""
        return [query for query in self.queries() if self.relevant(query)]

    def recall(self, k: int) -> dict[str, float]:
        """Query -> the share of its relevant items in the first k."""
        return {
            query: len({*self.order(query)[:k]} & self.relevant(query)) / len(self.relevant(query))
            for query in self.with_relevant()
        }

    def first(self, query: str) -> float:
        """The rank of the first relevant item; infinite if there is none."""
        relevant = self.relevant(query)
        places = [rank for rank, item in enumerate(self.order(query), 1) if item in relevant]
        return min(places, default=math.inf)

    def hit(self, k: int) -> dict[str, float]:
        """Query -> 1 if a relevant item stands in the first k."""
        return {query: float(self.first(query) <= k) for query in self.with_relevant()}

    def reciprocal(self) -> dict[str, float]:
        """Query -> 1 / the rank of the first relevant item."""
        return {query: 1 / self.first(query) for query in self.with_relevant()}

    def dcg(self) -> dict[str, float]:
        """Query -> DCG@10."""
        return {
            query: discounted([self.grades[query].get(item, 0) for item in self.order(query)])
            for query in self.queries()
        }

    def ndcg(self) -> dict[str, float]:
        """Query -> NDCG@10."""
        dcg = self.dcg()
        best = {
            query: discounted(sorted(self.grades[query].values(), reverse=True))
            for query in self.queries()
        }
        return {query: dcg[query] / best[query] for query in dcg if best[query]}

    def pairs(self) -> dict[str, float]:
        """Query -> the share of its pairs in the right order."""
        shares = {}
        for query in self.queries():
            scores = self.lists.get(query, {})
            rows = [
                (scores[item], g >= 1) for item, g in self.grades[query].items() if item in scores
            ]
            won = [
                (high > low) + (high == low) / 2
                for high, is_relevant in rows
                for low, is_other in rows
                if is_relevant and not is_other
            ]
            if won:
                shares[query] = fmean(won)
        return shares

    def unjudged(self) -> list[float]:
        """Of queries with a list and a label, the share of the first ten without a label."""
        tops = [(query, self.order(query)[:10]) for query in self.grades if query in self.lists]
        return [fmean(item not in self.grades[query] for item in top) for query, top in tops if top]

    def tied(self) -> float:
        """The share of items whose score another one of their list has."""
        scores = [[*list_scores.values()] for list_scores in self.lists.values()]
        return fmean(
            list_scores.count(score) > 1 for list_scores in scores for score in list_scores
        )


def discounted(grades: list[int]) -> float:
    """DCG of the first ten."""
    return math.fsum((2**g - 1) / math.log2(rank + 1) for rank, g in enumerate(grades[:10], 1))


def mean(values: Mapping[str, float]) -> float:
    return fmean(values.values())


ALONE: Mapping[str, Callable[[Facts], bool]] = {
    "good recall, poor order": lambda facts: (
        mean(facts.recall(20)) > 0.5
        and fmean(facts.first(query) == 1 for query in facts.with_relevant()) < 0.5
    ),
    "relevant items miss the top 5": lambda facts: (
        fmean(5 < facts.first(query) <= 20 for query in facts.with_relevant()) >= 0.3 - ALMOST
    ),
    "relevant items rank below 10": lambda facts: (
        mean(facts.recall(10)) <= mean(facts.recall(100)) / 2 + ALMOST
    ),
    "one relevant item per query": lambda facts: (
        {len(facts.relevant(query)) for query in facts.queries()} <= {0, 1}
        and facts.hit(20) == facts.recall(20)
    ),
    "good order, poor recall": lambda facts: (
        mean(facts.recall(20)) <= 0.5 and mean(facts.ndcg()) <= 0.5
    ),
    "a mean over hits hides failed queries": lambda facts: 0 in facts.hit(10).values(),
    "many tied scores": lambda facts: facts.tied() >= 0.1 - ALMOST,
    "few relevant labels per query": lambda facts: (
        fmean(len(facts.relevant(query)) for query in facts.queries()) <= 2 + ALMOST
    ),
    "no relevant label outside the lists": lambda facts: all(
        facts.relevant(query) <= {*facts.order(query)} for query in facts.queries()
    ),
    "many items without a label": lambda facts: fmean(facts.unjudged()) >= 0.3 - ALMOST,
}
"""Title -> whether its sentences are true of a system."""


def moved(metric: Callable[[Facts], Mapping[str, float]], new: Facts, old: Facts) -> float:
    """How far a metric moved over the queries that both have a value of."""
    after, before = metric(new), metric(old)
    return fmean(after[query] - before[query] for query in after.keys() & before.keys())


def is_flat(difference: float) -> bool:
    return abs(difference) <= MARGIN + ALMOST


def recall_and_ndcg(new: Facts, old: Facts) -> tuple[float, float]:
    return moved(lambda facts: facts.recall(100), new, old), moved(Facts.ndcg, new, old)


BESIDE: Mapping[str, Callable[[Facts, Facts], bool]] = {
    "more relevant items, same top 10": lambda new, old: (
        recall_and_ndcg(new, old)[0] > 0 and is_flat(recall_and_ndcg(new, old)[1])
    ),
    "fewer relevant items, same top 10": lambda new, old: (
        recall_and_ndcg(new, old)[0] < 0 and is_flat(recall_and_ndcg(new, old)[1])
    ),
    "better top 10, same recall": lambda new, old: (
        is_flat(recall_and_ndcg(new, old)[0]) and recall_and_ndcg(new, old)[1] > 0
    ),
    "more relevant items, worse top 10": lambda new, old: (
        recall_and_ndcg(new, old)[0] > 0 > recall_and_ndcg(new, old)[1]
    ),
    "the reranker works": lambda new, old: (
        moved(Facts.reciprocal, new, old) > 0
        and is_flat(moved(lambda facts: facts.hit(20), new, old))
    ),
    "better order overall, worse top 10": lambda new, old: (
        moved(Facts.pairs, new, old) > 0 > moved(Facts.dcg, new, old)
    ),
    "the systems answer different queries": lambda new, old: (
        abs(mean(new.ndcg()) - mean(old.ndcg()) - moved(Facts.ndcg, new, old)) > MARGIN
    ),
}
"""Title -> whether its sentences are true of a system beside its baseline."""


def world(chance: random.Random) -> tuple[dict[str, Lists], dict[str, dict[str, int]]]:
    """Systems whose lists are alike, short or long, well or badly sorted, judged in part."""
    n_items, n_queries = chance.choice([5, 30, 120]), chance.choice([4, 8, 12])
    items = [f"i{number}" for number in range(n_items)]
    most, is_judged = chance.choice([1, 1, 2, 5]), chance.choice([0.0, 0.5, 1.0])
    grades: dict[str, dict[str, int]] = {}
    for number in range(n_queries):
        relevant = chance.sample(items, min(chance.randint(chance.choice([0, 1]), most), n_items))
        grades[f"q{number}"] = {
            item: chance.choice([1, 3]) if item in relevant else 0
            for item in items
            if item in relevant or chance.random() < is_judged
        }
    grades = {query: item_grades for query, item_grades in grades.items() if item_grades} or {
        "q": {items[0]: 1}
    }
    systems: dict[str, Lists] = {}
    for number in range(SYSTEMS):
        systems[f"s{number}"] = dict(_lists(chance, grades, items))
    return systems, grades


def _lists(chance: random.Random, grades: Mapping[str, Mapping[str, int]], items: list[str]):  # type: ignore[no-untyped-def]
    """The lists of a system, which has a bent of its own."""
    skill, has = chance.choice([-3.0, -0.3, 0.0, 0.3, 3.0]), chance.choice([0.6, 1.0, 1.0])
    length, digits = chance.choice([0.3, 1.0, 1.0]), chance.choice([0, 6, 6])
    finds, behind = chance.choice([0.5, 1.0, 1.0]), chance.choice([0, 0, 7, 15])
    queries = [query for query in grades if chance.random() < has] or [*grades]
    for query in queries:
        judged = grades[query]
        listed = chance.sample(items, max(1, round(length * len(items))))
        listed = [i for i in listed if not judged.get(i) or chance.random() < finds] or items[:1]
        listed = [
            *listed,
            *(i for i in judged if judged[i] and i not in listed and finds == 1.0),
        ]
        scores = {item: chance.random() + skill * (judged.get(item, 0) > 0) for item in listed}
        order = sorted(scores, key=lambda item: -scores[item])
        order = [*order[behind:], *order[:behind]] if len(order) > 2 * behind else order
        yield (
            query,
            {i: round(-rank / (1 if digits else 3), digits) for rank, i in enumerate(order)},
        )


def tables(
    systems: Mapping[str, Lists], grades: Mapping[str, Mapping[str, int]]
) -> tuple[pa.Table, pa.Table]:
    """Rankings and labels."""
    rankings = [
        {"system": system, "query_id": query, "item_id": item, "score": float(score)}
        for system, lists in systems.items()
        for query, scores in lists.items()
        for item, score in scores.items()
    ]
    labels = [
        {"query_id": query, "item_id": item, "grade": grade}
        for query, item_grades in grades.items()
        for item, grade in item_grades.items()
    ]
    return pa.Table.from_pylist(rankings), pa.Table.from_pylist(labels)


def test_every_rule_of_lists_is_read_back() -> None:
    of_lists = {rule.title for rule in RULES if not {*rule.metrics} & {*ONLINE}}
    assert of_lists == {*ALONE, *BESIDE}


@by_turns(4)
def test_no_sentence_says_what_the_data_contradict() -> None:
    """On 1,000 worlds by night, of which each has six systems; there every rule fires."""
    fired: set[str] = set()
    for seed in range(max(2, EXAMPLES // SYSTEMS)):
        chance = random.Random(seed)
        systems, grades = world(chance)
        missing = chance.choice(["zero", "drop"])
        diagnosis = sm.diagnose(*tables(systems, grades), missing=missing, check=False)
        facts = {name: Facts(lists, grades, missing == "drop") for name, lists in systems.items()}
        for finding in diagnosis:
            title, system_facts = finding.rule.title, facts[finding.system]
            is_true = (
                BESIDE[title](system_facts, facts[finding.baseline])
                if finding.baseline
                else ALONE[title](system_facts)
            )
            assert is_true, (seed, title, finding.system, finding.baseline, finding.numbers)
            fired.add(title)
    if EXAMPLES >= 1000:
        assert fired == {*ALONE, *BESIDE}
