"""What each slice adds to a difference: its part by a changed value, and by a changed share.

With p the share of the queries (or of their weight) that a slice has for a system and m its mean
there, q and b the same for the baseline, and c half the sum of the two totals:

    rate = (p + q) / 2 (m - b)
    mix  = (p - q) ((m + b) / 2 - c)

The sum over the slices is the total difference, since the shares add up to 1. Where both systems
have the same queries, p = q, and there is no mix. Source: Kitagawa 1955.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmetrics.catalog.direction import SIGNS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.findings import Sums
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.statements import Statements, segments_stage
from sqlmetrics.comparison.sums.moments import Key, Moments, key_of
from sqlmetrics.comparison.sums.pairing import METRIC, Pairing
from sqlmetrics.errors import SpecError
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import literal
from sqlmetrics.stats import TIED
from sqlmetrics.stats.shrinkage import estimated
from sqlmetrics.tables.tabular import Row


@dataclass(frozen=True)
class Part:
    """What one system has in a slice.

    Attributes:
        n: How many queries.
        weight: The sum of their weights; as many without weights.
        total: The sum of their values, weighted.
    """

    n: int = 0
    weight: float = 0.0
    total: float = 0.0

    @property
    def mean(self) -> float | None:
        """The mean value, None without a query."""
        return self.total / self.weight if self.weight else None


def check(by: Sequence[str]) -> None:
    """Raise SpecError if there are no slices that could contribute."""
    if not by:
        raise SpecError("contributions need segments; name them with by (--by country; --segment)")


def slices_query(pairing: Pairing) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of one row per system, segment and metric."""
    weighted = "" if pairing.weight == "1e0" else " * weight"
    metrics = [
        {
            "columns": [
                Column(literal(measure.name), "metric"),
                Column(str(measure.k or 0), "k"),
                Column(measure.column, "metric_value"),
            ],
            "value": measure.column,
        }
        for measure in pairing.measures
    ]
    facts = ["system", *map(segment, pairing.by), *(["weight"] if weighted else [])]
    total = pairing.plan.translation.total
    sums = [
        Column("count(*)", "n"),
        Column(total(pairing.weight), "weight"),
        Column(total(f"metric_value{weighted}"), "total"),
    ]
    stages = [
        *pairing.query_values(),
        Stage("system_values", "comparison/system_values", {"shared": facts, "metrics": metrics}),
        segments_stage(
            "slices",
            "one row per system, segment and metric: the sums behind its mean",
            (["system"], [*METRIC]),
            sums,
            "system_values",
            segments=pairing.segments,
        ),
    ]
    return stages, "select *\nfrom slices"


def contributions_of(
    statements: Statements, pairing: Pairing, options: Options, sums: Sums
) -> tuple[list[Row], list[str]]:
    """What each slice adds, and what should be said of that; nothing unless asked for.

    Args:
        statements: The statements of the comparison.
        pairing: What is compared.
        options: What is asked.
        sums: What came out of the warehouse.
    """
    if not options.contributions:
        return [], []
    has_unpaired = any(
        int(sums.counts.get(side, {}).get(measure.column) or 0) != pairs.n
        for measure in pairing.measures
        for system in pairing.systems
        if (pairs := sums.moments.get((system, ALL, ALL, measure.name, measure.k or 0)))
        for side in (system, pairing.baseline)
    )
    return contributions(
        pairing, sums, statements.rows(*slices_query(pairing)) if has_unpaired else []
    )


def contributions(
    pairing: Pairing, sums: Sums, slices: Sequence[Mapping[str, Any]]
) -> tuple[list[Row], list[str]]:
    """A row per metric, system and slice, and what should be said of them.

    Args:
        pairing: What is compared.
        sums: What came out of the warehouse.
        slices: The rows of `slices_query`; none if all queries have both systems.
    """
    alone = {
        key_of(row): Part(int(row["n"]), float(row["weight"]), float(row["total"]))
        for row in slices
    }
    slice_rows: list[Row] = []
    notes: list[str] = []
    for name in pairing.by:
        for system in pairing.systems:
            for measure in pairing.measures:
                rows = _slices(pairing, sums, alone, (name, system, measure))
                slice_rows += rows
                notes += _paradox(rows, SIGNS[measure.metric.better])
    return slice_rows, notes


def _slices(
    pairing: Pairing, sums: Sums, alone: Mapping[Key, Part], combination: tuple[str, str, Measure]
) -> list[Row]:
    """The slices of one segment, system and metric, the largest contributions first."""
    name, system, measure = combination
    last = (measure.name, measure.k or 0)
    pairs = {
        key[2]: moments
        for key, moments in sums.moments.items()
        if key[:2] == (system, name) and key[3:] == last
    }
    overall = sums.moments.get((system, ALL, ALL, *last))
    if overall is None:
        return []
    parts = _paired(pairs)
    if alone:
        system_parts, baseline_parts = (
            {k[2]: part for k, part in alone.items() if k[:2] == (side, name) and k[3:] == last}
            for side in (system, pairing.baseline)
        )
        parts = {
            value: (system_parts.get(value, Part()), baseline_parts.get(value, Part()))
            for value in system_parts | baseline_parts
        }
    keys = {
        "metric": str(measure),
        "system": system,
        "baseline": pairing.baseline,
        "segment_name": name,
    }
    shrunk = _shrunk(overall, pairs)
    rows = [
        {**keys, **row, "shrunk_difference": shrunk.get(row["segment_value"])}
        for row in _rows(parts, pairs)
    ]
    return sorted(rows, key=lambda row: (-abs(row["contribution"]), row["segment_value"]))


def _paired(pairs: Mapping[str, Moments]) -> dict[str, tuple[Part, Part]]:
    """What both systems have in each slice, over the queries that both have."""
    return {
        value: (
            Part(moments.n, moments.weight, moments.x),
            Part(moments.n, moments.weight, moments.y),
        )
        for value, moments in pairs.items()
    }


def _rows(parts: Mapping[str, tuple[Part, Part]], pairs: Mapping[str, Moments]) -> list[Row]:
    weights = [sum(pair[i].weight for pair in parts.values()) for i in (0, 1)]
    totals = [sum(pair[i].total for pair in parts.values()) for i in (0, 1)]
    if not all(weights):
        return []
    centre = (totals[0] / weights[0] + totals[1] / weights[1]) / 2
    return [_row(value, pair, weights, centre, pairs.get(value)) for value, pair in parts.items()]


def _row(
    value: str,
    pair: tuple[Part, Part],
    weights: Sequence[float],
    centre: float,
    paired: Moments | None,
) -> Row:
    system_part, baseline_part = pair
    p, q = system_part.weight / weights[0], baseline_part.weight / weights[1]
    means = [part.mean for part in pair]
    known_means = [mean for mean in means if mean is not None]
    m, b = (
        (mean if mean is not None else known_means[0] for mean in means)
        if known_means
        else (0.0, 0.0)
    )
    same = paired is not None and system_part.n == baseline_part.n == paired.n
    difference = paired.difference if same and paired else m - b
    rate, mix = (p + q) / 2 * difference, (p - q) * ((m + b) / 2 - centre)
    return {
        "segment_value": value,
        "n": system_part.n,
        "n_baseline": baseline_part.n,
        "share": p,
        "baseline_share": q,
        "value": means[0],
        "baseline_value": means[1],
        "difference": difference if None not in means else None,
        "contribution": rate + mix,
        "rate": rate,
        "mix": mix,
    }


def _shrunk(overall: Moments, pairs: Mapping[str, Moments]) -> dict[str, float]:
    """The slices' differences, pulled towards that of all; none if all noise is unknown.

    The noise of a query or cluster is the same in all slices: what a small one by itself tells of
    it is little.
    """
    degrees = sum(moments.weight2 * (1 - 1 / moments.n_clusters) for moments in pairs.values())
    if not degrees:
        return {}
    noise = sum(moments.squares for moments in pairs.values()) / degrees
    noises = {name: noise * moments.weight2 / moments.weight**2 for name, moments in pairs.items()}
    differences = {name: moments.difference for name, moments in pairs.items()}
    shrinkage = estimated(overall.difference, list(differences.values()), list(noises.values()))
    return {name: shrinkage.shrunk(differences[name], noises[name]) for name in pairs}


def _paradox(rows: Sequence[Row], sign: int) -> Iterator[str]:
    """A sentence where each slice moved one way and the total the other way (Simpson)."""
    differences = [row["difference"] for row in rows if row["difference"] is not None]
    total = sum(row["contribution"] for row in rows)
    if len(differences) < 2 or abs(total) <= TIED:
        return
    up, down = min(differences) > TIED, max(differences) < -TIED
    if not ((up and total < 0) or (down and total > 0)):
        return
    ways = {1: ("better", "worse"), -1: ("worse", "better"), 0: ("higher", "lower")}[sign]
    slices, overall = ways if up else ways[::-1]
    mix = sum(row["mix"] for row in rows)
    first = rows[0]
    yield (
        f"{first['metric']} of {first['system']} is {slices} in every slice of "
        f"{first['segment_name']} but {overall} in total (Simpson's paradox): {mix:+.4f} of "
        f"{total:+.4f} come from which queries there were, not from their values"
    )
