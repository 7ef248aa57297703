"""What a connection makes of single statements: things for a while, and transactions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import ClassVar

from sqlmetrics.errors import EngineError

TRANSACTION = ("begin", "commit", "rollback")
SAVEPOINT = (
    "savepoint sqlmetrics",
    "release savepoint sqlmetrics",
    "rollback to savepoint sqlmetrics",
)


class Statements(ABC):
    """A connection that executes statements.

    Attributes:
        transactional: Whether `transaction` can undo; if not, each statement stands alone.
        TRANSACTION: How a transaction begins, ends, and is undone.
    """

    transactional: ClassVar[bool] = True
    TRANSACTION: ClassVar[tuple[str, str, str]] = TRANSACTION

    @abstractmethod
    def execute(self, sql: str) -> None:
        """Run a statement."""

    def _in_transaction(self) -> bool:
        """Whether the user has a transaction open."""
        return False

    @contextmanager
    def made(self, create: str, drop: str) -> Iterator[None]:
        """What a statement makes, for as long as the block lasts."""
        self.execute(create)
        with self._dropped(drop):
            yield

    def chained(self, create: str, drop: str) -> AbstractContextManager[None]:
        """A table that is kept for as long as the block lasts, made of others that are."""
        return self.made(create, drop)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that the block does, or nothing of it, where the engine has transactions."""
        if not self.transactional:
            yield
            return
        begin, commit, rollback = SAVEPOINT if self._in_transaction() else self.TRANSACTION
        self.execute(begin)
        try:
            yield
        except BaseException:
            self._tried(rollback)
            raise
        self.execute(commit)

    @contextmanager
    def _dropped(self, drop: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._tried(drop)
            raise
        self.execute(drop)

    def _tried(self, sql: str) -> None:
        """Clean up as far as it goes: the first error is the one to tell."""
        with suppress(EngineError):
            self.execute(sql)
