"""What is waited for is told, is bounded, and ends by a signal, with nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import sqlmetrics
from marked import by_turns

import sqlmetrics as sm
from sqlmetrics.engines import clickhouse, waiting
from sqlmetrics.engines.mysql import MySQL
from sqlmetrics.engines.postgres import SETTINGS, Postgres
from sqlmetrics.engines.registry import open_driver
from sqlmetrics.errors import EngineError, SpecError
from sqlmetrics.evaluation import execution
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.translation import Translation


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "TELL_AFTER", 0.2)
    monkeypatch.setattr(waiting, "TELL_EVERY", 0.4)


@contextmanager
def silent_server() -> Iterator[int]:
    """The port of a server that accepts and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@by_turns(2.5)
@pytest.mark.parametrize(
    ("scheme", "module"),
    [("postgresql", "psycopg"), ("mysql", "pymysql"), ("clickhouse", "clickhouse_connect")],
)
def test_a_server_that_says_nothing_is_told_and_given_up(
    scheme: str, module: str, tmp_path: Path
) -> None:
    pytest.importorskip(module)
    with silent_server() as port:
        url = f"{scheme}://ann@127.0.0.1:{port}/shop?connect_timeout=2"
        begun = time.monotonic()
        error = sqlmetrics("debug", "--connection", url, folder=tmp_path, expect=3).stderr
        assert time.monotonic() - begun < 15
        waits = [line for line in error.splitlines() if line.startswith("waiting")]
        assert len(waits) > 1, error
        address = f"{scheme}://ann@127.0.0.1:{port}/shop"
        assert f"s for {address} to answer; given up after 2 s (connect_timeout" in waits[0]
        assert f"error: cannot open {address}: " in error
        if scheme == "postgresql":
            for quiet in (["-q"], ["--errors", "json"]):
                command = ["debug", "--connection", url, *quiet]
                silent = sqlmetrics(*command, folder=tmp_path, expect=3).stderr
                assert "waiting" not in silent


SPELLED = {"postgres": "public.metrics", "mariadb": "sqlmetrics.metrics"}
"""The same table `metrics`, named with its schema."""


@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("kind", ["postgres", "mariadb", "sqlite"])
def test_a_lock_says_who_holds_it_and_is_given_up(
    kind: str, servers: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "m.db"
    sqlite3.connect(file).close()
    url = f"sqlite:///{file}" if kind == "sqlite" else servers.connection(kind)
    bounded = f"{url}{'&' if '?' in url else '?'}lock_timeout=1"
    with (
        open_driver(url) as other,
        other.alone("metrics"),
        other.transaction(),
        open_driver(bounded) as engine,
    ):
        other.name_session("shop 12345678")
        table = SPELLED.get(kind, "metrics")
        with pytest.raises(EngineError) as caught, engine.alone(table), engine.transaction():
            raise AssertionError
        if kind != "sqlite":
            at, lock = Translation(dialect_named(kind)), "is_used_lock({key})"
            if kind == "postgres":
                lock = "not pg_try_advisory_xact_lock({key})"
            for name in ("metrics", "METRICS", table, "other", "elsewhere.metrics"):
                key = at.dialect.writing.lock_key(name, at.name(name), lambda text: f"'{text}'")
                ((is_held,),) = engine.rows(f"select {lock.format(key=key)}")
                assert bool(is_held) == (name.casefold() in ("metrics", table)), name
    text = caplog.text
    assert "given up after 1 s (lock_timeout of the connection)" in text
    if kind == "sqlite":
        assert f"another process to let go of {str(file)!r}" in text
    assert "was not free within 1 s; try again, or raise lock_timeout" in str(caught.value)
    if kind == "postgres":
        assert "the lock of public.metrics, which pid " in text
        assert "sqlmetrics shop 12345678" in text
    with open_driver(bounded) as engine, engine.alone("metrics"), engine.transaction():
        pass
    with pytest.raises(SpecError, match="lock_timeout must be a number of seconds"):
        open_driver(f"{url}{'&' if '?' in url else '?'}lock_timeout=soon")


@pytest.mark.xdist_group("postgres")
def test_a_long_statement_says_what_it_is_for(
    servers: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with servers.open("postgres") as engine:
        engine.execute("-- the rows of each list\nselect pg_sleep(0.7)")
        count = len(caplog.records)
        engine.execute("select 1")
    assert count == 2, caplog.text
    assert "s for PostgreSQL" in caplog.text
    assert "the rows of each list" in caplog.text
    assert "statement_timeout" in caplog.text
    assert len(caplog.records) == count


@by_turns(2)
def test_duckdb_says_how_far_it_is(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Off a terminal in a line every ten seconds; to `progress` in a share of a hundred."""
    monkeypatch.setattr(execution, "PAUSE", 0.01)
    file = str(tmp_path / "rows.parquet")
    columns = "i // 20 as query_id, i as item_id, hash(i) % 1000 as score, i % 3 as grade"
    with open_driver("duckdb://") as engine:
        engine.execute(f"copy (select {columns} from range(2000000) as rows(i)) to '{file}'")
    reports: list[tuple[int, int, int]] = []
    sm.evaluate(
        file, file, ["ndcg@10"], plan="window", progress=lambda *report: reports.append(report)
    )
    assert reports
    assert all(0 <= percent <= total == 100 for percent, total, _ in reports)
    assert re.search(r"waiting 0 s for DuckDB: .*, \d+ % done".replace(" %", "%"), caplog.text)


SLOW = {
    "duckdb": (
        "select a.range as query_id, b.range as item_id, 1.0 as score from range(100000) as a, "
        "range(10000) as b, range(100) as c where a.range * b.range * c.range = -1"
    ),
    "sqlite": (
        "with recursive c(x) as (select 1 union all select x + 1 from c where x < 1000000000) "
        "select x as query_id, x as item_id, 1.0 as score from c where x < 0"
    ),
    "postgres": "select pg_sleep(60)::text as query_id, 'a' as item_id, 1.0 as score",
    "mariadb": "select sleep(60) as query_id, 'a' as item_id, 1e0 as score",
}


@pytest.mark.long
@pytest.mark.xdist_group("postgres")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", [*SLOW])
def test_a_signal_ends_a_query_in_one_line(
    kind: str, number: signal.Signals, servers: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    labels = "select 'a' as query_id, 'a' as item_id, 1 as grade"
    command = [sys.executable, "-m", "sqlmetrics", "evaluate", SLOW[kind], labels, "-m", "mrr"]
    if kind == "sqlite":
        sqlite3.connect(tmp_path / "m.db").close()
        command += ["--connection", "sqlite:///m.db"]
    elif kind != "duckdb":
        command += ["--connection", servers.connection(kind)]
    # Ctrl-C is heard by this process whatever started the tests: a shell's & ignores it
    script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    script += "import sqlmetrics.engines.waiting as w; w.TELL_AFTER = .3; import sys; "
    script += "sys.argv[0] = 'sqlmetrics'; from sqlmetrics.cli import main; main()"
    command[1:3] = ["-c", script]
    environment = os.environ | {"TMPDIR": str(folder)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=-1, stderr=-1, text=True
    ) as process:
        assert process.stderr
        assert process.stdout
        try:
            first = process.stderr.readline()
            assert first.startswith("waiting"), "it is in the query"
            begun = time.monotonic()
            process.send_signal(number)
            code = process.wait(20)
        finally:
            process.kill()  # the test ends, whatever the process does
        error = [line for line in process.stderr if not line.startswith("waiting")]
        assert process.stdout.read() == ""
    name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
    assert (code, error) == (128 + number, [f"stopped by {name}\n"])
    assert time.monotonic() - begun < 8
    assert [*folder.iterdir()] == []
    if kind == "mariadb":
        with servers.open(kind) as engine:
            sql = "select info from information_schema.processlist where info like '%sleep(6%'"
            assert engine.rows(f"{sql} and id <> connection_id()") == []
    if kind == "postgres":
        with servers.open(kind) as engine:
            sql = "select query from pg_stat_activity where query like '%pg_sleep(60)%' "
            assert engine.rows(sql + "and pid <> pg_backend_pid() and state = 'active'") == []


def test_a_query_of_clickhouse_is_killed_by_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def __init__(self, failure: type[BaseException] | None = None) -> None:
            self.failure = failure
            self.commands: list[tuple[str, dict[str, str] | None]] = []

        def command(self, sql: str, settings: dict[str, str] | None = None) -> None:
            self.commands.append((sql, settings))
            if self.failure:
                raise self.failure

        def close(self) -> None:
            pass

    pytest.importorskip("clickhouse_connect")
    killer = Client()
    opened: list[dict[str, Any]] = []

    def connect(arguments: dict[str, Any], *, session: bool) -> Client:
        opened.append(arguments)
        assert not session, "the session is held by the query"
        return killer

    monkeypatch.setattr(clickhouse, "_client", connect)
    busy = Client(KeyboardInterrupt)
    engine = clickhouse.Server(busy)
    engine._connect_arguments = {"host": "h", "session_id": "s"}
    with pytest.raises(KeyboardInterrupt):
        engine.execute("create table t as select 1")
    (settings,) = [settings for _, settings in busy.commands if settings]
    assert killer.commands == [
        (f"kill query where query_id = '{settings['query_id']}' async", None)
    ]
    assert "session_id" not in opened[0]


SPEC = """
version: 1
name: shop
rankings: {file: rank.parquet}
labels: {file: labels.parquet}
metrics: [mrr]
output: {relation: facts}
"""


def write_spec(folder: Path) -> None:
    (folder / "s.yml").write_text(SPEC)
    ranking = {"query_id": ["q"], "item_id": ["a"], "score": [1.0]}
    pq.write_table(pa.table(ranking), folder / "rank.parquet")
    labels = {"query_id": ["q"], "item_id": ["a"], "grade": [1]}
    pq.write_table(pa.table(labels), folder / "labels.parquet")


@by_turns(1)
def test_copies_that_a_killed_publish_left_are_removed(tmp_path: Path) -> None:
    """By the next one; not those of a process that still works, nor of another file."""
    write_spec(tmp_path)
    with subprocess.Popen([sys.executable, "-c", KILLED], cwd=tmp_path) as process:
        process.wait(30)
    (copy,) = tmp_path.glob(".pub.*.duckdb")
    alive = copy.with_name(copy.name.replace(f"{process.pid:x}-", f"{os.getppid():x}-"))
    old, new = (tmp_path / f".pub.0123456{digit}.duckdb" for digit in "78")
    other = tmp_path / ".public.01234567.duckdb"
    for file in (alive, old, new, other):
        file.write_text("copy")
    os.utime(old, (1, 1))
    sqlmetrics("run", "s.yml", "--db", "m.duckdb", "--publish", "pub.duckdb", folder=tmp_path)
    assert sorted(tmp_path.glob(".pub*")) == sorted([alive, new, other])


KILLED = """
import os, pathlib, signal
from sqlmetrics.engines.output_files import replaced
with replaced(pathlib.Path("pub.duckdb").absolute()) as beside:
    beside.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


DBT = """
shop:
  target: prod
  outputs:
    prod:
      type: postgres
      host: "{host}"
      user: {user}
      pass: x
      port: 5432
      dbname: postgres
      schema: marts
      threads: 4
      role: Nightly
      search_path: shared, public
      keepalives_idle: 0
      connect_timeout: 10
      retries: 1
      sslmode: prefer
"""


def of_a_service_file(host: str, user: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service named by the environment or by the connection says all that nobody else does."""
    file.write_text(
        f"[nightly]\nhost={host}\nuser={user}\ndbname=postgres\nkeepalives_idle=7\n"
        "connect_timeout=9\napplication_name=batch\noptions=-c statement_timeout=55s\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(file))

    def session_settings(url: str) -> tuple[Any, ...]:
        with open_driver(url) as engine:
            engine.name_session("shop 1")
            parameters = engine._connection.info.get_parameters()  # type: ignore[attr-defined]
            names = ("keepalives_idle", "connect_timeout")
            return (
                *settings(engine, "statement_timeout", "application_name"),
                *map(parameters.get, names),
            )

    assert session_settings("postgresql:///?service=nightly") == ("55s", "batch", "7", "9")
    monkeypatch.setenv("PGSERVICE", "nightly")
    assert session_settings("postgresql://") == ("55s", "batch", "7", "9")


@pytest.mark.xdist_group("postgres")
def test_a_session_of_postgres_is_what_dbt_and_the_environment_say(
    servers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = servers.connection("postgres")
    with open_driver(url) as admin:
        host, user = admin.rows("select current_setting('unix_socket_directories'), user")[0]
        for statement in ("role nightly", "schema marts", "schema shared"):
            admin.execute(f"create {statement}")
    try:
        monkeypatch.setenv("PGOPTIONS", "-c statement_timeout=77s -c work_mem=96MB")
        (tmp_path / "profiles.yml").write_text(DBT.format(host=host, user=user))
        monkeypatch.chdir(tmp_path)
        with open_driver("prod") as engine:
            assert settings(engine, "search_path", "role", "statement_timeout", "work_mem") == (
                *("marts, shared, public", "nightly", "77s", "96MB"),
            )
            with engine.limited("100MB"):
                assert settings(engine, "work_mem") == ("96MB",)
        monkeypatch.delenv("PGOPTIONS")
        printed = sqlmetrics("debug", "--target", "prod", folder=tmp_path).stdout
        assert "work_mem 64MB (the role's own: 4MB)" in printed
        with open_driver("prod") as engine:
            engine.name_session("shop 1")
            assert settings(engine, "application_name") == ("sqlmetrics shop 1",)
            with engine.limited("4GB"):
                assert settings(engine, "work_mem") == ("244140kB",)
            assert settings(engine, "work_mem") == ("64MB",)
        monkeypatch.setenv("PGAPPNAME", "cron")
        with open_driver("prod") as engine:
            engine.name_session("shop 1")
            assert settings(engine, "application_name") == ("cron",)
        monkeypatch.delenv("PGAPPNAME")
        of_a_service_file(host, user, tmp_path / "services.conf", monkeypatch)
    finally:
        with open_driver(url) as admin:
            for statement in ("role nightly", "schema marts", "schema shared"):
                admin.execute(f"drop {statement}")


def settings(engine: Any, *names: str) -> tuple[Any, ...]:
    columns = ", ".join(f"current_setting('{name}')" for name in names)
    return engine.rows(f"select {columns}")[0]


@by_turns(1.8)
@pytest.mark.xdist_group("mariadb")
def test_a_session_of_mariadb_keeps_temporary_tables_in_memory(servers: Any) -> None:
    pymysql = pytest.importorskip("pymysql")
    url = servers.connection("mariadb")
    sizes = "select @@session.tmp_table_size, @@session.max_heap_table_size"
    on_disk = "select variable_value from information_schema.session_status "
    on_disk += "where variable_name = 'created_tmp_disk_tables'"
    usual, share = 64 * 2**20, 4_000_000_000 // 16
    with open_driver(url) as engine:
        assert engine.rows(sizes) == [(usual, usual)]
        assert "tmp_table_size 64MB (the role's own: 16MB)" in engine.work_memory
        grouped = "select count(*) from (select seq % 600000 as n, count(*) as c "
        grouped += "from seq_1_to_600000 group by n) as t"
        assert engine.rows(grouped) == [(600_000,)]
        assert engine.rows(on_disk) == [("0",)]
        with engine.limited("4GB"):
            assert all(0 <= share - size < 2**14 for size in engine.rows(sizes)[0])
        with engine.limited("16MB"):
            assert engine.rows(sizes) == [(2**24, 2**24)]
        assert engine.rows(sizes) == [(usual, usual)]
    socket = dict(pair.split("=") for pair in url.partition("?")[2].split("&"))["unix_socket"]
    larger = 96 * 2**20
    connection = pymysql.connect(unix_socket=socket, user="root", database="sqlmetrics")
    with connection, connection.cursor() as cursor:
        cursor.execute(f"set session tmp_table_size = {larger}")
        with MySQL(connection) as engine:
            assert engine.rows(sizes) == [(larger, usual)]
            with engine.limited("100MB"):
                assert engine.rows(sizes)[0][0] == larger
        cursor.execute(sizes)
        assert cursor.fetchone() == (larger, 2**24)


@pytest.mark.xdist_group("postgres")
def test_a_users_connection_gets_its_memory_back_and_tables_are_analysed(servers: Any) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(servers.connection("postgres"), autocommit=True) as connection:
        with Postgres(connection) as engine:
            assert settings(engine, "work_mem", "application_name") == ("64MB", "")
            assert settings(engine, *SETTINGS) == tuple(SETTINGS.values())
            for _ in range(2):  # of a click log after another
                with engine.scanning(), engine.scanning():
                    assert settings(engine, "enable_nestloop") == ("off",)
                assert settings(engine, "enable_nestloop") == ("on",)
            name = engine.register("data", pa.table({"n": [*range(50)]}))
            kept = "create temporary table kept as\nselect n from " + name
            with engine.temporary(kept, "drop table kept"):
                sql = "select reltuples from pg_class where relname in ('data', 'kept')"
                assert engine.rows(sql) == [(50.0,), (50.0,)]
        names = ("work_mem", *SETTINGS)
        columns = ", ".join(f"current_setting('{name}')" for name in names)
        assert connection.execute(f"select {columns}").fetchone() == ("4MB", "0.1", "0")


@pytest.mark.xdist_group("postgres")
@by_turns(2)
@pytest.mark.parametrize("cut", ["terminated", "stopped"])
def test_a_run_whose_connection_is_cut_has_a_row_in_the_log(
    cut: str, servers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_spec(tmp_path)
    spec = SPEC.replace("{file: rank.parquet}", "{relation: shop_rank}")
    spec = spec.replace("{file: labels.parquet}", "{relation: shop_labels}")
    (tmp_path / "s.yml").write_text(spec.replace("relation: facts", "relation: cut.facts"))
    url = servers.connection("postgres")
    with open_driver(url) as admin:
        admin.execute("create schema cut")
        for name in ("rank", "labels"):
            admin.load(f"shop_{name}", pq.read_table(tmp_path / f"{name}.parquet"))
    try:
        sqlmetrics("run", "s.yml", "--connection", url, folder=tmp_path)
        usual = Postgres.temporary

        @contextmanager
        def temporary(self: Postgres, create: str, drop: str) -> Iterator[None]:
            with usual(self, create, drop):
                names = self.rows("select application_name from pg_stat_activity")
                assert any(name.startswith("sqlmetrics shop ") for (name,) in names if name)
                if cut == "stopped":
                    raise KeyboardInterrupt
                with open_driver(url) as admin:
                    sql = "select pg_terminate_backend(pid) from pg_stat_activity "
                    admin.rows(sql + "where application_name like 'sqlmetrics shop %'")
                yield

        monkeypatch.setattr(Postgres, "temporary", temporary)
        code = {"terminated": 3, "stopped": 130}[cut]
        sqlmetrics("run", "s.yml", "--connection", url, folder=tmp_path, expect=code)
        monkeypatch.setattr(Postgres, "temporary", usual)
        with open_driver(url) as admin:
            sql = "select outcome, message from cut.facts_runs order by started_at"
            (_, (outcome, message)) = admin.rows(sql)
        assert outcome == "failed"
        assert {"terminated": "the connection is lost", "stopped": "Ctrl-C"}[cut] in message
    finally:
        with open_driver(url) as admin:
            admin.execute("drop schema cut cascade")
            for name in ("rank", "labels"):
                admin.execute(f"drop table shop_{name}")
