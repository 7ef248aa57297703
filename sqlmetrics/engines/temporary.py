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

    def create(self, translation: Translation) -> str:
        """The statement that makes it, in the dialect.

        Raises:
            SpecError: If the database has no such tables.
        """
        return translation.text(self.statement(translation))

    def drop(self, translation: Translation) -> str:
        """The statement that drops it; empty if nothing is kept."""
        if not self.name:
            return ""
        return f"{translation.dialect.drop if self.kind == TABLE else 'drop view'} {self.name}"

    def created_in(self, engine: Database) -> AbstractContextManager[None]:
        """With it, for as long as the block lasts."""
        translation = engine.translation
        make = engine.chained if self.kind == TABLE else engine.temporary
        return make(self.statement(translation), self.drop(translation))

    def statement(self, translation: Translation) -> str:
        """The statement that makes it, in DuckDB's words; the query itself if nothing is kept."""
        if not self.name:
            return self.select
        check_keeps(translation)
        keep = translation.dialect.keep if self.kind == TABLE else "create temporary view"
        comment, select = commented(self.select)
        return f"{comment}{keep} {self.name} as\n{select}"


def check_keeps(translation: Translation) -> None:
    """Raise SpecError if a database has no tables that are there for a while."""
    if not translation.dialect.keep:
        raise SpecError(
            f"{translation.dialect.title} has no temporary tables, which a click log needs"
        )


@contextmanager
def keeping(
    engine: Database, steps: Iterable[Step], on_step: Callable[[Step], None] | None = None
) -> Iterator[None]:
    """With all that steps keep, made one after the other, for as long as the block lasts.

    Args:
        engine: The database.
        steps: What is kept.
        on_step: Is told after each step.
    """
    with ExitStack() as stack:
        for step in steps:
            stack.enter_context(step.created_in(engine))
            if on_step:
                on_step(step)
        yield
