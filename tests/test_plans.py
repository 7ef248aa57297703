"""Physical plans: the same numbers, whichever is taken, and the right one is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from worlds import World, by_reference, by_sql, differences, proof_of, worlds

import sqlmetrics as sm
from sqlmetrics import api, physical
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
