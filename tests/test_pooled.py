"""Metrics of all lists together: where they stand, and what is refused."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import sqlmetrics as sm
from sqlmetrics import jobs
from sqlmetrics.engines.duckdb import DuckDB, open_database

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
    result = sm.evaluate(RUN, TRUTH, ["auc", "mrr"])
    assert result["auc"] == 3 / 4
    (row,) = [row for row in result.to_dicts() if row["metric"] == "auc"]
    assert (row["numerator"], row["denominator"], row["sum_sq"]) == (None, None, None)
    assert (row["n_queries"], row["n_skipped"], row["n_missing"]) == (2, 0, 0)


def test_a_metric_of_all_lists_has_no_column_in_the_per_query_table() -> None:
    result = sm.evaluate(RUN, TRUTH, ["auc", "mrr"])
    assert result.per_query().column_names == ["system", "query_id", "mrr"]
    alone = sm.evaluate(RUN, TRUTH, ["auc"])
    assert alone.per_query().column_names == ["system", "query_id"]
    assert "auc" in repr(alone)


def test_the_script_runs_as_it_is_printed() -> None:
    with duckdb.connect() as connection:
        connection.execute("create table run as select * from (values ('q', 'a', 2.0)) t(q, i, s)")
        connection.execute("create table truth as select 'q' as q, 'a' as i, 1 as g")
        result = sm.evaluate(
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
        keep, summary, per_query, drop, _ = result.sql.split(";\n")
        connection.execute(keep)
        rows = connection.sql(summary).to_arrow_table().to_pylist()
        assert {row["metric"]: row["value"] for row in rows} == {
            row["metric"]: row["value"] for row in result.to_dicts()
        }
        assert connection.execute(per_query).fetchall() == [("run", "q", 1.0)]
        connection.execute(drop)


def test_a_metric_of_all_lists_is_not_weighted() -> None:
    with pytest.raises(sm.SpecError, match="auc has no weighted form; leave out the weight"):
        sm.evaluate(RUN, TRUTH, ["auc"], weight="traffic")


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
        with DuckDB(connection) as engine:
            jobs.write(spec, engine)
        found = connection.sql("select metric, value, numerator from facts").fetchall()
        assert ("auc", 0.75, None) in found
        columns = connection.sql("describe per_query").fetchall()
        assert [name for name, *_ in columns][-2:] == ["query_id", "mrr"]
