"""Quantiles of what requests have, compared by users: against sorted lists in plain Python."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.proof.reference_online import quantile_of_users

START = datetime(2026, 1, 1)
QUANTILES = {"0.5": Fraction(1, 2), "0.07": Fraction(7, 100), "0.9": Fraction(9, 10)}
Values = Mapping[str, Mapping[str, list[float]]]
"""System -> user -> their values."""


def log_with_values() -> tuple[dict[str, pa.Table], dict[str, Values]]:
    """A log with ties, and the seconds and the amounts of its requests that have some."""
    chance = random.Random(4)
    impressions, events = [], []
    seconds: dict[str, Any] = {"A": defaultdict(list), "B": defaultdict(list)}
    amounts: dict[str, Any] = {"A": defaultdict(list), "B": defaultdict(list)}
    for number in range(200):
        user = chance.randrange(30)
        system, name = "AB"[user % 2], f"u{user}"
        key = {"request_id": f"r{number}", "item_id": "i"}
        at = START + timedelta(hours=number)
        impressions.append({**key, "position": 1, "system": system, "user_id": name, "at": at})
        if chance.random() < 0.8:
            after, paid = float(chance.randrange(1, 12)), chance.choice([5.0, 9.5, 20.0, 80.0])
            done_at = at + timedelta(seconds=after)
            events.append({**key, "action": "click", "amount": None, "at": done_at})
            events.append({**key, "action": "purchase", "amount": paid, "at": done_at})
            seconds[system][name].append(after)
            amounts[system][name].append(paid)
    tables = {
        "impressions": pa.Table.from_pylist(impressions),
        "events": pa.Table.from_pylist(events),
    }
    return tables, {"time_to_success": seconds, "average_order_value": amounts}


def spec_of(metrics: Any, **clicks: Any) -> sm.Spec:
    columns = {"system": "system", "user": "user_id", "time": "at"}
    log = {
        "impressions": {"relation": "impressions", "columns": columns},
        "events": {"relation": "events", "columns": {"time": "at", "amount": "amount"}},
    }
    output = {"relation": "numbers"}
    return sm.Spec(clicks=log | clicks, metrics=metrics, baseline="A", output=output)


@by_turns(3)
@pytest.mark.parametrize(
    "name", engines(["duckdb", "sqlite", "postgres"], now=["duckdb", "sqlite"])
)
def test_a_quantile_and_its_error_are_those_of_sorted_lists(name: str, servers: Servers) -> None:
    """Also beside means, of a log with tied values; the p-value is that of Welch's t."""
    tables, values = log_with_values()
    quantiles = {f"{m}(quantile={text})": (m, p) for m in values for text, p in QUANTILES.items()}
    with servers.open(name) as engine:
        for table, rows in tables.items():
            engine.load(table, rows)
        try:
            spec = spec_of([*quantiles, "time_to_success"])
            comparison = sm.compare(spec, connection=Database(engine))
        finally:
            for table in tables:
                engine.execute(f"drop table {table}")
    for text, (metric, p) in quantiles.items():
        row = comparison[text]
        (old, of_old), (new, of_new) = (
            quantile_of_users(values[metric][system].values(), p) for system in "AB"
        )
        assert (row["baseline_value"], row["value"]) == pytest.approx((old, new), rel=1e-12)
        assert row["standard_error"] == pytest.approx(math.sqrt(of_old + of_new), rel=1e-9)
    seconds = values["time_to_success"]["B"].values()
    means = [second for user_seconds in seconds for second in user_seconds]
    assert comparison["time_to_success"]["value"] == pytest.approx(sum(means) / len(means))
    assert any("quantiles over requests" in note for note in comparison.notes)


def test_experiments_decide_by_quantiles_and_nothing_else_takes_them() -> None:
    """What adds up over days or segments refuses them in a sentence."""
    tables, values = log_with_values()
    text = "time_to_success(quantile=0.9)"
    with connect() as engine:
        for table, rows in tables.items():
            engine.load(table, rows)
        split = {"variants": ["A", "B"], "control": "A", "primary": text, "cuped_days": 3}
        split["start"] = "2026-01-05"
        (row,) = sm.experiment(spec_of(["ctr"], experiment=split), engine).metrics
        assert row.metric == text
        assert row.value in {
            second for part in values["time_to_success"]["B"].values() for second in part
        }
        for call in (sm.evaluate_clicks, sm.run):
            with pytest.raises(sm.SpecError, match="quantiles of days and segments do not add up"):
                call(spec_of([text]), engine)
        dates = ["2026-01-01", "2026-01-02"]
        with pytest.raises(sm.SpecError, match="quantiles are compared between systems, not"):
            sm.compare(spec_of([text]), systems="A", dates=dates, connection=engine)
    for wrong in ("ctr(quantile=0.5)", "time_to_success(quantile=1)", "time_to_success(0)"):
        with pytest.raises(sm.SpecError, match=r"takes no settings|above 0 and below 1"):
            spec_of([wrong])
