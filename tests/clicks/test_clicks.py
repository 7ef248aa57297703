"""Click logs: what is left out and why, and what the rest says; each counted in plain Python."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from engines.starting import STARTED
from marked import by_turns, engines, first

import sqlmetrics as sm
from sqlmetrics.catalog.online import ONLINE
from sqlmetrics.cli import cli
from sqlmetrics.clicks.cleaning_report import REASONS
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.clicks.result import ClickResult
from sqlmetrics.clicks.simulation import simulate
from sqlmetrics.sql.dialects import dialect_named

pytestmark = by_turns(0.3)

Row = Mapping[str, Any]

GRADES = {"click": 1, "add_to_cart": 2, "purchase": 3}


# -- User Behavior Insights -------------------------------------------------------------


@pytest.fixture(scope="module")
def ubi(shared: Path) -> dict[str, list[Row]]:
    """Both files, read line by line."""
    return {
        name: list(map(json.loads, (shared / f"clicks/ubi_{name}.ndjson").read_text().splitlines()))
        for name in ("queries", "events")
    }


@pytest.fixture(scope="module")
def ubi_result(shared: Path) -> ClickResult:
    folder = shared / "clicks"
    clicks = {
        "format": "ubi",
        "requests": {"file": str(folder / "ubi_queries.ndjson")},
        "events": {"file": str(folder / "ubi_events.ndjson")},
        "labels": {"grades": GRADES},
    }
    metrics = ["ndcg@10", "ctr@5", "ctr", "abandonment", "zero_result_rate", "first_click_rank"]
    metrics += ["max_rr", "min_rr", "p_skip"]
    return evaluate_clicks(sm.Spec(name="ubi", clicks=clicks, metrics=metrics))


def item_of(event: Row) -> str:
    return str(((event["event_attributes"] or {}).get("object") or {})["object_id"])


def shown_in(events: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Request -> item -> position, from 1."""
    lists: dict[str, dict[str, int]] = defaultdict(dict)
    for event in events:
        if event["action_name"] == "impression":
            position = event["event_attributes"]["position"]["ordinal"]
            lists[event["query_id"]][item_of(event)] = position
    return {
        request: {item: position + (min(items.values()) == 0) for item, position in items.items()}
        for request, items in lists.items()
    }


@by_turns(0.7)
def test_ubi_is_counted_as_in_plain_python(
    ubi: Mapping[str, Sequence[Row]], ubi_result: ClickResult
) -> None:
    lists = shown_in(ubi["events"])
    impressions = sum(map(len, lists.values()))
    assert ubi_result.rows["impressions"] == (impressions, impressions) == (1999, 1999)
    for action in ("click", "add_to_cart", "purchase"):
        events = [event for event in ubi["events"] if event["action_name"] == action]
        pairs = [(event["query_id"], item_of(event)) for event in events]
        shown_pairs = [pair for pair in pairs if pair[1] in lists.get(pair[0], {})]
        assert ubi_result.rows[action] == (len(pairs), len(set(shown_pairs)))
        rows_out = {step.why: step.rows_out for step in ubi_result.steps if step.what == action}
        assert rows_out["no impression"] == len(shown_pairs)
    assert ubi_result.rows["click"][0] == 287
    assert next(step.rows_out for step in ubi_result.steps if step.what == "click") == 246


@by_turns(0.9)
def test_what_is_odd_about_ubi_is_told(
    ubi: Mapping[str, Sequence[Row]], ubi_result: ClickResult
) -> None:
    at = defaultdict(list)
    for event in ubi["events"]:
        if event["action_name"] == "impression":
            at[event["query_id"]].append(event["event_attributes"]["position"]["ordinal"])
    starts = Counter(min(positions) for positions in at.values())
    shared = sum(n > 1 for positions in at.values() for n in Counter(positions).values())
    queries = Counter(row["query_id"] for row in ubi["queries"])
    assert ubi_result.findings == {
        **{f"lists that start at position {start}": n for start, n in starts.items()},
        "positions with two items": shared,
        "requests that are logged more than once": sum(n > 1 for n in queries.values()),
    }
    assert (shared, len(queries)) == (68, 284)


@by_turns(0.7)
def test_ubi_s_metrics_are_those_of_plain_python(
    ubi: Mapping[str, Sequence[Row]], ubi_result: ClickResult
) -> None:
    lists = shown_in(ubi["events"])
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for event in ubi["events"]:
        grade = GRADES.get(event["action_name"])
        if grade and item_of(event) in lists.get(event["query_id"], {}):
            request_grades = grades[event["query_id"]]
            request_grades[item_of(event)] = max(grade, request_grades.get(item_of(event), 0))
    clicked = {
        (event["query_id"], item_of(event))
        for event in ubi["events"]
        if event["action_name"] == "click"
    }
    per_query = {row["query_id"]: row["ndcg_at_10"] for row in rows_of(ubi_result)}
    assert set(per_query) == set(grades)
    for request, request_grades in grades.items():
        ranked = sorted(lists[request], key=lambda item: (lists[request][item], item.encode()))
        best = dcg(sorted(request_grades.values(), reverse=True)[:10])
        wanted = dcg([request_grades.get(item, 0) for item in ranked[:10]]) / best
        assert per_query[request] == pytest.approx(wanted, abs=1e-12)
    click_positions = [
        [position for item, position in items.items() if (request, item) in clicked]
        for request, items in lists.items()
        if any((request, item) in clicked for item in items)
    ]
    first, last = (
        [min(positions) for positions in click_positions],
        [max(positions) for positions in click_positions],
    )
    top = [(r, i) for r, items in lists.items() for i, position in items.items() if position <= 5]
    searches = {row["query_id"] for row in ubi["queries"]} | set(lists)
    assert {row["metric"] + f"@{row['k']}": row["value"] for row in online(ubi_result)} == {
        "ctr@5": pytest.approx(len(clicked & set(top)) / len(top), abs=1e-12),
        "ctr@0": pytest.approx(168 / 1999, abs=1e-12),
        "abandonment@0": pytest.approx(1 - len(first) / len(lists), abs=1e-12),
        "zero_result_rate@0": pytest.approx(1 - len(lists) / len(searches), abs=1e-12),
        "first_click_rank@0": pytest.approx(sum(first) / len(first), abs=1e-12),
        "max_rr@0": pytest.approx(sum(1 / rank for rank in first) / len(first), abs=1e-12),
        "min_rr@0": pytest.approx(sum(1 / rank for rank in last) / len(last), abs=1e-12),
        "p_skip@0": pytest.approx(1 - sum(map(len, click_positions)) / sum(last), abs=1e-12),
    }


def dcg(grades: Sequence[int]) -> float:
    return math.fsum((2**grade - 1) / math.log2(i + 2) for i, grade in enumerate(grades))


def rows_of(result: ClickResult) -> list[dict[str, Any]]:
    assert result.offline is not None
    rows: list[dict[str, Any]] = result.offline.per_query().to_pylist()
    return rows


def online(result: ClickResult) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = result.online().to_pylist()
    return rows


@by_turns(2)
def test_one_command_from_the_two_files(shared: Path) -> None:
    files = [str(shared / f"clicks/ubi_{name}.ndjson") for name in ("queries", "events")]
    result = CliRunner().invoke(cli, ["clicks", "--ubi", *files, "-m", "ndcg@10", "-m", "ctr@5"])
    assert result.exit_code == 0, result.output
    assert "no impression       -41    246" in result.output
    assert "ubi_events   0.6450" in result.output
    json_result = CliRunner().invoke(cli, ["clicks", "--ubi", *files, "-o", "json"])
    assert json.loads(json_result.output)["rows"]["click"] == {"logged": 287, "left": 168}


SPEC = """
clicks:
  impressions:
    file: impressions.parquet
    columns: {query: query, system: system, user: user_id, time: shown_at, segments: [country]}
  events: {file: events.parquet, columns: {dwell: dwell, user: user_id, time: happened_at}}
  ranked: {file: impressions.parquet, columns: {rank: position}}
  cleaning: {min_dwell: 5s, attribution_window: 30m, max_events_per_user_hour: 200}
  labels: {grades: {click: 1, purchase: 3}}
metrics: [ndcg@5, ctr@3]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated log and its spec; tests may write beside them."""
    path = tmp_path_factory.mktemp("simulated")
    simulate(path, requests=600, seed=2)
    (path / "log.yml").write_text(SPEC)
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["depth"], "covers 80%: "),
        (["--show", "depth"], "--show depth is now a page: sqlmetrics clicks depth LOG"),
        (["soundness"], "no sample ratio mismatch"),
        (["soundness"], "overlap@10 1.0000, rbo 1.0000; requests that differ: 0 (0.0%)"),
        (["days"], "2026-01-11  old"),
        (["models"], "position_based is not among them"),
        (["models", "-o", "json"], '{"model": "position_ctr", "log_likelihood": -0.'),
        (["--per-query"], "ndcg@5"),
        (["-m", "ctr", "--by", "country"], "country=DE  new"),
        (["-m", "ctr", "--per-query"], "--per-query needs list metrics, like ndcg@10"),
        (["judgments"], "pool: query_item"),
        (["judgments"], "for labels of single requests use clicks labels"),
        (["days", "-m", "ctr"], "beside those of lists; add -m ndcg@10"),
        (["-m", "ctr", "--by", "land"], "and the segments of clicks.impressions.columns.segments"),
        (["--ubi", "a", "b"], "give a spec, a log, or the two files of --ubi"),
        (["deepth"], "'deepth' is not a page of a log; the pages are depth, days, soundness"),
        (["depth", "--compare-labels"], "give one page of a log, given depth, compare-labels"),
    ],
)
def test_the_command_shows(folder: Path, arguments: list[str], message: str) -> None:
    pages = list(takewhile(str.isalpha, arguments))
    line = ["clicks", *pages, str(folder / "log.yml"), *arguments[len(pages) :]]
    result = CliRunner().invoke(cli, line)
    assert message in result.output + str(result.exception or "")


def test_a_word_that_is_a_page_needs_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["clicks", "labels"])
    assert "say which log: sqlmetrics clicks labels LOG" in result.output
    Path("labels").write_text("request,item,position,clicked\nr,a,1,1\n")
    by_file = CliRunner().invoke(cli, ["clicks", "labels"])
    assert "say which log" not in by_file.output + str(by_file.exception)


def test_pooled_judgments_are_exported(folder: Path) -> None:
    pooled = "labels: {pool: query_item, rate: coec, prior: 1}"
    text = SPEC.replace("labels: {grades: {click: 1, purchase: 3}}", pooled)
    (folder / "pooled.yml").write_text(text)
    result = CliRunner().invoke(cli, ["clicks", "judgments", str(folder / "pooled.yml")])
    head, *rows = result.stdout.splitlines()
    assert head == (
        "query_text,item_id,n_impressions,n_clicks,n_purchases,expected_clicks,rate,grade"
    )
    assert len(rows) > 500


@by_turns(1)
def test_labels_of_requests_are_exported(folder: Path) -> None:
    """They give the numbers of the log where another evaluation takes them."""
    labels = folder / "labels.csv"
    arguments = ["clicks", "labels", str(folder / "log.yml"), "--out", str(labels)]
    result = CliRunner().invoke(cli, [*arguments, "--overwrite"])
    assert not result.exit_code, result.output
    head = labels.read_text().splitlines()[0]
    assert head == "query_id,item_id,grade,query_text,system,country,position"
    lists = {"rank": "position", "system": "system", "query": "request_id"}
    numbers = sm.evaluate(
        folder / "impressions.parquet",
        labels,
        "ndcg@5",
        missing="drop",
        label_columns={"query": "query_id"},
        **lists,
    ).to_dicts()
    of_log = CliRunner().invoke(cli, ["clicks", str(folder / "log.yml"), "-o", "json", "-q"])
    wanted = {row["system"]: row["value"] for row in json.loads(of_log.output)["offline"]}
    assert {row["system"]: row["value"] for row in numbers} == pytest.approx(wanted, abs=1e-12)


# -- cleaning ---------------------------------------------------------------------------

NOON = datetime(2026, 3, 1, 12)
EARLY = NOON - timedelta(seconds=1)
IMPRESSIONS = [
    {"request_id": "r1", "item_id": "a", "position": 1},
    {"request_id": "r1", "item_id": "b", "position": 2},
    {"request_id": "r1", "item_id": "c", "position": 3},
    {"request_id": "r2", "item_id": "a", "position": 1, "user": "u2"},
    {"request_id": "r2", "item_id": "b", "position": 2, "user": "u2"},
]
EVENTS = [
    {"request_id": "r1", "item_id": "b"},
    {"request_id": "r2", "item_id": "a", "user": "u2"},
]
"""A log of two requests with nothing wrong with it; cases add to it, or change it."""


def cleaned(
    cleaning: Mapping[str, Any],
    impressions: Sequence[Row] = (),
    events: Sequence[Row] = (),
    **options: Any,
) -> ClickResult:
    """The log with more impressions and events, cleaned."""
    impression_rows = [
        {"user": "u1", "at": NOON, "is_test": 0, "query": "q"} | row for row in IMPRESSIONS
    ]
    impression_rows += [
        {"user": "u1", "at": NOON, "is_test": 0, "query": "q"} | dict(row) for row in impressions
    ]
    defaults = {"user": "u1", "action": "click", "dwell": 30.0, "at": NOON + timedelta(minutes=1)}
    acted = [defaults | dict(row) for row in (*EVENTS, *events)]
    shared = {"user": "user", "time": "at"}
    clicks = {
        "impressions": {
            "data": pa.Table.from_pylist(impression_rows),
            "columns": {**shared, "query": "query"},
        },
        "events": {"data": pa.Table.from_pylist(acted), "columns": {**shared, "dwell": "dwell"}},
        "cleaning": cleaning,
        **options,
    }
    return evaluate_clicks(sm.Spec(clicks=clicks, metrics=["num_ret", "num_rel", "ctr"]))


def steps_of(result: ClickResult) -> dict[tuple[str, str], int]:
    return {(step.what, step.why): step.removed for step in result.steps if step.removed}


CASES: Mapping[str, tuple[Any, Any, Any, Any]] = {
    # what is cleaned: option, impressions, events, what is left out
    "a repeated event": (
        {"deduplicate": True},
        [],
        [{"request_id": "r1", "item_id": "b"}, {"request_id": "r1", "item_id": "c"}],
        {("click", "repeated"): 1},
    ),
    "a repeated impression": (
        {"deduplicate": True},
        [
            {"request_id": "r1", "item_id": "b", "position": 7},
            *({"request_id": "r3", "item_id": "a", "position": at} for at in (1, 2)),
        ],
        [],
        {("impressions", "repeated"): 2},
    ),
    "an event before the impression": (
        {},
        [],
        [
            {"request_id": "r1", "item_id": "a", "at": NOON - timedelta(seconds=1)},
            {"request_id": "r1", "item_id": "c", "at": NOON},
        ],
        {("click", "before the impression"): 1},
    ),
    "an event before the impression does not make the next one its copy": (
        {"deduplicate": True},
        [],
        [
            {"request_id": "r1", "item_id": "a", "at": NOON - timedelta(seconds=1)},
            {"request_id": "r1", "item_id": "a"},
        ],
        {("click", "before the impression"): 1},
    ),
    "an event after the window": (
        {"attribution_window": "30m"},
        [],
        [
            {"request_id": "r1", "item_id": "a", "at": NOON + timedelta(minutes=30, seconds=1)},
            {"request_id": "r1", "item_id": "c", "at": NOON + timedelta(minutes=30)},
        ],
        {("click", "after the window"): 1},
    ),
    "an event without an impression": (
        {},
        [],
        [{"request_id": "r2", "item_id": "c"}, {"request_id": "r9", "item_id": "a"}],
        {("click", "no impression"): 2},
    ),
    "a short stay": (
        {"min_dwell": 5},
        [],
        [
            {"request_id": "r1", "item_id": "a", "dwell": 4.9},
            {"request_id": "r1", "item_id": "c", "dwell": 5.0},
            {"request_id": "r1", "item_id": "c", "dwell": None, "action": "purchase"},
        ],
        {("click", "short stay"): 1},
    ),
    "two items at one position: the first stays": (
        {"same_position": "first"},
        [{"request_id": "r1", "item_id": "d", "position": 2, "at": NOON + timedelta(seconds=1)}],
        [{"request_id": "r1", "item_id": "d"}],
        {("impressions", "same position"): 1, ("click", "same position"): 1},
    ),
    "two items at one position: neither stays": (
        {"same_position": "drop"},
        [
            {"request_id": "r1", "item_id": "d", "position": 3},
            *({"request_id": "r3", "item_id": item, "position": 2} for item in "ab"),
        ],
        [],
        {("impressions", "same position"): 4},
    ),
    **{
        f"a repeated impression takes nobody's position: {which}": (
            {"same_position": which},
            [{"request_id": "r1", "item_id": "a", "position": 2, "at": EARLY}],
            [],
            {("impressions", "repeated"): 1},
        )
        for which in ("first", "drop")
    },
    "a bot": (
        {"max_events_per_user_hour": 3},
        [{"request_id": "r3", "item_id": "a", "position": 1, "user": "bot"}],
        [
            {"request_id": "r3", "item_id": "a", "user": "bot", "at": NOON + timedelta(minutes=i)}
            for i in range(4)
        ],
        {("impressions", "bot"): 1, ("click", "bot"): 4},
    ),
    "busy, in two hours": (
        {"max_events_per_user_hour": 3},
        [{"request_id": "r3", "item_id": "a", "position": 1, "user": "u3"}],
        [
            {"request_id": "r3", "item_id": "a", "user": "u3", "at": NOON + timedelta(minutes=i)}
            for i in (0, 20, 40, 60, 80, 100)
        ],
        {("click", "repeated"): 5},
    ),
    "test traffic": (
        {"test": "is_test = 1"},
        [{"request_id": "r3", "item_id": "a", "position": 1, "is_test": 1}],
        [{"request_id": "r3", "item_id": "a"}],
        {("impressions", "test traffic"): 1, ("click", "test traffic"): 1},
    ),
    "what nobody saw": (
        {"unseen": 0},
        [{"request_id": "r3", "item_id": "a", "position": 9}],
        [],
        {
            (
                "impressions",
                "below the last click",
            ): 2
        },  # c of r1, b of r2; r3 has no click
    ),
    "an impression without an item": (
        {},
        [{"request_id": "r1", "item_id": None, "position": 4}],
        [],
        {("impressions", "incomplete"): 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cleaning_leaves_out_what_it_says_and_nothing_else(case: str) -> None:
    cleaning, impressions, events, left_out = CASES[case]
    result = cleaned(cleaning, impressions, events)
    assert steps_of(result) == left_out
    for name, (logged, n_left) in result.rows.items():
        n_removed = sum(n for (kind, _), n in left_out.items() if kind == name)
        assert logged - n_left == n_removed
    assert result.rows["impressions"][0] == len(IMPRESSIONS) + len(impressions)
    assert {why for _, why in left_out} <= set(REASONS)


def test_the_report_has_all_that_was_logged() -> None:
    """Actions that nothing names, steps that took nothing, and one item twice at a position."""
    view = {"request_id": "r1", "item_id": "a", "action": "view"}
    again = {"request_id": "r1", "item_id": "a", "position": 1}
    named = {"test": "item_id = 'zz'", "max_events_per_user_hour": 99, "min_dwell": "1s"}
    named |= {"attribution_window": "9d", "unseen": 40, "deduplicate": True}
    result = cleaned(named, [again], [view, view, {**view, "action": None}])
    lines = [" ".join(line.split()) for line in result.cleaning().splitlines()]
    assert {"view not used -2 0", "NULL not used -1 0"} <= {*lines}
    assert result.rows["view"] == (2, 0)
    idle = [(step.what, step.why) for step in result.steps if not step.removed]
    assert idle == [
        *(
            ("impressions", why)
            for why in (
                "test traffic",
                "bot",
                "below the last click",
            )
        ),
        *(("click", why) for why in ("after the window", "short stay")),
    ]
    assert steps_of(result)["impressions", "repeated"] == 1
    assert "positions with two items" not in result.findings


@by_turns(0.5)
@pytest.mark.parametrize("has_queries", [True, False])
def test_a_session_is_no_request(has_queries: bool) -> None:
    """Each visit has three lists: the note names the column that tells them apart."""
    rows = [
        {"visit": f"v{v}", "list": f"v{v}-{n}", "row": f"{v}-{n}-{p}", "item": f"i{n}{p}"}
        | {"position": p, "clicked": int(p == n), "query": f"q{n}", "shop": "DE"}
        for v in range(20)
        for n in range(1, 4)
        for p in range(1, 5)
    ]
    columns = {"request": "visit", "item": "item", "position": "position", "clicked": "clicked"}
    columns |= {"query": "query"} if has_queries else {}
    log = {"log": {"data": pa.Table.from_pylist(rows), "columns": columns}}
    note = " ".join(sm.evaluate_clicks(sm.Spec(clicks=log, metrics=["ctr"])).notes)
    assert ("20 of 20 requests have several queries" in note) == has_queries
    assert "visit looks like a session; list has one item at each position: set" in note
    assert "clicks.log.columns.request: list" in note
    log["log"]["columns"] = columns | {"request": "list"}
    assert not sm.evaluate_clicks(sm.Spec(clicks=log, metrics=["ctr"])).notes


def test_what_is_wrong_with_a_log_is_said_in_its_own_words() -> None:
    """Events of visits instead of requests; impressions without a bucket, told by a dry run too."""
    impressions = [
        {"list": f"r{r}", "item": f"i{p}", "position": p, "bucket": "new" if r % 2 else None}
        for r in range(20)
        for p in (1, 2)
    ]
    events = [{"visit": f"v{r}", "item": "i1", "action": "click"} for r in range(20)]
    columns = {"item": "item"}
    log: dict[str, Any] = {
        "impressions": {
            "data": pa.Table.from_pylist(impressions),
            "columns": {**columns, "request": "list", "position": "position"},
        },
        "events": {
            "data": pa.Table.from_pylist(events),
            "columns": {**columns, "request": "visit", "action": "action"},
        },
    }
    stray = "20 of 20 events have a request that was not shown: visit .request in clicks.events"
    with pytest.raises(sm.InputError, match=stray):
        sm.evaluate_clicks(sm.Spec(clicks=log, metrics=["mrr"]))
    log["events"]["data"] = pa.Table.from_pylist(
        [{**e, "visit": "r" + e["visit"][1:]} for e in events]
    )
    assert not sm.evaluate_clicks(sm.Spec(clicks=log, metrics=["mrr"])).notes
    log["impressions"]["columns"]["system"] = "bucket"
    spec = sm.Spec(clicks=log, metrics=["mrr"])
    for verb in (sm.validate, sm.evaluate_clicks):
        with pytest.raises(
            sm.InputError, match=r"impressions: bucket \(system\) is NULL in 20 rows"
        ):
            verb(spec)


def test_a_table_of_all_events_is_read_three_times() -> None:
    """Each time by a condition; an arm has a blank at the end, and one has no user of a country."""
    rows = [
        {"list": f"r{u}", "who": f"u{u}", "item": item, "place": position, "what": "view"}
        | {"arm": "treat" if u % 2 else "control ", "country": "AT" if u % 4 == 1 else "DE"}
        for u in range(12)
        for position, item in enumerate("abc")
    ]
    clicks = [row | {"what": "click"} for row in rows if row["place"] == len(row["list"]) % 2]
    searches = [row | {"list": f"z{row['list']}", "what": "none"} for row in rows[::12]]
    columns = {"request": "list", "system": "arm", "user": "who"}

    def source(condition: str, extra_rows: Sequence[Row] = (), **names: Any) -> Row:
        data = pa.Table.from_pylist([*rows, *clicks, *searches, *extra_rows])
        return {"data": data, "where": f"what {condition}", "columns": names}

    places = {"item": "item", "position": "place", "segments": ["country"]}
    log: dict[str, Any] = {
        "impressions": source("= 'view'", **columns, **places) | {"first_position": 0},
        "events": source("not in ('view', 'none')", request="list", item="item", action="what"),
        "requests": source("= 'none'", **columns),
    }
    spec = sm.Spec(clicks=log, metrics=["mrr", "ctr", "zero_result_rate"], by=["country"])
    result = evaluate_clicks(spec)
    assert result.findings == {"lists that start at position 0": 12}
    rates = {
        (row["system"], row["segment_value"]): row["value"]
        for row in online(result)
        if row["metric"] == "zero_result_rate"
    }
    assert rates == {
        ("control ", "all"): 3 / 9,
        ("control ", "DE"): 3 / 9,
        **{("treat", value): 0 for value in ("all", "AT", "DE")},
    }
    tables = [block.splitlines() for block in str(result).split("\n\n") if block[:7] == "segment"]
    for table in tables:  # of the log itself and of its lists in one order
        assert [line.split()[0] for line in table[1:]] == [*["all"] * 2, "country=AT"] + [
            "country=DE"
        ] * 2
    assert "country=AT  treat" in str(result)
    assert len(tables) == 2
    comparison = sm.compare(spec, metrics="mrr, ctr", by="country", paired=False, cluster="who")
    lacks = [note for note in comparison.notes if note.startswith("not compared")]
    assert lacks == ["not compared: country=AT, where 'control ' has no request with a value"]
    assert any(note.startswith("the baseline is 'control ', as") for note in comparison.notes)
    with pytest.raises(
        sm.SpecError, match=r"cluster: unknown segment 'user'.* known: country, query_text, who "
    ):
        sm.compare(spec, metrics="ctr", cluster="user")
    # a user has another name beside searches without results
    renamed = source("= 'none'", request="list", system="arm", user="person")
    renamed["data"] = renamed["data"].rename_columns(
        ["person" if name == "who" else name for name in renamed["data"].column_names]
    )
    same = sm.compare(
        sm.Spec(clicks=log | {"requests": renamed}, metrics=spec.online), cluster="who"
    )
    wanted = sm.compare(sm.Spec(clicks=log, metrics=spec.online), cluster="who")
    assert same.to_dicts() == wanted.to_dicts()
    lacking = renamed | {"data": renamed["data"].drop_columns("country")}
    message = (
        r"requests: unknown column 'country'; .*\(used as segment country of the impressions\)"
    )
    with pytest.raises(sm.InputError, match=message):
        evaluate_clicks(sm.Spec(clicks=log | {"requests": lacking}, metrics=["ctr"]))
    loud = [row | {"what": action} for row in clicks[:3] for action in ("CLICK", "Click")]
    log["events"] = source(
        "not in ('view', 'none')", loud, request="list", item="item", action="what"
    )
    with pytest.raises(sm.InputError, match="6 events have the action 'CLICK' or 'Click', which"):
        evaluate_clicks(sm.Spec(clicks=log, metrics=["ctr"]))


def test_progress_is_told() -> None:
    steps: list[tuple[int, ...]] = []
    table = pa.Table.from_pylist([{"request_id": "r", "item_id": "a", "position": 1, "clicked": 1}])
    log = {"log": {"data": table, "columns": {"clicked": "clicked"}}}
    spec = sm.Spec(clicks=log, metrics=["ctr", "mrr"])
    evaluate_clicks(spec, progress=lambda *step: steps.append(step))
    assert steps == [(step, 8, 0) for step in range(1, 9)]


def test_nothing_is_left_out_unasked() -> None:
    twice = {"request_id": "r1", "item_id": "b", "position": 2}
    result = cleaned({"deduplicate": False}, [], [EVENTS[0]])
    assert steps_of(result) == {}
    assert result.rows["click"] == (3, 3)
    assert steps_of(cleaned({"deduplicate": False}, [twice])) == {("impressions", "repeated"): 1}
    row = {"request_id": "r", "item_id": "a", "position": 1, "clicked": 1, "bought": 1}
    columns = {"actions": {"click": "clicked", "purchase": "bought"}}
    log = {"data": pa.Table.from_pylist([row, row]), "columns": columns}
    spec = sm.Spec(clicks={"log": log, "cleaning": {"deduplicate": False}}, metrics=["ctr"])
    rows = evaluate_clicks(spec).rows
    assert (rows["click"], rows["purchase"]) == ((2, 2), (2, 2))


def test_a_request_has_the_first_of_its_texts() -> None:
    """In the order of the alphabet, where its rows have several; z has no click."""
    rows = [("r3", "a", 1, "p"), ("r4", "a", 1, "z"), ("r4", "x", 2, "p")]
    names = ("request_id", "item_id", "position", "query")
    impressions = [dict(zip(names, row, strict=True)) for row in rows]
    labels = {"pool": "query_item", "rate": "ctr"}
    result = cleaned({}, impressions, [{"request_id": "r3", "item_id": "a"}], labels=labels)
    spec = result.spec.having(metrics=["num_rel(rel=0.1)"])
    by_query = {row["query_id"]: row for row in rows_of(evaluate_clicks(spec))}
    assert [value for name, value in by_query["r4"].items() if name.startswith("num_rel")] == [1]


NONE = {"grades": {"click": 0, "purchase": 3}}
"""A click makes no label by this."""


@by_turns(0.5)
def test_the_highest_grade_of_a_request_wins() -> None:
    bought = {"request_id": "r1", "item_id": "b", "action": "purchase"}
    result = cleaned({}, [], [bought], labels={"grades": {"click": 1, "purchase": 3}})
    assert {row["query_id"]: row["num_rel"] for row in rows_of(result)} == {"r1": 1, "r2": 1}
    assert [row["query_id"] for row in rows_of(cleaned({}, [], [bought], labels=NONE))] == ["r1"]
    spec = result.spec.having(metrics=["dcg@3"])
    dcgs = {row["query_id"]: row["dcg_at_3"] for row in rows_of(evaluate_clicks(spec))}
    assert dcgs == {"r1": pytest.approx(7 / math.log2(3)), "r2": pytest.approx(1)}


# -- simulated logs ---------------------------------------------------------------------

PLANTED = {
    "bot": "bot",
    "duplicate": "repeated",
    "early": "before the impression",
    "hurried": "short stay",
    "late": "after the window",
    "orphan": "no impression",
    "test": "test traffic",
}
"""What `simulate` plants -> why it is left out."""

SIMULATED = {
    "impressions": {
        "query": "query",
        "system": "system",
        "user": "user_id",
        "time": "shown_at",
        "segments": ["country"],
    },
    "events": {"dwell": "dwell", "user": "user_id", "time": "happened_at"},
    "requests": {
        "query": "query",
        "system": "system",
        "user": "user_id",
        "time": "requested_at",
        "results": "n_results",
        "segments": ["country"],
    },
}
"""The columns of a simulated log."""


@by_turns(0.7)
@pytest.mark.parametrize("model", first(1, ["position", "cascade"]))
def test_what_was_planted_is_left_out_exactly(tmp_path: Path, model: str) -> None:
    """And the rest gives the labels, and the numbers, of plain Python."""
    simulated = simulate(tmp_path, requests=1_500, model=model, seed=5)
    tables = {name: simulated.files[name] for name in SIMULATED}
    clicks: dict[str, Any] = {
        name: {"file": str(tables[name]), "columns": columns} for name, columns in SIMULATED.items()
    }
    clicks["cleaning"] = {
        "min_dwell": 5,
        "attribution_window": "30m",
        "max_events_per_user_hour": 200,
        "test": "is_test = 1",
    }
    clicks["labels"] = {"grades": GRADES}
    metrics = ["ndcg@5", "ctr@3", "abandonment", "purchases", "time_to_first_click"]
    result = evaluate_clicks(sm.Spec(clicks=clicks, metrics=metrics))
    left_out = Counter[str]()
    for step in result.steps:
        left_out[step.why] += step.removed if step.what != "impressions" else 0
    assert left_out == {PLANTED[reason]: n for reason, n in simulated.planted.items()}
    read = {name: pq.read_table(path).to_pylist() for name, path in simulated.files.items()}
    dirty = {row["event_id"] for row in read["planted"]}
    acts = [row for row in read["events"] if row["event_id"] not in dirty]
    bot_events = bots(read["planted"])
    busy = {row["user_id"] for row in read["events"] if row["event_id"] in bot_events}
    impressions = [r for r in read["impressions"] if not r["is_test"] and r["user_id"] not in busy]
    searches = [r for r in read["requests"] if not r["is_test"] and r["user_id"] not in busy]
    assert_equal(result, impressions, acts, searches)


def bots(planted: Sequence[Row]) -> set[str]:
    return {row["event_id"] for row in planted if row["reason"] == "bot"}


def assert_equal(
    result: ClickResult, impressions: Sequence[Row], acts: Sequence[Row], searches: Sequence[Row]
) -> None:
    """The metrics of clean impressions and events, computed in plain Python."""
    lists: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in impressions:
        lists[row["request_id"]][row["item_id"]] = row
    grades: dict[str, dict[str, int]] = defaultdict(dict)
    for act in acts:
        request_grades = grades[act["request_id"]]
        request_grades[act["item_id"]] = max(
            GRADES[act["action"]], request_grades.get(act["item_id"], 0)
        )
    per_query = {row["query_id"]: row["ndcg_at_5"] for row in rows_of(result)}
    assert set(per_query) == set(grades)
    for request, request_grades in grades.items():
        ranked = sorted(lists[request], key=lambda item: lists[request][item]["position"])
        wanted = dcg([request_grades.get(item, 0) for item in ranked[:5]])
        wanted /= dcg(sorted(request_grades.values(), reverse=True)[:5])
        assert per_query[request] == pytest.approx(wanted, abs=1e-12)
    clicked = {(a["request_id"], a["item_id"]): a for a in acts if a["action"] == "click"}
    for row in online(result):
        system_rows = [r for r in impressions if r["system"] == row["system"]]
        n_searches = sum(r["system"] == row["system"] for r in searches)
        wanted = by_hand(row["metric"], system_rows, clicked, acts) * (
            len({r["request_id"] for r in system_rows}) / n_searches
            if row["metric"] == "purchases"
            else 1
        )
        assert row["value"] == pytest.approx(wanted, rel=1e-12), row


def by_hand(
    metric: str,
    impressions: Sequence[Row],
    clicked: Mapping[tuple[str, str], Row],
    acts: Sequence[Row],
) -> float:
    """An online metric of one system, over its requests with results."""
    requests = {row["request_id"] for row in impressions}
    hits = [row for row in impressions if (row["request_id"], row["item_id"]) in clicked]
    if metric == "ctr":
        return sum(r["position"] <= 3 for r in hits) / sum(r["position"] <= 3 for r in impressions)
    if metric == "abandonment":
        return 1 - len({row["request_id"] for row in hits}) / len(requests)
    first: dict[str, float] = {}
    for row in hits:
        act = clicked[row["request_id"], row["item_id"]]
        after = (act["happened_at"] - row["shown_at"]).total_seconds()
        first[row["request_id"]] = min(after, first.get(row["request_id"], math.inf))
    if metric == "time_to_first_click":
        return math.fsum(first.values()) / len(first)
    bought = sum(a["action"] == "purchase" and a["request_id"] in requests for a in acts)
    return bought / len(requests)


@pytest.fixture(scope="module")
def small_log(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A simulated log in memory, with all that can be cleaned."""
    simulated = simulate(tmp_path_factory.mktemp("log"), requests=300, seed=9)
    clicks: dict[str, Any] = {
        name: {"data": pq.read_table(simulated.files[name]), "columns": columns}
        for name, columns in SIMULATED.items()
    }
    cleaning = {"min_dwell": 5, "attribution_window": "30m", "max_events_per_user_hour": 200}
    clicks["cleaning"] = {**cleaning, "test": "is_test = 1", "unseen": 4, "same_position": "drop"}
    return {**clicks, "daily": True}


LOG_METRICS = [
    "ndcg@5",
    "ctr@3",
    "abandonment",
    "zero_result_rate",
    "time_to_first_click",
    "purchases",
]


LABELLED: Mapping[str, Any] = {
    "of a request": {"grades": GRADES},
    "of a query": {"pool": "query_item", "rate": "coec", "prior": 2, "quantiles": [0.5, 0.9]},
}


@pytest.fixture(scope="module")
def here_by_labels() -> dict[str, ClickResult]:
    """What DuckDB says of each kind of labels, once for all engines."""
    return {}


@by_turns(1.1)
@pytest.mark.parametrize("engine", engines(STARTED, now=["duckdb", "sqlite"]), indirect=True)
@pytest.mark.parametrize("labels", first(1, LABELLED))
def test_a_log_is_the_same_on_every_engine(
    engine: Any,
    small_log: dict[str, Any],
    here_by_labels: dict[str, ClickResult],
    labels: str,
) -> None:
    log = {**small_log, "labels": LABELLED[labels]}
    spec = sm.Spec(name="log", clicks=log, metrics=LOG_METRICS, by=["country"])
    if not (dialect_named(engine.dialect).keep or engine.KEEPS):
        with pytest.raises(sm.SpecError, match="has no temporary tables"):
            evaluate_clicks(spec, engine)
        return
    if labels not in here_by_labels:
        here_by_labels[labels] = evaluate_clicks(spec)
    expected, actual = here_by_labels[labels], evaluate_clicks(spec, engine)
    assert (actual.steps, actual.rows, actual.findings) == (
        expected.steps,
        expected.rows,
        expected.findings,
    )
    for rows, wanted in ((online(actual), online(expected)), (rows_of(actual), rows_of(expected))):
        assert len(rows) == len(wanted) > 100
        for row, other in zip(rows, wanted, strict=True):
            assert row == {name: near(value) for name, value in other.items()}


def near(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


# -- specs ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clicks", "problem"),
    [
        ({}, "give impressions and events, or a log, or format: ubi"),
        ({"log": {"file": "x.csv"}, "events": {"file": "x.csv"}}, "given events, log"),
        ({"log": {"file": "x.csv"}, "cleaning": {"min_dwel": 5}}, "unknown key 'min_dwel'"),
        ({"log": {"file": "x.csv"}, "cleaning": {"min_dwell": "soon"}}, "a duration like 30m"),
        (
            {
                "log": {"file": "x.csv", "columns": {"query": "q"}},
                "labels": {"pool": "query_item", "cuts": [0.2, 0.1]},
            },
            "must rise",
        ),
        ({"format": "ubi2", "events": {"file": "x"}}, "must be"),
        (
            {"log": {"file": "x"}, "cleaning": {"min_dwell": 5}},
            "min_dwell needs log.columns.dwell",
        ),
        (
            {
                "impressions": {"file": "x", "columns": {"time": "t"}},
                "events": {"file": "x"},
                "cleaning": {"attribution_window": "1h", "max_events_per_user_hour": 9},
            },
            "attribution_window needs events.columns.time; max_events_per_user_hour needs "
            "events.columns.user and events.columns.time",
        ),
    ],
)
def test_wrong_logs_are_refused(clicks: Row, problem: str) -> None:
    with pytest.raises(sm.SpecError, match=problem) as caught:
        sm.Spec(clicks=clicks, metrics=["ctr"])
    assert "ctr" not in str(caught.value)


def test_clicks_and_rankings_are_two_ways() -> None:
    with pytest.raises(sm.SpecError, match="clicks replace rankings and labels"):
        sm.Spec(clicks={"log": {"file": "x.csv"}}, rankings={"file": "y"}, metrics=["ctr"])


def test_columns_that_are_not_there_are_told() -> None:
    row = {"request_id": "r", "item_id": "a", "position": 1, "click": 1}
    log = {"data": pa.Table.from_pylist([row]), "columns": {"clicked": "clik", "user": "user_id"}}
    spec = sm.Spec(clicks={"log": log}, metrics=["ctr"])
    with pytest.raises(sm.InputError) as caught:
        evaluate_clicks(spec)
    message = str(caught.value)
    assert "log: unknown column 'clik'; did you mean 'click'?" in message
    assert "(used as user)" in message


@by_turns(1)
def test_specs_of_logs_are_validated_and_verified(folder: Path) -> None:
    for command, text in (("validate", "fits its tables: 2 metrics"), ("verify", "ndcg@5")):
        invocation = CliRunner().invoke(cli, [command, str(folder / "log.yml")])
        assert invocation.exit_code == 0, invocation.output
        assert text in invocation.output
    compiled = CliRunner().invoke(cli, ["compile", str(folder / "log.yml")]).output
    assert compiled == sm.compile(sm.Spec.read(folder / "log.yml"))
    assert "count(distinct item_id)" in compiled
    assert "bit_count" not in compiled, "what is only for speed is in what runs"
    with duckdb.connect() as connection:
        answers = [
            connection.execute(statement).fetchall()
            for statement in connection.extract_statements(compiled)
        ]
    result = evaluate_clicks(sm.Spec.read(folder / "log.yml"))
    assert result.offline is not None
    ndcg = {row["system"]: row["value"] for row in result.offline.to_dicts()}
    assert {row[2]: row[7] for row in answers[-1]} == pytest.approx(ndcg, rel=1e-12)


@by_turns(0.6)
def test_a_run_writes_both_families(folder: Path, tmp_path: Path) -> None:
    output = "output: {relation: facts, per_query: requests}"
    (folder / "run.yml").write_text(f"{SPEC}{output}\n")
    for _ in range(2):
        file = str(tmp_path / "metrics.duckdb")
        result = CliRunner().invoke(cli, ["run", str(folder / "run.yml"), "--db", file])
        assert result.exit_code == 0, result.output
    with duckdb.connect(file) as connection:
        rows = connection.execute("select metric, k, count(*) from facts group by all").fetchall()
        of_requests = "select query_id, query_text, country, ndcg_at_5 from requests"
        kept = connection.execute(f"{of_requests} order by all").fetchall()
        sql = f"select distinct request_id, query, country from '{folder}/impressions.parquet'"
        logged = {row[0]: row[1:] for row in connection.execute(sql).fetchall()}
    assert sorted(rows) == [("ctr", 3, 2), ("ndcg", 5, 2)]
    assert len(kept) > 100
    assert all(logged[query_id] == tuple(facts) for query_id, *facts, _ in kept)
    evaluation = sm.evaluate_clicks(sm.Spec.read(folder / "log.yml")).offline
    fetched = evaluation.per_query().select(["query_id", "query_text", "country", "ndcg_at_5"])
    assert sorted(tuple(row.values()) for row in fetched.to_pylist()) == kept


def test_by_names_segments_of_the_log() -> None:
    log = {"log": {"file": "x", "columns": {"segments": ["order", "country"]}}}
    with pytest.raises(sm.SpecError, match="by: unknown segment 'county'; did you mean 'country'"):
        sm.Spec(clicks=log, metrics=["ctr"], by=["county"])
    row = {"request_id": "r", "item_id": "a", "position": 1, "clicked": 1}
    places = {"r": "o'x", "s": "o'x", "t": "de"}
    data = pa.Table.from_pylist(
        [row | {"request_id": r, "order": None, "country": at} for r, at in places.items()]
    )
    columns = {"clicked": "clicked", "segments": ["order", "country"]}
    spec = sm.Spec(
        clicks={"log": {"data": data, "columns": columns}},
        metrics=["ctr", "mrr"],
        by=["order", "country"],
    )
    result = evaluate_clicks(spec)
    wanted = {
        ("all", "all"): 3,
        ("country", "de"): 1,
        ("country", "o'x"): 2,
        ("order", "(unknown)"): 3,
    }
    counts = [
        ((row["segment_name"], row["segment_value"]), row["n_queries"]) for row in online(result)
    ]
    assert counts == [*wanted.items()]
    assert result.offline is not None
    segments = {(row["segment_name"], row["segment_value"]) for row in result.offline.to_dicts()}
    assert segments == set(wanted)
    # a request is in one segment, whatever is asked of it
    *rows, last = data.to_pylist()
    mixed = pa.Table.from_pylist([*rows, last, {**last, "item_id": "b", "country": None}])
    columns = columns | {"system": "request_id"}
    for metrics in (["ctr"], ["ctr", "mrr"]):
        spec = sm.Spec(
            clicks={"log": {"data": mixed, "columns": columns}}, metrics=metrics, by="country"
        )
        verbs = [sm.evaluate_clicks, sm.report, sm.diagnose]
        for verb in (*verbs, lambda spec: sm.compare(spec, by="country", paired=False)):
            with pytest.raises(sm.InputError, match="whose rows differ in country: 1\n"):
                verb(spec)
    assert evaluate_clicks(spec.having(metrics=()), check=False).online().num_rows


@pytest.mark.parametrize("text", ["abandonment@3", "ctr@0", "ctr@x"])
def test_online_metrics_that_are_none(text: str) -> None:
    with pytest.raises(sm.SpecError, match="online metric"):
        sm.Spec(clicks={"log": {"file": "x.csv"}}, metrics=["ndcg@3", text])


def test_what_an_online_metric_needs_is_told() -> None:
    table = pa.Table.from_pylist([{"request_id": "r", "item_id": "a", "position": 1, "clicked": 1}])
    log = {"log": {"data": table, "columns": {"clicked": "clicked"}}}
    needs = "zero_result_rate needs the requests.*; time_to_first_click needs times"
    with pytest.raises(sm.SpecError, match=needs):
        evaluate_clicks(sm.Spec(clicks=log, metrics=["zero_result_rate", "time_to_first_click"]))
    assert online(evaluate_clicks(sm.Spec(clicks=log, metrics=["ctr"])))[0]["value"] == 1


@pytest.mark.parametrize("first_position", [0, 1, "each"])
def test_positions_start_at_1_whatever_the_log_says(first_position: Any) -> None:
    first = first_position if first_position != "each" else 0
    rows = [
        {"request_id": f"r{start}", "item_id": str(i), "position": start + i, "clicked": i == 1}
        for start in ((first,) if first_position != "each" else (0, 1))
        for i in range(3)
    ]
    data = pa.Table.from_pylist([row | {"clicked": int(row["clicked"])} for row in rows])
    log = {"data": data, "first_position": first_position, "columns": {"clicked": "clicked"}}
    result = evaluate_clicks(sm.Spec(clicks={"log": log}, metrics=["first_click_rank", "mrr"]))
    assert online(result)[0]["value"] == 2
    assert {row["mrr"] for row in rows_of(result)} == {0.5}
    starts = {row["position"] for row in rows if row["item_id"] == "0"}
    assert result.findings == {f"lists that start at position {start}": 1 for start in starts}


def test_every_online_metric_says_what_it_is() -> None:
    assert all(metric.title and metric.name == name for name, metric in ONLINE.items())


def test_rows_that_differ_are_told_and_a_copy_below_many_items_is_found() -> None:
    rows = [
        {
            "request_id": name,
            "item_id": str(position % n_items),
            "position": position,
            "country": country,
        }
        for name, n_items, countries in (("r", 99, (None, "us", "fr")), ("s", 79, ("us",)))
        for position in range(1, 81)
        for country in [countries[position % len(countries)]]
    ]
    data = pa.Table.from_pylist([row | {"clicked": int(row["position"] == 2)} for row in rows])
    log = {"data": data, "columns": {"clicked": "clicked", "segments": ["country"]}}
    spec = sm.Spec(clicks={"log": log}, metrics=["ctr"], by=["country"])
    with pytest.raises(sm.InputError, match="requests whose rows differ in country: 1\n"):
        evaluate_clicks(spec)
    result = evaluate_clicks(spec, check=False)
    denominators = {row["segment_value"]: row["denominator"] for row in online(result)}
    assert denominators == {"all": 159, "fr": 80, "us": 79}
    assert [(step.why, step.removed) for step in result.steps] == [("repeated", 1)]
