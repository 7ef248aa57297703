"""Metrics of all lists together: where they stand, and what is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from memory import evaluate

import sqlmetrics as sm
from sqlmetrics.engines.database import connect
from sqlmetrics.engines.duckdb import open_database
from sqlmetrics.jobs.run import write

RUN = pa.table(
    {
        "query_id": ["q1", "q1", "q2", "q2"],
        "item_id": ["a", "b", "a", "b"],
        "score": [4.0, 3.0, 2.0, 1.0],
        "traffic": [1.0, 1.0, 2.0, 2.0],
    }
)
TRUTH = pa.table(
    {"query_id": ["q1", "q1", "q2", "q2"], "item_id": [*"abab"], "grade": [1, 0, 1, 0]}
)
"""Item a is relevant, b is not."""


def test_a_metric_of_all_lists_has_one_number_and_nothing_to_add_up() -> None:
    result = evaluate(RUN, TRUTH, ["auc", "mrr"])
    assert result["auc"] == 3 / 4
    (row,) = [row for row in result.to_dicts() if row["metric"] == "auc"]
    assert (row["numerator"], row["denominator"], row["sum_sq"]) == (None, None, None)
    assert (row["n_queries"], row["n_skipped"], row["n_missing"]) == (2, 0, 0)


def test_a_metric_of_all_lists_has_no_column_in_the_per_query_table() -> None:
    result = evaluate(RUN, TRUTH, ["auc", "mrr"])
    assert result.per_query().column_names == ["system", "query_id", "mrr"]
    alone = evaluate(RUN, TRUTH, ["auc"])
    assert alone.per_query().column_names == ["system", "query_id"]
    assert "auc" in repr(alone)


def test_the_script_runs_as_it_is_printed() -> None:
    with duckdb.connect() as connection:
        connection.execute("create table run as select * from (values ('q', 'a', 2.0)) t(q, i, s)")
        connection.execute("create table truth as select 'q' as q, 'a' as i, 1 as g")
        result = evaluate(
            "run",
            "truth",
            ["auc(max_fpr=0.5)", "mrr"],
            connection=connection,
            query="q",
            item="i",
            score="s",
            grade="g",
            ties="id_desc",
            duplicate_rankings="best_score",
        )
        exact_sum, keep, summary, per_query, drop, _ = result.executed_sql.split(";\n")
        connection.execute(exact_sum)
        connection.execute(keep)
        rows = connection.sql(summary).to_arrow_table().to_pylist()
        assert {row["metric"]: row["value"] for row in rows} == {
            row["metric"]: row["value"] for row in result.to_dicts()
        }
        assert connection.execute(per_query).fetchall() == [("run", "q", 1.0)]
        connection.execute(drop)


def test_a_metric_of_all_lists_is_not_weighted() -> None:
    with pytest.raises(sm.SpecError, match="auc cannot be weighted; leave out the weight"):
        evaluate(RUN, TRUTH, ["auc"], weight="traffic")


@pytest.mark.parametrize("most", ["0", "1.5", "-1", "half"])
def test_max_fpr_is_a_share(most: str) -> None:
    with pytest.raises(sm.SpecError, match="max_fpr must be a number above 0 and at most 1"):
        sm.parse(f"auc(max_fpr={most})")


def test_a_job_writes_the_number_and_no_column(tmp_path: Path) -> None:
    spec = sm.Spec(
        rankings={"data": RUN},
        labels={"data": TRUTH},
        metrics=["auc", "mrr"],
        output={"relation": "facts", "per_query": "per_query"},
    )
    with open_database(str(tmp_path / "shop.duckdb"), writing=True) as connection:
        with connect(connection) as engine:
            write(spec, engine)
        facts = connection.sql("select metric, value, numerator from facts").fetchall()
        assert ("auc", 0.75, None) in facts
        columns = connection.sql("describe per_query").fetchall()
        assert [name for name, *_ in columns][-2:] == ["query_id", "mrr"]


# -- the catalogue of items ---------------------------------------------------------------

ITEMS = pa.table({"item_id": [*"abcd"]})


@pytest.mark.parametrize("text", ["coverage@10", "gini@10"])
def test_without_the_catalogue_it_is_refused(text: str) -> None:
    with pytest.raises(
        sm.SpecError, match=f"{text} needs the items table, one row per item.*; give items"
    ):
        evaluate(RUN, TRUTH, [text])


def test_the_catalogue_is_read_only_if_it_is_needed() -> None:
    result = evaluate(RUN, TRUTH, ["mrr"], items=pa.table({"sku": ["a"]}))
    assert "sku" not in result.executed_sql
    assert result["mrr"] == 1


def test_items_that_the_catalogue_lacks_are_refused_with_examples() -> None:
    with pytest.raises(sm.InputError) as caught:
        evaluate(RUN, TRUTH, ["coverage@1"], items=ITEMS.slice(2))
    (problem,) = caught.value.problems
    assert "ranked items that are not in the items table: 2" in problem
    assert "\n  a\n  b\n" in problem


@pytest.mark.parametrize(
    ("items", "problem"),
    [
        ([*"abca"], "items that appear more than once in the items table: 1"),
        (["a", "b", None], "item_id is NULL in 1 row"),
        ([], "the table has no rows"),
    ],
)
def test_a_bad_catalogue_is_refused(items: list[str | None], problem: str) -> None:
    table = pa.table({"item_id": pa.array(items, pa.string())})
    with pytest.raises(sm.InputError, match=problem):
        evaluate(RUN, TRUTH, ["coverage@1"], items=table)


def test_numbers_and_texts_are_the_same_ids() -> None:
    run = pa.table({"query_id": ["q"], "item_id": [7], "score": [1.0]})
    truth = pa.table({"query_id": ["q"], "item_id": ["7"], "grade": [1]})
    items = pa.table({"item_id": ["7", "8"]})
    assert evaluate(run, truth, ["coverage@1"], items=items)["coverage@1"] == 1 / 2


def test_a_condition_makes_the_catalogue_smaller(tmp_path: Path) -> None:
    spec = sm.Spec(
        rankings={"relation": "run"},
        labels={"relation": "truth"},
        items={"relation": "shop", "where": "is_for_sale", "columns": {"item": "sku"}},
        metrics=["coverage@2", "gini@1", "auc"],
    )
    with duckdb.connect() as connection:
        connection.register("run", RUN)
        connection.register("truth", TRUTH)
        connection.execute("create table shop as select unnest(['a', 'b', 'c', 'd', 'e']) as sku")
        connection.execute("alter table shop add column is_for_sale boolean default true")
        connection.execute("update shop set is_for_sale = false where sku = 'e'")
        rows = connection.sql(sm.compile(spec)).to_arrow_table().to_pylist()
    assert {row["metric"]: row["value"] for row in rows} == {
        "coverage": 2 / 4,
        "gini": 3 / 4,
        "auc": 3 / 4,
    }


def test_gini_is_that_of_recbole() -> None:
    """The lines of RecBole's GiniIndex (recbole/evaluator/metrics.py) on its matrix of items."""
    matrix = [["a", "b", "c"], ["a", "c", "d"], ["a", "b", "f"], ["a", "f", "g"]]
    n_items = 10
    counted = sorted(Counter(item for row in matrix for item in row).values())
    places = range(n_items - len(counted) + 1, n_items + 1)
    total = sum((2 * i - n_items - 1) * x for i, x in zip(places, counted, strict=True))
    theirs = total / (len(matrix) * len(matrix[0])) / n_items

    rows = [
        (f"q{i}", item, -position)
        for i, row in enumerate(matrix)
        for position, item in enumerate(row)
    ]
    queries, items, scores = (list(column) for column in zip(*rows, strict=True))
    run = pa.table({"query_id": queries, "item_id": items, "score": scores})
    truth = pa.table({"query_id": queries, "item_id": items, "grade": [1] * len(rows)})
    catalogue = pa.table({"item_id": [*"abcdefghij"]})
    assert evaluate(run, truth, "gini@3", items=catalogue)["gini@3"] == pytest.approx(theirs)


@pytest.mark.parametrize("text", ["auc", "gauc(gauc_weight=positives)", "pnr(average=micro)"])
def test_what_is_no_mean_of_queries_is_not_estimated(text: str) -> None:
    spec = sm.Spec(rankings={"data": RUN}, labels={"data": TRUTH}, metrics=[text])
    assert not spec.settings(spec.measures[0]).is_mean
