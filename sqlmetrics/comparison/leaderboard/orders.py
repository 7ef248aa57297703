"""How alike the orders of systems are, by two metrics or by two tables of labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from sqlmetrics.comparison.leaderboard.pairs import PairTests
from sqlmetrics.comparison.leaderboard.scores import Scores
from sqlmetrics.stats.bootstrap import bootstrap_interval, resampled_counts
from sqlmetrics.stats.rank_correlation import order_correlations
from sqlmetrics.tables.table import many, metric_value
from sqlmetrics.tables.tabular import Kinds, Row

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

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
        topics, others = (
            set(orders[0].scores.topics) for orders in (self.orders, self.other_orders)
        )
        if topics != others:
            sides = (topics & others, topics - others, others - topics)
            both, first, other = (f"{len(side):,}" for side in sides)
            yield f"topics by both labels {both}, by the first alone {first}, by the other {other}"

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


def _agreement(verdicts: Array, others: Array) -> Row:
    """How many pairs two orders tell apart, alike or not."""
    import numpy as np

    both = ~np.isnan(verdicts) & ~np.isnan(others)
    first, other = verdicts[both], others[both]
    counts: dict[str, Any] = {
        "n_pairs": both,
        "n_agreed": (first * other) > 0,
        "n_opposite": (first * other) < 0,
        "n_first_only": (first != 0) & (other == 0),
        "n_other_only": (first == 0) & (other != 0),
    }
    return {name: int(pairs.sum()) for name, pairs in counts.items()}
