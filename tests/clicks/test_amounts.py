"""Amounts of a click log: revenue, order values, and currencies that do not add up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from engines.starting import Servers
from marked import engines

import sqlmetrics as sm
from sqlmetrics.engines.database import Database

IMPRESSIONS = [
    {"request_id": f"r{r}", "item_id": item, "position": p, "user_id": f"u{r // 2}", "system": s}
    for r, s in ((0, "A"), (1, "A"), (2, "B"), (3, "B"), (4, "A"), (6, "B"))
    for p, item in enumerate("abc", start=1)
]
"""Six requests of four users; two systems."""

METRICS = [
    "revenue_per_request",
    "average_order_value",
    "conversion_rate",
    "first_purchase_rank",
    "purchases",
]


def event(request: int, item: str, action: str, amount: Any = None, currency: str = "EUR") -> Any:
    return {
        "request_id": f"r{request}",
        "item_id": item,
        "action": action,
        "paid": amount,
        "currency": currency,
    }


EVENTS = [
    event(0, "b", "click"),
    event(0, "b", "purchase", 10.5),
    event(0, "b", "purchase", 12.0),
    event(0, "c", "purchase", 3.0),
    event(2, "a", "purchase"),
    event(3, "c", "purchase", 40.0),
    event(3, "c", "click", 99.0),
    event(6, "zz", "purchase", 500.0),
]


def spec_of(event_rows: list[dict[str, Any]], metrics: Any = METRICS, **clicks: Any) -> sm.Spec:
    """The spec of the log; the last event is of an item that was not shown."""
    columns = {"system": "system", "user": "user_id"}
    tables: dict[str, Any] = {
        "impressions": {"data": pa.Table.from_pylist(IMPRESSIONS), "columns": columns},
        "events": {
            "data": pa.Table.from_pylist(event_rows),
            "columns": {"amount": "paid", "currency": "currency"},
        },
    }
    tables["cleaning"] = {"deduplicate": False}
    return sm.Spec(clicks=tables | clicks, metrics=metrics, baseline="A")


def values(spec: sm.Spec, connection: Any = None) -> dict[str, dict[str, float | None]]:
    """System -> metric -> its value."""
    systems: dict[str, dict[str, float | None]] = {"A": {}, "B": {}}
    for row in sm.evaluate_clicks(spec, connection).online().to_pylist():
        systems[row["system"]][row["metric"]] = row["value"]
    return systems


A = {"revenue_per_request": 25.5 / 3, "average_order_value": 25.5, "conversion_rate": 1 / 3}
A |= {"first_purchase_rank": 2, "purchases": 1}
B = {"revenue_per_request": 40 / 3, "average_order_value": 20, "conversion_rate": 2 / 3}
B |= {"first_purchase_rank": 2, "purchases": 2 / 3}


@pytest.mark.parametrize(
    "name", engines(["duckdb", "sqlite", "postgres"], now=["duckdb", "sqlite"])
)
def test_amounts_are_added_up_by_request(name: str, servers: Servers) -> None:
    with servers.open(name) as engine:
        database = Database(engine)
        assert values(spec_of(EVENTS), database) == {"A": pytest.approx(A), "B": pytest.approx(B)}
        once = spec_of(EVENTS, ["revenue_per_request", "purchases"], cleaning={"deduplicate": True})
        assert values(once, database)["A"] == pytest.approx(
            {"revenue_per_request": 5, "purchases": 2 / 3}
        )


def test_a_wide_log_has_amounts_too() -> None:
    rows = [
        row | {"bought": int(row["position"] == 2), "paid": 2.5 * row["position"]}
        for row in IMPRESSIONS
    ]
    columns = {"system": "system", "actions": {"purchase": "bought"}, "amount": "paid"}
    columns["clicked"] = "bought"
    log = {"log": {"data": pa.Table.from_pylist(rows), "columns": columns}}
    spec = sm.Spec(clicks=log, metrics=["revenue_per_request", "average_order_value"])
    assert values(spec)["A"] == {"revenue_per_request": 5, "average_order_value": 5}


def test_currencies_do_not_add_up() -> None:
    event_rows = [*EVENTS, event(4, "a", "purchase", 7.0, "USD")]
    counts = r"events: amounts are in 2 currencies, which do not add up: EUR 6, USD 1"
    with pytest.raises(sm.InputError, match=counts):
        sm.evaluate_clicks(spec_of(event_rows))
    log = spec_of(event_rows).clicks
    assert log is not None
    assert log.events is not None
    kept = log.events.model_copy(update={"where": "currency = 'EUR'"})
    assert values(spec_of(event_rows, events=kept))["A"] == pytest.approx(A)


def test_what_amounts_need_is_told(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(EVENTS).drop_columns("currency")
    no_amounts = {"data": table, "columns": {}}
    message = r"revenue_per_request needs a column of amounts \(columns.amount\)"
    for ask in (sm.evaluate_clicks, sm.compare):
        with pytest.raises(sm.SpecError, match=message):
            ask(spec_of(EVENTS, ["revenue_per_request"], events=no_amounts))
    path = tmp_path / "events.csv"
    path.write_text("request_id,item_id,action,paid\nr0,b,purchase,ten\n")
    texts = {"file": str(path), "columns": {"amount": "paid"}}
    with pytest.raises(sm.InputError, match="paid is not a number in 1 row"):
        sm.evaluate_clicks(spec_of(EVENTS, ["revenue_per_request"], events=texts))


def test_revenue_is_compared_by_users() -> None:
    row = sm.compare(spec_of(EVENTS), metrics="revenue_per_request")["revenue_per_request"]
    assert (row["value"], row["baseline_value"]) == pytest.approx(
        (B["revenue_per_request"], A["revenue_per_request"])
    )
    assert row["sentence"].endswith("over 4 users)")


def test_amounts_are_cut_where_a_comparison_says_so() -> None:
    """Of two users who paid, the median is 25.5, so 40 counts as that; a quantile is not cut."""
    metrics = ["revenue_per_request", "average_order_value(quantile=0.9)", "conversion_rate"]
    cut = sm.compare(spec_of(EVENTS, metrics), winsorise=0.5)
    assert cut["revenue_per_request"]["value"] == pytest.approx(25.5 / 3)
    assert cut["revenue_per_request"]["baseline_value"] == pytest.approx(25.5 / 3)
    assert cut["average_order_value(quantile=0.9)"]["value"] == 40
    assert cut["conversion_rate"]["value"] == pytest.approx(2 / 3)
    assert "1 of 2 users with an amount counts as 25.5000, the quantile 0.5" in cut.notes[-1]
    with pytest.raises(sm.SpecError, match="winsorise cuts amounts of a click log, and no metric"):
        sm.compare(spec_of(EVENTS, ["ctr"]), winsorise=0.5)
    with pytest.raises(sm.SpecError, match=r"above 0 and below 1, like 0\.99; given 1"):
        sm.compare(spec_of(EVENTS, metrics), winsorise=1)
