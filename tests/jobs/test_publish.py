"""`run --publish`: what a dashboard reads is replaced whole, while it is read."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from click.testing import CliRunner
from command import sqlmetrics
from conftest import peer
from job_days import KEY, METRICS, TABLES, check, clear, days, facts, job, log
from job_files import client
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.cli import cli
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.publish import publish
from sqlmetrics.jobs.run import write
from sqlmetrics.spec.source import Output

OLDER = "v1.5.0" if duckdb.__version__ >= "1.5" else "v1.4.0"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with three days."""
    file = tmp_path_factory.mktemp("shop") / "shop.duckdb"
    with connect(f"duckdb:///{file}", create=True) as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        write(job(), engine, days(0, 3))
    return file


@pytest.fixture
def shop(made: Path, tmp_path: Path) -> str:
    """A copy of it."""
    shutil.copy(made, tmp_path / "shop.duckdb")
    return f"duckdb:///{tmp_path}/shop.duckdb"


@by_turns(1.2)
def test_a_reader_sees_the_old_file_or_the_new_one(shop: str, tmp_path: Path) -> None:
    file = tmp_path / "new" / "published.duckdb"
    with connect(shop) as engine:
        assert publish(job(), engine, str(file)) == [str(file)]
    with duckdb.connect(str(file), read_only=True) as reader:
        count = "select count(distinct metric_date) from metrics"
        assert reader.execute(count).fetchone() == (3,)
        with connect(shop) as engine:
            write(job(), engine)
            publish(job(), engine, str(file))
        assert reader.execute(count).fetchone() == (3,), "an open file stays as it is"
    with connect(f"duckdb:///{file}?read_only=1") as engine:
        check(engine, [*range(6)])
        for view in ("wide", "latest", "daily_change", "rollup", "running"):
            assert engine.rows(f"select count(*) from metrics_{view}")[0][0] > 0
        macro = "select count(*) from duckdb_functions() where function_name = 'ndcg'"
        assert engine.rows(macro) == [(1,)]
    assert [path.name for path in file.parent.iterdir()] == ["published.duckdb"]


def of_lake(folder: Path, table: str) -> list[dict[str, Any]]:
    """The rows that a table of Delta has now."""
    rows = peer("deltalake").DeltaTable(folder / table).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: [str(row[name]) for name in row if name in KEY])


@by_turns(2)
def test_tables_of_delta_change_by_one_commit(
    shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days and specs that are not published stay, columns come, and a second writer is refused."""
    deltalake, lake = peer("deltalake"), tmp_path / "new" / "lake"
    with connect(shop) as engine:
        paths = publish(job(), engine, f"delta:{lake}")
        assert paths[-1] == f"{lake}/metrics", "the fact table is the last one"
        write(job("other"), engine, days(1, 2))
        publish(job("other"), engine, f"delta:{lake}/")
        engine.execute("delete from metrics where metric_date < '2026-01-02' and spec = 'shop'")
        write(job(metrics=[*METRICS, "hit@1"]), engine, days(1, 4))
        publish(job(metrics=[*METRICS, "hit@1"]), engine, f"delta:{lake}")
        numbers, other_facts = facts(engine), facts(engine, "other")
    rows = of_lake(lake, "metrics")
    published = {
        tuple(str(row[name]) for name in KEY): row for row in rows if row["spec"] == "shop"
    }
    assert len(published) == sum(row["spec"] == "shop" for row in rows)
    first = {key for key in published if key[0] == "2026-01-01"}
    assert (len(first), published.keys() - first) == (30, numbers.keys())
    assert all(published[key]["value"] == row["value"] for key, row in numbers.items())
    assert sum(row["spec"] == "other" for row in rows) == len(other_facts)
    queries = of_lake(lake, "metrics_of_queries")
    assert {row["metric_date"].day for row in queries if row["hit_at_1"] is not None} == {2, 3, 4}
    assert len(of_lake(lake, "metrics_runs")) == 3
    assert len(of_lake(lake, "metrics_metrics")) == len(METRICS) + 1
    table = deltalake.DeltaTable(lake / "metrics")
    assert [change["operation"] for change in table.history()] == ["WRITE"] * 3
    assert not table.schema().fields[0].nullable
    monkeypatch.setattr(deltalake.DeltaTable, "is_deltatable", lambda _: False)
    with connect(shop) as engine:  # as if it had been made in between
        with pytest.raises(sm.EngineError, match="already exists"):
            publish(job(), engine, f"delta:{lake}")
        monkeypatch.undo()
        changed = job(conventions={"gain": "linear"})
        with pytest.raises(sm.SpecError, match=r"ndcg@3.*definition|definition.*ndcg@3"):
            publish(changed, engine, f"delta:{lake}")
        with pytest.raises(
            sm.SpecError, match="--full-refresh cannot be published to tables of De"
        ):
            publish(job(), engine, f"delta:{lake}", full_refresh=True)
        with pytest.raises(sm.SpecError, match="Iceberg's tables are written by Trino"):
            publish(job(), engine, "iceberg:lake")
    assert of_lake(lake, "metrics") == rows


@by_turns(0.8)
def test_an_export_reads_a_file_of_a_schema(shop: str, tmp_path: Path) -> None:
    """The file has the names of the database, so the queries of an export are the same there."""
    output = Output(relation='"My Marts".metrics', per_query='"My Marts".of_queries')
    spec, file = job().model_copy(update={"output": output}), tmp_path / "published.duckdb"
    (tmp_path / "spec.yml").write_text(spec.model_dump_json(exclude_none=True))
    (tmp_path / "profiles.yml").write_text("outputs: {dev: {type: duckdb, path: shop.duckdb}}")
    with connect(shop) as engine:
        engine.execute('create schema "My Marts"')
        write(spec, engine, days(0, 3))
        for _ in range(2):
            publish(spec, engine, str(file))
    for tool in ("evidence", "grafana"):
        completed = sqlmetrics("export", tool, "spec.yml", folder=tmp_path)
        is_for_another = "is of duckdb, for which export grafana is not made; the files are for"
        assert (is_for_another in completed.stderr) == (tool == "grafana")
    (query,) = (tmp_path / "evidence").glob("sources/*/all_queries.sql")
    refused = sqlmetrics(
        "export", "grafana", "spec.yml", "--target", "dev", folder=tmp_path, expect=2
    )
    assert "unknown dialect of grafana 'duckdb'; known: postgres; name it by" in refused.stderr
    with duckdb.connect(str(file), read_only=True) as reader:
        assert len(reader.execute(query.read_text()).fetchall()) == 6
        names = '"My Marts".metrics_latest', '"My Marts".of_queries', "metrics", "metrics_latest"
        assert all(reader.execute(f"from {name}").fetchall() for name in names)


@by_turns(1.9)
def test_a_failure_leaves_the_old_file(shop: str, tmp_path: Path) -> None:
    file = tmp_path / "published.duckdb"
    with connect(shop) as engine:
        publish(job(), engine, str(file))
        before = file.read_bytes()
        with pytest.raises(sm.SpecError, match="unknown storage version 'v0"):
            publish(job(), engine, str(file), storage_version="v0.0.0")
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["published.duckdb", "shop.duckdb"]


@by_turns(0.7)
def test_an_older_duckdb_reads_it(shop: str, tmp_path: Path) -> None:
    """The command is DuckDB 1.5: it reads files made for it, and no file of 2.0."""
    file = tmp_path / "published.duckdb"
    command = [client("duckdb"), "-readonly", "-noheader", "-list", str(file)]
    version = subprocess.check_output([*command[:1], "--version"], text=True)
    if not version.startswith("v1."):
        pytest.skip("the duckdb command is not 1.x; pip install 'duckdb-cli<2'")
    with connect(shop) as engine:
        publish(job(), engine, str(file), storage_version=OLDER)
    query = "select count(distinct metric_date) from metrics_wide"
    completed = subprocess.run([*command, query], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "3"


@by_turns(1.7)
def test_parquet(shop: str, tmp_path: Path) -> None:
    with connect(shop) as engine:
        wanted = engine.rows("select count(*), sum(numerator) from metrics")
        paths = publish(job(), engine, str(tmp_path / "bi"))
    assert paths == [str(tmp_path / "bi" / f"{name}.parquet") for name in TABLES]
    with duckdb.connect() as reader:
        totals = reader.execute(f"select count(*), sum(numerator) from '{paths[0]}'").fetchall()
    assert totals == [pytest.approx(wanted[0])]
    with connect(shop) as engine:  # the same rows in another order are the same file
        for name in TABLES:
            engine.execute(f"create or replace table held as from {name} order by random()")
            engine.execute(f"delete from {name}")
            engine.execute(f"insert into {name} from held")
        assert publish(job(), engine, str(tmp_path / "again")) != paths
    for file in map(Path, paths):
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name


@by_turns(1)
@pytest.mark.xdist_group("postgres")
def test_another_database(shop: str, servers: Any) -> None:
    url = servers.connection("postgres")
    with connect(shop) as engine, connect(url) as other:
        try:
            for name, rows in zip(("runs", "truth"), log(), strict=True):
                other.load(name, rows)
            write(job("other"), other, days(0, 1))
            assert publish(job(), engine, url) == [*TABLES]
            check(other, [0, 1, 2])
            write(job(), engine)
            publish(job(), engine, url)
            check(other, [*range(6)])
            assert {key[0] for key in facts(other, "other")} == {"2026-01-01"}
            query = "select count(*), count(distinct run_id) from metrics_runs"
            assert other.rows(f"{query} where spec = 'shop'") == engine.rows(query)
        finally:
            clear(other)


@pytest.mark.xdist_group("chdb")
def test_a_database_without_transactions(shop: str, servers: Any) -> None:
    """Days are exchanged there as a run does it, and the run log is only added to."""
    url = servers.open("chdb")
    with connect(shop) as engine, connect(url) as other:
        try:
            for _ in range(2):
                with patch("sqlmetrics.jobs.publish.connect", return_value=connect(url)):
                    publish(job(), engine, "clickhouse://here/default")
                write(job(), engine)
            check(other, [*range(6)])
            assert other.rows("select count(*) from metrics_runs") == [(2,)]
        finally:
            clear(other)


@by_turns(0.8)
def test_on_the_command_line(shop: str, tmp_path: Path) -> None:
    text = job().model_dump_json(exclude_none=True)
    (tmp_path / "shop.yml").write_text(text)
    file = tmp_path / "published.duckdb"
    line = ["run", str(tmp_path / "shop.yml"), "--db", shop.removeprefix("duckdb:///")]
    result = CliRunner().invoke(cli, [*line, "--backfill", "--publish", str(file)])
    assert result.exit_code == 0, result.output
    assert "metrics: " in result.output
    assert f"published {file}" in result.output
    with connect(f"duckdb:///{file}?read_only=1") as engine:
        check(engine, [*range(6)])
    second = job("second").model_copy(update={"output": Output(relation="metrics")})
    (tmp_path / "second.yml").write_text(second.model_dump_json(exclude_none=True))
    second_line = ["run", str(tmp_path / "second.yml"), *line[2:], "--publish", str(file)]
    result = CliRunner().invoke(cli, second_line)
    assert result.exit_code == 0, result.output
    with connect(f"duckdb:///{file}?read_only=1") as engine:
        for table, specs in (("metrics", 2), ("metrics_of_queries", 1)):
            assert engine.rows(f"select count(distinct spec) from {table}") == [(specs,)]
    with duckdb.connect(line[-1]) as connection:
        connection.execute("alter table metrics_of_queries rename to kept")
    lost = CliRunner().invoke(cli, second_line)
    assert "the file holds other tables, which would be replaced: metrics_of_q" in str(
        lost.exception
    )
    with duckdb.connect(line[-1]) as connection:
        connection.execute("alter table kept rename to metrics_of_queries")
    again = CliRunner().invoke(cli, [*line, "--backfill"])
    assert again.output == "no day of shop is missing\n"
    wrong = CliRunner().invoke(
        cli, [*line, "--publish", str(tmp_path / "x"), "--storage-version", "v1"]
    )
    assert "--publish FILE.duckdb" in str(wrong.exception)
