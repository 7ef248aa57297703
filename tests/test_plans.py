"""Physical plans: the same numbers, whichever is taken, and the right one is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import World, by_reference, by_sql, differences, proof_of, worlds

import sqlmetrics as sm
from sqlmetrics import api, memory, physical
from sqlmetrics.conventions import OPTIONS
from sqlmetrics.physical import Offer
from sqlmetrics.plan import plan
from sqlmetrics.ranked import LISTS, WINDOW

NOWHERE: Any = {"rankings": {"file": "r.parquet"}, "labels": {"file": "l.parquet"}}


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """One for all examples."""
    with duckdb.connect(config={"threads": 1}) as connection:
        yield connection


@given(
    world=st.sampled_from(["id_asc", "id_desc", "best", "worst", "input_order"]).flatmap(
        lambda ties: worlds(ties=ties, depth="none")
    ),
    number=st.integers(2, 5),
    longest=st.sampled_from([2, 128]),
)
def test_buckets_of_queries_give_the_same(
    database: duckdb.DuckDBPyConnection, world: World, number: int, longest: int
) -> None:
    """Also where a bucket is empty, or has not all systems."""
    assume(world.given.get("unjudged") != "condensed" and world.rankings)
    world = _listable(world)
    whole = world.having(plan=LISTS).evaluated(database)
    with (
        patch.object(api, "offered", lambda *_: Offer(longest)),
        patch.object(memory, "ceil", lambda _: number),
    ):
        result = world.having(plan=LISTS).evaluated(database)
    assert result.sql.count("insert into ") == number - 1
    assert differences(by_sql(result), by_sql(whole)) == []


def _listable(world: World) -> World:
    """The world without the metrics for which sorted lists are not enough."""
    options = {name: value for name, value in world.given.items() if name in OPTIONS}
    asked = [*world.metrics, "ndcg@3", "ap", "mrr@2"]
    return replace(world, metrics=[text for text in asked if _is_listable(text, options)])


def _is_listable(text: str, options: Mapping[str, Any]) -> bool:
    try:
        spec = sm.Spec(**NOWHERE, metrics=[text], conventions=options)
        return plan(spec, physical=LISTS).physical.name == LISTS
    except sm.SpecError:
        return False


@given(
    world=st.sampled_from(["id_asc", "id_desc", "best", "worst", "input_order"]).flatmap(
        lambda ties: worlds(ties=ties, depth="none")
    ),
    longest=st.sampled_from([1, 2, 4, 128]),
)
def test_all_plans_give_the_reference(
    database: duckdb.DuckDBPyConnection, world: World, longest: int
) -> None:
    """Also where lists are longer than they looked, so that the window ranks some of them."""
    assume(world.given.get("unjudged") != "condensed")
    world = _listable(world)
    with (
        patch.object(api, "offered", lambda *_: Offer(longest)),
        patch.object(physical, "SHORTEST", 1),
    ):
        result = world.having(plan=LISTS).evaluated(database)
    assert "listed as (" in result.sql
    window = world.having(plan=WINDOW).evaluated(database)
    assert "listed as (" not in window.sql
    assert differences(by_sql(result), by_sql(window)) == []
    assert differences(by_sql(result), by_reference(result, proof_of(result, database))) == []


@pytest.mark.parametrize("kind", ["varchar", "bigint"])
def test_files_are_cut_into_ranges_of_queries(tmp_path: Path, kind: str) -> None:
    """In no order, so that every bucket has rows of the whole file."""
    rows = "from range(600) as numbers(i)"
    query = f"cast(i * 7 % 60 as {kind}) as query_id, i // 60 as item_id"
    rankings, labels = tmp_path / "rankings.parquet", tmp_path / "labels.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"copy (select {query}, hash(i) % 50 as score {rows}) to '{rankings}'")
        connection.execute(
            f"copy (select {query}, i % 3 as grade {rows} where i % 2 = 0) to '{labels}'"
        )
    asked = ("ndcg@3", "ap", "recall@5")
    whole = sm.evaluate(rankings, labels, asked)
    with patch.object(memory, "ceil", lambda _: 4):
        cut = sm.evaluate(rankings, labels, asked)
    assert cut.sql.count("insert into ") == 3
    assert "query_id >= " in cut.sql
    assert differences(by_sql(cut), by_sql(whole)) == []
