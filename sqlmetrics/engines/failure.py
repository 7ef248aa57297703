"""How the failure of a database is told: what kind it is, and its own first words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlmetrics.errors import EngineError

LOST = "the connection is lost"
DENIED = "a privilege is missing"
ABSENT = "a table, column or schema does not exist"
TYPE = "a value has the wrong type"
LARGE = "the query is too large"
READ_ONLY = "this command only reads, but the SQL would write"

SQLSTATE: Mapping[str, str] = {
    "08": LOST,
    "57P": LOST,
    "28": DENIED,
    "25006": READ_ONLY,
    "42501": DENIED,
    "3D000": ABSENT,
    "3F000": ABSENT,
    "42703": ABSENT,
    "42P01": ABSENT,
    "42S02": ABSENT,
    "42S22": ABSENT,
    "02000": ABSENT,  # Snowflake: does not exist or not authorized
    "22003": TYPE,
    "22007": TYPE,
    "22018": TYPE,
    "22P02": TYPE,
    "42804": TYPE,
    "42846": TYPE,
    "42883": TYPE,
    "42K09": TYPE,
}
"""Beginnings of the standard's codes, as PostgreSQL, Spark, Snowflake and others use them."""

LENGTH = 500


class StatementError(EngineError):
    """Raised if a statement failed.

    Attributes:
        reason: `LOST`, `DENIED`, `ABSENT`, `LARGE` or `TYPE`; empty if it is none of them.
    """

    def __init__(self, engine: str, reason: str, brief: str, sql: str = "") -> None:
        self.reason = reason
        right = f" ({right_of(sql, brief)})" if reason == DENIED and sql else ""
        super().__init__(f"{engine} failed: {f'{reason}{right}: ' if reason else ''}{brief}", sql)


def right_of(sql: str, brief: str) -> str:
    """The right that a statement needs and a role has not.

    Args:
        sql: The statement, or what stands behind its FROM.
        brief: What the database said.

    >>> right_of("create temporary table t as select 1", "permission denied")
    'CREATE TEMPORARY TABLES'
    >>> right_of("select 1 from a.t", "permission denied for schema a")
    'USAGE'
    """
    if brief.startswith("must be owner"):
        return "OWNER"
    text = re.sub(r"^(?:\s|--[^\n]*(?:\n|$))*", "", sql).casefold()
    right = next((right for start, right in _RIGHTS if re.match(start, text)), "SELECT")
    return "USAGE" if right == "SELECT" and "for schema" in brief else right


_RIGHTS = (
    (r"create (?:or replace )?temporary", "CREATE TEMPORARY TABLES"),
    (r"create (?:or replace )?view", "CREATE VIEW"),
    (r"create", "CREATE"),
    (r"insert|-- loading", "INSERT"),
    (r"delete", "DELETE"),
    (r"update", "UPDATE"),
    (r"alter|comment", "ALTER"),
    (r"drop", "DROP"),
)
"""What a statement begins with -> the right that it needs; others read."""


def reason_of(code: str, codes: Mapping[str, str]) -> str:
    """The kind of failure that a code stands for; the longest beginning counts."""
    matching_codes = sorted((start for start in codes if code.startswith(start)), key=len)
    return codes[matching_codes[-1]] if matching_codes else ""


def first_line(text: object) -> str:
    """The first line that says anything, printable and not too long."""
    lines = (line.strip() for line in str(text).splitlines())
    return one_line(next(filter(None, lines), "no reason given"))


def one_line(text: str) -> str:
    r"""A text as one printable line, not too long: an engine may quote what is no text.

    >>> one_line("Original Line: \0\0DUCK\n")
    'Original Line: DUCK'
    """
    printable = "".join(char if char.isprintable() else " " for char in text[: LENGTH * 2])
    return " ".join(printable.split())[:LENGTH]
