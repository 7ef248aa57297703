"""Pools in turns: by depth and move-to-front, beside plain Python that reads their definitions."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command import sqlmetrics
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.annotation.pool import Queue
from sqlmetrics.annotation.sheet import Sheet, unjudged_sheet
from sqlmetrics.engines.database import Database, connect

Row = dict[str, Any]
DAYS = (date(2026, 1, 1), date(2026, 1, 2))
SHARED = {"it's": 2.0, "ü": 0.4}
QUEUES = (
    Queue("depth"),
    Queue("depth", limit=9),
    Queue("depth", limit=2),
    Queue("depth", limit=11, per_query=3, shares=SHARED),
    Queue("move-to-front", limit=8),
    Queue("move-to-front", rel=2.0, per_query=2),
    Queue("move-to-front", limit=12, shares=SHARED, rel=0.5),
    Queue("value", per_query=2),
)


def world(seed: int, *, days: bool) -> tuple[list[Row], list[Row]]:
    """Three systems, one of which alone answers a query; odd ids; some items have labels."""
    chance = random.Random(seed)
    rows, labels = [], []
    for system in ("bm25", *SHARED):
        for query in ["q 1", "007", "q|2", *(["alone"] if system == "ü" else [])]:
            for item in chance.sample(range(9), 6):
                day = {"ds": chance.choice(DAYS)} if days else {}
                row = {"system": system, "query_id": query, "item_id": f"i'{item}"}
                rows.append(day | row | {"score": chance.random()})
    for query in ("q 1", "007", "nobody's"):
        for item in chance.sample(range(9), 4):
            day = {"ds": DAYS[0]} if days else {}
            label = {"query_id": query, "item_id": f"i'{item}", "grade": chance.randrange(4)}
            labels.append(day | label)
    return rows, labels


def spec_of(rows: list[Row], labels: list[Row], **options: Any) -> sm.Spec:
    days = {"date": "ds"} if "ds" in rows[0] else {}
    columns = {"score": "score", "system": "system", **days}
    return sm.Spec(
        rankings={"data": pa.Table.from_pylist(rows), "columns": columns},
        labels={"data": pa.Table.from_pylist(labels), "columns": days},
        metrics=["ndcg@2"],
        **options,
    )


def by_hand(rows: list[Row], labels: list[Row], k: int, queue: Queue) -> list[tuple[Any, ...]]:
    """Day, query, item and turn of each row, as the definition says."""
    grades = {(row.get("ds"), row["query_id"], row["item_id"]): row["grade"] for row in labels}
    lists: dict[Any, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (-row["score"], row["item_id"])):
        lists.setdefault((row["system"], row.get("ds"), row["query_id"]), []).append(row)
    turns: dict[Any, float] = {}
    for (system, day, query), items in lists.items():
        misses = 0
        for rank, row in enumerate(items, start=1):
            key = (day, query, row["item_id"])
            misses += not grades.get(key, -1) >= (1 if queue.rel is None else queue.rel)
            turn = (rank if queue.order == "depth" else misses) / queue.shares.get(system, 1)
            if rank <= k and key not in grades:
                turns[key] = min(turn, turns.get(key, turn))
    pools: dict[Any, list[Any]] = {}
    for key, turn in turns.items():
        texts = [str(text) for text in ("1", *key) if text is not None]
        lot = hashlib.md5("|".join(texts).encode()).hexdigest()
        pools.setdefault(key[:2], []).append((turn, lot, key))
    queued = []
    for pool in pools.values():
        for position, (turn, lot, key) in enumerate(sorted(pool)[: queue.per_query], start=1):
            queued.append((turn, position, lot, key))
    return [
        (day and str(day), *key, turn) for turn, _, _, (day, *key) in sorted(queued)[: queue.limit]
    ]


def turns_of(sheet: Sheet) -> list[tuple[Any, ...]]:
    names = ("metric_date", "query_id", "item_id", "turn")
    positions = [sheet.names.index(name) if name in sheet.names else None for name in names]
    rows = [[None if n is None else row[n] for n in positions] for row in sheet.rows]
    return [(day and str(day), *rest) for day, *rest in rows]


@by_turns(0.5)
@pytest.mark.parametrize(
    "name", engines(["duckdb", "sqlite", "postgres", "chdb"], now=["duckdb", "sqlite"])
)
@pytest.mark.parametrize("days", [False, True])
def test_rows_come_as_the_definition_says(name: str, days: bool, servers: Servers) -> None:
    rows, labels = world(4 + days, days=days)
    spec = spec_of(rows, labels)
    with servers.open(name) as engine:
        database = Database(engine)
        for queue in QUEUES[: None if name == "duckdb" else -1]:
            sheet = unjudged_sheet(spec, database, 4, queue=queue)
            if not queue.has_turns:
                continue
            wanted = by_hand(rows, labels, 4, queue)
            assert [row[:3] for row in turns_of(sheet)] == [row[:3] for row in wanted]
            assert [row[3] for row in turns_of(sheet)] == pytest.approx([row[3] for row in wanted])
            depth = int(sheet.notes[0].split()[-1]) if "rank" in sheet.notes[0] else 0
            graded = {row[:3] for row in wanted}
            graded |= {
                (row.get("ds") and str(row["ds"]), row["query_id"], row["item_id"])
                for row in labels
            }
            top = {row[:3] for row in by_hand(rows, labels, max(depth, 1), Queue("depth"))}
            if depth and not queue.shares:
                assert top <= graded


@by_turns(0.2)
def test_a_query_has_so_many_rows_of_any_order() -> None:
    rows, labels = world(7, days=False)
    with connect() as engine:
        valued = unjudged_sheet(spec_of(rows, labels), engine, 5).rows
        few = unjudged_sheet(spec_of(rows, labels), engine, 5, queue=Queue(per_query=2)).rows
    kept: dict[str, int] = {}
    wanted = []
    for row in valued:
        kept[row[0]] = kept.get(row[0], 0) + 1
        wanted += [row] * (kept[row[0]] <= 2)
    assert list(few) == wanted


def turns_after(labels: Mapping[str, int], **options: Any) -> list[tuple[str, float]]:
    """Items of a query with the lists a b c d and x y z, and their turns."""
    rows = [
        {"system": system, "query_id": "q", "item_id": item, "score": -float(rank)}
        for system, items in (("left", "abcd"), ("right", "xyz"))
        for rank, item in enumerate(items)
    ]
    graded = [{"query_id": "q", "item_id": item, "grade": g} for item, g in labels.items()]
    spec = spec_of(rows, graded or [{"query_id": "q", "item_id": "-", "grade": 0}])
    with connect() as engine:
        sheet = unjudged_sheet(spec, engine, 10, queue=Queue("move-to-front", **options))
    return sorted(row[2:] for row in turns_of(sheet))


@by_turns(0.2)
def test_a_list_stays_in_front_while_its_items_are_good() -> None:
    assert turns_after({}) == [
        (item, turn) for item, turn in zip("abcdxyz", [1, 2, 3, 4, 1, 2, 3], strict=True)
    ]
    # a is good, x is not: b is as near as a was, and y a turn away
    assert turns_after({"a": 2, "x": 0}) == [("b", 1), ("c", 2), ("d", 3), ("y", 2), ("z", 3)]
    assert turns_after({"a": 1, "b": 1, "x": 0})[0] == ("c", 1)
    # by a relevant grade of 2, a is not; and left gives two items a turn
    assert turns_after({"a": 1}, rel=2.0)[0] == ("b", 2)
    assert turns_after({"a": 1}, shares={"left": 2.0})[:3] == [("b", 0.5), ("c", 1.0), ("d", 1.5)]


RUNS = {"bm25": "q1 q1 q2", "k1=0.9": "q1 q2 q2"}


@pytest.fixture
def track(tmp_path: Path) -> Path:
    for name, queries in RUNS.items():
        lines = [
            f"{query} Q0 d{number} 1 {9 - number} run"
            for number, query in enumerate(queries.split())
        ]
        (tmp_path / f"{name}.run").write_text("\n".join(lines) + "\n")
    (tmp_path / "sample.csv").write_text("query_id,stratum_size,sample_size\nq1,1,1\n")
    return tmp_path


@by_turns(2)
def test_the_command_and_what_it_refuses(track: Path) -> None:
    runs = [f"{name}.run" for name in RUNS]
    line = ("sheet", *runs, "--order", "depth", "--limit", "2", "--share", "k1=0.9=2")
    completed = sqlmetrics(*line, folder=track)
    assert [row.split(",")[7] for row in completed.stdout.splitlines()] == ['"turn"', "0.5", "0.5"]
    assert "the sheet has not even the first item of each list of a share of 1" in completed.stderr
    completed = sqlmetrics("sheet", *runs, "--order", "depth", "--limit", "50", folder=track)
    assert "each list is labelled or in the sheet down to rank 10" in completed.stderr
    assert "the sheet has 4 of 50 rows: there are no more within -k 10" in completed.stderr
    wrong = {
        "--share bm25=2": "--share says how many items a system gives a turn; add --order depth",
        "--order depth --share bm26=2": "unknown system 'bm26'; did you mean 'bm25'?",
        "--order depth --share bm25": "--share takes SYSTEM=X like bm25=2, given 'bm25'",
        "--order depth --share bm25=0": "the share of 'bm25' must be a number above 0, given 0",
        "--order depth --rel 2": "--rel is of --order move-to-front",
        "--per-query 0": "per_query must be 1 or more, a whole number, given 0",
        "--order depth --per-query 2 --sample sample.csv": "--per-query and --order depth: the",
    }
    for words, message in wrong.items():
        assert message in sqlmetrics("sheet", *runs, *words.split(), folder=track, expect=2).stderr
    (track / "one.csv").write_text("query_id,item_id,score\nq1,d1,1\n")
    line = ("sheet", "one.csv", "--order", "depth", "--share", "x=2")
    completed = sqlmetrics(*line, folder=track, expect=2)
    assert "--share is of systems, and the rankings have none" in completed.stderr
