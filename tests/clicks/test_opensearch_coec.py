"""OpenSearch's COEC, line by line from its definition, on its own sample and by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.clicks.clean_log import clean
from sqlmetrics.spec.click_log import Clicks

Event = Mapping[str, Any]


def reference(events: Sequence[Event], max_rank: int) -> dict[tuple[str, str], float]:
    """(query, item) -> the rating."""
    counts: dict[str, Counter[int]] = {"click": Counter(), "impression": Counter()}
    pairs: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for event in events:
        action, at = event["action_name"], event["event_attributes"] or {}
        rank = (at.get("position") or {}).get("ordinal")
        item = (at.get("object") or {}).get("object_id")
        if action in counts and rank is not None and rank <= max_rank:
            counts[action][rank] += 1
            if event["user_query"] is not None and item is not None:
                pairs.setdefault((event["user_query"], item), []).append((action, rank))
    ratings = {}
    for pair, actions in pairs.items():
        top = min(rank for _, rank in actions)
        n = Counter(action for action, _ in actions)
        impressions = counts["impression"][top]
        expected = (
            counts["click"][top] / impressions * n["impression"]
            if impressions and top < max_rank
            else 0
        )
        ratings[pair] = round(n["click"] / expected, 3) if expected else 0.0
    return ratings


def rates(sources: dict[str, Any], **labels: Any) -> dict[tuple[str, str], float]:
    options = {"pool": "query_item", "rate": "opensearch_coec", **labels}
    with clean(Clicks(format="ubi", labels=options, **sources)) as log:
        rows = log.judgments().to_pylist()
    return {(row["query_text"], row["item_id"]): row["rate"] for row in rows}


@by_turns(1)
def test_its_sample_is_rated_as_its_definition_says(shared: Path) -> None:
    folder = shared / "clicks"
    queries, events = (
        [json.loads(line) for line in (folder / f"ubi_{name}.ndjson").read_text().splitlines()]
        for name in ("queries", "events")
    )
    query_texts = {row["query_id"]: row["user_query"] for row in queries}
    worded = [
        {**event, "user_query": event.get("user_query") or query_texts.get(event["query_id"])}
        for event in events
    ]
    sources = {
        "requests": {"file": str(folder / "ubi_queries.ndjson")},
        "events": {"file": str(folder / "ubi_events.ndjson")},
    }
    for max_rank in (5, 20):
        wanted = reference(worded, max_rank)
        assert len(wanted) > 500
        assert rates(sources, max_rank=max_rank) == pytest.approx(wanted, abs=1.0001e-3)


def events(*rows: tuple[str, str, str, int]) -> dict[str, Any]:
    """Request, action, item and position as logged, of one query."""
    table = [
        {
            "query_id": request,
            "client_id": "u",
            "user_query": "tv",
            "timestamp": f"2026-01-0{request}T08:00:00Z",
            "action_name": action,
            "event_attributes": json.dumps(
                {"object": {"object_id": item}, "position": {"ordinal": position}}
            ),
        }
        for request, action, item, position in rows
    ]
    return {"events": {"data": pa.Table.from_pylist(table)}}


LOG = events(
    *(("1", "impression", "a", 1), ("1", "impression", "b", 2), ("1", "click", "a", 1)),
    *(("1", "click", "a", 1), ("2", "impression", "b", 1), ("2", "impression", "a", 2)),
    *(("2", "click", "b", 1), ("2", "click", "c", 3), ("3", "impression", "a", 1)),
)
"""Position 1 has 3 clicks on 3 impressions. c was clicked, and never shown."""


def test_it_is_another_number_than_coec_by_hand() -> None:
    # a: 2 clicks / (3 / 3 * 3 impressions), though one of these stood at 2; b: 1 / (1 * 2)
    assert rates(LOG) == {("tv", "a"): 0.667, ("tv", "b"): 0.5, ("tv", "c"): 0.0}
    assert rates(LOG, min_impressions=3) == {("tv", "a"): 0.667}
    coec_rates = rates(LOG, rate="coec")
    # position 1: 2 of 3 clicked once, none of 2 at position 2; c was not shown
    assert coec_rates == pytest.approx({("tv", "a"): 1 / (4 / 3), ("tv", "b"): 1 / (2 / 3)})


def test_days_of_the_window_are_those_of_the_events() -> None:
    window = {"window": {"end": "2026-01-02"}}
    sources = LOG | {"evaluation": {"start": "2026-01-02"}}
    # position 1: 2 clicks on 1 impression
    assert rates(sources, **window) == {("tv", "a"): 1.0, ("tv", "b"): 0.0}


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({"prior": 1}, "rate opensearch_coec has no prior; leave prior out, or set rate: coec"),
        (
            {"rate": "ctr", "max_rank": 3},
            "max_rank: only for rate opensearch_coec, and the rate is ctr",
        ),
    ],
)
def test_what_it_has_not_is_refused(labels: dict[str, Any], why: str) -> None:
    options = {"pool": "query_item", "rate": "opensearch_coec", **labels}
    with pytest.raises(sm.SpecError, match=why):
        sm.Spec(clicks={"format": "ubi", **LOG, "labels": options}, metrics=["mrr"])


def test_another_log_is_refused() -> None:
    log = {"relation": "shown", "columns": {"query": "q", "clicked": "c"}}
    labels = {"pool": "query_item", "rate": "opensearch_coec"}
    with pytest.raises(sm.SpecError, match="uses the positions of the logged events"):
        sm.Spec(clicks={"log": log, "labels": labels}, metrics=["mrr"])
