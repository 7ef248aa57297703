"""How alike the orders of systems are, by two metrics or by two tables of labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

from sqlmetrics.comparison.leaderboard.scores import Scores
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.stats import NOISE, TIED, student
from sqlmetrics.stats.bootstrap import bootstrap_interval, resampled_counts
from sqlmetrics.stats.nonparametric import (
    Adjustment,
    benjamini_hochberg,
    bonferroni,
    holm,
    order_correlations,
    ranks,
    signed_rank_test,
)
from sqlmetrics.tables.table import many, metric_value
from sqlmetrics.tables.tabular import Kinds, Row

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]


# Which of two systems differ: Tukey's test over all pairs, or tests of each, adjusted.

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
            _randomized(values, signs) if is_swapped else [*_p_values(values, test.name)]
        )
    above = np.triu_indices(n_systems, 1)
    tested = ~np.isnan(p_values[above])
    rows, columns = above[0][tested], above[1][tested]
    adjusted[rows, columns] = CORRECTIONS[test.correction](
        p_values[rows, columns].tolist(), test.level
    ).p_values
    n_topics = int((~np.isnan(scores.values)).any(axis=0).sum())
    return PairTests(
        _symmetric(differences, -1), _symmetric(p_values), _symmetric(adjusted), n_topics
    )


def _symmetric(upper: Array, sign: int = 1) -> Array:
    """A matrix of the pairs above the diagonal, with those below it."""
    import numpy as np

    return np.where(np.isnan(upper), sign * upper.T, upper)


def _p_values(values: Array, test: str) -> Iterator[float]:
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
        p_values = student.studentized_tail(sizes / error, n_systems, df)
    matrix = nothing.copy()
    matrix[above] = p_values
    adjusted = _symmetric(matrix)
    least = error * student.studentized_critical(level, n_systems, df)
    return PairTests(differences, adjusted, adjusted, n_topics, least, df)


_COEFFICIENTS = (
    *("kendall_tau", "kendall_tau_low", "kendall_tau_high"),
    *("tau_ap", "tau_ap_low", "tau_ap_high"),
)

LABEL_KINDS: Kinds = {
    "metric": "string",
    **dict.fromkeys(_COEFFICIENTS, "double"),
    **dict.fromkeys(("n_systems", "n_pairs", "n_agreed", "n_opposite"), "int64"),
    **dict.fromkeys(("n_first_only", "n_other_only"), "int64"),
}

METRIC_KINDS: Kinds = {"metric": "string", "other_metric": "string", **LABEL_KINDS}

DISCRIMINATION_KINDS: Kinds = {
    "metric": "string",
    **dict.fromkeys(("n_topics", "n_pairs", "n_different"), "int64"),
    **dict.fromkeys(("discriminative_power", "least_difference"), "double"),
}


@dataclass(frozen=True)
class Order:
    """The systems by one metric.

    Attributes:
        scores: The values.
        pair_test: Which systems differ.
    """

    scores: Scores
    pair_test: PairTests

    @property
    def metric(self) -> str:
        """The name of the metric."""
        return str(self.scores.measure)

    def means(self, counts: Array) -> Array:
        """The means of the data (row 0) and of each replicate, higher is better.

        Args:
            counts: How often each topic (column) is drawn in each replicate (row).
        """
        import numpy as np

        means = np.vstack([self.scores.means, self.scores.replicates(counts)])
        return means * (self.scores.sign or 1)

    def verdicts(self, error: float) -> Array:
        """Of each pair 1 if the row's system is better, -1 if worse, 0 if unclear; NaN untested."""
        import numpy as np

        is_different = self.pair_test.adjusted < error
        signs = np.sign(self.pair_test.differences) * (self.scores.sign or 1)
        verdicts: Array = np.where(is_different, signs, 0 * self.pair_test.adjusted)
        return verdicts[np.triu_indices(len(verdicts), 1)]

    def discrimination(self, error: float) -> Row:
        """The share of pairs that are told apart, which Sakai calls discriminative power.

        Source: T. Sakai: Evaluating evaluation metrics based on the bootstrap. SIGIR 2006.
        """
        import numpy as np

        verdicts = self.verdicts(error)
        n_pairs, n_different = int((~np.isnan(verdicts)).sum()), int((abs(verdicts) == 1).sum())
        return {
            "metric": self.metric,
            "n_topics": self.pair_test.n_topics,
            "n_pairs": n_pairs,
            "n_different": n_different,
            "discriminative_power": n_different / n_pairs if n_pairs else None,
            "least_difference": self.pair_test.least,
        }


@dataclass(frozen=True)
class Orders:
    """The systems by each metric, and by other labels if there are some.

    Attributes:
        orders: By metric.
        other_orders: The same by the other labels; empty without them.
        replicates: How many bootstrap samples of topics the intervals are taken of.
        seed: The random seed.
        level: The confidence level of intervals and verdicts.
    """

    orders: Sequence[Order]
    other_orders: Sequence[Order]
    replicates: int
    seed: int
    level: float

    def metric_rows(self) -> Iterator[Row]:
        """A row per pair of metrics; the first one is the reference of tau_ap."""
        for i, j, row in self._rows(self.orders):
            names = {"metric": self.orders[i].metric, "other_metric": self.orders[j].metric}
            yield names | row

    def label_rows(self) -> Iterator[Row]:
        """A row per metric: by the labels, which are the reference, and by the others."""
        for order, other in zip(self.orders, self.other_orders, strict=False):
            for _, _, row in self._rows((order, other)):
                yield {"metric": order.metric} | row

    def discrimination_rows(self) -> Iterator[Row]:
        """A row per metric: how many pairs of systems it tells apart."""
        for order in self.orders:
            yield order.discrimination(1 - self.level)

    def label_notes(self, metric: str) -> Iterator[str]:
        """What the other labels change, if there are some.

        Args:
            metric: The metric that the note is of.
        """
        if not self.other_orders:
            return
        row = next(row for row in self.label_rows() if row["metric"] == metric)
        ends = [row[f"kendall_tau_{end}"] for end in ("low", "high")]
        interval = "" if None in ends else f" ({' to '.join(map(metric_value, ends))})"
        taus = [metric_value(row[name]) for name in ("kendall_tau", "tau_ap")]
        n_alone = row["n_first_only"] + row["n_other_only"]
        yield (
            f"by the other labels the order by {metric} has Kendall's tau {taus[0]}{interval} and "
            f"tau_ap {taus[1]}; of {many(row['n_pairs'], 'pair')} both tell {row['n_agreed']:,} "
            f"apart alike, {row['n_opposite']:,} the other way round, and one alone {n_alone:,}"
        )
        topics, other_topics = (
            set(orders[0].scores.topics) for orders in (self.orders, self.other_orders)
        )
        if topics != other_topics:
            sides = (topics & other_topics, topics - other_topics, other_topics - topics)
            in_both, first, other = (f"{len(side):,}" for side in sides)
            yield (
                f"topics by both labels {in_both}, by the first alone {first}, by the other {other}"
            )

    def _rows(self, orders: Sequence[Order]) -> Iterator[tuple[int, int, Row]]:
        """The numbers of two orders, and how alike they are."""
        import numpy as np

        numbers = {
            topic: number
            for number, topic in enumerate(
                dict.fromkeys(topic for order in orders for topic in order.scores.topics)
            )
        }
        counts = resampled_counts(len(numbers), self.replicates, self.seed)
        means = np.stack(
            [
                order.means(counts[:, [numbers[topic] for topic in order.scores.topics]])
                for order in orders
            ]
        )
        is_ranked = ~np.isnan(means[:, 0]).any(axis=0)
        verdicts = [order.verdicts(1 - self.level) for order in orders]
        n_systems = int(is_ranked.sum())
        correlations = order_correlations(means[:, :, is_ranked]) if n_systems > 1 else None
        for i, j in combinations(range(len(orders)), 2):
            row: Row = dict.fromkeys(_COEFFICIENTS)
            if correlations is not None:
                for name, values in zip(("kendall_tau", "tau_ap"), correlations, strict=True):
                    value, replicates = float(values[i, j, 0]), values[i, j, 1:]
                    if math.isnan(value):
                        continue
                    low, high = bootstrap_interval(replicates, self.level, len(numbers))
                    row |= {name: value, f"{name}_low": low, f"{name}_high": high}
            yield i, j, row | {"n_systems": n_systems} | _agreement(verdicts[i], verdicts[j])


def _agreement(verdicts: Array, other_verdicts: Array) -> Row:
    """How many pairs two orders tell apart, alike or not."""
    import numpy as np

    has_both = ~np.isnan(verdicts) & ~np.isnan(other_verdicts)
    first, other = verdicts[has_both], other_verdicts[has_both]
    counts: dict[str, Any] = {
        "n_pairs": has_both,
        "n_agreed": (first * other) > 0,
        "n_opposite": (first * other) < 0,
        "n_first_only": (first != 0) & (other == 0),
        "n_other_only": (first == 0) & (other != 0),
    }
    return {name: int(pairs.sum()) for name, pairs in counts.items()}
