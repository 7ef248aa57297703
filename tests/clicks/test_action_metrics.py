"""Metrics of any action of a log: how many requests have it, and what it amounts to."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.catalog.online import online
from sqlmetrics.engines.database import Database, connect

START = datetime(2026, 1, 1, 10)
IMPRESSIONS = [
    {
        "request_id": f"r{r}",
        "item_id": f"i{position}",
        "position": position,
        "system": "AB"[r % 2],
        "user_id": f"u{r % 4}",
        "at": START + timedelta(days=r // 4),
    }
    for r in range(8)
    for position in range(1, 5)
]
"""Eight requests of four users in two days; two systems."""


def event(request: int, item: int, action: str, amount: float | None = None) -> dict[str, Any]:
    return {
        "request_id": f"r{request}",
        "item_id": f"i{item}",
        "action": action,
        "amount": amount,
        "user_id": f"u{request % 4}",
        "at": START + timedelta(days=request // 4, seconds=item),
    }


EVENTS = [
    event(0, 1, "click"),
    event(0, 1, "Add to cart", 5.0),
    event(0, 1, "Add to cart", 7.0),
    event(0, 4, "Add to cart", 2.0),
    event(1, 2, "click"),
    event(1, 3, "refund", 10.0),
    event(3, 2, "refund"),
    event(4, 1, "Add to cart", 30.0),
    event(6, 9, "Add to cart", 99.0),  # of an item that was not shown
    event(7, 1, "click"),
]
METRICS = ("action_rate(Add to cart)", "mean_amount(Add to cart)", "mean_amount(refund)")
CLEANING = {"unseen": 1, "max_events_per_user_hour": 3}


def tables() -> dict[str, pa.Table]:
    return {
        "impressions": pa.Table.from_pylist(IMPRESSIONS),
        "events": pa.Table.from_pylist(EVENTS),
    }


def spec_of(metrics: Any = METRICS, **clicks: Any) -> sm.Spec:
    log = {
        "impressions": {
            "relation": "impressions",
            "columns": {"system": "system", "user": "user_id", "time": "at"},
        },
        "events": {
            "relation": "events",
            "columns": {"amount": "amount", "user": "user_id", "time": "at"},
        },
    }
    output = {"relation": "numbers"}
    return sm.Spec(name="shop", clicks=log | clicks, metrics=metrics, baseline="A", output=output)


def sums(spec: sm.Spec, connection: Any) -> dict[tuple[str, str], tuple[float, float]]:
    """(System, metric) -> its sums."""
    rows = sm.evaluate_clicks(spec, connection).facts().to_pylist()
    return {
        (row["system"], row["metric"]): (row["numerator"], row["denominator"])
        for row in rows
        if row["segment_name"] == "all"
    }


@pytest.mark.parametrize(
    "name", engines(["duckdb", "sqlite", "postgres"], now=["duckdb", "sqlite"])
)
def test_any_action_of_the_log_has_a_rate_and_a_mean_amount(name: str, servers: Servers) -> None:
    """By hand: of an item's two, the larger amount counts, unless repeated actions do."""
    with servers.open(name) as engine:
        for table, rows in tables().items():
            engine.load(table, rows)
        try:
            once = sums(spec_of(), Database(engine))
            repeated = sums(spec_of(cleaning={"deduplicate": False}), Database(engine))
        finally:
            for table in tables():
                engine.execute(f"drop table {table}")
    assert once["A", METRICS[0]] == (2, 4)
    assert once["B", METRICS[0]] == (0, 4)
    assert once["A", METRICS[1]] == (7 + 2 + 30, 2)
    assert once["B", METRICS[2]] == (10, 2)
    assert repeated["A", METRICS[1]] == (5 + 7 + 2 + 30, 2)
    assert {key: pair for key, pair in repeated.items() if key != ("A", METRICS[1])} == {
        key: pair for key, pair in once.items() if key != ("A", METRICS[1])
    }


@by_turns(2)
def test_a_metric_of_an_action_changes_no_other_number() -> None:
    """Not who is a bot, what was looked at, which items have a label, nor what is a click."""
    metrics = ["ctr", "judged@4", "mrr", "abandonment", "purchases"]
    with connect() as engine:
        for table, rows in tables().items():
            engine.load(table, rows)
        for cleaning in ({}, CLEANING):
            alone = sums(spec_of(metrics, cleaning=cleaning), engine)
            beside = sums(spec_of([*metrics, *METRICS], cleaning=cleaning), engine)
            assert {key: pair for key, pair in beside.items() if key in alone} == alone
        result = sm.evaluate_clicks(spec_of(), engine)
        assert result.rows["Add to cart"] == (5, 4)


@by_turns(1.5)
def test_jobs_comparisons_and_experiments_take_them(tmp_path: Path) -> None:
    with connect(duckdb.connect(tmp_path / "shop.duckdb")) as engine:
        for table, rows in tables().items():
            engine.load(table, rows)
        spec = spec_of(daily=True)
        sm.run(spec, engine)
        kept = engine.records("select * from numbers where segment_name = 'all'")
        assert {row["metric"] for row in kept} == {*METRICS}
        row = sm.compare(spec_of(METRICS[0]), connection=engine)[METRICS[0]]
        assert (row["value"], row["baseline_value"]) == (0, 0.5)
        split = {"variants": ["A", "B"], "control": "A"}
        primary = "action_rate(Add to cart, better=higher)"
        experiment_spec = spec_of(["ctr"], experiment=split | {"primary": primary})
        (metric,) = sm.experiment(experiment_spec, engine).metrics
        assert (metric.metric, metric.value) == (primary, 0)
    with pytest.raises(sm.SpecError, match=r"write mean_amount\(refund, better=higher\), or lower"):
        spec_of(["ctr"], experiment=split | {"primary": "mean_amount(refund)"})


def test_an_action_that_no_event_has_is_refused() -> None:
    with connect() as engine:
        for table, rows in tables().items():
            engine.load(table, rows)
        with pytest.raises(
            sm.InputError, match=r"'refnd', which no row has; did you mean 'refund'"
        ):
            sm.evaluate_clicks(spec_of("action_rate(refnd)"), engine)
        with pytest.raises(sm.InputError, match="'Add to cart', which is not 'add to cart'"):
            sm.evaluate_clicks(spec_of("action_rate(add to cart)"), engine)
    log = {"log": {"relation": "log", "columns": {"clicked": "c", "actions": {"save": "s"}}}}
    with pytest.raises(sm.SpecError, match=r"'sav'; did you mean 'save'\? known: click, save"):
        sm.Spec(clicks=log, metrics=["action_rate(sav)"])
    with pytest.raises(sm.SpecError, match="would share the column action_rate_a_b; leave one out"):
        spec_of(["action_rate(a b)", "action_rate(a-b)"])


@pytest.mark.parametrize(
    ("text", "canonical", "column"),
    [
        ("Action_Rate( save )@", None, ""),
        (" action_rate( Save ) ", "action_rate(Save)", "action_rate_save"),
        ("action_rate(action='a, b')", "action_rate('a, b')", "action_rate_a_b"),
        ('mean_amount("x", better=LOWER)', "mean_amount(x, better=lower)", "mean_amount_x"),
        ("mean_amount(x, better=none)", "mean_amount(x)", "mean_amount_x"),
        ("action_rate(购买)", "action_rate(购买)", "action_rate_cc6f86bd"),
        ("action_rate", None, ""),
        ("action_rate()", None, ""),
        ("action_rate(save)@5", None, ""),
        ("action_rate(a, b)", None, ""),
        ("ctr(save)@5", None, ""),
        (f"action_rate({'a' * 129})", None, ""),
    ],
)
def test_its_text_is_read(text: str, canonical: str | None, column: str) -> None:
    if canonical is None:
        with pytest.raises(sm.SpecError, match="online metric"):
            online(text)
        return
    measure = online(text)
    assert (str(measure), measure.column) == (canonical, column)
    assert online(canonical) == measure
