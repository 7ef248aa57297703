"""Interleaved logs whose truth is known: two rankers' lists, merged, looked at and clicked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

BASELINE, SYSTEM = "old", "new"


class Experiment(NamedTuple):
    """An interleaved log, and what the systems are worth.

    Attributes:
        log: One row per item shown: request_id, item_id, position, clicked, user_id, team.
        rankings: The lists before the merge: request_id, system, item_id, rank.
        truth: By how many clicks a request the new system's lists are better, of the places
            that both merges show whole.
        worth: By how many clicks a request they are better if shown whole instead.
        attractiveness: Item -> the chance of a click once it is looked at, query by query.
    """

    log: pa.Table
    rankings: pa.Table
    truth: float
    worth: float


def balanced_merge(first: Sequence[Any], second: Sequence[Any], length: int) -> list[Any]:
    """The lists by turns, without what is there already (Joachims 2002)."""
    merged: list[Any] = []
    for first_item, second_item in zip(first, second, strict=True):
        for item in (first_item, second_item):
            if item not in merged:
                merged.append(item)
    return merged[:length]


def team_draft(
    first: Sequence[Any], second: Sequence[Any], length: int, draw: Any
) -> list[tuple[Any, str]]:
    """Items and who picked them: a coin says who picks first in each round (Radlinski 2008)."""
    picked: list[tuple[Any, str]] = []
    while len(picked) < length:
        round_of = [(first, SYSTEM), (second, BASELINE)]
        for items, team in round_of if draw.random() < 0.5 else round_of[::-1]:
            remaining = [
                item for item in items if item not in {picked_item for picked_item, _ in picked}
            ]
            if remaining and len(picked) < length:
                picked.append((remaining[0], team))
    return picked


def whole_down_to(a: Sequence[Any], b: Sequence[Any], length: int) -> int:
    """Down to which rank both lists are shown, whoever begins."""
    merges = balanced_merge(a, b, length), balanced_merge(b, a, length)
    common = set(merges[0]) & set(merges[1])
    k = 0
    while k < len(a) and {a[k], b[k]} <= common:
        k += 1
    return k


def experiment(
    seed: int,
    requests: int,
    theta: Sequence[float],
    *,
    gap: float = 0.3,
    shared: float = 0.0,
    queries: int = 40,
    method: str = "balanced",
    requests_a_user: int = 3,
) -> Experiment:
    """An experiment; the same arguments give the same one.

    Args:
        seed: Chooses all that is drawn.
        requests: How many.
        theta: How likely each place of the page is looked at.
        gap: How much less noise the new system's scores have; 0 for two that are as good.
        shared: The share of that noise that both systems have, from 0 to 1: how alike lists are.
        queries: How many texts there are.
        method: `balanced` or `team_draft`; or `a` and `b`, the lists of the old and the new one.
        requests_a_user: About how many of a user.
    """
    draw = np.random.default_rng(seed)
    page, looks = len(theta), np.asarray(theta)
    attractiveness = draw.beta(1.2, 2.8, (queries, 2 * page))
    shared_noise, *system_noise = draw.normal(0, 1, (3, *attractiveness.shape))
    lists = {}
    for number, (system, noise) in enumerate(((BASELINE, 0.5), (SYSTEM, 0.5 - gap))):
        errors = noise * (
            np.sqrt(shared) * shared_noise + np.sqrt(1 - shared) * system_noise[number]
        )
        lists[system] = np.argsort(errors - attractiveness)[:, :page]
    old, new = (lists[name].tolist() for name in (BASELINE, SYSTEM))
    query = draw.integers(queries, size=requests)
    users = draw.integers(max(requests // requests_a_user, 1), size=requests)
    rows: dict[str, list[Any]] = {name: [] for name in ("item", "position", "team")}
    for q in query:
        if method in ("a", "b"):
            picks = [(item, "") for item in (old if method == "a" else new)[q]]
        elif method == "balanced":
            pair = (new[q], old[q]) if draw.random() < 0.5 else (old[q], new[q])
            picks = [(item, "") for item in balanced_merge(*pair, page)]
        else:
            picks = team_draft(new[q], old[q], page, draw)
        rows["item"] += [item for item, _ in picks]
        rows["team"] += [team for _, team in picks]
        rows["position"] += range(1, len(picks) + 1)
    counts = np.full(requests, page)
    of = np.repeat(np.arange(requests), counts)
    chance = looks[np.array(rows["position"]) - 1] * attractiveness[query[of], rows["item"]]
    log = pa.table(
        {
            "request_id": of,
            "item_id": rows["item"],
            "position": rows["position"],
            "clicked": (draw.random(len(of)) < chance).astype(np.int64),
            "user_id": users[of],
            "team": rows["team"],
        }
    )
    depths = [whole_down_to(new[q], old[q], page) for q in range(queries)]
    of_queries = [
        [
            float((looks[:k] * attractiveness[q, lists[name][q][:k]]).sum())
            for q, k in enumerate(depths if within_depths else [page] * queries)
        ]
        for within_depths in (True, False)
        for name in (BASELINE, SYSTEM)
    ]
    values = [np.array(query_clicks)[query].mean() for query_clicks in of_queries]
    return Experiment(
        log, _rankings(query, lists, page), values[1] - values[0], values[3] - values[2]
    )


def _rankings(query: Any, lists: dict[str, Any], page: int) -> pa.Table:
    of = np.repeat(np.arange(len(query)), page)
    return pa.concat_tables(
        pa.table(
            {
                "request_id": of,
                "system": [name] * len(of),
                "item_id": items[query].ravel(),
                "rank": np.tile(np.arange(1, page + 1), len(query)),
            }
        )
        for name, items in lists.items()
    )
