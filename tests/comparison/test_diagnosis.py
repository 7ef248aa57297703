"""`diagnose`: each rule fires where all of its conditions hold, and not a hair beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics

import sqlmetrics as sm
from sqlmetrics.comparison.diagnosis import MARGIN, fired
from sqlmetrics.comparison.rules import RULES, Condition, Rule

HAIR = 1e-6
Numbers = tuple[dict[str, float], dict[str, Any], dict[str, float]]


def numbers(rule: Rule, miss: Condition | None = None) -> Numbers:
    """Values, changes and the baseline's values that just fire a rule; one condition may miss."""
    values: dict[str, float] = {}
    rows: dict[str, Any] = {}
    before: dict[str, float] = {}
    for one in sorted(rule.conditions, key=lambda one: one.is_ == "equal"):
        off = HAIR if one is miss else 0.0
        if one.is_ in ("least", "most"):
            values[one.metric] = one.limit + (off if one.is_ == "most" else -off)
        elif one.is_ == "equal":
            values[one.metric] = values.setdefault(one.other, 0.5) + off
        else:
            low, high = {
                "up": (HAIR - 2 * off, 0.1),
                "down": (-0.1, 2 * off - HAIR),
                "flat": (-MARGIN - off, MARGIN),
                "mix": (-0.1, 0.1),
            }[one.is_]
            row = {"difference": 0.0, "ci_low": low, "ci_high": high, "direction": 1, "n": 100}
            rows[one.metric] = row
            if one.is_ == "mix":
                values[one.metric] = 0.5 + MARGIN + HAIR - 2 * off
                before[one.metric] = 0.5
    return values, rows, before


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.title)
def test_a_rule_fires_where_all_holds_and_not_a_hair_beside(rule: Rule) -> None:
    told = fired(rule, *numbers(rule), MARGIN)
    assert len(told) == len(rule.conditions)
    assert all(one.metric in text for one, text in zip(rule.conditions, told, strict=True))
    for miss in rule.conditions:
        assert fired(rule, *numbers(rule, miss), MARGIN) == [], miss


def lists(orders: dict[str, list[str]]) -> pa.Table:
    """The same lists for 40 queries."""
    return pa.Table.from_pylist(
        [
            {"system": system, "query_id": f"q{query}", "item_id": item, "score": -place}
            for system, order in orders.items()
            for query in range(40)
            for place, item in enumerate(order)
        ]
    )


def labels(*items: str) -> pa.Table:
    """The same relevant items for each of them."""
    return pa.Table.from_pylist(
        [
            {"query_id": f"q{query}", "item_id": item, "grade": 1}
            for query in range(40)
            for item in items
        ]
    )


TEN = [f"n{number}" for number in range(10)]


def test_new_candidates_that_rank_low(tmp_path: Path) -> None:
    runs = lists({"old": ["a", *TEN], "new": ["a", *TEN, "b"]})
    found = sm.diagnose(runs, labels("a", "b", "c"), baseline="old")
    pairs = [one.rule.title for one in found if one.baseline]
    assert pairs == ["new candidates rank low"]
    assert "recall@100 +0.3333 (+0.3333 to +0.3333), ndcg@10 +0.0000" in found.findings[0].numbers
    assert max(map(len, repr(found).splitlines())) <= 80
    flipped = sm.diagnose(runs, labels("a", "b", "c"), baseline="new")
    assert [one.rule.title for one in flipped if one.baseline] == ["lost below the first page"]
    for name, table in (("runs", runs), ("labels", labels("a", "b", "c"))):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    line = ("diagnose", "runs.parquet", "labels.parquet", "--baseline", "old")
    assert sqlmetrics(*line, folder=tmp_path).stdout == f"{found!r}\n"


def test_one_system_is_looked_at_by_itself() -> None:
    found = sm.diagnose(lists({"old": [*TEN, "a"]}), labels("a"))
    titles = {one.rule.title for one in found}
    assert {"good recall, poor order", "relevant items wait below the first five"} <= titles
    assert {"one target a query", "no label outside what was retrieved"} <= titles
    assert "there is one system" in repr(found)
    good = sm.diagnose(lists({"old": ["a", "b", "c"]}), labels("a", "b", "c", "d"))
    assert [one.rule.title for one in good] == []


def test_systems_without_a_query_in_common_are_looked_at_each_by_itself() -> None:
    """As those of a click log, whose requests have one system each."""
    runs = lists({"old": ["x", "a"], "new": ["x", "a"]}).to_pylist()
    runs = [row for row in runs if (row["query_id"] < "q3") == (row["system"] == "old")]
    found = sm.diagnose(pa.Table.from_pylist(runs), labels("a"), missing="drop")
    assert {one.system for one in found} == {"old", "new"}
    assert found.comparison is None
    assert "what moved was not looked at: no query has a value of" in repr(found)


def test_a_mean_that_moved_by_which_queries_were_counted() -> None:
    runs = lists({"old": ["a"], "new": ["a"]}).to_pylist()
    runs = [row for row in runs if row["system"] == "old" or row["query_id"] < "q3"]
    kept = sm.diagnose(runs, labels("a", "b"), baseline="old", missing="drop")
    assert not [one for one in kept if "counted" in one.rule.title]
    worse = [row | {"item_id": "x"} if row["query_id"] >= "q3" else row for row in runs]
    found = sm.diagnose(worse, labels("a", "b"), baseline="old", missing="drop")
    (one,) = [one for one in found if "counted" in one.rule.title]
    assert "over the" in one.numbers
