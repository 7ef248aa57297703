"""A graded sheet: reading what people filled in, and refusing what would give wrong labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlmetrics.annotation import csv_file
from sqlmetrics.annotation.csv_file import Records
from sqlmetrics.annotation.sheet import COLUMNS, GRADE, IDS, KEY
from sqlmetrics.engines.output_files import note_read
from sqlmetrics.errors import InputError, unknown
from sqlmetrics.evaluation.checks.problem import Problem

Key = tuple[str, ...]
"""(query_id, item_id) of a label, or (metric_date, query_id, item_id)."""

_NUMBER = re.compile(r"\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+")
_EXAMPLES = 3


@dataclass(frozen=True)
class GradedSheet:
    """The grades of a sheet.

    Attributes:
        ids: The names of what identifies a label, as in `sheet.IDS`.
        grades: The grade of each key; 0 or more.
        n_ungraded: Rows without a grade: not graded yet.
    """

    ids: tuple[str, ...]
    grades: dict[Key, float]
    n_ungraded: int


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
    ids = tuple(name for name in IDS if name in records.names)
    texts = dict(zip(_of(records, ids), (text for (text,) in _of(records, (GRADE,))), strict=True))
    grades = {key: float(text) for key, text in texts.items() if text.strip()}
    return GradedSheet(ids, grades, len(texts) - len(grades))


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
    keys, grades = _of(records, ids), [text.strip() for (text,) in _of(records, (GRADE,))]
    rows_by_problem: dict[tuple[str, str], list[int]] = {}
    rows_by_problem["an id is empty", "fill it in or delete the row"] = [
        i for i, key in enumerate(keys) if not all(key)
    ]
    if KEY in records.names:
        prints = [text for (text,) in _of(records, (KEY,))]
        rows_by_problem["some ids differ from those that were exported", _CHANGED] = [
            i for i, key in enumerate(keys) if csv_file.fingerprint(*key) != prints[i]
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
_REMEDY = "write a grade such as 0, 1, 2 or 2.5; leave the cell empty if the item is not graded yet"


def _problem(
    records: Records, path: str, problem: str, rows: Sequence[int], remedy: str
) -> Problem:
    names = tuple(name for name in (*IDS, GRADE) if name in records.names)
    cells = _of(records, names)
    examples = [(records.lines[i], *cells[i]) for i in rows[:_EXAMPLES]]
    message = f"{problem}: {len(rows):,} of {len(cells):,} rows"
    return Problem(path, message, len(rows), ("line", *names), examples, remedy)


def _is_grade(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and float(text) < float("inf")


def _of(records: Records, names: Sequence[str]) -> list[tuple[str, ...]]:
    places = [records.names.index(name) for name in names]
    return [tuple(row[index] for index in places) for row in records.rows]
