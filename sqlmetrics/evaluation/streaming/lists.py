"""Arrays of scores as lists: of each only what a metric can see, where its labels stand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.inputs.matrices import array_of, matrix_of

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
