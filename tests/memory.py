"""One database in memory for all tests that leave nothing behind: a new one is not free."""

from __future__ import annotations

from functools import cache

import duckdb


@cache
def database() -> duckdb.DuckDBPyConnection:
    """The database of this process; what a test makes in it, it drops.

    One thread: for tables this small more of them only wait for each other.
    """
    return duckdb.connect(config={"threads": 1, "python_enable_replacements": False})
