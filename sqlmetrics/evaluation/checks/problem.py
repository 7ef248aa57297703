"""A problem of the input: what, how often, some rows, what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from sqlmetrics.errors import InputError, NoDataError, shortened
from sqlmetrics.tables.table import Table, printable

EXAMPLES = 3
"""How many rows of a problem are shown."""

_COMMAS = re.compile(r"\s*[-+]?\d*,\d+\s*")


def remedy_for(kind: str, texts: Iterable[object], *, of_file: bool) -> str:
    """What to do with texts that are no number, or no date.

    Args:
        kind: What is wanted: `number` or `date`.
        texts: Some of them.
        of_file: Whether they are of a CSV file, which can have decimal commas.

    >>> remedy_for("number", ["1,5"], of_file=True)
    "make it a number; for decimal commas use decimal=',' (--decimal ,)"
    """
    remedy = f"make it a {kind}"
    if of_file and kind == "number" and any(_COMMAS.fullmatch(str(text)) for text in texts):
        return f"{remedy}; for decimal commas use decimal=',' (--decimal ,)"
    return f"{remedy} like 2026-01-31" if kind == "date" else remedy


def refusal(problems: Sequence[Problem]) -> InputError:
    """The error that tells problems: that there is no data yet, if that is all that is wrong."""
    kind = NoDataError if all(problem.may_come for problem in problems) else InputError
    return kind(problems)


@dataclass(frozen=True)
class Problem:
    """One problem, for people (`str`) and for programs (`to_dict`).

    Attributes:
        table: The table it is in.
        message: What is wrong.
        count: How many rows or groups have it.
        columns: The columns of the examples.
        examples: Some of them.
        remedy: What to do.
        may_come: Whether nothing is wrong but that there are no rows yet.
        stops: Whether the table cannot be read as a whole for it, as with texts for numbers.
    """

    table: str
    message: str
    count: int
    columns: Sequence[str] = ()
    examples: Sequence[Sequence[Any]] = ()
    remedy: str = ""
    may_come: bool = False
    stops: bool = False

    def __str__(self) -> str:
        lines = [f"{self.table}: {self.message}"]
        if self.examples:
            rows = [[printable(value, 24) or repr(value) for value in row] for row in self.examples]
            lines.append(indent(Table(self.columns, rows).text(), "  "))
        if self.remedy:
            lines.append(f"  -> {self.remedy}")
        return "\n".join(lines)

    @property
    def line(self) -> str:
        """The same in one line, without examples."""
        return " -> ".join(filter(None, [f"{self.table}: {self.message}", self.remedy]))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values; what JSON has no type for is text."""
        plain = (int, float, bool, type(None))
        return {
            "table": self.table,
            "problem": self.message,
            "count": self.count,
            "examples": [
                {
                    name: value if isinstance(value, plain) else shortened(str(value))
                    for name, value in zip(self.columns, row, strict=True)
                }
                for row in self.examples
            ],
            "remedy": self.remedy,
        }
