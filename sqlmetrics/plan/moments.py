"""What intervals are made of: sums, and sums of squares and of products, in the summary.

A query adds x to the numerator of a metric and w to its denominator: its weighted value and its
weight, or the parts of a ratio. Beside a baseline, y is the baseline's weighted value of the same
query and d the difference. Where `cluster` is given, x, w, y and d are those of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.plan.needs import MetricColumn, Needs
from sqlmetrics.plan.segments import SEGMENT, Segment
from sqlmetrics.plan.shape import Shape, segment
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import literal

MOMENTS: Mapping[str, str] = {
    "n_clusters": "n_queries",
    "sum_x": "numerator",
    "sum_x2": "sum_sq",
    "sum_w2": "denominator",
    "sum_xw": "numerator",
}
"""Column -> what it is where each query counts alike, by itself."""

PAIRED = (
    *("n_pairs", "pair_clusters", "pair_w", "pair_w2"),
    *("sum_y", "sum_y2", "sum_xy", "sum_d", "sum_d2", "sum_dw"),
)
"""Columns beside a baseline, over the queries that both have a value of."""

COUNTS = ("n_clusters", "n_pairs", "pair_clusters")


@dataclass(frozen=True)
class Moments:
    """The stages between `per_query` and `totals`.

    Attributes:
        shape: What the tables hold.
        needs: What the metrics need.
    """

    shape: Shape
    needs: Needs

    @property
    def is_paired(self) -> bool:
        """Whether queries stand beside those of a baseline."""
        shape = self.shape
        has_systems = "system" in shape.keys and not shape.of_one_system
        return shape.spec.baseline is not None and has_systems

    @property
    def cluster(self) -> str:
        """The column of clusters; empty without."""
        return segment(self.shape.spec.cluster) if self.shape.spec.cluster else ""

    @property
    def has_terms(self) -> bool:
        """Whether a query adds anything else to the sums than its value, and 1."""
        of_parts = any(final.denominator for final in self.needs.finals)
        return bool(of_parts or self.is_paired or self.cluster or "weight" in self.shape.facts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a summary has for them."""
        return (*MOMENTS, *(PAIRED if self.is_paired else ()))

    def paired(self) -> Stage:
        """Every query of a system, with the baseline's values of it."""
        columns: list[object] = ["queries.*"]
        columns += [self._of_baseline(final) for final in self.needs.finals if is_mean(final)]
        challenger_conditions = [f"queries.system <> {literal(str(self.shape.spec.baseline))}"]
        same = equal("baseline", "queries", self.shape.query_keys)
        baseline_conditions = [f"baseline.system = {literal(str(self.shape.spec.baseline))}"]
        view = {"columns": columns, "on": [*same, *baseline_conditions, *challenger_conditions]}
        return Stage("paired_queries", "paired_queries", view)

    def _of_baseline(self, final: MetricColumn) -> Column:
        measure = final.measure
        flags = [f"baseline.{flag} = 1" for flag in self.needs.population(measure)]
        value = f"baseline.{measure.column}"
        counted = f"case when {' and '.join(flags)} then {value} end" if flags else value
        return Column(counted, f"{measure.column}_of_baseline")

    def value_column(self, final: MetricColumn) -> Iterator[Column]:
        """What `metric_values` has of the baseline."""
        if self.is_paired:
            baseline_column = f"{final.measure.column}_of_baseline"
            yield Column(
                baseline_column if is_mean(final) else "cast(null as double)", "baseline_value"
            )

    def terms(self, carried_columns: Sequence[str], parts: tuple[str, str]) -> Stage:
        """What each query adds.

        Args:
            carried_columns: The columns of `metric_values` that are summed otherwise.
            parts: What is added to the numerator and to the denominator, before weights.
        """
        weight = " * weight" if "weight" in self.shape.facts else ""

        def term(condition: str, part: str) -> str:
            text = f"{part}{weight}".removeprefix("1e0 * ")
            return f"case when {condition} then {text} else 0e0 end"

        value_condition = f"{parts[0]} is not null"
        columns = [
            *(*self.shape.groups, *self.shape.facts, "metric", "k", *carried_columns),
            Column(term(value_condition, parts[0]), "x"),
            Column(term(value_condition, parts[1]), "w"),
        ]
        if self.is_paired:
            pair_condition = "metric_value is not null and baseline_value is not null"
            columns += [
                Column(f"case when {pair_condition} then 1 else 0 end", "n_pairs"),
                Column(term(pair_condition, "1e0"), "pair_w"),
                Column(term(pair_condition, "baseline_value"), "y"),
                Column(term(pair_condition, "(metric_value - baseline_value)"), "d"),
            ]
        about = "the part of each query in the sums: x in the numerator, w in the denominator"
        if self.is_paired:
            about += ",\n-- y and d are the baseline's value and the difference"
        view = {"about": about, "columns": columns, "from": "metric_values", "where": ""}
        return Stage("terms", "columns", view)

    def cluster_sums(self, sums: Mapping[str, str], segments: Sequence[Segment]) -> Stage:
        """One row per cluster and segment.

        Args:
            sums: What else is summed over its queries.
            segments: The segments of the summary.
        """
        total = self.shape.translation.total
        sums = {**sums, "x": total("x"), "w": total("w")}
        if self.is_paired:
            sums["n_pairs"] = "sum(n_pairs)"
            sums |= {name: total(name) for name in ("pair_w", "y", "d")}
        view = {
            "about": f"one row per {self.shape.spec.cluster}, a cluster of queries",
            "groups": [*self.shape.groups, self.cluster],
            "keys": ["metric", "k"],
            "sums": [Column(sql, name) for name, sql in sums.items()],
            "from": "terms",
            "segments": segments,
        }
        return Stage("cluster_sums", "segments", view)

    def totals(self) -> dict[str, str]:
        """What `totals` sums over terms, or clusters."""
        counted = "case when {} > 0 then 1 else 0 end" if self.cluster else ""
        total = self.shape.translation.total
        sum_by_name = {"numerator": total("x"), "denominator": total("w")}
        if counted:
            sum_by_name["n_clusters"] = f"sum({counted.format('n_queries')})"
        sum_by_name |= {name: total(f"{a} * {b}") for name, (a, b) in _SQUARES.items()}
        if self.is_paired:
            pairs = counted.format("n_pairs") or "n_pairs"
            sum_by_name |= {"n_pairs": "sum(n_pairs)", "pair_clusters": f"sum({pairs})"}
            texts = {"pair_w": "pair_w", "sum_y": "y", "sum_xy": "(y + d) * y", "sum_d": "d"}
            texts |= {name: f"{a} * {b}" for name, (a, b) in _PAIRED_SQUARES.items()}
            sum_by_name |= {name: total(text) for name, text in texts.items()}
        return sum_by_name

    def totals_of_clusters(self, sums: Mapping[str, str]) -> Stage:
        """One row per system, segment and metric, over clusters."""
        total = self.shape.translation.total
        totals = {
            name: total(name) if name in _FLOATS else f"{_ROLLED_UP.get(name, 'sum')}({name})"
            for name in sums
        }
        totals |= self.totals()
        view = {
            "about": "one row per system, segment and metric: the sums behind its mean",
            "keys": [*self.shape.groups, *SEGMENT, "metric", "k"],
            "columns": [Column(sql, name) for name, sql in totals.items()],
            "from": "cluster_sums",
        }
        return Stage("totals", "sums", view | {"joins": {}, "where": ""})

    def source(self, name: str) -> str:
        """The column of `totals` that a column of the summary is."""
        has_own = self.cluster if name == "n_clusters" else self.has_terms and name != "sum_x"
        return name if has_own or name in PAIRED else MOMENTS[name]


_FLOATS, _ROLLED_UP = ("sum_sq", "sum_log", "total"), {"is_pooled": "max"}
_SQUARES = {"sum_x2": ("x", "x"), "sum_w2": ("w", "w"), "sum_xw": ("x", "w")}
_PAIRED_SQUARES = {
    "pair_w2": ("pair_w", "pair_w"),
    "sum_y2": ("y", "y"),
    "sum_d2": ("d", "d"),
    "sum_dw": ("d", "pair_w"),
}


def is_mean(final: MetricColumn) -> bool:
    """Whether a metric is a mean of values of queries."""
    measure: Measure = final.measure
    return measure.adds_up and not (final.denominator or measure.metric.count)
