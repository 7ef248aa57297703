"""Files and tables that are not there, and those of the nearest names."""

from __future__ import annotations

from contextlib import suppress

from sqlmetrics.engines.database import Database
from sqlmetrics.engines.url import nearest_file
from sqlmetrics.errors import SqlmetricsError, did_you_mean
from sqlmetrics.evaluation.inputs.paths import first_file
from sqlmetrics.spec.source import REMOTE, Source
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.template import parts

NAMES = "select table_name, table_schema from information_schema.tables"


def unreadable(source: Source, relation: Relation, error: Exception, engine: Database) -> str:
    """Say of a source that cannot be read what it is, and where a query of the user's runs."""
    if source.sql:
        where = f", which runs in {engine.name}," if engine.translation.changes else ""
        return f"{source.sql!r}{where} {error}"
    return f"{relation.place!r} {error}"


def absent(source: Source, engine: Database) -> str:
    """Say of a source that cannot be read that it is not there; empty if that is not known.

    Args:
        source: A file, a relation, or something else.
        engine: Where it was to be read.
    """
    if source.file is not None:
        if source.file.startswith(REMOTE) or first_file(source.file):
            return ""
        return f"there is no file {source.file!r}{nearest_file(source.file)}"
    with suppress(SqlmetricsError):
        if source.relation is not None and engine.find(source.relation) is None:
            return f"there is no table {source.relation!r}{_nearest(source.relation, engine)}"
    return ""


def _nearest(name: str, engine: Database) -> str:
    """The question whether a table of a near name is meant, where the database lists them."""
    with suppress(SqlmetricsError):
        schemas = {str(table): str(schema) for table, schema in engine.rows(NAMES)}
        table_name = parts(name)[-1]
        if table_name in schemas:  # where the connection does not look
            return f"; did you mean {f'{schemas[table_name]}.{table_name}'!r}?"
        return did_you_mean(table_name, schemas)
    return ""
