"""How often each list came: lists that no metric can tell apart are one row and a count.

A model that is trained on clicks gives lists of which one item, or a few, have a label: there are
about as many different ones as places in a list. What is kept does not grow with the batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sqlmetrics.evaluation.streaming.lists import Array, Lists
from sqlmetrics.evaluation.streaming.table import WORDS

PENDING = 100_000
"""As many lists wait before equal ones among them are counted together."""


class Histogram:
    """Different lists, each with the sum of its weights; they come out in no certain order."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[tuple[Array, Array]]] = {}
        self._pending = 0
        self._size = 0

    def add(self, lists: Lists) -> None:
        """Count lists."""
        entries = np.bincount(lists.of, minlength=len(lists.length))
        order, before = _by_place(lists)
        words = np.column_stack([lists.above[order], lists.tied[order], lists.grade[order], before])
        words[np.isnan(words[:, 2]), 2] = np.nan  # of the many NaNs one
        start = np.cumsum(entries) - entries
        for size in np.unique(entries):
            indexes = np.nonzero(entries == size)[0]
            entry_indexes = start[indexes][:, None] + np.arange(size)
            keys = np.empty((len(indexes), 1 + WORDS * size))
            keys[:, 0] = lists.length[indexes]
            keys[:, 1:] = words[entry_indexes].reshape(len(indexes), WORDS * size)
            self.put(keys, lists.weight[indexes])

    def put(self, keys: Array, weights: Array) -> None:
        """Count lists by their keys: the length, then above, tied, grade, before of each entry."""
        self._blocks.setdefault(keys.shape[1], []).append((keys, weights))
        self._pending += len(keys)
        self._size += int(keys[:, 0].sum())
        if self._pending > PENDING:
            self._pending = 0
            for width, parts in self._blocks.items():
                self._blocks[width] = [_together(parts)]
            key_blocks = (keys for parts in self._blocks.values() for keys, _ in parts)
            self._size = sum(int(block[:, 0].sum()) for block in key_blocks)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """The keys of lists with equally many entries, no two alike, and their weights."""
        for width, parts in self._blocks.items():
            self._blocks[width] = [_together(parts)]
            yield self._blocks[width][0]

    def size(self) -> int:
        """Items of all different lists, of those that wait too."""
        return self._size

    def merge(self, other: Histogram) -> None:
        """Count what another has counted, too."""
        for keys, weights in other.blocks():
            self.put(keys, weights)


def _by_place(lists: Lists) -> tuple[Array, Array]:
    """Entries by place, and how many of their score stand before each, in that order.

    Of tied ones without an order the best label is first: their order says nothing.
    """
    above = lists.above if lists.before is None else lists.above + lists.before
    position = lists.of * (int(above.max(initial=0)) + 1) + above
    order = np.argsort(position)
    if lists.before is not None:
        return order, lists.before[order]
    before = np.zeros(len(order), int)
    is_first = np.diff(position[order], prepend=-1) != 0
    if not is_first.all():
        order = np.lexsort((-lists.grade, position))
        number = np.arange(len(order))
        before = number - np.maximum.accumulate(np.where(is_first, number, 0))
    return order, before


def _together(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Equal keys as one, their weights summed."""
    if len(parts) == 1:
        keys, weights = parts[0]
    else:
        keys = np.concatenate([keys for keys, _ in parts])
        weights = np.concatenate([weights for _, weights in parts])
    bits = (keys + 0.0).view(np.uint64)  # no -0.0
    # Numbers of 64 bits sort ten times as fast as rows; that no two rows share one is looked at.
    mixed = bits * _odd(bits.shape[1])
    mixed ^= mixed >> np.uint64(29)
    codes = (mixed * _odd(bits.shape[1])[::-1]).sum(1)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    if not (bits[first[inverse]] == bits).all():
        rows = np.ascontiguousarray(bits).view([("", np.uint64)] * bits.shape[1]).ravel()
        _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    return keys[first], np.bincount(inverse.ravel(), weights, len(first))


def _odd(count: int) -> Array:
    """Odd numbers of 64 bits, always the same."""
    chance = np.random.default_rng(20030629)
    return chance.integers(0, 2**63, count, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
