"""A graded sheet: reading what people filled in, and refusing what would give wrong labels."""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sqlmetrics.annotation import csv_file
from sqlmetrics.annotation.csv_file import Records
from sqlmetrics.annotation.sheet import ASSESSOR, COLUMNS, GRADE, IDS, KEY
from sqlmetrics.catalog.option import plain
from sqlmetrics.engines.output_files import note_read, replaced, writing
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.arguments import listed
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.evaluation.inputs.formats import TREC, format_of

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


# A file of labels that grows: CSV or Parquet, replaced as a whole or not at all.

Grades = Mapping[Key, float]


class LabelFile(ABC):
    """Labels in a file.

    Attributes:
        path: Where it is.
        ids: The file's columns that identify a label, in the order of a key.
        grade: The file's column of grades.
        is_new: Whether it is not there yet.
    """

    def __init__(self, path: Path, ids: Sequence[str], grade: str, is_new: bool) -> None:
        self.path, self.ids, self.grade, self.is_new = path, tuple(ids), grade, is_new
        self.stamp = None if is_new else _stamp(path)

    @abstractmethod
    def rows(self) -> list[tuple[Key, str]]:
        """The key and the grade of every row, as texts."""

    @abstractmethod
    def write(self, path: Path, grades: Grades) -> None:
        """Write all old rows as they are, and the new ones behind them, to another path."""

    @abstractmethod
    def has_column(self, name: str) -> bool:
        """Whether it has a column, or may have any since it is not there yet."""

    def with_ids(self, ids: Sequence[str]) -> LabelFile:
        """The same file, whose labels are identified by other columns."""
        return type(self)(self.path, ids, self.grade, self.is_new)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a label needs."""
        return (*self.ids, self.grade)

    def check(self, names: Sequence[str]) -> None:
        """Refuse a file that lacks one of the columns."""
        for name in self.columns:
            if name not in names:
                raise InputError(f"{str(self.path)!r}: {unknown('column', name, names)}")

    def grow(self, grades: Grades) -> None:
        """Add labels: all of them or none, and no old row is ever lost.

        Old and new rows are written to a file beside it, read again and counted; only
        then does it take the place of the old one, in one step.

        Raises:
            InputError: If a new label does not fit the columns, or somebody changed the
                file in the meantime; it is then as it was.
            SpecError: If it cannot be written; likewise.
        """
        before = [] if self.is_new else self.rows()
        target = self.path.resolve()
        with writing(self.path), replaced(target) as new_path:
            self.write(new_path, grades)
            self._settle(new_path, [*before, *_texts(grades)])
            if not self.is_new:
                shutil.copymode(target, new_path)

    def _settle(self, new_path: Path, expected: Sequence[tuple[Key, str]]) -> None:
        """See that what was written can be read again and that nothing moved under it."""
        with new_path.open("rb+") as file:
            os.fsync(file.fileno())
        written_rows = type(self)(new_path, self.ids, self.grade, is_new=False).rows()
        if [(key, _same(grade)) for key, grade in written_rows] != [
            (k, _same(g)) for k, g in expected
        ]:
            raise InputError(
                f"{str(self.path)!r} does not read back as it was written, so the file was "
                "left as it was"
            )
        if not self.is_new and _stamp(self.path) != self.stamp:
            raise InputError(f"{str(self.path)!r} was changed during the import; import again")
        if self.is_new and self.path.exists():
            raise InputError(f"{str(self.path)!r} was created during the import; import again")


class CsvLabels(LabelFile):
    """Labels in a CSV file; the bytes of its old rows stay as they are."""

    def has_column(self, name: str) -> bool:
        """Whether it has a column, or may have any since it is not there yet."""
        return self.is_new or name in csv_file.read(self.path).names

    def rows(self) -> list[tuple[Key, str]]:
        """The key and the grade of every row, as texts."""
        records = csv_file.read(self.path)
        self.check(records.names)
        places = [records.names.index(name) for name in self.columns]
        cells = ([row[index] for index in places] for row in records.rows)
        return [(tuple(key), grade) for *key, grade in cells]

    def write(self, path: Path, grades: Grades) -> None:
        """Write all old rows as they are, and the new ones behind them, to another path."""
        old = b"" if self.is_new else self.path.read_bytes()
        names = self.columns if self.is_new else csv_file.read(self.path).names
        mark = "," if self.is_new else csv_file.delimiter_of(self.path)
        heading = old.split(b"\n", 1)[0]
        end = "\r\n" if heading.endswith(b"\r") else "\n"
        lines = [csv_file.line(names, mark)] if self.is_new else []
        for key, grade in _texts(grades):
            cells = dict(zip(self.columns, (*key, grade), strict=True))
            lines.append(csv_file.line([cells.get(name, "") for name in names], mark))
        joint = end.encode() if old and not old.endswith(b"\n") else b""
        path.write_bytes(old + joint + "".join(line + end for line in lines).encode())


class ParquetLabels(LabelFile):
    """Labels in a Parquet file; its columns keep their types."""

    def has_column(self, name: str) -> bool:
        """Whether it has a column, or may have any since it is not there yet."""
        return self.is_new or name in self._table().column_names

    def rows(self) -> list[tuple[Key, str]]:
        """The key and the grade of every row, as texts."""
        table = self._table()
        *ids, grades = ([_text(v) for v in table[name].to_pylist()] for name in self.columns)
        return list(zip(zip(*ids, strict=True), grades, strict=True))

    def write(self, path: Path, grades: Grades) -> None:
        """Write all old rows as they are, and the new ones behind them, to another path."""
        old = self._table()
        rows = [(*key, grade) for key, grade in _texts(grades)]
        texts = dict(zip(self.columns, zip(*rows, strict=True), strict=True)) if rows else {}
        columns = [
            self._column(field, texts.get(field.name, [None] * len(rows))) for field in old.schema
        ]
        new = pa.Table.from_arrays(columns, schema=old.schema)
        pq.write_table(pa.concat_tables([old, new]), path)

    def _table(self) -> pa.Table:
        if self.is_new:
            types = [pa.string() for _ in self.ids] + [pa.float64()]
            return pa.schema(list(zip(self.columns, types, strict=True))).empty_table()
        try:
            table = pq.ParquetFile(self.path).read()
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"cannot read {str(self.path)!r} as Parquet: {error}") from None
        self.check(table.column_names)
        return table

    def _column(self, field: pa.Field, texts: Sequence[str | None]) -> pa.Array:
        """Texts in a column's own type, if they are the same when read back."""
        try:
            array = pa.array(texts, pa.string()).cast(field.type)
        except (pa.ArrowException, NotImplementedError):
            array = None
        back: list[str | None] = [None] * len(texts)
        if array is not None:
            back = [_text(value) for value in array.to_pylist()]
        for text, again in zip(texts, back, strict=True):
            same = again == text or (field.name == self.grade and _same(again) == _same(text))
            if text is not None and not same:
                raise InputError(
                    f"{str(self.path)!r}: {text!r} does not fit the column {field.name}, "
                    f"which is {field.type}"
                )
        return array if array is not None else pa.nulls(len(texts), field.type)


class QrelsLabels(LabelFile):
    """Qrels of TREC, query, iteration, item and grade a line; old lines stay as they are."""

    def has_column(self, name: str) -> bool:  # noqa: ARG002
        """Whether it has a column, or may have any since it is not there yet."""
        return False

    def rows(self) -> list[tuple[Key, str]]:
        """The key and the grade of every row, as texts."""
        rows: list[tuple[Key, str]] = []
        for number, line in enumerate(self._text().splitlines(), start=1):
            fields = line.split()
            if len(fields) not in (0, N_FIELDS):
                raise InputError(
                    f"{str(self.path)!r}: line {number} has {len(fields)} fields; a line of qrels "
                    "has four: query, iteration, item, grade"
                )
            if fields:
                rows.append(((fields[0], fields[2]), fields[3]))
        return rows

    def write(self, path: Path, grades: Grades) -> None:
        """Write all old rows as they are, and the new ones behind them, to another path."""
        old = self._text()
        joint = "\n" if old and not old.endswith("\n") else ""
        path.write_bytes((old + joint + qrels(grades, self.path)).encode())

    def _text(self) -> str:
        if self.is_new:
            return ""
        try:
            return self.path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise InputError(f"cannot read {str(self.path)!r} as qrels: {error}") from None


def qrels(grades: Grades, path: str | Path) -> str:
    """Labels as qrels of TREC, a line for each.

    Args:
        grades: The grade of each query and item.
        path: Where they go, for messages.

    Raises:
        SpecError: If labels have days.
        InputError: If an id has a blank in it.
    """
    lines = []
    for key, grade in _texts(grades):
        if len(key) > len(("query", "item")):
            raise SpecError(
                f"{str(path)!r}: the labels have days, and qrels cannot hold them; give labels as "
                "CSV or Parquet"
            )
        odd = [text for text in key if text.split() != [text]]
        if odd:
            raise InputError(
                f"{str(path)!r}: an id in qrels cannot contain blanks, like {odd[0]!r}"
            )
        lines.append(f"{key[0]} 0 {key[1]} {grade}\n")
    return "".join(lines)


N_FIELDS = 4
"""How many fields a line of qrels has."""

FORMATS: Mapping[str, type[LabelFile]] = {
    ".csv": CsvLabels,
    ".parquet": ParquetLabels,
    ".pq": ParquetLabels,
}


def opened(path: str, ids: Sequence[str], grade: str, *, new: bool = False) -> LabelFile:
    """The labels of a file; nothing is written yet.

    Args:
        path: A file of one of FORMATS, or qrels by any other name.
        ids: Its columns that identify a label.
        grade: Its column of grades.
        new: Whether it is to be made.

    Raises:
        SpecError: If its format is unknown, or it is there and must not be, or is not
            and must be.
    """
    suffix = Path(path).suffix.casefold()
    kind = FORMATS.get(suffix)
    if kind is None and suffix not in NO_QRELS and format_of(path, "labels") is TREC["labels"]:
        kind = QrelsLabels
    if kind is None:
        formats = f"{', '.join(FORMATS)} and qrels"
        raise SpecError(f"grades can be added to {formats}, given {path!r}")
    if new and Path(path).exists():
        raise SpecError(f"{path!r} already exists; leave out --new to add the grades to it")
    if not new and not Path(path).is_file():
        raise SpecError(f"there is no file {path!r}; add --new to create it")
    return kind(Path(path), ids, grade, is_new=new)


NO_QRELS = (".gz", ".ods", ".xls", ".xlsx")
"""Endings of files to which no lines are added; qrels may have any other."""


def _texts(grades: Grades) -> list[tuple[Key, str]]:
    return [(key, plain(grade)) for key, grade in grades.items()]


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _same(grade: str | None) -> object:
    """A grade to compare: a number where it is one."""
    try:
        return float(grade or "")
    except ValueError:
        return grade


def _stamp(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_mtime_ns, state.st_size


# Grades of a sheet into a file of labels: what is new, what was known, what disagrees.

CONFLICTS = ("error", "keep")
"""What to do if a sheet and the labels disagree: refuse it, or keep the old grades."""

NAMES = {"metric_date": "date", "query_id": "query", "item_id": "item", ASSESSOR: "judge"}
"""The columns of a sheet, by the roles that the labels' columns have."""


@dataclass(frozen=True)
class ImportReport:
    """What an import did.

    Attributes:
        n_before: Rows that the labels had.
        n_added: Labels that are new.
        n_known: Rows of the sheet that the labels had already, with the same grade.
        n_kept: Rows whose grade the labels have otherwise, and keep.
        n_ungraded: Rows without a grade.
        n_pooled: Those of them that have a label now that says so.
    """

    n_before: int
    n_added: int
    n_known: int
    n_kept: int
    n_ungraded: int
    n_pooled: int = 0


POOLED = -1.0
"""The grade of an item that is in the pool and was not graded, as TREC writes it."""


def add(
    sheets: str | Sequence[str],
    labels: str,
    columns: Mapping[str, str],
    *,
    conflicts: str = "error",
    new: bool = False,
    pooled: bool = False,
) -> ImportReport:
    """Add the grades of sheets to a file of labels, all of them or none.

    If a sheet says who graded, so do the labels, if they are new or have a column for it.

    Args:
        sheets: The graded sheet, or several.
        labels: The file of labels, CSV or Parquet.
        columns: The labels' columns for `query`, `item`, `grade`, if the sheet has days `date`,
            and if it says who graded `judge`.
        conflicts: One of CONFLICTS.
        new: Whether the file of labels is to be made.
        pooled: Whether rows without a grade become labels of the grade POOLED.

    Raises:
        InputError: If the sheet is wrong, or disagrees with the labels.
        SpecError: If the file of labels cannot be read or written.
    """
    graded = read_all(listed(sheets))
    if "metric_date" in graded.ids and "date" not in columns:
        raise SpecError("the sheet has days; name the day column of the labels with --date")
    names = [columns[NAMES[name]] for name in graded.ids if name != ASSESSOR]
    file = opened(labels, names, columns["grade"], new=new)
    if graded.has_assessors and file.has_column(columns["judge"]):
        file = file.with_ids((*names, columns["judge"]))
        if pooled:
            raise SpecError(
                f"--pooled is for labels with one grade a pair, and {labels!r} says who graded; "
                "combine the grades first"
            )
    elif graded.has_assessors:
        graded = graded.anonymous(labels)
    rows = [] if new else file.rows()
    existing_grades: dict[Key, set[float | str]] = {}
    for key, grade in rows:
        existing_grades.setdefault(key, set()).add(_number(grade))
    differing = [key for key, g in graded.grades.items() if existing_grades.get(key, {g}) != {g}]
    if differing and conflicts == "error":
        raise InputError(_disagreeing(labels, graded, existing_grades, differing))
    fresh = {key: grade for key, grade in graded.grades.items() if key not in existing_grades}
    unmarked = {*existing_grades, *graded.grades} if pooled else {*graded.ungraded}
    marks = {key: POOLED for key in graded.ungraded if key not in unmarked}
    if fresh or marks or new:
        file.grow({**fresh, **marks})
    n_known = len(graded.grades) - len(fresh) - len(differing)
    n_ungraded = sum(key not in marks for key in graded.ungraded)
    return ImportReport(len(rows), len(fresh), n_known, len(differing), n_ungraded, len(marks))


def _disagreeing(
    labels: str,
    graded: GradedSheet,
    existing_grades: Mapping[Key, set[float | str]],
    keys: list[Key],
) -> Problem:
    rows = [
        (
            *key,
            " and ".join(
                sorted(old if isinstance(old, str) else plain(old) for old in existing_grades[key])
            ),
            plain(graded.grades[key]),
        )
        for key in keys[:3]
    ]
    names = (*graded.ids, "in the labels", "in the sheet")
    message = f"labels that have another grade in the sheet: {len(keys):,}"
    remedy = "decide which grade is right; --conflicts keep keeps the grade of the labels"
    return Problem(repr(labels), message, len(keys), names, rows, remedy)


def _number(grade: str) -> float | str:
    try:
        return float(grade)
    except ValueError:
        return grade
