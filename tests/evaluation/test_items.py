"""Metrics that need more than rankings and labels: what they need is told, and checked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from command import sqlmetrics
from marked import by_turns, long
from memory import evaluate

import sqlmetrics as sm
from sqlmetrics.catalog.dimension import column_of, direction, metric_row
from sqlmetrics.catalog.measure import parse
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.proof.verify import verify_spec

pytestmark = by_turns(0.3)

RANKINGS = pa.table(
    {
        "query_id": ["q"] * 5,
        "item_id": ["a", "b", "c", "b", "a"],
        "score": [3.0, 2.0, 1.0, 2.0, 1.0],
        "system": ["prod", "prod", "prod", "new", "new"],
    }
)
LABELS = pa.table({"query_id": ["q"], "item_id": ["a"], "grade": [1]})
ITEMS = pa.table(
    {
        "item_id": ["a", "b", "c"],
        "category": ["u", "u", "v"],
        "popularity": [2, 1, 1],
        "vector": [[1.0, 0.0], [0.0, 1.0], [3.0, 4.0]],
    }
)


def evaluated(metric: str, **options: Any) -> sm.Result:
    return evaluate(RANKINGS, LABELS, metric, **{"system": "system", **options})


def items(**changed: list[Any]) -> pa.Table:
    return pa.table({**ITEMS.to_pydict(), **changed})


@pytest.mark.parametrize(
    ("metric", "given", "problem"),
    [
        ("novelty@2", {}, "novelty@2 needs the items table, one row per item.*; give items"),
        ("ils@2", {"items": ITEMS.select(["item_id"])}, "ils@2 needs the category of items"),
        (
            "ils(similarity=vector)@2",
            {"items": ITEMS.select(["item_id", "category"])},
            r"ils\(similarity=vector\)@2 needs the vector of items: a column vector of the items",
        ),
        ("overlap@2", {}, "overlap@2 compares with a system; name it as the baseline"),
        (
            "rbo",
            {"system": None, "baseline": "prod"},
            "rbo compares systems; name the rankings' column of systems",
        ),
    ],
)
def test_what_a_metric_needs_is_told(metric: str, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(sm.SpecError, match=problem):
        evaluated(metric, **given)


def test_an_unknown_baseline_is_told_with_the_nearest() -> None:
    with pytest.raises(sm.InputError, match="unknown system 'prdo'; did you mean 'prod'"):
        evaluated("rbo", baseline="prdo")


LENGTHS = r"of different lengths: 2\n.*dimensions .*\n  2 +2 +b *\n  1 +1 +a *\n"
"""The most common length first, with the first item that has it."""


@pytest.mark.parametrize(
    ("metric", "table", "problem"),
    [
        ("novelty@2", items(item_id=["a", "b", "b"]), "items that appear more than once .*: 1"),
        ("novelty@2", items(item_id=["a", "b", None]), "item_id is NULL in 1 row"),
        ("novelty@2", items(popularity=[1, 2, None]), "popularity is NULL in 1 row"),
        ("novelty@2", items(popularity=["1", "2", "x"]), "popularity is not a number in 1 row"),
        ("novelty@2", items(popularity=[1, 2, -1]), "popularity is negative or not finite in 1"),
        ("novelty@2", items(popularity=[1, 0, 1]), "have no popularity .* or 0: 2"),
        ("novelty@2", ITEMS.slice(0, 0), "items: the table has no rows"),
        ("ils@2", items(category=["u", None, "v"]), "category is NULL in 1 row"),
        ("ils@2", ITEMS.slice(0, 1), "ranked items that are not in the items table: 2"),
        ("vector", items(vector=[[1.0], [1.0, 2.0], [3.0, 4.0]]), LENGTHS),
        ("vector", items(vector=[[1.0], [0.0], [2.0]]), "vector has the length 0, .* in 1 row"),
        ("vector", items(vector=[[1.0], [], [2.0]]), "vector has the length 0, .* in 1 row"),
        ("vector", items(vector=[[1.0], [None], [2.0]]), "vector holds NULL, NaN or infinite"),
        ("vector", items(vector=[[1.0], [float("nan")], [2.0]]), "vector holds NULL, NaN or"),
        ("vector", items(vector=["x", "[1]", "[2]"]), "vector is not a list of numbers in 1 row"),
        ("vector", items(vector=[[1.0], None, [2.0]]), "vector is NULL in 1 row"),
    ],
)
def test_bad_items_are_refused(metric: str, table: pa.Table, problem: str) -> None:
    metric = "ils(similarity=vector)@2" if metric == "vector" else metric
    with pytest.raises(sm.InputError, match=problem):
        evaluated(metric, items=table)


def test_unchecked_items_that_are_not_described_do_not_count() -> None:
    """A has the share 2/3 of the popularity, c has 1/3, and b is not there."""
    some = ITEMS.take([0, 2])
    rows = evaluated("novelty@3", items=some, check=False).to_dicts()
    means = {row["system"]: row["value"] for row in rows}
    assert means["prod"] == pytest.approx((math.log2(3 / 2) + math.log2(3)) / 2)


def test_what_no_metric_reads_is_not_looked_at() -> None:
    broken = items(item_id=["a", "a", None], popularity=[None] * 3)
    sql = evaluated("mrr", items=broken, baseline="prod").executed_sql
    assert "items as (" not in sql
    assert evaluated("ils@2", items=items(popularity=[None] * 3)).measures


def test_a_changed_baseline_changes_the_definition() -> None:
    hashes = {
        row["definition_hash"]
        for baseline in ("prod", "new")
        for row in evaluated("rbo", baseline=baseline).to_dicts()
    }
    assert len(hashes) == 2


@by_turns(1.6)
def test_a_text_whose_grade_is_above_the_scale_is_refused() -> None:
    labels = pa.table({"query_id": ["q", "q"], "item_id": ["a", "b"], "grade": ["top", "ok"]})
    grades = {"top": 4, "ok": 1}
    options = {"system": "system", "grades": grades}
    with pytest.raises(sm.InputError, match="grade is above max_grade=3 in 1 row"):
        evaluate(RANKINGS, labels, "err@2", **options)
    assert evaluate(RANKINGS, labels, "err(max_grade=4)@2", **options).measures


SPEC = """
rankings: {file: runs.parquet, columns: {system: system}}
labels: {file: labels.parquet}
items: {file: items.parquet, columns: {category: kind, popularity: popularity, vector: vector}}
metrics: [overlap@2, rbo, novelty@2, ils@2, "ils(similarity=vector)@2", "err@3", bpref]
baseline: prod
"""


@by_turns(3.5)
def test_on_the_command_line(tmp_path: Path) -> None:
    pq.write_table(RANKINGS, tmp_path / "runs.parquet")
    pq.write_table(LABELS, tmp_path / "labels.parquet")
    named = ["kind" if name == "category" else name for name in ITEMS.column_names]
    pq.write_table(ITEMS.rename_columns(named), tmp_path / "items.parquet")
    (tmp_path / "spec.yml").write_text(SPEC)

    sqlmetrics("validate", "spec.yml", folder=tmp_path)
    assert "from ranked" in sqlmetrics("compile", "spec.yml", folder=tmp_path).stdout
    output = sqlmetrics("verify", "spec.yml", folder=tmp_path).stdout
    assert [line.split()[0] for line in output.splitlines()[1:4]] == [
        "overlap@2",
        "rbo",
        "novelty@2",
    ]

    line = "evaluate runs.parquet labels.parquet -m novelty@2 -m rbo --system system -o csv"
    options = ["--items", "items.parquet", "--baseline", "prod"]
    out = sqlmetrics(*line.split(), *options, folder=tmp_path).stdout
    assert ",rbo,0," in out
    assert ",novelty,2," in out


PRICED = pa.table(
    {
        "item_id": ["a", "b", "c"],
        "price": [10.0, 30.0, None],
        "there": ["t", "No", "1"],
        "seller": ["x", "y", "x"],
    }
)


@pytest.mark.parametrize(
    ("metric", "items", "problem"),
    [
        ("mean(prise)@2", PRICED, "unknown column 'prise'; did you mean 'price'?"),
        ("maen(price)@2", PRICED, "unknown function 'maen'; did you mean 'mean'?"),
        (
            "sum(price, relevnt)@2",
            PRICED,
            r"'sum\(price, relevnt\)@2': after the column write discounted, rel",
        ),
        ("mean@2", PRICED, r"name a column of the items, like mean\(price\)@2"),
        (
            "mean(there)@2",
            PRICED,
            r"there is not a number \(share\(\) takes yes and no\) in 2 rows",
        ),
        ("share(price)@2", PRICED, "price is neither yes nor no in 2 rows"),
        ("mean(price, better=low)@2", PRICED, "did you mean 'lower'?"),
        (
            "mean(price,discounted,discounted)@2",
            PRICED,
            r"metric 'mean\(price,discounted,discounted\)@2': 'price,discounted,discounted' cannot",
        ),
        ("max(price, discounted)@2", PRICED, "after the column write relevant, min_grade=2 or"),
        ("exposure(seller, even)@2", PRICED, "after the column write equal, relevant or min_gr"),
        ("exposure(seler)@2", PRICED, "unknown column 'seler'; did you mean 'seller'?"),
        ("exposure(seller, equal=2)@2", PRICED, "equal must be a number from 0 to 1, given 2"),
        ("mean(price)@2", None, "one row per item with its price"),
        ("mean(price)@2", PRICED.slice(1), "are not in the items table: 2"),
    ],
)
def test_a_column_that_is_not_there_is_told(
    metric: str, items: pa.Table | None, problem: str
) -> None:
    with pytest.raises(sm.SqlmetricsError, match=problem):
        evaluated(metric, items=items)


def test_whether_more_of_a_column_is_better_is_what_the_text_says() -> None:
    texts = ["mean(price, better=lower)@1", "max(price)@1"]
    rows = sm.compare(
        RANKINGS, LABELS, texts, system="system", baseline="prod", items=PRICED
    ).to_dicts()
    assert [(row["metric"], row["difference"]) for row in rows] == [
        ("mean(price, better=lower)@1", 20.0),
        ("max(price)@1", 20.0),
    ]
    measures = [parse(text) for text in texts]
    assert [direction(str(measure), measures) for measure in measures] == [-1, 0]
    assert [metric_row(measure).label for measure in measures] == [
        "Mean of price at 1",
        "Largest price at 1",
    ]
    assert [column_of(measure.name, 1) for measure in measures] == [
        measure.column for measure in measures
    ]


@by_turns(2.1)
def test_a_job_has_the_columns_of_items(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "shop.duckdb")).close()
    with connect(f"duckdb:///{tmp_path}/shop.duckdb") as engine:
        for name, table in {"r": RANKINGS, "l": LABELS, "i": PRICED}.items():
            engine.load(name, table)
    texts = ["mean(price)@2", "sum(price)", "share(there)@3", "x = mean(price)@1 / max(price)@2"]
    spec = {
        "rankings": {"relation": "r", "columns": {"system": "system"}},
        "labels": {"relation": "l"},
        "items": {"relation": "i"},
        "metrics": texts,
        "output": {"relation": "facts"},
        "checks": [{"metric": text.partition(" =")[0], "min": 0.3} for text in texts],
    }
    (tmp_path / "s.yml").write_text(yaml.safe_dump(spec))
    sqlmetrics("build", "s.yml", "--db", "shop.duckdb", folder=tmp_path)
    with connect(f"duckdb:///{tmp_path}/shop.duckdb") as engine:
        rows = engine.rows("select system, metric, value from facts order by system, metric")
    assert rows == [
        ("new", "mean(price)", 20.0),
        ("new", "share(there)", 0.5),
        ("new", "sum(price)", 40.0),
        ("new", "x", 1.0),
        ("prod", "mean(price)", 20.0),
        ("prod", "share(there)", pytest.approx(2 / 3)),
        ("prod", "sum(price)", 40.0),
        ("prod", "x", pytest.approx(1 / 3)),
    ]


DATED = pa.table({**RANKINGS.to_pydict(), "day": ["2026-01-05"] * 3 + ["2026-01-06"] * 2})
BORN = pa.table({"item_id": ["a", "b", "c"], "born": ["2026-01-01", "2026-01-05", None]})


@pytest.mark.parametrize("name", ["sqlite", long("postgres"), long("datafusion")])
def test_an_age_is_in_days_on_the_day_of_the_list(name: str, servers: Any) -> None:
    """On the 5th a is 4 days old, b none; on the 6th b is 1 and a 5; of c nobody knows it."""
    with servers.open(name) as engine, engine.scratch() as schema:
        for table, rows in {"r": DATED, "l": LABELS, "i": BORN}.items():
            engine.load(f"{schema}.{table}", rows)
        spec = sm.Spec(
            rankings={"relation": f"{schema}.r", "columns": {"system": "system", "date": "day"}},
            labels={"relation": f"{schema}.l"},
            items={"relation": f"{schema}.i"},
            metrics=["mean(age(born))@3", "MAX( age( born ), relevant )", "sum(age(born))@1"],
        )
        result, agreements = verify_spec(spec, Database(engine))
        assert max(agreement.largest for agreement in agreements) == 0
        values = [row["value"] for row in result.to_dicts()]
        assert values == [2.0, 4.0, 4.0, 3.0, 5.0, 1.0]


@pytest.mark.parametrize(
    ("metric", "items", "given", "problem"),
    [
        ("mean(age(born))", BORN, {}, "needs the day of each query; name the rankings' column of"),
        ("share(age(born))", BORN, {"date": "day"}, "an age has only a mean, median, sum, min and"),
        ("mean(age(bron))", BORN, {"date": "day"}, "unknown column 'bron'; did you mean 'born'?"),
        ("mean(age(price))", PRICED, {"date": "day"}, "price is not a day or a time in 2 rows"),
    ],
)
def test_an_age_that_nobody_knows_is_told(
    metric: str, items: pa.Table, given: dict[str, Any], problem: str
) -> None:
    with pytest.raises(sm.SqlmetricsError, match=problem):
        evaluate(DATED, LABELS, metric, items=items, **{"system": "system", **given})


REVENUES = pa.table(
    {"query_id": ["q"] * 2, "item_id": ["a", "z"], "grade": [1, 1], "revenue": [30.0, 70.0]}
)


def valued_labels(**changed: list[Any]) -> pa.Table:
    return pa.table({**REVENUES.to_pydict(), **changed})


@pytest.mark.parametrize(
    ("metric", "labels", "problem"),
    [
        ("recall(revenu)@2", REVENUES, "labels: unknown column 'revenu'; did you mean 'revenue'?"),
        ("ndcg(revenue)@2", valued_labels(revenue=[30, -1]), "revenue is below 0 in 1 row"),
        (
            "ndcg(revenue)@2",
            valued_labels(revenue=["30", "much"]),
            "revenue is not a number in 1 row",
        ),
        (
            "dcg(revenue)",
            valued_labels(revenue=[30, math.inf]),
            "revenue is NaN or infinite in 1 row",
        ),
        ("recall(revenue)", REVENUES, r"needs a cutoff, like recall\(revenue\)@10"),
        (
            "recall(revenue)@10 / recall@10",
            REVENUES,
            r"'recall\(revenue\)@10 / recall@10' cannot be",
        ),
        ("recall(revenue, gain=exp)@2", REVENUES, r"recall\(revenue\) has no option gain"),
        ("recall(revenue, better=lower)@2", REVENUES, "unknown setting 'better'"),
        (
            "recall(revenue, relevant)@2",
            REVENUES,
            "after the column write rel=..., .* or aver",
        ),
        ("precision(revenue)@2", REVENUES, "write options like"),
    ],
)
def test_what_labels_are_worth_is_checked(metric: str, labels: pa.Table, problem: str) -> None:
    with pytest.raises(sm.SqlmetricsError, match=problem):
        evaluate(RANKINGS, labels, metric, system="system")


def test_what_labels_are_worth_may_stand_in_the_rankings_or_twice() -> None:
    """Of prod's list a is first and worth 30, of new's second; of a's rows the best counts."""
    in_lists = {"grade": [1, 0, None, 0, 1], "revenue": [30, 5, None, 5, 30]}
    together = pa.table({**RANKINGS.to_pydict(), **in_lists})
    texts = ["recall(revenue)@1", "ndcg(revenue)", "dcg(revenue, discount=none)@2"]
    rows = evaluate(together, None, texts, system="system", grade="grade").to_dicts()
    second = 1 / math.log2(3)
    values = {"prod": [1.0, 1.0, 30.0], "new": [0.0, second, 30.0]}
    for system, expected in values.items():
        got = [row["value"] for row in rows if row["system"] == system]
        assert got == pytest.approx(expected, rel=1e-12)
    twice = valued_labels(item_id=["a", "a"], grade=[0, 1])
    merged = evaluate(RANKINGS, twice, texts[2], system="system", duplicate_labels="max_grade")
    assert [row["value"] for row in merged.to_dicts()] == [70.0, 70.0]


@by_turns(3.2)
@pytest.mark.parametrize("name", ["sqlite", long("postgres"), long("datafusion")])
def test_columns_of_items_are_the_same_in_other_databases(name: str, servers: Any) -> None:
    presence = pa.array([True, False, None])
    tables = {"r": RANKINGS, "l": REVENUES, "i": PRICED.append_column("Is There", presence)}
    with servers.open(name) as engine, engine.scratch() as schema:
        for table, rows in tables.items():
            engine.load(f"{schema}.{table}", rows)
        spec = sm.Spec(
            rankings={"relation": f"{schema}.r", "columns": {"system": "system"}},
            labels={"relation": f"{schema}.l"},
            items={"sql": f'select item_id, seller, price, "Is There" as "isOpen" from {schema}.i'},
            metrics=[
                "mean(price)@2",
                "sum(price)",
                "min(price)",
                "max(price)@1",
                "median(price)@2",
                "mean(price, discounted)@2",
                "share(isOpen)@2",
                "sum(price, relevant)@2",
                "exposure(seller, discount=none)@1",
                "recall(revenue)@2",
                "ndcg(revenue)@2",
            ],
        )
        result, agreements = verify_spec(spec, Database(engine))
        assert max(agreement.largest for agreement in agreements) <= 1e-12
        values = [row["value"] for row in result.to_dicts() if row["system"] == "prod"]
        ndcg = 30 / (70 + 30 / math.log2(3))
        mean = (10 + 30 / math.log2(3)) / (1 + 1 / math.log2(3))
        expected = [20.0, 40.0, 10.0, 10.0, 20.0, mean, 0.5, 10.0, 1 / 3, 0.3, ndcg]
        assert values == pytest.approx(expected, rel=1e-12)
