"""Jobs over days that are known: rankings, labels, click logs, and what tables must hold."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from marked import engines

import sqlmetrics as sm
from sqlmetrics.catalog.online import ONLINE
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.views import NAMES
from sqlmetrics.spec.days import Days

EXAMPLES = [metric.example for name, metric in ONLINE.items() if name != "ctr"]
"""All online metrics but one, which is asked for with a cutoff."""

FIRST = date(2026, 1, 1)
METRICS = ["ndcg@3", "recall(rel=2)@5", "mrr", "auc", "num_ret"]
KEY = ("metric_date", "system", "segment_name", "segment_value", "metric", "k")
SUMS = ("numerator", "denominator", "n_queries", "n_skipped", "n_missing", "sum_sq")
NUMBERS = ("value", *SUMS, "ci_low", "ci_high")
LOGS = ("metrics_runs", "metrics_metrics", "metrics_definitions")
TABLES = ("metrics", "metrics_of_queries", *LOGS)
ARCHIVES = ("metrics_archive", "metrics_of_queries_archive")
SLOW = ("spark", "trino_iceberg")
WRITERS = ("duckdb", "sqlite", "postgres", "mariadb", "chdb", *SLOW)
LATER = engines(WRITERS[1:], now=[], night=SLOW)
DUCKDB_USUALLY = engines(WRITERS, now=["duckdb"], night=SLOW)
"""DuckDB in every run, others in long ones; Spark and Trino take seconds for a run of a job."""


@cache
def log(days: int = 6, seed: int = 1) -> tuple[pa.Table, pa.Table]:
    """Rankings of some days, with ties, and labels that hold for all of them."""
    chance = random.Random(seed)
    rows = [
        {
            "ds": FIRST + timedelta(day),
            "system": system,
            "country": chance.choice(["DE", "US"]) if query else "DE",
            "query_id": f"q{query}",
            "item_id": f"i{item}",
            "score": float(chance.randrange(4)),
        }
        for day in range(days)
        for system in ("new", "old's")
        for query in range(4)
        for item in range(4)
    ]
    country = {(row["ds"], row["query_id"]): row["country"] for row in rows}
    rows = [row | {"country": country[row["ds"], row["query_id"]]} for row in rows]
    labels = [
        {"query_id": f"q{q}", "item_id": f"i{item}", "grade": chance.randrange(4)}
        for q in range(5)
        for item in range(3)
    ]
    return pa.Table.from_pylist(rows), pa.Table.from_pylist(labels)


def job(name: str = "shop", **changed: Any) -> sm.Spec:
    fields: dict[str, Any] = {
        "name": name,
        "rankings": {
            "relation": "runs",
            "columns": {"score": "score", "system": "system", "date": "ds"},
        },
        "labels": {"relation": "truth"},
        "metrics": METRICS,
        "by": ["country"],
        "output": {"relation": "metrics", "per_query": "metrics_of_queries"},
    }
    return sm.Spec(**fields | changed)


def days(start: int, end: int) -> Days:
    """Days by their number, from the first of the log."""
    return Days(start=FIRST + timedelta(start), end=FIRST + timedelta(end))


@pytest.fixture(params=engines(WRITERS, now=["duckdb", "sqlite", "postgres"], night=SLOW))
def engine(request: pytest.FixtureRequest, servers: Any) -> Iterator[Any]:
    """A database with the log in a place of its own."""
    with connect(servers.open(request.param)) as opened:
        rankings, labels = log()
        opened.load("runs", rankings)
        opened.load("truth", labels)
        try:
            yield opened
        finally:
            clear(opened)


def clear(engine: Any, *tables: str) -> None:
    """Drop what a test has made in a database that others use too."""
    views = [
        f"{'wide_' * (end == 'wide')}{spec}{'' if end == 'wide' else f'_{end}'}"
        for spec in ("shop", "other", "log")
        for end in ("wide", "all", "by_country", "by_device")
    ]
    for view in (*NAMES, *views, *(["between"] * (engine.name.startswith("ClickHouse")))):
        engine.execute(f"drop view if exists metrics_{view}")
    replaced = [f"{table}_replaced" for table in TABLES[:2]]
    for table in ("runs", "truth", *TABLES, *replaced, *ARCHIVES, *tables):
        engine.execute(f"drop table if exists {table}")


def reload(engine: Any, rankings: pa.Table) -> None:
    """Other rankings in the place of those that there are."""
    engine.execute("drop table runs")
    engine.load("runs", rankings)


def facts(engine: Any, spec: str = "shop") -> dict[tuple[Any, ...], dict[str, Any]]:
    rows = engine.table(f"select * from metrics where spec = '{spec}'").to_pylist()
    by_key = {tuple(str(row[name]) for name in KEY): row for row in rows}
    assert len(by_key) == len(rows), "a key is doubled"
    return by_key


def per_query(engine: Any, spec: str = "shop") -> dict[tuple[str, ...], tuple[Any, ...]]:
    rows = engine.table(f"select * from metrics_of_queries where spec = '{spec}'").to_pylist()
    by_key = {
        (str(row["metric_date"]), row["system"], row["query_id"]): (row["ndcg_at_3"], row["mrr"])
        for row in rows
    }
    assert len(by_key) == len(rows), "a key is doubled"
    return by_key


def expected(numbers: list[int], seed: int = 1) -> sm.Result:
    """The same days, evaluated in DuckDB without a job; once for all tests."""
    return _expected(tuple(numbers), seed)


@cache
def _expected(numbers: tuple[int, ...], seed: int) -> sm.Result:
    rankings, labels = log(seed=seed)[0], log()[1]
    dates = pa.array([FIRST + timedelta(number) for number in numbers])
    rankings = rankings.filter(pc.is_in(rankings["ds"], dates))
    options = {"system": "system", "date": "ds", "by": "country", "confidence": 0.95}
    return sm.evaluate(rankings, labels, METRICS, **options)


Row = dict[str, Any]


@cache
def numbers_of(seed: int) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
    """Day -> the means and the values of queries, of an evaluation of all days at once."""
    result = expected([*range(6)], seed)
    tables = (result.to_dicts(), result.per_query().to_pylist())
    days = [str(FIRST + timedelta(number)) for number in range(6)]
    means, queries = (
        {day: [row for row in rows if str(row["metric_date"]) == day] for day in days}
        for rows in tables
    )
    return means, queries


def check(engine: Any, numbers: list[int]) -> None:
    """Exactly these days stand in both tables, as an evaluation has them."""
    check_days(engine, dict.fromkeys(numbers, 1))


def check_days(engine: Any, seeds: dict[int, int]) -> None:
    """Exactly these days stand in both tables, each with the rankings of this seed."""
    stored, queries = facts(engine), per_query(engine)
    by_day = {str(FIRST + timedelta(number)): seed for number, seed in seeds.items()}
    wanted, rows = (
        [row for day, seed in by_day.items() for row in numbers_of(seed)[at][day]] for at in (0, 1)
    )
    assert len(stored) == len(wanted)
    for row in wanted:
        actual = stored[tuple(str(row[name]) for name in KEY)]
        for name in NUMBERS:
            assert same(actual[name], row[name]), (name, actual, row)
        assert actual["definition_hash"] == row["definition_hash"]
    assert len(queries) == len(rows)
    for row in rows:
        values = queries[str(row["metric_date"]), row["system"], row["query_id"]]
        for value, name in zip(values, ("ndcg_at_3", "mrr"), strict=True):
            assert same(value, row[name]), (name, row)


def same(value: float | None, wanted: float | None) -> bool:
    """Whether two numbers are equal but for the last digits."""
    if value is None or wanted is None:
        return value is wanted
    return math.isclose(value, wanted, rel_tol=1e-9, abs_tol=1e-12)


def runs(engine: Any, spec: str = "shop") -> dict[int, str]:
    """Day, by its number -> the run that wrote it, which is one."""
    by_key = facts(engine, spec)
    by_day = {(key[0], row["run_id"]) for key, row in by_key.items()}
    assert len({day for day, _ in by_day}) == len(by_day), "a day of two runs"
    return {(date.fromisoformat(day) - FIRST).days: run for day, run in by_day}


def changed(before: dict[int, str], after: dict[int, str]) -> set[int]:
    """The days that another run wrote, or that are gone or new."""
    return {day for day in {**before, **after} if before.get(day) != after.get(day)}


MINUTE = timedelta(minutes=1)
CLICK_TABLES = ("impressions", "events", "requests")


def click_log(seed: int) -> dict[str, pa.Table]:
    """Five days of requests that last past midnight, or begin before they are logged, and bots.

    The bots have their busy hour on one day, and are shown something on all.
    """
    chance = random.Random(seed)
    impressions: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    requests: list[dict[str, Any]] = []
    for number in range(60):
        of = {
            "request_id": f"r{number}",
            "user": f"u{chance.randrange(8)}",
            "system": chance.choice(["new", "old's"]),
            "query": f"q{number % 7}",
            "session": f"s{number // 3}" if number % 4 else None,
        }
        began = datetime(2026, 1, 1, 23, 45) + timedelta(chance.randrange(4))
        began += chance.randrange(30) * MINUTE
        logged = began - chance.choice([0, 0, 0, 20]) * MINUTE
        if chance.random() < 0.9:
            n_results = chance.choice([0, 5])
            requests.append(of | {"t": logged, "n": n_results})
        for position in range(1, chance.choice([0, 3, 5]) + 1):
            row = of | {"item_id": f"i{chance.randrange(6)}"}
            at = began + chance.choice([0, 0, 2, 20]) * MINUTE
            is_test = int(chance.random() < 0.03)
            impressions.append(row | {"position": position, "at": at, "is_test": is_test})
            for _ in range(chance.choice([0, 0, 1, 2])):
                action = chance.choice(["click", "purchase"])
                after = chance.choice([-5, 1, 10, 40]) * MINUTE
                paid = 1.25 * position if action == "purchase" else None
                acted = {"action": action, "happened": at + after, "paid": paid}
                events.append(row | acted | {"stay": float((number + 20 * position) % 60)})
    for user in ("u0", "u1"):
        busy = datetime(2026, 1, chance.randrange(1, 5), 12)
        row = {"request_id": "none", "item_id": "i1", "user": user, "action": "click"}
        events += [row | {"happened": busy + minute * MINUTE} for minute in range(30)]
    tables = zip(CLICK_TABLES, (impressions, events, requests), strict=True)
    return {name: pa.Table.from_pylist(rows) for name, rows in tables}


_REQUEST_COLUMNS = {name: name for name in ("user", "system", "query", "session")}
_EVENT_COLUMNS = {"user": "user", "time": "happened", "dwell": "stay", "amount": "paid"}
CLICK_JOB: dict[str, Any] = {
    "impressions": {"relation": "impressions", "columns": _REQUEST_COLUMNS | {"time": "at"}},
    "events": {"relation": "events", "columns": _EVENT_COLUMNS},
    "requests": {
        "relation": "requests",
        "columns": _REQUEST_COLUMNS | {"time": "t", "results": "n"},
    },
    "cleaning": {
        "test": "is_test = 1",
        "max_events_per_user_hour": 20,
        "attribution_window": "30m",
        "same_position": "first",
        "unseen": 1,
    },
    "labels": {"grades": {"click": 1, "purchase": 2}},
    "daily": True,
}


def click_job(**changed: Any) -> sm.Spec:
    metrics = ["mrr", "ndcg@3", "ctr@3", *EXAMPLES]
    clicks = CLICK_JOB | changed
    return sm.Spec(name="log", clicks=clicks, metrics=metrics, output={"relation": "metrics"})


def check_clicks(
    actual: dict[tuple[Any, ...], dict[str, Any]], tables: dict[str, pa.Table]
) -> None:
    """These are the numbers that DuckDB gives, without a job, of the whole log at once."""
    with connect() as engine:
        for name, table in tables.items():
            engine.load(name, table)
        rows = evaluate_clicks(click_job(), engine, confidence=0.95).facts().to_pylist()
    expected = {tuple(str(row[name]) for name in KEY): row for row in rows}
    assert actual.keys() == expected.keys()
    assert len({key[0] for key in actual}) == 5
    for key, row in expected.items():
        for name in NUMBERS:
            close = row[name] if row[name] is None else pytest.approx(row[name], rel=1e-9)
            assert actual[key][name] == close, (key, name)


def by_day(**changed: Any) -> sm.Spec:
    """The job of a log that is stored by day."""
    stored = {
        name: CLICK_JOB[name] | {"columns": CLICK_JOB[name]["columns"] | {"day": "ds"}}
        for name in CLICK_TABLES
    }
    return click_job(**stored, **changed)
