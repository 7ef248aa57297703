"""Views that an export makes, in the database itself, have the numbers of an evaluation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from job_days import DUCKDB_USUALLY, clear, days, expected, job, log, same
from marked import by_turns, nightly

from sqlmetrics.catalog.dimension import column_of
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.exports.formats import export
from sqlmetrics.jobs.run import write

COLUMNS = ("ndcg_at_3", "recall_rel2_at_5", "mrr", "auc", "num_ret")
PARTS = ("ci_low", "ci_high", "numerator", "denominator")
SEGMENTS = {"": "all", "_by_country": "country"}


@pytest.fixture
def engine(request: pytest.FixtureRequest, servers: Any) -> Iterator[Any]:
    """A database with the tables of a job that has run."""
    with connect(servers.open(request.param)) as opened:
        rankings, labels = log()
        opened.load("runs", rankings)
        opened.load("truth", labels)
        try:
            write(job(), opened, days(0, 3))
            yield opened
        finally:
            clear(opened)


def execute(engine: Any, tool: str, folder: Path) -> None:
    """Execute what an export wrote, as its file says it."""
    (file,) = export(job(), tool, folder, dialect=engine.translation.dialect.name)
    comment, *statements = file.read_text().split(";\n")[:-1]
    for statement in (comment.split("\n\n", 1)[1], *statements):
        engine.execute(statement.strip())


@by_turns(0.6)
@pytest.mark.parametrize("engine", DUCKDB_USUALLY, indirect=True)
def test_a_view_of_a_metric_has_the_numbers_of_an_evaluation(engine: Any, tmp_path: Path) -> None:
    execute(engine, "views", tmp_path)
    execute(engine, "views", tmp_path)  # once more, in the place of those that are there
    by_metric: dict[tuple[str, str], dict[Any, Any]] = defaultdict(dict)
    for row in expected([0, 1, 2]).to_dicts():
        segment = (row["segment_value"],) if row["segment_name"] != "all" else ()
        key = (str(row["metric_date"]), row["system"], *segment)
        by_metric[row["segment_name"], column_of(row["metric"], row["k"])][key] = row
    for end, segment in SEGMENTS.items():
        for column in COLUMNS:
            view = f"metrics_shop_{column}{end}"
            rows = engine.table(f"select * from {view}").to_pylist()
            wanted = by_metric[segment, column]
            keys = ["metric_date", "system", *([segment] if end else [])]
            assert len(rows) == len(wanted)
            for row in rows:
                evaluated = wanted[tuple(str(row[key]) for key in keys)]
                assert row["n_queries"] == evaluated["n_queries"]
                assert same(row[column], evaluated["value"])
                for part in {*PARTS} & {*row}:
                    assert same(row[part], evaluated[part]), part
            assert ({*PARTS} <= {*rows[0]}) == (column not in ("auc", "num_ret"))
            engine.execute(f"drop view {view}")


@pytest.mark.parametrize(
    "engine", [nightly("spark", pytest.mark.xdist_group("spark"))], indirect=True
)
def test_a_metric_view_of_spark_sums_as_an_evaluation_does(engine: Any, tmp_path: Path) -> None:
    """The statements for Databricks without what only people read: Spark 4.2 executes them."""
    execute(engine, "databricks", tmp_path)
    evaluated = expected([0, 1, 2]).to_dicts()
    for end, segment in (("all", "all"), ("by_country", "country")):
        keys = ["system", *([segment] if end != "all" else [])]
        measures = ", ".join(f"measure({column}) as {column}" for column in COLUMNS)
        view = f"metrics_shop_{end}_metric_view"
        query = f"select {', '.join([*keys, measures])} from {view} group by {', '.join(keys)}"
        rows = engine.driver.table(query).to_pylist()
        assert len(rows) == (2 if end == "all" else 4)
        for row in rows:
            mine = [
                other
                for other in evaluated
                if (other["segment_name"], other["system"]) == (segment, row["system"])
                and (end == "all" or other["segment_value"] == row["country"])
            ]
            for column in COLUMNS:
                parts = [
                    other for other in mine if column_of(other["metric"], other["k"]) == column
                ]
                assert same(row[column], together(column, parts)), (column, row)
        engine.execute(f"drop view {view}")


def together(column: str, rows: list[dict[str, Any]]) -> float | None:
    """A metric of several days, by hand."""
    if column == "auc":
        return rows[0]["value"] if len(rows) == 1 else None
    if column == "num_ret":
        return sum(row["value"] for row in rows)
    return sum(row["numerator"] for row in rows) / sum(row["denominator"] for row in rows)
