"""Scores that a DOUBLE cannot hold: whole numbers beyond 2^53, decimals of many digits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.sql.stage import Column, print_template
from sqlmetrics.sql.template import identifier

EXACT = 2**53
"""Below it every whole number has a DOUBLE of its own; with the next one it shares it."""

TO_NUMBERS = (
    "cast it in sql to a type that holds all of them, select * replace (cast(score as bigint) as "
    "score), or decimal(38, 20); or leave score_precision out"
)
"""What helps texts where scores are compared as they are."""

LONG = 20
"""A text of so many characters, like -0.12345678901234567, has no more digits than a DOUBLE."""

DIGITS = 15
"""Decimals of so many digits have one each."""


@dataclass(frozen=True)
class RoundedScores:
    """What tells if the scores of a column are rounded.

    Attributes:
        beyond: The condition of rows whose score may be.
        exact: Its exact value.
    """

    beyond: str
    exact: str


def rounded(name: str, kind: str) -> RoundedScores | None:
    """How to look at a column; None if a DOUBLE holds all that its type has.

    Args:
        name: The column.
        kind: Its type.

    >>> rounded("score", "DOUBLE")
    >>> rounded("score", "BIGINT").exact
    'score'
    """
    column = identifier(name)
    if kind == "VARCHAR":
        size = f"abs(try_cast({column} as double))"
        kinds = {f"{size} >= {EXACT}": "decimal(38, 6)", f"{size} < 1e8": "decimal(38, 30)"}
        cases = (
            f"when {when} then cast(try_cast({column} as {kind}) as varchar)"
            for when, kind in kinds.items()
        )
        beyond = f"(length({column}) > {LONG} or {size} >= {EXACT})"
        return RoundedScores(beyond, f"case {' '.join(cases)} end")
    if re.fullmatch("U?(BIGINT|HUGEINT)", kind):
        return RoundedScores(f"({column} >= {EXACT} or {column} <= -{EXACT})", column)
    digits = re.fullmatch(r"DECIMAL(?:\((\d+),(\d+)\))?", kind)
    if digits and int(digits[1] or DIGITS + 1) > DIGITS:
        return RoundedScores(f"{column} is not null", column)
    return None


def text_scores(name: str, kind: str) -> Iterator[Problem]:
    """A column of texts, where scores are compared as they are: 9 would stand above 10.

    Args:
        name: The column.
        kind: Its type.
    """
    if kind == "VARCHAR":
        message = (
            f"{name} has the type {kind}, but score_precision=exact compares numbers, not texts"
        )
        yield Problem("rankings", message, 1, remedy=TO_NUMBERS)


def problems_of_scores(
    columns: Mapping[str, str], engine: Database, source: str, day: str = "", remedy: str = ""
) -> Iterator[Problem]:
    """Lists in which scores differ, but not as DOUBLEs.

    Args:
        columns: Role -> the rankings' column.
        engine: Where the rankings are.
        source: What stands behind FROM.
        day: The day of a row, of which a list is; it may have a column of times.
        remedy: What to do, if that is not to compare them exactly.
    """
    if "score" not in columns:
        return
    kinds = {name.casefold(): kind for name, kind in engine.columns(source).items()}
    rounding = rounded(columns["score"], kinds.get(columns["score"].casefold(), ""))
    if rounding is None:
        return
    roles = {"date": day} if day else {}
    roles |= {role: identifier(columns[role]) for role in ("system", "query") if role in columns}
    names = [columns[role] for role in roles]
    keys = [Column(text, identifier(columns[role])) for role, text in roles.items()]
    name = identifier(columns["score"])
    view = {
        "keys": keys,
        "score": name,
        "exact": rounding.exact,
        "beyond": rounding.beyond,
        "source": source,
    }
    rows = engine.rows(print_template("checks/rounded", view))
    if rows:
        message = f"scores that differ but are the same number as a DOUBLE: {rows[0][0]:,}"
        cast = ", once they are cast in sql to a type that holds them" * (rounding.exact != name)
        remedy = (
            remedy or f"set score_precision=exact{cast}, or subtract what the scores have in common"
        )
        yield Problem(
            "rankings",
            message,
            rows[0][0],
            (*names, "lowest", "highest", "rows"),
            [row[1:] for row in rows],
            remedy,
        )
