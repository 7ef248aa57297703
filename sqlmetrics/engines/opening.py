"""A URL, a profile's name or a connection of the user's own -> an engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from sqlmetrics.engines.engine import Engine
from sqlmetrics.engines.place import Place, place
from sqlmetrics.engines.profiles import FILE, named
from sqlmetrics.errors import EngineError, SpecError, unknown


@dataclass(frozen=True)
class Known:
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
    Known("duckdb", "DuckDB", ("duckdb",), "", ("duckdb", "_duckdb"), "duckdb:///metrics.duckdb"),
    Known("sqlite", "SQLite", ("sqlite",), "", ("sqlite3",), "sqlite:///metrics.db"),
    Known(
        "postgres",
        "Postgres",
        ("postgresql", "postgres"),
        "postgres",
        ("psycopg",),
        "postgresql://user:password@host/database",
    ),
    Known(
        "mysql",
        "MySQL",
        ("mysql", "mariadb"),
        "mysql",
        ("pymysql",),
        "mysql://user:password@host/database",
    ),
    Known(
        "clickhouse",
        "Server",
        ("clickhouse",),
        "clickhouse",
        ("clickhouse_connect",),
        "clickhouse://user:password@host:8123/database",
    ),
    Known("clickhouse", "ChDB", ("chdb",), "chdb", ("chdb",), "chdb://"),
    Known("spark", "Spark", ("spark", "sc"), "spark", ("pyspark",), "spark://local[2]"),
    Known(
        "bigquery",
        "BigQuery",
        ("bigquery",),
        "bigquery",
        ("google.cloud.bigquery",),
        "bigquery://project/dataset",
    ),
    Known(
        "snowflake",
        "Snowflake",
        ("snowflake",),
        "snowflake",
        ("snowflake.connector", "fakesnow"),
        "snowflake://user:password@account/database/schema",
    ),
    Known("trino", "Trino", ("trino",), "trino", ("trino",), "trino://user@host/catalog/schema"),
    Known(
        "databricks",
        "Databricks",
        ("databricks",),
        "databricks",
        ("databricks.sql",),
        "databricks://token:TOKEN@host/catalog/schema?http_path=...",
    ),
    Known(
        "redshift",
        "Redshift",
        ("redshift",),
        "redshift",
        ("redshift_connector",),
        "redshift://user:password@host:5439/database",
    ),
)

SCHEMES = {scheme: known for known in ENGINES for scheme in known.schemes}


def open_engine(connection: Any = None, *, profiles: Path | None = None) -> Engine:
    """The engine of a connection; drivers are imported here and not before.

    Args:
        connection: A URL like `postgresql://user@host/database`, an output's name in
            `profiles.yml`, a connection object that the user already has, which is left
            open, or an engine. None: a new DuckDB in memory.
        profiles: The `profiles.yml`; default: the one in the current folder.

    Raises:
        SpecError: If it is none of these.
        EngineError: If its driver is missing or the database cannot be opened.
    """
    if connection is None or isinstance(connection, str):
        where = _place(connection or "", profiles) if connection or profiles else Place("duckdb")
        if where.scheme not in SCHEMES:
            raise SpecError(unknown("kind of connection", where.scheme, SCHEMES))
        known = SCHEMES[where.scheme]
        with _driver(known):
            return cast(Engine, _class(known).open(where))
    if hasattr(connection, "free_name"):
        return cast(Engine, connection)
    known = _of_object(connection)
    with _driver(known):
        return cast(Engine, _class(known)(connection))


def _place(text: str, profiles: Path | None) -> Place:
    if "://" in text:
        return place(text)
    if text.endswith((".duckdb", ".ddb")):
        return Place("duckdb", path=text)
    file = profiles or Path(FILE)
    if profiles is None and not file.exists():
        shown = "what is given" if {":", "@"} & set(text) else repr(text)  # it may hold a password
        samples = ", ".join(known.sample for known in ENGINES)
        raise SpecError(f"{shown} is no URL, and there is no {FILE} here; URLs are like {samples}")
    return named(text, file)


def _of_object(connection: Any) -> Known:
    """The engine whose driver made an object; nothing is imported to find out."""
    modules = [one.__module__ for one in type(connection).__mro__]
    for known in ENGINES:
        for home in known.objects:
            if any(f"{module}.".startswith(f"{home}.") for module in modules):
                return known
    drivers = ", ".join(known.objects[0] for known in ENGINES)
    raise SpecError(
        f"no known connection: {type(connection).__module__}.{type(connection).__qualname__}; "
        f"give a URL, or an object of {drivers}"
    )


def _class(known: Known) -> Any:
    return getattr(import_module(f"sqlmetrics.engines.{known.module}"), known.engine)


@contextmanager
def _driver(known: Known) -> Iterator[None]:
    """Say which extra brings a driver that is missing."""
    try:
        yield
    except ImportError as error:
        raise EngineError(
            f"the driver of {known.module} is missing ({error.name}): "
            f"pip install 'sqlmetrics[{known.extra}]'"
        ) from None
