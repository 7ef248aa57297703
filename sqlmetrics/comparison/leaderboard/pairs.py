"""Which of two systems differ: Tukey's test over all pairs, or tests of each, adjusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlmetrics.comparison.leaderboard.scores import Scores
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.stats import NOISE, TIED, student, studentized_range
from sqlmetrics.stats.adjustment import Adjustment, benjamini_hochberg, bonferroni, holm
from sqlmetrics.stats.nonparametric import ranks, signed_rank_test

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

TUKEY = "tukey"
TESTS = (TUKEY, "t", "wilcoxon", "randomization")

CORRECTIONS: Mapping[str, Callable[[Sequence[float], float], Adjustment]] = {
    "holm": holm,
    "bonferroni": bonferroni,
    "bh": benjamini_hochberg,
    "none": Adjustment,
}


@dataclass(frozen=True)
class PairTests:
    """What a test says of each pair of systems.

    Attributes:
        differences: The mean of the row's system less that of the column's, over the topics of
            both; NaN without one.
        p_values: Of each pair, NaN where nothing is tested.
        adjusted: The same for all pairs of the metric together.
        n_topics: How many topics the tests are of, at most.
        least: The smallest difference that Tukey's test finds; None of other tests.
        df: Degrees of freedom of Tukey's residual; None of other tests.
    """

    differences: Array
    p_values: Array
    adjusted: Array
    n_topics: int
    least: float | None = None
    df: int | None = None

    @property
    def has_any(self) -> bool:
        """Whether any pair is tested."""
        import numpy as np

        return not bool(np.isnan(self.adjusted).all())


@dataclass(frozen=True)
class Test:
    """What tells two systems apart.

    Attributes:
        name: One of `TESTS`.
        correction: One of `CORRECTIONS`, over the pairs of a metric.
        level: The confidence level.
        replicates: How many times topics are drawn, or systems swapped.
        seed: Of both.
    """

    name: str
    correction: str
    level: float
    replicates: int
    seed: int

    @classmethod
    def of(cls, name: str, correction: str | None, **sampling: Any) -> Test:
        """The test of these names.

        Raises:
            SpecError: If a name is unknown, or Tukey's test is to be corrected again.
        """
        if name not in TESTS:
            raise SpecError(unknown("test", name, TESTS))
        if correction is not None and correction not in CORRECTIONS:
            raise SpecError(unknown("correction", correction, CORRECTIONS))
        if name == TUKEY and correction is not None:
            raise SpecError(
                f"correction={correction}: tukey holds for all pairs together as it is; leave the "
                "correction out, or take the test t, wilcoxon or randomization"
            )
        return cls(name, correction or ("none" if name == TUKEY else "holm"), **sampling)


def pair_tests(scores: Scores, test: Test) -> PairTests:
    """Test every pair of systems of one metric."""
    if test.name == TUKEY:
        return _tukey(scores, test.level)
    import numpy as np

    n_systems = len(scores.systems)
    differences = np.full((n_systems, n_systems), np.nan)
    p_values, adjusted = differences.copy(), differences.copy()
    swaps = np.random.default_rng(test.seed)
    signs = swaps.integers(0, 2, (test.replicates, len(scores.topics))).astype(float) * 2 - 1
    for number in range(n_systems - 1):
        values = scores.values[number] - scores.values[number + 1 :]
        counts = (~np.isnan(values)).sum(axis=1)
        totals = np.nansum(values, axis=1)
        means = np.divide(totals, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        differences[number, number + 1 :] = means
        is_swapped = test.name == "randomization"
        p_values[number, number + 1 :] = (
            _randomized(values, signs) if is_swapped else [*_each(values, test.name)]
        )
    above = np.triu_indices(n_systems, 1)
    tested = ~np.isnan(p_values[above])
    rows, columns = above[0][tested], above[1][tested]
    adjusted[rows, columns] = CORRECTIONS[test.correction](
        p_values[rows, columns].tolist(), test.level
    ).p_values
    n_topics = int((~np.isnan(scores.values)).any(axis=0).sum())
    return PairTests(_both(differences, -1), _both(p_values), _both(adjusted), n_topics)


def _both(upper: Array, sign: int = 1) -> Array:
    """A matrix of the pairs above the diagonal, with those below it."""
    import numpy as np

    return np.where(np.isnan(upper), sign * upper.T, upper)


def _each(values: Array, test: str) -> Iterator[float]:
    """The p-value of each row of differences."""
    import numpy as np

    for row in values:
        differences = row[~np.isnan(row)]
        yield (_paired_t if test == "t" else _wilcoxon)(differences)


def _paired_t(differences: Array) -> float:
    n = len(differences)
    if n < 2:
        return math.nan
    mean = float(differences.mean())
    squares = float(((differences - mean) ** 2).sum())
    if abs(differences).max() <= TIED:
        return 1.0
    if squares <= NOISE * float((differences**2).sum()):
        return 0.0
    return student.tail(abs(mean) / math.sqrt(squares / (n - 1) / n), n - 1)


def _wilcoxon(differences: Array) -> float:
    if len(differences) < 2:
        return math.nan
    moved = [difference for difference in differences.tolist() if abs(difference) > TIED]
    if not moved:
        return 1.0
    sizes = [round(abs(difference), 12) for difference in moved]
    rank_of_each = ranks(sizes)
    positive = sum(
        rank for rank, difference in zip(rank_of_each, moved, strict=True) if difference > 0
    )
    return signed_rank_test(len(moved), positive, _tie_cubes(sizes))


def _tie_cubes(sizes: Sequence[float]) -> float:
    ordered = sorted(sizes)
    starts = [0, *(i for i, (a, b) in enumerate(pairwise(ordered), 1) if a != b), len(ordered)]
    return float(sum((b - a) ** 3 - (b - a) for a, b in pairwise(starts)))


def _randomized(values: Array, signs: Array) -> Array:
    """Shares of swaps whose mean is as far from 0 as that of each row, or farther."""
    import numpy as np

    differences = np.nan_to_num(values)
    totals = abs(differences.sum(axis=1))
    reached = abs(signs @ differences.T) >= totals - TIED
    p_values = (1 + reached.sum(axis=0)) / (1 + len(signs))
    p_values[(~np.isnan(values)).sum(axis=1) < 2] = np.nan
    return np.asarray(p_values)


def _tukey(scores: Scores, level: float) -> PairTests:
    """Tukey's honestly significant differences of systems, whose topics are blocks.

    The error is that of the two-way analysis of variance without repeats: what neither the system
    nor the topic explains. Only topics of which each system has a value count.
    """
    import numpy as np

    values = scores.complete
    n_systems, n_topics = values.shape
    nothing = np.full((n_systems, n_systems), np.nan)
    if n_topics < 2 or n_systems < 2:
        return PairTests(nothing, nothing, nothing, n_topics)
    means = values.mean(axis=1)
    differences = means[:, None] - means[None, :]
    residuals = values - means[:, None] - values.mean(axis=0) + values.mean()
    squares, df = float((residuals**2).sum()), (n_systems - 1) * (n_topics - 1)
    is_exact = squares <= NOISE * max(1.0, float((values**2).sum()))
    error = 0.0 if is_exact else math.sqrt(squares / df / n_topics)
    above = np.triu_indices(n_systems, 1)
    sizes = abs(differences[above])
    if is_exact:
        p_values = np.where(sizes <= TIED, 1.0, 0.0)
    else:
        p_values = studentized_range.tail(sizes / error, n_systems, df)
    matrix = nothing.copy()
    matrix[above] = p_values
    adjusted = _both(matrix)
    least = error * studentized_range.critical(level, n_systems, df)
    return PairTests(differences, adjusted, adjusted, n_topics, least, df)
