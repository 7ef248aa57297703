"""Columns of a wide table that say whether something was done: 1 or 0, or words for these."""

from __future__ import annotations

from sqlmetrics.clicks.times import TEXTS
from sqlmetrics.sql.template import literal

DONE = ("1", "1.0", "true", "True", "TRUE", "t", "yes", "Yes", "YES", "y")
NOT_DONE = ("0", "0.0", "false", "False", "FALSE", "f", "no", "No", "NO", "n", "")


def is_done(column: str, kind: str) -> str:
    """What a row meets on which it was done.

    Args:
        column: The column as SQL.
        kind: Its type in DuckDB's words; empty if it is not known, and then a number.
    """
    if kind.startswith("BOOLEAN"):
        return f"case when {column} then 1 else 0 end = 1"
    if kind.startswith(TEXTS):
        return f"cast({column} as varchar) in ({', '.join(map(literal, DONE))})"
    return f"{column} = 1"


def is_unclear(kind: str) -> str:
    """What a row meets that has neither, over {column}; empty where no row can."""
    if kind.startswith("BOOLEAN"):
        return ""
    if kind.startswith(TEXTS):
        literals = ", ".join(map(literal, (*DONE, *NOT_DONE)))
        return f"{{column}} is not null\n    and {{text}} not in ({literals})"
    return "{column} is not null\n    and {column} not in (0, 1)"
