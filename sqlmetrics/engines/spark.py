"""Spark: a session that the user hands over, classic or Connect, or one of its own; and Sail."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from sqlmetrics.engines.catalog_lock import VIEW, LockingDriver
from sqlmetrics.engines.database import is_frame
from sqlmetrics.engines.driver import STANDARD
from sqlmetrics.engines.failure import LOST, StatementError, first_line, one_line
from sqlmetrics.engines.types import decimal
from sqlmetrics.engines.url import ConnectionURL
from sqlmetrics.errors import EngineError, SpecError
from sqlmetrics.sql.dialect import LAKES
from sqlmetrics.sql.template import identifier

SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}
"""Settings for our text. The first two decide what it means: errors instead of NULL, and times
without a zone. By the last, rows that are distributed by query are joined where they are."""

SESSION_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}
"""What a local session of ours is started with."""

_KINDS = {
    "bigint": "BIGINT",
    "binary": "BLOB",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "double": "DOUBLE",
    "float": "DOUBLE",
    "int": "BIGINT",
    "smallint": "BIGINT",
    "string": "VARCHAR",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "tinyint": "BIGINT",
}

_KEPT = re.compile(r"(?:--.*\n)*cache table (?P<name>\S+) as\n")

_CAUSE = "Caused by: "

STOPPED = "the SparkSession was stopped; give one that is running"

_LOST = ("UNAVAILABLE", "stopped SparkContext", "Answer from Java side is empty")


_STATES = {
    "TABLE_OR_VIEW_NOT_FOUND": "42P01",
    "UNRESOLVED_COLUMN": "42703",
    "cannot resolve attribute": "42703",
    "Cannot cast string": "22018",
    "divide by zero": "22012",
}
"""Words of its errors -> the state of SQL, which it does not send."""


@dataclass(frozen=True)
class LazyFrame:
    """A query of a session as a DataFrame, which it becomes by a call.

    Attributes:
        session: The session.
        query: Prints the query.
        frames: Temporary view -> the DataFrame of the user's that it stands for.
    """

    session: Any
    query: Callable[[], str]
    frames: Mapping[str, Any]

    def __call__(self) -> Any:
        """The DataFrame; nothing is computed yet, and no view is left behind."""
        for name, frame in self.frames.items():
            frame.createOrReplaceTempView(name)
        before = {name: self.session.conf.get(name, None) for name in SETTINGS}
        try:
            for name, value in SETTINGS.items():
                self.session.conf.set(name, value)
            return self.session.sql(self.query())
        finally:
            for name in self.frames:
                self.session.catalog.dropTempView(name)
            for name, value in before.items():
                _set_back(self.session, name, value)


class Spark(LockingDriver):
    """A SparkSession. Data becomes a temporary view; there are no transactions."""

    dialect = "spark"
    name = "Apache Spark"
    transactional = False
    DROP = "drop view"
    METRICS_AT_ONCE = 20
    TYPES: ClassVar = STANDARD | {
        "BLOB": "binary",
        "TIMESTAMP": "timestamp_ntz",
        "VARCHAR": "string",
    }

    def __init__(self, connection: Any, *, is_owned: bool = False) -> None:
        from pyspark.errors import PySparkException

        self.errors = (PySparkException, ConnectionError, *_thrown())
        self._frames: dict[str, Any] = {}
        self._has_loaded = False
        super().__init__(connection, is_owned=is_owned)

    @classmethod
    def open(cls, url: ConnectionURL) -> Spark:
        """`spark://local[2]` starts one here, `sc://host:15002` speaks Spark Connect."""
        from pyspark.sql import SparkSession

        builder = SparkSession.builder
        with url.opening():
            if url.scheme == "sc":
                return cls.of(builder.remote(_remote(url)).getOrCreate(), is_owned=True)
            master = url.host if url.port is None else f"spark://{url.host}:{url.port}"
            builder = builder.master(master or "local[*]")
            defaults = SESSION_SETTINGS if master.startswith("local") else {}
            for name, value in (defaults | dict(url.options)).items():
                builder = builder.config(name, value)
            return cls(builder.getOrCreate(), is_owned=True)

    @classmethod
    def of(cls, connection: Any, *, is_owned: bool = False) -> Spark:
        """By what its server says of itself: Sail has the version of the Spark it stands for."""
        driver = cls(connection, is_owned=is_owned)
        if not type(connection).__module__.startswith("pyspark.sql.connect"):
            return driver
        with driver._failing("select version()"):
            ((version,),) = connection.sql("select version()").collect()
        is_spark = str(version).startswith(str(connection.version))
        return driver if is_spark else Sail(connection, is_owned=is_owned)

    def estimate(self, sql: str) -> str:
        """The size of what a query reads, by the statistics of its tables or files."""
        ((plan,),) = self.rows(f"explain cost {sql}")
        sizes = re.findall(r"sizeInBytes=([^,)]+)", plan.partition("== Physical Plan ==")[0])
        return f"about {sizes[-1]}" if sizes else ""

    def _tag(self, text: str) -> None:
        """As a tag of the jobs."""
        tag = text.replace(",", " ")
        self._connection.addTag(tag)
        self._undo.callback(self._quietly, self._connection.removeTag, tag)

    @property
    def version(self) -> str:
        """As the session says it."""
        return str(self._connection.version)

    @contextmanager
    def temporary(self, create: str, drop: str) -> Iterator[None]:
        """What a statement makes, for as long as the block lasts.

        What is kept is a DataFrame under a name. By `cache table` it would be the text of a view,
        each reader of which has stages of its own where one is read twice: Spark does not
        know them for those that it kept, and computes all anew.
        """
        keep_match = _KEPT.match(create)
        if not keep_match:
            with super().temporary(create, drop):
                yield
            return
        with self._failing(create):
            frame = self._connection.sql(create[keep_match.end() :]).persist()
            frame.count()
            self._view(frame, keep_match["name"])
        try:
            with self._dropped(drop):
                yield
        finally:
            self._quietly(frame.unpersist)

    @contextmanager
    def chained(self, create: str, drop: str) -> Iterator[None]:
        """A table that is kept for a while, cut from what it was made of.

        The whole past of a cached table is planned anew with every query that reads it: nine of
        ten seconds of a small click log. Its rows cannot be computed again, so on a cluster two
        executors have them: one may be lost.
        """
        keep_match = _KEPT.match(create)
        if not keep_match:
            raise ValueError(f"no table is kept by: {create}")
        with self._failing(create):
            frame = self._connection.sql(create[keep_match.end() :])
            frame = frame.localCheckpoint(storageLevel=self._twice())
            self._view(frame, keep_match["name"])
        with self._dropped(drop):
            yield

    def stored(self, storage: str) -> str:
        """Without a format where the session makes tables of Delta or Iceberg by itself."""
        default = str(self._connection.conf.get("spark.sql.sources.default", "")).casefold()
        return storage.removeprefix("using parquet").strip() if default in LAKES else storage

    def refresh(self, names: Iterable[str]) -> None:
        """Iceberg's catalog remembers a table until nobody has read it for half a minute."""
        for name in names:
            self._quietly(self._connection.catalog.refreshTable, self.quoted(name))

    def check_views(self, name: str) -> None:
        """By what the lock is made of, inside of `alone`."""
        if any(lock.table == name and lock.kind != VIEW for lock in self._locks):
            raise SpecError(
                f"the catalog of {name} has no views; set output.views: false, or give a "
                "catalog that has them, such as Iceberg's of the types rest, hive and jdbc"
            )

    def _close(self) -> None:
        self._connection.stop()

    def _settle(self) -> None:
        if self._is_stopped():
            raise StatementError(self.name, LOST, STOPPED)
        logger = logging.getLogger("SQLQueryContextLogger")  # it prints Java's traces of errors
        self._undo.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
        for name, target_value in SETTINGS.items():
            value = self._connection.conf.get(name, None)
            if str(value).casefold() != target_value.casefold():
                self._connection.conf.set(name, target_value)
                self._undo.callback(self._quietly, _set_back, self._connection, name, value)

    def _stop(self) -> None:
        """Cancel the jobs of the session, of which the driver of Java's knows nothing."""
        stop = getattr(self._connection, "interruptAll", None) if self._own else None
        if stop:
            with suppress(Exception):
                stop()

    def _run(self, sql: str) -> None:
        self._connection.sql(sql).collect()

    def _arrow(self, sql: str) -> pa.Table:
        return self._connection.sql(sql).toArrow()

    def _kinds(self, source: str) -> dict[str, str]:
        frame = self._connection.sql(f"select * from {source} limit 0")
        return {field.name: _kind(field.dataType.simpleString()) for field in frame.schema.fields}

    def _code(self, error: BaseException) -> str:
        with suppress(Exception):  # what Java threw is not always to be asked
            return str(error.getSqlState() or "")  # type: ignore[attr-defined]
        return ""

    def _reason(self, error: BaseException) -> str:
        is_lost = isinstance(error, ConnectionError) or any(sign in str(error) for sign in _LOST)
        return LOST if is_lost or self._is_stopped() else super()._reason(error)

    def _brief(self, error: BaseException) -> str:
        """What went wrong, and its cause where Java told one; Python's own words say neither."""
        if self._is_stopped():
            return STOPPED
        lines = [line.strip() for line in str(error).splitlines()]
        thrown = next((line[2:] for line in lines if line.startswith(": ")), "")
        causes = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
        words = dict.fromkeys([thrown or first_line(error), *causes[-1:]])
        return one_line("; caused by ".join(words))

    @contextmanager
    def _converting(self, sql: str) -> Iterator[None]:
        """The same; a session that was stopped is half a Python object."""
        try:
            with super()._converting(sql):
                yield
        except (AttributeError, AssertionError) as error:
            if not self._is_stopped():
                raise
            raise StatementError(self.name, LOST, STOPPED, sql) from error

    def _is_stopped(self) -> bool:
        context = getattr(self._connection, "_sc", None)  # Spark Connect has none
        return context is not None and context._jsc is None

    def _view(self, frame: Any, name: str) -> None:
        """Call a DataFrame by a quoted name until the session ends, or it is dropped."""
        frame.createTempView(name)

    def reads(self, frame: Any) -> bool:
        """Whether a DataFrame is of this session."""
        return is_frame(frame) and frame.sparkSession is self._connection

    def register(self, name: str, data: Any) -> str:
        """Make data readable until the connection is left; a DataFrame of the session is a view."""
        if not self.reads(data):
            self._has_loaded = True
            return super().register(name, data)
        free = identifier(self.free_name(name))
        with self._failing(f"-- a view of a DataFrame: {free}"):
            self._view(data, free)
        self._frames[free] = data
        self._undo.callback(self._quietly, self._forget, free)
        return free

    def lazy(self, query: Callable[[], str]) -> Callable[[], Any] | None:
        """What makes a DataFrame of a query; None where it reads what is loaded for a while."""
        return None if self._has_loaded else LazyFrame(self._connection, query, dict(self._frames))

    def _make(self, name: str, table: pa.Table, *, temporary: bool) -> None:
        target = self.quoted(name)
        with self._failing(f"-- loading {table.num_rows:,} rows into {target}"):
            frame = self._frame(table)
            if temporary:
                self._view(frame, target)
            else:
                frame.write.saveAsTable(target)

    def _fill(self, target: str, table: pa.Table) -> None:
        self._frame(table).write.insertInto(target)

    def _frame(self, table: pa.Table) -> Any:
        """Through a Parquet file where executors see our disk: several times as fast."""
        if not self._is_local():
            return self._sent(table)
        file = Path(self._undo.enter_context(TemporaryDirectory())) / "rows.parquet"
        pq.write_table(table, file)
        return self._connection.read.parquet(str(file))

    def _sent(self, table: pa.Table) -> Any:
        """Over the connection; of no rows Spark cannot tell the types."""
        if table.num_rows:
            return self._connection.createDataFrame(table)
        names = map(self._quoted, table.column_names)
        columns = zip(names, self._types(table), strict=True)
        schema = ", ".join(f"{name} {kind}" for name, kind in columns)
        return self._connection.createDataFrame([], schema)

    def _twice(self) -> Any:
        """Where executors keep rows that they cannot compute again; None for their own way."""
        from pyspark import StorageLevel

        return None if self._is_local() else StorageLevel.MEMORY_AND_DISK_2

    def _is_local(self) -> bool:
        try:
            return str(self._connection.sparkContext.master).startswith("local")
        except self.errors:  # Spark Connect has no context
            return False


class Sail(Spark):
    """A session of Spark Connect whose server is Sail."""

    dialect = "sail"
    name = "Sail"

    def __init__(self, connection: Any, *, is_owned: bool = False) -> None:
        super().__init__(connection, is_owned=is_owned)
        _check_client(str(connection.version))

    @property
    def version(self) -> str:
        """Sail's own; the session has that of the Spark that it stands for."""
        ((version,),) = self.rows("select version()")
        return str(version)

    @contextmanager
    def chained(self, create: str, drop: str) -> Iterator[None]:
        """As `made` does: a plan cannot be cut from what it was made of."""
        with self.temporary(create, drop):
            yield

    def _view(self, frame: Any, name: str) -> None:
        plain_name = name[1:-1].replace("``", "`") if name.startswith("`") else name
        frame.createTempView(plain_name)  # it takes quotes for a part of the name

    def _run(self, sql: str) -> None:
        self._connection.sql(sql)  # a command runs at once; what it gives, no client reads

    def _code(self, error: BaseException) -> str:
        states = (state for words, state in _STATES.items() if words in str(error))
        return next(states, super()._code(error))


def _check_client(version: str) -> None:
    """See that this client is no newer than the Spark that the server stands for.

    Raises:
        EngineError: If it is: it asks for what the server does not know.
    """
    import pyspark

    if _numbers(pyspark.__version__) > _numbers(version):
        raise EngineError(
            f"this Sail stands for Spark {version}, but pyspark is {pyspark.__version__} here; "
            f"run pip install 'pyspark[connect]=={'.'.join(version.split('.')[:2])}.*'"
        )


def _numbers(version: str) -> list[int]:
    """The first two numbers of a version."""
    return [int(number) for number in version.split(".")[:2]]


def _thrown() -> tuple[type[BaseException], ...]:
    """What Java's side throws past Spark's own errors; there is none with Connect alone."""
    try:
        from py4j.protocol import Py4JError
    except ImportError:
        return ()
    return (Py4JError,)


def _set_back(session: Any, name: str, value: str | None) -> None:
    if value is None:
        session.conf.unset(name)
    else:
        session.conf.set(name, value)


def _remote(url: ConnectionURL) -> str:
    """The URL as Spark Connect reads it; the token stands in it."""
    parameters = dict(url.options) | ({"token": url.password} if url.password else {})
    options = "".join(f";{name}={value}" for name, value in parameters.items())
    return f"sc://{url.host}:{url.port or 15002}/{options}"


def _kind(declared: str) -> str:
    """DuckDB's word for a type of Spark.

    >>> _kind("decimal(9,2)"), _kind("array<string>"), _kind("array<struct<a:int,b:array<int>>>")
    ('DECIMAL(9,2)', 'VARCHAR[]', 'STRUCT(a BIGINT, b BIGINT[])[]')
    """
    if digits := re.fullmatch(r"decimal\((\d+),(\d+)\)", declared):
        return decimal(int(digits[1]), int(digits[2]))
    if item := re.fullmatch(r"array<(.*)>", declared):
        return f"{_kind(item[1])}[]"
    if fields := re.fullmatch(r"struct<(.*)>", declared):
        field_parts = (field.partition(":") for field in _fields(fields[1]))
        return (
            f"STRUCT({', '.join(f'{identifier(name)} {_kind(k)}' for name, _, k in field_parts)})"
        )
    word = re.match(r"\w+", declared)
    return _KINDS.get(declared, word[0].upper() if word else declared)


def _fields(declared: str) -> list[str]:
    """The fields of a struct, which the commas outside of other types part.

    >>> _fields("a:int,b:map<string,int>,c:decimal(9,2)")
    ['a:int', 'b:map<string,int>', 'c:decimal(9,2)']
    """
    fields, depth = [""], 0
    for char in declared:
        depth += (char in "<(") - (char in ">)")
        if char == "," and not depth:
            fields.append("")
        else:
            fields[-1] += char
    return fields
