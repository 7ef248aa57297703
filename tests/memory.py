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


def evaluate(*tables_and_metrics: Any, cell: str = "", **options: Any) -> sm.Result:
    """`sm.evaluate` in the database of this process.

    Args:
        *tables_and_metrics: As `sm.evaluate` takes them.
        cell: Of a matrix of numbers, which. Looking for bad input costs more than the numbers
            of small tables: a slice of the cells has it, to see that good input is not refused.
        **options: As `sm.evaluate` takes them.
    """
    check = not cell or keep(f"check {cell}", CHECKED)
    return sm.evaluate(
        *tables_and_metrics, **({"connection": database(), "check": check} | options)
    )
