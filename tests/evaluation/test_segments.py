"""Segments that are no column: conditions with a name, traffic, relevant labels, query length."""

from __future__ import annotations

from math import sin
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from engines.starting import Servers
from marked import by_turns, engines

import sqlmetrics as sm
from sqlmetrics.engines.database import Database

DAYS = ("2026-01-01", "2026-01-02")
TEXTS = ("red shoe", " shoe", "a  b   c", "", None, "one two three four five", "b c d e")
QUERIES = pa.Table.from_pylist(
    [
        {
            "query_id": f"q{i}",
            "text": TEXTS[i % len(TEXTS)],
            "signup_days": None if i == 3 else i % 11,
            "traffic": float(1 + 40 // (i + 1)),
        }
        for i in range(20)
    ]
)
"""Texts of 2, 1, 3, 0, unknown, 5 and 4 words; traffic with long tails."""
OTHER_ENGINES = ["sqlite", "postgres", "chdb", "spark"]
SEGMENTS = {
    "new_users": "signup_days <= 3 or signup_days > 9",
    "reach": "traffic",
    "relevant_labels": "relevant_labels",
    "words": "query_length",
}


def world() -> tuple[pa.Table, pa.Table]:
    """19 labelled queries of 0 to 7 relevant labels, on two days, by two systems."""
    rankings, labels = [], []
    for day in DAYS:
        for i in range(19):
            key = {"ds": day, "query_id": f"q{i}"}
            for j in range(i % 8 + 1):
                item = f"i{j}"
                labels.append({**key, "item_id": item, "grade": float(j < i % 8) * (1 + j % 2)})
                for system, of in (("a", 1.0), ("b", 2.0)):
                    score = round(sin(of * i + j + len(rankings)), 6)
                    rankings.append({**key, "item_id": item, "system": system, "score": score})
    return pa.Table.from_pylist(rankings), pa.Table.from_pylist(labels)


def evaluated(**changes: Any) -> list[dict[str, Any]]:
    rankings, labels = world()
    options = {"queries": QUERIES, "weight": "traffic", "segments": SEGMENTS, **changes}
    result = sm.evaluate(rankings, labels, "ndcg@3", system="system", date="ds", **options)
    return result.to_dicts()


@by_turns(1.5)
def test_queries_stand_in_the_segments_that_plain_python_puts_them_in() -> None:
    rows = [
        row for row in evaluated() if (row["system"], str(row["metric_date"])) == ("a", DAYS[0])
    ]
    counted = {
        (row["segment_name"], row["segment_value"]): row["n_queries"] + row["n_skipped"]
        for row in rows
    }
    expected: dict[tuple[str, str], int] = {("all", "all"): 19}
    above, total = 0.0, sum(QUERIES["traffic"].to_pylist())
    for number, query in enumerate(QUERIES.to_pylist()):  # by falling traffic; the last: no label
        days, text = query["signup_days"], query["text"]
        n_words = None if text is None else len(text.split())
        values = {
            "new_users": "(unknown)" if days is None else str(days <= 3 or days > 9).lower(),
            "reach": ("head", "torso", "tail")[int(above / total * 3)],
            "relevant_labels": ("0", "1", *["2-5"] * 4, "6+", "6+")[number % 8],
            "words": "(unknown)"
            if n_words is None
            else ("0", "1", "2", "3-4", "3-4", "5+")[n_words],
        }
        above += query["traffic"]
        for segment in values.items() if number < 19 else ():
            expected[segment] = expected.get(segment, 0) + 1
    assert counted == expected


@pytest.mark.long
@pytest.mark.parametrize("name", engines(OTHER_ENGINES, now=["sqlite"]))
def test_engines_give_duckdb_s_segments(name: str, servers: Servers) -> None:
    with servers.open(name) as engine:
        database = Database(engine)
        rows = evaluated(connection=database)
    for row, duck in zip(rows, evaluated(), strict=True):
        assert row == {k: pytest.approx(v) if k == "value" else v for k, v in duck.items()} | {
            k: pytest.approx(duck[k]) for k in ("numerator", "denominator", "sum_sq")
        }


@pytest.mark.long
def test_a_spec_has_them_and_the_reference_agrees() -> None:
    rankings, labels = world()
    spec = sm.Spec(
        rankings={"data": rankings, "columns": {"system": "system", "date": "ds"}},
        labels={"data": labels, "columns": {"date": "ds"}},
        queries={"data": QUERIES, "columns": {"weight": "traffic", "text": "text"}},
        metrics=["ndcg@3", "recall(rel=2)@2"],
        conventions={"average_over": "either"},
        by=[*SEGMENTS],
        segments=SEGMENTS,
    )
    assert max(agreement.largest for agreement in sm.verify(spec)) < 1e-12
    traffic = dict(zip(*QUERIES.select(["query_id", "traffic"]).to_pydict().values(), strict=True))
    weights = [traffic[query] for query in rankings["query_id"].to_pylist()]
    rankings = rankings.append_column("traffic", pa.array(weights))
    one_table = spec.having(
        rankings={
            "data": rankings,
            "columns": {"date": "ds", "weight": "traffic"},
            "where": "system = 'a'",
        },
        queries=None,
        by=["reach", "often"],
        segments={"reach": "traffic", "often": "traffic > 10"},
    )
    assert max(agreement.largest for agreement in sm.verify(one_table)) < 1e-12


def test_a_segment_of_neither_table_is_told_with_the_columns_of_both(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text("q Q0 a 1 2.0 r\n", encoding="utf-8")
    (tmp_path / "queries.csv").write_text("query_id,country\nq,DE\n", encoding="utf-8")
    why = r"rankings and queries: unknown column 'countri'; did you mean 'country'\? known: " + (
        r"country, item_id, query_id, score, system \(used as segment countri\)"
    )
    with pytest.raises(sm.InputError, match=why):
        sm.evaluate(
            str(tmp_path / "run.txt"),
            {"q": {"a": 1}},
            "mrr",
            by="countri",
            queries=str(tmp_path / "queries.csv"),
        )


@pytest.mark.parametrize(
    ("segments", "why"),
    [
        ({"new": "signup_days <="}, "segments new must be one condition"),
        (["new"], "give a condition a name, like new_users: signup_days <= 7, given 'new'"),
        ({"reach": "traffic"}, "segments.reach: head, torso and tail need the traffic"),
        ({"words": "query_length"}, r"segments.words: .* queries.columns.text"),
        ({"new": "signup_day <= 7"}, "'signup_day'.*(used as part of segment new: signup_day)"),
        ({"new": "item_id <= 7"}, "segment new 'item_id <= 7': .*an explicit cast is required"),
    ],
)
def test_what_is_wrong_with_a_segment_is_said(segments: Any, why: str) -> None:
    with pytest.raises((sm.SpecError, sm.InputError), match=why):
        evaluated(segments=segments, queries=None, weight=None)
