"""Labels of several judges drawn by lot, and tables of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa

IDS = ("a", "B", "it's", "ü", "10", "9", "-x", "a b", "Ω", "NULL")
SCALES = ((0.0, 1.0, 2.0, 3.0), (0.0, 1.0), (0.0, 0.5, 3.0))

Pairs = dict[tuple[str, str], tuple[float | None, ...]]


def world(chance: random.Random, n_judges: int, scale: Sequence[float], n_queries: int) -> Pairs:
    """(Query, item) -> the grade of each judge: gaps, odd ids, judges good and bad."""
    good = [chance.random() for _ in range(n_judges)]
    pairs: Pairs = {}
    for number in range(n_queries):
        for item in chance.sample(IDS, chance.randint(1, len(IDS))):
            truth = chance.choice(scale)
            grades = [truth if chance.random() < g else chance.choice(scale) for g in good]
            labels = tuple(g if chance.random() < 0.9 else None for g in grades)
            if any(g is not None for g in labels):
                pairs[f"q'{number}", item] = labels
    return pairs


def table(pairs: Pairs, names: Sequence[str]) -> pa.Table:
    """A column of grades for each judge."""
    columns = {"query_id": [q for q, _ in pairs], "item_id": [i for _, i in pairs]}
    grades = {n: pa.array([g[i] for g in pairs.values()], "double") for i, n in enumerate(names)}
    return pa.table({**columns, **grades})


def rows_of(labels: pa.Table, names: Sequence[str]) -> pa.Table:
    """A row for each judge and pair."""
    rows = [
        {"query_id": r["query_id"], "item_id": r["item_id"], "rater": name, "grade": r[name]}
        for r in labels.to_pylist()
        for name in names
    ]
    return pa.Table.from_pylist([row for row in rows if row["grade"] is not None])


def partial_runs(pairs: Pairs, systems: Sequence[str], chance: random.Random) -> pa.Table:
    """Rankings of systems, each of which shows some of the pairs."""
    rows = [
        {"query_id": query, "item_id": item, "score": chance.random(), "system": system}
        for system in systems
        for query, item in pairs
        if chance.random() < 0.6
    ]
    return pa.Table.from_pylist(rows)


def tops(runs: pa.Table, k: int) -> dict[tuple[str, str], list[str]]:
    """Pair -> the systems that show it in their first k, in order."""
    lists: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for row in runs.to_pylist():
        of_list = lists.setdefault((row["system"], row["query_id"]), [])
        of_list.append((-row["score"], row["item_id"]))
    systems: dict[tuple[str, str], list[str]] = {}
    for (system, query), items in sorted(lists.items()):
        for _, item in sorted(items)[:k]:
            systems.setdefault((query, item), []).append(system)
    return systems
