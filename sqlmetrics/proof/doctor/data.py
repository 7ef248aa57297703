"""A small hard data set: what makes databases give different numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date

import pyarrow as pa

from sqlmetrics.tables.tabular import arrow_table

IDS = ("a", "A", "a ", " a", "á", "a\u0301", "ß", "ss", "10", "9", "😀", "o'x", 'w"e', "b\\s", "%s")
"""Ids that differ only in case, space or accent, and what is written with special signs."""

QUERIES = ("q", "Q", "q ", "é", "e\u0301", "10", "9", "😀", "o'q", "b\\q")
_ALL_QUERIES = (*QUERIES, "long", "one item", "not relevant", "not ranked", "not labelled")
SYSTEMS = ("new", "New", "o'ld")
SCORES = (3.0, 1.0, 0.0, -0.0, 1e-300, 0.1, 0.1 + 1e-11, 2.0**24, 2.0**24 + 1, -5.5)
"""Among them two zeros, and numbers that are equal to 32 bits and to 6 decimals."""

GRADES = (0.0, 0.0, 1.0, 2.0, 3.0)
WORDS = {0.0: "none", 1.0: "low", 2.0: "mid", 3.0: "high"}
DAYS = (date(2024, 2, 29), date(2024, 3, 1), date(2024, 3, 2))
CATEGORIES = ("a", "A", "a ", "o'x")
DEVICES = ("phone", "Phone", "o'x")
SUBTOPICS = ("1", "01", "a", "A", "a ", "á", "", "o'x", "😀")
COUNTRIES = ("de", "DE", "o'x", None)

Rows = list[dict[str, object]]


def tables(longest: int = 1000) -> dict[str, pa.Table]:
    """Name -> table, always the same.

    Args:
        longest: How long the longest list is.
    """
    many = [f"i{number:03}" for number in range(longest)]
    chance = random.Random(20240229)  # noqa: S311  # always the same numbers
    rankings = list(_rankings(chance, many))
    labels = list(_labels(chance, many))
    ids = (*IDS, *many)
    grade_by_pair = {(row["query_id"], row["item_id"]): row["grade"] for row in labels}
    items: Rows = [
        {
            "item_id": item,
            "category": chance.choice(CATEGORIES),
            "popularity": chance.randint(1, 9),
            "users": 12,
        }
        for item in ids
    ]
    queries: Rows = [
        {"query_id": query, "country": country, "traffic": float(chance.randint(0, 3))}
        for query, country in zip(_ALL_QUERIES, COUNTRIES * 9, strict=False)
    ]
    joined = [
        row | {"grade": grade_by_pair.get((row["query_id"], row["item_id"]))}
        for row in rankings
        if row["system"] == "new"
    ]
    rows: dict[str, Rows] = {
        "rankings": rankings,
        "labels": labels,
        "items": items,
        "queries": queries,
        "joined": joined,
        "ranks": list(_ranks(joined)),
        "recent": [row | {"place": 2**53 + int(str(row["place"])) // 2} for row in _ranks(joined)],
        "dated": list(_dated(rankings, chance)),
        "words": [row | {"grade": WORDS[float(str(row["grade"]))]} for row in labels],
        "doubled": rankings + [row | {"score": float(str(row["score"])) + 1} for row in joined[:9]],
        "doubled_labels": labels + [row | {"grade": 3.0} for row in labels[:9]],
        "minus": [row | {"grade": -2.0} if row["grade"] == 1 else row for row in labels],
        "grouped": list(_grouped(labels, chance)),
        "no_score": [row | {"score": None} if row["item_id"] == "A" else row for row in rankings],
    }
    return {name: _table(table_rows) for name, table_rows in rows.items()}


def _rankings(chance: random.Random, many: list[str]) -> Iterator[dict[str, object]]:
    for system in SYSTEMS:
        for query in QUERIES:
            if (system, query) == ("New", "Q"):  # this system has not answered it
                continue
            items = chance.sample(IDS, chance.randint(1, len(IDS)))
            yield from _list(system, query, items, SCORES, chance)
        yield from _list(system, "one item", ["a"], SCORES, chance)
        yield from _list(system, "not relevant", IDS[:5], SCORES, chance)
        yield from _list(system, "not labelled", IDS[:3], SCORES, chance)
    scores = tuple(score / 8 for score in range(40))
    yield from _list("new", "long", chance.sample(many, len(many)), scores, chance)


def _list(
    system: str,
    query: str,
    items: list[str] | tuple[str, ...],
    scores: tuple[float, ...],
    chance: random.Random,
) -> Iterator[dict[str, object]]:
    device = DEVICES[len(query) % len(DEVICES)]
    for item in items:
        row = {"system": system, "query_id": query, "item_id": item}
        yield row | {"score": chance.choice(scores), "device": device}


def _labels(chance: random.Random, many: list[str]) -> Iterator[dict[str, object]]:
    lists: dict[str, list[str]] = {
        query: chance.sample(IDS, chance.randint(1, len(IDS))) for query in QUERIES
    }
    lists |= {
        "long": chance.sample(many, min(60, len(many))),
        "one item": ["a"],
        "not ranked": list(IDS[:4]),
    }
    for query, items in lists.items():
        grades = [chance.choice(GRADES) for _ in items]
        grades[0] = 2.0  # something is relevant
        for item, grade in zip(items, grades, strict=True):
            yield {"query_id": query, "item_id": item, "grade": grade}
    for item in IDS[:4]:
        yield {"query_id": "not relevant", "item_id": item, "grade": 0.0}


def _grouped(labels: Rows, chance: random.Random) -> Iterator[dict[str, object]]:
    """The labels of up to three subtopics each, with grades of their own."""
    for row in labels:
        for subtopic in chance.sample(SUBTOPICS, chance.randint(1, 3)):
            yield row | {"subtopic": subtopic, "grade": chance.choice((0.0, row["grade"]))}


def _ranks(rows: Rows) -> Iterator[dict[str, object]]:
    places: dict[object, int] = {}
    for row in rows:
        query = row["query_id"]
        places[query] = places.get(query, 0) + 1
        yield {"query_id": query, "item_id": row["item_id"], "place": places[query]}


def _dated(rows: Rows, chance: random.Random) -> Iterator[dict[str, object]]:
    """The short lists on some of three days each."""
    is_drawn = {
        (row["system"], row["query_id"], day): chance.random() < 0.6 for row in rows for day in DAYS
    }
    for row in rows:
        for day in DAYS if row["query_id"] != "long" else ():
            if is_drawn[row["system"], row["query_id"], day]:
                yield row | {"ds": day, "score": chance.choice(SCORES)}


def _table(rows: Rows) -> pa.Table:
    kinds = {"ds": "date32", "place": "int64"}
    kinds |= dict.fromkeys(("score", "traffic", "popularity", "users"), "double")
    if not any(isinstance(row.get("grade"), str) for row in rows):
        kinds["grade"] = "double"
    return arrow_table(rows, {name: kinds.get(name, "string") for name in rows[0]})
