"""The views beside the fact table, against the evaluation and against sums by hand."""

from __future__ import annotations

import json
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from job_days import DUCKDB_USUALLY, FIRST, METRICS, clear, days, engine, expected, job, log
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.changes import changes as changes_of
from sqlmetrics.jobs.run import write
from sqlmetrics.jobs.schema import BASELINE
from sqlmetrics.jobs.spec_views import PARTS, Metric
from sqlmetrics.jobs.views import compiled_views, make_views, view_statements
from sqlmetrics.stats.student import critical

__all__ = ["engine"]  # the fixture


def table(engine: Any, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = engine.table(query).to_pylist()
    return rows


DAYS = [0, 1, 2, 4, 5]
"""A day is missing, after which there is none before."""


def near(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


@by_turns(1)
@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_the_views_are_the_evaluation_and_grow_with_the_table(engine: Any) -> None:
    for part in (days(0, 3), days(4, 6)):
        write(job(), engine, part)
    wide_has_a_column_a_metric(engine)
    all_days_together_are_the_mean_over_all_queries(engine)
    any_days_and_systems_add_up(engine)
    daily_change_is_to_the_day_before(engine)
    days_that_are_missing_are_told(engine)
    latest_is_the_last_day_of_each_spec(engine)
    the_wide_view_grows(engine)


def wide_has_a_column_a_metric(engine: Any) -> None:
    wide = {
        (str(row["metric_date"]), row["system"], row["segment_name"], row["segment_value"]): row
        for row in table(engine, "select * from metrics_wide")
    }
    wanted = expected(DAYS)
    columns = {(measure.name, measure.k or 0): measure.column for measure in wanted.measures}
    assert len(wide) * len(METRICS) == len(wanted.to_dicts())
    for row in wanted.to_dicts():
        stored = wide[
            str(row["metric_date"]), row["system"], row["segment_name"], row["segment_value"]
        ]
        column = columns[row["metric"], row["k"]]
        assert stored[column] == near(row["value"])
        assert stored[f"{column}_numerator"] == near(row["numerator"])
        assert stored[f"{column}_denominator"] == near(row["denominator"])
        assert stored[f"{column}_ci_low"] == near(row["ci_low"])
        assert stored[f"{column}_ci_high"] == near(row["ci_high"])


def all_days_together_are_the_mean_over_all_queries(engine: Any) -> None:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in expected(DAYS).per_query().to_pylist():
        for column in ("ndcg_at_3", "recall_rel2_at_5", "mrr"):
            if row[column] is not None:
                values[row["system"], column].append(row[column])
    named = {("ndcg", 3): "ndcg_at_3", ("recall(rel=2)", 5): "recall_rel2_at_5", ("mrr", 0): "mrr"}
    rows = table(engine, "select * from metrics_rollup where segment_name = 'all'")
    assert len(rows) == 2 * len(METRICS)
    for row in rows:
        column = named.get((row["metric"], row["k"]))
        if row["metric"] == "num_ret":
            stored = table(engine, "select * from metrics where metric = 'num_ret'")
            ours = [day for day in stored if key_of(day, *SLICE[2:]) == key_of(row, *SLICE[2:])]
            assert row["value"] == sum(day["value"] for day in ours) > 0
            continue
        if column is None:  # auc is no sum of queries
            assert row["value"] is None
            continue
        scores = values[row["system"], column]
        assert row["value"] == pytest.approx(sum(scores) / len(scores), rel=1e-9)
        assert row["n_queries"] == len(scores)
        assert row["n_days"] == 5
        assert str(row["first_date"]) == str(FIRST)


def any_days_and_systems_add_up(engine: Any) -> None:
    """SUM / SUM over some days and both systems, as a dashboard does it."""
    inside = " and ".join(days(1, 5).ends.of("metric_date"))
    ((value,),) = engine.rows(
        "select sum(ndcg_at_3_numerator) / sum(ndcg_at_3_denominator) as v from metrics_wide "
        f"where segment_name = 'all' and {inside}"
    )
    scores = expected([1, 2, 4]).per_query()["ndcg_at_3"].drop_null().to_pylist()
    assert value == pytest.approx(sum(scores) / len(scores), rel=1e-9)


def days_that_are_missing_are_told(engine: Any) -> None:
    rows = table(engine, "select * from metrics_days")
    missing = {str(row["metric_date"]) for row in rows if row["is_missing"]}
    assert (len(rows), missing) == (6, {str(FIRST + timedelta(3))})
    (row,) = table(engine, "select * from metrics_status")
    if engine.name == "DuckDB":
        kinds = {*engine.columns("metrics_status").values()}
        assert kinds == {"BIGINT", "DATE", "TIMESTAMP", "VARCHAR"}, "counts are no wider"
        rolled_up = {*engine.columns("metrics_rollup").values()}
        assert rolled_up == {"BIGINT", "DATE", "DOUBLE", "INTEGER", "VARCHAR"}, "nor are sums"
    assert (row["n_missing_days"], row["n_metrics_with_holes"]) == (1, 0)
    assert (row["last_outcome"], row["n_metrics"]) == ("replaced", len(METRICS))


def latest_is_the_last_day_of_each_spec(engine: Any) -> None:
    write(job("other", metrics=["mrr"]), engine, days(0, 2))
    rows = table(engine, "select * from metrics_latest")
    last = {(row["spec"], str(row["metric_date"])) for row in rows}
    assert last == {("shop", str(FIRST + timedelta(5))), ("other", str(FIRST + timedelta(1)))}
    assert len([row for row in rows if row["spec"] == "shop"]) == len(expected([5]).to_dicts())


def daily_change_is_to_the_day_before(engine: Any) -> None:
    rows = table(
        engine,
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


def the_wide_view_grows(engine: Any) -> None:
    """New metrics, of this spec or another, are new columns; what was built on it stays."""
    engine.execute("create view built as select spec, ndcg_at_3 from metrics_wide")
    try:
        write(job(metrics=["hit@1", *METRICS]), engine, days(4, 6))
        write(job("other", metrics=["ap", "mrr"]), engine, days(0, 1))
        names = list(engine.columns("metrics_wide"))
        assert {"hit_at_1", "ap", "ndcg_at_3", "auc_numerator"} <= set(names)
        assert len(names) == 5 + 5 * 7
        row, later = table(
            engine,
            "select * from metrics_wide where spec = 'other' and system = 'new' "
            "and segment_name = 'all' order by metric_date",
        )
        assert row["ap"] > 0
        assert later["ap"] is row["hit_at_1"] is None
        assert len(table(engine, "select * from built")) > 0
    finally:
        engine.execute("drop view built")


Key = tuple[Any, ...]

SLICE = ("spec", "metric_date", "system", "segment_name", "segment_value")
MEASURE = ("metric", "k")
WIDE = {"value": ""} | {name: f"_{name}" for name in PARTS}


@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_each_row_of_each_view(engine: Any) -> None:
    """Of a table with holes, in which no row is told by less than its whole key."""
    rows = random_facts()
    engine.load("metrics", pa.Table.from_pylist(rows))
    by_key = {key_of(row): row for row in rows}
    changes_of(job(), engine).carry_out(engine)
    engine.load("log", pa.Table.from_pylist(RUNS))
    names = ", ".join(RUNS[0])
    engine.execute(f"insert into metrics_runs ({names}) select {names} from log")
    columns = "metric, k, name, column_name, label, meaning, direction, additive, roll_up"
    measures = [(*measure, name, *[name] * 4, 1, "ratio") for measure, name in MEASURES.items()]
    values = ", ".join(map(str, measures))
    engine.execute(f"insert into metrics_metrics ({columns}) values {values}")
    make_views(job(), engine, view_statements(job(), engine, every=True))
    wanted = {key: row for key, row in by_key.items() if key[1] == last_days(rows)[key[0]]}
    compare(engine, "latest", SLICE + MEASURE, wanted)
    compare(engine, "daily_change", SLICE + MEASURE, changes(by_key))
    compare(engine, "rollup", ("spec", *SLICE[2:], *MEASURE), all_days(rows))
    compare(engine, "running", SLICE + MEASURE, running(by_key, UNITS))
    compare(engine, "comparison", SLICE + MEASURE, beside_baseline(by_key))
    compare(engine, "wide", SLICE, wide(rows))
    compare(engine, "days", ("spec", "metric_date"), calendar(rows))
    compare(engine, "status", ("spec",), status(rows))
    compare(engine, "retired", ("spec", *MEASURE), retired(rows))
    compare(engine, "shop_all", ("metric_date", "system"), of_spec(rows, "shop", "all"))
    for segment in ("country", "device"):
        compare(
            engine,
            f"other_by_{segment}",
            ("metric_date", "system", segment),
            of_spec(rows, "other", segment),
        )
    a_roll_up_takes_days(engine, rows)
    at = engine.translation
    for metrics in (["hit@1", "mrr"], ["ndcg@3", "mrr"]):  # on PostgreSQL the first view grows
        make_views(job(), engine, compiled_views(job("other", metrics=metrics), at))
    grown = (
        ["hit_at_1", "mrr", "ndcg_at_3"] if at.dialect.writing.grows_views else ["ndcg_at_3", "mrr"]
    )
    assert list(engine.columns("metrics_wide_other"))[5:] == [
        column + part for column in grown for part in WIDE.values()
    ]
    mine = [row for row in rows if row["spec"] == "other" and row["k"] in (0, 3)]
    mine = [row for row in mine if (row["metric"], row["k"]) != ("mrr", 3)]
    keys = {key[:5] for key in by_key if key[0] == "other"}
    compare(engine, "wide_other", SLICE, {key: {} for key in keys} | wide(mine))


METHODS = {"shop": "Student's t, 95 %", "other": "Student's t, 95 %, by request"}
"""Spec -> what its intervals take for independent: queries, which may come again, or requests."""


@by_turns(2.5)
def test_equal_nights_have_the_interval_of_one() -> None:
    """Of 20 nights on which the same two systems answer the same queries: views and checks."""
    chance = random.Random(3)
    queries = [f"q{number}" for number in range(100)]
    systems = {name: {q: chance.random() < share for q in queries} for name, share in SHARES}
    rows = [
        {"ds": FIRST + timedelta(day), "system": name, "query_id": query}
        | {"item_id": name, "score": 1.0, "grade": int(hits[query])}
        for day in range(20)
        for name, hits in systems.items()
        for query in queries
    ]
    connection = duckdb.connect()
    connection.register("rows", pa.Table.from_pylist(rows))
    connection.execute("create table nights as select * from rows")
    columns = {"system": "system", "date": "ds", "grade": "grade"}
    drop_check = {"metric": "hit@1", "max_drop": 0, "against": "old", "confidence": "always"}
    spec = sm.Spec(
        name="nights",
        rankings={"relation": "nights", "columns": columns},
        metrics=["hit@1"],
        baseline="old",
        output={"relation": "m"},
        checks=[drop_check],
    )
    sm.run(spec, connection)
    ends = {
        "running": "ci_low, ci_high, value",
        "comparison": "running_low, running_high, running_difference",
    }
    for view, names in ends.items():
        where = "system = 'new' and segment_name = 'all' order by metric_date"
        intervals = connection.execute(f"select {names} from m_{view} where {where}").fetchall()
        assert len(intervals) == 20
        for row in intervals:
            assert row == pytest.approx(intervals[0], rel=1e-9)
    day = connection.execute("select ci_low, ci_high from m where system = 'new' limit 1")
    low, high = day.fetchone() or (0, 0)
    rolled = connection.execute("select ci_low, ci_high from m_rollup where system = 'new'")
    assert rolled.fetchone() == pytest.approx((low, high), rel=1e-9)
    first, last = (sm.check(spec, connection, day=FIRST + timedelta(day))[0] for day in (0, 19))
    assert first.note.split(",")[0] == last.note.split(",")[0]
    assert (first.holds, last.holds) == (True, True)


SHARES = (("old", 0.6), ("new", 0.5))


def copies(row: dict[str, Any], days: int) -> int:
    """How often the units of days together may be the same ones."""
    return 1 if row["ci_method"] == METHODS["other"] else days


def random_facts() -> list[dict[str, Any]]:
    """Rows of a fact table: some slices lack a day, some days a metric, some rows a value."""
    chance = random.Random(5)
    segments = [("all", "all"), ("country", "de"), ("country", "fr"), ("device", "de")]
    rows = []
    for key in product(("shop", "other"), range(4), ("new", "old's"), segments):
        spec, day, system, (name, value) = key
        if chance.random() < 0.3 or (spec, day) == ("other", 3):
            continue
        slice_ = (spec, FIRST + timedelta(day), system, name, value)
        for measure in (("mrr", 0), ("mrr", 3), ("ndcg", 3), ("ndcg", 5)):
            if chance.random() < 0.2:
                continue
            is_sum = measure != ("ndcg", 5)
            row = dict(zip(SLICE + MEASURE, slice_ + measure, strict=True))
            row["value"] = chance.random() if chance.random() < 0.9 else None
            row |= {name: chance.randrange(99) for name in ("n_queries", "n_skipped", "n_missing")}
            row |= {"definition_hash": chance.choice("ab"), "ci_low": None, "ci_high": None}
            row["ci_method"] = METHODS[spec]
            if chance.random() < 0.9:
                row |= {"ci_low": chance.random(), "ci_high": 1 + chance.random()}
            w = 0.0 if name == "device" else chance.randrange(1, 9)
            units = [(chance.random(), w * chance.random()) for _ in range(chance.randrange(1, 9))]
            pairs = [(chance.random(), chance.random() - 0.4, 1 + w) for _ in units[1:]]
            row_key = key_of(row)
            UNITS[row_key], PAIRS[row_key] = units if is_sum else [], pairs if is_sum else []
            rows.append(row | sums_of(UNITS[row_key]) | sums_of_pairs(PAIRS[row_key]))
    return rows


RUNS = [
    {"run_id": name, "spec": spec, "started_at": at, "outcome": outcome, "message": message}
    | {"metrics": metrics}
    for name, spec, at, outcome, message, metrics in (
        ("z", "shop", datetime(2026, 1, 8, 2), "replaced", None, "mrr, mrr@3, ndcg@3, ndcg@5"),
        ("a", "shop", datetime(2026, 1, 9, 1), "failed", "no", "ndcg@3"),
        ("b", "shop", datetime(2026, 1, 9, 2), "replaced", None, "mrr@3, ndcg@5"),
        ("c", "never", datetime(2026, 1, 9, 1), "failed", "no table", "mrr"),
    )
]
"""The run log: of a spec that has rows, of one that has none; and none of the third."""

MEASURES = {("mrr", 0): "mrr", ("mrr", 3): "mrr@3", ("ndcg", 3): "ndcg@3", ("ndcg", 5): "ndcg@5"}


def is_retired(spec: str, measure: tuple[str, int]) -> bool:
    """Whether the last run that went well did not ask for a metric."""
    return spec == "shop" and measure not in (("mrr", 3), ("ndcg", 5))


def retired(rows: list[dict[str, Any]]) -> dict[Key, Any]:
    """The metrics that are asked for no more, and since when."""
    wanted: dict[Key, Any] = {}
    mine = [row for row in rows if (row["spec"], row["segment_name"]) == ("shop", "all")]
    for measure, name in MEASURES.items():
        days = {row["metric_date"] for row in mine if key_of(row, *MEASURE) == measure}
        if days and is_retired("shop", measure):
            later = [row["metric_date"] for row in mine if row["metric_date"] > max(days)]
            wanted["shop", *measure] = {
                "name": name,
                "first_date": min(days),
                "last_date": max(days),
                "n_days": len(days),
                "retired_since": min(later, default=None),
            }
    return wanted


def calendar(rows: list[dict[str, Any]]) -> dict[Key, Any]:
    """Each day of each spec, from its first to its last one."""
    wanted: dict[Key, Any] = {}
    for spec in ("shop", "other"):
        of_day: dict[date, list[dict[str, Any]]] = defaultdict(list)
        for row in rows:
            if (row["spec"], row["segment_name"]) == (spec, "all"):
                of_day[row["metric_date"]].append(row)
        for number in range((max(of_day) - min(of_day)).days + 1):
            day = min(of_day) + timedelta(number)
            wanted[spec, day] = {
                "is_missing": int(day not in of_day),
                "n_systems": len({row["system"] for row in of_day[day]} if day in of_day else ()),
                "n_values": len(of_day[day]) if day in of_day else 0,
            }
    return wanted


def status(rows: list[dict[str, Any]]) -> dict[Key, Any]:
    """How each spec stands."""
    wanted: dict[Key, Any] = {
        ("never",): {"last_outcome": "failed", "last_message": "no table", "last_date": "None"}
        | dict.fromkeys(("age_days", "n_days", "n_missing_days", "n_metrics", "n_systems"))
    }
    for spec in ("shop", "other"):
        mine = [row for row in rows if (row["spec"], row["segment_name"]) == (spec, "all")]
        dates = {row["metric_date"] for row in mine}
        first, last = min(dates), max(dates)
        days_of: dict[Any, set[date]] = defaultdict(set)
        for row in mine:
            days_of[row["system"]].add(row["metric_date"])
            days_of[row["metric"], row["k"]].add(row["metric_date"])
        metrics = {metric: days for metric, days in days_of.items() if isinstance(metric, tuple)}
        systems = [days for system, days in days_of.items() if isinstance(system, str)]
        active = {metric: days for metric, days in metrics.items() if not is_retired(spec, metric)}
        holes = [metric for metric, days in active.items() if last in days and days < dates]
        wanted[spec,] = {
            "first_date": first,
            "last_date": last,
            "age_days": (datetime.now(UTC).date() - last).days,
            "n_days": len(dates),
            "n_missing_days": (last - first).days + 1 - len(dates),
            "last_outcome": "replaced" if spec == "shop" else None,
            "last_message": None,
            "n_metrics": len(metrics),
            "n_metrics_with_holes": len(holes) if holes else 0,
            "metric_with_holes": min(map(MEASURES.__getitem__, holes), default=None),
            "n_metrics_stopped": sum(last not in days for days in active.values()),
            "n_metrics_retired": len(metrics) - len(active),
            "n_systems": len(systems),
            "n_systems_stopped": sum(last not in days for days in systems),
            "n_metrics_redefined": sum(
                len({row["definition_hash"] for row in mine if key_of(row, *MEASURE) == metric}) > 1
                for metric in metrics
            ),
        }
    return wanted


def of_spec(rows: list[dict[str, Any]], spec: str, segment: str) -> dict[Key, Any]:
    """One row per day and system, and value of a segment; of the metrics of the spec."""
    mine = [row for row in rows if row["spec"] == spec]
    parts = WIDE | {"n_queries": "_n_queries"}
    columns = {measure: Metric(*measure).column for measure in {key_of(r, *MEASURE) for r in mine}}
    empty = dict.fromkeys(column + part for column in columns.values() for part in parts.values())
    wanted: dict[Key, Any] = defaultdict(lambda: dict(empty))
    for row in (row for row in mine if row["segment_name"] == segment):
        key = key_of(row, "metric_date", "system", *["segment_value"] * (segment != "all"))
        column = columns[key_of(row, *MEASURE)]
        wanted[key] |= {column + part: row[name] for name, part in parts.items()}
    return wanted


def a_roll_up_takes_days(engine: Any, rows: list[dict[str, Any]]) -> None:
    """Where the database has functions that give rows."""
    first, end = FIRST + timedelta(1), FIRST + timedelta(3)
    named = {"duckdb": "'{}', '{}'", "postgres": "'{}', '{}'"}
    named |= {"clickhouse": "start_date = '{}', end_date = '{}'"}
    dialect = engine.translation.dialect.name
    assert (dialect in named) == bool(engine.translation.dialect.function)
    if dialect in named:
        engine.execute(
            "create view metrics_of_days as select * from metrics_between("
            + named[dialect].format(first, end)
            + ")"
        )
        inside = [row for row in rows if first <= row["metric_date"] < end]
        try:
            compare(engine, "of_days", ("spec", *SLICE[2:], *MEASURE), all_days(inside))
        finally:
            engine.execute("drop view metrics_of_days")


UNITS: dict[Key, list[tuple[float, float]]] = {}
"""What each query adds to a row's numerator and denominator; none where it has no sums."""
PAIRS: dict[Key, list[tuple[float, float, float]]] = {}
"""The baseline's value, the difference and the weight of each pair of a row."""


def sums_of(units: list[tuple[float, float]]) -> dict[str, Any]:
    """The sums of a row, NULL without any."""
    if not units:
        none = ("numerator", "denominator", "n_clusters", "sum_x2", "sum_xw", "sum_w2")
        return dict.fromkeys(none)
    return {
        "numerator": sum(x for x, _ in units),
        "denominator": sum(w for _, w in units),
        "n_clusters": len(units),
        "sum_x2": sum(x * x for x, _ in units),
        "sum_xw": sum(x * w for x, w in units),
        "sum_w2": sum(w * w for _, w in units),
    }


def sums_of_pairs(pairs: list[tuple[float, float, float]]) -> dict[str, Any]:
    """The sums beside a baseline."""
    sums = sums_of([(d * w, w) for _, d, w in pairs])
    names = {"numerator": "sum_d", "denominator": "pair_w", "n_clusters": "pair_clusters"}
    names |= {"sum_x2": "sum_d2", "sum_xw": "sum_dw", "sum_w2": "pair_w2"}
    ends = interval([(d * w, w) for _, d, w in pairs], student_t)
    return {new: sums[old] for old, new in names.items()} | {
        "baseline": "base" if pairs else None,
        "n_pairs": len(pairs),
        "sum_y": sum(y * w for y, _, w in pairs) if pairs else None,
        **dict.fromkeys(BASELINE.keys() & {"sum_y2", "sum_xy"}, 0.0),
        "difference": sums["numerator"] / sums["denominator"] if pairs else None,
        "difference_low": ends[0],
        "difference_high": ends[1],
    }


def student_t(n: int) -> float:
    return critical(0.95, n - 1)


def always(n: int) -> float:
    """The multiple of the standard error, in the form in which the paper has it."""
    rate = (-2 * math.log(0.05) + math.log(1 - 2 * math.log(0.05))) / 5000
    width = 2 * (n * rate + 1) / (n * n * rate) * math.log(math.sqrt(n * rate + 1) / 0.05)
    return math.sqrt(width) * math.sqrt(n)


def interval(
    units: list[tuple[float, float]], multiple: Callable[[int], float], copies: int = 1
) -> tuple[float | None, float | None]:
    """Of a ratio of sums, from what each query adds: the delta method in deviations."""
    n, total = len(units) // copies, sum(w for _, w in units)
    if n < 2 or not total:
        return None, None
    ratio = sum(x for x, _ in units) / total
    squares = sum((x - ratio * w) ** 2 for x, w in units)
    reach = multiple(n) * math.sqrt(squares * n / (n - 1)) / total * math.sqrt(copies)
    return ratio - reach, ratio + reach


def so_far(by_key: dict[Key, Any], key: Key) -> list[Key]:
    """The rows of all days up to one, of the same definition."""
    definition = by_key[key]["definition_hash"]
    same = [row_key for row_key in by_key if (row_key[0], *row_key[2:]) == (key[0], *key[2:])]
    return sorted(
        row_key
        for row_key in same
        if row_key[1] <= key[1] and by_key[row_key]["definition_hash"] == definition
    )


def running(by_key: dict[Key, Any], units: dict[Key, Any]) -> dict[Key, Any]:
    """What the view of days so far says of each row that can be added up."""
    wanted = {}
    for key in (row_key for row_key in by_key if units[row_key]):
        days = [row_key for row_key in so_far(by_key, key) if units[row_key]]
        values = [unit for day in days for unit in units[day]]
        low, high = interval(values, always, copies(by_key[key], len(days)))
        total = sum(w for _, w in values)
        wanted[key] = {
            "value": sum(x for x, _ in values) / total if total else None,
            "ci_low": low,
            "ci_high": high,
            "n_days": len(days),
            "first_date": days[0][1],
        }
    return wanted


def beside_baseline(by_key: dict[Key, Any]) -> dict[Key, Any]:
    """What the view of comparisons says of each row that has pairs."""
    wanted = {}
    for key in (row_key for row_key in by_key if PAIRS[row_key]):
        days = [row_key for row_key in so_far(by_key, key) if PAIRS[row_key]]
        differences = [(d * w, w) for day in days for _, d, w in PAIRS[day]]
        low, high = interval(differences, always, copies(by_key[key], len(days)))
        weight = sum(w for *_, w in PAIRS[key])
        before = sum(y * w for y, _, w in PAIRS[key]) / weight
        row = by_key[key]
        ends = row["difference_low"], row["difference_high"]
        wanted[key] = {
            "baseline_value": before,
            "value": before + row["difference"],
            "is_significant": None if None in ends else int(ends[0] > 0 or ends[1] < 0),
            "running_difference": sum(d for d, _ in differences) / sum(w for _, w in differences),
            "running_low": low,
            "running_high": high,
            "n_days": len(days),
        }
    return wanted


def key_of(row: dict[str, Any], *names: str) -> Key:
    return tuple(row[name] for name in names or SLICE + MEASURE)


def last_days(rows: list[dict[str, Any]]) -> dict[Any, Any]:
    return {
        spec: max(row["metric_date"] for row in rows if row["spec"] == spec)
        for spec in ("shop", "other")
    }


def compare(engine: Any, view: str, keys: tuple[str, ...], wanted: dict[Key, Any]) -> None:
    """A view has just these rows, with these values among others."""
    rows = table(engine, f"select * from metrics_{view}")
    actual = {tuple(map(str, key_of(row, *keys))): row for row in rows}
    assert len(rows) == len(wanted)
    for key, values in wanted.items():
        row = actual[tuple(map(str, key))]
        for name, value in values.items():
            as_it_is = str if name.endswith("_date") else near  # SQLite's days are texts
            assert as_it_is(row[name]) == as_it_is(value), (view, key, name)


def changes(by_key: dict[Key, Any]) -> dict[Key, Any]:
    """What the daily change says of each row."""
    wanted = {}
    for key, row in by_key.items():
        spec, day, *rest = key[:5]
        earlier = [row_key[1] for row_key in by_key if [row_key[0], *row_key[2:5]] == [spec, *rest]]
        previous = max((earlier_day for earlier_day in earlier if earlier_day < day), default=None)
        before = by_key.get((spec, previous, *key[2:]), {})
        has_both = None not in (row["value"], before.get("value"))
        is_same = row["definition_hash"] == before.get("definition_hash")
        ends = [record.get(end) for record in (row, before) for end in ("ci_low", "ci_high")]
        reach = math.hypot((ends[1] - ends[0]) / 2, (ends[3] - ends[2]) / 2) if all(ends) else None
        change = row["value"] - before["value"] if has_both else None
        wanted[key] = {
            "change_low": change - reach if has_both and reach else None,
            "change_high": change + reach if has_both and reach else None,
            "change_percent": 100 * change / before["value"] if has_both else None,
            "previous_date": previous,
            "value": row["value"],
            "value_before": before.get("value"),
            "change": change,
            "n_queries": row["n_queries"],
            "n_queries_before": before.get("n_queries"),
            "is_same_definition": int(is_same) if before else None,
            "is_significant": int(abs(change) > reach) if has_both and reach and is_same else None,
        }
    return wanted


def all_days(rows: list[dict[str, Any]]) -> dict[Key, Any]:
    """What the rollup says of each measure of each slice."""
    days: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        days[key_of(row, "spec", *SLICE[2:], *MEASURE)].append(row)
    wanted = {}
    for key, rows_of_key in days.items():
        dates = [row["metric_date"] for row in rows_of_key]
        sums: dict[str, Any] = {
            name: sum(row[name] for row in rows_of_key)
            if rows_of_key[0][name] is not None
            else None
            for name in ("numerator", "denominator", "n_queries", "n_skipped", "n_missing")
        }
        has_value = sums["numerator"] is not None and sums["denominator"]
        value = sums["numerator"] / sums["denominator"] if has_value else None
        if rows_of_key[0]["metric"].startswith("num_"):
            value = sum(row["value"] for row in rows_of_key)
        ends = {"first_date": min(dates), "last_date": max(dates), "n_days": len(rows_of_key)}
        units = [unit for row in rows_of_key for unit in UNITS[key_of(row)]]
        low, high = interval(units, student_t, copies(rows_of_key[0], len(rows_of_key)))
        wanted[key] = sums | ends | {"value": value, "ci_low": low, "ci_high": high}
    return wanted


def wide(rows: list[dict[str, Any]]) -> dict[Key, Any]:
    """One row per slice, where a metric that it has not is NULL."""
    columns = {measure: Metric(*measure).column for measure in {key_of(r, *MEASURE) for r in rows}}
    empty = {column + part for column, part in product(columns.values(), WIDE.values())}
    wanted: dict[Key, Any] = defaultdict(lambda: dict.fromkeys(empty))
    for row in rows:
        column = columns[key_of(row, *MEASURE)]
        wanted[key_of(row, *SLICE)] |= {column + part: row[name] for name, part in WIDE.items()}
    return wanted


@pytest.mark.xdist_group("duckdb")
def test_duckdb_filters_days_in_the_scan(servers: Any) -> None:
    with connect(servers.open("duckdb")) as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        write(job(), engine)
        for view in ("wide", "daily_change"):
            ((_, plan),) = engine.rows(
                f"explain (format json) select * from metrics_{view} "
                "where metric_date >= date '2026-01-03'"
            )
            scans = [json.dumps(scan) for scan in _scans(json.loads(plan)[0])]
            assert any(re.search(r"metric_date ?>= ?'2026-01-03'", scan) for scan in scans), scans


def _scans(node: dict[str, Any]) -> list[dict[str, Any]]:
    scans = [node["extra_info"]] if "SCAN" in node["name"] else []
    return scans + [scan for child in node["children"] for scan in _scans(child)]


@by_turns(1.7)
@pytest.mark.xdist_group("postgres")
def test_postgres_filters_days_in_the_scan_and_reads_days_without_a_query(servers: Any) -> None:
    with connect(servers.open("postgres")) as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        try:
            write(job(), engine)
            engine.execute(
                "update metrics set value = null, numerator = 0, denominator = 0, n_queries = 0, "
                "n_clusters = 0, sum_x2 = 0, sum_xw = 0, sum_w2 = 0"
            )
            for view in ("wide", "latest", "daily_change", "rollup", "running"):
                # one division by zero would make it unreadable
                assert isinstance(engine.rows(f"select * from metrics_{view}"), list)
            server: Any = getattr(engine, "driver", engine)
            for view in ("wide", "daily_change"):
                plan = server.rows(
                    f"explain select * from metrics_{view} where metric_date >= '2026-01-03'"
                )
                text = "\n".join(line for (line,) in plan)
                assert re.search(r"Scan on metrics.*\n *Filter: .metric_date >= '2026-01-03'", text)
        finally:
            clear(engine)
