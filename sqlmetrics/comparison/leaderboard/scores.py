"""The values of a metric as a matrix of systems and topics, and the ranks that they give."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.errors import InputError
from sqlmetrics.stats import TIED

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, np.dtype[np.float64]]

_LARGEST_CHUNK = 4_000_000
"""As many numbers are looked at in one step."""


@dataclass(frozen=True)
class Scores:
    """The values of one metric.

    Attributes:
        measure: The metric.
        systems: The names of the rows.
        topics: The ids of the columns.
        values: NaN where a topic has no value.
    """

    measure: Measure
    systems: tuple[str, ...]
    topics: tuple[str, ...]
    values: Array

    @property
    def sign(self) -> int:
        """-1 if lower is better, 1 if higher is, 0 if neither."""
        return {"lower": -1, "higher": 1}.get(self.measure.metric.better, 0)

    @property
    def complete(self) -> Array:
        """The topics of which each system has a value."""
        import numpy as np

        complete: Array = self.values[:, ~np.isnan(self.values).any(axis=0)]
        return complete

    @property
    def means(self) -> Array:
        """Of each system over its topics; NaN without one."""
        import numpy as np

        counts = (~np.isnan(self.values)).sum(axis=1)
        totals = np.array([math.fsum(row[~np.isnan(row)]) for row in self.values])
        means: Array = np.divide(totals, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        return means

    def replicates(self, counts: Array) -> Array:
        """The means of each replicate (row) by system (column).

        Args:
            counts: How often each topic (column) is drawn in each replicate (row).
        """
        import numpy as np

        has_value = ~np.isnan(self.values)
        totals = counts @ np.where(has_value, self.values, 0.0).T
        weights = counts @ has_value.T.astype(float)
        means: Array = np.divide(
            totals, weights, out=np.full(totals.shape, np.nan), where=weights > 0
        )
        return means


def scores_of(table: pa.Table, measures: Sequence[Measure], systems: Sequence[str]) -> list[Scores]:
    """The values of each metric.

    Args:
        table: One row per system and query, as an evaluation gives it.
        measures: The metrics, each a column of it.
        systems: The systems that count, in order.

    Raises:
        InputError: If the table has several days.
    """
    import numpy as np

    if "metric_date" in table.column_names:
        days = sorted(set(table["metric_date"].to_pylist()) - {None}, key=str)
        if len(days) > 1:
            raise InputError(
                f"a leaderboard is of one day, but the rankings have {len(days)}, from {days[0]} "
                f"to {days[-1]}; choose one with start and end, or compare days with compare"
            )
    queries = table["query_id"].cast("string").dictionary_encode().combine_chunks()
    runs = table["system"].cast("string").dictionary_encode().combine_chunks()
    topics = tuple(queries.dictionary.to_pylist())
    number_by_system = {name: number for number, name in enumerate(systems)}
    rows = np.array([number_by_system.get(name, -1) for name in runs.dictionary.to_pylist()])
    row_numbers = rows[np.asarray(runs.indices)]
    is_kept = row_numbers >= 0
    places = row_numbers[is_kept], np.asarray(queries.indices)[is_kept]
    found_scores = []
    for measure in measures:
        values = np.full((len(systems), len(topics)), np.nan)
        column = table[measure.column].cast("double").to_numpy(zero_copy_only=False)
        values[places] = column[is_kept]
        found_scores.append(Scores(measure, tuple(systems), topics, values))
    return found_scores


def ranks(means: Array, sign: int) -> tuple[Array, Array]:
    """The best and the worst rank of each column, from 1; they differ where means are tied.

    Args:
        means: Rows of means; what is NaN comes last.
        sign: -1 if lower is better, else 1.
    """
    import numpy as np

    values = np.where(np.isnan(means), -np.inf, means * (sign or 1))
    n_rows, n_systems = values.shape
    first, last = np.empty(values.shape), np.empty(values.shape)
    size = max(1, _LARGEST_CHUNK // max(1, n_systems**2))
    for start in range(0, n_rows, size):
        part = values[start : start + size]
        low, high = part - TIED, part + TIED
        first[start : start + size] = 1 + (part[:, None, :] > high[:, :, None]).sum(axis=2)
        last[start : start + size] = n_systems - (part[:, None, :] < low[:, :, None]).sum(axis=2)
    return first, last


def rank_intervals(first: Array, last: Array, confidence: float) -> Mapping[str, Sequence[int]]:
    """The percentiles of ranks over replicates: no narrower than these, in whole ranks.

    Args:
        first: The best rank of each replicate (row) and system (column).
        last: The worst.
        confidence: The coverage, above 0 and below 1.
    """
    import numpy as np

    error = (1 - confidence) / 2
    low = np.quantile(first, error, axis=0, method="lower")
    high = np.quantile(last, 1 - error, axis=0, method="higher")
    return {"rank_low": [int(rank) for rank in low], "rank_high": [int(rank) for rank in high]}
