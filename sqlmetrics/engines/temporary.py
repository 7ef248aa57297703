"""Tables and views that are there only while a log or a job is worked on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.stage import commented
from sqlmetrics.sql.translation import Translation

TABLE, VIEW = "table", "view"


@dataclass(frozen=True)
class Step:
    """A query whose rows are kept under a name, for as long as a connection lasts.

    Attributes:
        name: Its name; without one the rows are read, and not kept.
        select: The query, in DuckDB's words; its comment will stand above the statement.
        kind: `table`, or `view` where only the text is kept.
    """

    name: str
    select: str
    kind: str = TABLE

    def create(self, at: Translation) -> str:
        """The statement that makes it, in the dialect.

        Raises:
            SpecError: If the database has no such tables.
        """
        return at.text(self.statement(at))

    def drop(self, at: Translation) -> str:
        """The statement that drops it; empty if nothing is kept."""
        if not self.name:
            return ""
        return f"{at.dialect.drop if self.kind == TABLE else 'drop view'} {self.name}"

    def there(self, engine: Database) -> AbstractContextManager[None]:
        """With it, for as long as the block lasts."""
        at = engine.translation
        make = engine.chained if self.kind == TABLE else engine.made
        return make(self.statement(at), self.drop(at))

    def statement(self, at: Translation) -> str:
        """The statement that makes it, in DuckDB's words; the query itself if nothing is kept."""
        if not self.name:
            return self.select
        check_keeps(at)
        keep = at.dialect.keep if self.kind == TABLE else "create temporary view"
        comment, select = commented(self.select)
        return f"{comment}{keep} {self.name} as\n{select}"


def check_keeps(at: Translation) -> None:
    """Raise SpecError if a database has no tables that are there for a while."""
    if not at.dialect.keep:
        raise SpecError(f"{at.dialect.title} keeps no table for a while, as a click log needs it")


@contextmanager
def keeping(
    engine: Database, steps: Iterable[Step], done: Callable[[Step], None] | None = None
) -> Iterator[None]:
    """With all that steps keep, made one after the other, for as long as the block lasts.

    Args:
        engine: The database.
        steps: What is kept.
        done: Is told after each step.
    """
    with ExitStack() as kept:
        for step in steps:
            kept.enter_context(step.there(engine))
            if done:
                done(step)
        yield
