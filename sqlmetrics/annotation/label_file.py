"""A file of labels that grows: CSV or Parquet, replaced as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sqlmetrics.annotation import csv_file
from sqlmetrics.annotation.graded_sheet import Key
from sqlmetrics.catalog.option import plain
from sqlmetrics.engines.output_files import replaced, writing
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.inputs.formats import TREC, format_of

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
