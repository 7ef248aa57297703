"""Counts and sums of paired values, made in the warehouse; what follows from them alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.statements import chosen_if, join_stage, segments_stage, sums_stage
from sqlmetrics.comparison.sums.pairing import METRIC, SEGMENT, Pairing, is_above
from sqlmetrics.plan.shape import segment
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.stats import NOISE

KEYS = ("system", *SEGMENT, *METRIC)
Key = tuple[Any, ...]
"""System, segment, its value, metric and cutoff."""

Rows = Callable[[Sequence[Stage], str], list[dict[str, Any]]]
"""Runs a select of some stages over `per_query`."""


def key_of(row: Mapping[str, Any]) -> Key:
    """The key of a row of the warehouse."""
    return (*(row[name] for name in KEYS[:-1]), int(row["k"]))


@dataclass(frozen=True)
class Moments:
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
        """The mean difference; 0 if no query differs by more than its last digits."""
        return self.centre + self.d / self.weight if self.differs else 0.0

    @property
    def differs(self) -> bool:
        """Whether a query differs by more than the last digits of what was summed for it."""
        return self.wins > 0 or self.losses > 0

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
        if not self.differs:
            return 0.0
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

    @property
    def n_drawn(self) -> int:
        """Clusters of either side: the same."""
        return self.n_clusters

    def exact(self) -> tuple[float, str] | None:
        """Where all differ by the same: 2 of the 2^n ways to change places are as extreme."""
        chance = 2.0 ** (1 - self.n_clusters)
        return (chance, "exact sign flip") if self.differs else (1.0, "")


PART = 40
"""So many metrics are summed by one query: databases bound how many columns a row has."""


def moments_of(pairing: Pairing, rows: Rows) -> dict[Key, Moments]:
    """System, segment, its value, metric and cutoff -> the moments of its pairs.

    Args:
        pairing: What is compared.
        rows: Runs a select of some stages over `per_query`.
    """
    moments_by_key = {}
    for first in range(0, len(pairing.measures), PART):
        part = replace(pairing, measures=pairing.measures[first : first + PART])
        for row in rows(*moments_query(part)):
            for measure in part.measures:
                if row[f"{measure.column}_n"]:
                    key = (*(row[name] for name in KEYS[:3]), measure.name, measure.k or 0)
                    moments_by_key[key] = _read(row, measure)
    return moments_by_key


def moments_query(pairing: Pairing) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of one row per system and segment."""
    return [*pairing.stages(), *_stages(pairing)], "select *\nfrom moments"


def _stages(pairing: Pairing) -> Iterator[Stage]:
    yield _centres(pairing)
    yield _differences(pairing)
    source = "differences"
    if pairing.cluster:
        yield _cluster_sums(pairing)
        source = "cluster_sums"
    yield _segment_sums(pairing, source)
    columns: list[object] = ["segment_sums.*"]
    columns += [f"centres.{measure.column}_centre" for measure in pairing.measures]
    about = "one row per system and segment: the counts and sums of its pairs, by metric"
    yield join_stage("moments", about, columns, "segment_sums", to="centres", on=("system",))


def _centres(pairing: Pairing) -> Stage:
    about = "squares are summed about numbers near the means, so that no digits are lost"
    mean = pairing.plan.translation.mean
    columns = [
        Column(mean(f"{measure.column}_difference"), f"{measure.column}_centre")
        for measure in pairing.measures
    ]
    return sums_stage("centres", about, ["system"], columns, "pairs")


def _summed(pairing: Pairing, measure: Measure) -> dict[str, str]:
    """What is summed -> its value of a pair; of one without a difference 0 or NULL."""
    column = measure.column
    weighted = pairing.weight != "1e0"
    times = " * weight" if weighted else ""
    is_paired = f"{column}_difference is not null"
    cells = {"n": chosen_if(is_paired, "1", "0")}
    if weighted:
        cells["weight"] = chosen_if(is_paired, "weight")
    return cells | {
        "x": chosen_if(is_paired, f"{column}{times}"),
        "y": chosen_if(is_paired, f"{column}_baseline{times}"),
        "d": f"({column}_difference - {column}_centre){times}"
        if times
        else f"{column}_difference - {column}_centre",
        "wins": is_above(f"{column}_difference"),
        "losses": is_above(f"-{column}_difference"),
    }


def _differences(pairing: Pairing) -> Stage:
    carried = [name for name in pairing.carried if name != "weight"]
    columns: list[object] = [f"pairs.{name}" for name in carried]
    for measure in pairing.measures:
        cells = _summed(pairing, measure).items()
        columns += [Column(text, f"{measure.column}_{name}") for name, text in cells]
    about = "one row per query and system: the terms of the sums, by metric"
    return join_stage("differences", about, columns, "pairs", to="centres", on=("system",))


def _cluster_sums(pairing: Pairing) -> Stage:
    about = "one row per cluster, system and segment"
    sums = [
        Column(_added(pairing, name, f"{measure.column}_{name}"), f"{measure.column}_{name}")
        for measure in pairing.measures
        for name in _summed(pairing, measure)
    ]
    if pairing.clusters_have_segments:  # one row of sums is of all segments
        about = "one row per cluster and system"
        cluster_keys = [*dict.fromkeys(["system", "cluster", *map(segment, pairing.by)])]
        return sums_stage("cluster_sums", about, cluster_keys, sums, "differences")
    keys = ["system", "cluster"], list[str]()
    return segments_stage(
        "cluster_sums", about, keys, sums, "differences", segments=pairing.segments
    )


_MOMENTS = {
    "n": "{n}",
    "n_clusters": "case when {n} > 0 then 1 else 0 end",
    "weight": "{weight}",
    "weight2": "{weight} * {weight}",
    "x": "{x}",
    "y": "{y}",
    "x2": "{x} * {x}",
    "y2": "{y} * {y}",
    "xy": "{x} * {y}",
    "d": "{d}",
    "d2": "{d} * {d}",
    "dw": "{d} * {weight}",
    "wins": "{wins}",
    "losses": "{losses}",
}
"""Attribute of `Moments` -> what it is the sum of."""

_INTEGERS = frozenset({"n", "n_clusters", "wins", "losses"})


def _added(pairing: Pairing, name: str, text: str) -> str:
    """A sum: of counts, or of floats."""
    total = pairing.plan.translation.total
    return f"sum({text})" if name in _INTEGERS else total(text)


def _segment_sums(pairing: Pairing, source: str) -> Stage:
    sums = []
    for measure in pairing.measures:
        names = {name: f"{measure.column}_{name}" for name in _summed(pairing, measure)}
        names.setdefault("weight", names["n"])
        texts = {name: text.format(**names) for name, text in _MOMENTS.items()}
        sums += [
            Column(_added(pairing, name, text), f"{measure.column}_{name}")
            for name, text in texts.items()
        ]
    about = "one row per system and segment: sums and products, by metric"
    if source == "cluster_sums" and not pairing.clusters_have_segments:
        return sums_stage("segment_sums", about, KEYS[:3], sums, source)
    keys = ["system"], list[str]()
    return segments_stage("segment_sums", about, keys, sums, source, segments=pairing.segments)


def _read(row: Mapping[str, Any], measure: Measure) -> Moments:
    """The moments of a metric in a row of the query."""
    fields: dict[str, Any] = {
        name: (int if name in _INTEGERS else float)(row[f"{measure.column}_{name}"])
        for name in (*_MOMENTS, "centre")
    }
    return Moments(**fields)
