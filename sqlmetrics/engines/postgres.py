"""PostgreSQL, through psycopg 3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

import psycopg
import pyarrow as pa
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from pyarrow import csv

from sqlmetrics.engines.dbapi import DbApi
from sqlmetrics.engines.driver import STANDARD
from sqlmetrics.engines.failure import LOST, first_line
from sqlmetrics.engines.types import decimal
from sqlmetrics.engines.url import ConnectionURL

_KINDS = {
    "bool": "BOOLEAN",
    "bpchar": "VARCHAR",
    "bytea": "BLOB",
    "date": "DATE",
    "float4": "DOUBLE",
    "float8": "DOUBLE",
    "int2": "BIGINT",
    "int4": "BIGINT",
    "int8": "BIGINT",
    "name": "VARCHAR",
    "text": "VARCHAR",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "varchar": "VARCHAR",
}

_CSV = csv.WriteOptions(include_header=False)
"""Texts in quotes and NULL as nothing: what COPY takes for NULL and for an empty text."""


READ_ONLY = "set transaction read only"

_KEPT = re.compile(r"((?:\s|--.*\n)*create temporary table (\S+) as\n)(.*)", re.DOTALL)
_OURS = re.compile(r"(?:\s|--.*\n)*(?:create|drop|set|begin|commit|rollback)\b")


def _reading(sql: str) -> str:
    """A statement that changes nothing but a temporary table of ours.

    What is sent in one message is one transaction, and one that has begun to read only cannot
    write again, whatever the text of a user calls. A temporary table is made before that, of a
    query that is not run.
    """
    if kept := _KEPT.fullmatch(sql):
        create, name, select = kept.groups()
        return f"{create}{select}\nwith no data;\n{READ_ONLY};\ninsert into {name}\n{select}"
    return sql if _OURS.match(sql) else f"{READ_ONLY};\n{sql}"


class Postgres(DbApi):
    """A connection of psycopg; rows go in by COPY."""

    dialect = "postgres"
    name = "PostgreSQL"
    errors = (psycopg.Error,)
    TYPES: ClassVar = STANDARD | {"DOUBLE": "double precision", "VARCHAR": 'text collate "C"'}

    @classmethod
    def open(cls, place: ConnectionURL) -> Postgres:
        """The server of a URL; what follows `?` is libpq's."""
        database, schema = place.parts
        given = place.given(
            host=place.host,
            port=place.port,
            user=place.user,
            password=place.password,
            dbname=database,
            options=f"-c search_path={schema}" if schema else "",
        )
        with place.opening():
            connection = psycopg.connect(**given, autocommit=True)
        return cls(connection, own=True)

    @property
    def version(self) -> str:
        """As the server says it."""
        return str(self._connection.info.parameter_status("server_version") or "")

    def _settle(self) -> None:
        if not (self._connection.autocommit or self._in_transaction()):
            self._connection.autocommit = True
            self._undo.callback(self._quietly, setattr, self._connection, "autocommit", False)
        zone = str(self.rows("show timezone")[0][0])
        if zone != "UTC":
            self.execute("set timezone = 'UTC'")
            back = f"set timezone = {self._literal(zone)}"
            self._undo.callback(self._quietly, self.execute, back)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """As the only one that writes what is named so: an advisory lock, which ends with us."""
        key = f"hashtextextended({self._literal(name)}, 0)"
        self.rows(f"select 1 from pg_advisory_lock({key})")
        try:
            yield
        finally:
            self._quietly(self.rows, f"select pg_advisory_unlock({key})")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that the block does, or nothing of it; a savepoint in a user's transaction."""
        with self._failing("commit"), self._connection.transaction():
            yield

    def _in_transaction(self) -> bool:
        return bool(self._connection.info.transaction_status != TransactionStatus.IDLE)

    def _cursor(self) -> Any:
        return self._connection.cursor(row_factory=tuple_row)

    @contextmanager
    def _running(self, sql: str) -> Iterator[Any]:
        with self._guarded(), self._cursor() as cursor:
            # not prepared: a temporary table that was made anew has other columns
            cursor.execute(_reading(sql) if self.is_read_only else sql, prepare=False)
            while cursor.nextset():  # the last one answers
                pass
            yield cursor

    def _guarded(self) -> Any:
        """Within a transaction a savepoint: an error undoes the one statement alone."""
        inside = self._connection.info.transaction_status == TransactionStatus.INTRANS
        return self._connection.transaction() if inside else nullcontext()

    def _reason(self, error: BaseException) -> str:
        return LOST if self._connection.closed else super()._reason(error)

    def _brief(self, error: BaseException) -> str:
        said = getattr(getattr(error, "diag", None), "message_primary", None)
        return first_line(said or error)

    def _kind(self, described: Any) -> str:
        known = self._connection.adapters.types.get(described.type_code)
        if known is None:
            return "VARCHAR"
        if known.name == "numeric":
            return decimal(described.precision, described.scale)
        kind = _KINDS.get(known.name, known.name.upper())
        return f"{kind}[]" if described.type_code == known.array_oid else kind

    def _fill(self, target: str, table: pa.Table) -> None:
        copying = f"copy {target} from stdin (format csv)"
        with self._guarded(), self._cursor() as cursor, cursor.copy(copying) as copy:
            for batch in table.to_batches(max_chunksize=65_536):
                block = pa.BufferOutputStream()
                csv.write_csv(batch, block, _CSV)
                copy.write(block.getvalue().to_pybytes())
