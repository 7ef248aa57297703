"""SQLite: the standard library's driver, with the functions that the library may lack."""

from __future__ import annotations

import hashlib
import math
import operator
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import pyarrow as pa

from sqlmetrics.engines.dbapi import DbApi
from sqlmetrics.engines.driver import STANDARD
from sqlmetrics.engines.failure import ABSENT, DENIED, TYPE
from sqlmetrics.engines.types import column, decimal
from sqlmetrics.engines.url import SCHEMA, ConnectionURL
from sqlmetrics.engines.waiting import waiting
from sqlmetrics.errors import EngineError, SpecError

_AFFINITY = (
    ("BOOL", "BOOLEAN"),
    ("INT", "BIGINT"),
    ("CHAR", "VARCHAR"),
    ("CLOB", "VARCHAR"),
    ("TEXT", "VARCHAR"),
    ("REAL", "DOUBLE"),
    ("FLOA", "DOUBLE"),
    ("DOUB", "DOUBLE"),
    ("TIMESTAMP", "TIMESTAMP"),
    ("DATETIME", "TIMESTAMP"),
    ("DATE", "DATE"),
    ("BLOB", "BLOB"),
)
"""What a declared type holds -> the kind; the first that fits, as SQLite itself reads it."""

PAUSE = 0.05
"""After so many seconds a run tries again to write a file that another one writes."""

_REASONS = (
    ("no such table|no such column|no such schema|unknown database", ABSENT),
    ("readonly database|not authorized|permission denied", DENIED),
    ("mismatch|cannot store|no such function", TYPE),
)


class SQLite(DbApi):
    """A connection of `sqlite3`. Types are those of the values, dates are texts."""

    dialect = "sqlite"
    name = "SQLite"
    holds_nan = False  # it stores NaN as NULL
    errors = (sqlite3.Error, sqlite3.Warning)
    TEMPORARY = "temp "
    TRANSACTION = ("begin immediate", "commit", "rollback")
    _is_patient = False
    TYPES: ClassVar = STANDARD | {"BIGINT": "integer", "BLOB": "blob", "VARCHAR": "text"}

    @classmethod
    def open(cls, url: ConnectionURL) -> SQLite:
        """A file; without a path, a new database in memory."""
        options = dict(url.options)
        schema = options.pop(SCHEMA, "main")
        if schema != "main":
            raise SpecError(f"SQLite only has the schema main, given {schema!r}")
        with url.opening():
            path, keywords = _opened(url)
            connection = sqlite3.connect(path, **keywords, **options)
        return cls(connection, is_owned=True)

    @contextmanager
    def alone(self, name: str) -> Iterator[str]:  # noqa: ARG002 (it locks the whole file)
        """Waiting for others that write; `begin immediate` keeps them out then."""
        ((before,),) = self.rows("pragma busy_timeout")
        self._run("pragma busy_timeout = 0")
        self._is_patient = True
        try:
            yield ""
        finally:
            self._is_patient = False
            self._run(f"pragma busy_timeout = {before}")

    @contextmanager
    def _running(self, sql: str) -> Iterator[Any]:
        """A statement's cursor; while we write alone, once nobody else holds the file."""
        with closing(self._cursor()) as cursor:
            if self._is_patient:
                self._patiently(lambda: cursor.execute(sql))
            else:
                cursor.execute(sql)
            yield cursor

    def _patiently(self, execute: Callable[[], object]) -> None:
        end = time.monotonic() + self.lock_timeout
        with waiting(lambda: (f"another process to let go of {self._file}", self._bound)):
            while True:
                try:
                    execute()
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error):
                        raise
                    if time.monotonic() > end:
                        raise EngineError(
                            f"another process writes to {self._file}: it was not free within "
                            f"{self.lock_timeout:,.0f} s; try again, or raise lock_timeout of the "
                            "connection"
                        ) from None
                    time.sleep(PAUSE)
                else:
                    return

    @property
    def _file(self) -> str:
        return repr(self.url.path) if self.url and self.url.path else "the database"

    @property
    def version(self) -> str:
        """Of the library."""
        return sqlite3.sqlite_version

    def _settle(self) -> None:
        if not self._connection.in_transaction and self._connection.isolation_level is not None:
            level = self._connection.isolation_level
            self._connection.isolation_level = None  # no transaction but those that are asked for
            self._undo.callback(setattr, self._connection, "isolation_level", level)
        self._connection.create_function("md5", 1, _md5, deterministic=True)
        self._connection.create_function(
            "sqlmetrics_local_time", 2, _local_micros, deterministic=True
        )
        for name, arguments, function in (*_MATHS, ("concat", 2, operator.add)):
            try:
                self._connection.execute(f"select {name}({', '.join('1' * arguments)})")
            except sqlite3.Error:
                self._connection.create_function(name, arguments, function, deterministic=True)

    def _cursor(self) -> Any:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor

    def _in_transaction(self) -> bool:
        return bool(self._connection.in_transaction)

    def _reason(self, error: BaseException) -> str:
        reasons = (reason for words, reason in _REASONS if re.search(words, str(error)))
        return next(reasons, "")

    def _kind(self, described: Sequence[Any]) -> str:  # noqa: ARG002
        return ""  # the driver tells none

    def _kinds(self, source: str) -> dict[str, str]:
        view = "temp.sqlmetrics_described"
        self._run(f"create temp view sqlmetrics_described as select * from {source}")
        try:
            rows = self._connection.execute("pragma temp.table_info('sqlmetrics_described')")
            return {name: _affinity(declared) for _, name, declared, *_ in rows.fetchall()}
        finally:
            self._run(f"drop view {view}")

    def _arrow(self, sql: str) -> pa.Table:
        table = super()._arrow(sql)
        with suppress(*self.errors):  # what is no SELECT has no types to be told
            kinds = self._kinds(f"({sql})")
            for index, (name, kind) in enumerate(kinds.items()):
                if kind in ("DATE", "TIMESTAMP", "BOOLEAN") and name in table.column_names:
                    array = column(_values(table[index], kind), kind)
                    table = table.set_column(index, name, array)
        return table

    def _fill(self, target: str, table: pa.Table) -> None:
        marks = ", ".join("?" * table.num_columns)
        owns_transaction = not self._connection.in_transaction
        if owns_transaction:
            self._run("begin")
        for batch in table.to_batches(max_chunksize=50_000):
            arrays = [_storable(array).to_pylist() for array in batch.columns]
            rows = zip(*arrays, strict=True)
            self._connection.executemany(f"insert into {target} values ({marks})", rows)
        if owns_transaction:
            self._run("commit")

    def _scratch(self, name: str) -> tuple[str, str]:
        return f"attach ':memory:' as {name}", f"detach {name}"


def _opened(url: ConnectionURL) -> tuple[str, dict[str, Any]]:
    """How the driver is told a place, and that nothing in its file may change."""
    if url.in_memory or not url.is_read_only:
        return url.path or ":memory:", {}
    return f"{Path(url.path).absolute().as_uri()}?mode=ro", {"uri": True}


def _affinity(declared: str) -> str:
    text = declared.upper()
    if text.startswith(("DECIMAL", "NUMERIC")):
        return decimal(None, None)
    return next((kind for part, kind in _AFFINITY if part in text), "")


def _storable(array: pa.Array) -> pa.Array:
    """Dates and times as ISO texts, which compare as they should."""
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        return array.cast(pa.string())
    return array


def _values(array: pa.ChunkedArray, kind: str) -> list[Any]:
    if kind != "BOOLEAN" and pa.types.is_string(array.type):
        array = array.cast(pa.date32() if kind == "DATE" else pa.timestamp("us"))
    return list(array.to_pylist())


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _local_micros(micros: int | None, zone: str) -> int | None:
    """What clocks in a zone show at a time, both in microseconds since 1970."""
    if micros is None:
        return None
    seconds, fraction = divmod(int(micros), 1_000_000)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
        offset = moment.astimezone(_zone(zone)).utcoffset() or timedelta()
    except OverflowError:  # no day of the years 1 to 9999
        return None
    return (seconds + offset // timedelta(seconds=1)) * 1_000_000 + fraction


@lru_cache(8)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _md5(text: Any) -> str | None:
    return None if text is None else hashlib.md5(str(text).encode()).hexdigest()  # noqa: S324


def _safe(function: Callable[..., float]) -> Callable[..., float | None]:
    """NULL for NULL, and where mathematics has no answer, as SQLite's own functions."""

    def answer(*arguments: float | None) -> float | None:
        try:
            return None if None in arguments else function(*arguments)
        except (ValueError, OverflowError):
            return None

    return answer


_MATHS: tuple[tuple[str, int, Callable[..., float | None]], ...] = (
    ("ln", 1, _safe(math.log)),
    ("exp", 1, _safe(math.exp)),
    ("power", 2, _safe(math.pow)),
    ("sqrt", 1, _safe(math.sqrt)),
    ("floor", 1, _safe(math.floor)),
    ("ceil", 1, _safe(math.ceil)),
)
