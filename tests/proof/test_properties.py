"""The SQL is the reference, in every number, for whatever tables and options there are."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from marked import by_turns
from metric_ranges import ALMOST, RANGES
from worlds import (
    CUTOFFS,
    FEWER,
    RELS,
    Row,
    World,
    added,
    by_reference,
    by_sql,
    differences,
    proof_of,
    same,
    worlds,
)

import sqlmetrics as sm
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import limits
from sqlmetrics.proof.verify import compare
from sqlmetrics.spec.spec import Spec

INTEGER_RANGES = {"0 or 1", "0 to R"}
"""Ranges of whole numbers, unless the value is a mean over the orders of ties."""


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """One for all examples."""
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@given(world=worlds())
def test_the_sql_is_the_reference(database: duckdb.DuckDBPyConnection, world: World) -> None:
    """And keeps what is promised of all numbers: one evaluation, all that can be said of it."""
    result = world.evaluated(database)
    proof = proof_of(result, database)
    assert differences(by_sql(result), by_reference(result, proof)) == []
    assert [
        agreement for agreement in compare(result, proof) if not agreement.largest <= ALMOST
    ] == []
    values_are_in_the_range_that_the_header_says(result, world)
    rows = result.to_dicts()
    a_mean_is_its_numerator_over_its_denominator(result, rows)
    for name in world.options["by"]:
        assert added(rows, name) == pytest.approx(added(rows, "all"), rel=1e-12, nan_ok=True)


def values_are_in_the_range_that_the_header_says(result: sm.Result, world: World) -> None:
    outside = [
        (str(measure), row)
        for row in result.per_query().to_pylist()
        for measure in result.measures
        if not measure.metric.pooled and not _in_range(measure, row, world, result.spec)
    ]
    assert outside == []


def _in_range(measure: Measure, row: Row, world: World, spec: Spec) -> bool:
    value = row[measure.column]
    if value is None or math.isnan(value):
        return True
    if measure.metric.arithmetic:
        low, high = limits(measure.metric.range)
        slack = ALMOST * max(1, abs(value))
        is_above, is_below = (
            low is None or value >= low - slack,
            high is None or value <= high + slack,
        )
        return world.options.get("duplicate_rankings") == "count" or (is_above and is_below)
    rel = measure.setting("rel") or 1
    relevant = world.relevant(row["query_id"], row.get("metric_date"), rel)
    range_text = measure.metric.range
    is_whole = range_text in INTEGER_RANGES and spec.settings(measure)["ties"] != "average"
    if world.options.get("duplicate_rankings") == "count":  # that is the point of it
        return value >= 0 or range_text == "any number"
    return RANGES[range_text](value, relevant) and (not is_whole or value == int(value))


def a_mean_is_its_numerator_over_its_denominator(result: sm.Result, rows: list[Row]) -> None:
    counts = {m.name for m in result.measures if m.metric.count or not m.adds_up}
    for row in rows:
        top, bottom = row["numerator"], row["denominator"]
        if row["metric"] in counts:
            assert (top, bottom) == (None, None)
        else:
            assert same(row["value"], top / bottom if bottom else None), row


@by_turns(2.6)
@FEWER
@given(
    world=st.sampled_from(["id_asc", "id_desc", "average", "best", "worst"]).flatmap(
        lambda ties: worlds(ties=ties)
    ),
    seed=st.integers(0, 9),
)
def test_the_order_of_the_rows_does_not_matter(
    database: duckdb.DuckDBPyConnection, world: World, seed: int
) -> None:
    shuffle = random.Random(seed).sample
    other = replace(
        world,
        rankings=shuffle(world.rankings, len(world.rankings)),
        labels=shuffle(world.labels, len(world.labels)),
    )
    results = [by_sql(variant.evaluated(database)) for variant in (world, other)]
    assert differences(*results) == []


@by_turns(1.2)
@FEWER
@given(world=worlds(), k=st.sampled_from(CUTOFFS), rel=st.sampled_from(RELS))
def test_with_one_relevant_item_hit_rate_is_recall(
    database: duckdb.DuckDBPyConnection, world: World, k: int, rel: float
) -> None:
    metrics = [f"hit(rel={rel})@{k}", f"recall(rel={rel}, recall_denominator=r)@{k}"]
    options = {**world.options, "average_over": "labels"}
    result = replace(world, metrics=metrics, options=options).evaluated(database)
    hit, recall = (result.spec.measure(text).column for text in metrics)
    for row in result.per_query().to_pylist():
        if world.relevant(row["query_id"], row.get("metric_date"), rel) == 1:
            assert same(row[hit], row[recall]), row
