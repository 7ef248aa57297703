"""The header line of a file of separated values: what stands between them, and their names."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

SEPARATORS = (",", ";", "\t", "|")
"""What people, spreadsheets and tools put between values, the commonest first."""

LONGEST = 2**16
"""A header line is looked for in as many bytes of a file."""


@dataclass(frozen=True)
class Header:
    """The first line of a file, split.

    Attributes:
        separator: What is between the values.
        names: The names, with the blanks around them.
        commas: The columns whose first values are numbers with a decimal comma.
    """

    separator: str
    names: tuple[str, ...] = ()
    commas: tuple[str, ...] = ()

    @property
    def is_padded(self) -> bool:
        """Whether the file has blanks before or behind each separator, as people type it."""
        before = [name.startswith(" ") for name in self.names[1:]]
        behind = [name.endswith(" ") for name in self.names[:-1]]
        return len(self.names) > 1 and (all(before) or all(behind))

    def has(self, column: str) -> bool:
        """Whether there is a column, or the names are not known."""
        folded = column.casefold()
        return not self.names or any(name.strip().casefold() == folded for name in self.names)


def header_of(
    path: str, usual: str, expected_names: Iterable[str], separator: str | None
) -> Header:
    """The header line of a file.

    It is split where that gives the most of the wanted names; where several ways do, at the
    usual separator, else at the commonest. A file that is elsewhere, or not there yet, is
    taken to have the usual one.

    Args:
        path: The file, empty if there is none.
        usual: What its format is split at.
        expected_names: Names of columns that it should have.
        separator: What to split at, if that is known.
    """
    line, *other_lines = _first_lines(path) or [""]
    folded = {name.casefold() for name in expected_names}
    ways = [Header(mark, _split(line, mark)) for mark in _tried(usual, separator)]

    def fits(way: Header) -> int:
        return len(folded & {name.strip().casefold() for name in way.names})

    best = max(ways, key=fits) if any(map(fits, ways)) else _by_looks(ways)
    return replace(best, commas=tuple(_with_commas(best, other_lines)))


def _with_commas(header: Header, lines: Iterable[str]) -> Iterator[str]:
    """The columns of whose values some have a decimal comma, and all are such numbers."""
    if header.separator == ",":
        return
    rows = [_split(line, header.separator) for line in lines if line.strip()]
    for position, name in enumerate(header.names):
        values = [
            row[position].strip() for row in rows if len(row) > position and row[position].strip()
        ]
        if all(map(_COMMA.fullmatch, values)) and any(map(_NO_THOUSAND.search, values)):
            yield name.strip()


_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
_NO_THOUSAND = re.compile(r",(\d{1,2}|\d{4,})$")


def _tried(usual: str, separator: str | None) -> list[str]:
    if separator is not None:
        return [separator]
    return [usual, *(mark for mark in SEPARATORS if mark != usual)]


def _by_looks(ways: list[Header]) -> Header:
    """The first that splits the line at all, for the message about its names."""
    return next((way for way in ways if len(way.names) > 1), ways[0])


def _split(line: str, separator: str) -> tuple[str, ...]:
    try:
        return tuple(next(csv.reader(io.StringIO(line), delimiter=separator), ()))
    except csv.Error:
        return ()


def _first_lines(path: str) -> list[str]:
    """A file's first lines; none if nothing can be read."""
    try:
        start = _start(path)
    except (OSError, EOFError, zlib.error):  # it is not there or cut, or DuckDB will tell
        return []
    lines = start.decode("utf-8-sig", errors="replace").splitlines()
    return lines[:-1] if len(start) == LONGEST and len(lines) > 1 else lines  # the last may be cut


def _start(file: str) -> bytes:
    if file.casefold().endswith(".gz"):
        with gzip.open(file) as opened:
            return opened.read(LONGEST)
    with Path(file).open("rb") as plain:
        return plain.read(LONGEST)
