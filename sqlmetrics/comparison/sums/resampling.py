"""Bootstrap and randomisation inside the warehouse; only sums of replicates leave it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.statements import (
    chosen_if,
    columns_stage,
    join_stage,
    segments_stage,
    sums_stage,
)
from sqlmetrics.comparison.sums import lots
from sqlmetrics.comparison.sums.lots import MOST_REPLICATES
from sqlmetrics.comparison.sums.pairing import SEGMENT, Pairing
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.stats.estimate import Estimate, percentile_interval

BOOTSTRAP, RANDOMIZATION = "bootstrap", "randomization"
LEAST = 100
"""Fewer replicates say nothing."""

USUAL = 1000
BELOW = 10
"""The least adjusted p-value is so many times below the accepted error, unless replicates are
given."""

SLACK = 1e-9
"""A replicate that is no nearer to the observed difference is as large: sums differ in their last
digits by engine."""

_WEIGHTS = {
    BOOTSTRAP: ("how often it is in the replicate: Poisson with mean 1", lots.poisson),
    RANDOMIZATION: ("its sign in the replicate: -1 if the two systems are swapped", lots.sign),
}


@dataclass(frozen=True)
class Replicates:
    """The replicates of a system, segment and metric.

    Attributes:
        differences: The sum of weighted differences of each.
        weights: The sum of weights of each; none by randomisation, where they stay the same.
        baseline: The same of the baseline, where it has queries of its own; the first are then
            sums of values.
    """

    differences: Sequence[float]
    weights: Sequence[float]
    baseline: Replicates | None = None

    def randomization(self, total: float) -> float:
        """The share of replicates that differ as much as was seen, or more; that itself is one.

        Args:
            total: The sum of the differences that was seen.
        """
        reached = abs(total) * (1 - SLACK)
        extreme = sum(abs(difference) >= reached for difference in self.differences)
        return (extreme + 1) / (len(self.differences) + 1)

    def means(self) -> list[float]:
        """The mean difference of each replicate that has a query, on both sides."""
        pairs = list(zip(self.differences, self.weights, strict=True))
        if self.baseline is None:
            return [total / weight for total, weight in pairs if weight > 0]
        baseline_pairs = zip(self.baseline.differences, self.baseline.weights, strict=True)
        pairs_by_replicate = zip(pairs, baseline_pairs, strict=True)
        return [x / v - y / w for (x, v), (y, w) in pairs_by_replicate if v > 0 and w > 0]

    def bootstrap(self, difference: float) -> float:
        """The share of replicates that lie as far from the mean seen as that lies from 0.

        Args:
            difference: The mean difference that was seen.
        """
        means = self.means()
        reached = abs(difference) * (1 - SLACK)
        extreme = sum(abs(mean - difference) >= reached for mean in means)
        return (extreme + 1) / (len(means) + 1)


@dataclass(frozen=True)
class Percentiles:
    """The interval of a bootstrap.

    Attributes:
        replicates: What was drawn.
        estimate: The difference, of which such data could show a smallest one.
    """

    replicates: Replicates
    estimate: Estimate

    def interval(self, confidence: float) -> tuple[float, float]:
        """The percentiles of the means of the replicates.

        Args:
            confidence: Its coverage, above 0 and below 1.
        """
        return percentile_interval(self.replicates.means(), confidence)

    @property
    def standard_error(self) -> float | None:
        """As of Student's t."""
        return self.estimate.standard_error

    def smallest_detectable(self, confidence: float) -> float | None:
        """As of Student's t."""
        return self.estimate.smallest_detectable(confidence)


def count_of(n_tests: int, level: float, count: int | None) -> int:
    """How many replicates are drawn.

    The least p-value of a resampling test is 1 / (replicates + 1), and Holm multiplies the least
    of several by their number.

    Args:
        n_tests: Systems times metrics.
        level: The coverage of an interval by itself; 1 - level is the accepted error.
        count: As many as are given; None for as many as the tests need.

    Raises:
        SpecError: If no difference, however large, could be shown with so many.

    >>> count_of(1, 0.95, None), count_of(59, 0.95, None)
    (1000, 12000)
    """
    error = round(1 - level, 12)
    usual = min(MOST_REPLICATES, max(USUAL, math.ceil(n_tests * BELOW / error / 1000) * 1000))
    if count is None:
        count = usual
    least = n_tests / (count + 1)
    if least >= error:
        raise SpecError(
            f"{count:,} replicates are too few to show a difference: with {n_tests:,} tests "
            f"(systems times metrics) the least adjusted p-value is {least:.3g}, which is not "
            f"below {error:g}; set --replicates {usual:,}, or leave it out"
        )
    return count


def check_count(count: int) -> None:
    """Raise SpecError for too few replicates, or too many."""
    if not LEAST <= count <= MOST_REPLICATES:
        raise SpecError(
            f"replicates must be from {LEAST:,} to {MOST_REPLICATES:,}, given {count:,}; 1,000 "
            "suffice for a level of 0.95"
        )


@dataclass(frozen=True)
class Resampling:
    """The stages behind `per_query` that draw replicates.

    Attributes:
        pairing: What is compared.
        test: `bootstrap` or `randomization`.
        seed: Another one draws other replicates.
        count: How many.
        n_clusters: Of how many clusters.
        is_complete: Whether each query has a value of each metric, so that one sum of weights
            holds for all.
    """

    pairing: Pairing
    test: str
    seed: int
    count: int
    n_clusters: int
    is_complete: bool = False

    def weight_of(self, measure: Measure) -> str:
        """The column of the sum of its weights; empty where none is needed."""
        if self.test == RANDOMIZATION:
            return ""
        return "all_weight" if self.is_complete else f"{measure.column}_weight"

    @property
    def _sums(self) -> dict[str, Measure]:
        """Column -> the metric that it is of."""
        sums = {f"{measure.column}_sum": measure for measure in self.pairing.measures}
        weights = {self.weight_of(measure): measure for measure in self.pairing.measures}
        return {**sums, **{name: measure for name, measure in weights.items() if name}}

    def query(self) -> tuple[list[Stage], str]:
        """The stages, and the select of one row per replicate, system and segment."""
        keys = ("system", *SEGMENT, "replicate")
        about, weight = _WEIGHTS[self.test]
        columns = (*keys, *self._sums)
        lot, times = Column(lots.remainder("product"), "lot"), Column(weight("lot"), "times")
        total = self.pairing.plan.translation.total
        sums = [Column(total(f"times * {name}"), name) for name in self._sums]
        stages = [
            *self.pairing.stages(),
            *lots.lots(self.pairing, self.seed, self.n_clusters),
            self._pair_lots(),
            self._lot_sums(),
            *lots.replicates(self.seed, self.count),
            Stage("products", "comparison/products", {}),
            columns_stage(
                "replicate_lots", "the draw in the replicate", [*columns, lot], "products"
            ),
            columns_stage("replicate_weights", about, [*columns, times], "replicate_lots"),
            sums_stage("replicate_sums", _A_REPLICATE, keys, sums, "replicate_weights"),
        ]
        return stages, "select *\nfrom replicate_sums"

    def _pair_lots(self) -> Stage:
        pairing, rows = self.pairing, self.pairing.rows
        weight = pairing.weight if pairing.weight == "1e0" else f"{rows}.{pairing.weight}"
        columns: list[object] = [f"{rows}.{name}" for name in pairing.carried]
        columns.append("lots.lot")
        for name, measure in self._sums.items():
            difference = f"{rows}.{pairing.value_of(measure)}"
            if name == f"{measure.column}_sum":
                weighted = difference if weight == "1e0" else f"{difference} * {weight}"
                columns.append(Column(weighted, name))
            else:
                counted = chosen_if(f"{difference} is null", "0e0", weight)
                columns.append(Column(counted, name))
        about = "one row per query and system, with the random number of its cluster"
        return join_stage("pair_lots", about, columns, rows, to="lots", on=(pairing.unit[-1],))

    def _lot_sums(self) -> Stage:
        total = self.pairing.plan.translation.total
        sums = [Column(f"coalesce({total(name)}, 0e0)", name) for name in self._sums]
        keys = ["system", "lot"], list[str]()
        segments = self.pairing.segments
        return segments_stage("lot_sums", _A_LOT, keys, sums, "pair_lots", segments=segments)

    def read(self, rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, ...], Replicates]:
        """System, segment, its value, metric and cutoff -> the replicates, in their order."""
        sums_by_key: dict[tuple[Any, ...], tuple[list[float], list[float]]] = {}
        for row in sorted(rows, key=lambda row: int(row["replicate"])):
            for measure in self.pairing.measures:
                key = (*(row[name] for name in ("system", *SEGMENT)), measure.name, measure.k or 0)
                sums, weights = sums_by_key.setdefault(key, ([], []))
                sums.append(float(row[f"{measure.column}_sum"]))
                if weight := self.weight_of(measure):
                    weights.append(float(row[weight]))
        replicates_by_key = {key: Replicates(*pair) for key, pair in sums_by_key.items()}
        if self.pairing.rows == "pairs":
            return replicates_by_key
        first = self.pairing.baseline
        return {
            key: replace(replicates, baseline=replicates_by_key.get((first, *key[1:])))
            for key, replicates in replicates_by_key.items()
        }


_A_LOT = "one row per random number, system and segment"
_A_REPLICATE = "one row per replicate, system and segment"
