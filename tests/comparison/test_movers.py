"""The queries that moved most: chosen in the warehouse, and chosen again in plain Python."""

from __future__ import annotations

import json
from math import log2, sqrt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from compared_tables import near
from engines.starting import Servers
from marked import by_turns, engines, long

import sqlmetrics as sm
from sqlmetrics.engines.database import Database
from sqlmetrics.stats import student

N = 40
DAYS = ("2026-01-01", "2026-01-02")
ITEMS = pa.Table.from_pylist([{"item_id": f"i{j}", "title": f"Schuh {j} ü"} for j in range(15)])
QUERIES = pa.Table.from_pylist(
    [{"query_id": f"q{i}", "text": f"shoe {i}", "traffic": float(1 + i % 7)} for i in range(N)]
)
OTHER_ENGINES = ["sqlite", "postgres", "chdb", "spark"]


def world(*, dated: bool) -> tuple[pa.Table, pa.Table]:
    """Two systems of which the new one knows a little of the grades; on days that vary."""
    chance = np.random.default_rng(3)
    rankings, labels = [], []
    for i in range(N):
        grades = {f"i{j}": float(chance.integers(0, 4)) for j in range(0, 15, 2)}
        labels += [{"query_id": f"q{i}", "item_id": k, "grade": g} for k, g in grades.items()]
        for day in DAYS if dated else DAYS[:1]:
            for system, knows in (("old", 0.0), ("new", 0.2)):
                for j in range(14):
                    score = round(float(chance.random() + knows * grades.get(f"i{j}", 0)), 6)
                    row = {"query_id": f"q{i}", "item_id": f"i{j}", "system": system}
                    rankings.append({**row, "score": score, **({"ds": day} if dated else {})})
    return pa.Table.from_pylist(rankings), pa.Table.from_pylist(labels)


def compared(*, dated: bool, count: int | str = 6, **overrides: Any) -> sm.Comparison:
    rankings, labels = world(dated=dated)
    options = {
        "baseline": "old",
        "queries": QUERIES,
        "items": ITEMS,
        "weight": "traffic",
        **overrides,
    }
    if dated:
        options["date"] = "ds"
    return sm.compare(rankings, labels, ["ndcg@5"], movers=count, **options)


def lists_of(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], list[str]]:
    lists: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        lists.setdefault((row["query_id"], row.get("ds"), row["system"]), []).append(row)
    return {
        key: [item["item_id"] for item in sorted(items, key=lambda item: -item["score"])]
        for key, items in lists.items()
    }


def dcg(grades: list[float]) -> float:
    return sum((2**grade - 1) / log2(position + 2) for position, grade in enumerate(grades[:5]))


def by_hand(*, dated: bool) -> list[tuple[str, float, float, float, bool]]:
    """Query, difference, shrunk difference, traffic and whether it could be noise, in order."""
    rankings, labels = (table.to_pylist() for table in world(dated=dated))
    lists = lists_of(rankings)
    grades: dict[str, dict[str, float]] = {}
    for row in labels:
        grades.setdefault(row["query_id"], {})[row["item_id"]] = row["grade"]
    moves: dict[str, list[float]] = {}
    for (query, day, system), items in lists.items():
        if system == "new":
            query_grades = grades[query]
            best = dcg(sorted(query_grades.values(), reverse=True))
            new, old = (
                dcg([query_grades.get(item, 0.0) for item in listed]) / best
                for listed in (items, lists[query, day, "old"])
            )
            moves.setdefault(query, []).append(new - old)
    traffic = dict(zip(*QUERIES.select(["query_id", "traffic"]).to_pydict().values(), strict=True))
    mean = {query: np.mean(days) for query, days in moves.items()}
    d, n = np.array([*mean.values()]), len(DAYS) if dated else 1
    if dated:
        noise = sum(((np.array(days) - np.mean(days)) ** 2).sum() for days in moves.values()) / N
    else:
        less = min((d[d > 0] ** 2).sum(), (d[d < 0] ** 2).sum())
        noise = 2 * (less + (d[d != 0] ** 2).mean()) / N
    between = max(0.0, (d**2).mean() - noise / n)
    kept = between / (between + noise / n)
    assert 0 < kept < 1
    reach = student.critical(0.95, N - 1) * sqrt(noise / n)
    estimates = []
    for query, difference in mean.items():
        shrunk = kept * difference
        estimates.append(
            (query, float(difference), shrunk, n * traffic[query], bool(abs(difference) <= reach))
        )
    return sorted((move for move in estimates if move[1]), key=lambda move: -abs(move[2] * move[3]))


@pytest.mark.parametrize("dated", [False, long(True)])
def test_the_movers_are_those_of_plain_python(dated: bool) -> None:
    by_impact = by_hand(dated=dated)
    expected = sorted(by_impact, key=lambda move: move[1] > 0)
    movers = compared(dated=dated, count=N).movers
    assert [row["moved"] for row in movers] == [
        "gained" if move[1] > 0 else "lost" for move in expected
    ]
    assert [row["query_id"] for row in movers] == [move[0] for move in expected]
    assert {move[4] for move in expected} == {True, False}
    for row, (query, difference, shrunk, traffic, noise) in zip(movers, expected, strict=True):
        assert row["difference"] == near(difference)
        assert row["shrunk_difference"] == near(shrunk)
        assert (row["traffic"], row["could_be_noise"]) == (traffic, noise)
        assert row["query_text"] == f"shoe {query[1:]}"


@by_turns(1.4)
def test_movers_of_one_side_and_ties() -> None:
    """Of one side; where all move as far, those with more traffic, then those that lost."""
    by_impact = by_hand(dated=False)
    for side, sign in (("lost", -1), ("gained", 1)):
        expected = [move[0] for move in by_impact if move[1] * sign > 0]
        for movers, count in ((side, 10), (f"{side}:3", 3)):
            rows = compared(dated=False, count=movers).movers
            assert [row["query_id"] for row in rows] == expected[:count]
            assert {row["moved"] for row in rows} == {side}
    hit = {"old": "ab" * 3, "new": "ba" * 3}
    truth = "aaabbb"
    runs = {
        name: pa.Table.from_pylist(
            [{"query_id": f"q{i}", "item_id": items[i], "score": 1.0} for i in range(6)]
        )
        for name, items in hit.items()
    }
    labels = [{"query_id": f"q{i}", "item_id": truth[i], "grade": 1} for i in range(6)]
    tied = sm.compare(runs, pa.Table.from_pylist(labels), "hit@1", movers=5).movers
    assert [(row["query_id"], row["moved"]) for row in tied] == [
        *((name, "lost") for name in ("q0", "q2", "q3", "q5")),
        ("q1", "gained"),
    ]
    for wrong in ("most", "lost:", "-1", -1, "gained:x"):
        with pytest.raises(sm.SpecError, match="movers must be the number of queries to show"):
            compared(dated=False, count=wrong)


def test_both_lists_stand_side_by_side_and_no_other_query_leaves() -> None:
    comparison = compared(dated=True, count=2)
    rankings, labels = (table.to_pylist() for table in world(dated=True))
    lists = lists_of(rankings)
    grades = {(row["query_id"], row["item_id"]): row["grade"] for row in labels}
    assert len(comparison.movers) == 2
    for row in comparison.movers:
        query = row["query_id"]
        for name, system in (("list", "new"), ("baseline_list", "old")):
            items = lists[query, DAYS[1], system]
            assert row[name] == [
                {
                    "rank": rank,
                    "item_id": item,
                    "title": f"Schuh {item[1:]} ü",
                    "grade": grades.get((query, item)),
                }
                for rank, item in enumerate(items, 1)
                if rank <= 10 or grades.get((query, item), 0)
            ]
    last = comparison.executed_sql.rsplit("with\n\n", 1)[1]
    ids = ", ".join(
        f"'{query_id}'" for query_id in sorted(row["query_id"] for row in comparison.movers)
    )
    assert last.count(f"in ({ids})") == 2


@pytest.mark.long
@pytest.mark.parametrize("name", engines(OTHER_ENGINES, now=["sqlite"]))
def test_engines_give_duckdb_s_movers(name: str, servers: Servers) -> None:
    for dated in (False, True):
        with servers.open(name) as engine:
            database = Database(engine)
            engine_movers = compared(dated=dated, connection=database).movers
        for row, duckdb_row in zip(engine_movers, compared(dated=dated).movers, strict=True):
            numbers = {k: pytest.approx(v) for k, v in duckdb_row.items() if isinstance(v, float)}
            assert {**row, "metric_date": str(row["metric_date"])} == {
                **duckdb_row,
                **numbers,
                "metric_date": str(duckdb_row["metric_date"]),
            }


@by_turns(0.7)
def test_the_command_line_prints_them(tmp_path: Any) -> None:
    named = zip(("r", "l", "q", "i"), (*world(dated=False), QUERIES, ITEMS), strict=True)
    for name, table in named:
        pq.write_table(table, tmp_path / f"{name}.parquet")
    words = "r.parquet l.parquet -m ndcg@5 --baseline old --queries q.parquet --items i.parquet"
    command = ("compare", *words.split(), "--weight", "traffic", "--movers", "3")
    output = sqlmetrics(*command, folder=tmp_path).stdout
    first = by_hand(dated=False)[0]
    assert "the queries that moved ndcg@5 most: new against old" in output
    assert f"1. shoe {first[0][1:]} ({first[0]}): ndcg@5 {first[1]:+.4f}" in output
    rows = json.loads(sqlmetrics(*command, "-o", "json", folder=tmp_path).stdout)["movers"]
    assert [row["query_id"] for row in rows] == [move[0] for move in by_hand(dated=False)[:3]]
    for form, head in (("markdown", "| rank | old | grade | new | grade |"), ("html", "Schuh")):
        assert head in sqlmetrics(*command, "-o", form, folder=tmp_path).stdout
    with pytest.raises(sm.SpecError, match="movers must be the number of queries to show"):
        compared(dated=False, count=-1)


def test_nothing_moved_and_one_query() -> None:
    table = {"query_id": [1, 1], "item_id": ["a", "b"], "score": [2.0, 1.0]}
    swapped = {"query_id": [1, 1], "item_id": ["a", "b"], "score": [1.0, 2.0]}
    truth = pa.table({"query_id": [1], "item_id": ["b"], "grade": [1]})
    same = {"old": pa.table(table), "new": pa.table(table)}
    assert sm.compare(same, truth, "mrr", movers=5).movers == ()
    other = {"old": pa.table(table), "new": pa.table(swapped)}
    (row,) = sm.compare(other, truth, "mrr", movers=5).movers
    assert (row["difference"], row["could_be_noise"]) == (0.5, True)
