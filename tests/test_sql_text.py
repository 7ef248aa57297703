"""The SQL that is printed reads well: short lines, no gaps, names that cannot be mistaken."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

import sqlmetrics as sm
from sqlmetrics.catalog.metric import listed
from sqlmetrics.jobs.files import compile_job

WIDTH = 88

ITEMS = {"popularity": "popularity", "category": "category"}
SEARCH = {
    "rankings": {"relation": "rankings", "columns": {"system": "system"}, "where": "a or b"},
    "labels": {"relation": "labels"},
    "items": {"relation": "items", "columns": ITEMS},
    "baseline": "live",
}
SHOWN = {"time": "at", "query": "query", "user": "user_id", "segments": ["country"]}
DONE = {"time": "at", "user": "user_id", "dwell": "dwell"}
CLICKS = {
    "impressions": {"relation": "impressions", "columns": SHOWN, "first_position": "each"},
    "events": {"relation": "events", "columns": DONE},
    "requests": {"relation": "requests", "columns": {"time": "at", "user": "user_id"}},
    "cleaning": {"max_events_per_user_hour": 100, "test": "is_test", "unseen": 3, "min_dwell": 5},
}
POOLED = {"pool": "query_item", "prior": 10, "quantiles": [0.5, 0.8]}


def specs() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every metric, and click logs."""
    for metric in listed():
        at = "" if metric.cutoff == "none" else "@10"
        for name, ties in (("", "id_asc"), (" ties", "average")):
            asked = {"metrics": [f"{metric.name}{at}"], "conventions": {"ties": ties}}
            yield metric.name + name, {**SEARCH, **asked}
    yield "clicks", {"clicks": CLICKS, "metrics": ["ndcg@10", "ctr@5"]}
    yield "pooled clicks", {"clicks": {**CLICKS, "labels": POOLED}, "metrics": ["ndcg@10"]}


def texts(dialect: str) -> Iterator[tuple[str, str]]:
    """The texts of those specs that a dialect has."""
    for name, given in specs():
        try:
            yield name, sm.compile(sm.Spec(**given), dialect)
        except sm.SpecError:
            assert name.endswith(" ties") or dialect != "duckdb", name


def test_no_line_is_long_and_no_select_has_a_gap() -> None:
    for name, text in texts("duckdb"):
        assert [line for line in text.splitlines() if len(line) > WIDTH] == [], name
        assert not re.search(r"\n\n +\S", text), name


def test_the_days_of_a_job_are_conditions_of_their_own() -> None:
    rankings = {**SEARCH["rankings"], "columns": {"date": "day"}}
    given = {"name": "search", "rankings": rankings, "labels": {"relation": "labels"}}
    spec = sm.Spec(**given, metrics=["ndcg@10"], output={"relation": "metrics"})
    text = compile_job(spec)["02_evaluation.sql"]
    where = re.search(r"\n    where (.*)\n        and (.*)\n        and (.*)\n\)", text)
    assert where is not None
    assert where[1] == "(a or b)"
    assert [where[2][:22], where[3][:21]] == ["cast(day as date) >= c", "cast(day as date) < c"]


@pytest.mark.parametrize(
    ("mentioned", "stage"),
    [
        ("results", "rankings"),
        ("rankings", "ranking_rows"),
        ("Ranking_Rows", "rankings"),
        ("select * from rankings natural join ranking_rows", "ranking_rows_2"),
    ],
)
def test_a_stage_has_a_name_that_no_table_has(mentioned: str, stage: str) -> None:
    place = "sql" if "select" in mentioned else "relation"
    source = {place: mentioned}
    spec = sm.Spec(rankings=source, labels={"relation": "graded"}, metrics=["ndcg@10"])
    assert f"\n{stage} as (\n" in sm.compile(spec)
