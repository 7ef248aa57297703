"""Arrays of scores as lists: of each only what a metric can see, where its labels stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sqlmetrics.errors import InputError

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
        above: Items of the list with a higher score than an entry.
        tied: Items of the list with its score, itself among them.
        grade: Its label; NaN for an item without one.
    """

    length: Array
    weight: Array
    of: Array
    above: Array
    tied: Array
    grade: Array


def array(given: Any, name: str) -> Array:
    """What somebody gave as an array of NumPy: of PyTorch, Paddle, JAX, TensorFlow, or a list.

    Raises:
        InputError: If it holds no numbers.
    """
    if hasattr(given, "detach"):  # PyTorch's and Paddle's, wherever they are
        given = given.detach()
        given = given.cpu() if hasattr(given, "cpu") else given
        if "bfloat16" in str(given.dtype):  # which NumPy has not
            given = given.float() if hasattr(given, "float") else given.astype("float32")
        given = given.numpy()
    made = np.asarray(given)
    if made.dtype.kind in "biuf":
        return made
    try:  # bfloat16 of JAX and TensorFlow
        return made.astype(np.float32, casting="same_kind")
    except TypeError:
        raise InputError(f"{name} holds no numbers: its type is {made.dtype}") from None


def of_rows(
    scores: Array, grades: Array, there: Array | None, weight: Array, *, in_order: bool
) -> Lists:
    """Lists from a matrix, a row each.

    Args:
        scores: [lists, items].
        grades: The same shape.
        there: The same shape, False where a row has no item; None if it has one everywhere.
        weight: [lists].
        in_order: Whether of items with one score the first one stands above the others.
    """
    n_lists, n_items = scores.shape
    marked = grades != 0  # so is NaN
    length = np.full(n_lists, n_items)
    if there is not None:
        marked &= there
        length = there.sum(1)
    of, at = np.nonzero(marked)
    if len(of) <= FEW * n_lists:
        above, tied = _compared(scores, there, of, at, in_order=in_order)
    else:
        above, tied = _sorted(scores, there, in_order=in_order)
        above, tied = above[of, at], tied[of, at]
    return Lists(length, weight, of, above, tied, grades[of, at].astype(np.float64))


def _compared(
    scores: Array, there: Array | None, of: Array, at: Array, *, in_order: bool
) -> tuple[Array, Array]:
    """Where entries stand: each is compared with all of its list."""
    rows, own = scores[of], scores[of, at][:, None]
    higher, same = rows > own, rows == own
    if there is not None:
        higher &= there[of]
        same &= there[of]
    if in_order:
        before = np.arange(scores.shape[1]) < at[:, None]
        return (higher | (same & before)).sum(1), np.ones(len(of), int)
    return higher.sum(1), same.sum(1)


def _sorted(scores: Array, there: Array | None, *, in_order: bool) -> tuple[Array, Array]:
    """Where all items of all lists stand: each list is sorted."""
    n_items = scores.shape[1]
    if there is not None:  # what is not there stands last, below every score
        last = np.lexsort((-scores, ~there), axis=1)
        order, there = last, np.take_along_axis(there, last, 1)
    else:
        order = np.argsort(-scores, axis=1, kind="stable")
    best = np.take_along_axis(scores, order, 1)
    place = np.broadcast_to(np.arange(n_items), best.shape)
    above, tied = np.empty(best.shape, int), np.ones(best.shape, int)
    if in_order:
        np.put_along_axis(above, order, place, 1)
        return above, tied
    begins = np.ones(best.shape, bool)
    begins[:, 1:] = best[:, 1:] != best[:, :-1]
    if there is not None:
        begins[:, 1:] |= there[:, 1:] != there[:, :-1]
    first = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
    ends = np.ones(best.shape, bool)
    ends[:, :-1] = begins[:, 1:]
    last = np.minimum.accumulate(np.where(ends, place, n_items)[:, ::-1], axis=1)[:, ::-1]
    np.put_along_axis(above, order, first, 1)
    np.put_along_axis(tied, order, last - first + 1, 1)
    return above, tied


def of_groups(query: Array, scores: Array, grades: Array, *, in_order: bool) -> Lists:
    """Lists from rows, those of one query anywhere among them.

    Args:
        query: [rows], any whole numbers.
        scores: [rows].
        grades: [rows].
        in_order: Whether of items with one score the first one stands above the others.
    """
    order = np.lexsort((-scores, query))
    query, scores, grades = query[order], scores[order], grades[order]
    place = np.arange(len(query))
    begins = np.ones(len(query), bool)
    begins[1:] = query[1:] != query[:-1]
    start = place[begins]
    of = np.cumsum(begins) - 1
    length = np.diff(np.append(start, len(query)))
    if in_order:
        above, tied = place - start[of], np.ones(len(query), int)
    else:
        parts = begins.copy()
        parts[1:] |= scores[1:] != scores[:-1]
        first = place[parts]
        part = np.cumsum(parts) - 1
        above = first[part] - start[of]
        tied = np.diff(np.append(first, len(query)))[part]
    at = np.nonzero(grades != 0)[0]
    entries = (of[at], above[at], tied[at], grades[at].astype(np.float64))
    return Lists(length, np.ones(len(start)), *entries)
