"""Numbers that runs wrote, read back: sums over sums by period, systems compared, time limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache
from statistics import fmean, variance
from typing import Any

import duckdb
import pytest
from job_days import FIRST, engine, job, log
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.errors import EngineError, NoDataError, SpecError
from sqlmetrics.stats.estimate import Estimate

__all__ = ["engine"]  # the fixture
pytestmark = by_turns(0.2)


@cache
def shop() -> duckdb.DuckDBPyConnection:
    """The tables of two runs of one log: with a baseline, and without one."""
    connection = duckdb.connect()
    for name, table in zip(("runs", "truth"), log(), strict=True):
        connection.register("rows", table)
        connection.execute(f"create table {name} as select * from rows")
    for spec in (job(), paired()):
        sm.run(spec, connection)
    return connection


def paired() -> sm.Spec:
    return job("paired", baseline="old's")


def values_of(column: str, where: str = "true") -> list[float]:
    """The values of queries as runs kept them, of the system `new`."""
    rows = shop().execute(
        f"select {column} from metrics_of_queries where spec = 'shop' and system = 'new' "
        f"and {column} is not null and {where} order by all"
    )
    return [value for (value,) in rows.fetchall()]


def test_days_are_put_together_by_sums() -> None:
    """Each number is the mean of the queries of its period, as it is computed by hand."""
    metrics = ["ndcg@3", "recall(rel=2)@5"]
    columns = ["ndcg_at_3", "recall_rel2_at_5"]
    thursday = FIRST  # 2026-01-01; its week has four days of the log, the next one two
    weeks = {thursday: thursday + timedelta(3), date(2026, 1, 5): date(2026, 1, 6)}
    stored = sm.query_metrics(job(), shop(), metrics, every="week", systems="new")
    expected = [
        fmean(values_of(column, f"metric_date between '{first}' and '{last}'"))
        for column in columns
        for first, last in weeks.items()
    ]
    assert [row["value"] for row in stored.rows] == pytest.approx(expected)
    assert [(r["first_date"], r["last_date"]) for r in stored.rows] == [*weeks.items()] * 2
    by_segment = sm.query_metrics(job(), shop(), "ndcg@3", segment="country", systems="new")
    for row in by_segment.rows:
        in_country = f"select ds, query_id from runs where country = '{row['segment_value']}'"
        country = values_of("ndcg_at_3", f"(metric_date, query_id) in ({in_country})")
        assert row["value"] == pytest.approx(fmean(country))
        assert row["n_queries"] == len(country)


def test_a_day_is_as_the_table_has_it() -> None:
    stored = sm.query_metrics(job(), shop(), every="day")
    columns = ("value", "n_queries", "ci_low", "ci_high", "definition_hash")
    rows = shop().execute(
        f"select {', '.join(columns)} from metrics where spec = 'shop' and segment_name = 'all'"
    )
    facts = sorted(map(str, rows.fetchall()))
    assert len(facts) == 5 * 2 * 6
    assert sorted(str(tuple(row[name] for name in columns)) for row in stored.rows) == facts
    other_level = job(confidence=0.9)
    assert "90 % by the spec" in sm.query_metrics(other_level, shop(), every="day").notes[-1]
    assert "90 %" not in "".join(sm.query_metrics(other_level, shop()).notes)


def test_all_days_are_those_of_the_view() -> None:
    """The view that dashboards read says the same, interval and all."""
    stored = sm.query_metrics(job(), shop(), ["ndcg@3", "mrr"], systems="new")
    view = shop().execute(
        "select value, ci_low, ci_high from metrics_rollup where spec = 'shop' and system = 'new' "
        "and segment_name = 'all' and metric in ('ndcg', 'mrr') order by metric desc"
    )
    numbers = [(row["value"], row["ci_low"], row["ci_high"]) for row in stored.rows]
    assert numbers == pytest.approx(view.fetchall())


def test_what_is_not_added_up_is_said() -> None:
    stored = sm.query_metrics(job(), shop(), "auc, num_ret", systems="new", limit=1)
    assert stored.is_cut
    assert stored.rows[0]["value"] is None
    assert "auc cannot be added up" in "".join(stored.notes)
    (row,) = sm.query_metrics(job(), shop(), "num_ret", systems="new").rows
    assert row["value"] == 96  # 4 items for each of 4 queries, on 6 days


WRONG: dict[str, tuple[Callable[..., Any], dict[str, Any], type[Exception], str]] = {
    "metric": (sm.query_metrics, {"metrics": "ndgc@3"}, SpecError, "did you mean 'ndcg@3'"),
    "system": (sm.query_metrics, {"systems": "nwe"}, SpecError, "did you mean 'new'"),
    "segment": (sm.query_metrics, {"segment": "contry"}, SpecError, "did you mean 'country'"),
    "value": (sm.query_metrics, {"segment_value": "DE"}, SpecError, "'DE' needs a segment"),
    "limit": (sm.query_metrics, {"limit": 0}, SpecError, "1 or more, given 0"),
    "period": (sm.query_metrics, {"every": "weak"}, SpecError, "did you mean 'week'"),
    "days": (sm.query_metrics, {"start": "2027-01-01"}, NoDataError, "2026-01-01 to 2026-01-06"),
    "systems": (sm.compare_stored, {"systems": "nwe"}, SpecError, "did you mean 'new'"),
    "one": (sm.compare_stored, {"systems": "new", "baseline": "new"}, SpecError, "only one system"),
    "dates": (sm.compare_stored, {"dates": ["2026-01-01", "2026-01-02"]}, SpecError, "name one"),
    "sums": (
        sm.compare_stored,
        {"metrics": "auc"},
        SpecError,
        "it is not a mean of queries",
    ),
    "query": (sm.explain_query, {"query": "q99"}, NoDataError, "the query 'q99' has no list"),
    "far day": (sm.explain_query, {"query": "q1", "day": "9999-12-31"}, NoDataError, "no list"),
    "list": (sm.explain_query, {"query": "q1", "systems": "nwe"}, SpecError, "mean 'new'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_names_that_are_in_no_row(wrong: str) -> None:
    verb, arguments, error, text = WRONG[wrong]
    with pytest.raises(error, match=text):
        verb(job(), shop(), **arguments)


def test_a_spec_that_never_ran() -> None:
    with pytest.raises(NoDataError, match=r"no row of later yet; write them with sqlmetrics run"):
        sm.query_metrics(job("later"), shop())
    connection = duckdb.connect()
    connection.execute("create table metrics (spec varchar)")
    with pytest.raises(SpecError, match=r"metrics lacks the column metric_date; if an older"):
        sm.query_metrics(job(), connection)


def test_pairs_of_a_day_are_those_of_a_comparison() -> None:
    """Stored sums of pairs say what the same day says when it is evaluated again."""
    days = {"start": FIRST, "end": FIRST + timedelta(1)}
    stored = sm.compare_stored(paired(), shop(), ["ndcg@3", "mrr"], **days)
    again = sm.compare(paired(), metrics=["ndcg@3", "mrr"], connection=shop(), **days)
    names = ("metric", "n", "test", "verdict", "sentence")
    assert [[row[name] for name in names] for row in stored.rows] == [
        [row[name] for name in names] for row in again.rows
    ]
    for name in ("value", "baseline_value", "difference", "ci_low", "ci_high", "p_adjusted"):
        numbers = [row[name] for row in again.rows]
        assert [row[name] for row in stored.rows] == pytest.approx(numbers, nan_ok=True), name


def test_periods_are_compared_by_their_means() -> None:
    """Welch's t by hand, of two days."""
    days = [str(FIRST), str(FIRST + timedelta(1))]
    comparison = sm.compare_stored(job(), shop(), "ndcg@3", dates=days, systems="new")
    old, new = (values_of("ndcg_at_3", f"metric_date = '{day}'") for day in days)
    parts = [variance(values) / len(values) for values in (old, new)]
    df = sum(parts) ** 2 / sum(part**2 / (len(old) - 1) for part in parts)
    low, high = Estimate(fmean(new) - fmean(old), math.sqrt(sum(parts)), df).interval(0.95)
    row = comparison["ndcg@3"]
    assert row["baseline"] == days[0]
    assert (row["difference"], row["ci_low"], row["ci_high"]) == pytest.approx(
        (fmean(new) - fmean(old), low, high)
    )
    assert "Welch" in "".join(comparison.notes)


def test_other_databases_say_the_same(engine: Any) -> None:
    spec = job(baseline="old's")
    sm.run(spec, engine)
    numbers = [
        [row[name] for row in verb(spec, database).rows for name in names]
        for spec, database in ((spec, engine), (paired(), shop()))
        for verb, names in ((weeks, ("value", "ci_low", "n_queries")), (differences, DIFFERENCE))
    ]
    assert numbers[0] == pytest.approx(numbers[2])
    assert numbers[1] == pytest.approx(numbers[3])
    lists = [
        sm.explain_query(spec, database, "q1").lists
        for spec, database in ((spec, engine), (paired(), shop()))
    ]
    assert lists[0] == lists[1]
    crossed = " cross join ".join(f"runs as runs_{number}" for number in range(6))
    with pytest.raises(EngineError, match=r"stopped after 0.3 s"), engine.bounded(0.3):
        engine.rows(f"select count(*) from {crossed}")
    assert engine.rows("select 1") == [(1,)]


DIFFERENCE = ("difference", "p_adjusted", "n")


def weeks(spec: sm.Spec, database: Any) -> sm.StoredMetrics:
    return sm.query_metrics(spec, database, "mrr", every="week", segment="country")


def differences(spec: sm.Spec, database: Any) -> sm.Comparison:
    return sm.compare_stored(spec, database, ["mrr", "ndcg@3"])


def test_two_definitions_have_no_common_number() -> None:
    connection = duckdb.connect()
    for name, table in zip(("runs", "truth"), log(days=2), strict=True):
        connection.register("rows", table)
        connection.execute(f"create table {name} as select * from rows")
    sm.run(job(), connection)
    connection.execute(
        "update metrics set definition_hash = 'of-before' where metric_date = '2026-01-01'"
    )
    stored = sm.query_metrics(job(), connection, "mrr", systems="new")
    assert [row["n_days"] for row in stored.rows] == [1, 1]
    assert "2 definitions" in "".join(stored.notes)
    with pytest.raises(SpecError, match="mrr is not compared: 2 definitions computed its days"):
        sm.compare_stored(job(), connection, "mrr")
    connection.execute("delete from metrics where system = 'new' and metric_date = '2026-01-02'")
    paused = sm.query_metrics(job(), connection, "mrr", end="2026-01-05")
    assert "new has no rows on 2026-01-02" in "".join(paused.notes)
    assert "no rows on 2026-01-03, 2026-01-04; the last day" in "".join(paused.notes)
    connection.execute("update metrics set metric_date = '9999-12-31' where system = 'new'")
    far = sm.query_metrics(job(), connection, "mrr", start="9999-12-01")
    assert "9999-12-05 and 25 more days; the last day that has any is 9999" in "".join(far.notes)


def explained_by(metric: str) -> sm.QueryExplanation:
    return sm.explain_query(job(), shop(), "q1", metric)


def test_the_lists_of_a_query() -> None:
    """As the log has them, by score and then by item; the values are those that a run kept."""
    explanation = explained_by("mrr")
    rankings, labels = (table.to_pylist() for table in log())
    grades = {row["item_id"]: float(row["grade"]) for row in labels if row["query_id"] == "q1"}
    day = FIRST + timedelta(5)
    assert explanation.day == day
    assert [*explanation.lists] == ["old's", "new"]
    for system, items in explanation.lists.items():
        ranked = sorted(
            (-row["score"], row["item_id"])
            for row in rankings
            if (row["ds"], row["system"], row["query_id"]) == (day, system, "q1")
        )
        assert [(item["item_id"], item["grade"]) for item in items] == [
            (item, grades.get(item)) for _, item in ranked
        ]
    (kept,) = values_of("mrr", f"query_id = 'q1' and metric_date = '{day}'")
    old, new = explanation.rows
    assert new["value"] == kept
    assert new["difference"] == pytest.approx(kept - old["value"])
    assert "no number of one query: auc" in explained_by("auc").notes
    assert sm.explain_query(job(), shop(), "q1", day=FIRST, systems="new").baseline is None
    rankings_of_no_day = {"relation": "runs", "columns": {"score": "score", "system": "system"}}
    with pytest.raises(SpecError, match="no column of dates, so there is no day 2026-01-01"):
        sm.explain_query(job(rankings=rankings_of_no_day), shop(), "q1", day=FIRST)
