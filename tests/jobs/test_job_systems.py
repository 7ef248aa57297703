"""A day's numbers do not hang on the range: systems that start, pause and stop, and zones.

Worlds are made up by chance, and their days are written by runs of any kind: each day by itself,
in batches that overlap, out of order, what is missing, all at once. The table is the same, and
what the plain-Python reference says of each day by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from job_days import ARCHIVES, TABLES
from marked import by_turns, long

import sqlmetrics as sm
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.clicks.simulation import simulate
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.statistics import SHARE, parts
from sqlmetrics.jobs.files import CLIENTS, compile_job
from sqlmetrics.jobs.missing_days import open_days
from sqlmetrics.jobs.run import write
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.script import query_text
from sqlmetrics.proof.verify import evaluated_by_reference, verify_spec
from sqlmetrics.spec.days import Days

FIRST = date(2026, 1, 1)
LENGTH = 6
METRICS = ["ndcg@3", "mrr(average_over=rankings)", "auc"]
KEY = ("metric_date", "system", "segment_name", "segment_value")
COUNTS = ("n_queries", "n_skipped", "n_missing")
Rows = dict[str, pa.Table]


def group(name: str) -> pytest.MarkDecorator:
    return pytest.mark.xdist_group(name)


USUALLY = [pytest.param(name, marks=group(name)) for name in ("duckdb", "sqlite")]
LATER = [long(name, group(name)) for name in ("postgres", "mariadb", "chdb", "spark")]


# -- worlds -------------------------------------------------------------------------------


def world(seed: int) -> Rows:
    """Systems of which one starts late, one pauses and one ends; ties, and lists that are missing.

    Day 5 has no ranking at all, only queries.
    """
    chance = random.Random(seed)
    lives = {"late": {2, 3, 4}, "paused": {0, 2, 4}, "ended": {0, 1}, "one's day": {3}}
    lives |= {"by chance": {day for day in range(5) if chance.random() < 0.5}}
    queries = [f"q{number}" for number in range(5)]
    country = {
        (day, query): chance.choice(["DE", "US", None])
        for day in range(LENGTH)
        for query in queries
    }
    rankings = [
        {
            "ds": FIRST + timedelta(day),
            "system": system,
            "country": country[day, query],
            "query_id": query,
            "item_id": f"i{item}",
            "score": float(chance.randrange(3)),
        }
        for system, days in lives.items()
        for day in sorted(days)
        for query in chance.sample(queries, 3)
        for item in chance.sample(range(5), 3)
    ]
    labels = [
        {"query_id": query, "item_id": f"i{item}", "grade": chance.randrange(3)}
        for query in (*queries[:4], "never")
        for item in range(4)
    ]
    searched = [
        {"ds": FIRST + timedelta(day), "query_id": query, "weight": float(chance.randrange(1, 4))}
        for day in range(LENGTH)
        for query in queries
    ]
    tables = {"runs": rankings, "truth": labels, "searches": searched}
    return {name: pa.Table.from_pylist(rows) for name, rows in tables.items()}


def spec_of(seed: int, name: str = "shop", **conventions: Any) -> sm.Spec:
    """What is asked of a world: in every third without the queries that were searched."""
    searched = {"relation": "searches", "columns": {"date": "ds"}}
    return sm.Spec(
        name=name,
        rankings={
            "relation": "runs",
            "columns": {"score": "score", "system": "system", "date": "ds"},
        },
        labels={"relation": "truth"},
        queries=searched if seed % 3 else None,
        metrics=METRICS,
        by=["country"],
        conventions=conventions,
        output={"relation": "metrics", "per_query": "metrics_of_queries", "views": False},
    )


def days(start: int, end: int) -> Days:
    return Days(start=FIRST + timedelta(start), end=FIRST + timedelta(end))


def some_runs(seed: int) -> list[Days]:
    """Days that cover the first five: one by one, in batches that overlap, out of order."""
    chance = random.Random(seed)
    runs = [days(day, day + 1) for day in range(5) if chance.random() < 0.6]
    for _ in range(2):
        start = chance.randrange(4)
        runs.append(days(start, chance.randrange(start + 1, 5) + 1))
    chance.shuffle(runs)
    return runs


@pytest.fixture(params=[*USUALLY, *LATER])
def engine(request: pytest.FixtureRequest, servers: Any) -> Iterator[Database]:
    """A database, with what a test has made dropped after it."""
    with connect(servers.open(request.param)) as database:
        try:
            yield database
        finally:
            clear(database)


def clear(engine: Database) -> None:
    for table in ("runs", "truth", "searches", *TABLES, *ARCHIVES):
        engine.execute(f"drop table if exists {table}")


def filled(engine: Database, tables: Rows) -> None:
    clear(engine)
    for name, rows in tables.items():
        engine.load(name, rows)


def facts(engine: Database, spec: str = "shop") -> dict[tuple[str, ...], dict[str, Any]]:
    """(day, system, segment, value, metric@k) -> row."""
    stored = engine.table(f"select * from metrics where spec = '{spec}'").to_pylist()
    rows = {
        (*(str(row[name]) for name in KEY), f"{row['metric']}@{row['k']}"): row for row in stored
    }
    assert len(rows) == len(stored), "a key is doubled"
    return rows


def numbers(row: dict[str, Any]) -> list[Any]:
    value = row["value"]
    return [*(row[name] for name in COUNTS), None if value is None else round(value, 9)]


def answers(engine: Database, spec: str = "shop") -> set[tuple[str, str, str]]:
    """The rows of the per-query table."""
    rows = engine.rows(
        f"select metric_date, system, query_id from metrics_of_queries where spec = '{spec}'"
    )
    return {(str(day), system, query) for day, system, query in rows}


def proven(spec: sm.Spec, tables: Rows) -> tuple[dict[Any, Any], set[Any]]:
    """The same by the reference, which sees no other day than the one it is asked for.

    But of a system it sees the first and the last day, where the option asks for them.
    """
    means, queries = {}, set()
    all_days = spec.options["absent_systems"] == "missing"
    for day in (FIRST + timedelta(number) for number in range(LENGTH)):
        visible = tables if all_days else {n: rows_of(rows, day) for n, rows in tables.items()}
        if not visible["runs"].num_rows:
            continue
        with connect() as engine:
            for name, rows in visible.items():
                engine.load(name, rows)
            proof = evaluated_by_reference(make_plan(spec, opened(spec, engine)), engine)
        for key, lines in proof.summary.items():
            if key[0] == day:
                for measure, mean in zip(spec.measures, lines, strict=True):
                    row = {name: getattr(mean, name) for name in (*COUNTS, "value")}
                    if sum(row[name] for name in COUNTS):
                        means[(*map(str, key), f"{measure.name}@{measure.k or 0}")] = numbers(row)
        queries |= {(str(key[0]), *key[1:]) for key in proof.per_query if key[0] == day}
    return means, queries


def rows_of(rows: pa.Table, day: date) -> pa.Table:
    """The rows of a day, of a table that has days."""
    if "ds" not in rows.column_names:
        return rows
    return rows.filter(pa.array([ds == day for ds in rows["ds"].to_pylist()]))


# -- systems of a day ---------------------------------------------------------------------


@by_turns(2.4)
def test_runs_of_any_kind_give_the_table_of_a_full_refresh(engine: Database) -> None:
    is_first = engine.translation.dialect.name == "duckdb"
    for seed in (1, 3) if is_first else (2,):
        tables, spec = world(seed), spec_of(seed)
        filled(engine, tables)
        for run in some_runs(seed):
            write(spec, engine, run)
        for missing in open_days(spec, engine, backfill=True):
            write(spec, engine, missing)
        means, queries = proven(spec, tables)
        assert {key: numbers(row) for key, row in facts(engine).items()} == means
        assert answers(engine) == queries
        write(spec_of(seed, "whole"), engine, full_refresh=True)
        assert {key: numbers(row) for key, row in facts(engine, "whole").items()} == means
        assert answers(engine, "whole") == queries


@by_turns(1)
def test_a_pause_is_missing_where_that_is_asked_for(engine: Database) -> None:
    """The first and the last day are those of the data, also in a run of one day."""
    tables, spec = world(1), spec_of(1, absent_systems="missing")
    filled(engine, tables)
    for run in (days(3, 4), days(0, 2), days(1, 3), days(4, 6)):
        write(spec, engine, run)
    means, queries = proven(spec, tables)
    actual = facts(engine)
    assert {key: numbers(row) for key, row in actual.items()} == means
    assert answers(engine) == queries
    pause = actual["2026-01-02", "paused", "all", "all", "ndcg@3"]
    assert pause["n_missing"] == 4
    assert ("2026-01-01", "late", "all", "all", "ndcg@3") not in actual
    assert ("2026-01-03", "ended", "all", "all", "ndcg@3") not in actual
    assert ("2026-01-06", "paused", "all", "all", "ndcg@3") not in actual


def per_query(plan: Plan, engine: Database) -> list[tuple[Any, ...]]:
    rows = engine.rows(query_text(plan, per_query=True))
    return sorted(map(tuple, rows), key=str)


@pytest.mark.parametrize("absent", ["skip", "missing"])
def test_buckets_and_physical_plans_know_the_systems_of_a_day(absent: str) -> None:
    """A bucket of queries in which a system has no list on a day still has the system."""
    spec = spec_of(1, absent_systems=absent).having(metrics=("ndcg@3", "mrr"))
    with connect() as engine:
        filled(engine, world(1))
        tables = opened(spec, engine)
        plan = make_plan(spec, tables)
        wanted = per_query(plan, engine)
        assert wanted
        for name in ("lists", "counts"):
            assert per_query(plan.by(plan.choose(None, name)), engine) == wanted
        rows = engine.rows("select count(*) from runs")[0][0]
        cut = parts(plan, engine, 4 * SHARE * engine.memory / rows)
        assert len(cut) > 3
        actual = [row for part in cut for row in per_query(plan.by(plan.strategy, part), engine)]
        assert sorted(actual, key=str) == wanted


@by_turns(1)
def test_without_systems_a_day_without_a_ranking_has_no_numbers() -> None:
    """Run by itself it has none, so it has none among others: though queries were searched."""
    spec = spec_of(1)
    columns = spec.rankings.columns.model_copy(update={"system": None})
    without_system = spec.having(rankings=spec.rankings.model_copy(update={"columns": columns}))
    with connect() as engine:
        tables = world(1)
        runs = tables["runs"]
        ours = runs.filter(pa.array([name == "paused" for name in runs["system"].to_pylist()]))
        filled(engine, tables | {"runs": ours})
        for absent, day_numbers in (("skip", [0, 2, 4]), ("missing", [0, 1, 2, 3, 4])):
            variant = without_system.having(conventions={"absent_systems": absent})
            write(variant, engine, full_refresh=True)
            actual = {key[0] for key in facts(engine)}
            assert actual == {str(FIRST + timedelta(day)) for day in day_numbers}
            result, agreements = verify_spec(variant, engine)
            assert max(agreement.largest for agreement in agreements) <= 1e-12
            assert {row["metric_date"] for row in result.to_dicts()} == {
                FIRST + timedelta(day) for day in day_numbers
            }


def test_a_system_is_named_in_the_definition_only_where_it_is_asked_for() -> None:
    """Tables of before stay as they are."""
    usual, other = spec_of(1), spec_of(1, absent_systems="missing")
    measure = usual.measures[0]
    assert usual.definition_hash(measure) == spec_of(1, absent_systems="skip").definition_hash(
        measure
    )
    assert usual.definition_hash(measure) != other.definition_hash(measure)


# -- click logs ---------------------------------------------------------------------------


@by_turns(1)
@pytest.mark.parametrize("daily", [True, False])
def test_a_request_is_missing_for_no_other_system(tmp_path: Path, daily: bool) -> None:
    simulated = simulate(tmp_path, requests=300, days=3, seed=3, systems=("old", "new"))
    clicks = {
        "impressions": {
            "file": str(simulated.files["impressions"]),
            "columns": {"query": "query", "time": "shown_at", "system": "system"},
        },
        "events": {"file": str(simulated.files["events"]), "columns": {"time": "happened_at"}},
        "daily": daily,
    }
    for missing in ("drop", "zero"):
        spec = sm.Spec(
            name="log",
            clicks=clicks,
            metrics=["ndcg@10", "ctr@10"],
            conventions={"missing": missing},
        )
        offline = evaluate_clicks(spec).offline
        means = offline.to_dicts()
        assert {row["n_missing"] for row in means} == {0}
        of_all = sum(row["n_queries"] + row["n_skipped"] for row in means)
        assert of_all == offline.per_query().num_rows
        assert {row["system"] for row in means} == {"old", "new"}


# -- zones --------------------------------------------------------------------------------

LATE = "2026-01-01 23:30:00-08"
"""In Los Angeles the first of January, in UTC the second, in Auckland the second too."""
DAY = {"UTC": "2026-01-02", "America/Los_Angeles": "2026-01-01"}


def zoned_tables(engine: Database) -> None:
    """Rankings, labels and queries with one time each: the same moment."""
    time = f"cast('{LATE}' as {engine.translation.type('timestamp with time zone')})"
    for table in ("runs", "truth", "searches", *TABLES, *ARCHIVES):
        engine.execute(f"drop table if exists {table}")
    for name, columns in {
        "runs": "'q' as query_id, 'a' as item_id, 1e0 as score",
        "truth": "'q' as query_id, 'a' as item_id, 1 as grade",
        "searches": "'q' as query_id",
    }.items():
        engine.execute(f"create table {name} as select {columns}, {time} as ds")


def zoned_spec(zone: str | None) -> sm.Spec:
    columns = {"date": "ds"}
    return sm.Spec(
        name="shop",
        rankings={
            "relation": "runs",
            "columns": {"score": "score", "date": "ds"},
            "time_zone": zone,
        },
        labels={"relation": "truth", "columns": columns, "time_zone": zone},
        queries={"relation": "searches", "columns": columns, "time_zone": zone},
        metrics=["mrr"],
        output={"relation": "metrics", "per_query": "metrics_of_queries", "views": False},
    )


@by_turns(1.5)
@pytest.mark.parametrize("name", ["duckdb", long("postgres", group("postgres"))])
def test_days_of_times_with_a_zone_are_of_utc_or_of_the_zone_that_is_named(
    servers: Any, name: str
) -> None:
    """Whatever the session says: run, range, backfill, verify and the checks see the same day."""
    with connect(servers.open(name)) as engine:
        zoned_tables(engine)
        try:
            engine.execute("set TimeZone = 'America/Los_Angeles'")
            with engine:
                for zone, day in ((None, DAY["UTC"]), *DAY.items()):
                    spec = zoned_spec(zone)
                    first = date.fromisoformat(day)
                    write(spec, engine, full_refresh=True, allow_loss=1)
                    write(spec, engine, Days(start=first, end=first + timedelta(1)))
                    assert [(key[0], row["value"]) for key, row in facts(engine).items()] == [
                        (day, 1.0)
                    ]
                    assert open_days(spec, engine, backfill=True) == []
                    assert max(agreement.largest for agreement in verify_spec(spec, engine)[1]) == 0
        finally:
            clear(engine)


@by_turns(2.2)
def test_a_connection_s_own_zone_stays_and_decides_no_day() -> None:
    """Also for the days of a click log, which are those of UTC."""
    with duckdb.connect() as connection:
        zoned_tables(connect(connection))
        connection.execute("set TimeZone = 'America/Los_Angeles'")
        options = {"date": "ds", "connection": connection, "queries": "searches"}
        for zone, day in ((None, DAY["UTC"]), *DAY.items()):
            result = sm.evaluate("runs", "truth", "mrr", time_zone=zone, **options)
            assert [str(row["metric_date"]) for row in result.to_dicts()] == [day]
            assert result["mrr"] == 1.0
        text = "select * from runs where cast(ds as date) = date '2026-01-01'"  # by its zone
        assert sm.evaluate(text, "truth", "mrr", **options)["mrr"] == 1.0
        log = {"relation": "shown", "columns": {"request": "query_id", "time": "ds"}}
        connection.execute("create table shown as select *, 1 as position, 1 as clicked from runs")
        spec = sm.Spec(name="log", clicks={"log": log, "daily": True}, metrics=["mrr", "ctr@1"])
        rows = evaluate_clicks(spec, connection).facts().to_pylist()
        assert {str(row["metric_date"]) for row in rows} == {DAY["UTC"]}
        setting = connection.execute("select current_setting('TimeZone')").fetchall()
        assert setting == [("America/Los_Angeles",)]


def test_a_zone_is_refused_where_it_says_nothing(tmp_path: Path) -> None:
    with pytest.raises(sm.SpecError, match=r"'Europe/Berln'; did you mean 'Europe/Berlin'\?"):
        zoned_spec("Europe/Berln")
    with duckdb.connect() as connection:
        connection.execute(
            "create table runs as select 'q' query_id, 'a' item_id, 1 score, date '2026-01-01' ds"
        )
        connection.execute("create table truth as select 'q' query_id, 'a' item_id, 1 grade")
        with pytest.raises(sm.SpecError, match=r"rankings\.time_zone: .* ds is a DATE"):
            sm.evaluate(
                "runs", "truth", "mrr", date="ds", time_zone="Europe/Berlin", connection=connection
            )
    with pytest.raises(sm.SpecError, match="SQLite cannot tell the days of Europe/Berlin"):
        sm.compile(zoned_spec("Europe/Berlin"), "sqlite")


ZONES = {
    "duckdb": "cast(timezone('Europe/Berlin', ds) as date)",
    "postgres": "cast(ds at time zone 'Europe/Berlin' as date)",
    "bigquery": "date(ds, 'Europe/Berlin')",
    "snowflake": "cast(convert_timezone('Europe/Berlin', ds) as date)",
    "clickhouse": "toDate(toTimeZone(ds, 'Europe/Berlin'))",
    "trino": "cast(ds at time zone 'Europe/Berlin' as date)",
    "spark": "cast(convert_timezone(current_timezone(), 'Europe/Berlin', ",
}


@by_turns(1.4)
@pytest.mark.parametrize("dialect", ZONES)
def test_a_zone_stands_in_the_text_of_each_dialect(dialect: str) -> None:
    """Where days are told, and where the days of a job are chosen: the same expression."""
    spec = zoned_spec("Europe/Berlin")
    assert ZONES[dialect] in sm.compile(spec, dialect)
    if dialect in CLIENTS:
        text = "".join(compile_job(spec, dialect).values())
        assert ZONES[dialect].split("'")[0] in text.split("where", 1)[1]
    assert spec.definition_hash(spec.measures[0]) != zoned_spec(None).definition_hash(
        spec.measures[0]
    )
