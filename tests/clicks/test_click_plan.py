"""Logs with all that can be amiss: ranks as the log tells them are those of a window."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.execution import Execution, run
from sqlmetrics.evaluation.inputs.open import opened

FIRST = datetime(2026, 1, 1, 23)
ACTIONS = ("click", "click", "add_to_cart", "purchase")
METRICS = ["ndcg@3", "ndcg", "mrr", "ap", "recall@2", "precision@3", "rbp", "f1@3"]
ONLINE = ["ctr", "ctr@2", "abandonment", "first_click_rank", "last_click_rank", "purchases"]


def log(chance: random.Random, amiss: float) -> dict[str, pa.Table]:
    """Requests of a few items, of which a share is not in order."""
    impressions: list[dict[str, Any]] = []
    events = []
    for number in range(chance.randint(4, 40)):
        request, at = f"r{number}", FIRST + timedelta(minutes=7 * number)
        items = chance.sample("abcdefgh", chance.randint(1, 6))
        system, country = chance.choice(["new", "old"]), chance.choice(["NL", None])
        start = chance.choice([1, 1, 4])
        rows = [
            {
                "request_id": request,
                "item_id": item,
                "position": position,
                "system": system,
                "shown_at": at,
                "country": country,
            }
            for position, item in enumerate(items, start)
        ]
        if chance.random() < amiss:
            row, other = chance.choice(rows), chance.choice(rows)
            change = chance.choice(
                [
                    {"item_id": other["item_id"]},
                    {"position": other["position"]},
                    {"position": row["position"] + 9},
                    {"item_id": None},
                    {"position": None},
                    {"system": "third"},
                    {"shown_at": at + timedelta(hours=2)},
                ]
            )
            row.update(change)
        impressions += rows
        for _ in range(chance.randint(0, 4)):
            seconds = chance.choice([1, 20, 20, 4000, -3])
            events.append(
                {
                    "request_id": request,
                    "item_id": chance.choice([*items, "unseen"]),
                    "action": chance.choice(ACTIONS),
                    "happened_at": at + timedelta(seconds=seconds),
                }
            )
    impressions[0]["item_id"] = "a"
    clicked = {**impressions[0], "action": "click", "happened_at": impressions[0]["shown_at"]}
    events.append({name: clicked[name] for name in ("request_id", "item_id", "action")})
    events[-1]["happened_at"] = clicked["happened_at"]
    table = pa.Table.from_pylist(impressions)
    return {"impressions": table, "events": pa.Table.from_pylist(events)}


def spec(chance: random.Random, tables: dict[str, pa.Table]) -> sm.Spec:
    """One of the ways in which such a log is cleaned and evaluated."""
    columns = {"time": "shown_at", "system": "system", "segments": ["country"]}
    clicks: dict[str, Any] = {
        "impressions": {"data": tables["impressions"], "columns": columns},
        "events": {"data": tables["events"], "columns": {"time": "happened_at"}},
        "cleaning": {
            "attribution_window": "30m",
            "deduplicate": chance.random() < 0.5,
            "same_position": chance.choice(["keep", "first", "drop"]),
            "test": chance.choice([None, "item_id = 'h' and position = 2"]),
        },
        "labels": {"grades": {"click": 1, "add_to_cart": 2, "purchase": 3}},
        "daily": chance.random() < 0.5,
    }
    if chance.random() < 0.3:
        clicks["evaluation"] = {"start": "2026-01-02"}
    ties = chance.choice(["id_asc", "id_desc"])
    by = ["country"] if chance.random() < 0.5 else []
    return sm.Spec(
        name="log",
        clicks=clicks,
        metrics=[*METRICS, *ONLINE],
        conventions={"ties": ties, "duplicate_rankings": "best_score"},
        by=by,
    )


def numbers(result: Any) -> dict[Any, Any]:
    """Value, sums and counts of each metric, system, day and segment."""
    keys = ("metric_date", "system", "segment_name", "segment_value", "metric", "k")
    return {
        tuple(row[key] for key in keys): [
            pytest.approx(value, abs=1e-12) if isinstance(value, float) else value
            for name, value in row.items()
            if name not in keys
        ]
        for row in result
    }


def plan_of(sql: str) -> str:
    """The plan that a text says it is."""
    return sql.partition("-- plan: ")[2].partition(" ")[0]


def check(seed: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compare a log's numbers by both plans; say which was chosen."""
    chance = random.Random(seed)
    click_spec = spec(chance, log(chance, chance.choice([0, 0.2, 0.5])))
    try:
        result = evaluate_clicks(click_spec)
    except InputError:  # no request is of the days that are evaluated
        return ""
    with connect() as engine, cleaned_log(click_spec.clicks, engine) as clean, clean.views():
        by_window = run(
            click_spec, opened(click_spec, engine), engine, execution=Execution(plan="window")
        )
    with monkeypatch.context() as patch:  # every impression is looked at again
        patch.setattr(ClickTables, "counts_requests", False)
        counted = evaluate_clicks(click_spec)
    assert numbers(result.offline.to_dicts()) == numbers(by_window.to_dicts())
    assert numbers(result.online().to_pylist()) == numbers(counted.online().to_pylist())
    assert (result.steps, result.rows, result.findings) == (
        counted.steps,
        counted.rows,
        counted.findings,
    )
    return plan_of(result.offline.executed_sql)


@by_turns(1.3)
def test_ranks_that_the_log_tells_are_those_of_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(1, monkeypatch) == "shown"


@pytest.mark.long
def test_so_they_are_whatever_is_amiss(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [check(seed, monkeypatch) for seed in range(2, 42)]
    assert plans.count("shown") > 30


@pytest.mark.parametrize("rows", [[0, 1], [1]])
def test_a_list_of_no_system_is_refused(rows: list[int]) -> None:
    tables = log(random.Random(0), 0)
    impressions = tables["impressions"].to_pylist()
    first = [row for row in impressions if row["request_id"] == "r1"]
    for index in rows:
        first[index]["system"] = None
    click_spec = spec(
        random.Random(0), {**tables, "impressions": pa.Table.from_pylist(impressions)}
    )
    with pytest.raises(InputError, match=rf"system \(system\) is NULL in {len(rows)} row"):
        evaluate_clicks(click_spec)


def test_a_metric_of_every_item_reads_the_lists() -> None:
    chance = random.Random(1)
    click_spec = spec(chance, log(chance, 0)).having(metrics=["ndcg@3", "num_ret"])
    assert plan_of(evaluate_clicks(click_spec).offline.executed_sql) == "window"
