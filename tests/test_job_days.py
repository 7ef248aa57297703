"""Ranges of days, replaced on every database that `run` writes to."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from marked import long

import sqlmetrics as sm
from sqlmetrics.clicks.online import ONLINE
from sqlmetrics.clicks.run import evaluate_clicks
from sqlmetrics.days import Days
from sqlmetrics.engines.translated import database
from sqlmetrics.jobs.missing import open_days
from sqlmetrics.jobs.run import write
from sqlmetrics.simulate import simulate

FIRST = date(2026, 1, 1)
METRICS = ["ndcg@3", "recall(rel=2)@5", "mrr", "auc", "num_ret"]
KEY = ("metric_date", "system", "segment_name", "segment_value", "metric", "k")
OWN = ("value", "numerator", "denominator", "n_queries", "n_skipped", "n_missing", "sum_sq")
WRITERS = ("duckdb", "sqlite", "postgres", "mariadb", "chdb", "spark")
LATER = [long(name, pytest.mark.xdist_group(name)) for name in WRITERS[1:]]


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
    given: dict[str, Any] = {
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
    return sm.Spec(**given | changed)


def days(start: int, end: int) -> Days:
    """Days by their number, from the first of the log."""
    return Days(start=FIRST + timedelta(start), end=FIRST + timedelta(end))


@pytest.fixture(params=[pytest.param(n, marks=pytest.mark.xdist_group(n)) for n in WRITERS])
def engine(request: pytest.FixtureRequest, servers: Any) -> Iterator[Any]:
    """A database with the log in a place of its own."""
    with database(servers.open(request.param)) as opened:
        rankings, labels = log()
        opened.load("runs", rankings)
        opened.load("truth", labels)
        try:
            yield opened
        finally:
            clear(opened)


def clear(engine: Any, *more: str) -> None:
    """Drop what a test has made in a database that others use too."""
    for view in ("wide", "wide_shop", "wide_other", "latest", "daily_change", "rollup"):
        engine.execute(f"drop view if exists metrics_{view}")
    for table in ("runs", "truth", "metrics", "metrics_of_queries", "metrics_runs", *more):
        engine.execute(f"drop table if exists {table}")


def reload(engine: Any, rankings: pa.Table) -> None:
    """Other rankings in the place of those that there are."""
    engine.execute("drop table runs")
    engine.load("runs", rankings)


def facts(engine: Any, spec: str = "shop") -> dict[tuple[Any, ...], dict[str, Any]]:
    found = engine.table(f"select * from metrics where spec = '{spec}'").to_pylist()
    by_key = {tuple(str(row[name]) for name in KEY): row for row in found}
    assert len(by_key) == len(found), "a key is doubled"
    return by_key


def per_query(engine: Any, spec: str = "shop") -> dict[tuple[str, ...], tuple[Any, ...]]:
    found = engine.table(f"select * from metrics_of_queries where spec = '{spec}'").to_pylist()
    by_key = {
        (str(row["metric_date"]), row["system"], row["query_id"]): (row["ndcg_at_3"], row["mrr"])
        for row in found
    }
    assert len(by_key) == len(found), "a key is doubled"
    return by_key


def expected(numbers: list[int], seed: int = 1) -> sm.Result:
    """The same days, evaluated in DuckDB without a job."""
    rankings, labels = log(seed=seed)
    there = pa.array([FIRST + timedelta(number) for number in numbers])
    rankings = rankings.filter(pc.is_in(rankings["ds"], there))
    options = {"system": "system", "date": "ds", "by": "country"}
    return sm.evaluate(rankings, labels, METRICS, **options)


def check(engine: Any, numbers: list[int]) -> None:
    """Exactly these days stand in both tables, as an evaluation has them."""
    result = expected(numbers)
    there, wanted = facts(engine), result.to_dicts()
    assert len(there) == len(wanted)
    for row in wanted:
        own = there[tuple(str(row[name]) for name in KEY)]
        for name in OWN:
            close = row[name] if row[name] is None else pytest.approx(row[name], rel=1e-9)
            assert own[name] == close, (name, own)
        assert own["definition_hash"] == row["definition_hash"]
    queries = per_query(engine)
    rows = result.per_query().to_pylist()
    assert len(queries) == len(rows)
    for row in rows:
        values = queries[str(row["metric_date"]), row["system"], row["query_id"]]
        assert values == pytest.approx((row["ndcg_at_3"], row["mrr"]), rel=1e-9, nan_ok=False)


def test_ranges_in_any_order_give_what_a_full_refresh_gives(engine: Any) -> None:
    spec = job()
    for start, end in ((3, 5), (0, 1), (4, 6), (0, 1), (1, 4)):
        write(spec, engine, days(start, end))
    check(engine, [*range(6)])
    for _ in range(10 if engine.translation.dialect.name == "duckdb" else 2):
        write(spec, engine, days(2, 4))
    check(engine, [*range(6)])
    write(spec, engine, full_refresh=True)
    check(engine, [*range(6)])


@pytest.mark.xdist_group("duckdb")
def test_a_year_in_pieces_is_a_year(servers: Any) -> None:
    """Days, weeks and months in any order, overlapping, are what one run of a year is."""
    chance = random.Random(5)
    with database(servers.open("duckdb")) as opened:
        for name, rows in zip(("runs", "truth"), log(days=365), strict=True):
            opened.load(name, rows)
        write(job("whole"), opened, days(0, 365))
        starts = list(range(0, 365, 20))
        chance.shuffle(starts)
        for start in starts:
            write(job(), opened, days(start, start + chance.choice([20, 31, 40])))
        numbers = "metric_date, system, segment_name, segment_value, metric, k, round(value, 9)"
        own, whole = (
            opened.rows(f"select {numbers} from metrics where spec = '{name}' order by all")
            for name in ("shop", "whole")
        )
        assert own == whole
        assert len({row[0] for row in own}) == 365


def test_a_range_replaces_itself_and_nothing_else(engine: Any) -> None:
    write(job(), engine, days(1, 3))
    check(engine, [1, 2])
    write(job("other"), engine, days(2, 5))
    check(engine, [1, 2])
    before = {key: row["run_id"] for key, row in facts(engine).items()}
    write(job(), engine, days(2, 4))
    check(engine, [1, 2, 3])
    after = {key: row["run_id"] for key, row in facts(engine).items()}
    kept = {key for key in before if key[0] == str(FIRST + timedelta(1))}
    assert kept == {key for key in before if before[key] == after[key]}
    assert {key[0] for key in facts(engine, "other")} == {
        str(FIRST + timedelta(day)) for day in (2, 3, 4)
    }


def test_days_and_segments_that_vanished_go(engine: Any) -> None:
    write(job(), engine)
    check(engine, [*range(6)])
    rankings = log()[0]
    rankings = rankings.filter(pc.not_equal(rankings["ds"], pa.scalar(FIRST + timedelta(2))))
    reload(engine, rankings)
    write(job(), engine, days(1, 4))
    check(engine, [0, 1, 3, 4, 5])
    reload(engine, rankings.filter(pc.not_equal(rankings["country"], "US")))
    write(job(), engine, days(0, 6))
    assert {key[3] for key in facts(engine)} == {"all", "DE"}


def test_a_range_without_a_row_is_emptied_only_on_demand(engine: Any) -> None:
    write(job(), engine, days(0, 3))
    rankings = log()[0]
    reload(engine, rankings.filter(pc.less(rankings["ds"], FIRST + timedelta(2))))
    with pytest.raises(sm.InputError, match="rankings: there is no row in it"):
        write(job(), engine, days(2, 4))
    check(engine, [0, 1, 2])
    write(job(), engine, days(2, 4), check=False)
    check(engine, [0, 1])


def test_without_a_range_only_days_of_the_data_are_replaced(engine: Any) -> None:
    write(job(), engine)
    rankings = log()[0]
    reload(engine, rankings.filter(pc.greater_equal(rankings["ds"], FIRST + timedelta(3))))
    assert write(job(), engine).days == days(3, 6)
    check(engine, [*range(6)])
    write(job(), engine, full_refresh=True)
    check(engine, [3, 4, 5])


def test_an_open_end_is_all_that_follows(engine: Any) -> None:
    write(job(), engine, Days(start=FIRST + timedelta(4)))
    check(engine, [4, 5])
    write(job(), engine, Days(end=FIRST + timedelta(1)))
    check(engine, [0, 4, 5])


def test_missing_days_are_found_and_late_ones_done_again(engine: Any) -> None:
    spec = job()
    assert open_days(spec, engine, backfill=True) == [days(0, 6)]
    write(spec, engine, days(1, 2))
    write(spec, engine, days(3, 5))
    assert open_days(spec, engine, backfill=True) == [days(0, 1), days(2, 3), days(5, 6)]
    assert open_days(spec, engine, days(0, 3), backfill=True) == [days(0, 1), days(2, 3)]
    assert open_days(spec, engine, lookback=3) == [days(3, 6)]
    assert open_days(spec, engine, days(0, 4), lookback=2) == [days(2, 4)]
    assert open_days(spec, engine, backfill=True, lookback=2) == [
        days(0, 1),
        days(2, 3),
        days(4, 6),
    ]
    for part in open_days(spec, engine, backfill=True):
        write(spec, engine, part)
    check(engine, [*range(6)])
    assert open_days(spec, engine, backfill=True) == []


@pytest.mark.xdist_group("duckdb")
def test_tables_may_be_called_like_our_stages(servers: Any) -> None:
    with database(servers.open("duckdb")) as opened:
        for name, rows in zip(("rankings", "labels"), log(), strict=True):
            opened.load(name, rows)
        columns = {"score": "score", "system": "system", "date": "ds"}
        asked = job(
            rankings={"relation": "rankings", "columns": columns},
            labels={"relation": "labels"},
            output={"relation": "metrics", "per_query": "metrics_of_queries", "runs": "facts"},
        )
        assert open_days(asked, opened, backfill=True) == [days(0, 6)]
        write(asked, opened)
        check(opened, [*range(6)])


def test_another_definition_needs_a_full_refresh(engine: Any) -> None:
    write(job(), engine, days(0, 4))
    linear = job(conventions={"gain": "linear"})
    told = r"another definition of ndcg@3 \(from 2026-01-01 to 2026-01-04\).*--full-refresh"
    with pytest.raises(sm.SpecError, match=told):
        write(linear, engine, days(4, 6))
    check(engine, [0, 1, 2, 3])
    write(linear, engine, days(0, 4))  # all days that there are
    write(linear, engine, full_refresh=True)
    with pytest.raises(sm.SpecError, match="another definition"):
        write(job(), engine, days(0, 1))
    write(job(metrics=[*METRICS, "ndcg(gain=linear)@3", "hit@1"]), engine, full_refresh=True)
    assert len(per_query(engine)) == 6 * 2 * 4


def test_the_run_log_tells_what_was_done(engine: Any) -> None:
    written = write(job(), engine, days(1, 3))
    engine.execute("insert into truth values ('q1', 'i1', 3)")
    with pytest.raises(sm.InputError):
        write(job(), engine, days(1, 3))
    order = "select * from metrics_runs order by started_at"
    done, failed = engine.table(order).to_pylist()
    assert done["run_id"] == written.run_id
    assert {row["run_id"] for row in facts(engine).values()} == {written.run_id}
    assert (str(done["range_start"]), str(done["range_end"])) == ("2026-01-02", "2026-01-04")
    assert (done["outcome"], done["spec"], done["message"]) == ("replaced", "shop", None)
    assert (done["facts"], done["per_query"]) == (written.rows["facts"], written.rows["per_query"])
    assert 0 < done["seconds"] < 60
    assert done["engine"].startswith(engine.name)
    assert (failed["outcome"], failed["facts"]) == ("failed", None)
    assert "duplicate_labels=max_grade" in failed["message"]


def test_rankings_without_dates_are_of_the_first_day(engine: Any) -> None:
    undated = job(
        rankings={"relation": "runs", "where": "ds < '2026-01-02'"}
        | {"columns": {"score": "score", "system": "system"}}
    )
    write(undated, engine)
    assert {key[0] for key in facts(engine)} == {"1970-01-01"}
    write(undated, engine, Days(start=date(2026, 3, 1)))
    assert {key[0] for key in facts(engine)} == {"1970-01-01", "2026-03-01"}
    assert {key[0] for key in per_query(engine)} == {"1970-01-01", "2026-03-01"}
    with pytest.raises(sm.SpecError, match="they are of one day"):
        write(undated, engine, days(0, 2))


MINUTE = timedelta(minutes=1)
CLICK_TABLES = ("impressions", "events", "requests")


def click_log(seed: int) -> dict[str, pa.Table]:
    """Five days of requests that last past midnight, or begin before they are logged, and bots.

    The bots have their busy hour on one day, and are shown something on all.
    """
    chance = random.Random(seed)
    shown: list[dict[str, Any]] = []
    done: list[dict[str, Any]] = []
    asked: list[dict[str, Any]] = []
    for number in range(60):
        of = {
            "request_id": f"r{number}",
            "user": f"u{chance.randrange(8)}",
            "system": chance.choice(["new", "old's"]),
            "query": f"q{number % 7}",
        }
        began = datetime(2026, 1, 1, 23, 45) + timedelta(chance.randrange(4))
        began += chance.randrange(30) * MINUTE
        logged = began - chance.choice([0, 0, 0, 20]) * MINUTE
        if chance.random() < 0.9:
            n_results = chance.choice([0, 5])
            asked.append(of | {"t": logged, "n": n_results})
        for position in range(1, chance.choice([0, 3, 5]) + 1):
            row = of | {"item_id": f"i{chance.randrange(6)}"}
            at = began + chance.choice([0, 0, 2, 20]) * MINUTE
            is_test = int(chance.random() < 0.03)
            shown.append(row | {"position": position, "at": at, "is_test": is_test})
            for _ in range(chance.choice([0, 0, 1, 2])):
                action = chance.choice(["click", "purchase"])
                after = chance.choice([-5, 1, 10, 40]) * MINUTE
                done.append(row | {"action": action, "happened": at + after})
    for user in ("u0", "u1"):
        busy = datetime(2026, 1, chance.randrange(1, 5), 12)
        row = {"request_id": "none", "item_id": "i1", "user": user, "action": "click"}
        done += [row | {"happened": busy + minute * MINUTE} for minute in range(30)]
    tables = zip(CLICK_TABLES, (shown, done, asked), strict=True)
    return {name: pa.Table.from_pylist(rows) for name, rows in tables}


_ASKED = {"user": "user", "system": "system", "query": "query"}

CLICK_JOB: dict[str, Any] = {
    "impressions": {"relation": "impressions", "columns": _ASKED | {"time": "at"}},
    "events": {"relation": "events", "columns": {"user": "user", "time": "happened"}},
    "requests": {"relation": "requests", "columns": _ASKED | {"time": "t", "results": "n"}},
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
    metrics = ["mrr", "ndcg@3", "ctr@3", *(name for name in ONLINE if name != "ctr")]
    clicks = CLICK_JOB | changed
    return sm.Spec(name="log", clicks=clicks, metrics=metrics, output={"relation": "metrics"})


def check_clicks(there: dict[tuple[Any, ...], dict[str, Any]], tables: dict[str, pa.Table]) -> None:
    """These are the numbers that DuckDB gives, without a job, of the whole log at once."""
    with database() as own:
        for name, table in tables.items():
            own.load(name, table)
        whole = evaluate_clicks(click_job(), own).facts().to_pylist()
    expected = {tuple(str(row[name]) for name in KEY): row for row in whole}
    assert there.keys() == expected.keys()
    assert len({key[0] for key in there}) == 5
    for key, row in expected.items():
        for name in OWN:
            close = row[name] if row[name] is None else pytest.approx(row[name], rel=1e-9)
            assert there[key][name] == close, (key, name)


@pytest.mark.parametrize("writer", ["duckdb", *LATER])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_click_log_by_days(writer: str, seed: int, servers: Any) -> None:
    """What a day reads of a log is enough: it has the numbers that the whole log gives it."""
    tables = click_log(seed)
    with database(servers.open(writer)) as engine:
        for name, table in tables.items():
            engine.load(name, table)
        try:
            for ends in ((2, 5), (0, 3)):
                write(click_job(), engine, days(*ends))
            check_clicks(facts(engine, "log"), tables)
        finally:
            clear(engine, *CLICK_TABLES)


def test_pooled_labels_and_rows_without_requests_by_days() -> None:
    """The days from which labels are learned are read too; rows keep their numbers."""
    tables = click_log(3)
    clicked = pa.array([row % 3 == 0 for row in range(tables["impressions"].num_rows)])
    wide = tables["impressions"].append_column("clicked", clicked.cast(pa.int64()))
    pooled: dict[str, Any] = {
        "labels": {"pool": "query_item", "window": {"end": "2026-01-04"}, "prior": 2},
        "evaluation": {"start": "2026-01-04"},
    }
    columns = {"request": None, "query": "query", "system": "system", "time": "at"}
    log = {"log": {"relation": "wide", "columns": columns}, "daily": True}
    output = {"relation": "metrics", "per_query": "metrics_of_queries"}
    without = sm.Spec(name="log", clicks=log, metrics=["mrr", "ctr"], output=output)
    for spec, parts in ((click_job(**pooled), [(4, 5), (3, 4)]), (without, [(2, 5), (0, 3)])):
        with database() as engine:
            for name, table in {**tables, "wide": wide}.items():
                engine.load(name, table)
            whole = evaluate_clicks(spec, engine)
            for part in parts:
                write(spec, engine, days(*part))
            there = facts(engine, "log")
            queries = engine.rows("from metrics_of_queries") if spec.output.per_query else []
        for row in whole.facts().to_pylist():
            own = there.pop(tuple(str(row[name]) for name in KEY))
            for name in OWN:
                close = row[name] if row[name] is None else pytest.approx(row[name], rel=1e-9)
                assert own[name] == close, (spec.clicks, name)
        assert there == {}
        if queries:
            known = whole.offline.per_query().column("query_id").to_pylist()
            assert sorted(row[3] for row in queries) == sorted(known)


def test_days_that_are_open_of_a_click_log(tmp_path: Any) -> None:
    made = simulate(tmp_path, requests=100, days=4, seed=3)
    clicks = {
        name: {"file": str(made.files[name]), "columns": {"time": column}}
        for name, column in (("impressions", "shown_at"), ("events", "happened_at"))
    }
    spec = sm.Spec(name="log", clicks=clicks, metrics=["mrr"], output={"relation": "metrics"})
    with database() as engine:
        (everything,) = open_days(spec, engine, backfill=True)
        assert (everything.end - everything.start).days == 4  # type: ignore[operator]
        write(spec, engine, Days(start=everything.start, end=everything.start + timedelta(3)))
        (missing,) = open_days(spec, engine, backfill=True)
        assert missing == Days(start=everything.start + timedelta(3), end=everything.end)


def test_labels_are_not_learned_from_the_days_of_a_run(tmp_path: Any) -> None:
    made = simulate(tmp_path, requests=100, days=4, seed=3)
    clicks = {
        "log": {
            "file": str(made.files["impressions"]),
            "columns": {"query": "query", "time": "shown_at", "actions": {"click": "is_test"}},
        },
        "labels": {"pool": "query_item", "window": {"end": "2026-01-03"}},
        "evaluation": {"start": "2026-01-03"},
    }
    spec = sm.Spec(name="log", clicks=clicks, metrics=["mrr"], output={"relation": "metrics"})
    with pytest.raises(sm.SpecError, match=r"on the days of this run: .* overlap"):
        write(spec, database(), Days(start=date(2026, 1, 2), end=date(2026, 1, 4)))
