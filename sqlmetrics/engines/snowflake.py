"""Snowflake, through its connector. Tested for the shape of its calls, not executed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, ClassVar

import pyarrow as pa
import snowflake.connector
from snowflake.connector.pandas_tools import write_pandas

from sqlmetrics.engines.dbapi import DbApi
from sqlmetrics.engines.driver import STANDARD, plain
from sqlmetrics.engines.failure import first_line
from sqlmetrics.engines.types import decimal
from sqlmetrics.engines.url import ConnectionURL
from sqlmetrics.engines.waiting import STOP_TIMEOUT
from sqlmetrics.sql.template import finished, identifier, parts

_KINDS = (  # by the connector's type codes
    "",
    "DOUBLE",
    "VARCHAR",
    "DATE",
    "TIMESTAMP",
    "VARIANT",
    "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMP",
    "STRUCT",
    "VARCHAR[]",
    "BLOB",
    "TIME",
    "BOOLEAN",
)


class Snowflake(DbApi):
    """A connection. Plain lower-case names are Snowflake's upper-case ones, both ways."""

    dialect = "snowflake"
    name = "Snowflake"
    errors = (snowflake.connector.errors.Error,)
    TYPES: ClassVar = STANDARD | {
        "BIGINT": "number(38, 0)",
        "TIMESTAMP": "timestamp_ntz(6)",
        "VARCHAR": "varchar collate ''",
    }

    _connect_arguments: Mapping[str, Any] = {}

    @classmethod
    def open(cls, url: ConnectionURL) -> Snowflake:
        """`snowflake://user:password@account/database/schema`; the rest is the connector's."""
        database, schema = url.parts
        arguments = url.driver_options(
            account=url.host,
            user=url.user,
            password=url.password,
            database=database,
            schema=schema,
        )
        with url.opening():
            engine = cls(snowflake.connector.connect(**arguments), is_owned=True)
        engine._connect_arguments = arguments
        return engine

    @property
    def version(self) -> str:
        """As the server says it."""
        return str(self.rows("select current_version()")[0][0])

    def _stop(self) -> None:
        """Cancel the session's statements over another connection: the driver heeds SIGINT alone.

        Nobody is asked to log in once more by a browser.
        """
        if (
            self._connect_arguments
            and self._connect_arguments.get("authenticator") != "externalbrowser"
        ):
            arguments = {**self._connect_arguments, "login_timeout": STOP_TIMEOUT}
            with (
                suppress(Exception),
                closing(snowflake.connector.connect(**arguments)) as second_connection,
            ):
                session = self._connection.session_id
                second_connection.cursor().execute(f"select system$cancel_all_queries({session})")

    def estimate(self, sql: str) -> str:
        """The bytes and micro-partitions that a query would scan, as the service plans it."""
        ((answer,),) = self.rows(f"explain using json {sql}")
        plan = json.loads(answer)["GlobalStats"]
        read, partitions = plan["partitionsAssigned"], plan["partitionsTotal"]
        size = plan["bytesAssigned"] / 1e6
        return f"about {size:,.1f} MB, of {read:,} of {partitions:,} micro-partitions"

    def _tag(self, text: str) -> None:
        """As QUERY_TAG of the session, unless the user or the account has set one."""
        parameters = self.rows("show parameters like 'QUERY_TAG' in session")
        if not any(value for _, value, *_ in parameters):
            self.execute(f"alter session set query_tag = {self._literal(text)}")
            self._undo.callback(self._quietly, self.execute, "alter session unset query_tag")

    def _quoted(self, part: str) -> str:
        return finished(identifier(part))

    def _kind(self, described: Sequence[Any]) -> str:
        code, precision, scale = described[1], described[4], described[5]
        if code == 0:
            return "BIGINT" if scale == 0 else decimal(precision, scale)
        return _KINDS[code] if code < len(_KINDS) else "VARIANT"

    def _described(self, cursor: Any) -> list[tuple[str, str]]:
        return [(_lowered(name), kind) for name, kind in super()._described(cursor)]

    def _kinds(self, source: str) -> dict[str, str]:
        with self._connection.cursor() as cursor:
            described = cursor.describe(f"select * from {source}")  # it is not run
        return {_lowered(field[0]): self._kind(field) for field in described}

    def _arrow(self, sql: str) -> pa.Table:
        with self._running(sql) as cursor:
            if not hasattr(cursor, "fetch_arrow_all"):  # fakesnow, an emulator
                return super()._arrow(sql)
            table = cursor.fetch_arrow_all(force_return_table=True)
        return table.rename_columns([_lowered(name) for name in table.column_names])

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self._failing(sql), self._running(finished(sql)) as cursor:
            return [tuple(map(plain, row)) for row in cursor.fetchall()]

    def _brief(self, error: BaseException) -> str:
        return first_line(str(getattr(error, "raw_msg", None) or error).replace("\n", " "))

    def _fill(self, target: str, table: pa.Table) -> None:
        frame = table.rename_columns([_stored(name) for name in table.column_names]).to_pandas()
        *schema, name = map(_stored, parts(target))
        where = dict(zip(("schema", "database"), reversed(schema), strict=False))
        write_pandas(self._connection, frame, name, use_logical_type=True, **where)


def _stored(name: str) -> str:
    """What Snowflake makes of a name that we write without quotes."""
    return name.upper() if finished(identifier(name)) == name else name


def _lowered(name: str) -> str:
    """The plain name that Snowflake stored in upper case."""
    return name.lower() if _stored(name.lower()) == name else name
