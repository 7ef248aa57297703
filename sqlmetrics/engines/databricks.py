"""Databricks, through its SQL connector. Tested for the shape of its calls, not executed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow as pa
from databricks import sql
from databricks.sql import exc

from sqlmetrics.engines.dbapi import DbApi
from sqlmetrics.engines.driver import STANDARD
from sqlmetrics.engines.failure import LOST
from sqlmetrics.engines.url import ConnectionURL

_KINDS = {
    "array": "VARCHAR[]",
    "bigint": "BIGINT",
    "binary": "BLOB",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "decimal": "DECIMAL",
    "double": "DOUBLE",
    "float": "DOUBLE",
    "int": "BIGINT",
    "map": "MAP",
    "smallint": "BIGINT",
    "string": "VARCHAR",
    "struct": "STRUCT",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "tinyint": "BIGINT",
}


class Databricks(DbApi):
    """A connection. Data goes in by INSERT alone, into tables that are dropped at the end."""

    dialect = "databricks"
    name = "Databricks"
    transactional = False  # atomic a table, not across them
    errors = (exc.Error, OSError)
    TEMPORARY = ""
    TYPES: ClassVar = STANDARD | {"TIMESTAMP": "timestamp_ntz", "VARCHAR": "string"}

    @classmethod
    def open(cls, url: ConnectionURL) -> Databricks:
        """`databricks://token:TOKEN@host/catalog/schema?http_path=...`."""
        catalog, schema = url.parts
        arguments = url.driver_options(
            server_hostname=url.host,
            access_token=url.password,
            catalog=catalog,
            schema=schema,
        )
        with url.opening():
            return cls(sql.connect(**arguments), is_owned=True)

    def _tag(self, text: str) -> None:
        """At the end of each statement, which the history of queries shows."""
        self._comment = f"\n-- {text}"

    @property
    def version(self) -> str:
        """As the warehouse says it."""
        return str(self.rows("select current_version().dbsql_version")[0][0])

    def _settle(self) -> None:
        self.execute("set ansi_mode = true")
        self.execute("set time zone 'UTC'")

    def _arrow(self, sql: str) -> pa.Table:
        with self._running(sql) as cursor:
            return cursor.fetchall_arrow()

    def _code(self, error: BaseException) -> str:
        state = re.search(r"SQLSTATE: (\w{5})", str(error))
        return state[1] if state else ""

    def _reason(self, error: BaseException) -> str:
        is_lost = isinstance(error, OSError | exc.RequestError)
        return LOST if is_lost else super()._reason(error)

    def _kind(self, described: Sequence[Any]) -> str:
        return _KINDS.get(described[1], str(described[1]).upper())
