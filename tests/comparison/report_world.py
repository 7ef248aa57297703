"""A month of two systems, with or without a regression that was planted in one slice."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pyarrow as pa

FIRST = date(2026, 11, 1)
COUNTRIES = ("DE", "FR", "JP", "US")
ITEMS = 10
PLANTED = "JP"
"""The slice in which the new system ranks as if it knew little."""

SINCE = 8
"""From this day on."""


def month(
    *, planted: bool, days: int = 30, a_day: int = 24, seed: int = 7
) -> tuple[pa.Table, pa.Table]:
    """Rankings of `old` and `new`, and labels.

    Both guess an item's grade with some noise of their own. Where a regression is planted, the new
    one's noise in one country is four times as large from one day on.

    Args:
        planted: Whether there is a regression.
        days: How many days.
        a_day: Queries a day; each is asked on one day alone.
        seed: Of the noise.
    """
    chance = np.random.default_rng(seed)
    n = days * a_day
    grades = chance.choice(4, size=(n, ITEMS), p=(0.6, 0.2, 0.12, 0.08))
    grades[:, 0] = np.maximum(grades[:, 0], 1)
    query = np.arange(n)
    day, country = query // a_day, query % len(COUNTRIES)
    is_worse = (country == COUNTRIES.index(PLANTED)) & (day >= SINCE) & planted
    parts = []
    for system in ("old", "new"):
        noise = np.full(n, 1.0)
        if system == "new":
            noise = np.where(is_worse, 4.0, 1.0)
        scores = grades + chance.normal(size=(n, ITEMS)) * noise[:, None]
        parts.append(
            pa.table(
                {
                    "ds": [FIRST + timedelta(int(number)) for number in np.repeat(day, ITEMS)],
                    "system": [system] * (n * ITEMS),
                    "country": [COUNTRIES[number] for number in np.repeat(country, ITEMS)],
                    "query_id": [f"q{number}" for number in np.repeat(query, ITEMS)],
                    "item_id": [f"i{number}" for number in np.tile(np.arange(ITEMS), n)],
                    "score": scores.ravel().round(3),
                }
            )
        )
    labels = pa.table(
        {
            "query_id": [f"q{number}" for number in np.repeat(query, ITEMS)],
            "item_id": [f"i{number}" for number in np.tile(np.arange(ITEMS), n)],
            "grade": grades.ravel().astype(float),
        }
    )
    return pa.concat_tables(parts), labels
