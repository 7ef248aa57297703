"""Trino, through its client."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import trino

from sqlmetrics.engines.catalog_lock import LockingDriver, TableLock
from sqlmetrics.engines.dbapi import DbApi
from sqlmetrics.engines.driver import STANDARD
from sqlmetrics.engines.failure import ABSENT, DENIED, LARGE, LOST, TYPE, first_line
from sqlmetrics.engines.types import decimal
from sqlmetrics.engines.url import ConnectionURL
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.template import parts

if TYPE_CHECKING:
    import pyarrow as pa

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


CONFLICTS = ("ICEBERG_COMMIT_ERROR", "DELTA_LAKE_BAD_WRITE", "TRANSACTION_CONFLICT")
"""What a statement fails with that another writer of the table was quicker than."""

ATTEMPTS = 3
"""So often a statement is tried that meets another writer."""

QUICKER = f"another writer of the table was quicker, {ATTEMPTS} times; run it again"
"""What is said of it then."""

_AGAIN = re.compile(r"(?:--.*\n)*(?:merge|delete|update)\b")
"""How a statement begins that does the same a second time."""

_KEPT = re.compile(r"(?P<about>(?:--.*\n)*)create table (?P<name>\w+) as\n")

_JSON = {"BIGINT": "bigint", "BOOLEAN": "boolean"}
"""Kind -> what a value in JSON becomes there; others are texts, as JSON has no NaN."""

BATCH, LONGEST = 20_000, 900_000
"""Rows of one INSERT, fewer where its text would be longer: a server takes 1,000,000 characters."""

REPLACING = ("delta_lake", "iceberg")
"""The connectors whose tables change by `merge`, all of it or nothing."""


class Trino(LockingDriver, DbApi):
    """A connection. Data goes in as JSON, into tables that are dropped at the end."""

    dialect = "trino"
    name = "Trino"
    transactional = False  # most catalogs write outside of them
    errors = (trino.exceptions.Error, OSError)
    TEMPORARY = ""
    KEEPS = "create table"
    LOCK = TableLock
    METRICS_AT_ONCE = 20
    TYPES: ClassVar = STANDARD | {"TIMESTAMP": "timestamp(6)"}
    CODES: ClassVar = {
        "CATALOG_NOT_FOUND": ABSENT,
        "COLUMN_NOT_FOUND": ABSENT,
        "INVALID_CAST_ARGUMENT": TYPE,
        "PERMISSION_DENIED": DENIED,
        "QUERY_HAS_TOO_MANY_STAGES": LARGE,
        "SCHEMA_NOT_FOUND": ABSENT,
        "TABLE_NOT_FOUND": ABSENT,
        "TYPE_MISMATCH": TYPE,
    }

    @classmethod
    def open(cls, url: ConnectionURL) -> Trino:
        """`trino://user@host:port/catalog/schema`; with a password through HTTPS."""
        catalog, schema = url.parts
        arguments = url.driver_options(
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

    def writing_rights(self, names: Sequence[str] = ()) -> tuple[str, ...]:
        """Why a run cannot write there, if its connector cannot."""
        try:
            for name in names or ("metrics",):
                self.check_replaces(name)
        except SpecError as error:
            return (f"no; {error}",)
        return ()

    def check_replaces(self, name: str) -> None:
        """Whether the catalog of a table has a connector that can merge."""
        catalog = [self._literal(part.lower()) for part in parts(name)[:-2]]
        where = catalog[-1] if catalog else "current_catalog"
        rows = self.rows(
            "select catalog_name, connector_name from system.metadata.catalogs "
            f"where catalog_name = {where}"
        )
        for catalog_name, connector in rows:
            if connector not in REPLACING:
                raise SpecError(
                    f"{name}: the catalog {catalog_name} has the connector {connector}, whose "
                    "tables cannot change by one merge; give a table of a catalog of Iceberg or "
                    "Delta Lake, like catalog.schema.table, or print the statements with "
                    "sqlmetrics compile SPEC --job FOLDER"
                )

    @contextmanager
    def temporary(self, create: str, drop: str) -> Iterator[None]:
        """What a statement makes, for as long as the block lasts.

        What is kept is a table that others see: it is called by a name of its own, which stands
        for the name that statements have until the block ends.
        """
        match = _KEPT.match(create)
        if not match:
            with super().temporary(create, drop):
                yield
            return
        name = match["name"]
        own_name = f"{name}_{secrets.token_hex(4)}"
        about = (
            f"kept for a while by process {os.getpid()} on {socket.gethostname()} since "
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; drop it if that was killed"
        )
        self.execute(
            f"{match['about']}create table {own_name}\ncomment {self._literal(about)}\nas\n"
            f"{create[match.end() :]}"
        )
        with self._dropped(f"drop table if exists {own_name}"):
            self._own_names[name] = own_name
            try:
                yield
            finally:
                del self._own_names[name]

    @cached_property
    def _own_names(self) -> dict[str, str]:
        """Names in statements -> those of the tables that stand behind them."""
        return {}

    def _fill(self, target: str, table: pa.Table) -> None:
        """As a text a column: over rows of VALUES Trino thinks for a second a thousand."""
        from sqlmetrics.engines.types import kind_of

        kinds = [kind_of(array.type) for array in table.columns]
        for batch in table.to_batches(max_chunksize=BATCH):
            self._insert(target, kinds, batch)

    def _insert(self, target: str, kinds: Sequence[str], batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        names = [f"c{n}" for n in range(len(kinds))]
        arrays = ",\n    ".join(map(self._array, kinds, batch.columns))
        values = ", ".join(
            name if kind in _JSON else f"cast({name} as {self.TYPES[kind]})"
            for name, kind in zip(names, kinds, strict=True)
        )
        sql = (
            f"insert into {target}\nselect {values}\nfrom unnest(\n    {arrays}\n) "
            f"as loaded ({', '.join(names)})"
        )
        half = batch.num_rows // 2
        if len(sql) < LONGEST or not half:
            self._run(sql)
            return
        self._insert(target, kinds, batch.slice(0, half))
        self._insert(target, kinds, batch.slice(half))

    def _array(self, kind: str, column: pa.Array) -> str:
        """The values of a column, as SQL."""
        values = column.to_pylist()
        if kind == "DOUBLE":
            values = [value if value is None else _number(value) for value in values]
        elif kind not in _JSON:
            values = [value if value is None else str(value) for value in values]
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
        item = _JSON.get(kind, "varchar")
        return f"cast(json_parse({self._literal(text)}) as array({item}))"

    def _renamed(self, sql: str) -> str:
        """A statement with the names of tables that are kept for a while."""
        if not any(name in sql for name in self._own_names):
            return sql
        names = "|".join(map(re.escape, self._own_names))
        pattern = rf"'(?:[^']|'')*'|--[^\n]*|\b({names})\b"
        return re.sub(
            pattern, lambda match: self._own_names[match[1]] if match[1] else match[0], sql
        )

    @contextmanager
    def _running(self, sql: str) -> Iterator[Any]:
        with super()._running(self._renamed(sql)) as cursor:
            yield cursor

    def _run(self, sql: str) -> None:
        for n_left in reversed(range(ATTEMPTS if _AGAIN.match(sql) else 1)):
            try:
                with self._running(sql) as cursor:
                    cursor.fetchall()  # a statement is done when its answer was read
                return
            except trino.exceptions.TrinoQueryError as error:
                if not n_left or self._code(error) not in CONFLICTS:
                    raise
                time.sleep(0.5 + secrets.randbelow(1000) / 1000)

    def _code(self, error: BaseException) -> str:
        return str(getattr(error, "error_name", ""))

    def _reason(self, error: BaseException) -> str:
        is_lost = isinstance(error, OSError | trino.exceptions.TrinoConnectionError)
        return LOST if is_lost else super()._reason(error)

    def _brief(self, error: BaseException) -> str:
        brief = first_line(getattr(error, "message", None) or error)
        hint = TOO_MANY if self._reason(error) == LARGE else ""
        hint = QUICKER if self._code(error) in CONFLICTS else hint
        return f"{brief}. {hint}" if hint else brief

    def _kind(self, described: Sequence[Any]) -> str:
        return _kind(str(described[1]))


def _number(value: float) -> str:
    """A text that Trino reads as the same number.

    >>> _number(-math.inf), _number(1e300)
    ('-Infinity', '1e+300')
    """
    words = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
    return words.get(repr(value), repr(value))


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
