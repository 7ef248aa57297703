"""DuckDB: embedded, or a connection that the user already has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sqlmetrics.errors import EngineError, InputError, SpecError
from sqlmetrics.template import relation


class DuckDB:
    """One connection. SELECT rights are enough: what is made is temporary.

    Args:
        connection: The user's own; it is used as it is and left open. Default: a new
            one in memory.
        database: A database file to open for reading instead.

    Raises:
        EngineError: If the database cannot be opened.
    """

    dialect = "duckdb"

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        database: str | None = None,
    ) -> None:
        self._own = connection is None
        self._registered: list[str] = []
        self._connection = _open(database) if connection is None else connection

    def __enter__(self) -> DuckDB:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._registered:
            self._connection.unregister(name)
        if self._own:
            self._connection.close()

    def is_relation(self, name: str) -> bool:
        """Whether there is a table or view of this name."""
        try:
            self._connection.execute(f"describe select * from {relation(name)}")
        except duckdb.Error:
            return False
        return True

    def register(self, name: str, data: Any) -> None:
        """Make data in memory readable under a name, without a copy.

        Raises:
            InputError: If it is not tabular data.
        """
        if not hasattr(data, "__arrow_c_stream__"):
            raise InputError(
                f"data in memory must be a DataFrame or speak Arrow, given {type(data).__name__}"
            )
        try:
            self._connection.register(name, pa.table(data))
        except (pa.ArrowException, TypeError) as error:
            raise InputError(f"the data in memory cannot be read as a table: {error}") from None
        self._registered.append(name)

    def columns(self, source: str) -> dict[str, str]:
        """Names and types of what stands behind FROM.

        Raises:
            InputError: If it cannot be read.
        """
        try:
            rows = self._connection.execute(f"describe select * from {source}").fetchall()
        except duckdb.Error as error:
            raise InputError(f"cannot read {source.strip()}: {_first_line(error)}") from None
        return {name: kind for name, kind, *_ in rows}

    def refuse_other_than_select(self, query: str) -> None:
        """Raise SpecError unless a user's text is one query."""
        try:
            statements = duckdb.extract_statements(query)
        except duckdb.Error as error:
            raise SpecError(f"the query cannot be read: {_first_line(error)}") from None
        if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
            raise SpecError("a source's sql must be one select statement, and nothing else")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with _failing(sql):
            return self._connection.execute(sql).fetchall()

    def table(self, sql: str) -> pa.Table:
        """The rows of a query as an Arrow table."""
        with _failing(sql):
            return self._connection.sql(sql).to_arrow_table()

    def execute(self, sql: str) -> None:
        """Run a statement."""
        with _failing(sql):
            self._connection.execute(sql)


def _open(database: str | None) -> duckdb.DuckDBPyConnection:
    if database is None:
        return duckdb.connect(config={"python_enable_replacements": False})
    if not Path(database).exists():
        raise EngineError(f"there is no database file {database!r}")
    try:
        return duckdb.connect(database, read_only=True)
    except duckdb.Error as error:
        raise EngineError(f"cannot open {database!r}: {_first_line(error)}") from None


@contextmanager
def _failing(sql: str) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise EngineError(f"DuckDB failed: {_first_line(error)}", sql) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
