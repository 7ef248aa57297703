"""The file of an embedded database, before it is opened: is it one, and is it complete?"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import duckdb

from sqlmetrics.engines.file_kinds import DUCKDB, EMPTY, SQLITE, kind_of, start_of
from sqlmetrics.engines.url import is_file
from sqlmetrics.errors import EngineError, SpecError

DATABASES = {"duckdb": DUCKDB, "sqlite": SQLITE}
"""Scheme -> what its files are."""

HOW_TO_OPEN = {DUCKDB: "--db {path}", SQLITE: "--connection sqlite:///{path}"}

EMPTY_FILE = (
    "the database file {path!r} is empty (0 bytes), as after a full disk; delete it, or run "
    "again to write it"
)


def check_database(path: str, scheme: str, *, writing: bool) -> None:
    """Refuse a file that is no database of a kind; one that is not there is well.

    From version 2.0 on DuckDB opens a data file as a database in memory, which would swallow
    all that is written to it.

    Args:
        path: Where the file is; what is no file is passed over.
        scheme: Of which kind it shall be: `duckdb`, `sqlite`.
        writing: Whether an empty file is well, because the database is made in it.

    Raises:
        SpecError: If the file is something else, with the option to give.
        EngineError: If it is empty, and only read.
    """
    expected_kind = DATABASES.get(scheme)
    if expected_kind is None or not is_file(path) or not os.path.isfile(path):
        return
    try:
        kind = kind_of(start_of(path))
    except OSError:  # the database tells why
        return
    if kind == EMPTY:
        if not writing and expected_kind == DUCKDB:  # SQLite reads it as a database without a table
            raise EngineError(EMPTY_FILE.format(path=path))
    elif kind in HOW_TO_OPEN and kind != expected_kind:
        raise SpecError(f"{path!r} is {kind}: {HOW_TO_OPEN[kind].format(path=path)}")
    elif kind != expected_kind:
        raise SpecError(
            f"{path!r} is {kind or 'a file of another kind'}, not {expected_kind}; as a database "
            "give a file like metrics.duckdb, which a run creates; give data as RANKINGS or "
            "LABELS, or as `file:` in a spec"
        )


def is_empty(path: str) -> bool:
    """Whether a path leads to a file of 0 bytes."""
    return is_file(path) and os.path.isfile(path) and not os.path.getsize(path)


def fill_empty(path: str) -> None:
    """Make a file of 0 bytes a new DuckDB database, which DuckDB itself refuses to do.

    It is filled in place and under DuckDB's own lock: a process that has just made the file
    and is about to write to it loses nothing.

    Raises:
        EngineError: If another process has it open, or it cannot be written.
    """
    try:
        with open(path, "r+b") as file:
            _lock(file.fileno(), path)
            if not os.fstat(file.fileno()).st_size:
                file.write(_new_database())
    except OSError as error:
        raise EngineError(f"cannot write {path!r}: {error.strerror}") from None


def _new_database() -> bytes:
    """The bytes of a database without a table."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "new.duckdb"
        duckdb.connect(str(file)).close()
        return file.read_bytes()


def _lock(file: int, path: str) -> None:
    """Hold the lock that DuckDB takes, until the file is closed."""
    with suppress(ImportError):  # Windows lets nobody open what another one writes
        import fcntl

        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EngineError(f"cannot open {path!r}: another process has it open") from None
