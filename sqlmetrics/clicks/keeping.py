"""Tables and views that are there only while a log is worked on."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sqlmetrics.engines.translated import Database
from sqlmetrics.errors import SpecError


def table(engine: Database, name: str, select: str) -> AbstractContextManager[None]:
    """A table of a query's rows, while the block lasts.

    Raises:
        SpecError: If the database has no such tables.
    """
    dialect = engine.translation.dialect
    if not dialect.keep:
        raise SpecError(f"{dialect.title} keeps no table for a while, as a click log needs it")
    return engine.made(f"{dialect.keep} {name} as\n{select}", f"{dialect.drop} {name}")


def view(engine: Database, name: str, select: str) -> AbstractContextManager[None]:
    """A view of a query, while the block lasts; a table where not every database has views."""
    if engine.translation.changes:
        return table(engine, name, select)
    return engine.made(f"create temporary view {name} as\n{select}", f"drop view {name}")
