"""The queries that moved most: by how much, on how much traffic, and whether it could be noise.

    metric_pairs ─> query_moves ─> move_sums       what they come to tells noise from differences
                                └> shrunk_moves ─> impacts, of which the largest are read

A query's difference is its true one plus noise. Where queries come again, on other days, the noise
is what a query's days differ by. Elsewhere nothing repeats, and what moved the other way than most
is taken for noise: chance moves as much up as down. A difference is pulled towards 0, and so keeps
its sign: of a query nobody knows more than that it may not have moved. See `shrinkage`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from sqlmetrics.catalog.direction import SIGNS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.options import GAINED, LOST, Movers
from sqlmetrics.comparison.statements import chosen_if, columns_stage, join_stage, sums_stage
from sqlmetrics.comparison.sums.moments import Key, Moments
from sqlmetrics.comparison.sums.pairing import METRIC, Pairing
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, Window
from sqlmetrics.sql.template import double, literal
from sqlmetrics.sql.translation import Translation
from sqlmetrics.stats import TIED
from sqlmetrics.stats.estimate import Estimate
from sqlmetrics.stats.shrinkage import Shrinkage
from sqlmetrics.tables.tabular import Row

REPEATS = 10
"""So many rows beyond the first of a query tell what noise is; fewer do not."""

STEPS = 1e9
"""Impacts are ordered by steps of 1 / STEPS, so that the last digits of a sum decide no place."""

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Noise:
    """What is known of the differences of queries, for a system and metric.

    Attributes:
        shrinkage: The variance of true differences around 0.
        variance: That of the noise of one row of a query.
    """

    shrinkage: Shrinkage
    variance: float


def _condition(movers: Movers) -> str:
    """Of a row of `shrunk_moves`, whether it is one of those that are wanted."""
    if movers.side == LOST:
        return f"gain < -{double(TIED)}"
    return f"gain > {double(TIED)}" if movers.side == GAINED else f"abs(gain) > {double(TIED)}"


def sums_query(moves: Sequence[Stage], translation: Translation) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of one row per system and metric.

    Args:
        moves: As `moved_queries` has them, or what keeps the last of them.
        translation: Of the database that runs it.
    """
    return [*moves, _sums(translation)], "select *\nfrom move_sums"


def moved_queries(pairing: Pairing) -> Iterator[Stage]:
    """From `per_query` to one row per query, system and metric."""
    alone = replace(pairing, cluster=None, by=())
    weighted = alone.weight != "1e0"

    translation = pairing.plan.translation
    total = translation.total

    def mean(name: str) -> str:
        if not weighted:
            return translation.mean(name)
        return f"{total(f'{name} * weight')} / nullif({total('weight')}, 0e0)"

    mean_difference = translation.mean("difference")
    columns = [
        Column("count(*)", "n_rows"),
        Column(total(alone.weight), "traffic"),
        Column(mean("metric_value"), "mean_value"),
        Column(mean("baseline_value"), "mean_baseline"),
        Column(mean("difference"), "mean_difference"),
        Column(
            f"{total('difference * difference')}\n    - {total('difference')} * {mean_difference}",
            "day_squares",
        ),
    ]
    if "metric_date" in pairing.plan.shape.keys:
        columns.append(Column("max(metric_date)", "last_day"))
    yield from alone.stages()
    yield alone.metric_pairs()
    about = "one row per query, system and metric: the mean over its days"
    keys = ["system", *METRIC, "query_id"]
    yield sums_stage("query_moves", about, keys, columns, "metric_pairs")


_UP = "mean_difference > 0e0"
_SUMS = {
    "n_queries": "count(*)",
    "n_rows": "sum(n_rows)",
    "days2": "sum(day_squares)",
    "d2": "sum(mean_difference * mean_difference)",
    "row_d2": "sum(n_rows * mean_difference * mean_difference)",
    "up2": f"sum({chosen_if(_UP, 'mean_difference * mean_difference', '0e0')})",
    "n_moved": f"sum(case when abs(mean_difference) > {double(TIED)} then 1 else 0 end)",
}
"""What the noise is made of -> its sum over queries."""


def _sums(translation: Translation) -> Stage:
    columns = [Column(translation.exact(text), f"sum_{name}") for name, text in _SUMS.items()]
    about = "one row per system and metric: the variances of noise and of differences"
    return sums_stage("move_sums", about, ["system", *METRIC], columns, "query_moves")


def noise_of(row: Mapping[str, Any]) -> Noise:
    """What the sums of a system and metric say.

    The variance of true differences about 0 is the moment that is left: what the squares of the
    queries' differences sum to, less what noise sums to.

    Args:
        row: A row of `sums_query`.
    """
    sums = {name: float(row[f"sum_{name}"] or 0) for name in _SUMS}
    n, rows = sums["n_queries"], sums["n_rows"]
    if rows - n >= REPEATS:
        variance = max(0.0, sums["days2"]) / (rows - n)
    else:
        moved = sums["d2"] / sums["n_moved"] if sums["n_moved"] else 0.0
        variance = 2 * (min(sums["up2"], sums["d2"] - sums["up2"]) + moved) / n
    between = max(0.0, (sums["row_d2"] - n * variance) / rows)
    return Noise(Shrinkage(0.0, between), variance)


Noises = Mapping[Key, Noise]
"""System, metric and cutoff -> what is known."""


def noises(pairing: Pairing, moments: Mapping[Key, Moments], rows: Rows) -> dict[Key, Noise]:
    """What is known of each system and metric that both have a query of."""
    row_by_key = {(row["system"], row["metric"], int(row["k"])): row for row in rows}
    noise_by_key = {}
    for system in pairing.systems:
        for measure in pairing.measures:
            key = (system, measure.name, measure.k or 0)
            if key in row_by_key and (system, ALL, ALL, *key[1:]) in moments:
                noise_by_key[key] = noise_of(row_by_key[key])
    return noise_by_key


def movers_query(
    pairing: Pairing, moves: Sequence[Stage], noise_by_key: Noises, selection: Movers
) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of the queries that moved most.

    Args:
        pairing: What is compared.
        moves: As `moved_queries` has them, or what keeps the last of them.
        noise_by_key: What `noises` gives.
        selection: Which are wanted of each system and metric.
    """
    directions = {
        (measure.name, measure.k or 0): _direction(measure) for measure in pairing.measures
    }
    stages = [*moves, _constants(noise_by_key, directions), _shrunk(pairing)]
    stages.append(_impacts(pairing, selection))
    if len(noise_by_key) == 1:  # to sort all of them for their places takes long
        return (
            stages,
            f"select *\nfrom impacts\norder by {', '.join(_ORDER)}\nlimit {selection.count}",
        )
    over = Window(["system", *METRIC], list(_ORDER))
    columns = ["*", Column(f"row_number() over {over}", "place")]
    stages.append(columns_stage("placed_moves", "the largest impact first", columns, "impacts"))
    order = f"order by {', '.join(('system', *METRIC, 'place'))}"
    return stages, f"select *\nfrom placed_moves\nwhere place <= {selection.count}\n{order}"


def _direction(measure: Measure) -> int:
    """1 where higher is better, or neither is; -1 where lower is."""
    return SIGNS[measure.metric.better] or 1


def _constants(noise_by_key: Noises, directions: Mapping[tuple[str, int], int]) -> Stage:
    rows = [
        [
            Column(literal(system), "system"),
            Column(literal(metric), "metric"),
            Column(str(k), "k"),
            Column(double(noise.shrinkage.between), "between_queries"),
            Column(double(noise.variance), "noise"),
            Column(double(directions[metric, k]), "direction"),
        ]
        for (system, metric, k), noise in noise_by_key.items()
    ]
    about = "one row per system and metric: the share of a difference that is not noise"
    return Stage("shrinkage", "comparison/constants", {"about": about, "rows": rows})


def _read(pairing: Pairing) -> list[str]:
    """The columns of a query that are read."""
    days = ["last_day"] if "metric_date" in pairing.plan.shape.keys else []
    means = ("mean_value", "mean_baseline", "mean_difference")
    return ["system", *METRIC, "query_id", "n_rows", "traffic", *means, *days]


def _shrunk(pairing: Pairing) -> Stage:
    factor = (
        "case\n    when shrinkage.noise > 0e0\n"
        "        then shrinkage.between_queries\n"
        "            / (shrinkage.between_queries + shrinkage.noise / query_moves.n_rows)\n"
        "    else 1e0\nend"
    )
    columns: list[object] = [f"query_moves.{name}" for name in _read(pairing)]
    columns.append(Column(f"query_moves.mean_difference * {factor}", "shrunk_difference"))
    columns.append(Column("query_moves.mean_difference * shrinkage.direction", "gain"))
    about = "the difference of a query, shrunk towards 0 by its noise"
    on = ("system", *METRIC)
    return join_stage("shrunk_moves", about, columns, "query_moves", to="shrinkage", on=on)


_ORDER = ("impact desc", "size desc", "traffic desc", "is_gain asc", "query_id asc")
"""Queries that moved as far: those with more traffic first, then those that lost."""


def _impacts(pairing: Pairing, selection: Movers) -> Stage:
    steps = double(STEPS)
    columns = [
        *_read(pairing),
        "shrunk_difference",
        Column(f"floor(abs(shrunk_difference * traffic) * {steps} + 0.5e0)", "impact"),
        Column(f"floor(abs(mean_difference * traffic) * {steps} + 0.5e0)", "size"),
        Column("case when gain > 0e0 then 1 else 0 end", "is_gain"),
    ]
    about = f"the queries that moved; their impact is rounded to {1 / STEPS:g}"
    return columns_stage("impacts", about, columns, "shrunk_moves", _condition(selection))


def movers(
    pairing: Pairing,
    moments: Mapping[Key, Moments],
    noise_by_key: Noises,
    rows: Rows,
    confidence: float,
) -> list[Row]:
    """A row per system, metric and query that moved most, those that lost first.

    Args:
        pairing: What is compared.
        moments: The moments of each key.
        noise_by_key: What `noises` gives.
        rows: The rows of `movers_query`.
        confidence: With this probability chance alone moves a query less far than one that is no
            noise.
    """
    mover_rows = []
    for system in pairing.systems:
        for measure in pairing.measures:
            key = (system, measure.name, measure.k or 0)
            keys = {"metric": str(measure), "system": system, "baseline": pairing.baseline}
            moved = [r for r in rows if (r["system"], r["metric"], int(r["k"])) == key]
            for row in sorted(moved, key=lambda row: int(row["is_gain"])):
                overall = moments[system, ALL, ALL, *key[1:]]
                mover_rows.append(keys | _moved(row, noise_by_key[key], overall, confidence))
    return mover_rows


def _moved(row: Mapping[str, Any], noise: Noise, overall: Moments, confidence: float) -> Row:
    """What a query's row says; it could be noise if chance alone moves a query as far."""
    difference, n = float(row["mean_difference"]), int(row["n_rows"])
    shrunk = noise.shrinkage.shrunk(difference, noise.variance / n)
    error = sqrt(noise.variance / n) if overall.df else None
    half_width = Estimate(difference, error, overall.df).half_width(confidence)
    return {
        "moved": GAINED if int(row["is_gain"]) else LOST,
        "query_id": row["query_id"],
        "metric_date": row.get("last_day"),
        "n": n,
        "traffic": float(row["traffic"]),
        "value": float(row["mean_value"]),
        "baseline_value": float(row["mean_baseline"]),
        "difference": difference,
        "shrunk_difference": shrunk,
        "could_be_noise": half_width is None or abs(difference) <= half_width,
    }
