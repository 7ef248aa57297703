"""Every query of a system beside the same query of the baseline, as stages of SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.comparison.periods import DAY, Period, Stored, in_any, name_of_day
from sqlmetrics.comparison.statements import chosen_if, columns_stage, sums_stage
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.segments import UNKNOWN, Segment
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.summary import ALL
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import LINE, double, literal
from sqlmetrics.stats import TIED

METRIC = ("metric", "k")
SEGMENT = ("segment_name", "segment_value")

_AVERAGED = ("weight",)
"""What a query has of its days: the mean of its weights; of a segment, the first by name."""


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
        periods: Where two periods of one system are compared: the systems are their names.
        of_system: That system; empty where the rankings are of one alone.
        stored: The baseline's values, where an earlier run has kept them.
        kept: The table that keeps the pairs of these and maybe other systems; empty for none.
    """

    rows: ClassVar[str] = "pairs"
    """The stage of what is compared."""

    plan: Plan
    measures: tuple[Measure, ...]
    systems: tuple[str, ...]
    baseline: str
    by: tuple[str, ...] = ()
    cluster: str | None = None
    periods: tuple[Period, ...] = ()
    of_system: str = ""
    stored: Stored | None = None
    kept: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """What the same query is known by on both sides."""
        keys = self.plan.shape.query_keys
        return tuple(key for key in keys if key != DAY) if self._is_of_other_days else keys

    @property
    def _is_of_other_days(self) -> bool:
        return bool(self.periods or (self.stored and not self.stored.by_day))

    @property
    def unit(self) -> tuple[str, ...]:
        """The columns of what is independent of all others: a query, or a cluster of them."""
        return ("cluster",) if self.cluster else self.keys

    @property
    def segments(self) -> list[Segment]:
        """Name, value and column of every segment; `all` has no column."""
        segments = [(name, segment(name), [segment(name)]) for name in self.by]
        return [(ALL, literal(ALL), []), *segments]

    @property
    def clusters_have_segments(self) -> bool:
        """Whether all rows of a cluster are of one segment: a query, by facts of the queries."""
        shape = self.plan.shape
        is_of_query = self.cluster == "query_id" and shape.keys_of_queries == ("query_id",)
        return is_of_query and {*map(segment, self.by)} <= {*shape.facts_of_queries}

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

    def value_of(self, measure: Measure) -> str:
        """What is compared of a query."""
        return f"{measure.column}_difference"

    @property
    def is_averaged(self) -> bool:
        """Whether a query has several days on a side, whose mean stands beside that of others."""
        if self.periods:
            return not all(period.is_a_day for period in self.periods)
        return self._is_of_other_days and (
            DAY in self.plan.shape.query_keys or bool(self.stored and self.stored.has_days)
        )

    def query_values(self) -> Iterator[Stage]:
        """To one row per query and system; of periods, the means of a query's days."""
        about = "one row per query and system: its values, NULL if the mean leaves the query out"
        name = "period_values" if self.is_averaged else "query_values"
        stage_name, where = (
            "own_values" if self.stored else name,
            "\n    and ".join(self.conditions),
        )
        yield columns_stage(stage_name, about, list(self.columns()), "per_query", where)
        if self.stored:
            yield from self._with_stored(self.stored, name)
        if not self.is_averaged:
            return
        keys = [*dict.fromkeys([*self.keys, "system", *self._clusters])]
        facts = [name for name in self.carried if name not in keys]
        mean = self.plan.translation.mean
        columns = [
            Column(mean(name) if name in _AVERAGED else f"min({name})", name) for name in facts
        ]
        columns += [Column(mean(measure.column), measure.column) for measure in self.measures]
        about = "one row per query and period: the means of its days"
        yield sums_stage("query_values", about, keys, columns, "period_values")

    def _with_stored(self, stored: Stored, name: str) -> Iterator[Stage]:
        """The rows that were evaluated, and those that an earlier run has kept."""
        keys = [*dict.fromkeys([*self.keys, "system"])]
        facts = [
            fact for fact in dict.fromkeys([*self.carried, *self._clusters]) if fact not in keys
        ]
        yield stored.stage(keys, self.measures, facts)
        columns = [*keys, *facts, *(measure.column for measure in self.measures)]
        about = "the values of this run, and of the earlier one"
        view = {"about": about, "columns": columns, "sources": ["own_values", "stored_values"]}
        yield Stage(name, "comparison/union", view)

    @property
    def _clusters(self) -> tuple[str, ...]:
        return ("cluster",) if self.cluster else ()

    def columns(self) -> Iterator[object]:
        """What a query and system has, of `per_query`."""
        for key in dict.fromkeys([*self.keys, "system", *self.carried]):
            if key == "system" and self.periods:
                yield Column(name_of_day(self.periods), "system")
            elif key == "system" and "system" not in self.plan.shape.keys:
                yield Column(literal(self.plan.spec.title), "system")
            elif key != "cluster":
                yield key
        yield from self._cluster()
        for measure in self.measures:
            flags = self.plan.needs.population(self.plan.spec.settings(measure).measure)
            only = " and ".join(f"{flag} = 1" for flag in flags)
            value = chosen_if(only, measure.column) if only else measure.column
            yield Column(value, measure.column)

    def _cluster(self) -> Iterator[Column]:
        """What is drawn together, as a text; a query without it is drawn alone."""
        if self.cluster == "query_id":
            yield Column("cast(query_id as varchar)", "cluster")
        elif self.cluster:
            cluster_text = f"cast({segment(self.cluster)} as varchar)"
            is_alone = f"{cluster_text} = {literal(UNKNOWN)}"
            alone = "concat('query ', cast(query_id as varchar))"
            yield Column(chosen_if(is_alone, alone, cluster_text), "cluster")

    @property
    def conditions(self) -> list[str]:
        """Which rows of `per_query` are compared."""
        if self.periods:
            system_conditions = [f"system = {literal(self.of_system)}"] if self.of_system else []
            return [in_any(self.periods), *system_conditions]
        if "system" not in self.plan.shape.keys:
            return []
        systems = self.systems if self.stored else (self.baseline, *self.systems)
        return [f"system in ({', '.join(map(literal, systems))})"]

    def stages(self) -> Iterator[Stage]:
        """From `per_query` to `pairs`."""
        if self.kept:
            columns: list[object] = ["*"]
            columns += [*(self._cluster() if self._has_query_clusters else ())]
            columns += [
                _difference(measure.column, f"{measure.column}_baseline", measure)
                for measure in self.measures
            ]
            where = f"system in ({', '.join(map(literal, self.systems))})"
            yield columns_stage("pairs", "the pairs that count", columns, self.kept, where)
        else:
            yield from self._pairs(self.carried)

    @property
    def _has_query_clusters(self) -> bool:
        return self.cluster == "query_id"

    def to_keep(self) -> list[Stage]:
        """Likewise, with what any query over pairs reads, but for what follows from the rest."""
        carried = dict.fromkeys([*self.carried, *self.keys])
        if self._has_query_clusters:
            carried.pop("cluster")
        return [*self._pairs(tuple(carried), with_differences=False)]

    def _pairs(self, carried: Sequence[str], *, with_differences: bool = True) -> Iterator[Stage]:
        yield from self.query_values()
        columns: list[object] = [f"challenger.{name}" for name in carried]
        for measure in self.measures:
            value, baseline_value = f"challenger.{measure.column}", f"baseline.{measure.column}"
            columns.append(value)
            columns.append(Column(baseline_value, f"{measure.column}_baseline"))
            if with_differences:
                columns.append(_difference(value, baseline_value, measure))
        view = {
            "columns": columns,
            "same_query": equal("baseline", "challenger", self.keys),
            "baseline": literal(self.baseline),
        }
        yield Stage("pairs", "comparison/pairs", view)

    def metric_pairs(self) -> Stage:
        """One row per query, system and metric that both have a value of."""
        metrics = [
            {
                "columns": [
                    Column(literal(measure.name), "metric"),
                    Column(str(measure.k or 0), "k"),
                    Column(measure.column, "metric_value"),
                    Column(f"{measure.column}_baseline", "baseline_value"),
                    Column(f"{measure.column}_difference", "difference"),
                ],
                "where": f"{measure.column}_difference is not null",
            }
            for measure in self.measures
        ]
        about = "one row per query, system and metric with a value in both systems"
        view = {"about": about, "shared": self.carried, "metrics": metrics, "from": "pairs"}
        return Stage("metric_pairs", "comparison/metric_rows", view)

    def counts(self) -> Stage:
        """One row per system: how many queries have a value of each metric."""
        columns = [Column("count(*)", "n_rows")]
        columns += [Column(f"count({measure.column})", measure.column) for measure in self.measures]
        about = "one row per system: the number of its queries with a value"
        return sums_stage("counts", about, ["system"], columns, "query_values")


def _difference(value: str, baseline_value: str, measure: Measure) -> Column:
    """The difference of two columns, on two lines where it is long."""
    between = " " if len(value + baseline_value) < LINE // 2 else "\n    "
    return Column(f"{value}{between}- {baseline_value}", f"{measure.column}_difference")


def is_above(expression: str) -> str:
    """1 where a difference is a difference upwards, else 0."""
    return f"case when {expression} > {double(TIED)} then 1 else 0 end"
