"""How the failure of a database is told: what kind it is, and its own first words."""

from __future__ import annotations

from collections.abc import Mapping

from sqlmetrics.errors import EngineError

LOST = "the connection is lost"
DENIED = "a privilege is missing"
ABSENT = "a table, column or schema is not there"
TYPE = "a value has not the type that is wanted"
READ_ONLY = "this command changes nothing, and the SQL would"

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
        reason: `LOST`, `DENIED`, `ABSENT` or `TYPE`; empty if it is none of them.
    """

    def __init__(self, engine: str, reason: str, brief: str, sql: str = "") -> None:
        self.reason = reason
        super().__init__(f"{engine} failed: {f'{reason}: ' if reason else ''}{brief}", sql)


def reason_of(code: str, codes: Mapping[str, str]) -> str:
    """The kind of failure that a code stands for; the longest beginning counts."""
    known = sorted((start for start in codes if code.startswith(start)), key=len)
    return codes[known[-1]] if known else ""


def first_line(text: object) -> str:
    """The first line that says anything, printable and not too long."""
    lines = (line.strip() for line in str(text).splitlines())
    return one_line(next(filter(None, lines), "no reason given"))


def one_line(text: str) -> str:
    r"""A text as one printable line, not too long: an engine may quote what is no text.

    >>> one_line("Original Line: \0\0DUCK\n")
    'Original Line: DUCK'
    """
    shown = "".join(char if char.isprintable() else " " for char in text[: LENGTH * 2])
    return " ".join(shown.split())[:LENGTH]
