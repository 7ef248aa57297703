"""Sessions that succeed: one action of those that say so, in any request of a visit."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.catalog.online import online

Row = dict[str, Any]
START = datetime(2026, 1, 1, 10)
SUCCESS_ACTIONS = {"click": ("click",), "purchase": ("purchase",), "either": ("purchase", "save")}


def visit_rows(seed: int = 3) -> tuple[list[Row], list[Row]]:
    """Requests of 25 visits in two days, some of no visit and some without a result; and events."""
    chance = random.Random(seed)
    requests, events = [], []
    for number in range(90):
        visit = chance.choice([None, *range(25)])
        requests.append(
            {
                "request_id": f"r{number}",
                "system": chance.choice(["new", "old"]),
                "country": chance.choice(["de", "fr"]),
                "visit": None if visit is None else f"s{visit}",
                "at": START + timedelta(days=chance.randrange(2), seconds=number),
                "n": chance.choice([0, 1, 3, 3]),
            }
        )
        for action in ("click", "save", "purchase") if requests[-1]["n"] else ():
            if chance.random() < 0.2:
                item = f"i{chance.randrange(requests[-1]['n'])}"
                events.append({"request_id": f"r{number}", "item_id": item, "action": action})
    return requests, events


def log_of(
    requests: Sequence[Row], events: Sequence[Row], success: Sequence[str], **options: Any
) -> Row:
    columns = {"system": "system", "session": "visit", "time": "at", "segments": ["country"]}
    impressions = [
        {**request, "item_id": f"i{index}", "position": index + 1}
        for request in requests
        for index in range(request["n"])
    ]
    timed_events = [{**event, "at": START + timedelta(days=3)} for event in events]
    tables = {"impressions": impressions, "events": timed_events, "requests": requests}
    data = {name: pa.Table.from_pylist(list(rows)) for name, rows in tables.items()}
    named = {"columns": columns}
    return {
        "impressions": {"data": data["impressions"], **named},
        "events": {"data": data["events"], "columns": {"time": "at"}},
        "requests": {"data": data["requests"], "columns": {**columns, "results": "n"}},
        "success_actions": success,
        **options,
    }


def wanted(
    requests: Sequence[Row], events: Sequence[Row], success: Sequence[str], *keys: str
) -> Mapping[tuple[Any, ...], tuple[int, int]]:
    """Sessions that succeeded, and all, of each system (and day)."""
    succeeded = {event["request_id"] for event in events if event["action"] in success}
    visits: dict[tuple[Any, ...], set[bool]] = defaultdict(set)
    for request in requests:
        if request["visit"] is not None:
            values = {**request, "day": request["at"].date()}
            key = (*(values[name] for name in keys), request["visit"])
            visits[key].add(request["request_id"] in succeeded)
    counts: dict[tuple[Any, ...], tuple[int, int]] = {}
    for (*key, _), outcomes in visits.items():
        top, bottom = counts.get((*key,), (0, 0))
        counts[(*key,)] = top + any(outcomes), bottom + 1
    return counts


@by_turns(3.1)
@pytest.mark.parametrize("success", SUCCESS_ACTIONS)
def test_a_session_succeeds_by_any_of_its_requests(success: str) -> None:
    """Also beside requests without a result, and of one day alone; those of no visit are none."""
    requests, events = visit_rows()
    for daily in (False, True):
        log = log_of(requests, events, SUCCESS_ACTIONS[success], daily=daily)
        spec = sm.Spec(clicks=log, metrics=["session_success", "abandonment"], by=["country"])
        rows = [
            row
            for row in sm.evaluate_clicks(spec).online().to_pylist()
            if row["metric"] == "session_success"
        ]
        keys = ("day", "system") if daily else ("system",)
        counts = {
            (*[row["metric_date"]] * daily, row["system"]): (row["numerator"], row["denominator"])
            for row in rows
            if row["segment_name"] == "all"
        }
        assert counts == wanted(requests, events, SUCCESS_ACTIONS[success], *keys)
        for key, (
            _,
            sessions,
        ) in counts.items():  # each is in one country: that of its first request
            parts = [
                row["denominator"]
                for row in rows
                if row["segment_name"] == "country"
                and (*[row["metric_date"]] * daily, row["system"]) == key
            ]
            assert sum(parts) == sessions


def test_a_wide_log_has_sessions_too() -> None:
    rows = [
        {"request_id": r, "item_id": "a", "position": 1, "visit": s, "clicked": c, "saved": b}
        for r, s, c, b in (("1", "x", 1, 0), ("2", "x", 0, 0), ("3", "y", 0, 1), ("4", None, 1, 1))
    ]
    columns = {"session": "visit", "clicked": "clicked", "actions": {"save": "saved"}}
    log = {"log": {"data": pa.Table.from_pylist(rows), "columns": columns}}
    for success, value in ((["click"], 1 / 2), (["save"], 1 / 2), (["click", "save"], 1.0)):
        spec = sm.Spec(clicks={**log, "success_actions": success}, metrics=["session_success"])
        (row,) = sm.evaluate_clicks(spec).online().to_pylist()
        assert (row["value"], row["denominator"]) == (value, 2)
    spec = sm.Spec(clicks=log, metrics=["session_success"])
    other = sm.Spec(clicks={**log, "success_actions": ["save"]}, metrics=["session_success"])
    (click_metric,), (save_metric,) = spec.online, other.online
    hashes = [s.definition_hash(online(click_metric)) for s in (spec, other)]
    assert click_metric == save_metric
    assert hashes[0] != hashes[1]


def test_what_sessions_need_is_told() -> None:
    requests, events = visit_rows()
    log = log_of(requests, events, ["click"])
    del log["impressions"]["columns"]["session"]
    with pytest.raises(sm.SpecError, match=r"session_success needs a column of sessions"):
        sm.evaluate_clicks(sm.Spec(clicks=log, metrics=["session_success"]))
    del log["impressions"]["columns"]["time"]
    lacking = r"success_actions need impressions\.columns\.session, or time"
    with pytest.raises(sm.SpecError, match=lacking):
        sm.Spec(clicks={**log, "success_actions": ["save"]}, metrics=["ctr"])
    columns = {"session": "visit", "clicked": "clicked"}
    wide = {"log": {"relation": "log", "columns": columns}, "success_actions": ["save"]}
    with pytest.raises(sm.SpecError, match=r"success_actions need log\.columns\.actions\.save"):
        sm.Spec(clicks=wide, metrics=["session_success"])
