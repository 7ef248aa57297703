"""A graded sheet: reading what people filled in, and refusing what would give wrong labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlmetrics.annotation import csv_file
from sqlmetrics.annotation.csv_file import Records
from sqlmetrics.annotation.sheet import ASSESSOR, COLUMNS, GRADE, IDS, KEY
from sqlmetrics.engines.output_files import note_read
from sqlmetrics.errors import InputError, unknown
from sqlmetrics.evaluation.checks.problem import Problem

Key = tuple[str, ...]
"""The ids of a label: a day, if labels have one, a query, an item, and who graded it, if known."""

_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+")
_EXAMPLES = 3


@dataclass(frozen=True)
class GradedSheet:
    """The grades of a sheet.

    Attributes:
        ids: The names of what identifies a grade: those of `sheet.IDS`, and `sheet.ASSESSOR` if
            the sheet says who graded.
        grades: The grade of each key; 0 or more.
        ungraded: The keys of the rows without a grade: not graded yet.
    """

    ids: tuple[str, ...]
    grades: dict[Key, float]
    ungraded: tuple[Key, ...]

    @property
    def n_ungraded(self) -> int:
        """How many rows have no grade."""
        return len(self.ungraded)

    @property
    def has_assessors(self) -> bool:
        """Whether it is known who graded."""
        return ASSESSOR in self.ids

    def anonymous(self, labels: str) -> GradedSheet:
        """The grades alone, for labels that do not say who graded.

        Raises:
            InputError: If two people graded a pair: such labels hold one grade of it.
        """
        names = self.ids[:-1]
        graders: dict[Key, list[str]] = {}
        for *key, assessor in self.grades:
            graders.setdefault(tuple(key), []).append(assessor)
        twice = [(*key, " and ".join(who)) for key, who in graders.items() if len(who) > 1]
        if twice:
            message = f"pairs that two assessors graded: {len(twice):,} of {len(graders):,}"
            columns = (*names, "assessors")
            raise InputError(
                Problem(repr(labels), message, len(twice), columns, twice[:_EXAMPLES], _TWO)
            )
        grades = {key[:-1]: grade for key, grade in self.grades.items()}
        return GradedSheet(names, grades, tuple(key[:-1] for key in self.ungraded))


def read_all(paths: Sequence[str]) -> GradedSheet:
    """The grades of several sheets together.

    Raises:
        InputError: As `read` does, or if the sheets differ in their ids, or two have a pair.
    """
    sheets = [read(path) for path in paths]
    problems = []
    first: dict[Key, str] = {}
    for path, sheet in zip(paths, sheets, strict=True):
        if sheet.ids != sheets[0].ids:
            problems.append(
                f"{path!r} has the ids {', '.join(sheet.ids)}, but {paths[0]!r} has "
                f"{', '.join(sheets[0].ids)}; import them one after the other"
            )
        repeated = [key for key in sheet.grades if first.setdefault(key, path) != path]
        if repeated:
            problems.append(
                f"{path!r} and {first[repeated[0]]!r} both grade {', '.join(repeated[0])}; keep "
                "one of the rows"
            )
    if problems:
        raise InputError(problems)
    grades = {key: grade for sheet in sheets for key, grade in sheet.grades.items()}
    ungraded = tuple(key for sheet in sheets for key in sheet.ungraded)
    return GradedSheet(sheets[0].ids, grades, ungraded)


def read(path: str | Path) -> GradedSheet:
    """The grades of a sheet; rows whose grade is empty are counted and left out.

    Raises:
        InputError: If the file cannot be read, a column is unknown or missing, an id is
            empty or was changed since the export, a pair stands twice, or a grade is no
            number, negative or not finite. All problems are told, with lines.
    """
    note_read(path)
    records = csv_file.read(path)
    wrong = [f"{str(path)!r}: {problem}" for problem in _column_problems(records.names)]
    if wrong:
        raise InputError(wrong)
    problems = list(_row_problems(records, repr(str(path))))
    if problems:
        raise InputError(problems)
    ids = _identity(records)
    texts = dict(zip(_of(records, ids), (text for (text,) in _of(records, (GRADE,))), strict=True))
    grades = {key: float(text) for key, text in texts.items() if text.strip()}
    return GradedSheet(ids, grades, tuple(key for key in texts if key not in grades))


def _column_problems(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name not in COLUMNS:
            yield unknown("column", name, COLUMNS)
    for name in (*IDS[1:], GRADE):
        if name not in names:
            yield f"the column {name} is missing; the columns are {', '.join(names)}"


def _row_problems(records: Records, path: str) -> Iterator[Problem]:
    """The problems of the rows, one a kind."""
    ids = tuple(name for name in IDS if name in records.names)
    keys, grades = (
        _of(records, _identity(records)),
        [text.strip() for (text,) in _of(records, (GRADE,))],
    )
    rows_by_problem: dict[tuple[str, str], list[int]] = {}
    rows_by_problem["an id is empty", "fill it in or delete the row"] = [
        i for i, key in enumerate(keys) if not all(key)
    ]
    if KEY in records.names:
        prints = [text for (text,) in _of(records, (KEY,))]
        rows_by_problem["some ids differ from those that were exported", _CHANGED] = [
            i for i, key in enumerate(keys) if csv_file.fingerprint(*key[: len(ids)]) != prints[i]
        ]
    first: dict[Key, int] = {}
    rows_by_problem["a query and item appear twice", "keep one of the rows"] = [
        i for i, key in enumerate(keys) if first.setdefault(key, i) != i
    ]
    rows_by_problem["a grade is not a number of 0 or more", _REMEDY] = [
        i for i, text in enumerate(grades) if text and not _is_grade(text)
    ]
    for (problem, remedy), rows in rows_by_problem.items():
        if rows:
            yield _problem(records, path, problem, rows, remedy)


_CHANGED = (
    "a spreadsheet drops leading zeros and rounds long numbers: open the sheet with its "
    "id columns as text"
)
_TWO = (
    "labels with a column that says who graded hold both: import into another file (--new, .csv or "
    ".parquet); combine makes one label of them"
)
_REMEDY = "write a grade such as 0, 1, 2 or 2.5; leave the cell empty if the item is not graded yet"


def _problem(
    records: Records, path: str, problem: str, rows: Sequence[int], remedy: str
) -> Problem:
    names = (*_identity(records), GRADE)
    cells = _of(records, names)
    examples = [(records.lines[i], *cells[i]) for i in rows[:_EXAMPLES]]
    message = f"{problem}: {len(rows):,} of {len(cells):,} rows"
    return Problem(path, message, len(rows), ("line", *names), examples, remedy)


def _identity(records: Records) -> tuple[str, ...]:
    return tuple(name for name in (*IDS, ASSESSOR) if name in records.names)


def _is_grade(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and float(text) < float("inf")


def _of(records: Records, names: Sequence[str]) -> list[tuple[str, ...]]:
    places = [records.names.index(name) for name in names]
    return [tuple(row[index] for index in places) for row in records.rows]
