"""The views beside the fact table, against the evaluation and against sums by hand."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import timedelta
from typing import Any

import pytest
from test_job_days import FIRST, METRICS, MORE, clear, days, engine, expected, job, log

from sqlmetrics.engines.database import database
from sqlmetrics.jobs.run import write

__all__ = ["engine"]  # the fixture


def table(engine: Any, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.table(query).to_pylist()
    return found


DAYS = [0, 1, 2, 4, 5]
"""A day is missing, after which there is none before."""


def near(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


@pytest.mark.parametrize("engine", MORE, indirect=True)
def test_the_views_are_the_evaluation_and_grow_with_the_table(engine: Any) -> None:
    for part in (days(0, 3), days(4, 6)):
        write(job(), engine, part)
    wide_has_a_column_a_metric(engine)
    all_days_together_are_the_mean_over_all_queries(engine)
    any_days_and_systems_add_up(engine)
    daily_change_is_to_the_day_before(engine)
    latest_is_the_last_day_of_each_spec(engine)
    the_wide_view_grows(engine)


def wide_has_a_column_a_metric(done: Any) -> None:
    wide = {
        (str(row["metric_date"]), row["system"], row["segment_name"], row["segment_value"]): row
        for row in table(done, "select * from metrics_wide")
    }
    wanted = expected(DAYS)
    columns = {(one.name, one.k or 0): one.column for one in wanted.measures}
    assert len(wide) * len(METRICS) == len(wanted.to_dicts())
    for row in wanted.to_dicts():
        there = wide[
            str(row["metric_date"]), row["system"], row["segment_name"], row["segment_value"]
        ]
        column = columns[row["metric"], row["k"]]
        assert there[column] == near(row["value"])
        assert there[f"{column}_numerator"] == near(row["numerator"])
        assert there[f"{column}_denominator"] == near(row["denominator"])


def all_days_together_are_the_mean_over_all_queries(done: Any) -> None:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in expected(DAYS).per_query().to_pylist():
        for column in ("ndcg_at_3", "recall_rel2_at_5", "mrr"):
            if row[column] is not None:
                values[row["system"], column].append(row[column])
    named = {("ndcg", 3): "ndcg_at_3", ("recall(rel=2)", 5): "recall_rel2_at_5", ("mrr", 0): "mrr"}
    rows = table(done, "select * from metrics_rollup where segment_name = 'all'")
    assert len(rows) == 2 * len(METRICS)
    for row in rows:
        column = named.get((row["metric"], row["k"]))
        if column is None:  # auc and counts are no sums of queries
            assert row["value"] is None
            continue
        own = values[row["system"], column]
        assert row["value"] == pytest.approx(sum(own) / len(own), rel=1e-9)
        assert row["n_queries"] == len(own)
        assert row["n_days"] == 5
        assert str(row["first_date"]) == str(FIRST)


def any_days_and_systems_add_up(done: Any) -> None:
    """SUM / SUM over some days and both systems, as a dashboard does it."""
    inside = " and ".join(days(1, 5).ends.of("metric_date"))
    ((value,),) = done.rows(
        "select sum(ndcg_at_3_numerator) / sum(ndcg_at_3_denominator) as v from metrics_wide "
        f"where segment_name = 'all' and {inside}"
    )
    own = expected([1, 2, 4]).per_query()["ndcg_at_3"].drop_null().to_pylist()
    assert value == pytest.approx(sum(own) / len(own), rel=1e-9)


def latest_is_the_last_day_of_each_spec(done: Any) -> None:
    write(job("other", metrics=["mrr"]), done, days(0, 2))
    rows = table(done, "select * from metrics_latest")
    last = {(row["spec"], str(row["metric_date"])) for row in rows}
    assert last == {("shop", str(FIRST + timedelta(5))), ("other", str(FIRST + timedelta(1)))}
    assert len([row for row in rows if row["spec"] == "shop"]) == len(expected([5]).to_dicts())


def daily_change_is_to_the_day_before(done: Any) -> None:
    rows = table(
        done,
        "select * from metrics_daily_change where spec = 'shop' and system = 'new' "
        "and segment_name = 'all' and metric = 'mrr'",
    )
    values = {str(row["metric_date"]): row["value"] for row in rows}
    assert len(values) == 5
    for row in rows:
        earlier = max((day for day in values if day < str(row["metric_date"])), default=None)
        assert (row["previous_date"] and str(row["previous_date"])) == earlier
        before = values[earlier] if earlier else None
        assert row["value_before"] == near(before)
        assert row["change"] == near(None if before is None else row["value"] - before)


def the_wide_view_grows(done: Any) -> None:
    """New metrics, of this spec or another, are new columns; what was built on it stays."""
    done.execute("create view built as select spec, ndcg_at_3 from metrics_wide")
    try:
        write(job(metrics=["hit@1", *METRICS]), done, days(4, 6))
        write(job("other", metrics=["ap", "mrr"]), done, days(0, 1))
        names = list(done.columns("metrics_wide"))
        assert {"hit_at_1", "ap", "ndcg_at_3", "auc_numerator"} <= set(names)
        assert len(names) == 5 + 3 * 7
        row, later = table(
            done,
            "select * from metrics_wide where spec = 'other' and system = 'new' "
            "and segment_name = 'all' order by metric_date",
        )
        assert row["ap"] > 0
        assert later["ap"] is row["hit_at_1"] is None
        assert len(table(done, "select * from built")) > 0
    finally:
        done.execute("drop view built")


@pytest.mark.xdist_group("duckdb")
def test_duckdb_filters_days_in_the_scan(servers: Any) -> None:
    with database(servers.open("duckdb")) as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        write(job(), engine)
        for view in ("wide", "daily_change"):
            ((_, plan),) = engine.rows(
                f"explain (format json) select * from metrics_{view} "
                "where metric_date >= date '2026-01-03'"
            )
            scans = [json.dumps(one) for one in _scans(json.loads(plan)[0])]
            assert any(re.search(r"metric_date ?>= ?'2026-01-03'", one) for one in scans), scans


def _scans(node: dict[str, Any]) -> list[dict[str, Any]]:
    own = [node["extra_info"]] if "SCAN" in node["name"] else []
    return own + [one for child in node["children"] for one in _scans(child)]


@pytest.mark.xdist_group("postgres")
def test_postgres_filters_days_in_the_scan(servers: Any) -> None:
    with database(servers.open("postgres")) as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        try:
            write(job(), engine)
            server: Any = getattr(engine, "_engine", engine)
            for view in ("wide", "daily_change"):
                plan = server.rows(
                    f"explain select * from metrics_{view} where metric_date >= '2026-01-03'"
                )
                text = "\n".join(line for (line,) in plan)
                assert re.search(r"Scan on metrics.*\n *Filter: .metric_date >= '2026-01-03'", text)
        finally:
            clear(engine)
