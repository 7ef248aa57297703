"""Trino, through its client."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import trino

from sqlmetrics.engines.dbapi import DbApi
from sqlmetrics.engines.driver import STANDARD
from sqlmetrics.engines.failure import ABSENT, DENIED, LOST, TYPE, first_line
from sqlmetrics.engines.types import decimal
from sqlmetrics.engines.url import ConnectionURL

_KINDS = {
    "bigint": "BIGINT",
    "boolean": "BOOLEAN",
    "char": "VARCHAR",
    "date": "DATE",
    "double": "DOUBLE",
    "integer": "BIGINT",
    "map": "MAP",
    "real": "DOUBLE",
    "row": "STRUCT",
    "smallint": "BIGINT",
    "timestamp": "TIMESTAMP",
    "tinyint": "BIGINT",
    "varbinary": "BLOB",
    "varchar": "VARCHAR",
}

TOO_MANY = (
    "Ask for fewer metrics at once, those that compare two systems alone, or raise "
    "query.max-stage-count of the server"
)
"""What helps where a query has more stages than the server allows: it computes one anew each time
that another reads it."""


class Trino(DbApi):
    """A connection. Data goes in by INSERT alone, into tables that are dropped at the end."""

    dialect = "trino"
    name = "Trino"
    transactional = False  # most catalogs write outside of them
    errors = (trino.exceptions.Error, OSError)
    TEMPORARY = ""
    TYPES: ClassVar = STANDARD | {"TIMESTAMP": "timestamp(6)"}
    CODES: ClassVar = {
        "CATALOG_NOT_FOUND": ABSENT,
        "COLUMN_NOT_FOUND": ABSENT,
        "INVALID_CAST_ARGUMENT": TYPE,
        "PERMISSION_DENIED": DENIED,
        "SCHEMA_NOT_FOUND": ABSENT,
        "TABLE_NOT_FOUND": ABSENT,
        "TYPE_MISMATCH": TYPE,
    }

    @classmethod
    def open(cls, url: ConnectionURL) -> Trino:
        """`trino://user@host:port/catalog/schema`; with a password through HTTPS."""
        catalog, schema = url.parts
        arguments = url.given(
            host=url.host, port=url.port, user=url.user, catalog=catalog, schema=schema
        )
        if url.password:
            login = trino.auth.BasicAuthentication(url.user, url.password)
            arguments = {"http_scheme": "https", "auth": login} | arguments
        with url.opening():
            return cls(trino.dbapi.connect(**arguments), is_owned=True)

    @property
    def version(self) -> str:
        """As the coordinator says it."""
        return str(self.rows("select version()")[0][0])

    def _tag(self, text: str) -> None:
        """At the end of each statement, which the list of queries shows."""
        self._comment = f"\n-- {text}"

    def estimate(self, sql: str) -> str:
        """The rows and bytes that the connectors expect to read; they need statistics for it."""
        ((answer,),) = self.rows(f"explain (type io, format json) {sql}")
        tables = json.loads(answer)["inputTableColumnInfos"]
        sizes = [
            (float(estimate["outputRowCount"]), float(estimate["outputSizeInBytes"]))
            for estimate in (table["estimate"] for table in tables)
        ]
        rows, size = map(sum, zip(*sizes, strict=True)) if sizes else (math.nan, math.nan)
        return f"about {rows:,.0f} rows, {size / 1e6:,.1f} MB" if rows + size < math.inf else ""

    def _run(self, sql: str) -> None:
        with self._running(sql) as cursor:
            cursor.fetchall()  # a statement is done when its answer was read

    def _code(self, error: BaseException) -> str:
        return str(getattr(error, "error_name", ""))

    def _reason(self, error: BaseException) -> str:
        is_lost = isinstance(error, OSError | trino.exceptions.TrinoConnectionError)
        return LOST if is_lost else super()._reason(error)

    def _brief(self, error: BaseException) -> str:
        brief = first_line(getattr(error, "message", None) or error)
        return f"{brief}. {TOO_MANY}" if self._code(error) == "QUERY_HAS_TOO_MANY_STAGES" else brief

    def _kind(self, described: Sequence[Any]) -> str:
        return _kind(str(described[1]))


def _kind(declared: str) -> str:
    """DuckDB's word for a type of Trino.

    `timestamp(6) with time zone` is TIMESTAMP WITH TIME ZONE, `array(double)` DOUBLE[].
    """
    if item := re.fullmatch(r"array\((.*)\)", declared):
        return f"{_kind(item[1])}[]"
    word, *digits = re.findall(r"\w+", declared)
    if word == "decimal" and len(digits) == 2:
        return decimal(int(digits[0]), int(digits[1]))
    zone = " WITH TIME ZONE" if declared.endswith("with time zone") else ""
    return f"{_KINDS.get(word, word.upper())}{zone}"
