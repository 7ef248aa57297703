"""Labels and weights of a stream, looked at by the input checks of every evaluation.

A batch is only compared with what was let through before: what lies outside is given to
`evaluate` as a table, which refuses it in its own words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sqlmetrics.catalog.option import GainTable
from sqlmetrics.evaluation.streaming.lists import Array
from sqlmetrics.spec.spec import Spec


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
