"""Counts and sums of paired values, made in the warehouse; what follows from them alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlmetrics.comparison.inference.estimate import NOISE, Estimate
from sqlmetrics.comparison.stages import join_stage, segments_stage, sums_stage
from sqlmetrics.comparison.sums.pairing import METRIC, SEGMENT, Pairing, is_above
from sqlmetrics.sql.stage import Column, Stage

KEYS = ("system", *SEGMENT, *METRIC)


@dataclass(frozen=True)
class Moments(Estimate):
    """Sums over clusters of queries; without clusters, over queries.

    Attributes:
        n: Queries that both systems have a value of.
        n_clusters: What is independent of each other: as many as queries, or fewer.
        weight: The sum of the weights; the queries where there are none.
        weight2: The sum of the squares of the clusters' weights.
        x: The sum of the system's values, weighted; `y` of the baseline's.
        y: See `x`.
        x2: The sum of the squares of the clusters' x; `y2` and `xy` likewise.
        y2: See `x2`.
        xy: See `x2`.
        centre: The number about which differences are summed, near their mean.
        d: The sum of differences less the centre, weighted.
        d2: The sum of the squares of the clusters' d.
        dw: The sum of the clusters' d times their weight.
        wins: Queries with a higher value than the baseline's, by more than 1e-9.
        losses: With a lower one.
    """

    n: int
    n_clusters: int
    weight: float
    weight2: float
    x: float
    y: float
    x2: float
    y2: float
    xy: float
    centre: float
    d: float
    d2: float
    dw: float
    wins: int
    losses: int

    @property
    def value(self) -> float:
        """The system's mean over the queries that both have."""
        return self.x / self.weight

    @property
    def baseline_value(self) -> float:
        """The baseline's."""
        return self.y / self.weight

    @property
    def difference(self) -> float:
        """The mean difference."""
        return self.centre + self.d / self.weight

    @property
    def ties(self) -> int:
        """Queries with the same value."""
        return self.n - self.wins - self.losses

    @property
    def standard_error(self) -> float | None:
        """The standard error of the mean difference; None with less than two clusters.

        The linearised ratio of sums of clusters (delta method); without clusters and weights
        it is s / sqrt(n), that of the paired t-test.
        """
        if self.n_clusters < 2:
            return None
        return math.sqrt(self.squares * self.n_clusters / (self.n_clusters - 1)) / self.weight

    @property
    def squares(self) -> float:
        """The sum of the squares of what clusters' sums are off the mean difference."""
        off = self.d / self.weight
        squares = self.d2 - 2 * off * self.dw + off * off * self.weight2
        return squares if squares > self.weight2 * NOISE**2 else 0.0

    @property
    def df(self) -> float:
        """Degrees of freedom."""
        return self.n_clusters - 1

    @property
    def effect_size(self) -> float | None:
        """Cohen's d of paired values: the mean difference over its standard deviation."""
        error = self.standard_error
        return self.difference / (error * math.sqrt(self.n_clusters)) if error else None

    @property
    def n_baseline(self) -> int:
        """The baseline's queries: the same."""
        return self.n

    def exact(self) -> tuple[float, str] | None:
        """Where all differ by the same: 2 of the 2^n ways to change places are as extreme."""
        differs = self.wins or self.losses
        return (2.0 ** (1 - self.n_clusters), "exact sign flip") if differs else (1.0, "")


def moments_query(pairing: Pairing) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of one row per system, segment and metric."""
    last = "select *\nfrom moments"
    return [*pairing.stages(), *_stages(pairing)], last


def _stages(pairing: Pairing) -> Iterator[Stage]:
    yield pairing.metric_pairs()
    yield _centres()
    yield _differences(pairing)
    source = "differences"
    if pairing.cluster:
        yield _cluster_sums(pairing)
        source = "cluster_sums"
    yield _moments(pairing, source)


def _centres() -> Stage:
    about = "squares are summed about a number near the mean, so that no digits are lost"
    columns = [Column("avg(difference)", "centre")]
    return sums_stage("centres", about, ["system", *METRIC], columns, "metric_pairs")


SUMMED = ("n_queries", "weight", "x", "y", "d", "n_wins", "n_losses")
"""What a cluster has the sums of."""


def _differences(pairing: Pairing) -> Stage:
    weight, weighted = pairing.weight, "" if pairing.weight == "1e0" else " * metric_pairs.weight"
    carried = [name for name in pairing.carried if name != "weight"]
    one = "metric_pairs."
    columns: list[object] = [
        *(f"{one}{name}" for name in (*carried, *METRIC)),
        "centres.centre",
        Column("1", "n_queries"),
        Column(f"{one}weight" if weighted else weight, "weight"),
        Column(f"{one}metric_value{weighted}", "x"),
        Column(f"{one}baseline_value{weighted}", "y"),
        Column(f"({one}difference - centres.centre){weighted}", "d"),
        Column(is_above(f"{one}difference"), "n_wins"),
        Column(is_above(f"-{one}difference"), "n_losses"),
    ]
    about, on = "one row per query, system and metric: what is summed", ("system", *METRIC)
    return join_stage("differences", about, columns, "metric_pairs", to="centres", on=on)


def _cluster_sums(pairing: Pairing) -> Stage:
    about = "one row per cluster, system, segment and metric"
    keys = ["system", "cluster"], [*METRIC, "centre"]
    sums = [Column(f"sum({name})", name) for name in SUMMED]
    return segments_stage(
        "cluster_sums", about, keys, sums, "differences", segments=pairing.segments
    )


_MOMENTS = {
    "n": "sum(n_queries)",
    "n_clusters": "count(*)",
    "weight": "sum(weight)",
    "weight2": "sum(weight * weight)",
    "x": "sum(x)",
    "y": "sum(y)",
    "x2": "sum(x * x)",
    "y2": "sum(y * y)",
    "xy": "sum(x * y)",
    "centre": "min(centre)",
    "d": "sum(d)",
    "d2": "sum(d * d)",
    "dw": "sum(d * weight)",
    "wins": "sum(n_wins)",
    "losses": "sum(n_losses)",
}
"""Attribute of `Moments` -> its sum."""


def _moments(pairing: Pairing, source: str) -> Stage:
    sums = [Column(f"{text}", f"sum_{name}") for name, text in _MOMENTS.items()]
    about = "one row per system, segment and metric: counts and sums of its pairs"
    if source == "cluster_sums":
        return sums_stage("moments", about, KEYS, sums, source)
    keys = ["system"], [*METRIC]
    return segments_stage("moments", about, keys, sums, source, segments=pairing.segments)


def read(row: Mapping[str, Any]) -> Moments:
    """The moments of a row of the query."""
    whole = {"n", "n_clusters", "wins", "losses"}
    found: dict[str, Any] = {
        name: (int if name in whole else float)(row[f"sum_{name}"]) for name in _MOMENTS
    }
    return Moments(**found)
