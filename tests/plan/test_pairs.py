"""Metrics of pairs: what single lists cannot tell."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest
from marked import by_turns

import sqlmetrics as sm

GRADES = {"high": 3, "mid": 2, "low": 1, "none": 0}


def test_a_grade_map_and_rel_make_classes_of_words() -> None:
    """{high, mid} against {low, none}: a beats c and d, b beats d but loses to c."""
    run = pa.table({"query_id": ["q"] * 4, "item_id": [*"acbd"], "score": [4.0, 3.0, 2.0, 1.0]})
    words = ["high", "low", "mid", "none"]
    truth = pa.table({"query_id": ["q"] * 4, "item_id": [*"acbd"], "grade": words})
    result = sm.evaluate(run, truth, ["gauc(rel=2)", "gauc"], grades=GRADES)
    assert result["gauc(rel=2)"] == 3 / 4
    assert result["gauc"] == 1


@by_turns(1.2)
def test_a_long_list_costs_no_pairs() -> None:
    """300,000 items have 45 billion pairs; counts are exact up to 2^53."""
    n = 300_000
    rng = random.Random(1)
    scores = [rng.randrange(1000) / 7 for _ in range(n)]
    items = list(range(n))
    run = pa.table({"query_id": ["q"] * n, "item_id": items, "score": scores})
    grades = [float(rng.randrange(4)) for _ in range(n)]
    truth = pa.table({"query_id": ["q"] * n, "item_id": items, "grade": grades})
    counted = ["num_concordant", "num_discordant", "num_tied", "num_equal"]
    with duckdb.connect() as connection:
        result = sm.evaluate(run, truth, ["gauc", *counted], connection=connection)
    assert sum(result[name] for name in counted) == n * (n - 1) / 2  # type: ignore[misc]
    assert result["gauc"] == pytest.approx(0.5, abs=0.01)
