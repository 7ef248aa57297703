"""An engine that is given DuckDB's text, whichever dialect it has."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sqlmetrics.engines.descriptions import Descriptions
from sqlmetrics.engines.duckdb import DuckDB
from sqlmetrics.sql.dialects import dialect
from sqlmetrics.sql.translation import Translation

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.engines.session import Session


class TranslatedDatabase(Descriptions):
    """What the compiler prints runs here in the engine's own dialect.

    Args:
        engine: The engine.
    """

    def __init__(self, engine: Session) -> None:
        self._engine = engine
        self.translation = Translation(dialect(engine.dialect))
        self.find = engine.find
        self.free_name = engine.free_name
        self.register = engine.register
        self.alone = engine.alone
        self.transaction = engine.transaction
        self.scratch = engine.scratch
        self.load = engine.load

    def __enter__(self) -> Self:
        self._engine.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._engine.__exit__(*failure)

    @property
    def name(self) -> str:
        """The product."""
        return self._engine.name

    @property
    def version(self) -> str:
        """Its version."""
        return self._engine.version

    def describe(self, source: str) -> dict[str, str]:
        """Names and types of what stands behind FROM, as it is now."""
        text = self.translation.text(f"select * from {source}")
        return self._engine.columns(f"(\n{text}) as source")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._engine.rows(self.translation.text(sql))

    def records(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query as dicts of Python's own values."""
        return self.table(sql).to_pylist()  # type: ignore[no-any-return]

    def table(self, sql: str) -> pa.Table:
        """The rows of a query as an Arrow table."""
        return self._engine.table(self.translation.text(sql))

    def try_out(self, sql: str) -> None:
        """Raise an error if a query cannot run; nothing is computed."""
        self._engine.columns(f"(\n{self.translation.text(sql)}) as evaluation")

    def execute(self, sql: str) -> None:
        """Run a statement."""
        self._engine.execute(self.translation.text(sql))

    def made(self, create: str, drop: str) -> AbstractContextManager[None]:
        """What a statement makes, for as long as the block lasts."""
        return self._engine.made(self.translation.text(create), self.translation.text(drop))

    def chained(self, create: str, drop: str) -> AbstractContextManager[None]:
        """A table that is kept for as long as the block lasts, made of others that are."""
        return self._engine.chained(self.translation.text(create), self.translation.text(drop))


Database = DuckDB | TranslatedDatabase
"""A database that is given DuckDB's text."""


def database(
    connection: Any = None, *, profiles: str | Path | None = None, create: bool = False
) -> Database:
    """The database of a connection; see `open_engine`, which says what one is.

    Raises:
        SpecError: If it is none, or a file that is not there and shall not be made.
        EngineError: If it cannot be opened.
    """
    if isinstance(connection, DuckDB | TranslatedDatabase):
        return connection
    from sqlmetrics.engines.registry import open_engine

    engine = open_engine(connection, profiles=profiles, create=create)
    return engine if isinstance(engine, DuckDB) else TranslatedDatabase(engine)
