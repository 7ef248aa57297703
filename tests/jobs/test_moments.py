"""Moments and intervals in the fact table: beside `compare`, and from each query's own values."""

from __future__ import annotations

import math
import random
from datetime import date, timedelta
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from job_days import DUCKDB_USUALLY, engine
from marked import by_turns
from slices import kept

import sqlmetrics as sm
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.run import write
from sqlmetrics.stats.student import critical

__all__ = ["engine"]  # the fixture
FIRST = date(2026, 1, 5)
Row = dict[str, Any]


@cache
def tables() -> tuple[pa.Table, pa.Table]:
    """Two days of 24 queries of 7 users, in two countries, with weights; some lists are missing."""
    chance = random.Random(4)
    rows, labels = [], []
    for query in range(24):
        user, country = f"u{query % 7}", chance.choice(["DE", "FR"])
        query_fields = {"query_id": f"q{query}", "user_id": user, "country": country}
        query_fields["w"] = float(1 + query % 4)
        for item in range(6):
            if query and chance.random() < 0.7:
                grade = chance.randrange(3)
                labels.append({"query_id": f"q{query}", "item_id": f"i{item}", "grade": grade})
        for day in range(2):
            for system in ("new", "old"):
                if chance.random() < 0.15:
                    continue
                list_fields = query_fields | {"ds": FIRST + timedelta(day), "system": system}
                rows += [
                    list_fields | {"item_id": f"i{i}", "score": chance.random()} for i in range(6)
                ]
    return pa.Table.from_pylist(rows), pa.Table.from_pylist(labels)


def spec(*, weight: bool, cluster: bool, missing: str) -> sm.Spec:
    columns: Row = {"score": "score", "system": "system", "date": "ds"}
    columns |= {"weight": "w"} if weight else {}
    return sm.Spec(
        name="shop",
        rankings={"relation": "weighted_lists", "columns": columns},
        labels={"relation": "weighted_truth"},
        metrics=["ndcg@3", "mrr", "recall(average=micro)@3", "num_q"],
        conventions={"missing": missing},
        by=["country"],
        baseline="old",
        output={"relation": "metrics", "per_query": "metrics_of_queries"},
        **({"cluster": "user_id"} if cluster else {}),
    )


CASES = [
    {"weight": False, "cluster": False, "missing": "zero"},
    {"weight": True, "cluster": False, "missing": "drop"},
    {"weight": False, "cluster": True, "missing": "drop"},
    {"weight": True, "cluster": True, "missing": "zero"},
]


@by_turns(0.8)
@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_moments_are_those_of_compare_and_of_the_queries(engine: Any) -> None:
    for name, rows in zip(TABLES, tables(), strict=True):
        engine.load(name, rows)
    try:
        for case in kept("moments", CASES, 0.5) if engine.name == "DuckDB" else CASES[-1:]:
            compared = spec(**case)
            write(compared, engine, full_refresh=True)
            rows = engine.table("select * from metrics").to_pylist()
            values = engine.table("select * from metrics_of_queries").to_pylist()
            check_pairs(rows, compared, case)
            check_queries(rows, values, case)
    finally:
        for name in TABLES:
            engine.execute(f"drop table {name}")


TABLES = ("weighted_lists", "weighted_truth")


def check_pairs(rows: list[Row], compared: sm.Spec, case: Row) -> None:
    """Each day's difference is that of `compare`, on DuckDB."""
    with connect() as database:
        for name, table in zip(TABLES, tables(), strict=True):
            database.load(name, table)
        wanted = {}
        for day in (FIRST, FIRST + timedelta(1)):
            ends = {"start": day, "end": day + timedelta(1)}
            result = sm.compare(compared, by="country", connection=database, **ends)
            wanted |= {
                (str(day), row["segment_value"], row["metric"]): row for row in result.to_dicts()
            }
    mine = [row for row in rows if row["baseline"] is not None]
    assert len(mine) == len(wanted) == 2 * 3 * 2
    for row in mine:
        key = (str(row["metric_date"]), row["segment_value"], f"{row['metric']}@{row['k']}")
        comparison = wanted[key if row["k"] else (*key[:2], row["metric"])]
        df = row["pair_clusters"] - 1  # and an interval of its own, where compare adjusts for 12
        narrower = critical(0.95, df) / critical(comparison["ci_level"], df)
        for name, other in {"difference_low": "ci_low", "difference_high": "ci_high"}.items():
            reach = (comparison[other] - comparison["difference"]) * narrower
            assert row[name] == near(comparison["difference"] + reach), (key, name)
        assert (row["difference"], row["n_pairs"]) == (
            near(comparison["difference"]),
            comparison["n"],
        )
        before = row["sum_y"] / row["pair_w"]
        assert before == near(comparison["baseline_value"])


def check_queries(rows: list[Row], values: list[Row], case: Row) -> None:
    """Moments and interval from the values of the queries, in deviations."""
    rankings, _ = tables()
    queries = {row["query_id"]: row for row in rankings.to_pylist()}
    for row in rows:
        if row["metric"] not in ("ndcg", "mrr"):
            continue
        column = {"ndcg": "ndcg_at_3", "mrr": "mrr"}[row["metric"]]
        query_values = [
            (queries[query_row["query_id"]], query_row[column])
            for query_row in values
            if (str(query_row["metric_date"]), query_row["system"])
            == (str(row["metric_date"]), row["system"])
            and query_row[column] is not None
            and row["segment_value"] in ("all", queries[query_row["query_id"]]["country"])
        ]
        units: dict[str, list[float]] = {}
        for fact, value in query_values:
            weight = fact["w"] if case["weight"] else 1.0
            unit = units.setdefault(fact["user_id" if case["cluster"] else "query_id"], [0.0, 0.0])
            unit[0] += weight * value
            unit[1] += weight
        pairs = list(units.values())
        n, bottom = len(pairs), sum(w for _, w in pairs)
        mean = sum(x for x, _ in pairs) / bottom
        error = math.sqrt(sum((x - mean * w) ** 2 for x, w in pairs) * n / (n - 1)) / bottom
        assert row["n_clusters"] == n
        assert row["value"] == near(mean)
        assert row["sum_x2"] == near(sum(x * x for x, _ in pairs))
        assert row["sum_xw"] == near(sum(x * w for x, w in pairs))
        assert row["sum_w2"] == near(sum(w * w for _, w in pairs))
        reach = critical(0.95, n - 1) * error
        assert (row["ci_low"], row["ci_high"]) == (near(mean - reach), near(mean + reach))


@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_online_metrics_have_intervals_over_requests(engine: Any) -> None:
    chance, rows = random.Random(6), []
    for request in range(40):
        clicks = [chance.random() < 0.4 for _ in range(chance.randrange(1, 5))]
        rows += [
            {"request_id": f"r{request}", "query": f"q{request % 5}", "item_id": f"i{position}"}
            | {"position": position, "is_clicked": int(clicked)}
            for position, clicked in enumerate(clicks, 1)
        ]
    engine.load("wide_log", pa.Table.from_pylist(rows))
    log = {"relation": "wide_log", "columns": {"clicked": "is_clicked"}}
    click_spec = sm.Spec(
        name="log",
        clicks={"log": log},
        online=["ctr@2", "abandonment", "first_click_rank"],
        output={"relation": "metrics"},
    )
    try:
        write(click_spec, engine)
        by_metric = {
            row["metric"]: row for row in engine.table("select * from metrics").to_pylist()
        }
    finally:
        engine.execute("drop table wide_log")
    requests: dict[str, list[Row]] = {}
    for row in rows:
        requests.setdefault(row["request_id"], []).append(row)
    added: dict[str, list[tuple[float, float]]] = {"ctr": [], "abandonment": []}
    added["first_click_rank"] = []
    for impressions in requests.values():
        top = [row for row in impressions if row["position"] <= 2]
        positions = [row["position"] for row in impressions if row["is_clicked"]]
        added["ctr"].append((sum(row["is_clicked"] for row in top), len(top)))
        added["abandonment"].append((not positions, 1))
        added["first_click_rank"].append((min(positions, default=0), bool(positions)))
    for name, units in added.items():
        counted = [unit for unit in units if unit[1]]
        n, bottom = len(counted), sum(w for _, w in counted)
        mean = sum(x for x, _ in counted) / bottom
        error = math.sqrt(sum((x - mean * w) ** 2 for x, w in counted) * n / (n - 1)) / bottom
        reach = critical(0.95, n - 1) * error
        row = by_metric[name]
        assert (row["value"], row["n_clusters"]) == (near(mean), n), name
        assert (row["ci_low"], row["ci_high"]) == (near(mean - reach), near(mean + reach)), name
        assert row["ci_method"] == "Student's t, 95 %, by request"


def near(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-9, abs=1e-11)
