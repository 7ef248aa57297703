"""Tables and views that are there only while a log is worked on."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.translation import Translation


def made(at: Translation, name: str, select: str, *, is_view: bool = False) -> str:
    """The statement that makes a table of a query's rows, for as long as a connection lasts.

    Args:
        at: The dialect.
        name: Its name.
        select: The query.
        is_view: Whether a view will do; not every database has such views.

    Raises:
        SpecError: If the database has no such tables.
    """
    if is_view and not at.changes:
        return f"create temporary view {name} as\n{select}"
    check_keeps(at)
    return f"{at.dialect.keep} {name} as\n{select}"


def check_keeps(at: Translation) -> None:
    """Raise an error if a database has no tables that are there for a while."""
    if not at.dialect.keep:
        raise SpecError(f"{at.dialect.title} keeps no table for a while, as a click log needs it")


def dropped(at: Translation, name: str, *, is_view: bool = False) -> str:
    """The statement that drops what `made` made."""
    return f"{at.dialect.drop if at.changes or not is_view else 'drop view'} {name}"


def table(engine: Database, name: str, select: str) -> AbstractContextManager[None]:
    """A table of a query's rows, while the block lasts."""
    at = engine.translation
    return engine.chained(made(at, name, select), dropped(at, name))


def view(engine: Database, name: str, select: str) -> AbstractContextManager[None]:
    """A view of a query, while the block lasts; a table where not every database has views."""
    at = engine.translation
    return engine.made(made(at, name, select, is_view=True), dropped(at, name, is_view=True))
