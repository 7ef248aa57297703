"""Logs of which it is known how probable each list was."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
THETA = {1: 1.0, 2: 0.62, 3: 0.41, 4: 0.08}
COLUMNS = {"request": "request", "query": "query", "item": "item", "position": "position"}
COLUMNS |= {"clicked": "clicked", "user": "user"}
SCORED = {"query": "list", "item": "item", "score": "score"}


def small_log(seed: int, requests: int = 40) -> list[Row]:
    """Requests of six queries, some without a user, with up to five of eight items."""
    chance = random.Random(seed)
    return [
        {
            "request": f"r{number}",
            "query": query,
            "item": item,
            "position": position,
            "clicked": int(chance.random() < 0.5 / position + 0.1),
            "user": user,
        }
        for number in range(requests)
        for query in [f"q{chance.randrange(6)}"]
        for user in [f"u{chance.randrange(9)}" if chance.random() < 0.8 else None]
        for position, item in enumerate(chance.sample("abcdefgh", chance.randint(2, 5)), 1)
    ]


def new_lists(seed: int, names: Sequence[str]) -> list[Row]:
    """Scored items of two systems for most of these names, with ties; some were never shown."""
    chance = random.Random(seed + 1000)
    return [
        {"list": name, "item": item, "score": float(chance.randrange(4)), "system": system}
        for system in ("one", "two")
        for name in names
        if chance.random() < 0.8
        for item in chance.sample("abcdefghz", 6)
    ]


def ordered(rows: Sequence[Row], system: str) -> dict[str, list[str]]:
    """List -> its items; equal scores go by item."""
    lists: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: (-row["score"], row["item"])):
        if row["system"] == system:
            lists.setdefault(row["list"], []).append(row["item"])
    return lists


ESTIMATE_METRICS = ["dcg@3", "dcg", "precision@2", "recall@2", "sum_reciprocal_rank", "clicks@4"]


def bandit_log(seed: int) -> list[Row]:
    """Single choices of six items at three positions by a policy that is told."""
    chance = random.Random(seed)
    odds = {p: [chance.random() + 0.1 for _ in "abcdef"] for p in (1, 2, 3)}
    rows = []
    for number in range(300):
        position = chance.choice((1, 2, 3))
        items, of = "abcdef"[: 5 + (position < 3)], odds[position]
        (item,) = chance.choices(items, of[: len(items)])
        score = of[items.index(item)] / sum(of[: len(items)])
        user = f"u{chance.randrange(40)}" if chance.random() < 0.9 else None
        clicked = int(chance.random() < 0.2)
        rows.append(
            {"request": number + 1, "item": item, "position": position, "clicked": clicked}
            | {"user": user, "score": score}
        )
    return rows


NO_REQUEST: Any = {"request": None, "query": None, "propensity_score": "score"}
