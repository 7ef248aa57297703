"""Nothing is lost in the tables of jobs: columns, GRANTs, days, types, and files of others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from job_days import (
    CLICK_JOB,
    CLICK_TABLES,
    FIRST,
    METRICS,
    check,
    clear,
    click_log,
    days,
    facts,
    job,
    log,
    reload,
)
from marked import by_turns, long

import sqlmetrics as sm
from sqlmetrics.cli import cli
from sqlmetrics.engines.database import connect
from sqlmetrics.jobs.checks.verdict import verdicts
from sqlmetrics.jobs.destination import check_destination, destination
from sqlmetrics.jobs.files import CLIENTS, compile_job
from sqlmetrics.jobs.missing_days import open_days
from sqlmetrics.jobs.publish import publish
from sqlmetrics.jobs.run import write
from sqlmetrics.jobs.views import PARTS, name_in_views

OTHER = ["ap", "mrr"]
FAST = ("duckdb", "sqlite", "postgres")
SLOW = ("mariadb", "chdb", "spark")


def cells(*names: str, later: Sequence[str] = ()) -> list[Any]:
    """Databases that are tried in every run, and others in long ones."""
    now = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]
    return [*now, *(long(name, pytest.mark.xdist_group(name)) for name in later)]


DUCKDB_CELL = cells("duckdb", later=(*FAST[1:], *SLOW))
"""What Python decides, and no database has to show by itself in every run."""


@pytest.fixture(params=cells(*FAST, later=SLOW))
def engine(request: pytest.FixtureRequest, servers: Any) -> Iterator[Any]:
    """A database with the log in a place of its own."""
    yield from opened(request.param, servers)


@pytest.fixture(params=DUCKDB_CELL)
def any_engine(request: pytest.FixtureRequest, servers: Any) -> Iterator[Any]:
    """The same; the others in long runs."""
    yield from opened(request.param, servers)


@pytest.fixture(params=cells("duckdb", "postgres", later=("sqlite", "mariadb")))
def client(request: pytest.FixtureRequest, servers: Any) -> Iterator[Any]:
    """The same, where compiled text is executed here."""
    yield from opened(request.param, servers)


def opened(name: str, servers: Any) -> Iterator[Any]:
    with connect(servers.open(name)) as engine:
        for table, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(table, rows)
        try:
            yield engine
        finally:
            clear(engine)


def dialect(engine: Any) -> str:
    return str(engine.translation.dialect.name)


def carry_out(engine: Any, spec: sm.Spec, start: int, end: int) -> None:
    """A compiled job, with the days in the place of the client's parameters."""
    name = dialect(engine)
    files = compile_job(spec, name)
    text = "\n".join(content for file, content in files.items() if file.endswith(".sql"))
    for parameter, number in (("start", start), ("end", end)):
        day = f"'{FIRST + timedelta(number)}'"
        text = text.replace(CLIENTS[name].parameter.format(name=parameter), day)
    if name == "duckdb":
        engine.driver._connection.execute(text)
    elif name == "postgres":
        engine.driver._connection.execute(text, prepare=False)
    elif name == "sqlite":
        engine.driver._connection.executescript(text)
    else:
        for statement in filter(str.strip, re.split(r";\n(?:\n|$)", text)):
            engine.driver.execute(statement)


def metrics_in(engine: Any, view: str = "metrics_wide") -> list[str]:
    """The metrics that a wide view has, in its order."""
    names = list(engine.columns(view))[5:]
    return [name for name in names if not name.endswith(tuple(f"_{part}" for part in PARTS))]


@by_turns(1)
def test_compiled_jobs_share_a_fact_table(client: Any) -> None:
    """Each leaves the other's columns and views alone, and a live run those of both."""
    shop, other = job(), job("other", metrics=OTHER)
    if dialect(client) == "sqlite":  # its text cannot add a column unless it is there
        for spec in (shop, other):
            write(spec, client, days(0, 1))
        client.execute("drop view metrics_wide")
    shop_columns = ["ndcg_at_3", "recall_rel2_at_5", "mrr", "auc", "num_ret"]
    for spec, ends in ((shop, (0, 2)), (other, (0, 2)), (shop, (1, 3)), (other, (1, 3))):
        carry_out(client, spec, *ends)
    check(client, [0, 1, 2])
    assert metrics_in(client, "metrics_wide_shop") == shop_columns
    assert metrics_in(client, "metrics_wide_other") == OTHER
    counts = "select count(*), count(distinct spec), count(mrr) from metrics_wide_"
    for name in ("shop", "other"):
        assert client.rows(f"{counts}{name}")[0][1:] == (1, client.rows(f"{counts}{name}")[0][0])
    assert client.find("metrics_wide") is None
    write(shop, client, days(2, 4))
    for spec in (other, shop):
        carry_out(client, spec, 3, 4)
    assert metrics_in(client) == [*shop_columns, "ap"]
    write(other, client, days(4, 5))
    check(client, [0, 1, 2, 3])
    assert metrics_in(client) == [*shop_columns, "ap"]
    shared = "select count(ap), count(ndcg_at_3) from metrics_wide where segment_name = 'all'"
    assert client.rows(f"{shared} and spec = 'other'") == [(10, 0)]
    assert client.rows(f"{shared} and spec = 'shop'") == [(0, 8)]


def test_a_compiled_job_may_ask_for_other_metrics(client: Any) -> None:
    """The next night does not fail; on PostgreSQL its wide view keeps what was granted on it."""
    carry_out(client, job(metrics=["mrr", "ap"]), 0, 2)
    is_postgres = dialect(client) == "postgres"
    if dialect(client) in ("sqlite", "mariadb"):  # no guarded ADD COLUMN, or an older server
        client.execute("alter table metrics_of_queries add column hit_at_1 double")
    with analyst(client, "metrics_wide_shop", "ap"):
        carry_out(client, job(metrics=["hit@1", "mrr"]), 2, 4)
        before = ["mrr", "ap", "hit_at_1"]
        columns = metrics_in(client, "metrics_wide_shop")
        assert columns == (before if is_postgres else ["hit_at_1", "mrr"])
        if is_postgres:
            assert client.rows("select count(*), count(ap) from metrics_built")[0][1] == 0
    assert client.rows("select count(distinct metric_date) from metrics_wide_shop") == [(4,)]


class analyst:  # noqa: N801 (it reads like a function)
    """Somebody who was granted a view, and built one upon it; both stay while the block lasts."""

    def __init__(self, engine: Any, view: str, column: str) -> None:
        self.engine, self.view = engine, view
        self.run = getattr(engine, "driver", engine).execute
        self.column = column

    def __enter__(self) -> None:
        self.run(f"create view metrics_built as select spec, {self.column} from {self.view}")
        if dialect(self.engine) == "postgres":
            self.run("create role analyst")
            self.run(f"grant select on {self.view} to analyst")

    def __exit__(self, failure: Any, *_: object) -> None:
        granted = (
            "select count(*) as n from information_schema.role_table_grants "
            f"where grantee = 'analyst' and table_name = '{self.view}'"
        )
        try:
            if dialect(self.engine) == "postgres" and failure is None:
                assert self.engine.driver.rows(granted) == [(1,)]
        finally:
            self.run("drop view metrics_built")
            if dialect(self.engine) == "postgres":
                self.run("drop owned by analyst")
                self.run("drop role analyst")


@by_turns(1.1)
def test_the_wide_view_only_ever_gains_columns(engine: Any) -> None:
    write(job(), engine, days(0, 3))
    before = metrics_in(engine)
    with analyst(engine, "metrics_wide", "ndcg_at_3"):
        write(job(metrics=["hit@1", "mrr"]), engine, days(2, 4))
        assert metrics_in(engine) == [*before, "hit_at_1"]
        day = "select count(*), count(ndcg_at_3) from metrics_wide where metric_date "
        rows, values = engine.rows(f"{day} < '{FIRST + timedelta(2)}'")[0]
        assert rows == values > 0
        rows, values = engine.rows(f"{day} >= '{FIRST + timedelta(2)}'")[0]
        assert rows > values > 0  # the day that had it keeps it
        write(job(metrics=["ap", "hit@1"]), engine, full_refresh=True)
        assert metrics_in(engine) == [*before, "hit_at_1", "ap"]
        assert engine.rows("select count(ndcg_at_3) from metrics_built")[0][0] > values
    write(job(), engine, days(0, 1), adopt=True)
    rows = engine.rows("select ndcg_at_3 from metrics_wide where ndcg_at_3 is not null")
    assert len(rows) > 0


def test_a_run_that_fails_leaves_the_days_and_is_in_the_log(engine: Any) -> None:
    """Here at its last statement: somebody's table is called like a view."""
    if dialect(engine) in ("clickhouse", "spark"):
        pytest.skip("not one transaction, and ClickHouse would replace the table")
    write(job(), engine, days(0, 2))
    engine.execute("drop view metrics_latest")
    engine.execute("create table metrics_latest (a integer)")
    before = facts(engine)
    is_undone = dialect(engine) in FAST
    message = "nothing is written" if is_undone else "the rows are written nevertheless"
    try:
        with pytest.raises(sm.EngineError, match=f"{message} .output.views: false"):
            write(job(), engine, days(1, 4))
    finally:
        engine.execute("drop table metrics_latest")
    assert (facts(engine) == before) == is_undone
    outcomes = engine.rows("select outcome, message from metrics_runs order by started_at")
    assert [outcome for outcome, _ in outcomes][-1] == "failed"
    assert "metrics_latest" in outcomes[-1][1] or "views" in outcomes[-1][1]
    write(job(), engine, days(1, 4))
    check(engine, [0, 1, 2, 3])


@by_turns(1.3)
def test_names_of_own_views() -> None:
    titles = ("shop", "Shop", 'it\'s; -- "one"', "x" * 40, "x" * 41, "日本", "a_b", "a-b", "$wide$")
    names = [name_in_views(title) for title in titles]
    assert len({*names}) == len(titles)
    assert names[0] == "shop"
    assert all(re.fullmatch(r"[a-z0-9_]{1,37}", name) for name in names)
    text = compile_job(job("$wide$ 'x'"), "postgres")["04_views.sql"]
    assert "do $widee$\n" in text


@by_turns(0.7)
def test_backfill_finds_days_that_lack_a_metric(any_engine: Any) -> None:
    write(job(), any_engine, days(0, 4))
    extended = job(metrics=[*METRICS, "hit@1"])
    write(extended, any_engine, days(2, 3))
    assert open_days(job(), any_engine, backfill=True) == [days(4, 6)]
    assert open_days(extended, any_engine, backfill=True) == [days(0, 2), days(3, 6)]
    for part in open_days(extended, any_engine, backfill=True):
        write(extended, any_engine, part)
    assert open_days(extended, any_engine, backfill=True) == []
    assert open_days(job(metrics=["mrr"]), any_engine, backfill=True) == []
    check_all(any_engine, "hit", 6)


def check_all(engine: Any, metric: str, n_days: int) -> None:
    query = f"select count(distinct metric_date) from metrics where metric = '{metric}'"
    assert engine.rows(query) == [(n_days,)]


@by_turns(0.9)
@pytest.mark.parametrize("name", cells("duckdb", later=FAST[1:]))
def test_backfill_of_a_click_log(name: str, servers: Any) -> None:
    """Lists and what users did come apart: a day without lists has none of their metrics."""
    fields = {"name": "log", "clicks": CLICK_JOB, "output": {"relation": "metrics"}}
    lists, with_clicks = (
        sm.Spec(**fields, metrics=metrics) for metrics in (["mrr"], ["mrr", "ctr@3"])
    )
    with connect(servers.open(name)) as engine:
        for table, rows in click_log(1).items():
            engine.load(table, rows)
        try:
            write(lists, engine)
            (interval,) = open_days(with_clicks, engine, backfill=True)
            write(with_clicks, engine, days(0, 3))
            (rest,) = open_days(with_clicks, engine, backfill=True)
            assert (rest.start, rest.end) == (days(0, 3).end, interval.end)
            write(with_clicks, engine, rest)
            mrr = f"metric = 'mrr' and metric_date = '{FIRST + timedelta(1)}'"
            engine.execute(f"delete from metrics where {mrr}")
            assert open_days(with_clicks, engine, backfill=True) == []
        finally:
            clear(engine, *CLICK_TABLES)


@by_turns(0.6)
def test_a_change_is_to_the_last_day_before(any_engine: Any) -> None:
    """`check` and the view have one rule: the last day of the same system and segment."""
    write(job(), any_engine, days(0, 2))
    rankings = log()[0]
    reload(any_engine, rankings.filter(pc.equal(rankings["system"], "new")))
    write(job(), any_engine, days(3, 5))
    reload(any_engine, rankings)
    write(job(), any_engine, days(5, 6))
    checked = job(checks=[{"metric": "mrr", "max_drop": 9, "segment": {"country": "*"}}])
    by_key = {
        (verdict.system, verdict.segment): verdict for verdict in verdicts(checked, any_engine)
    }
    same = any_engine.rows(
        "select case when previous_date is null then 1 else 0 end as is_first, is_same_definition "
        "from metrics_daily_change"
    )
    assert set(same) == {(1, None), (0, 1)}, "nothing is the same or another as nothing"
    rows = any_engine.table(
        "select * from metrics_daily_change where segment_name = 'country' and metric = 'mrr' "
        f"and metric_date = '{FIRST + timedelta(5)}'"
    ).to_pylist()
    assert len(rows) == len(by_key) == 4
    for row in rows:
        verdict = by_key[row["system"], f"country={row['segment_value']}"]
        assert verdict.compared == pytest.approx(row["value_before"])
        gap = str(row["previous_date"]) != str(FIRST + timedelta(4))
        assert verdict.note == (f"the day before is {row['previous_date']}" if gap else "")
    before = {(row["system"], str(row["previous_date"])) for row in rows}
    assert ("old's", str(FIRST + timedelta(1))) in before
    assert {day for system, day in before if system == "new"} == {str(FIRST + timedelta(4))}


def shop(folder: Path, *specs: sm.Spec) -> str:
    """A DuckDB file with the tables of jobs, some days done."""
    url = f"duckdb:///{folder}/shop.duckdb"
    with connect(url, create=True) as engine:
        for name, rows in zip(("runs", "truth"), log(), strict=True):
            engine.load(name, rows)
        for spec in (job(), *specs):
            write(spec, engine, days(0, 3))
    return url


@by_turns(0.8)
def test_what_is_published_is_as_it_was(tmp_path: Path) -> None:
    """Types, NOT NULL and the order of columns, in a file and in Parquet; also of views."""
    url, file, folder = shop(tmp_path), tmp_path / "bi.duckdb", tmp_path / "bi.v2"
    described = "select table_name, column_name, data_type, is_nullable from duckdb_columns() "
    described += "where table_name in ('metrics', 'metrics_of_queries', 'metrics_runs', "
    described += "'metrics_wide') and not internal order by table_name, column_index"
    with connect(url) as engine:
        write(job(metrics=["hit@1", "mrr"]), engine, full_refresh=True, allow_loss=3)
        engine.execute("alter table metrics add column note varchar")
        publish(job(), engine, str(file))
        publish(job(), engine, f"{folder}/")
        wanted = engine.rows(described)
    with duckdb.connect(str(file), read_only=True) as reader:
        assert reader.execute(described).fetchall() == wanted
        assert ("metrics", "k", "INTEGER", False) in wanted
    schema = pq.read_schema(folder / "metrics.parquet")
    for table, name, kind, nullable in wanted:
        if table == "metrics":
            duckdb_types = {"int32": "INTEGER", "int64": "BIGINT", "double": "DOUBLE"}
            arrow_type = str(schema.field(name).type)
            assert duckdb_types.get(arrow_type, kind) == kind
            assert schema.field(name).nullable == nullable


@by_turns(0.9)
@pytest.mark.parametrize("name", cells("postgres", later=("duckdb", "sqlite", "mariadb")))
def test_published_days_stand_beside_others(name: str, tmp_path: Path, servers: Any) -> None:
    """Of another database: columns come along, other days stay, another definition is refused."""
    url = shop(tmp_path, job("other", metrics=OTHER))
    urls = {"duckdb": f"duckdb:///{tmp_path}/bi.duckdb", "sqlite": f"sqlite:///{tmp_path}/b.db"}
    target = urls.get(name) or servers.connection(name)
    with connect(url) as engine, connect(target, create=True) as other:
        for table, rows in zip(("runs", "truth"), log(), strict=True):
            other.load(table, rows)
        try:
            write(job(metrics=["ap", "ndcg@3"]), other, days(4, 6))  # it lacks columns
            gone = job(metrics=["mrr", "hit@1"])
            write(gone, engine, days(0, 1))
            publish(gone, engine, target)  # its table has columns that this spec does not ask for
            assert {key[0][-1] for key in facts(other)} == set("12356")
            assert metrics_in(other)[-1] == "hit_at_1"
            assert other.rows("select count(*) from metrics_runs") == [(3,)]
            assert other.rows("select count(*) from metrics where spec = 'other'") == [(0,)]
            linear = job(metrics=METRICS, conventions={"gain": "linear"})
            write(linear, engine, full_refresh=True, allow_loss=1)
            write(linear, engine, days(0, 3))
            engine.execute(f"delete from metrics where metric_date > '{FIRST + timedelta(2)}'")
            before = facts(other)
            with pytest.raises(sm.SpecError, match="another definition of ndcg@3"):
                publish(linear, engine, target)
            with pytest.raises(sm.SpecError, match="another definition of ndcg@3"):
                check_destination(linear, engine, destination(target), days(0, 3))
            assert facts(other) == before
            with pytest.raises(sm.SpecError, match=r"--allow-loss \d deletes numbers"):
                publish(linear, engine, target, full_refresh=True)
            assert facts(other) == before
            publish(linear, engine, target, full_refresh=True, allow_loss=6)
            assert {key[0][-1] for key in facts(other)} == set("123")
        finally:
            clear(other)


def run(folder: Path, *arguments: str) -> Any:
    (folder / "shop.yml").write_text(job().model_dump_json(exclude_none=True))
    line = ["run", str(folder / "shop.yml"), "--db", str(folder / "shop.duckdb")]
    return CliRunner().invoke(cli, [*line, "--backfill", *arguments])


@by_turns(0.9)
def test_a_bad_place_is_told_before_anything_is_computed(tmp_path: Path) -> None:
    shop(tmp_path)
    (tmp_path / "folder.duckdb").mkdir()
    (tmp_path / "text").write_text("a file")
    (tmp_path / "notes.db").write_text("this is no database of DuckDB's")
    with duckdb.connect(str(tmp_path / "sales.duckdb")) as connection:
        connection.execute("create table orders as select 1 as a")
    refused = {
        "out.csv": "unknown kind of file '.csv'",
        "folder.duckdb": "a folder has this name; give FILE.duckdb",
        "text": "a file has this name; give FILE.duckdb",
        "text/bi.duckdb": "is no folder",
        "notes.db": "the file is not a DuckDB database",
        "shop.duckdb": "this is the database itself",
        "sales.duckdb": "the file holds other tables, which would be replaced: orders",
        "new.duckdb --storage-version v0": "unknown storage version 'v0",
        "new --storage-version v1.5.0": "--publish FILE.duckdb",
    }
    names = sorted(path.name for path in tmp_path.iterdir())
    for argument, message in refused.items():
        file, *options = argument.split()
        result = run(tmp_path, "--publish", str(tmp_path / file), *options)
        assert result.exit_code in (1, 2, 3)
        assert message in f"{result.output}{result.exception}", argument
    for options, message in (
        (["--publish", "duckdb://"], "is a database in memory"),
        (["--publish", f"sqlite:///{tmp_path}/text/bi.db"], "is no folder"),
        (["--publish", f"postgresql://nobody@localhost:1/{tmp_path.name}"], "cannot open"),
        (["--storage-version", "v1.5.0"], "add --publish FILE.duckdb"),
    ):
        result = run(tmp_path, *options)
        assert message in f"{result.output}{result.exception}", options
    with duckdb.connect(str(tmp_path / "shop.duckdb"), read_only=True) as reader:
        assert reader.execute("select count(*) from metrics_runs").fetchone() == (1,)
    assert sorted({path.name for path in tmp_path.iterdir()} - {"shop.yml"}) == names
    result = run(tmp_path, "--publish", str(tmp_path / "bi"))
    assert result.exit_code == 0, result.output
    assert run(tmp_path, "--publish", str(tmp_path / "bi")).exit_code == 0
    assert (tmp_path / "bi" / "metrics.parquet").is_file()


def test_one_row_is_no_rows(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute(
            "create table runs as select 'q' as query_id, 'a' as item_id, 1 as score"
        )
        connection.execute(
            "create table truth as select 'q' as query_id, 'a' as item_id, 1 as grade"
        )
    (tmp_path / "one.yml").write_text(
        "name: one\nrankings: {relation: runs, columns: {score: score}}\n"
        "labels: {relation: truth}\nmetrics: [mrr]\noutput: {relation: metrics}\n"
    )
    line = ["run", str(tmp_path / "one.yml"), "--db", str(tmp_path / "shop.duckdb")]
    result = CliRunner().invoke(cli, line)
    assert "metrics: 1 row of one, " in result.stderr


@by_turns(0.7)
def test_tables_of_others_are_not_written_to(tmp_path: Path) -> None:
    spec = (
        "name: one\nrankings: {relation: runs, columns: {score: score, date: ds}}\n"
        "labels: {relation: truth}\nmetrics: [mrr]\noutput: "
    )
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute(
            "create table runs as select 'q' as query_id, 'a' as item_id, 1 as score, "
            "date '2026-01-01' as ds; "
            "create table truth as select 'q' as query_id, 'a' as item_id, 1 as grade"
        )
    cells = {
        "{relation: runs, views: false}": "output.relation: 'runs' already exists and",
        "{relation: facts, per_query: truth}": "output.per_query: 'truth' already exists and",
        "{relation: facts, runs: Truth}": "output.runs: 'Truth' already exists and",
        "{relation: facts, per_query: Facts}": "each output table needs its own name",
        "{relation: no.facts}": "output.relation: the schema 'no' of 'no.facts' and 3 other "
        "tables does not exist",
    }
    for output, message in cells.items():
        (tmp_path / "shop.yml").write_text(spec + output)
        for options in ([], ["--backfill"], ["--publish", f"duckdb:///{tmp_path}/shop.duckdb"]):
            line = ["run", str(tmp_path / "shop.yml"), "--db", str(tmp_path / "shop.duckdb")]
            result = CliRunner().invoke(cli, [*line, *options])
            assert message in f"{result.output}{result.exception}", (output, options)
    debugged = CliRunner().invoke(cli, ["debug", *line[1:4]]).output
    assert "run can write     no: there is no schema no\n" in debugged
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        names = [name for (name,) in connection.execute("show tables").fetchall()]
        assert names == ["runs", "truth"]
        assert len(connection.execute("from runs").description) == 4
        assert len(connection.execute("from truth").fetchall()) == 1
    (tmp_path / "shop.yml").write_text(spec + "{relation: a.facts}")
    new = ["--publish", f"duckdb:///{tmp_path}/new.duckdb"]
    result = CliRunner().invoke(cli, [*line, *new])
    assert "a new database has no schema for 'a.facts'" in str(result.exception)
    assert not (tmp_path / "new.duckdb").exists()
    (tmp_path / "shop.yml").write_text(spec + "{relation: facts}")
    result = CliRunner().invoke(cli, [*line, "--start", "2026-02-01"])
    assert "the table has no rows from 2026-02-01" in str(result.exception)


def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path, monkeypatch: Any) -> None:
    shop(tmp_path)
    line = ["run", str(tmp_path / "shop.yml"), "--db"]
    (tmp_path / "shop.yml").write_text(
        "name: one\nrankings: {file: runs.parquet}\nlabels: {file: truth.csv}\nmetrics: [mrr]\n"
        "output: {relation: metrics}\n"
    )
    result = CliRunner().invoke(cli, [*line, str(tmp_path / "no" / "shop.duckdb")])
    assert "there is no folder" in str(result.exception)

    def locked(*_: Any, **__: Any) -> None:
        raise duckdb.IOException(
            'IO Error: Could not set lock on file "shop.duckdb": Conflicting lock is held in '
            "/usr/bin/python (PID 12). See also https://duckdb.org/docs"
        )

    monkeypatch.setattr(duckdb, "connect", locked)
    result = CliRunner().invoke(cli, [*line, str(tmp_path / "shop.duckdb")])
    assert "another process has it open (PID 12); stop it" in str(result.exception)
