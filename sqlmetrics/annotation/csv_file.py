"""CSV files that keep every text exactly as it is, for people to fill in and send back.

Ids may hold commas, quotes, line breaks, leading zeros or a leading `=`: every text is
quoted and nothing is put before it. What a spreadsheet changes is found by `fingerprint`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlmetrics.engines.url import nearest_file
from sqlmetrics.errors import InputError

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula (OWASP, CSV injection)."""

MARK = "\ufeff"
"""The byte order mark, by which Excel knows that a CSV is UTF-8."""

LARGEST_FIELD = 2**31 - 1

_NEEDS_QUOTES = re.compile(r'[",;|\t\r\n]|^\s|\s$')


@dataclass(frozen=True)
class Records:
    """The rows of a CSV file under their names.

    Attributes:
        names: The heading.
        rows: The texts of each row, as many as there are names.
        lines: The line of the file on which each row ends, counted from 1.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]


def csv_text(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The text of a CSV file: texts in quotes, numbers without, None empty.

    >>> print(csv_text(["id", "n"], [["007", 1.5], ['a"b', None]]), end="")
    "id","n"
    "007",1.5
    "a""b",""
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return buffer.getvalue()


def line(texts: Sequence[str], delimiter: str = ",") -> str:
    """One row without its line end; only texts that need quotes have them.

    >>> line(["007", 'a"b', "x,y", ""])
    '007,"a""b","x,y",'
    """
    return delimiter.join(
        '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text
        for text in texts
    )


def read(path: str | Path, delimiter: str | None = None) -> Records:
    """The rows of a CSV file, also as a spreadsheet saves it.

    A byte order mark is passed over, and rows without any text are left out.

    Args:
        path: Where it is.
        delimiter: What is between fields; without one it is `,`, else `;` or a tab if the
            heading has one of these and no comma.

    Raises:
        InputError: If it cannot be read, is not UTF-8, has no heading or a column twice,
            or a row is shorter or longer than the heading.
    """
    text = _text(path)
    csv.field_size_limit(LARGEST_FIELD)
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter or _delimiter(text), strict=True
    )
    try:
        names = tuple(next(reader, ()))
        numbered_rows = [(tuple(row), reader.line_num) for row in reader if any(row)]
    except csv.Error as error:
        raise InputError(f"{str(path)!r} line {reader.line_num}: {error}") from None
    if not any(names):
        raise InputError(
            f"{str(path)!r} has no header line; write the names of the columns in its first line"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{str(path)!r} has two columns called {twice[0]!r}; rename one of them")
    for row, line in numbered_rows:
        if len(row) != len(names):
            raise InputError(
                f"{str(path)!r}: line {line} has {len(row)} fields, but its header has "
                f"{len(names)}: {', '.join(names)}"
            )
    return Records(
        names, tuple(row for row, _ in numbered_rows), tuple(line for _, line in numbered_rows)
    )


def fingerprint(*texts: str) -> str:
    """A short word for texts, by which a change of any of them is found.

    It begins with a letter, so that no spreadsheet takes it for a number.

    >>> fingerprint("q1", "007") == fingerprint("q1", "7")
    False
    """
    length_prefixed = "".join(f"{len(text)}:{text}" for text in texts)
    return "k" + hashlib.md5(length_prefixed.encode(), usedforsecurity=False).hexdigest()[:11]


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would run a text instead of showing it."""
    return text.startswith(FORMULA)


def escape_formula(text: str | None) -> str:
    """A text that is only to be looked at: what would be a formula gets a `'` in front.

    >>> print(escape_formula("=HYPERLINK(1)"))
    '=HYPERLINK(1)
    """
    text = text or ""
    return f"'{text}" if is_formula(text) else text


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        near = nearest_file(str(path)) if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"cannot read {str(path)!r}: {error.strerror}{near}") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{str(path)!r} is not UTF-8 (byte {error.start}); save it as 'CSV UTF-8'"
        ) from None


def delimiter_of(path: str | Path) -> str:
    """What is between the fields of a file that is there."""
    return _delimiter(_text(path))


def _delimiter(text: str) -> str:
    heading = text.split("\n", 1)[0]
    if "," in heading:
        return ","
    return next((mark for mark in (";", "\t") if mark in heading), ",")
