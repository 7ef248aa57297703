"""A URL, a profile's name or a connection of the user's own -> an engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sqlmetrics.engines.database_file import check_database
from sqlmetrics.engines.driver import Driver
from sqlmetrics.engines.url import (
    FILES,
    NEW_FILE,
    NEW_SCHEMA,
    WEBHOOK,
    ConnectionURL,
    check_file_exists,
    parse_url,
    secrets_of,
)
from sqlmetrics.engines.waiting import CONNECT_TIMEOUT, LOCK_TIMEOUT, waiting
from sqlmetrics.errors import EngineError, SpecError, keep_secret, unknown

if TYPE_CHECKING:
    from sqlmetrics.engines.profiles import Profiles


# SQLAlchemy's engines and connections: what is below them is one of ours; it is not imported.

_BASE = "sqlalchemy.engine.base"


def is_alchemy(connection: object) -> bool:
    """Whether it is an engine or a connection of SQLAlchemy, or derives from one."""
    return any(base.__module__ == _BASE for base in type(connection).__mro__)


def driver_connection(connection: Any) -> tuple[Any, Callable[[], object] | None]:
    """The driver's own connection, and what gives it back to the pool of an engine.

    Of a `Connection` it stays the user's, with the transaction that may be open on it.
    """
    pooled = connection.raw_connection() if hasattr(connection, "raw_connection") else None
    below = pooled or connection.connection
    return below.driver_connection, pooled and pooled.close


def url_of(connection: Any) -> str:
    """Its URL, with the name of the database's dialect alone and its password."""
    url = connection.engine.url
    text: str = url.set(drivername=url.get_backend_name()).render_as_string(hide_password=False)
    return text


@dataclass(frozen=True)
class EngineInfo:
    """An engine that can be opened.

    Attributes:
        module: The module of `sqlmetrics.engines` that has it.
        engine: The class there.
        schemes: What its URLs begin with; also the `type` of a profile.
        extra: The extra of the package that brings its driver; none if it is always there.
        objects: The modules whose objects are connections to it.
        sample: A URL.
    """

    module: str
    engine: str
    schemes: tuple[str, ...]
    extra: str
    objects: tuple[str, ...]
    sample: str


ENGINES = (
    EngineInfo(
        module="duckdb",
        engine="DuckDB",
        schemes=("duckdb",),
        extra="",
        objects=("duckdb", "_duckdb"),
        sample="duckdb:///metrics.duckdb",
    ),
    EngineInfo(
        module="sqlite",
        engine="SQLite",
        schemes=("sqlite",),
        extra="",
        objects=("sqlite3",),
        sample="sqlite:///metrics.db",
    ),
    EngineInfo(
        module="postgres",
        engine="Postgres",
        schemes=("postgresql", "postgres"),
        extra="postgres",
        objects=("psycopg",),
        sample="postgresql://user:password@host/database",
    ),
    EngineInfo(
        module="mysql",
        engine="MySQL",
        schemes=("mysql", "mariadb"),
        extra="mysql",
        objects=("pymysql",),
        sample="mysql://user:password@host/database",
    ),
    EngineInfo(
        module="clickhouse",
        engine="Server",
        schemes=("clickhouse",),
        extra="clickhouse",
        objects=("clickhouse_connect",),
        sample="clickhouse://user:password@host:8123/database",
    ),
    EngineInfo(
        module="clickhouse",
        engine="ChDB",
        schemes=("chdb",),
        extra="chdb",
        objects=("chdb",),
        sample="chdb://",
    ),
    EngineInfo(
        module="spark",
        engine="Spark",
        schemes=("spark", "sc"),
        extra="spark",
        objects=("pyspark",),
        sample="spark://local[2]",
    ),
    EngineInfo(
        module="bigquery",
        engine="BigQuery",
        schemes=("bigquery",),
        extra="bigquery",
        objects=("google.cloud.bigquery",),
        sample="bigquery://project/dataset",
    ),
    EngineInfo(
        module="snowflake",
        engine="Snowflake",
        schemes=("snowflake",),
        extra="snowflake",
        objects=("snowflake.connector", "fakesnow"),
        sample="snowflake://user:password@account/database/schema",
    ),
    EngineInfo(
        module="trino",
        engine="Trino",
        schemes=("trino",),
        extra="trino",
        objects=("trino",),
        sample="trino://user@host/catalog/schema",
    ),
    EngineInfo(
        module="databricks",
        engine="Databricks",
        schemes=("databricks",),
        extra="databricks",
        objects=("databricks.sql",),
        sample="databricks://token:TOKEN@host/catalog/schema?http_path=...",
    ),
    EngineInfo(
        module="redshift",
        engine="Redshift",
        schemes=("redshift",),
        extra="redshift",
        objects=("redshift_connector",),
        sample="redshift://user:password@host:5439/database",
    ),
)

_LIBPQ = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|service)\s*=")

LOCK = "lock_timeout"
"""The option that says how many seconds another run that writes the same is waited for."""

BOUNDED = ("postgres", "mysql", "clickhouse")
"""The engines that give up connecting after `connect_timeout`, or CONNECT_TIMEOUT."""

SCHEMES = {scheme: engine_info for engine_info in ENGINES for scheme in engine_info.schemes}


def open_driver(
    connection: Any = None, *, profiles: str | Path | None = None, create: bool = False
) -> Driver:
    """The driver of a connection; libraries are imported here and not before.

    Args:
        connection: A URL like `postgresql://user@host/database`, an output's name in
            `profiles.yml`, the path of a DuckDB file, a connection object that the user
            already has, which is left open, an engine or a connection of SQLAlchemy, an engine
            of ours, or a `ConnectionURL`. None: the target of `profiles` if that is given, else
            a new DuckDB in memory.
        profiles: The `profiles.yml`; default: see `Profiles.find`.
        create: Whether a file that is not there is made.

    Raises:
        SpecError: If it is none of these, or a file that is not there.
        EngineError: If its driver is missing or the database cannot be opened.
    """
    if isinstance(connection, Path):
        connection = ConnectionURL.of_file(str(connection))
    if connection is None and profiles is None:
        return _opened(ConnectionURL.of_file(""))
    if connection is None or isinstance(connection, str | ConnectionURL):
        where = place_of(connection, profiles)
        return _opened(replace(where, makes=(NEW_FILE, NEW_SCHEMA)) if create else where)
    if isinstance(connection, Driver):
        return connection
    if is_alchemy(connection):
        return _below_alchemy(connection)
    engine_info = _of_object(connection)
    with _driver(engine_info):
        return cast(Driver, _class(engine_info).of(connection))


def _below_alchemy(connection: Any) -> Driver:
    """The engine of a connection of SQLAlchemy's: by its driver, else by its URL.

    Raises:
        SpecError: If its driver is not ours, and its URL does not lead to the same data.
    """
    from sqlmetrics.engines.dbapi import DbApi

    raw_connection, give_back = driver_connection(connection)
    engine_info = next(_engines_of(raw_connection), None)
    kind = _class(engine_info) if engine_info else None
    if kind and issubclass(kind, DbApi):
        return cast(Driver, kind(raw_connection, give_back=give_back))
    if give_back is None:
        driver = type(raw_connection).__module__
        raise SpecError(
            f"SQLAlchemy's connection uses {driver}, which is unknown here; give its engine"
        )
    give_back()
    where = place_of(url_of(connection))
    if where.in_memory:
        raise SpecError(
            f"{where} is in memory, so no other connection can reach it; give the connection itself"
        )
    return _opened(where)


def dialect_of(scheme: str) -> str:
    """The dialect of what a scheme opens; nothing is opened or imported.

    Raises:
        SpecError: If the scheme is not known.

    >>> dialect_of("postgresql"), dialect_of("mariadb"), dialect_of("chdb")
    ('postgres', 'mariadb', 'clickhouse')
    """
    return "mariadb" if scheme == "mariadb" else _engine_info(scheme).module


def scheme_of(connection: str | None, profiles: Profiles | str | Path | None = None) -> str:
    """The scheme of a URL or of an output; its secrets are not asked for."""
    if connection is not None and _is_place(connection):
        return place_of(connection).scheme
    return _profiles(connection or "", profiles).output(connection or "").scheme


def place_of(
    connection: str | ConnectionURL | None, profiles: Profiles | str | Path | None = None
) -> ConnectionURL:
    """The place of a URL, of an output's name, or for None of the target of `profiles.yml`.

    Raises:
        SpecError: If there is none.
    """
    if isinstance(connection, ConnectionURL):
        return connection
    if connection is None:
        return _profiles("", profiles).output().url
    keep_secret(*secrets_of(connection))
    if _LIBPQ.match(connection):
        sample = "postgresql://user@host/database?sslmode=require"
        raise SpecError(
            f"a connection must be a URL like {sample}; the key=value form of libpq is not read"
        )
    if not connection.strip():
        raise SpecError("the connection is an empty text; give a URL, or the name of an output")
    if _is_place(connection):
        return parse_url(connection) if "://" in connection else ConnectionURL.of_file(connection)
    return _profiles(connection, profiles).output(connection).url


def _opened(where: ConnectionURL) -> Driver:
    engine_info = _engine_info(where.scheme)
    if where.scheme in FILES and NEW_FILE not in where.makes:
        check_file_exists(where.path)
    check_database(where.path, where.scheme, writing=NEW_FILE in where.makes)
    options = {name: value for name, value in where.options.items() if name != WEBHOOK}
    lock_timeout = _seconds(LOCK, options.pop(LOCK, LOCK_TIMEOUT))
    with _driver(engine_info), waiting(lambda: (f"{where} to answer", _bound(engine_info, where))):
        driver = cast(Driver, _class(engine_info).open(replace(where, options=options)))
    driver.is_read_only = where.is_read_only
    driver.url = where
    driver.lock_timeout = lock_timeout
    return driver


def _bound(engine_info: EngineInfo, where: ConnectionURL) -> str:
    """How long a server has to answer, where it is told that."""
    if engine_info.module not in BOUNDED or not where.host:
        return ""
    seconds = where.options.get("connect_timeout", CONNECT_TIMEOUT)
    return f"given up after {seconds} s (connect_timeout of the connection)"


def _seconds(name: str, value: Any) -> float:
    """An option that is a time.

    Raises:
        SpecError: If it is no number of seconds.
    """
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1
    if not 0 <= seconds < float("inf"):
        raise SpecError(f"{name} must be a number of seconds like 600, given {value!r}")
    return seconds


def _engine_info(scheme: str) -> EngineInfo:
    if scheme not in SCHEMES:
        raise SpecError(unknown("kind of connection", scheme, SCHEMES))
    return SCHEMES[scheme]


def _is_place(text: str) -> bool:
    return "://" in text or text.endswith((".duckdb", ".ddb"))


def _profiles(text: str, profiles: Profiles | str | Path | None) -> Profiles:
    from sqlmetrics.engines.profiles import FILE, LOOKED, Profiles

    chosen_profiles = profiles if isinstance(profiles, Profiles) else Profiles.find(profiles)
    if chosen_profiles is not None:
        return chosen_profiles
    printable_text = "what is given" if {*":@"} & {*text} else repr(text)  # it may hold a password
    samples = ", ".join(engine_info.sample for engine_info in ENGINES)
    raise SpecError(
        f"{printable_text} is not a URL, and there is no {FILE} {LOOKED}; give a URL like {samples}"
    )


IN_MEMORY = {
    "duckdb": "duckdb://",
    "sqlite": "sqlite://",
    "chdb": "chdb://",
    "spark": "spark://local[2]",
}
"""The engines that need no server, and a URL of each without a file."""


def in_memory(name: str) -> str:
    """The URL of an engine that needs no server; any other name as it is."""
    return IN_MEMORY.get(name, name)


def _of_object(connection: Any) -> EngineInfo:
    """The engine whose driver made an object; nothing is imported to find out."""
    for engine_info in _engines_of(connection):
        return engine_info
    drivers = ", ".join(engine_info.objects[0] for engine_info in ENGINES)
    raise SpecError(
        f"unknown connection: {type(connection).__module__}.{type(connection).__qualname__}; give "
        f"a URL, or an object of {drivers} or sqlalchemy"
    )


def _engines_of(connection: Any) -> Iterator[EngineInfo]:
    """The engine whose driver made an object, if there is one."""
    modules = [base.__module__ for base in type(connection).__mro__]
    for engine_info in ENGINES:
        if any(
            f"{module}.".startswith(f"{home}.")
            for module in modules
            for home in engine_info.objects
        ):
            yield engine_info


def _class(engine_info: EngineInfo) -> Any:
    return getattr(import_module(f"sqlmetrics.engines.{engine_info.module}"), engine_info.engine)


@contextmanager
def _driver(engine_info: EngineInfo) -> Iterator[None]:
    """Say which extra brings a driver that is missing."""
    try:
        yield
    except ImportError as error:
        raise EngineError(
            f"the driver of {engine_info.module} is missing ({error.name}); run pip install "
            f"'sqlmetrics[{engine_info.extra}]'"
        ) from None
