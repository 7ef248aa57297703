"""`run`, `validate` and `verify`: tables replaced whole or not at all, and what is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.engines.database import connect
from sqlmetrics.engines.duckdb import DuckDB, open_database
from sqlmetrics.jobs.exchange import Exchange
from sqlmetrics.jobs.run import write

SPEC = """\
name: {name}
rankings: {{relation: runs, columns: {{score: score, system: model}}}}
labels: {{relation: truth}}
metrics: {metrics}
output: {{relation: main.metrics, per_query: per_query}}
"""
TABLES = """
create table runs as select * from (values
    ('new', 'q1', 'a', 2.0), ('new', 'q1', 'b', 1.0),
    ('old', 'q1', 'b', 2.0), ('old', 'q2', 'c', 1.0)
) as t (model, query_id, item_id, score);
create table truth as
select * from (values ('q1', 'b', 1), ('q2', 'c', 2)) as t (query_id, item_id, grade);
"""
FACTS = [
    "spec",
    "metric_date",
    "system",
    "segment_name",
    "segment_value",
    "metric",
    "k",
    "value",
    "numerator",
    "denominator",
    "n_queries",
    "n_skipped",
    "n_missing",
    "sum_sq",
    "ci_low",
    "ci_high",
    "definition_hash",
    "run_id",
    "computed_at",
    "ci_method",
    "n_clusters",
    "sum_x",
    "sum_x2",
    "sum_w2",
    "sum_xw",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute(TABLES)
    return tmp_path


def spec(folder: Path, name: str = "shop", metrics: str = "[mrr, ndcg@10]") -> str:
    """The name of a spec file, written."""
    (folder / f"{name}.yml").write_text(SPEC.format(name=name, metrics=metrics))
    return f"{name}.yml"


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as connection:
        return connection.execute(query).fetchall()


def run(folder: Path, *arguments: str, expect: int = 0, **fields: str) -> Any:
    name = spec(folder, **fields)
    return sqlmetrics("run", name, "--db", "shop.duckdb", *arguments, folder=folder, expect=expect)


def test_a_run_writes_the_tables_of_the_contract(folder: Path) -> None:
    run(folder)
    columns = rows(folder, "select column_name from duckdb_columns() where table_name = 'metrics'")
    assert [name for (name,) in columns] == FACTS
    assert rows(folder, "select system, metric, k, value from metrics order by all") == [
        ("new", "mrr", 0, 0.25),
        ("new", "ndcg", 10, pytest.approx(0.31546487678572877, rel=1e-15)),
        ("old", "mrr", 0, 1.0),
        ("old", "ndcg", 10, 1.0),
    ]
    assert rows(folder, "select system, query_id, mrr from per_query order by all") == [
        ("new", "q1", 0.5),
        ("new", "q2", 0.0),
        ("old", "q1", 1.0),
        ("old", "q2", 1.0),
    ]
    key = "spec, metric_date, system, segment_name, segment_value, metric, k"
    assert rows(folder, f"select count(*) - count(distinct ({key})) from metrics") == [(0,)]


@by_turns(1)
def test_a_second_run_replaces_its_own_rows_and_no_others(folder: Path) -> None:
    run(folder)
    run(folder, name="other", metrics="[mrr]")
    first = rows(folder, "select run_id from metrics where spec = 'shop' limit 1")
    run(folder)
    assert rows(folder, "select spec, count(*) from metrics group by all order by all") == [
        ("other", 2),
        ("shop", 4),
    ]
    assert rows(folder, "select distinct run_id from metrics where spec = 'shop'") != first


@by_turns(1.2)
def test_new_metrics_are_new_columns(folder: Path) -> None:
    run(folder)
    run(folder, metrics="[mrr, 'recall(rel=2)@5']")
    assert rows(
        folder,
        "select system, query_id, ndcg_at_10, recall_rel2_at_5 from per_query "
        "where query_id = 'q2' order by all",
    ) == [("new", "q2", 0.0, 0.0), ("old", "q2", 1.0, 1.0)]


def test_bad_input_leaves_the_tables_as_they_were(folder: Path) -> None:
    run(folder)
    before = rows(folder, "from metrics order by all")
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("insert into truth values ('q1', 'b', 3)")
    assert "duplicate_labels=max_grade" in run(folder, expect=2).stderr
    assert rows(folder, "from metrics order by all") == before


@by_turns(1.6)
def test_a_run_that_fails_anywhere_changes_nothing(folder: Path) -> None:
    run(folder)
    tables = ("metrics", "per_query", "metrics_runs where outcome = 'replaced'")
    before = [rows(folder, f"from {table} order by all") for table in tables]
    the_spec = sm.Spec.read(folder / spec(folder, metrics="[mrr, ap, hit@3]"))
    statements = Exchange.statements
    for failing in range(5):

        def broken(self: Exchange, tables: set[str], failing: int = failing) -> Iterator[str]:
            texts = list(statements(self, tables))
            yield from [*texts[:failing], f"select * from nowhere_{failing}", *texts[failing:]]

        with (
            patch.object(Exchange, "statements", broken),
            open_database(str(folder / "shop.duckdb"), writing=True) as connection,
            connect(connection) as engine,
            pytest.raises(sm.EngineError, match=f"nowhere_{failing}"),
        ):
            write(the_spec, engine)
        after = [rows(folder, f"from {table} order by all") for table in tables]
        assert after[0] == before[0]
        width = len(before[1][0])  # the new metrics have their columns already
        assert [row[:width] for row in after[1]] == before[1]
        assert after[2] == before[2]
        failed = rows(folder, "select message from metrics_runs where outcome = 'failed'")
        assert len(failed) == failing + 1
        assert sum(f"nowhere_{failing}" in message for (message,) in failed) == 1


def test_a_dry_run_writes_nothing(folder: Path) -> None:
    out = run(folder, "--dry-run").stdout
    assert "delete from main.metrics\nwhere\n    spec = 'shop'\n" in out
    assert out.index("\nbegin;") < out.index("delete from main.metrics") < out.index("\ncommit;")
    assert rows(folder, "select count(*) from duckdb_tables()") == [(2,)]


def test_a_spec_without_output_cannot_run(folder: Path) -> None:
    (folder / "bare.yml").write_text(
        SPEC.split("output", maxsplit=1)[0].format(name="bare", metrics="[mrr]")
    )
    completed = sqlmetrics("run", "bare.yml", "--db", "shop.duckdb", folder=folder, expect=2)
    assert "add: output: {relation: ranking_metrics}" in completed.stderr


def test_validate_tells_whether_a_spec_fits(folder: Path) -> None:
    name = spec(folder)
    completed = sqlmetrics("validate", name, "--db", "shop.duckdb", folder=folder)
    assert completed.stderr == "shop.yml fits its tables: 2 metrics\n"
    (folder / name).write_text((folder / name).read_text().replace("model", "modle"))
    completed = sqlmetrics("validate", name, "--db", "shop.duckdb", folder=folder, expect=2)
    assert "unknown column 'modle'; did you mean 'model'?" in completed.stderr
    assert rows(folder, "select count(*) from duckdb_tables()") == [(2,)]


def test_validate_tells_wrong_types(folder: Path) -> None:
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("alter table truth alter grade type date using date '2026-01-01'")
    completed = sqlmetrics("validate", spec(folder), "--db", "shop.duckdb", folder=folder, expect=2)
    assert "grade is used as grade, a number, but has the type DATE" in completed.stderr


def test_verify_compares_every_metric(folder: Path) -> None:
    out = sqlmetrics("verify", spec(folder), "--db", "shop.duckdb", folder=folder)
    assert [line.split()[:2] for line in out.stdout.splitlines()[1:]] == [
        ["mrr", "12"],
        ["ndcg@10", "12"],
    ]
    assert "2 queries compared" in out.stderr


def test_verify_fails_where_the_numbers_differ(folder: Path) -> None:
    line = ["verify", spec(folder), "--db", "shop.duckdb", "--tolerance", "-1"]
    sqlmetrics(*line, folder=folder, expect=1)


def test_a_sample_is_of_whole_queries_and_always_the_same(folder: Path) -> None:
    from sqlmetrics.proof.verify import sampled

    with duckdb.connect() as connection:
        connection.execute(
            "create table runs as select q as query_id, i as item_id, i as score, 'm' as model "
            "from range(500) t(q), range(4) u(i)"
        )
        connection.execute("create table truth as select query_id, item_id, 1 as grade from runs")
        the_spec = sm.Spec.read(folder / spec(folder))
        with connect(connection) as engine:
            part, queries = sampled(the_spec, engine, most=100)
            again, _ = sampled(the_spec, engine, most=100)
            unsampled, every = sampled(the_spec, engine, most=500)
        assert (queries, every) == (100, 500)
        assert part == again
        assert unsampled is the_spec
        kept = f"select count(distinct query_id), count(*) from runs where {part.rankings.where}"
        assert connection.execute(kept).fetchall() == [(100, 400)]


def test_errors_can_be_read_by_programs(folder: Path) -> None:
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute("insert into truth values ('q1', 'b', 3)")
    line = ["verify", spec(folder), "--db", "shop.duckdb", "--errors", "json"]
    error = json.loads(sqlmetrics(*line, folder=folder, expect=2).stderr)
    assert error["error"] == "InputError"
    assert error["exit_code"] == 2
    assert error["problems"] == [
        {
            "table": "labels",
            "problem": "items that appear more than once for the same query: 1",
            "count": 1,
            "examples": [{"query_id": "q1", "item_id": "b", "rows": 2}],
            "remedy": "remove the repeated rows, or choose duplicate_labels=max_grade",
        }
    ]


DAILY = """\
name: daily
rankings: {relation: days, columns: {score: score, system: model, date: ds}}
labels: {relation: truth}
metrics: [ndcg@10, recall@3, mrr]
output: {relation: facts}
checks: [{metric: mrr, min: 0}]
"""


@by_turns(1)
def test_a_build_sends_at_most_60_statements(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known is not asked again; the second time there are tables, views and other days."""
    (folder / "daily.yml").write_text(DAILY)
    with duckdb.connect(str(folder / "shop.duckdb")) as shop:
        shop.execute(
            "create table days as select *, date '2026-01-01' + cast(day as integer) as ds "
            "from runs, range(3) as days(day)"
        )
    sent: list[str] = []

    def counting(method: Callable[[DuckDB, str], Any]) -> Callable[[DuckDB, str], Any]:
        def counted(driver: DuckDB, sql: str) -> Any:
            sent.append(sql)
            return method(driver, sql)

        return counted

    for name in ("_run", "_fetched", "_arrow", "described", "try_out", "estimate"):
        monkeypatch.setattr(DuckDB, name, counting(getattr(DuckDB, name)))
    for _ in range(2):
        sent.clear()
        sqlmetrics("build", "daily.yml", "--db", "shop.duckdb", folder=folder)
        assert 40 < len(sent) <= 60, "\n".join(sent)


FILES = """\
name: files
rankings: {file: runs.csv}
labels: {file: "truth*.csv"WHERE}
metrics: [mrr, recall@3]
output: {relation: facts}
"""


@by_turns(3)
def test_the_same_bytes_are_not_checked_twice(folder: Path) -> None:
    """Other bytes, metrics and files are, conditions on the time, and bad input each time."""
    (folder / "runs.csv").write_text("query_id,item_id,score\nq1,a,2\nq1,b,1\n")
    (folder / "truth.csv").write_text("query_id,item_id,grade\nq1,b,1\n")
    spec = folder / "files.yml"
    note = "checked the same bytes; they were not checked again"

    def again(status: int = 0) -> bool:
        return (
            note
            in sqlmetrics(
                "run", "files.yml", "--db", "f.duckdb", folder=folder, expect=status
            ).stderr
        )

    spec.write_text(FILES.replace("WHERE", ""))
    assert [again(), again(), again()] == [False, True, True]
    spec.write_text(FILES.replace("WHERE", "").replace("recall@3", "recall@2"))
    assert [again(), again()] == [False, True]
    (folder / "truth2.csv").write_text("query_id,item_id,grade\nq2,b,1\n")
    assert [again(), again()] == [False, True]
    (folder / "truth2.csv").write_text("query_id,item_id,grade\nq1,b,1\n")
    assert [again(2), again(2)] == [False, False]
    (folder / "truth2.csv").unlink()
    assert again()
    spec.write_text(FILES.replace("WHERE", ", where: current_date > date '2020-01-01'"))
    assert [again(), again()] == [False, False]
    spec.write_text(FILES.replace("WHERE", "").replace("truth*", "tru*"))
    (folder / "truth.csv").rename(folder / "trust.csv")
    assert [again(), again()] == [False, True]
    with duckdb.connect(str(folder / "f.duckdb")) as tables:
        rows = tables.sql(
            "select outcome, checked_input is null from facts_runs order by started_at"
        )
        failed = [is_null for outcome, is_null in rows.fetchall() if outcome == "failed"]
    assert failed == [True, True]


@by_turns(3)
def test_what_prints_or_checks_loads_no_arrow(folder: Path) -> None:
    """A quarter of the time that such a command took was that of libraries that it does not use."""
    name = spec(folder)
    with (folder / name).open("a") as file:
        file.write("checks: [{metric: mrr, min: 0}]\n")
    with connect(str(folder / "shop.duckdb")) as engine:
        write(sm.Spec.read(folder / name), engine)
    text = (
        "import sys; from sqlmetrics.cli import cli; "
        "cli(sys.argv[1:], standalone_mode=False); "
        "print(*{'pyarrow', 'numpy', 'pandas'} & {*sys.modules}, file=sys.stderr)"
    )
    database = ["--db", "shop.duckdb"]
    for words in (["compile", name], ["show", name, *database], ["check", name, *database]):
        command = [sys.executable, "-c", text, *words]
        completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        assert not completed.stderr.splitlines()[-1].strip(), words
