"""A run of some days reads the rows of these days: a range of the column, which prunes."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.jobs.dry_run import dry_run
from sqlmetrics.jobs.missing_days import Part, open_days
from sqlmetrics.jobs.run import evaluated, write
from sqlmetrics.spec.days import Days

CHANGES = {
    "UTC": date(2026, 1, 5),
    "America/New_York": date(2026, 3, 8),
    "America/Havana": date(2024, 11, 3),  # midnight comes twice
    "America/St_Johns": date(2006, 10, 29),  # a minute of a day, an hour of the last one, the rest
    "America/Sao_Paulo": date(2018, 11, 4),  # no midnight
}
"""Zone -> a day on which its clocks change, or none."""

TABLES = (
    "shown_at",
    "shown_labels",
    "pruned",
    "pruned_archive",
    "pruned_runs",
    "pruned_metrics",
    "pruned_definitions",
)

OUTPUT = {"relation": "pruned", "views": False, "keep": 1}

COLUMNS = {"query": "query", "item": "item", "score": "score", "date": "Shown At"}


def spec(zone: str = "") -> sm.Spec:
    rankings = {"relation": "shown_at", "columns": COLUMNS} | ({"time_zone": zone} if zone else {})
    labels = {"relation": "shown_labels", "columns": {"query": "query", "item": "item"}}
    fields = {"name": "z", "metrics": ["num_ret"], "output": OUTPUT}
    return sm.Spec(rankings=rankings, labels=labels, **fields)


POSTGRES = pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))


@pytest.fixture(params=["duckdb", POSTGRES])
def engine(request: pytest.FixtureRequest, servers: Any) -> Any:
    with connect(servers.open(request.param)) as opened:
        opened.execute("create table shown_labels (query varchar, item varchar, grade integer)")
        opened.execute("insert into shown_labels values ('q', 'i1', 1)")
        yield opened
        for table in TABLES:
            opened.execute(f"drop table if exists {table}")


@by_turns(1)
@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "varchar", "date"])
def test_a_range_of_the_column_is_the_days(engine: Database, kind: str) -> None:
    zones = CHANGES if kind == "timestamptz" else {"": date(2026, 1, 5)}
    for zone, day in zones.items():
        first = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=2)
        moments = [first + number * timedelta(seconds=1799) for number in range(4 * 48)]
        rows = ", ".join(
            f"('{at:%Y-%m-%d %H:%M:%S}{'+00' if zone else ''}', 'q', 'i{number}', {number})"
            for number, at in enumerate(moments)
        )
        engine.execute("drop table if exists shown_at")
        engine.execute(
            f'create table shown_at ("Shown At" {kind}, query varchar, item varchar, score double '
            "precision)"
        )
        engine.execute(f"insert into shown_at values {rows}")
        of_day = [at.astimezone(ZoneInfo(zone or "UTC")).date() for at in moments]
        for days in (Days(start=day, end=day + timedelta(1)), Days(start=day), Days(end=day)):
            zoned = spec(zone) if zone != "UTC" else spec()
            rows_of = evaluated(zoned, engine, days).summary().to_pylist()
            counts = {str(row["metric_date"]): row["value"] for row in rows_of}
            wanted = {str(local_day): of_day.count(local_day) for local_day in of_day}
            inside = {date_text for date_text in wanted if _is_in(date_text, days)}
            assert counts == {date_text: wanted[date_text] for date_text in inside}, (zone, days)


def _is_in(day: str, days: Days) -> bool:
    start, end = days.start or date.min, days.end or date.max
    return start <= date.fromisoformat(day) < end


@by_turns(1)
@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("kind", ["timestamptz", "timestamp", "date"])
def test_postgres_reads_the_partitions_of_the_days_alone(
    kind: str, servers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a partitioned table, in each statement; --lookback looks no further than --start."""
    with connect(servers.open("postgres")) as engine:
        for table in TABLES:
            engine.execute(f"drop table if exists {table}")
        engine.execute("create table shown_labels (query text, item text, grade integer)")
        engine.execute("insert into shown_labels values ('q', 'i1', 1)")
        engine.execute(
            f'create table shown_at ("Shown At" {kind}, query text, item text, score float8) '
            'partition by range ("Shown At")'
        )
        for day in range(1, 11):
            ends = f"from ('2026-01-{day:02}') to ('2026-01-{day + 1:02}')"
            engine.execute(f"create table shown_{day} partition of shown_at for values {ends}")
            engine.execute(f"insert into shown_at values ('2026-01-{day:02}', 'q', 'i1', 1)")
        read: list[set[int]] = []
        for method in ("_run", "rows"):
            usual = getattr(engine.driver, method)

            def noted(sql: str, usual: Any = usual) -> Any:
                read.append(partitions(engine, sql))
                return usual(sql)

            monkeypatch.setattr(engine.driver, method, noted)
        last = Days(start=date(2026, 1, 10), end=date(2026, 1, 11))
        assert open_days(spec(), engine, lookback=1) == [last]
        assert {*range(1, 11)} in read, "nobody knows where the data ends"
        read.clear()
        write(spec(), engine, last)
        assert open_days(spec(), engine, lookback=1) == [last]
        assert open_days(spec(), engine, Days(end=last.end), lookback=1) == [last]
        assert len([days for days in read if days]) > 3
        assert [days for days in read if days and days != {10}] == []
        monkeypatch.undo()
        for table in TABLES:
            engine.execute(f"drop table if exists {table}")


def partitions(engine: Database, sql: str) -> set[int]:
    """The days whose rows a statement reads, as PostgreSQL plans it."""
    select = re.sub(r"create temporary table \S+ as\n", "", sql)
    if '"Shown At"' not in select or not re.search(r'\bfrom\s+"?shown_at\b', select):
        return set()
    with engine.driver._cursor() as cursor:  # type: ignore[attr-defined]
        plan = cursor.execute(f"explain {select}").fetchall()
    return {int(day) for (line,) in plan for day in re.findall(r" on shown_(\d+)", line)}


@by_turns(1)
def test_a_dry_run_prints_what_is_sent(engine: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the run log, of which nobody knows the numbers, and settings of the session."""
    engine.execute(
        'create table shown_at ("Shown At" timestamptz, query varchar, item varchar, score double '
        "precision)"
    )
    engine.execute("insert into shown_at values ('2026-01-05 23:30+00', 'q', 'i1', 1)")
    zoned, day = spec("Europe/Berlin"), Days(start=date(2026, 1, 6), end=date(2026, 1, 7))
    for _ in range(3):  # without tables, with them, and with kept rows that are too old
        printed = plain(dry_run(zoned, engine, Part(day)))
        assert re.search(r"-- rankings: about \d+ rows", printed)
        assert "europe/berlin" in printed.casefold()
        sent: list[str] = []
        usual = engine.driver.execute

        def noted(sql: str, usual: Any = usual, sent: list[str] = sent) -> None:
            sent.extend(sql.split("\n;\n"))  # those of tables are sent at once
            usual(sql)

        monkeypatch.setattr(engine.driver, "execute", noted)
        report = write(zoned, engine, day)
        monkeypatch.undo()
        assert report.rows["facts"] == 1
        unprinted = [sql for sql in sent if plain(sql) not in printed]
        of_log = re.compile('set |analyze|begin|(insert into|delete from|update) "?pruned_runs')
        assert [sql for sql in unprinted if not of_log.match(sql)] == []
        assert len(sent) - len(unprinted) > 5
    forgets = re.compile(r"delete from \S*archive")
    assert forgets.search(plain(dry_run(zoned, engine, Part(None))))
    engine.execute("""update shown_at set "Shown At" = '2026-01-20 12:00+00'""")
    reprinted = plain(dry_run(zoned, engine, Part(None)))
    assert not forgets.search(reprinted), "a run of all days finds nothing old on those of the data"


def plain(sql: str) -> str:
    """A text on one line, whenever it was printed."""
    moment = r"cast\('20[^']* [^']*' as timestamp\)|\(current_timestamp at time zone 'utc'\)"
    moment += r"|cast\(current_timestamp at time zone 'UTC' as timestamp\)"
    text = re.sub(r"'[0-9a-f]{8}-[0-9a-f-]{27}'", "'dry run'", re.sub(moment, "NOW", sql))
    return " ".join(text.split())


@by_turns(0.9)
@pytest.mark.parametrize("database", ["duckdb", "sqlite"])
@pytest.mark.parametrize("time", ["", "T23:30:00+00:00"])
def test_days_of_a_json_file_are_compared_as_days(tmp_path: Path, time: str, database: str) -> None:
    """Its values are read as texts, whatever their types are."""
    path = tmp_path / "shown.ndjson"
    rows = [
        {"Shown At": f"2026-01-0{day}{time}", "query": "q", "item": f"i{day}{n}", "score": n}
        for day in (1, 2, 3)
        for n in range(day)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "labels.csv").write_text("query,item,grade\nq,i10,1\n")
    json_spec = sm.Spec(
        rankings={
            "file": str(path),
            "columns": COLUMNS,
            **({"time_zone": "Asia/Tokyo"} if time else {}),
        },
        labels={
            "file": str(tmp_path / "labels.csv"),
            "columns": {"query": "query", "item": "item"},
        },
        metrics=["num_ret"],
    )
    day = date(2026, 1, 3 if time else 2)  # in Tokyo it is morning
    days = Days(start=day, end=day + timedelta(1))
    url = f"sqlite:///{tmp_path}/z.db" if database == "sqlite" else None
    with connect(url, create=True) as engine:
        rows_of = evaluated(json_spec, engine, days).summary().to_pylist()
    assert [(str(row["metric_date"]), row["value"]) for row in rows_of] == [(str(day), 2)]
