"""Systems that need not have run on the same queries: sums of each, as stages of SQL.

A cluster has its sums under each system. Where it is on both sides, like a query of two days or a
user who was shown both, products of the two sums tell how much they go together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, ClassVar

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.covariate import Covariate
from sqlmetrics.comparison.moments import KEYS
from sqlmetrics.comparison.pairing import METRIC, SEGMENT, Pairing
from sqlmetrics.comparison.stages import chosen_if, join_stage, segments_stage, sums_stage
from sqlmetrics.comparison.welch import SIDES, Group, SampleMoments
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import literal


@dataclass(frozen=True)
class Samples(Pairing):
    """What is compared where each system has queries of its own.

    Attributes:
        covariate: What is known of a query, or of its cluster, from before; None if nothing is.
    """

    rows: ClassVar[str] = "query_values"

    covariate: Covariate | None = None

    def value_of(self, measure: Measure) -> str:
        """What is compared of a query."""
        return measure.column

    @property
    def conditions(self) -> list[str]:
        """Which rows of `per_query` are compared."""
        before = [self.covariate.before.outside] if self.covariate and self.covariate.before else []
        lists = [] if self.periods or self.stored else self.of_lists
        return [*super().conditions, *before, *lists]

    @property
    def of_lists(self) -> list[str]:
        """The condition of queries that a system was asked: none is missing of the others."""
        return [] if self.plan.shape.of_one_system else ["is_ranked = 1"]

    @property
    def carried(self) -> tuple[str, ...]:
        """What a query has beside its values."""
        column = self.covariate.column if self.covariate else ""
        return (*dict.fromkeys([*super().carried, *([column] if column else [])]),)

    @property
    def is_averaged(self) -> bool:
        """Each day of a query counts for itself, and all are one cluster."""
        return False

    def stages(self) -> Iterator[Stage]:
        """From `per_query` to `query_values`."""
        yield from self.query_values()

    def metric_values(self) -> Iterator[Stage]:
        """To one row per query, system and metric that it has a value of."""
        covariate, source = self.covariate, self.rows
        if covariate and not covariate.column:
            yield from covariate.stages(self)
            source = "covered_values"
        metrics = [
            {
                "columns": [
                    Column(literal(one.name), "metric"),
                    Column(str(one.k or 0), "k"),
                    Column(one.column, "metric_value"),
                    *([covariate.of(one)] if covariate else []),
                ],
                "where": f"{one.column} is not null",
            }
            for one in self.measures
        ]
        column = covariate.column if covariate else ""
        shared = [name for name in self.carried if name != column]
        about = "one row per query, system and metric that it has a value of"
        view = {"about": about, "shared": shared, "metrics": metrics, "from": source}
        yield Stage("metric_values", "comparison/metric_rows", view)

    @property
    def summed(self) -> tuple[str, ...]:
        """What a cluster has the sums of."""
        return ("weight", "y", "c") if self.covariate else ("weight", "y")


def samples_query(samples: Samples) -> tuple[list[Stage], str]:
    """The stages behind `per_query`, and the select of their sums.

    It has up to three rows per system, segment and metric: of the clusters that both sides have,
    and of those that one has.
    """
    return [*samples.stages(), *_stages(samples)], "select *\nfrom moments"


def _stages(samples: Samples) -> Iterator[Stage]:
    yield from samples.metric_values()
    yield from _centres(samples)
    yield _summed_values(samples)
    keys = ["system", *samples.unit], [*METRIC, "centre"]
    counted = ("n_queries", *samples.summed, *(["n_covered"] if samples.covariate else []))
    sums = [Column(f"sum({name})", name) for name in counted]
    about = "one row per cluster, system, segment and metric"
    parts = samples.segments
    yield segments_stage("cluster_sums", about, keys, sums, "summed_values", segments=parts)
    yield _sides(samples, counted)
    yield _both_sides(samples, counted)
    yield _moments(samples, counted)


def _centres(samples: Samples) -> Iterator[Stage]:
    about = "squares are summed about numbers near the means, so that no digits are lost"
    columns, keys = [Column("avg(metric_value)", "centre")], ("system", *METRIC)
    if not samples.covariate:
        yield sums_stage("centres", about, keys, columns, "metric_values")
        return
    yield sums_stage("value_centres", about, keys, columns, "metric_values")
    about = "the mean covariate of all systems, which a query without one is taken to have"
    columns = [Column("avg(covariate)", "covariate_centre")]
    yield sums_stage("covariate_centres", about, METRIC, columns, "metric_values")
    both = [f"value_centres.{name}" for name in (*keys, "centre")]
    both.append("covariate_centres.covariate_centre")
    about = "both of them"
    to = "covariate_centres"
    yield join_stage("centres", about, both, "value_centres", to=to, on=METRIC)


def _summed_values(samples: Samples) -> Stage:
    one, weight = "metric_values.", samples.weight
    weighted = "" if weight == "1e0" else f" * {one}weight"
    carried = [name for name in samples.carried if name != "weight"]
    if samples.covariate and samples.covariate.column:
        carried = [name for name in carried if name != samples.covariate.column]
    columns: list[object] = [
        *(f"{one}{name}" for name in (*carried, *METRIC)),
        "centres.centre",
        Column("1", "n_queries"),
        Column(f"{one}weight" if weighted else weight, "weight"),
        Column(f"({one}metric_value - centres.centre){weighted}", "y"),
    ]
    if samples.covariate:
        off = f"coalesce({one}covariate - centres.covariate_centre, 0e0)"
        columns.append(Column(f"{off}{weighted}", "c"))
        columns.append(Column(chosen_if(f"{one}covariate is null", "0", "1"), "n_covered"))
    about = "one row per query, system and metric: what is summed"
    on = ("system", *METRIC)
    return join_stage("summed_values", about, columns, "metric_values", to="centres", on=on)


def _sides(samples: Samples, counted: tuple[str, ...]) -> Stage:
    view = {
        "keys": [*SEGMENT, *METRIC, *samples.unit],
        "sums": ("centre", *counted),
        "nothing": {name: "0" if name.startswith("n_") else "0e0" for name in counted}
        | {"centre": "cast(null as double)"},
        "baseline": literal(samples.baseline),
        "systems": samples.systems,
    }
    return Stage("sides", "comparison/sides", view)


def _both_sides(samples: Samples, counted: tuple[str, ...]) -> Stage:
    keys = [*KEYS, *samples.unit]
    columns = [Column(f"sum({s}_{name})", f"{s}_{name}") for s in SIDES for name in counted]
    columns += [Column(f"max({s}_centre)", f"{s}_centre") for s in SIDES]
    only = "\n".join(
        [
            "case",
            "    when sum(baseline_n_queries) = 0 then 'system'",
            "    when sum(system_n_queries) = 0 then 'baseline'",
            "    else 'both'",
            "end",
        ]
    )
    columns.append(Column(only, "found_in"))
    about = "one row per cluster, system, segment and metric: its sums on both sides"
    return sums_stage("both_sides", about, keys, columns, "sides")


def _moments(samples: Samples, counted: tuple[str, ...]) -> Stage:
    columns = [Column("count(*)", "n_clusters")]
    columns += [Column(f"max({s}_centre)", f"{s}_centre") for s in SIDES]
    whole = [name for name in counted if name.startswith("n_")]
    columns += [Column(f"sum({s}_{name})", f"{s}_{name}") for s in SIDES for name in whole]
    names = variables(samples)
    columns += [Column(f"sum({name})", f"sum_{name}") for name in names]
    columns += [
        Column(f"sum({one} * {other})", f"sum_{one}_{other}")
        for one, other in combinations_with_replacement(names, 2)
    ]
    about = "one row per system, segment, metric and where clusters are: sums and products"
    return sums_stage("moments", about, [*KEYS, "found_in"], columns, "both_sides")


def variables(samples: Samples) -> list[str]:
    """What a cluster has: the sums of both sides."""
    return [f"{side}_{name}" for side in SIDES for name in samples.summed]


def read(samples: Samples, rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], SampleMoments]:
    """System, segment, its value, metric and cutoff -> what its rows come to."""
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        key = (*(row[name] for name in KEYS[:-1]), int(row["k"]))
        found.setdefault(key, []).append(row)
    names = variables(samples)
    made = {key: _moments_of(names, several) for key, several in found.items()}
    return {key: one for key, one in made.items() if one.n and one.n_baseline}


def _moments_of(names: list[str], rows: list[Mapping[str, Any]]) -> SampleMoments:
    groups = {
        str(row["found_in"]): Group(
            int(row["n_clusters"]),
            {name: float(row[f"sum_{name}"]) for name in names},
            {
                (one, other): float(row[f"sum_{one}_{other}"])
                for one, other in combinations_with_replacement(names, 2)
            },
        )
        for row in rows
    }

    def total(name: str) -> int:
        return sum(int(row.get(name) or 0) for row in rows)

    def centre(side: str) -> float:
        found = (row[f"{side}_centre"] for row in rows)
        return next((float(one) for one in found if one is not None), 0.0)

    return SampleMoments(
        n=total("system_n_queries"),
        n_other=total("baseline_n_queries"),
        n_covered=total("system_n_covered") + total("baseline_n_covered"),
        centres={side: centre(side) for side in SIDES},
        groups=groups,
        is_adjusted="system_c" in names,
    )
