"""Coefficients of agreement as functions of sums, so that each replicate of a bootstrap is one row.

Sources: Cohen 1960 and 1968; Fleiss 1971; Krippendorff, Computing Krippendorff's
alpha-reliability (2011); Gwet, Handbook of Inter-Rater Reliability, 4th ed. (2014), whose forms of
Fleiss' kappa and of AC1 and AC2 allow missing labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from sqlmetrics.stats.bootstrap import Array

    Indexes = np.ndarray[Any, np.dtype[np.int64]]

OF_TWO = ("cohen_kappa", "cohen_kappa_linear", "cohen_kappa_quadratic")
"""The coefficients of two judges alone."""

COEFFICIENTS = (
    *("agreement", *OF_TWO, "fleiss_kappa"),
    *("alpha_nominal", "alpha_ordinal", "alpha_interval"),
    *("ac1", "ac2_linear", "ac2_quadratic"),
)
"""All of them, in the order in which they are told."""

_WEIGHTINGS = ("", "_linear", "_quadratic")


@dataclass(frozen=True)
class Tallies:
    """How often pairs were graded in the same way, unit by unit.

    Attributes:
        grades: The scale, in ascending order.
        units: The number of the unit (query) of each row, from 0.
        patterns: Row and judge -> the index of the grade, -1 without a label.
        counts: How many pairs of the unit are graded so.
        n_units: How many units there are.
    """

    grades: tuple[float, ...]
    units: Indexes
    patterns: Indexes
    counts: Array
    n_units: int

    def of(self, judges: Sequence[int]) -> Tallies:
        """The same of some of the judges."""
        chosen = self.patterns[:, list(judges)]
        return Tallies(self.grades, self.units, chosen, self.counts, self.n_units)

    @cached_property
    def grade_counts(self) -> Array:
        """Row and grade -> how many judges gave it."""
        import numpy as np

        scale = np.arange(len(self.grades))
        grade_counts: Array = (self.patterns[:, :, None] == scale).sum(axis=1).astype(float)
        return grade_counts

    @cached_property
    def n_pairs(self) -> int:
        """How many pairs two judges or more graded."""
        return int(self.counts[self.grade_counts.sum(axis=1) >= 2].sum())

    def sums(self) -> Array:
        """Unit (row) -> the sums that `coefficients` takes (columns)."""
        import numpy as np

        columns = [
            np.bincount(self.units, weights=self.counts * values, minlength=self.n_units)
            for values in self._columns()
        ]
        return np.stack(columns, axis=1)

    def _columns(self) -> Iterator[Array]:
        import numpy as np

        grade_counts, n_judges = self.grade_counts, self.grade_counts.sum(axis=1)
        shared = n_judges >= 2
        yield shared
        for weights in weightings(self.grades):
            same = (grade_counts * (grade_counts @ weights - 1)).sum(axis=1)
            yield np.where(shared, same / np.maximum(n_judges * (n_judges - 1), 1), 0.0)
        yield (n_judges >= 1).astype(float)
        yield from (grade_counts / np.maximum(n_judges, 1)[:, None]).T
        for i in range(len(self.grades)):
            for j in range(len(self.grades)):
                together = grade_counts[:, i] * (grade_counts[:, j] - (i == j))
                yield np.where(shared, together / np.maximum(n_judges - 1, 1), 0.0)
        if self.patterns.shape[1] == 2:
            first, second = self.patterns.T
            for i in range(len(self.grades)):
                for j in range(len(self.grades)):
                    yield ((first == i) & (second == j)).astype(float)


def weightings(grades: Sequence[float]) -> list[Array]:
    """What two grades of a pair count as agreement: unweighted, linear and quadratic.

    Equal grades count 1; of others the distance counts, 0 at the ends of the scale.
    """
    import numpy as np

    values = np.array(grades)
    apart = np.abs(values[:, None] - values) / max(float(values[-1] - values[0]), 1e-300)
    return [np.eye(len(grades)), 1 - apart, 1 - apart**2]


def coefficients(sums: Array, grades: Sequence[float], *, of_two: bool) -> dict[str, Array]:
    """Name -> the coefficient of each row of sums; NaN where it is not defined.

    Args:
        sums: Columns as `Tallies.sums` has them, added up over units.
        grades: The scale.
        of_two: Whether they are of two judges, who have Cohen's kappa.
    """
    import numpy as np

    q = len(grades)
    n_shared, same, n_graded = sums[:, 0], sums[:, 1:4].T, sums[:, 4]
    shares = _ratio(sums[:, 5 : 5 + q], n_graded[:, None])
    tables = sums[:, 5 + q :].reshape(len(sums), -1, q, q)
    values: dict[str, Array] = {"agreement": _ratio(same[0], n_shared)}
    spread = (shares * (1 - shares)).sum(axis=1)
    for name, weights, agreeing in zip(_WEIGHTINGS, weightings(grades), same, strict=True):
        observed = _ratio(agreeing, n_shared)
        by_chance = np.einsum("ri,ij,rj->r", shares, weights, shares)
        if not name:
            values["fleiss_kappa"] = _beyond(observed, by_chance)
        scale = weights.sum() / (q * (q - 1)) if q > 1 else np.nan
        values[f"ac2{name}" if name else "ac1"] = _beyond(observed, scale * spread)
        if of_two:
            values[f"cohen_kappa{name}"] = _cohen(tables[:, 1], weights)
    coincidences = tables[:, 0]
    for name, distances in _distances(coincidences, grades):
        values[f"alpha_{name}"] = _alpha(coincidences, distances)
    return {name: values[name] for name in COEFFICIENTS if name in values}


def _cohen(table: Array, weights: Array) -> Array:
    """Cohen's kappa of the confusion of two judges."""
    import numpy as np

    shares = _ratio(table, table.sum(axis=(1, 2))[:, None, None])
    by_chance = np.einsum("ri,ij,rj->r", shares.sum(axis=2), weights, shares.sum(axis=1))
    return _beyond((shares * weights).sum(axis=(1, 2)), by_chance)


def _distances(coincidences: Array, grades: Sequence[float]) -> Iterator[tuple[str, Array]]:
    """Level of measurement -> the squared distance of two grades."""
    import numpy as np

    q, values = len(grades), np.array(grades)
    yield "nominal", 1 - np.eye(q)
    totals = coincidences.sum(axis=2)
    middles = totals.cumsum(axis=1) - totals / 2
    yield "ordinal", (middles[:, :, None] - middles[:, None, :]) ** 2
    yield "interval", (values[:, None] - values) ** 2


def _alpha(coincidences: Array, distances: Array) -> Array:
    """Krippendorff's alpha: 1 less the disagreement that is there over that of chance."""
    totals = coincidences.sum(axis=2)
    n_labels = totals.sum(axis=1)
    observed = (coincidences * distances).sum(axis=(1, 2))
    products = totals[:, :, None] * totals[:, None, :]
    by_chance = (products * distances).sum(axis=(1, 2))
    return 1 - _ratio(observed * (n_labels - 1), by_chance)


def _beyond(observed: Array, by_chance: Array) -> Array:
    """Agreement beyond chance, of what is possible."""
    return _ratio(observed - by_chance, 1 - by_chance)


def _ratio(top: Array, bottom: Array) -> Array:
    """A ratio, NaN where nothing but rounding is below the line."""
    import numpy as np

    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(bottom > 1e-12, top / bottom, np.nan)
