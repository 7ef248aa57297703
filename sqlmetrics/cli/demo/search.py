"""The demo's search log: popular and rare queries, two rankers that guess what an item is worth."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import pyarrow as pa

SEED = 20260101
DAYS, QUERIES, A_DAY, ITEMS, SHOWN = 5, 3_000, 1_500, 40, 20
COUNTRIES = {"DE": 0.3, "JP": 0.2, "US": 0.5}
WORDS = (
    (
        "warm",
        "light",
        "red",
        "black",
        "cheap",
        "vintage",
        "waterproof",
        "wireless",
        "small",
        "kids",
    ),
    (
        "running",
        "office",
        "winter",
        "travel",
        "kitchen",
        "garden",
        "gaming",
        "hiking",
        "gym",
        "baby",
    ),
    ("shoes", "jacket", "lamp", "bag", "chair", "knife", "headphones", "watch", "bottle", "mat"),
    ("", "sale", "set"),
)


@dataclass(frozen=True)
class Ranker:
    """How well a ranker guesses an item's true worth, country by country.

    Attributes:
        noise: The standard deviation of its guess.
        silent: How often it answers nothing at all.
    """

    noise: dict[str, float]
    silent: float


RANKERS = {
    "baseline": Ranker({"DE": 1.5, "JP": 1.5, "US": 1.5}, 0.0),
    "candidate": Ranker({"DE": 1.1, "JP": 1.9, "US": 1.2}, 0.01),
}


def make_log(seed: int = SEED) -> tuple[pa.Table, pa.Table]:
    """The rankings and the labels of a shop's search: the same for the same seed.

    Popular queries come every day, rare ones once; the labels hold for every day; about
    2 % of the queries have no good item at all.
    """
    chance = random.Random(seed)
    queries = _queries(chance)
    grades_by_query = {query: _grades(chance) for query in queries}
    rows = list(_rankings(chance, queries, grades_by_query))
    rankings = pa.Table.from_pylist(rows, pa.schema(list(_RANKING_TYPES.items())))
    return rankings, _labels(grades_by_query)


_RANKING_TYPES = {
    "ds": pa.date32(),
    "system": pa.string(),
    "country": pa.string(),
    "query_id": pa.string(),
    "item_id": pa.string(),
    "score": pa.float64(),
}


def _queries(chance: random.Random) -> list[str]:
    """Distinct query texts, the most popular first."""
    texts = [
        " ".join(filter(None, (a, b, c, d)))
        for a in WORDS[0]
        for b in WORDS[1]
        for c in WORDS[2]
        for d in WORDS[3]
    ]
    chance.shuffle(texts)
    return texts[:QUERIES]


def _grades(chance: random.Random) -> dict[str, int]:
    """Grades of a query's items: few are perfect, most are bad."""
    good = chance.random() > 0.02
    weights = (84, 8, 5, 3) if good else (100, 0, 0, 0)
    items = chance.sample(range(100_000), ITEMS)
    return {f"sku-{item:05}": chance.choices(range(4), weights)[0] for item in items}


def _rankings(
    chance: random.Random, queries: list[str], grades_by_query: dict[str, dict[str, int]]
) -> Iterator[dict[str, Any]]:
    popularity = [1 / (rank + 100) for rank in range(len(queries))]
    for day in range(DAYS):
        searched = dict.fromkeys(chance.choices(queries, popularity, k=A_DAY))
        for query in searched:
            country = chance.choices(list(COUNTRIES), list(COUNTRIES.values()))[0]
            for system, ranker in RANKERS.items():
                if chance.random() < ranker.silent:
                    continue
                key = {"ds": date(2026, 1, 1) + timedelta(day), "system": system}
                key |= {"country": country, "query_id": query}
                for item, score in _ranked(chance, grades_by_query[query], ranker.noise[country]):
                    yield key | {"item_id": item, "score": score}


def _ranked(chance: random.Random, grades: dict[str, int], noise: float) -> list[tuple[str, float]]:
    """The best items by a noisy guess; scores are rounded, so some are tied."""
    guesses = [(item, round(grade + chance.gauss(0, noise), 2)) for item, grade in grades.items()]
    return sorted(guesses, key=lambda guess: -guess[1])[:SHOWN]


def _labels(grades_by_query: dict[str, dict[str, int]]) -> pa.Table:
    triples = [
        (q, item, grade) for q, items in grades_by_query.items() for item, grade in items.items()
    ]
    query, item, grade = zip(*triples, strict=True)
    return pa.table({"query_id": query, "item_id": item, "grade": grade})
