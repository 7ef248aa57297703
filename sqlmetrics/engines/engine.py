"""What the rest of sqlmetrics asks of a database, whichever it is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    import pyarrow as pa


class Engine(Protocol):
    """One open connection, used in a `with` block.

    It is given text in its own dialect, and names as `template.relation` reads them: dotted,
    a part in double quotes where it is not a plain word; `quoted` turns such a name into the
    dialect's own text. Whatever its driver raises becomes an `EngineError` with the SQL, and
    after that the connection can be used again.
    """

    @property
    def dialect(self) -> str:
        """The dialect of the text that it takes: `duckdb`, `postgres`, ..."""

    @property
    def name(self) -> str:
        """The product, as the server says it: `PostgreSQL`, `MariaDB`."""

    @property
    def version(self) -> str:
        """Its version, as the server says it: `15.9`."""

    @property
    def transactional(self) -> bool:
        """Whether `transaction` can undo; if not, each statement stands alone."""

    @property
    def holds_nan(self) -> bool:
        """Whether a column can hold NaN and infinity."""

    def __enter__(self) -> Self:
        """Set what decides the meaning of our text."""

    def __exit__(self, *_: object) -> None:
        """Put settings back and drop what was registered; close what was opened here."""

    def quoted(self, name: str) -> str:
        """A dotted name as text of the dialect."""

    def find(self, name: str) -> str | None:
        """The name of a table or view that can be read, None if there is none."""

    def columns(self, source: str) -> dict[str, str]:
        """Names and types of what stands behind FROM; the types in DuckDB's words."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""

    def table(self, sql: str) -> pa.Table:
        """The rows of a query: float64, int64, string, date32, timestamp[us], never Decimal."""

    def execute(self, sql: str) -> None:
        """Run a statement."""

    def made(self, create: str, drop: str) -> AbstractContextManager[None]:
        """What a statement makes, for as long as the block lasts."""

    def chained(self, create: str, drop: str) -> AbstractContextManager[None]:
        """A table that is kept for as long as the block lasts, made of others that are."""

    def alone(self, name: str) -> AbstractContextManager[None]:
        """As the only one that writes what is named so; others wait until the block ends."""

    def transaction(self) -> AbstractContextManager[None]:
        """All that the block does, or nothing of it; see `transactional`."""

    def free_name(self, name: str) -> str:
        """The name, or one with a number behind it that no table or view has."""

    def register(self, name: str, data: Any) -> str:
        """Make data readable until the connection is left, and say under which name."""

    def load(self, name: str, data: Any) -> str:
        """Make a table of exactly this name, which stays, and fill it."""

    def scratch(self) -> AbstractContextManager[str]:
        """A schema of its own, dropped with all that is in it, also after a failure."""
