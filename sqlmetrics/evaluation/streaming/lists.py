"""Arrays of scores as lists: of each only what a metric can see, where its labels stand."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sqlmetrics.catalog.option import GainTable
from sqlmetrics.engines.duckdb_file import unshared_file
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.inputs.matrices import array_of, matrix_of
from sqlmetrics.spec.spec import Spec

Array = Any
"""An array of NumPy."""

FEW = 4
"""Up to as many entries a list, comparing each with its list is cheaper than sorting the list."""


@dataclass(frozen=True)
class Lists:
    """Ranked lists without their scores and without the items whose label is 0.

    Attributes:
        length: Items of each list.
        weight: What each list counts.
        of: Which list an entry is of, ascending. An entry is an item whose label is not 0.
        above: Items of the list with a higher score than an entry; as many as it has, or more, for
            an item that it does not have.
        tied: Items of the list with its score, itself among them.
        grade: Its label; NaN for an item without one.
        before: Items of the list with its score that came before it; None where tied items have
            no order.
    """

    length: Array
    weight: Array
    of: Array
    above: Array
    tied: Array
    grade: Array
    before: Array | None = None

    def in_order(self) -> Lists:
        """The same lists with no ties left: of tied items, the one that came first is above."""
        if self.before is None:
            return self
        above, tied = self.above + self.before, np.ones_like(self.tied)
        return replace(self, above=above, tied=tied, before=None)


def array(values: Any, name: str, masked: float = np.nan) -> Array:
    """What somebody gave as an array of NumPy: of PyTorch, Paddle, JAX, TensorFlow, or a list.

    Args:
        values: The array; a sparse matrix has what it does not store masked if it holds scores.
        name: What it is, for messages.
        masked: What stands where it is masked: -inf for scores, NaN for labels.

    Raises:
        InputError: If it holds no numbers.
    """
    if hasattr(values, "tocoo"):
        values = _of_sparse(values, masked)
    numbers = array_of(values)
    if np.ma.is_masked(numbers):
        numbers = numbers.astype(np.float64).filled(masked)
    numbers = np.asarray(numbers)
    if numbers.dtype.kind in "biu":
        return numbers.astype(np.int64)  # what has no sign cannot be turned round
    if numbers.dtype.kind == "f":
        return numbers
    try:  # bfloat16 of JAX and TensorFlow
        return numbers.astype(np.float32, casting="same_kind")
    except TypeError:
        raise InputError(f"{name} holds no numbers: its type is {numbers.dtype}") from None


def _of_sparse(sparse: Any, masked: float) -> Array:
    """A dense matrix: labels that are not stored are 0, scores are masked."""
    matrix = matrix_of(sparse, "preds")
    numbers = np.full((matrix.n_rows, matrix.n_columns or 0), 0.0 if np.isnan(masked) else masked)
    numbers[matrix.row, matrix.column] = matrix.values
    return numbers


def rounded(scores: Array, precision: object) -> Array:
    """Scores as precise as a convention has them: `double`, `float32` or `decimal6`."""
    if precision == "float32":
        return scores.astype(np.float32)
    if precision == "decimal6":  # half up
        return np.floor(scores.astype(np.float64) * 1e6 + 0.5) / 1e6
    return scores


def of_rows(
    scores: Array, grades: Array, present: Array | None, weight: Array, *, in_order: bool
) -> Lists:
    """Lists from a matrix, a row each.

    Args:
        scores: [lists, items].
        grades: The same shape.
        present: The same shape, False where a row has no item; None if it has one everywhere.
        weight: [lists].
        in_order: Whether tied items have an order, that in which they came.
    """
    n_lists, n_items = scores.shape
    marked = grades != 0  # so is NaN
    length = np.full(n_lists, n_items)
    if present is not None:
        marked &= present
        length = present.sum(1)
    places = np.flatnonzero(marked)
    if len(places) <= FEW * n_lists:
        list_index, item_index = np.divmod(places, n_items)
        above, tied, before = _compared(scores, present, list_index, item_index, in_order=in_order)
        return Lists(
            length,
            weight,
            list_index,
            above,
            tied,
            grades[list_index, item_index].astype(np.float64),
            before,
        )
    return _sorted(scores, grades, present, length, weight, in_order=in_order)


def with_missed(lists: Lists, grades: Array, missed: Array) -> Lists:
    """The lists with labels of items that they do not have, as entries behind all others.

    Args:
        lists: The lists.
        grades: [lists, items].
        missed: The same shape, whether a label is of an item that is not in the list.
    """
    list_index, item_index = np.nonzero(missed)
    grade = grades[list_index, item_index].astype(np.float64)
    order = np.lexsort((-grade, list_index))
    count = np.bincount(list_index, minlength=len(lists.length))
    offset = np.arange(len(list_index)) - np.repeat(np.cumsum(count) - count, count)
    ones = np.ones(len(list_index), int)
    entries = {
        "of": list_index,
        "above": grades.shape[1] + offset,
        "tied": ones,
        "grade": grade[order],
    }
    if lists.before is not None:
        entries["before"] = np.zeros_like(ones)
    together = {name: np.concatenate([getattr(lists, name), entries[name]]) for name in entries}
    order = np.argsort(together["of"], kind="stable")
    return replace(lists, **{name: values[order] for name, values in together.items()})


def _compared(
    scores: Array, present: Array | None, list_index: Array, item_index: Array, *, in_order: bool
) -> tuple[Array, Array, Array | None]:
    """Where entries stand, as `Lists` has it: each is compared with all of its list."""
    rows, entry_scores = scores[list_index], scores[list_index, item_index][:, None]
    higher, same = rows > entry_scores, rows == entry_scores
    if present is not None:
        higher &= present[list_index]
        same &= present[list_index]
    first = np.arange(scores.shape[1]) < item_index[:, None]
    before = (same & first).sum(1) if in_order else None
    return higher.sum(1), same.sum(1), before


def _sorted(
    scores: Array,
    grades: Array,
    present: Array | None,
    length: Array,
    weight: Array,
    *,
    in_order: bool,
) -> Lists:
    """Lists whose items are sorted, all of them."""
    if present is None:
        order = np.argsort(-scores, axis=1, kind="stable" if in_order else None)
    else:  # what is not there stands last
        order = np.lexsort((-scores, ~present), axis=1)
        grades = np.where(present, grades, 0)
    best, sorted_grades = (np.take_along_axis(values, order, 1) for values in (scores, grades))
    list_index, position = np.divmod(np.flatnonzero(sorted_grades), scores.shape[1])
    above, tied = position, np.ones(len(list_index), int)
    same = best[:, 1:] == best[:, :-1]
    if present is not None:
        same &= np.arange(1, scores.shape[1]) < length[:, None]
    if same.any():
        first, last = _groups(same)
        above, tied = first[list_index, position], (last - first + 1)[list_index, position]
    before = position - above if in_order else None
    return Lists(
        length,
        weight,
        list_index,
        above,
        tied,
        sorted_grades[sorted_grades != 0].astype(np.float64),
        before,
    )


def _groups(same: Array) -> tuple[Array, Array]:
    """The first and the last place with the score of each place.

    Args:
        same: [lists, items - 1], whether an item's score is that of the one before it.
    """
    n_lists, n_items = same.shape[0], same.shape[1] + 1
    position = np.broadcast_to(np.arange(n_items), (n_lists, n_items))
    edge = np.ones((n_lists, 1), bool)
    begins, ends = np.hstack([edge, ~same]), np.hstack([~same, edge])
    first = np.maximum.accumulate(np.where(begins, position, 0), axis=1)
    last = np.minimum.accumulate(np.where(ends, position, n_items)[:, ::-1], axis=1)[:, ::-1]
    return first, last


def of_groups(
    query: Array, scores: Array, grades: Array, *, in_order: bool, with_zeros: bool = True
) -> Lists:
    """Lists from rows, those of one query anywhere among them.

    Args:
        query: [rows], any whole numbers.
        scores: [rows].
        grades: [rows].
        in_order: Whether tied items have an order, that in which they came.
        with_zeros: Whether labels of 0 count that items of -inf have, which are not retrieved.
    """
    order = np.lexsort((-scores, query))
    query, scores, grades = query[order], scores[order], grades[order]
    position = np.arange(len(query))
    begins = np.ones(len(query), bool)
    begins[1:] = query[1:] != query[:-1]
    start = position[begins]
    list_index = np.cumsum(begins) - 1
    length = np.diff(np.append(start, len(query)))
    parts = begins.copy()
    parts[1:] |= scores[1:] != scores[:-1]
    first = position[parts]
    part = np.cumsum(parts) - 1
    above = first[part] - start[list_index]
    tied = np.diff(np.append(first, len(query)))[part]
    before = position - first[part]
    marked = grades != 0  # so is NaN
    missed = np.isneginf(scores)  # which stand last
    if missed.any():
        above[missed], tied[missed], before[missed] = (position - start[list_index])[missed], 1, 0
        length = length - np.bincount(list_index, missed, len(length)).astype(length.dtype)
        has_label = missed & ~np.isnan(grades)
        marked = (marked & ~missed) | (
            has_label & (marked | (length[list_index] == 0) | with_zeros)
        )
    marked_rows = np.nonzero(marked)[0]
    entries = (
        list_index[marked_rows],
        above[marked_rows],
        tied[marked_rows],
        grades[marked_rows].astype(np.float64),
    )
    return Lists(length, np.ones(len(start)), *entries, before[marked_rows] if in_order else None)


def cut(lists: Lists, k: int) -> Lists:
    """Lists for metrics that look at k places, and at the others' labels in no order.

    Items with label 0 behind place k are left out, and the others there stand best first, so that
    more lists are alike. A list with an item without a label stays whole: whether a query has
    any label may hang on its last item.

    Args:
        lists: Lists.
        k: The largest cutoff.
    """
    n_lists = len(lists.length)
    is_whole = np.zeros(n_lists, bool)
    is_whole[lists.of[np.isnan(lists.grade)]] = True
    behind = (lists.above >= k) & ~is_whole[lists.of]
    reach = np.full(n_lists, k)  # a tie may begin before place k and end behind it
    np.maximum.at(reach, lists.of[~behind], (lists.above + lists.tied)[~behind])
    list_index, grade = lists.of[behind], lists.grade[behind]
    order = np.lexsort((-grade, list_index))
    count = np.bincount(list_index, minlength=n_lists)
    offset = np.arange(len(list_index)) - np.repeat(np.cumsum(count) - count, count)
    above, tied, grades = lists.above.copy(), lists.tied.copy(), lists.grade.copy()
    above[behind], tied[behind], grades[behind] = reach[list_index] + offset, 1, grade[order]
    before = None if lists.before is None else np.where(behind, 0, lists.before)
    length = np.where(is_whole, lists.length, np.minimum(lists.length, reach + count))
    return Lists(length, lists.weight, lists.of, above, tied, grades, before)


# Labels and weights of a stream, looked at by the input checks of every evaluation.
#
# A batch is only compared with what was let through before: what lies outside is given to
# `evaluate` as a table, which refuses it in its own words.


class InputChecks:
    """What is known of the labels and weights so far.

    Args:
        spec: What is evaluated.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._by_value = isinstance(spec.options["gain"], GainTable)
        self._labels: Array = np.array([0.0, 0.0])
        self._weights: Array = np.array([0.0, 1.0])

    def check_lists(self, grades: Array, present: Array | None, weights: Array) -> None:
        """Look at a matrix.

        Args:
            grades: [lists, items], labels; NaN for none.
            present: The same shape, False where a row has no item; None if it has one everywhere.
            weights: [lists].

        Raises:
            InputError: If `evaluate` would refuse them.
        """
        new = self._is_new(grades)
        if present is not None:
            new &= present
        if new.any():
            self._check_grades(np.nonzero(new)[0], grades[new])
        new = ~((weights >= self._weights[0]) & (weights <= self._weights[-1]))  # so is NaN
        if new.any():
            lists = np.flatnonzero(new)
            self._evaluated(lists, np.ones(len(lists)), weights[new])
            self._weights = _extended(self._weights, weights[new])

    @property
    def highest(self) -> float:
        """The highest label that came."""
        return float(self._labels[-1])

    def merge(self, other: InputChecks) -> None:
        """Let through what another has let through."""
        self._labels = _extended(self._labels, other._labels, by_value=self._by_value)
        self._weights = _extended(self._weights, other._weights)

    def check_rows(self, query: Array, grades: Array) -> None:
        """The same of rows with the number of their list."""
        new = self._is_new(grades)
        if new.any():
            self._check_grades(query[new], grades[new])

    def _is_new(self, grades: Array) -> Array:
        if self._by_value:
            return ~np.isin(grades, self._labels) & ~np.isnan(grades)
        return (grades < self._labels[0]) | (grades > self._labels[-1])

    def _check_grades(self, query: Array, grades: Array) -> None:
        self._evaluated(query, grades)
        self._labels = _extended(self._labels, grades, by_value=self._by_value)

    def _evaluated(self, query: Array, grades: Array, weights: Array | None = None) -> None:
        """Give rows to `evaluate`, for its checks alone."""
        from sqlmetrics.evaluation.evaluate import evaluate

        ids = {"query_id": query, "item_id": np.arange(len(query))}
        described: dict[str, Any] = {}
        if weights is not None:
            queries = pa.table({"query_id": query, "weight": weights})
            described = {"queries": queries, "weight": "weight"}
        evaluate(
            pa.table({**ids, "score": -np.arange(len(query), dtype=float)}),
            pa.table({**ids, "grade": grades.astype(np.float64)}),
            [measure.text for measure in self._spec.measures],
            metrics_from=self._spec.metrics_from,
            preset=self._spec.preset,
            per_query=False,
            **described,
            **self._spec.conventions,
        )


def _extended(accepted: Array, values: Array, *, by_value: bool = False) -> Array:
    """What is let through from now on: values, or all between the ends."""
    together = np.unique(np.concatenate([accepted, values]).astype(np.float64))
    return together if by_value else together[[0, -1]]


# Rows whose query may come again: kept until they are asked for, in memory and then on disk.

IN_MEMORY = 4_000_000
"""As many rows are kept in memory: 96 MB."""

Rows = tuple[Array, Array, Array]
"""Query, score and grade of each row."""


class RowStore:
    """Rows in the order in which they came; above IN_MEMORY they go into a file of DuckDB."""

    def __init__(self) -> None:
        self._parts: list[Rows] = []
        self._waiting = 0
        self._file: Any = None

    def add(self, query: Array, scores: Array, grades: Array) -> None:
        """Keep rows."""
        part = (query.astype(np.int64), scores.astype(np.float64), grades.astype(np.float64))
        self._parts.append(part)
        self._waiting += len(query)
        if self._waiting > IN_MEMORY:
            self._write()

    def batches(self) -> Iterator[Rows]:
        """All rows, those of one query in one batch, in the order in which they came."""
        if self._file is None:
            if self._parts:
                yield _joined(self._parts)
            return
        self._write()
        # Queries by chance in parts: each part fits into memory and none is read twice.
        total = self._file.execute("select count(*) from rows").fetchall()[0][0]
        parts = max(1, -(-total // IN_MEMORY))
        for part in range(parts):
            read = self._file.execute(
                "select query, score, grade from rows where hash(query) % $parts = $part "
                "order by rowid",
                {"parts": parts, "part": part},
            ).fetchnumpy()
            if len(read["query"]):
                yield read["query"], read["score"], read["grade"]

    def merge(self, other: RowStore) -> None:
        """Keep the rows of another behind one's own."""
        for rows in other.batches():
            self.add(*rows)

    def __getstate__(self) -> dict[str, Any]:
        """The rows, for another process."""
        return {"rows": list(self.batches())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The rows of another process."""
        self.__init__()  # type: ignore[misc]
        for rows in state["rows"]:
            self.add(*rows)

    def _write(self) -> None:
        """Move what is in memory into the file."""
        if not self._parts:
            return
        if self._file is None:
            folder = tempfile.mkdtemp(prefix="sqlmetrics_")
            self._file = unshared_file(Path(folder) / "rows.db")
            weakref.finalize(self, _removed, self._file, folder)
            self._file.execute("create table rows (query bigint, score double, grade double)")
        waiting = pa.table(
            dict(zip(("query", "score", "grade"), _joined(self._parts), strict=True))
        )
        self._file.register("waiting", waiting)
        self._file.execute("insert into rows from waiting")
        self._file.unregister("waiting")
        self._parts, self._waiting = [], 0


def _removed(file: Any, folder: str) -> None:
    """Close the file of rows that nobody asks for any more, and delete it."""
    file.close()
    shutil.rmtree(folder, ignore_errors=True)


def _joined(parts: list[Rows]) -> Rows:
    query, scores, grades = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return query, scores, grades
