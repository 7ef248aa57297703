"""One database in memory for all tests that leave nothing behind: a new one is not free."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
from slices import keep

import sqlmetrics as sm

CHECKED = 0.2


@cache
def database() -> duckdb.DuckDBPyConnection:
    """The database of this process; what a test makes in it, it drops.

    One thread: for tables this small more of them only wait for each other.
    """
    return duckdb.connect(config={"threads": 1, "python_enable_replacements": False})


def evaluate(name: str, *tables_and_metrics: Any, **given: Any) -> sm.Result:
    """`sm.evaluate` in the database of this process, for the numbers.

    Looking for bad input costs more than the numbers of small tables. Where it is not the
    subject, a slice of the evaluations has it, to see that good input is not refused.

    Args:
        name: What the slice is chosen by: the cell of a matrix.
        *tables_and_metrics: As `sm.evaluate` takes them.
        **given: Likewise.
    """
    usual = {"connection": database(), "check": keep(f"check {name}", CHECKED)}
    return sm.evaluate(*tables_and_metrics, **(usual | given))
