"""The one class of a database, whichever driver is below it, and the one door to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sqlmetrics.engines.waiting import time_limit
from sqlmetrics.errors import InputError
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.template import parts, relation
from sqlmetrics.sql.translation import Translation

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.engines.driver import Driver

Data = TypeVar("Data")

_CHANGES_TABLES = re.compile(r"(?:\s*--.*\n)*\s*(?:create|alter|drop)\b", re.IGNORECASE)
"""How a statement begins that makes, changes or drops a table or view."""


class Database:
    """A database that is given DuckDB's text, and reads it in its own dialect.

    Used in a `with` block; on leaving it the connection is as it was: settings that change the
    meaning of SQL are put back, and nothing that was made for a while stays.

    Args:
        driver: The connection.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.translation = Translation(dialect_named(driver.dialect), executes=True)
        self._known: dict[str, dict[str, str] | InputError] | None = None
        self._counts: dict[str, int] = {}
        self.find = driver.find
        self.free_name = driver.free_name
        self.register = driver.register
        self.load = driver.load
        self.alone = driver.alone
        self.transaction = driver.transaction
        self.scratch = driver.scratch
        self.limited = driver.limited
        self.profiled = driver.profiled

    def __enter__(self) -> Self:
        self.driver.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self.driver.__exit__(*failure)

    @property
    def name(self) -> str:
        """The product."""
        return self.driver.name

    @property
    def version(self) -> str:
        """Its version."""
        return self.driver.version

    @property
    def memory(self) -> float | None:
        """How many bytes a query may take; None if the database does not say."""
        return self.driver.memory

    @property
    def files(self) -> list[str]:
        """The files that it has open, where it is a library that reads and writes them itself."""
        return self.driver.files

    def bounded(self, seconds: float) -> AbstractContextManager[None]:
        """Stop what is computed once the block has lasted so many seconds.

        Raises:
            EngineError: If a statement was stopped.
        """
        return time_limit(seconds, self.driver.name, self.driver.interrupt)

    def columns(self, source: str) -> dict[str, str]:
        """Names and types of what stands behind FROM; the types in DuckDB's words.

        Raises:
            InputError: If it cannot be read.
        """
        if self._known is None:
            return self.describe(source)
        if source not in self._known:
            try:
                self._known[source] = self.describe(source)
            except InputError as error:
                self._known[source] = error
        columns = self._known[source]
        if isinstance(columns, InputError):
            raise columns
        return columns

    def describe(self, source: str) -> dict[str, str]:
        """The same, as it is now.

        Raises:
            InputError: If it cannot be read.
        """
        return self.driver.described(self.translation.text(f"select * from {source}"))

    def look_up(self, names: Iterable[str]) -> None:
        """Describe tables together that `columns` is going to be asked for, where that can be.

        Args:
            names: Dotted names of tables and views, also of those that are not there.
        """
        if self._known is None:
            return
        sources = {relation(name): name for name in names}
        unknown = {source: name for source, name in sources.items() if source not in self._known}
        if len(unknown) < 2:
            return
        columns_by_name = self.driver.described_tables(list(unknown.values()))
        for source, name in unknown.items():
            if name in columns_by_name:
                self._known[source] = columns_by_name[name] or InputError(
                    f"cannot be read: there is no table or view {name}"
                )

    def count(self, source: str) -> int:
        """How many rows stand behind FROM; while `reading`, once until a statement is run."""
        counts = self._counts if self._known is not None else {}
        if source not in counts:
            counts[source] = int(self.rows(f"select count(*) from {source}")[0][0])
        return counts[source]

    @contextmanager
    def reading(self, *, anew: bool = False) -> Iterator[None]:
        """While the block lasts nobody else changes a table, so each is described once.

        Args:
            anew: Whether others may have changed what was described before, as before a lock.
        """
        outer = self._known
        self._known = {} if outer is None else outer
        if anew:
            self._known.clear()
            self._counts.clear()
        try:
            yield
        finally:
            self._known = outer
            if outer is None:
                self._counts.clear()

    @contextmanager
    def keeping_rows(self) -> Iterator[None]:
        """While the block lasts rows may be kept in tables that others see too, if need be.

        Where there are temporary tables nothing changes. Where not, only what writes anyway, or
        cannot do without, makes tables: an evaluation computes anew what it reads twice.
        """
        before = self.translation
        if self.driver.KEEPS and not before.dialect.keep:
            self.translation = before.keeping(self.driver.KEEPS)
        try:
            yield
        finally:
            self.translation = before

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self.driver.rows(self.translation.text(sql))

    def records(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query as dicts of Python's own values."""
        return self.driver.records(self.translation.text(sql))

    def table(self, sql: str) -> pa.Table:
        """The rows of a query as an Arrow table."""
        return self.driver.table(self.translation.text(sql))

    def try_out(self, sql: str) -> None:
        """Raise an error if a query cannot run; nothing is computed."""
        self.driver.try_out(self.translation.text(sql))

    def execute(self, sql: str) -> None:
        """Run a statement."""
        self.execute_all([sql])

    def execute_all(self, statements: Iterable[str]) -> None:
        """Run statements in their order, at once where the database takes several."""
        self.driver.execute_all(self._sent(statements))

    def execute_together(self, statements: Iterable[str]) -> None:
        """Run statements in one transaction, where the database has any: all or none."""
        self.driver.execute_together(self._sent(statements))

    def _sent(self, statements: Iterable[str]) -> list[str]:
        texts = [self.translation.text(sql) for sql in statements]
        self._forget_changed(texts)
        return texts

    def _forget_changed(self, statements: Iterable[str]) -> None:
        """What is known of the tables and views that statements make, change or drop."""
        self._counts.clear()
        changing = [text for text in statements if _CHANGES_TABLES.match(text)]
        for source in [*(self._known or ())] if changing else ():
            name = parts(source)[-1] if re.fullmatch(r'[\w."]+', source) else ""
            if not name or any(re.search(rf"(?<!\w){name}(?!\w)", text) for text in changing):
                del self._known[source]  # type: ignore[union-attr]

    def temporary(self, create: str, drop: str) -> AbstractContextManager[None]:
        """What a statement makes, for as long as the block lasts."""
        self._forget_changed([create])
        return self.driver.temporary(self.translation.text(create), self.translation.text(drop))

    def chained(self, create: str, drop: str) -> AbstractContextManager[None]:
        """A table that is kept for as long as the block lasts, made of others that are."""
        self._forget_changed([create])
        return self.driver.chained(self.translation.text(create), self.translation.text(drop))


def connect(
    connection: Any = None, *, profiles: str | Path | None = None, create: bool = False
) -> Database:
    """Open a database in a `with` block; every argument `connection` accepts the same values.

    Args:
        connection: A URL such as `postgresql://ann@host/sales`, the path of a DuckDB file, an
            output of `profiles.yml`, a connection of the database's Python driver or of SQLAlchemy
            (which stays open), or a SQLAlchemy engine. Default: a new DuckDB in memory.
        profiles: The path of `profiles.yml`. Default: here, or where dbt keeps its own.
        create: Whether to create the file if it does not exist.

    Raises:
        SpecError: If it is not a connection, or the file does not exist and `create` is False.
        EngineError: If it cannot be opened.
    """
    if isinstance(connection, Database):
        return connection
    from sqlmetrics.engines.registry import open_driver

    return Database(open_driver(connection, profiles=profiles, create=create))


def is_frame(data: object) -> bool:
    """Whether data are a DataFrame of Spark, classic or Connect."""
    kind = type(data)
    return kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame"


def session_of(connection: Any, *tables: object) -> Any:
    """The connection that was given; without one the session of the first DataFrame of Spark."""
    if connection is not None:
        return connection
    for table in tables:
        parts = table.values() if isinstance(table, Mapping) else [table]
        for part in parts:
            if is_frame(part):
                return getattr(part, "sparkSession")  # noqa: B009 (Any, without pyspark's types)
    return None


def with_views(data: Data, engine: Database) -> Data | str:
    """The name of a temporary view in the place of a DataFrame of the engine's own session.

    One of another session goes to the engine as Arrow; all else is given back as it is. The view
    is dropped when the engine is left.
    """
    if isinstance(data, dict) and any(map(is_frame, data.values())):
        return {name: with_views(part, engine) for name, part in data.items()}  # type: ignore[return-value]
    if not is_frame(data):
        return data
    frame: Any = data
    if engine.driver.reads(frame):
        return engine.register("sqlmetrics_frame", frame)
    return frame.toArrow()  # type: ignore[no-any-return]
