"""Click logs whose truth is known, in numpy: what position bias is, and what breaks its model.

Each request of a query shows the best `len(propensities)` of twice as many items. Of a request

- the position-based model has a click on a place that is looked at (its propensity) and an item
  that attracts (its attractiveness), whatever else was clicked;
- trust bias clicks an item that was looked at and does not attract with `trust` / position;
- a cascade reads from the top, clicks what attracts, and stops after a click that satisfies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

QUERIES = 200
REQUESTS_A_USER = 5
DAYS = 14
FIRST_DAY = np.datetime64("2026-01-01T00:00:00", "us")


class SimulatedLog(NamedTuple):
    """A log, and what it was made of.

    Attributes:
        log: One row per item shown, sorted by request and position: request, query, item,
            position (from 1), clicked (0, 1), user, time (over 14 days from 2026-01-01),
            randomised (0, 1: of its request).
        truth: One row per query and item, shown or not: query, item, attractiveness (chance of
            a click once looked at), satisfaction (chance that a cascade ends with its click).
        propensities: Position -> the chance that it is looked at, as given.
    """

    log: pa.Table
    truth: pa.Table
    propensities: dict[int, float]


def simulated_log(
    seed: int,
    impressions: int,
    propensities: Sequence[float],
    *,
    swaps: float = 1.0,
    trust: float = 0.0,
    cascade: float = 0.0,
    randomised: float = 0.0,
    queries: int = QUERIES,
    skill: float = 1.0,
) -> SimulatedLog:
    """A log of so many impressions; the same arguments give the same one.

    Args:
        seed: Chooses all that is drawn.
        impressions: About how many; requests x places.
        propensities: Of the places from the first on: how likely each is looked at, 0 to 1.
        swaps: By how many places an item moves between requests, as the standard deviation of
            a normal noise on its rank; with 0 an item of a query never moves.
        trust: Chance of a click on an item at position 1 that is looked at and does not
            attract; at position k a k-th of it.
        cascade: Share of the requests whose users read as a cascade.
        randomised: Share of the requests that show what they would in random order.
        queries: How many texts there are; the first are asked more often.
        skill: How well the ranker knows what attracts: 1 orders as well as its noise of a
            quarter of the items allows, 0 at random.
    """
    draw = np.random.default_rng(seed)
    places = len(propensities)
    requests = max(impressions // places, 1)
    attractiveness = draw.beta(1.2, 2.8, (queries, 2 * places))
    satisfaction = np.clip(0.1 + 0.8 * attractiveness + draw.normal(0, 0.1, (queries, 1)), 0, 1)
    guessed = skill * _ranks(-attractiveness) + draw.normal(0, places / 2, (queries, 2 * places))
    popularity = 1 / (np.arange(queries) + 5.0)
    query = draw.choice(queries, requests, p=popularity / popularity.sum())

    order = _ranks(guessed)[query] + swaps * draw.normal(size=(requests, 2 * places))
    items = np.argsort(order, axis=1, kind="stable")[:, :places]
    is_random = draw.random(requests) < randomised
    shuffled = np.argsort(draw.random((requests, places)), axis=1)
    items = np.where(is_random[:, None], np.take_along_axis(items, shuffled, axis=1), items)

    attracts = draw.random(items.shape) < attractiveness[query[:, None], items]
    trusted = draw.random(items.shape) < trust / np.arange(1, places + 1)
    looked_at = draw.random(items.shape) < np.asarray(propensities)
    satisfies = draw.random(items.shape) < satisfaction[query[:, None], items]
    is_cascade = draw.random(requests) < cascade
    stopped = np.cumsum(attracts & satisfies, axis=1) - (attracts & satisfies) > 0
    clicked = np.where(is_cascade[:, None], attracts & ~stopped, looked_at & (attracts | trusted))

    users = max(requests // REQUESTS_A_USER, 1)
    user = draw.integers(users, size=requests)
    moments = np.sort(draw.integers(DAYS * 86_400_000_000, size=requests))
    of_request = np.repeat(np.arange(requests), places)
    log = pa.table(
        {
            "request": of_request,
            "query": _named("q", query[of_request], queries),
            "item": _named("i", items.ravel(), 2 * places),
            "position": np.tile(np.arange(1, places + 1), requests),
            "clicked": clicked.ravel().astype(np.int64),
            "user": _named("u", user[of_request], users),
            "time": (FIRST_DAY + moments.astype("timedelta64[us]"))[of_request],
            "randomised": is_random[of_request].astype(np.int64),
        }
    )
    truth = pa.table(
        {
            "query": _named("q", np.repeat(np.arange(queries), 2 * places), queries),
            "item": _named("i", np.tile(np.arange(2 * places), queries), 2 * places),
            "attractiveness": attractiveness.ravel(),
            "satisfaction": satisfaction.ravel(),
        }
    )
    return SimulatedLog(log, truth, dict(enumerate(map(float, propensities), 1)))


def _ranks(scores: np.ndarray) -> np.ndarray:
    """The rank of each score in its row, from 0."""
    return np.argsort(np.argsort(scores, axis=1, kind="stable"), axis=1, kind="stable")


def _named(letter: str, numbers: np.ndarray, count: int) -> pa.Array:
    """Numbers as texts like q7."""
    names = pa.array([f"{letter}{number}" for number in range(count)])
    return names.take(pa.array(numbers))
