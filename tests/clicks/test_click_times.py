"""Click logs in texts: times with offsets, positions, flags and actions; nothing is lost unsaid."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from click.testing import CliRunner
from marked import by_turns, long

import sqlmetrics as sm
from sqlmetrics.catalog.dimension import direction
from sqlmetrics.catalog.metric import catalog, listed
from sqlmetrics.catalog.online import ONLINE
from sqlmetrics.cli import cli
from sqlmetrics.clicks.analysis.offline_online import offline_online
from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.clicks.log_days import days_of_log
from sqlmetrics.clicks.result import ClickResult
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.checks.verdict import verdicts
from sqlmetrics.jobs.days import in_zone, zone_of_days
from sqlmetrics.jobs.run import write
from sqlmetrics.jobs.views import NAMES
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.days import Days
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.sql.timestamps import READERS

pytestmark = by_turns(0.24)

Row = dict[str, Any]

SECOND = timedelta(seconds=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
EAST, WEST = timezone(timedelta(hours=8)), timezone(-timedelta(hours=3, minutes=30))


def value(result: ClickResult, metric: str) -> float | None:
    """The only value of a metric."""
    (row,) = (row for row in result.online().to_pylist() if row["metric"] == metric)
    metric_value: float | None = row["value"]
    return metric_value


def left_out(result: ClickResult) -> Mapping[tuple[str, str], int]:
    """What was left out, and why."""
    return {(step.what, step.why): step.removed for step in result.steps if step.removed}


# -- texts as times ---------------------------------------------------------------------


def micros(moment: datetime) -> int:
    return (moment.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def of(*parts: int, zone: timezone = UTC, millis: int = 0) -> int:
    return micros(datetime(*parts, tzinfo=zone)) + millis * 1000  # type: ignore[arg-type,misc]


READABLE: Mapping[str, int] = {
    "2026-01-01T00:00:00.000Z": of(2026, 1, 1),
    "2026-01-01T08:00:10.500+08:00": of(2026, 1, 1, 8, 0, 10, zone=EAST, millis=500),
    "2026-01-01T08:00:10.5+0800": of(2026, 1, 1, 8, 0, 10, zone=EAST, millis=500),
    "2026-01-01 08:00+08": of(2026, 1, 1, 8, zone=EAST),
    "2026-01-01T08:00:00 +08:00": of(2026, 1, 1, 8, zone=EAST),
    "2026-01-01T23:30:00-03:30": of(2026, 1, 1, 23, 30, zone=WEST),
    "2026-01-01T08:00:00,5z": of(2026, 1, 1, 8, millis=500),
    "2026-01-01 08:00:00 UTC": of(2026, 1, 1, 8),
    " 2026-01-01T08:00:00 ": of(2026, 1, 1, 8),
    "2026-01-01": of(2026, 1, 1),
    "2024-02-29 23:59:59.999": of(2024, 2, 29, 23, 59, 59, millis=999),
    "1733788889378": 1733788889378_000,
    "1733788889": 1733788889_000_000,
    "1733788889.25": 1733788889_250_000,
    "1733788889378000": 1733788889378_000,
}
UNREADABLE = (
    *("yesterday", "2026-02-30T00:00:00Z", "2025-02-29", "2026-13-01", "2026-01-01T24:00:00"),
    *("2026-1-1", "20260101", "20260101120000", "12:00", "now", "2026-01-01x", "epoch", "nan"),
    "2026-01-01 00:00:00 Europe/Berlin",
)
DATABASES = ("duckdb", "sqlite", "postgres")
LONG_DATABASES = ("mariadb", "chdb", "spark", "trino")


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in DATABASES),
        *(long(name, pytest.mark.xdist_group(name)) for name in LONG_DATABASES),
    ],
)
def test_texts_are_times_on_every_database(name: str, servers: Any) -> None:
    texts = [*READABLE, *UNREADABLE, None, ""]
    rows = [
        {"request_id": str(n), "item_id": "a", "position": "1", "at": text, "clicked": "true"}
        for n, text in enumerate(texts)
    ]
    columns = {"time": "at", "clicked": "clicked"}
    with connect(servers.open(name)) as engine:
        engine.load("texts_log", pa.Table.from_pylist(rows))
        try:
            clicks = Clicks(log={"relation": "texts_log", "columns": columns}, daily=True)
            with cleaned_log(clicks, engine) as log:
                source = log.tables.of["user_impressions"]
                sql = with_stages(
                    log.tables.stages("user_impressions"),
                    f"select request_id, shown_at, metric_date from {source}",
                )
                times = {texts[int(n)]: (at, day) for n, at, day in engine.rows(sql)}
                counts, findings = log.counts(), log.findings()
        finally:
            engine.execute("drop table texts_log")
    days = {
        text: (at, (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)).date())
        for text, at in READABLE.items()
    }
    wanted: dict[Any, Any] = {**days, None: (None, None), "": (None, None)}
    assert {text: (at, day and date.fromisoformat(str(day)[:10]))
            for text, (at, day) in times.items()} == wanted  # fmt: skip
    bad = len(UNREADABLE)
    assert counts["impressions", "unreadable time"] == counts["click", "unreadable time"] == bad
    assert counts["impressions", None] == len(wanted)
    example = "'12:00'"
    assert findings[f"times of log that cannot be read, like {example}"] == bad


ENDS = ("runs", "metrics", "definitions")
CHANGES = {
    "Asia/Tokyo": (date(2026, 3, 8), 24),
    "America/New_York": (date(2026, 3, 8), 23),
    "America/Havana": (date(2024, 11, 3), 25),  # midnight comes twice; of 2026 rules differ
    "Australia/Lord_Howe": (date(2026, 4, 5), 24.5),
}
"""Zone -> a day, and how many hours it has."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in DATABASES]
)
@pytest.mark.parametrize("zone", CHANGES)
def test_days_of_a_zone(name: str, zone: str, servers: Any) -> None:
    """Every half hour around a change of clocks: days, windows, bots and jobs are the zone's."""
    day, hours = CHANGES[zone]
    first = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=2)
    moments = [first + n * timedelta(minutes=30) for n in range(5 * 48)]
    zone_days = [at.astimezone(ZoneInfo(zone)).date() for at in moments]
    assert zone_days.count(day) == hours * 2
    fields = {"item_id": "a", "position": 1, "user": "u", "query": "q", "action": "show"}
    impressions = [
        {**fields, "request_id": str(n), "at": at}
        for n, at in enumerate([micros(at) // 1000 for at in moments])
    ]
    busy = impressions[zone_days.index(day)]
    later = impressions[zone_days.index(day) + 2]  # in Havana clocks show the same hour
    clicks = {"busy": [busy] * 5, "quiet": [busy] * 3 + [later] * 3}
    columns = {"time": "at", "user": "user"}
    click_options = {
        "impressions": {"relation": "zoned_shown", "columns": {**columns, "query": "query"}},
        "events": {"relation": "zoned_done", "columns": columns},
        "cleaning": {"max_events_per_user_hour": 4, "bots_of": "day"},
        "time_zone": zone,
        "daily": True,
    }
    spec = sm.Spec(
        name="z", clicks=click_options, metrics=["ctr"], output={"relation": "zoned_metrics"}
    )
    days = Days(start=day, end=day + timedelta(1))
    apart = {**click_options, "cleaning": {}, "evaluation": days, "daily": False}
    n_requests: dict[str, dict[str, int]] = {}
    with connect(servers.open(name)) as engine:
        engine.load("zoned_shown", pa.Table.from_pylist(impressions))
        try:
            for case, rows in clicks.items():
                engine.load("zoned_done", pa.Table.from_pylist([*rows, impressions[-1]]))
                engine.execute("update zoned_done set action = 'click'")
                counted = evaluate_clicks(spec, engine).online().to_pylist()
                n_requests[case] = {str(row["metric_date"]): row["n_queries"] for row in counted}
                if case == "busy":
                    engine.execute("drop table zoned_done")
            assert days_of_log(spec.clicks, engine, set(), lambda _: []) == set(zone_days)
            write(spec, engine, days)
            (kept,) = engine.rows(
                "select cast(metric_date as varchar), n_queries from zoned_metrics"
            )
            (total,) = (
                evaluate_clicks(sm.Spec(clicks=apart, metrics=["ctr"]), engine).online().to_pylist()
            )
        finally:
            for view in (*NAMES, "wide_z", "z_all"):
                engine.execute(f"drop view if exists zoned_metrics_{view}")
            for table in ("shown", "done", "metrics", *(f"metrics_{end}" for end in ENDS)):
                engine.execute(f"drop table if exists zoned_{table}")
    all_days = {str(zone_day): n for zone_day, n in Counter(zone_days).items()}
    assert n_requests == {
        "busy": {zone_day: n for zone_day, n in all_days.items() if zone_day != str(day)},
        "quiet": all_days,
    }
    assert (kept[0][:10], kept[1]) == (str(day), hours * 2)
    assert total["n_queries"] == hours * 2


def test_a_zone_is_refused_where_it_says_nothing() -> None:
    log = {"relation": "log", "columns": {"time": "at"}}
    spec = sm.Spec(clicks={"log": log, "time_zone": "Asia/Tokyo"}, metrics=["mrr"])
    assert zone_of_days(spec) == "Asia/Tokyo"
    plain = sm.Spec(clicks={"log": log}, metrics=["mrr"])
    assert spec.definition_hash(spec.measures[0]) != plain.definition_hash(plain.measures[0])
    with pytest.raises(sm.SpecError, match="Snowflake cannot tell the days of Asia/Tokyo"):
        sm.compile(spec, dialect="snowflake")
    for key, value in {"time_zone": "Asia/Tokyo", "daily": True}.items():
        with pytest.raises(sm.SpecError, match=rf"{key}.* needs? log\.columns\.time"):
            sm.Spec(clicks={"log": {"relation": "log"}, key: value}, metrics=["ctr"])
    with pytest.raises(sm.SpecError, match="did you mean 'Asia/Tokyo'"):
        in_zone(plain, "Asia/Tokio")


def test_a_report_of_a_log_without_times_has_no_days() -> None:
    rows = [
        {
            "request_id": f"r{n}",
            "item_id": "a",
            "position": 1,
            "shop": "ab"[n % 2],
            "hit": n % 3 == 1,
        }
        for n in range(60)
    ]
    columns = {"clicked": "hit", "system": "shop"}
    log = {"data": pa.Table.from_pylist(rows), "columns": columns}
    content = sm.report(sm.Spec(clicks={"log": log}, metrics=["ctr"], baseline="a")).content
    (row,) = [row for row in content.rows if row["metric"] == "ctr"]
    assert (row["baseline_value"], row["value"]) == (1 / 3, 1 / 3)
    assert len(content.dates()) <= 1


def test_dialects_without_a_reader_say_so() -> None:
    clicks = {"log": {"relation": "log", "columns": {"time": "at"}, "time_unit": "s"}}
    spec = sm.Spec(clicks=clicks, metrics=["ctr"])
    assert "sqlmetrics_micros" in sm.compile(spec, dialect="postgres")
    assert "snowflake" not in READERS
    with pytest.raises(sm.SpecError, match="texts and numbers are not read as times here; give at"):
        sm.compile(spec, dialect="snowflake")


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), (None, 1)])
def test_numbers_are_times_of_a_unit(unit: str | None, factor: int) -> None:
    """Numbers as they are, and small ones, of which the unit must be said."""
    began = micros(START) / 10**6 if unit is None else 5
    rows = [
        {"request_id": "r", "item_id": "a", "position": 1, "at": int(began * factor)},
        {"request_id": "r", "item_id": "a", "position": 1, "at": int((began + 7) * factor)},
    ]
    impressions, events = pa.Table.from_pylist(rows[:1]), pa.Table.from_pylist(rows[1:])
    events = events.append_column("action", pa.array(["click"]))
    options = {"columns": {"time": "at"}, **({"time_unit": unit} if unit else {})}
    clicks = {
        "impressions": {"data": impressions, **options},
        "events": {"data": events, **options},
    }
    spec = sm.Spec(clicks=clicks, metrics=["time_to_first_click"])
    assert value(evaluate_clicks(spec), "time_to_first_click") == 7
    if unit:
        del options["time_unit"]
        clicks = {
            "impressions": {"data": impressions, **options},
            "events": {"data": events, **options},
        }
        with pytest.raises(
            sm.InputError, match=r"(?s)none of 1 times can be read, like '5.*time_unit"
        ):
            evaluate_clicks(sm.Spec(clicks=clicks, metrics=["ctr"]))


# -- User Behavior Insights -------------------------------------------------------------


def ndjson_source(folder: Path, name: str, rows: Sequence[Row]) -> Row:
    path = folder / f"{name}.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return {"file": str(path)}


def event(
    query: str, action: str, item: str, at: Any, position: int | None = None, **columns: Any
) -> Row:
    attributes: Row = {"object": {"object_id": item}}
    if position is not None:
        attributes["position"] = {"ordinal": position}
    fields = {"query_id": query, "client_id": "c", "timestamp": at, "action_name": action}
    return {**fields, "event_attributes": attributes, **columns}


def ubi(folder: Path, queries: Sequence[Row], events: Sequence[Row], **options: Any) -> Row:
    requests = {"requests": ndjson_source(folder, "q", queries)} if queries else {}
    return {"format": "ubi", **requests, "events": ndjson_source(folder, "e", events), **options}


@pytest.mark.parametrize(
    "at",
    ["2026-01-01T08:00:10.500+08:00", micros(START) // 1000 + 10_500, "2025-12-31T20:30:10.5-0330"],
)
def test_ubi_s_times_keep_their_offset(tmp_path: Path, at: Any) -> None:
    shown_at = "2026-01-01T07:00:00+07:00"
    events = [
        *(
            event("q", "impression", item, shown_at, n, user_query="x")
            for n, item in enumerate("abc")
        ),
        event("q", "click", "b", at, user_query="x"),
    ]
    log = ubi(tmp_path, [], events, cleaning={"attribution_window": "30m"}, daily=True)
    result = evaluate_clicks(sm.Spec(clicks=log, metrics=["ctr", "time_to_first_click"]))
    assert value(result, "ctr") == pytest.approx(1 / 3)
    assert value(result, "time_to_first_click") == pytest.approx(10.5)
    assert {row["metric_date"] for row in result.online().to_pylist()} == {date(2026, 1, 1)}
    assert left_out(result) == {}
    early = ubi(tmp_path, [], [row | {"timestamp": "2026-01-01T07:00+08:00"} for row in events],
                daily=True)  # fmt: skip
    result = evaluate_clicks(sm.Spec(clicks=early, metrics=["ctr"]))
    assert {row["metric_date"] for row in result.online().to_pylist()} == {date(2025, 12, 31)}


@by_turns(1)
def test_ubi_as_the_plugin_writes_it(tmp_path: Path) -> None:
    """The list of the query and its words, where no event has them; a list or a text."""
    hits: Mapping[str, Any] = {"q1": ["a", "b", "c"], "q2": "d,,e", "q3": [], "q4": "[a, c]"}
    queries = [
        {"query_id": q, "client_id": "c", "user_query": "w" + q[1:], "timestamp": "2026-01-01",
         "query_response_hit_ids": hit_ids}
        for q, hit_ids in hits.items()
    ]  # fmt: skip
    events = [
        event("q1", "click", "b", "2026-01-01T00:00:10Z"),
        event("q4", "click", "c", "2026-01-01T00:00:20Z"),
        event("q2", "click", "z", "2026-01-01T00:00:20Z"),
    ]
    log = ubi(tmp_path, queries, events, labels={"pool": "query_item"})
    metrics = ["ctr", "zero_result_rate", "first_click_rank", "mrr"]
    result = evaluate_clicks(sm.Spec(clicks=log, metrics=metrics))
    assert value(result, "ctr") == 2 / 7
    assert value(result, "zero_result_rate") == 1 / 4
    assert value(result, "first_click_rank") == 2
    assert result.findings["lists taken from query_response_hit_ids"] == 3
    assert left_out(result) == {("click", "no impression"): 1, ("impressions", "incomplete"): 1}
    with connect() as engine, cleaned_log(Clicks(**log), engine) as cleaned:
        rates = {
            (r["query_text"], r["item_id"]): r["rate"] for r in cleaned.judgments().to_pylist()
        }
    assert rates == {
        **{("w1", item): float(item == "b") for item in "abc"},
        **{("w2", item): 0.0 for item in "de"},
        **{("w4", item): float(item == "c") for item in "ac"},
    }
    # impressions by events win, and take their words from the queries
    impressions = [event("q1", "impression", item, "2026-01-01", n) for n, item in enumerate("ba")]
    again = [queries[0] | {"user_query": "x1"}]  # of several words the first of the alphabet
    log = ubi(
        tmp_path, [*again, *queries, *again], [*impressions, *events], labels={"pool": "query_item"}
    )
    with connect() as engine, cleaned_log(Clicks(**log), engine) as cleaned:
        rates = {
            (r["query_text"], r["item_id"]): r["rate"] for r in cleaned.judgments().to_pylist()
        }
        repeated = {"requests that are logged more than once": 1}
        assert cleaned.findings() == {"lists that start at position 0": 1, **repeated}
    assert rates == {("w1", "b"): 1.0, ("w1", "a"): 0.0}
    worded = [row | {"user_query": "mine"} for row in impressions]
    log = ubi(tmp_path, queries, [*worded, *events], labels={"pool": "query_item"})
    with connect() as engine, cleaned_log(Clicks(**log), engine) as cleaned:
        assert {r["query_text"] for r in cleaned.judgments().to_pylist()} == {"mine"}
    # as told
    hit_ids_log = ubi(tmp_path, queries, [*worded, *events], lists_from="hit_ids")
    assert value(evaluate_clicks(sm.Spec(clicks=hit_ids_log, metrics=["ctr"])), "ctr") == 2 / 7
    for row in queries:
        del row["query_response_hit_ids"]
    with pytest.raises(sm.InputError, match="does not say what was shown: no event has the action"):
        evaluate_clicks(sm.Spec(clicks=ubi(tmp_path, queries, events), metrics=["ctr"]))
    with pytest.raises(sm.SpecError, match="only applies to format: ubi"):
        sm.Spec(clicks={"log": {"file": "x.csv"}, "lists_from": "hit_ids"}, metrics=["ctr"])


def test_the_sample_of_ubi_without_impressions(shared: Path, tmp_path: Path) -> None:
    """The sample's lists, moved from the events into the queries, give the sample's numbers."""
    folder = shared / "clicks"
    events = list(map(json.loads, (folder / "ubi_events.ndjson").read_text().splitlines()))
    lists: dict[str, dict[str, int]] = {}
    for row in events:
        if row["action_name"] == "impression":
            attributes = row["event_attributes"]
            positions = lists.setdefault(row["query_id"], {})
            positions[attributes["object"]["object_id"]] = attributes["position"]["ordinal"]
    queries = [
        {"query_id": q, "client_id": "c", "user_query": "x", "timestamp": "2024-12-01",
         "query_response_hit_ids": sorted(items, key=lambda item: (items[item], item))}
        for q, items in lists.items()
    ]  # fmt: skip
    actions = [row for row in events if row["action_name"] != "impression"]
    log = ubi(tmp_path, queries, actions)
    result = evaluate_clicks(sm.Spec(clicks=log, metrics=["ctr", "abandonment"]))
    clicked = {
        (row["query_id"], row["event_attributes"]["object"]["object_id"])
        for row in actions
        if row["action_name"] == "click"
    }
    hits = {pair for pair in clicked if pair[1] in lists.get(pair[0], {})}
    assert value(result, "ctr") == pytest.approx(len(hits) / sum(map(len, lists.values())))
    answered = len({query for query, _ in hits})
    assert value(result, "abandonment") == pytest.approx(1 - answered / len(lists))


# -- CSV and tables of text -------------------------------------------------------------

IMPRESSIONS = """request,item,place,at,user
r1,a,1,2026-01-01T09:00:00+01:00,u
r1,b,2,2026-01-01T09:00:00+01:00,u
r2,a,1,2026-01-01T23:59:50Z,v
r2,c,2.0,2026-01-01T23:59:50Z,v
r3,a,1,soon,v
"""
EVENTS = """request,item,what,at,stay
r1,b,click,2026-01-01T08:00:05Z,12.5
r1,a,click,2026-01-01T08:00:20Z,2
r2,c,click,2026-01-02T02:00:00+02:00,
r2,a,click,later,30
r3,a,click,2026-01-01T08:00:20Z,30
"""


@pytest.fixture(params=[pytest.param(n, marks=pytest.mark.xdist_group(n)) for n in DATABASES])
def engine(request: pytest.FixtureRequest, servers: Any) -> Iterator[Any]:
    with servers.open(request.param) as opened:
        yield opened


def test_a_log_in_csv(tmp_path: Path, engine: Any) -> None:
    """Two files, on every database: 4 impressions are left, 3 clicks, one of them short."""
    for name, text in (("shown", IMPRESSIONS), ("done", EVENTS)):
        (tmp_path / f"{name}.csv").write_text(text)
    clicks = {
        "impressions": {
            "file": str(tmp_path / "shown.csv"),
            "columns": {"request": "request", "item": "item", "position": "place", "time": "at"},
        },
        "events": {
            "file": str(tmp_path / "done.csv"),
            "columns": {"request": "request", "item": "item", "action": "what", "time": "at",
                        "dwell": "stay"},
        },
        "cleaning": {"min_dwell": 5, "attribution_window": "30m"},
        "daily": True,
    }  # fmt: skip
    result = evaluate_clicks(
        sm.Spec(clicks=clicks, metrics=["ctr", "first_click_rank", "time_to_first_click"]), engine
    )
    assert value(result, "ctr") == 2 / 4  # r1 b after 5 s, r2 c after 10 s
    assert value(result, "first_click_rank") == 2
    assert value(result, "time_to_first_click") == 7.5
    assert left_out(result) == {
        ("impressions", "unreadable time"): 1,
        ("click", "unreadable time"): 1,
        ("click", "no impression"): 1,
        ("click", "short stay"): 1,
    }
    assert result.findings == {
        "lists that start at position 1": 3,
        "times of events that cannot be read, like 'later'": 1,
        "times of impressions that cannot be read, like 'soon'": 1,
    }
    assert "unreadable time" in repr(result)


@by_turns(1.4)
def test_a_wide_log_in_csv_and_its_flags(tmp_path: Path, engine: Any) -> None:
    file = tmp_path / "log.csv"
    header = "timestamp,item_id,position,click,bought\n"
    lines = [
        f"2019-11-24 00:00:{n:02}.762830+00:00,i{n},{n % 3 + 1},{flag},{int(n == 1)}\n"
        for n, flag in enumerate(("1", "0", "true", "False", "", "TRUE", "1.0"))
    ]
    file.write_text(header + "".join(lines))
    columns = {"request": None, "time": "timestamp", "clicked": "click"}
    log = {"file": str(file), "columns": columns | {"actions": {"purchase": "bought"}}}
    spec = sm.Spec(clicks={"log": log, "daily": True}, metrics=["ctr", "purchases"])
    result = evaluate_clicks(spec, engine)
    assert value(result, "ctr") == pytest.approx(4 / 7)
    assert value(result, "purchases") == pytest.approx(1 / 7)
    assert {row["metric_date"] for row in result.online().to_pylist()} == {date(2019, 11, 24)}
    file.write_text(header + "".join(lines) + "2019-11-24,i,1,2,0\n2019-11-24,i,1,maybe,0\n")
    with pytest.raises(sm.InputError, match="click is neither 1 nor 0 in 2 rows") as caught:
        evaluate_clicks(spec, engine)
    assert "maybe" in str(caught.value)
    assert "make it 1 or 0, true or false" in str(caught.value)


def test_open_bandit_s_own_file(shared: Path) -> None:
    file = shared / "clicks/open_bandit_random.csv"
    rows = [line.split(",") for line in file.read_text().splitlines()[1:]]
    columns = {"request": None, "time": "timestamp", "clicked": "click"}
    log = {"log": {"file": str(file), "columns": columns}, "daily": True}
    result = evaluate_clicks(sm.Spec(clicks=log, metrics=["ctr"]))
    clicks, impressions = Counter[str](), Counter[str]()
    for at, _, _, click, _ in rows:
        impressions[at[:10]] += 1
        clicks[at[:10]] += int(click)
    rates = {str(row["metric_date"]): row["value"] for row in result.online().to_pylist()}
    assert rates == {day: pytest.approx(clicks[day] / n) for day, n in impressions.items()}


def test_booleans_are_flags(engine: Any) -> None:
    rows = [{"request_id": "r", "item_id": i, "position": 1, "clicked": i == "a"} for i in "abc"]
    log = {"data": pa.Table.from_pylist(rows), "columns": {"clicked": "clicked"}}
    result = evaluate_clicks(sm.Spec(clicks={"log": log}, metrics=["ctr"]), engine)
    assert value(result, "ctr") == pytest.approx(1 / 3)


# -- positions, actions, labels ---------------------------------------------------------


def wide(positions: Sequence[Any], **options: Any) -> Row:
    rows = [
        {"request_id": "r", "item_id": f"i{n}", "position": position, "clicked": int(n == 1)}
        for n, position in enumerate(positions)
    ]
    return {"data": pa.Table.from_pylist(rows), "columns": {"clicked": "clicked"}, **options}


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ([0, 1, 2], "position is 0, but lists start at 1 in 1 row"),
        (["0", "1", "2"], "set clicks.log.first_position: 0, or clicks.log.first_position: each"),
        ([1.0, 1.4, 2.0], "position is not a whole number in 1 row"),
        ([-1, 1, 2], "position is negative in 1 row"),
        (["1", "2", "last"], "position is not a number in 1 row"),
    ],
)
def test_positions_that_would_count_wrongly_are_refused(positions: Any, message: str) -> None:
    spec = sm.Spec(clicks={"log": wide(positions)}, metrics=["ctr@1"])
    with pytest.raises(sm.InputError) as caught:
        evaluate_clicks(spec)
    assert message in str(caught.value)


def test_lists_that_start_at_0_say_so(tmp_path: Path) -> None:
    log = wide([0, 1, 2], first_position=0)
    result = evaluate_clicks(sm.Spec(clicks={"log": log}, metrics=["ctr@1", "first_click_rank"]))
    assert (value(result, "ctr"), value(result, "first_click_rank")) == (0.0, 2.0)
    (tmp_path / "log.csv").write_text("request_id,item_id,position,clicked\nr,a,0,1\n")
    (tmp_path / "log.yml").write_text(
        f"name: log\nclicks: {{log: {{file: '{tmp_path / 'log.csv'}', "
        "columns: {clicked: clicked}}}\nmetrics: [ctr]\n"
    )
    invocation = CliRunner().invoke(cli, ["clicks", str(tmp_path / "log.yml")])
    assert isinstance(invocation.exception, sm.InputError)
    assert "first_position: 0" in str(invocation.exception)


def two_tables(actions: Sequence[str], **options: Any) -> Row:
    impressions = [{"request_id": "r", "item_id": i, "position": n, "q": None, "at": START}
             for n, i in enumerate("ab", 1)]  # fmt: skip
    events = [{"request_id": "r", "item_id": "a", "action": action, "at": START + SECOND}
            for action in actions]  # fmt: skip
    kinds = pa.schema({"request_id": "string", "item_id": "string", "action": "string",
                       "at": pa.timestamp("us", "UTC")})  # fmt: skip
    columns = {"query": "q", "time": "at"}
    return {
        "impressions": {"data": pa.Table.from_pylist(impressions).cast(pa.schema({
            "request_id": "string", "item_id": "string", "position": "int64", "q": "string",
            "at": pa.timestamp("us", "UTC")})), "columns": columns},
        "events": {"data": pa.Table.from_pylist(events, kinds), "columns": {"time": "at"}},
        **options,
    }  # fmt: skip


def test_actions_in_another_case_are_told() -> None:
    for actions, message in (
        (["CLICK", "CLICK", "view"], "2 events have the action 'CLICK', which is not 'click'; "
         "there are CLICK (2), view (1)"),
        (["clicked", "view"], "no event has one of the actions that count (click, purchase); did "
         "you mean 'clicked'? there are clicked (1), view (1)"),
    ):  # fmt: skip
        for metrics in (["ctr"], ["mrr"]):
            with pytest.raises(sm.InputError) as caught:
                evaluate_clicks(sm.Spec(clicks=two_tables(actions), metrics=metrics))
            assert message in str(caught.value)


def test_a_log_without_a_label_says_why() -> None:
    days = {"start": "2026-01-01", "end": "2026-01-02"}
    spec = sm.Spec(clicks=two_tables([], evaluation=days), metrics=["mrr"])
    with pytest.raises(sm.InputError) as caught:
        evaluate_clicks(spec)
    assert "no event with a grade is left on the evaluated days (from 2026-01-01 and " in (
        str(caught.value)
    )
    assert "(click); there is no event" in str(caught.value)
    early = sm.Spec(clicks=two_tables(["click"]), metrics=["mrr"])
    assert evaluate_clicks(early).offline is not None
    late = two_tables(["click"], cleaning={"attribution_window": "0.5s"})
    with pytest.raises(
        sm.InputError,
        match="1 of click left out: after the window",
    ):
        evaluate_clicks(sm.Spec(clicks=late, metrics=["mrr"]))
    never = sm.Spec(clicks=two_tables(["click"], evaluation={"end": "2025-01-01"}), metrics=["mrr"])
    with pytest.raises(sm.InputError, match="no impression is left on the evaluated days"):
        evaluate_clicks(never)


def test_local_times_beside_utc_are_told() -> None:
    """Tokyo's clocks are 9 hours ahead: a click seems to come before what was clicked."""
    rows = [{"request_id": f"r{n}", "item_id": "a", "position": 1} for n in range(40)]
    for n_local, is_noted in ((18, False), (19, False), (20, True), (40, True)):
        impressions = [
            row | {"at": f"2026-01-01 {9 * (n < n_local):02}:00"} for n, row in enumerate(rows)
        ]
        events = [row | {"action": "click", "at": "2026-01-01 00:01"} for row in rows]
        clicks = {
            name: {"data": pa.Table.from_pylist(table), "columns": {"time": "at"}}
            for name, table in (("impressions", impressions), ("events", events))
        }
        result = evaluate_clicks(sm.Spec(clicks=clicks, metrics=["ctr"]))
        assert left_out(result) == {("click", "before the impression"): n_local}
        wanted = f"times: {n_local} of 40 events on shown items are before their impression"
        assert any(wanted in note for note in result.notes) == is_noted
        with connect() as engine, cleaned_log(Clicks(**clicks), engine) as log:
            # jobs, compare, sheets
            assert any(wanted in note for note in log.label_notes) == is_noted


def test_judgments_of_no_row_say_why() -> None:
    """Nobody asked anything: the text is NULL."""
    clicks = Clicks(**two_tables(["click"], labels={"pool": "query_item"}))
    message = "there are no judgments: none of 2 impressions has the text of its query"
    with connect() as engine, cleaned_log(clicks, engine) as log:
        assert log.judgments().num_rows == 0
        with pytest.raises(sm.InputError, match=message):
            log.judgments(some=True)
    with pytest.raises(sm.InputError, match=message):
        evaluate_clicks(sm.Spec(clicks=clicks, metrics=["mrr"]))


@by_turns(0.7)
def test_a_job_of_a_day_reads_texts(tmp_path: Path) -> None:
    """The days of a job are those of the texts in UTC, and a bad time leaves its row out."""
    rows = [
        ("r1", "a", 1, "2026-01-02T01:00:00+02:00", 1),  # still the first
        ("r2", "a", 1, "2026-01-02T01:00:00Z", 1),
        ("r2", "b", 2, "2026-01-02T01:00:00Z", 0),
        ("r2", "c", 3, "?", 0),
    ]
    lines = [
        ",".join(map(str, row)) for row in (("request_id", "item_id", "position", "at", "c"), *rows)
    ]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    log = {"file": str(tmp_path / "log.csv"), "columns": {"time": "at", "clicked": "c"}}
    spec = sm.Spec(
        name="log", clicks={"log": log}, metrics=["ctr", "mrr"], output={"relation": "facts"}
    )
    with connect() as engine:
        for day in (1, 2):
            write(spec, engine, Days(start=date(2026, 1, day), end=date(2026, 1, day + 1)))
        records = engine.rows(
            "select metric_date, value from facts where metric = 'ctr' order by 1"
        )
        assert records == [(date(2026, 1, 1), 1.0), (date(2026, 1, 2), 0.5)]
        undated = spec.having(name="whole")
        for _ in range(2):  # the log as a whole, whose rows the next run replaces
            result = write(undated, engine)
        records = engine.rows("select metric_date, metric, value from facts where spec = 'whole'")
    assert sorted(records) == [(date(1970, 1, 1), "ctr", 2 / 3), (date(1970, 1, 1), "mrr", 1.0)]
    assert result.rows == {"facts": 2}


@by_turns(0.7)
def test_a_day_without_a_click_is_a_day(tmp_path: Path) -> None:
    """The log has clicks, though the second day has views alone: its CTR is 0."""
    (tmp_path / "shown.csv").write_text(
        "request_id,item_id,position,at\nr1,a,1,2026-01-01\nr2,a,1,2026-01-02\n"
    )
    (tmp_path / "done.csv").write_text(
        "request_id,item_id,action,at\nr1,a,click,2026-01-01\nr2,a,view,2026-01-02\n"
    )
    clicks = {
        name: {"file": str(tmp_path / file), "columns": {"time": "at"}}
        for name, file in (("impressions", "shown.csv"), ("events", "done.csv"))
    }
    facts = {"relation": "facts"}
    with connect() as engine:
        for day in (1, 2):
            spec = sm.Spec(name="log", clicks=clicks, metrics=["ctr"], output=facts)
            write(spec, engine, Days(start=date(2026, 1, day), end=date(2026, 1, day + 1)))
        assert engine.rows("select value from facts order by metric_date") == [(1.0,), (0.0,)]
        lists = sm.Spec(name="lists", clicks=clicks, metrics=["mrr"], output=facts)
        message = r"on the evaluated days \(from 2026-01-02 .*; there are view \(1\)"
        with pytest.raises(sm.InputError, match=message):
            write(lists, engine, Days(start=date(2026, 1, 2), end=date(2026, 1, 3)))


# -- whether more is better -------------------------------------------------------------


def test_every_metric_says_what_is_better() -> None:
    names = {*(metric.name for metric in listed()), *ONLINE}
    assert {metric.better for metric in (*listed(), *ONLINE.values())} == {
        "higher",
        "lower",
        "none",
    }
    assert {name for name in names if direction(name) < 0} == {
        *("abandonment", "zero_result_rate", "first_click_rank", "time_to_first_click"),
        *("time_to_success", "reformulation_rate", "search_exit_rate"),
        *("first_rank", "mean_rank", "gini", "ils", "arp", "hole", "p_skip", "first_purchase_rank"),
    }
    assert {name for name in names if direction(name) == 0} == {
        *("idcg", "judged", "num_judged", "num_q", "num_rel", "num_ret", "overlap", "rbo"),
        *("last_click_rank", "min_rr", "jaccard", "tied_rbo", "unexpectedness"),
        *("searches_per_session", "action_rate", "mean_amount"),
    }
    assert catalog()["novelty"].unit == "bits"
    for kind, text in (("metrics", "better"), ("online", "abandonment")):
        assert text in CliRunner().invoke(cli, ["list", kind]).output
    assert (
        "whichever click came first"
        in CliRunner().invoke(cli, ["explain", "first_click_rank"]).output
    )


def facts(metric: str, values: Sequence[float]) -> list[Row]:
    key = {"system": "s", "segment_name": "all", "segment_value": "all", "k": 0}
    return [
        key | {"metric": metric, "metric_date": START.date() + timedelta(n), "value": number}
        for n, number in enumerate(values)
    ]


def test_less_abandonment_is_the_same_way_as_more_ndcg() -> None:
    days = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    same = offline_online(facts("ndcg", days), facts("abandonment", days[::-1]))
    assert (same.by_day, same.by_half) == ((), ())
    assert (same.pairs[0].correlation, same.pairs[0].lag) == (-1.0, 0)
    against = offline_online(facts("ndcg", days), facts("abandonment", days))
    assert (len(against.by_day), len(against.by_half)) == (5, 1)
    neither = offline_online(facts("num_ret", days), facts("ctr", days[::-1]))
    assert (neither.by_day, neither.by_half) == ((), ())


def test_a_drop_is_harm() -> None:
    """Abandonment rose from 0 to .5, CTR fell from 1 to .5: neither may become worse by .1."""
    rows = [
        {"request_id": f"r{n}", "item_id": "a", "position": 1, "at": START + timedelta(day),
         "clicked": int(n != 3)}
        for n, day in enumerate((0, 0, 1, 1))
    ]  # fmt: skip
    log = {"data": pa.Table.from_pylist(rows), "columns": {"time": "at", "clicked": "clicked"}}
    checks = [{"metric": name, "max_drop": limit}
              for name in ("abandonment", "ctr") for limit in (0.1, 0.6)]  # fmt: skip
    spec = sm.Spec(
        name="log",
        clicks={"log": log, "daily": True},
        metrics=["abandonment", "ctr"],
        output={"relation": "facts"},
        checks=checks,
    )
    with connect() as engine:
        write(spec, engine)
        outcomes = [
            (verdict.what, verdict.holds, verdict.note) for verdict in verdicts(spec, engine)
        ]
    note = "lower is better, so a rise counts"
    assert outcomes == [
        ("abandonment", False, note),
        ("abandonment", True, note),
        ("ctr", False, ""),
        ("ctr", True, ""),
    ]


def test_what_ubi_cannot_use_is_refused(tmp_path: Path) -> None:
    log = ubi(tmp_path, [], [event("q", "click", "a", 1, "2026-01-01T08:00Z")])
    named = {**log, "events": {**log["events"], "columns": {"user": "who"}}}
    with pytest.raises(sm.SpecError, match=r"leave out clicks\.events\.columns"):
        sm.Spec(clicks=named, metrics=["ctr"])
    with pytest.raises(sm.SpecError, match="leave out min_dwell"):
        sm.Spec(clicks={**log, "cleaning": {"min_dwell": "5s"}}, metrics=["ctr"])


def test_messages_of_a_log_name_what_helps(tmp_path: Path) -> None:
    impressions_file, events_file = tmp_path / "shown.csv", tmp_path / "done.csv"
    impressions_file.write_text("request_id;item_id;position\nr;a;1\n")
    events_file.write_text("request_id;item_id;action;stay\nr;a;click;12,500\n")
    log: Row = {
        "impressions": {"file": str(impressions_file)},
        "events": {"file": str(events_file), "columns": {"dwell": "stay"}},
    }
    with pytest.raises(sm.InputError, match=r'set clicks\.events\.decimal: ","'):
        evaluate_clicks(sm.Spec(clicks=log, metrics=["ctr"]))
    log["events"]["decimal"] = ","
    assert value(evaluate_clicks(sm.Spec(clicks=log, metrics=["ctr"])), "ctr") == 1
    with pytest.raises(sm.SpecError, match="of the log itself: abandonment, "):
        sm.Spec(clicks=log, metrics=["ctr5"])
