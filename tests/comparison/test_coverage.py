"""2,000 experiments of 200 queries without an effect: do intervals cover it, do tests reject it.

The experiments are the segments of one comparison, so that all are one query.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import peer
from marked import by_night

import sqlmetrics as sm

EXPERIMENTS, QUERIES = 2000, 200


def experiments(*, clustered: bool, split: bool, seed: int) -> tuple[pa.Table, pa.Table]:
    """Rankings and labels whose cg@1 are drawn: of a query, of its user, of a system.

    Args:
        clustered: Whether a user has several queries, and each user an effect of its own.
        split: Whether a user, or a query, is on one side alone.
        seed: Of the draw.
    """
    chance = np.random.default_rng(seed)
    n = EXPERIMENTS * QUERIES
    query = np.arange(n)
    experiment = query // QUERIES
    user = query
    if clustered:  # users of 1 to 4 queries
        often = chance.integers(1, 5, n)
        user = np.repeat(np.arange(n), often)[:n] + experiment * n
    _, user = np.unique(user, return_inverse=True)
    base = chance.beta(2, 2, n)[user]
    before = base + chance.normal(0, 0.1, n)
    side = chance.integers(0, 2, n)[user]
    columns: dict[str, list[Any]] = {name: [] for name in ("system", "query", "item", "value")}
    for number, system in enumerate(("old", "new")):
        effect = chance.normal(0, 0.1, n)[user] if number else 0.0
        value = base + 2.0 + effect + chance.normal(0, 0.1, n)
        included = side == number if split else np.ones(n, bool)
        columns["system"].append(np.full(included.sum(), system))
        columns["query"].append(query[included])
        columns["item"].append(query[included] * 2 + number)
        columns["value"].append(value[included])
    arrays = {name: np.concatenate(parts) for name, parts in columns.items()}
    query_ids = arrays["query"]
    rankings = pa.table(
        {
            "system": arrays["system"],
            "query_id": query_ids,
            "item_id": arrays["item"],
            "score": np.ones(len(query_ids)),
            "experiment": experiment[query_ids],
            "user_id": user[query_ids],
            "before": before[query_ids],
        }
    )
    labels = pa.table({"query_id": query_ids, "item_id": arrays["item"], "grade": arrays["value"]})
    return rankings, labels


@by_night
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize(
    ("split", "options"),
    [
        (False, {}),
        (False, {"test": "bootstrap", "replicates": 500}),
        (True, {"paired": False}),
        (True, {"covariate": "before"}),
    ],
    ids=["paired", "bootstrap", "unpaired", "covariate"],
)
def test_intervals_cover_and_tests_keep_their_level(
    split: bool, options: dict[str, Any], clustered: bool
) -> None:
    tables = experiments(clustered=clustered, split=split, seed=2)
    cluster = "user_id" if clustered else None
    options = options | {"by": "experiment", "cluster": cluster, "baseline": "old", "check": False}
    rows = [row for row in sm.compare(*tables, "cg@1", **options) if row["segment_name"] != "all"]
    rejected = np.mean([row["p_value"] < 0.05 for row in rows])
    assert len(rows) == EXPERIMENTS
    assert 0.04 <= rejected <= 0.06
    covered = np.mean([row["ci_low"] <= 0 <= row["ci_high"] for row in rows])
    assert covered >= 0.99, "of so many segments each interval is adjusted, as p_adjusted is"
    if options.get("test") != "bootstrap":  # whose percentiles are no multiples of an error
        assert 0.93 <= np.mean([_covers(row) for row in rows]) <= 0.97


def _covers(row: dict[str, Any]) -> bool:
    """Whether the interval would have 0 in it at 95 %, unadjusted: by Student's t of scipy."""
    df = row["n"] - 1 if row["test"] == "paired t" else row["n"] + row["n_baseline"] - 2
    usual, adjusted = peer("scipy.stats").t.ppf([0.975, (1 + row["ci_level"]) / 2], df)
    half_width = (row["ci_high"] - row["ci_low"]) / 2 * usual / adjusted
    return abs(row["difference"]) <= half_width
