"""A warehouse's tables: 200 columns, 40 metrics, long names, reserved words."""

from __future__ import annotations

import duckdb

import sqlmetrics as sm

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
    others = ", ".join(f"{number} as other_{number}" for number in range(196))
    with duckdb.connect() as connection:
        connection.execute(
            f"create table wide as select 'q' || (i // 10) as {LONG['query']}, "
            f"i as {LONG['item']}, -i as {LONG['score']}, 'm' as {LONG['model']}, "
            f"{others} from range(100) t(i)"
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
