"""A warehouse's tables: 200 columns, 40 metrics, long names, reserved words."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.plan import plan

LONG = {role: f"{role}_" + "x" * (62 - len(role)) for role in ("query", "item", "score", "model")}
METRICS = [
    *(
        f"{name}@{k}"
        for name in ("ndcg", "dcg", "recall", "precision", "hit")
        for k in (1, 3, 5, 10)
    ),
    *(f"{name}@{k}" for name in ("mrr", "ap", "f1", "judged") for k in (1, 3, 5, 10)),
    *("ndcg(gain=linear)@10", "recall(rel=2)@10", "rprec", "num_ret"),
]


def test_two_hundred_columns_forty_metrics_and_names_of_63_characters() -> None:
    assert len(METRICS) == 40
    assert {len(name) for name in LONG.values()} == {63}
    columns = ", ".join(f"{number} as other_{number}" for number in range(196))
    with duckdb.connect() as connection:
        connection.execute(
            f"create table wide as select 'q' || (i // 10) as {LONG['query']}, "
            f"i as {LONG['item']}, -i as {LONG['score']}, 'm' as {LONG['model']}, "
            f"{columns} from range(100) t(i)"
        )
        connection.execute(
            f"create table truth as select {LONG['query']}, {LONG['item']}, "
            f"{LONG['item']} % 3 as grade from wide"
        )
        result = sm.evaluate(
            "wide",
            "truth",
            METRICS,
            connection=connection,
            query=LONG["query"],
            item=LONG["item"],
            score=LONG["score"],
            system=LONG["model"],
        )
    assert result.summary().num_rows == 40
    assert result.per_query().num_columns == 42
    assert result["judged@10"] == 1.0
    assert result["recall@10"] == 1.0


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("system", "segment_name", "segment_value", "metric", "k")
    return tuple(row[name] for name in names)


ALL_KINDS = [
    "ndcg@10",
    "mrr",
    "auc",
    "gauc",
    "num_ret",
    "num_rel_ret@3",
    "recall(average=p90)@5",
    "arp(average=micro)",
]


@by_turns(3)
def test_many_metrics_have_the_same_numbers_and_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = "select 'q' || (i // 5 % 8) as query_id, i as item_id, -i as score, i % 3 as grade"
    rows += ", 's' || (i // 40) as model, i // 5 % 8 + 1 as weight"
    rows += ", case when i // 5 % 2 = 0 then 'de' else 'us' end as country from range(80) t(i)"
    with duckdb.connect() as connection:
        connection.execute(f"create table shown as {rows}")
        connection.execute("set memory_limit = '1GB'")

        def evaluated(metrics: list[str], **options: Any) -> sm.Result:
            return sm.evaluate(
                "shown", None, metrics, system="model", connection=connection, **options
            )

        interval = {"by": "country", "baseline": "s0", "confidence": 0.9}
        weighted = [
            metric for metric in ALL_KINDS if metric not in ("auc", "recall(average=p90)@5")
        ]
        for metrics, options in ((ALL_KINDS, interval), (weighted, {"weight": "weight"})):
            usual = evaluated(metrics, **options)
            with monkeypatch.context() as patch:
                patch.setattr(plan, "MANY_METRICS", 0)
                wide = evaluated(metrics, **options)
            assert ("range(1, " in usual.executed_sql, "range(1, " in wide.executed_sql) == (
                False,
                True,
            )
            rows_by_key = {key(row): row for row in usual.to_dicts()}
            assert len(rows_by_key) == len(usual.to_dicts())
            for row in wide.to_dicts():
                assert row == pytest.approx(rows_by_key[key(row)], rel=1e-12, nan_ok=True)
        many = [f"ndcg@{k}" for k in range(1, 501)]
        assert len(evaluated(many, baseline="s0", confidence=0.9).to_dicts()) == 1000


def test_reserved_words_are_columns_like_others() -> None:
    words = {
        "query": "group",
        "item": "order",
        "score": "select",
        "system": "table",
        "date": "from",
    }
    with duckdb.connect() as connection:
        connection.execute(
            """create table "where" as select 'q' as "group", i as "order", i as "select",
            'm' as "table", date '2026-01-01' as "from", 'de' as "case" from range(5) t(i)"""
        )
        connection.execute(
            'create table "join" as select \'q\' as "group", 4 as "order", 1 as "end"'
        )
        result = sm.evaluate(
            "where", "join", ["mrr"], connection=connection, grade="end", by="case", **words
        )
    assert result.summary()["value"].to_pylist() == [1.0, 1.0]
