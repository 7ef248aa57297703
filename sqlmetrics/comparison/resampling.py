"""Bootstrap and randomisation inside the warehouse; only sums of replicates leave it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmetrics.comparison import lots
from sqlmetrics.comparison.pairing import SEGMENT, Pairing
from sqlmetrics.comparison.stages import (
    chosen_if,
    columns_stage,
    join_stage,
    segments_stage,
    sums_stage,
)
from sqlmetrics.errors import SpecError
from sqlmetrics.sql.stage import Column, Stage

BOOTSTRAP, RANDOMIZATION = "bootstrap", "randomization"
LEAST = 100
"""Fewer replicates say nothing."""

SLACK = 1e-9
"""A replicate that is no nearer to the observed difference is as large: sums differ in their last
digits by engine."""

_WEIGHTS = {
    BOOTSTRAP: ("how often it stands in the replicate: Poisson with mean 1", lots.poisson),
    RANDOMIZATION: ("its sign in the replicate: the two systems change places, or not", lots.sign),
}


@dataclass(frozen=True)
class Replicates:
    """The replicates of a system, segment and metric.

    Attributes:
        differences: The sum of weighted differences of each.
        weights: The sum of weights of each; the same for all by randomisation.
    """

    differences: Sequence[float]
    weights: Sequence[float]

    def randomization(self, total: float) -> float:
        """The share of replicates that differ as much as was seen, or more; that itself is one.

        Args:
            total: The sum of the differences that was seen.
        """
        reached = abs(total) * (1 - SLACK)
        extreme = sum(abs(one) >= reached for one in self.differences)
        return (extreme + 1) / (len(self.differences) + 1)

    def means(self) -> list[float]:
        """The mean difference of each replicate that has a query."""
        pairs = zip(self.differences, self.weights, strict=True)
        return [total / weight for total, weight in pairs if weight > 0]

    def bootstrap(self, difference: float) -> float:
        """The share of replicates that lie as far from the mean seen as that lies from 0.

        Args:
            difference: The mean difference that was seen.
        """
        means = self.means()
        reached = abs(difference) * (1 - SLACK)
        extreme = sum(abs(one - difference) >= reached for one in means)
        return (extreme + 1) / (len(means) + 1)

    def interval(self, level: float) -> tuple[float, float]:
        """The percentiles of the means of the replicates.

        Args:
            level: Its coverage, above 0 and below 1.
        """
        means = sorted(self.means())
        return _quantile(means, (1 - level) / 2), _quantile(means, (1 + level) / 2)


def _quantile(values: Sequence[float], share: float) -> float:
    """A quantile of sorted values, linear between them."""
    place = share * (len(values) - 1)
    low = min(int(place), len(values) - 2)
    return values[low] + (place - low) * (values[low + 1] - values[low])


def check_count(count: int) -> None:
    """Raise SpecError for too few replicates, or too many."""
    if not LEAST <= count <= lots.MOST_REPLICATES:
        raise SpecError(
            f"replicates are {LEAST:,} to {lots.MOST_REPLICATES:,}, given {count:,}; "
            "1,000 will do for a level of 0.95"
        )


def replicates_query(
    pairing: Pairing, test: str, seed: int, count: int, n_clusters: int
) -> tuple[list[Stage], str]:
    """The stages behind `per_query`; the select of one row per replicate, system and segment."""
    keys = ("system", *SEGMENT, "replicate")
    names = [f"{one.column}_{what}" for one in pairing.measures for what in ("sum", "weight")]
    about, weight = _WEIGHTS[test]
    groups = [*dict.fromkeys([*pairing.carried, "lot"])]
    lot = lots.remainder("product")
    own = ("system", *SEGMENT, "replicate", *names)
    stages = [
        *pairing.stages(),
        *lots.lots(pairing, seed, n_clusters),
        _with_lots(pairing, groups),
        _lot_sums(pairing),
        *lots.replicates(seed, count),
        Stage("products", "comparison/products", {}),
        columns_stage(
            "replicate_lots", "the lot in the replicate", [*own, Column(lot, "lot")], "products"
        ),
        columns_stage(
            "replicate_weights", about, [*own, Column(weight("lot"), "times")], "replicate_lots"
        ),
        _summed(keys, names),
    ]
    return stages, "select *\nfrom replicate_sums"


def _with_lots(pairing: Pairing, groups: Sequence[str]) -> Stage:
    weighted = "" if pairing.weight == "1e0" else f" * pairs.{pairing.weight}"
    weight = f"pairs.{pairing.weight}" if weighted else pairing.weight
    columns: list[object] = [f"pairs.{name}" for name in groups if name != "lot"]
    columns.append("lots.lot")
    for one in pairing.measures:
        difference = f"pairs.{one.column}_difference"
        columns.append(Column(f"{difference}{weighted}", f"{one.column}_sum"))
        counted = chosen_if(f"{difference} is null", "0e0", weight)
        columns.append(Column(counted, f"{one.column}_weight"))
    about = "one row per query and system, with the lot of its cluster"
    return join_stage("pair_lots", about, columns, "pairs", to="lots", on=(pairing.unit[-1],))


def _lot_sums(pairing: Pairing) -> Stage:
    sums = []
    for one in pairing.measures:
        sums.append(Column(f"coalesce(sum({one.column}_sum), 0e0)", f"{one.column}_sum"))
        sums.append(Column(f"sum({one.column}_weight)", f"{one.column}_weight"))
    about, keys = "one row per lot, system and segment", (["system", "lot"], list[str]())
    return segments_stage("lot_sums", about, keys, sums, "pair_lots", segments=pairing.segments)


def _summed(keys: Sequence[str], names: Sequence[str]) -> Stage:
    about = "one row per replicate, system and segment"
    columns = [Column(f"sum(times * {name})", name) for name in names]
    return sums_stage("replicate_sums", about, keys, columns, "replicate_weights")


def read(rows: Iterator[Mapping[str, Any]], pairing: Pairing) -> dict[tuple[Any, ...], Replicates]:
    """System, segment, its value, metric and cutoff -> the replicates, in their order."""
    found: dict[tuple[Any, ...], tuple[list[float], list[float]]] = {}
    for row in sorted(rows, key=lambda one: int(one["replicate"])):
        for one in pairing.measures:
            own = (*(row[name] for name in ("system", *SEGMENT)), one.name, one.k or 0)
            sums, weights = found.setdefault(own, ([], []))
            sums.append(float(row[f"{one.column}_sum"]))
            weights.append(float(row[f"{one.column}_weight"]))
    return {own: Replicates(*pair) for own, pair in found.items()}
