"""Files of DuckDB, made and looked into beside the database that is worked in."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.duckdb import open_database
from sqlmetrics.engines.file_kinds import DUCKDB, kind_of, start_of
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.sql.template import literal

ENDINGS = (".duckdb", ".ddb", ".db")
"""How the name of such a file ends."""


def is_database(file: Path) -> bool:
    """Whether a file that is there is one of DuckDB, by its first bytes."""
    return kind_of(start_of(str(file))) == DUCKDB


def tables(file: Path) -> list[str]:
    """The names of its tables; none if it cannot be read now."""
    try:
        with closing(duckdb.connect(str(file), read_only=True)) as connection:
            rows = connection.execute("select table_name from duckdb_tables()").fetchall()
    except duckdb.Error:  # of a newer DuckDB, or open elsewhere
        return []
    return [str(name) for (name,) in rows]


def unshared_file(file: Path) -> duckdb.DuckDBPyConnection:
    """A new file for rows that do not fit into memory, which nobody else opens."""
    return open_database(str(file), writing=True)


@contextmanager
def new_file(file: Path, version: str = "") -> Iterator[Database]:
    """A database in a new file, which is closed when the block ends.

    Args:
        file: The file.
        version: The oldest DuckDB that shall read it; empty if any will do.

    Raises:
        SpecError: If there is no such version.
    """
    option = f" (storage_version {literal(version)})" if version else ""
    with connect() as database:
        try:
            database.execute(f"attach {literal(str(file))} as published{option}")
        except InputError as error:
            raise _unknown_version(version, error) from None
        database.execute("use published")
        yield database
        database.execute("use memory")
        database.execute("detach published")


def check_version(version: str) -> None:
    """See that files can be written for the oldest DuckDB that shall read them.

    Raises:
        SpecError: If there is no such version.
    """
    if version:
        with tempfile.TemporaryDirectory() as folder, new_file(Path(folder) / "tried", version):
            pass


def _unknown_version(version: str, error: Exception) -> SpecError:
    """What is wrong with a version: DuckDB's error names those that there are."""
    options = str(error).rpartition("valid options are")[2]
    versions = re.findall(r"v\d+\.\d+\.\d+", options) or ["v1.4.0"]
    guess = unknown("storage version", version, versions).partition(" known:")[0]
    last = max(versions, key=lambda candidate: tuple(map(int, candidate[1:].split("."))))
    return SpecError(f"--storage-version: {guess} give a version like v1.4.0, at most {last}")
