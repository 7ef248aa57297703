"""Every query of a system beside the same query of the baseline, as stages of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.stages import chosen_if, columns_stage, sums_stage
from sqlmetrics.plan.global_metrics import Segment
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import LINE, double, literal

TIED = 1e-9
"""Values of a query that are no farther apart are a tie: the last digits differ by engine."""

METRIC = ("metric", "k")
SEGMENT = ("segment_name", "segment_value")


@dataclass(frozen=True)
class Pairing:
    """What is compared, and by which columns.

    Attributes:
        plan: The plan of the evaluation.
        measures: The metrics; each has a value for a query.
        systems: The systems that are compared with the baseline.
        baseline: That system.
        by: The segments.
        cluster: The column of what is drawn together: `query_id`, or a fact of queries. None
            where each row is a query of its own.
    """

    plan: Plan
    measures: tuple[Measure, ...]
    systems: tuple[str, ...]
    baseline: str
    by: tuple[str, ...] = ()
    cluster: str | None = None

    @property
    def unit(self) -> tuple[str, ...]:
        """The columns of what is independent of all others: a query, or a cluster of them."""
        return ("cluster",) if self.cluster else self.plan.shape.query_keys

    @property
    def segments(self) -> list[Segment]:
        """Name, value and column of every segment; `all` has no column."""
        own = [(name, segment(name), [segment(name)]) for name in self.by]
        return [(ALL, literal(ALL), []), *own]

    @property
    def carried(self) -> tuple[str, ...]:
        """What a pair has beside its values."""
        facts = [*map(segment, self.by), *(["weight"] if self._weighted else [])]
        return (*dict.fromkeys([*self.unit, "system", *facts]),)

    @property
    def _weighted(self) -> bool:
        return "weight" in self.plan.shape.facts

    @property
    def weight(self) -> str:
        """How much a query counts."""
        return "weight" if self._weighted else "1e0"

    def query_values(self) -> Stage:
        """One row per query and system."""
        keys = dict.fromkeys([*self.plan.shape.query_keys, "system", *self.carried])
        columns: list[object] = [key for key in keys if key != "cluster"]
        if self.cluster:
            named = self.cluster if self.cluster == "query_id" else segment(self.cluster)
            columns.append(Column(f"cast({named} as varchar)", "cluster"))
        for measure in self.measures:
            flags = self.plan.needs.population(self.plan.spec.settings(measure).measure)
            only = " and ".join(f"{flag} = 1" for flag in flags)
            own = chosen_if(only, measure.column) if only else measure.column
            columns.append(Column(own, measure.column))
        named = ", ".join(map(literal, (self.baseline, *self.systems)))
        about = "one row per query and system: its values, NULL where a mean leaves it out"
        return columns_stage("query_values", about, columns, "per_query", f"system in ({named})")

    def stages(self) -> Iterator[Stage]:
        """From `per_query` to `pairs`."""
        yield self.query_values()
        columns: list[object] = [f"challenger.{name}" for name in self.carried]
        for one in self.measures:
            mine, other = f"challenger.{one.column}", f"baseline.{one.column}"
            columns.append(mine)
            columns.append(Column(other, f"{one.column}_baseline"))
            between = " " if len(mine + other) < LINE // 2 else "\n    "
            columns.append(Column(f"{mine}{between}- {other}", f"{one.column}_difference"))
        view = {
            "columns": columns,
            "same_query": equal("baseline", "challenger", self.plan.shape.query_keys),
            "baseline": literal(self.baseline),
        }
        yield Stage("pairs", "comparison/pairs", view)

    def metric_pairs(self) -> Stage:
        """One row per query, system and metric that both have a value of."""
        metrics = [
            {
                "columns": [
                    Column(literal(one.name), "metric"),
                    Column(str(one.k or 0), "k"),
                    Column(one.column, "metric_value"),
                    Column(f"{one.column}_baseline", "baseline_value"),
                    Column(f"{one.column}_difference", "difference"),
                ],
                "difference": f"{one.column}_difference",
            }
            for one in self.measures
        ]
        view = {"shared": self.carried, "metrics": metrics}
        return Stage("metric_pairs", "comparison/metric_pairs", view)

    def counts(self) -> Stage:
        """One row per system: how many queries have a value of each metric."""
        columns = [Column("count(*)", "n_rows")]
        columns += [Column(f"count({one.column})", one.column) for one in self.measures]
        about = "one row per system: how many of its queries have a value"
        return sums_stage("counts", about, ["system"], columns, "query_values")


def is_above(expression: str) -> str:
    """1 where a difference is a difference upwards, else 0."""
    return f"case when {expression} > {double(TIED)} then 1 else 0 end"
