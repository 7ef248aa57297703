"""Matrices of scores, ids and grades: arrays, masked and sparse ones, lists of lists.

A row is a query; queries are numbered from 0. A column is an item, numbered likewise, or in a
matrix of ids a place in a list. NumPy is imported where a matrix is given, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sqlmetrics.errors import InputError, SpecError

Array = Any
"""An array of NumPy."""

HOW_TO_SAY = "say which they are: .astype(float) makes them scores, .astype(str) item ids"
"""What to do with whole numbers that may be scores or ids."""


def is_matrix(value: object) -> bool:
    """Whether it is a matrix: two-dimensional, sparse, or a list whose rows are lists or arrays."""
    if hasattr(value, "tocoo"):
        return True
    if _is_frame(value):
        return False
    if hasattr(value, "__array__") or hasattr(value, "detach"):
        shape: Sequence[int] = getattr(value, "shape", ())
        return len(shape) == 2 and shape[1] > 0 and not _fields(value)
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_row, value))


def _is_row(value: object) -> bool:
    is_list = isinstance(value, list)
    return is_list or (hasattr(value, "__array__") and getattr(value, "ndim", 0) == 1)


def _is_frame(value: object) -> bool:
    return hasattr(value, "__arrow_c_stream__") or hasattr(type(value), "columns")


def _fields(value: object) -> object:
    return getattr(getattr(value, "dtype", None), "names", None)


def array_of(value: Any) -> Array:
    """An array of NumPy: of PyTorch, Paddle, JAX, TensorFlow, or a list; a mask is kept."""
    import numpy as np

    if hasattr(value, "detach"):  # PyTorch's and Paddle's, wherever they are
        value = value.detach()
        value = value.cpu() if hasattr(value, "cpu") else value
        if "bfloat16" in str(value.dtype):  # which NumPy has not
            value = value.float() if hasattr(value, "float") else value.astype("float32")
        value = value.numpy()
    return np.asanyarray(value)


@dataclass(frozen=True)
class Matrix:
    """A matrix, as the cells that are there, row by row.

    Attributes:
        values: Of each cell: scores, ids or grades.
        row: Of each cell, ascending.
        column: Of each cell.
        n_rows: How many rows there are.
        n_columns: How many columns; None if rows differ in length.
        kind: `text`, `whole` or `number`.
        is_nested: Whether it was given as a list of lists.
        is_sparse: Whether it was given as a sparse matrix.
    """

    values: Array
    row: Array
    column: Array
    n_rows: int
    n_columns: int | None
    kind: str
    is_nested: bool = False
    is_sparse: bool = False

    @property
    def shape(self) -> str:
        """For messages.

        >>> matrix_of([[0.5, 0.1], [0.2, 0.3]], "rankings").shape
        '2 x 2'
        """
        width = "rows of different lengths" if self.n_columns is None else self.n_columns
        return f"{self.n_rows} x {width}"

    def having(self, cells: Array) -> Matrix:
        """The matrix with some of its cells alone.

        Args:
            cells: Of each cell whether it stays.
        """
        if cells.all():
            return self
        arrays = {name: getattr(self, name)[cells] for name in ("values", "row", "column")}
        return replace(self, **arrays)

    def unmasked(self, mask: Array) -> Matrix:
        """The matrix without the cells where a mask of its shape is False."""
        return self.having(mask[self.row, self.column])

    @property
    def padding(self) -> Array:
        """Of each cell whether it is -1 where all others are 0 or more: what FAISS pads with."""
        import numpy as np

        if self.kind != "whole" or not len(self.values) or self.values.min() != -1:
            return np.zeros(len(self.values), bool)
        return self.values == -1

    def differs_in_rows(self) -> bool:
        """Whether no row has a value twice, and none is negative: ids of items."""
        import numpy as np

        ids = self.having(~self.padding)
        if not len(ids.values):
            return True
        if ids.values.min() < 0:
            return False
        values, highest = ids.values, int(ids.values.max())
        if highest >= 2**63 // self.n_rows - 1:  # hashes of 64 bits
            unique_ids, values = np.unique(values, return_inverse=True)
            highest = len(unique_ids) - 1
        # one number for a row and an id: sorted at once, in which rows stay one after the other
        keys = ids.row * (highest + 1) + values
        is_whole = len(keys) == self.n_rows * (self.n_columns or 0)
        keys = np.sort(keys.reshape(self.n_rows, -1), axis=1).ravel() if is_whole else np.sort(keys)
        return not (keys[1:] == keys[:-1]).any()

    def table(self, query: str, item: str, value: str) -> pa.Table:
        """One row per query, with lists: its items, and their scores or grades.

        Args:
            query: The name of the column of queries.
            item: That of the items.
            value: That of their scores or grades; empty for ids, which are values themselves.
        """
        import numpy as np

        counts = np.bincount(self.row, minlength=self.n_rows)
        rows = np.flatnonzero(counts)
        ends = pa.array(np.concatenate([[0], np.cumsum(counts[rows])]), pa.int64())
        items = self.column if value else self.values
        ids = _texts(items)
        columns = {
            query: pa.array(rows).cast(pa.string()),
            item: pa.LargeListArray.from_arrays(ends, ids),
        }
        if value:
            numbers = self.values
            # float16 and longdouble, which Arrow or its lists have not
            if numbers.dtype.kind == "b" or numbers.dtype.itemsize in (2, 12, 16):
                numbers = numbers.astype(float)
            columns[value] = pa.LargeListArray.from_arrays(ends, pa.array(numbers))
        return pa.table(columns)


def _texts(ids: Array) -> pa.Array:
    """Ids as texts."""
    if ids.dtype.kind in "iu":
        return pa.array(ids).cast(pa.string())
    return pa.array([None if value is None else str(value) for value in ids.tolist()], pa.string())


def matrix_of(value: Any, role: str) -> Matrix:
    """A matrix that somebody gave.

    Args:
        value: What `is_matrix` takes for one.
        role: `rankings` or `labels`, for messages.

    Raises:
        InputError: If it holds neither numbers nor texts.
        SpecError: If NumPy is not there.
    """
    try:
        import numpy as np
    except ImportError:  # pragma: no cover (who has matrices has it)
        raise SpecError(f"{role}: a matrix needs NumPy; run pip install numpy") from None
    if hasattr(value, "tocoo"):
        return _of_sparse(value, role, np)
    is_nested = isinstance(value, list | tuple)
    if is_nested:
        return _of_rows(value, role, np)
    cells = array_of(value)
    return _of_cells(cells.shape[0], cells.shape[1], cells.ravel(), role, np)


def _of_sparse(value: Any, role: str, np: Any) -> Matrix:
    cells = value.tocoo()
    if hasattr(cells, "sum_duplicates"):
        cells = cells.copy()
        cells.sum_duplicates()
    order = np.lexsort((cells.col, cells.row))
    row, column = cells.row[order].astype(np.int64), cells.col[order].astype(np.int64)
    values = cells.data[order]
    n_rows, n_columns = map(int, cells.shape)
    kind = _kind(values, role)
    return Matrix(values, row, column, n_rows, n_columns, kind, is_sparse=True)


def _of_rows(rows: Sequence[Any], role: str, np: Any) -> Matrix:
    """A list of rows, which may differ in length."""
    lengths = [len(row) for row in rows]
    values = [value for row in rows for value in (row.tolist() if hasattr(row, "tolist") else row)]
    n_texts = sum(isinstance(value, str) for value in values)
    n_missing = sum(value is None for value in values)
    if n_missing or (n_texts and n_texts < len(values)):
        content = "None" if n_missing else "texts and numbers"
        raise InputError(
            f"{role}: a list of lists holds {content}; write a row (query_id, item_id, ...) as a "
            "tuple or a dict"
        )
    matrix = _of_cells(len(rows), lengths, np.asarray(values), role, np)
    return replace(matrix, is_nested=True)


def _of_cells(n_rows: int, width: int | list[int], values: Array, role: str, np: Any) -> Matrix:
    lengths = np.full(n_rows, width) if isinstance(width, int) else np.array(width)
    row = np.repeat(np.arange(n_rows), lengths)
    column = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    is_even = n_rows > 0 and (lengths == lengths[0]).all()
    n_columns = width if isinstance(width, int) else int(lengths[0]) if is_even else None
    mask = np.ma.getmaskarray(values)
    plain = np.asarray(np.ma.getdata(values))
    if plain.dtype.kind == "O" and all(isinstance(value, str) for value in plain):
        plain = plain.astype(str)
    kind = _kind(plain, role)
    return Matrix(plain, row, column, n_rows, n_columns, kind).having(~mask)


def _kind(values: Array, role: str) -> str:
    if not values.size:
        return "whole"
    kinds = {"U": "text", "T": "text", "b": "whole", "i": "whole", "u": "whole", "f": "number"}
    if values.dtype.kind not in kinds:
        raise InputError(
            f"{role}: a matrix must hold numbers or texts, given the type {values.dtype}"
        )
    return kinds[values.dtype.kind]


class Shapes:
    """Matrices beside one another: what each holds is told by the other's shape and values.

    Args:
        runs: Name -> rankings; the name is empty where there is one alone.
        labels: The labels.
        mask: False where a row of the rankings has no item; None if it has one everywhere.
    """

    def __init__(self, runs: Mapping[str, Any], labels: Any, mask: Any) -> None:
        self._runs = dict(runs)
        self._matrices = {
            name: matrix_of(run, self._called(name)) for name, run in runs.items() if is_matrix(run)
        }
        self._given_labels = labels
        self._labels = matrix_of(labels, "labels") if is_matrix(labels) else None
        self._mask = mask
        self._notes: dict[str, None] = {}

    @staticmethod
    def _called(name: str) -> str:
        return f"rankings: {name}" if name else "rankings"

    def tables(
        self, columns: tuple[str, str, str], label_columns: tuple[str, str, str]
    ) -> tuple[dict[str, Any], Any, tuple[str, ...]]:
        """The runs and the labels, and the notes.

        Args:
            columns: The names of query, item and score in the rankings.
            label_columns: The names of query, item and grade in the labels.

        Raises:
            InputError: If shapes do not meet, or whole numbers may be scores or ids.
        """
        self._check_mask()
        kinds = {name: self._run_kind(name, run) for name, run in self._matrices.items()}
        label_kind = self._label_kind(kinds)
        runs = {
            name: self._run_table(name, kinds[name], columns)
            if name in kinds
            else self._without_padding(name, run)
            for name, run in self._runs.items()
        }
        labels = self._given_labels
        if self._labels is not None:
            labels = self._label_table(self._labels, label_kind, label_columns)
        return runs, labels, tuple(self._notes)

    def _note(self, text: str) -> None:
        self._notes[text] = None

    # -- what matrices hold ------------------------------------------------------------

    def _run_kind(self, name: str, run: Matrix) -> str:
        """Whether a run holds `scores` or `ids`; shapes have to meet."""
        if run.kind == "text":
            return "ids"
        kind = "scores" if run.kind == "number" or run.is_sparse or self._is_boolean(run) else ""
        kind = kind or self._whole_kind(name, run)
        labels = self._labels
        if kind == "scores" and labels is not None and self._are_numbers(labels):
            self._check_shape(name, run, labels)
        return kind

    @staticmethod
    def _is_boolean(matrix: Matrix) -> bool:
        return bool(matrix.values.dtype.kind == "b")

    @staticmethod
    def _are_numbers(labels: Matrix) -> bool:
        """Whether labels can be the grades of a matrix."""
        return labels.kind != "text" and labels.n_columns is not None

    def _whole_kind(self, name: str, run: Matrix) -> str:
        """Whether whole numbers are scores or ids."""
        labels, can_be_ids = self._labels, run.differs_in_rows()
        source_name = self._called(name)
        if labels is None or not self._are_numbers(labels):
            if not can_be_ids:
                raise InputError(
                    f"{source_name}: whole numbers repeat in a row or are negative, so they "
                    f"cannot be item ids; {HOW_TO_SAY}"
                )
            return self._taken_as_ids()
        is_equal = (run.n_rows, run.n_columns) == (labels.n_rows, labels.n_columns)
        if can_be_ids and (self._fits_columns(run, labels) or self._may_be_ids(labels)):
            if is_equal:
                raise InputError(
                    f"{source_name}: whole numbers in a matrix with the shape of the labels, "
                    f"{run.shape}, may be scores or item ids; {HOW_TO_SAY}"
                )
            return self._taken_as_ids()
        if not is_equal:
            raise InputError(
                f"{source_name}: whole numbers of the shape {run.shape}, up to "
                f"{run.values.max()}, do not fit labels of the shape {labels.shape}: scores have "
                "the shape of the labels, and item ids are column numbers"
            )
        self._note(
            "rankings: whole numbers in a matrix with the shape of the labels are read as scores"
        )
        return "scores"

    def _taken_as_ids(self) -> str:
        self._note("rankings: whole numbers are read as item ids, best first")
        return "ids"

    @staticmethod
    def _fits_columns(run: Matrix, labels: Matrix) -> bool:
        """Whether ids are those of the columns of the labels."""
        highest = run.values.max(initial=-1)
        return run.n_rows == labels.n_rows and highest < (labels.n_columns or 0)

    @staticmethod
    def _may_be_ids(labels: Matrix) -> bool:
        """Whether labels can be ids of relevant items, numbers as they are."""
        if labels.kind != "whole" or labels.is_sparse or labels.values.dtype.kind == "b":
            return False
        return labels.differs_in_rows()

    def _check_shape(self, name: str, run: Matrix, labels: Matrix) -> None:
        if (run.n_rows, run.n_columns) == (labels.n_rows, labels.n_columns):
            return
        is_turned = (run.n_columns, run.n_rows) == (labels.n_rows, labels.n_columns)
        hint = "; give labels.T" if is_turned else ""
        if not hint and self._may_be_ids(labels):
            hint = "; if they are ids of relevant items, give them as texts: labels.astype(str)"
        raise InputError(
            f"{self._called(name)}: scores have the shape {run.shape}, labels {labels.shape}; in "
            f"both a row is a query and a column an item{hint}"
        )

    def _label_kind(self, kinds: Mapping[str, str]) -> str:
        """Whether labels hold `grades` of columns or `ids` of relevant items."""
        labels = self._labels
        if labels is None:
            return ""
        if labels.kind == "text" or labels.n_columns is None:
            if labels.kind == "number":
                raise InputError(
                    "labels: grades need a matrix with one column per item; the given rows have "
                    "different lengths"
                )
            return "ids"
        if "scores" in kinds.values() or labels.kind == "number" or labels.is_sparse:
            self._check_ids(kinds, labels)
            return "grades"
        if labels.values.dtype.kind == "b" or not labels.differs_in_rows():
            self._check_ids(kinds, labels)
            return "grades"
        if not kinds:  # rankings are a table
            if labels.is_nested:
                raise InputError(
                    "labels: whole numbers may be grades of the items 0, 1, 2, ... or ids of "
                    "relevant items; give grades as an array, or ids as texts"
                )
            return "grades"
        return self._whole_label_kind(kinds, labels)

    def _whole_label_kind(self, kinds: Mapping[str, str], labels: Matrix) -> str:
        """The same of whole numbers beside ids, of which no row has one twice."""
        runs = [self._matrices[name] for name in kinds]
        if any(run.kind == "text" and not _are_digits(run.values) for run in runs):
            raise InputError(
                "labels: whole numbers do not fit rankings of texts; give the ids of relevant "
                "items, or {query: {item: grade}}"
            )
        if not all(self._fits_columns(_of_integers(run), labels) for run in runs):
            self._note("labels: whole numbers are read as ids of relevant items, each of grade 1")
            return "ids"
        raise InputError(
            f"labels: whole numbers in a matrix of the shape {labels.shape} may be grades of the "
            "items 0, 1, 2, ... or ids of relevant items; say which they are: .astype(float) "
            "makes them grades, .astype(str) ids"
        )

    def _check_ids(self, kinds: Mapping[str, str], labels: Matrix) -> None:
        """See that ids are of columns that the grades have."""
        for name, kind in kinds.items():
            run = self._matrices[name]
            if kind != "ids" or (run.kind == "text" and not _are_digits(run.values)):
                continue
            if not self._fits_columns(_of_integers(run), labels):
                highest = _of_integers(run).values.max(initial=-1)
                raise InputError(
                    f"{self._called(name)}: ids of the shape {run.shape} up to {highest}, and "
                    f"labels of the shape {labels.shape}: a row of the labels is a query, and "
                    "column n has the grade of item n"
                )

    # -- tables ------------------------------------------------------------------------

    def _check_mask(self) -> None:
        if self._mask is None:
            return
        if not self._matrices:
            raise InputError("mask: the rankings are not a matrix; leave the mask out")
        shape = array_of(self._mask).shape
        for name, run in self._matrices.items():
            if shape != (run.n_rows, run.n_columns):
                mask_shape = " x ".join(map(str, shape))
                raise InputError(
                    "mask: its shape must be that of the rankings, "
                    f"{run.shape}{f' ({name})' if name else ''}; given {mask_shape}"
                )

    def _run_table(self, name: str, kind: str, columns: tuple[str, str, str]) -> pa.Table:
        import numpy as np

        run, source_name = self._matrices[name], self._called(name)
        if self._mask is not None:
            run = run.unmasked(array_of(self._mask).astype(bool))
        if kind == "scores":
            values = run.values if run.kind == "number" else np.zeros(len(run.values))
            is_masked = np.isneginf(values)
            self._note_left_out(
                f"{source_name}: {{}} of -inf are masked, not retrieved", is_masked, "score"
            )
            return run.having(~is_masked).table(*columns)
        self._note_left_out(f"{source_name}: {{}} of -1 are padding, not items", run.padding, "id")
        return run.having(~run.padding).table(*columns[:2], "")

    def _without_padding(self, name: str, run: Any) -> Any:
        """A dict of lists of ids, {query: [5, 3, -1, -1]}, without the -1 that FAISS pads with."""
        if not isinstance(run, Mapping) or not run:
            return run
        lists = list(_whole_lists(run.values()))
        n_padding = sum(ids.count(-1) for ids in lists)
        if len(lists) < len(run) or not n_padding or min(map(min, filter(None, lists))) < -1:
            return run
        noun = "ids" if n_padding > 1 else "id"
        self._note(f"{self._called(name)}: {n_padding:,} {noun} of -1 are padding, not items")
        unpadded = ([item for item in ids if item != -1] for ids in lists)
        return {query: ids for query, ids in zip(run, unpadded, strict=True) if ids}

    def _note_left_out(self, sentence: str, cells: Array, noun: str) -> None:
        if n_cells := int(cells.sum()):
            self._note(sentence.format(f"{n_cells:,} {noun}{'s' * (n_cells > 1)}"))

    def _label_table(self, labels: Matrix, kind: str, columns: tuple[str, str, str]) -> pa.Table:
        import numpy as np

        if kind == "ids":
            self._note_left_out("labels: {} of -1 are padding, not items", labels.padding, "id")
            return labels.having(~labels.padding).table(*columns[:2], "")
        if self._mask is not None and labels.n_columns == array_of(self._mask).shape[1]:
            labels = labels.unmasked(array_of(self._mask).astype(bool))
        if labels.kind == "number":
            is_missing = np.isnan(labels.values)
            self._note_left_out("labels: {} of NaN count as no label", is_missing, "grade")
            labels = labels.having(~is_missing)
        if labels.is_sparse:
            labels = _with_empty_rows(labels)
        return labels.table(*columns)


def _with_empty_rows(labels: Matrix) -> Matrix:
    """Grade 0 for one item of each row in which a sparse matrix stores none: all are 0 there."""
    import numpy as np

    empty = np.setdiff1d(np.arange(labels.n_rows), labels.row)
    row = np.concatenate([labels.row, empty])
    order = np.argsort(row, kind="stable")
    zeros = np.zeros(len(empty))
    return replace(
        labels,
        row=row[order],
        column=np.concatenate([labels.column, zeros.astype(np.int64)])[order],
        values=np.concatenate([labels.values, zeros.astype(labels.values.dtype)])[order],
    )


def _are_digits(values: Array) -> bool:
    return all(text.isdecimal() for text in values.tolist())


def _of_integers(run: Matrix) -> Matrix:
    """A matrix of ids as one of whole numbers."""
    return replace(run, values=run.values.astype(int)) if run.kind == "text" else run


def _whole_lists(values: Any) -> Iterator[list[int]]:
    """Lists of whole numbers, up to the first that is none."""
    for ids in values:
        items = ids.tolist() if hasattr(ids, "tolist") else ids
        if not isinstance(items, list | tuple) or not all(type(item) is int for item in items):
            return
        yield list(items)
