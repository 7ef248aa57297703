"""From one row per query to the summary: means, counts and segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from sqlmetrics.plan.global_metrics import QUANTILE, pooled_stages
from sqlmetrics.plan.moments import COUNTS, Moments
from sqlmetrics.plan.needs import MetricColumn, Needs
from sqlmetrics.plan.segments import Segment
from sqlmetrics.plan.shape import Shape, segment
from sqlmetrics.sql.layout import folded
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import double, literal

NO_DATE = "1970-01-01"
_LOG = "ln(case when {0} <= 1e-5 then 1e-5 else {0} end)"
"""What a value adds to a geometric mean, where it is one."""
ALL = "all"


@dataclass(frozen=True)
class Summary:
    """The stages from `per_query` to the summary.

    Attributes:
        shape: What the tables hold.
        needs: What the metrics need.
        moments: What intervals are made of; None where nobody asks for them.
    """

    shape: Shape
    needs: Needs
    moments: Moments | None = None

    def stages(self) -> Iterator[Stage]:
        """One row per query and metric, then their totals, then the summary."""
        if self.moments and self.moments.is_paired:
            yield self.moments.paired()
        yield self._values_stage()
        yield from self._totals_stages()
        yield from pooled_stages(self.shape, self.needs, self._segments)
        yield self._summary_stage()

    def per_query_output(self) -> Iterator[Column]:
        """The columns of the per-query table."""
        date, system = self._named_keys()
        if "metric_date" in self.shape.keys:
            yield date
        yield system
        yield Column("query_id", "query_id")
        for measure in self.shape.spec.measures:
            if not measure.metric.pooled:
                yield Column(measure.column, measure.column)

    @cached_property
    def _micro(self) -> bool:
        return any(final.denominator for final in self.needs.finals)

    @cached_property
    def _has_pooled(self) -> bool:
        """Whether some metric is a number of all queries together, which does not add up."""
        return not all(measure.adds_up for measure in self.shape.spec.measures)

    @cached_property
    def _has_pooled_stage(self) -> bool:
        """Whether some such number is computed beside the sums."""
        return bool(self.needs.pooled or self.needs.quantiles)

    @cached_property
    def _geometric(self) -> bool:
        """Whether some such number is a geometric mean, made of a sum of logarithms."""
        return any(measure.is_geometric for measure in self.shape.spec.measures)

    @cached_property
    def _counts(self) -> bool:
        return any(measure.metric.count for measure in self.shape.spec.measures)

    def _values_stage(self) -> Stage:
        shared = [*self.shape.groups, *self.shape.facts, Column("1 - is_ranked", "is_missing")]
        metrics = [
            {
                "columns": list(self._value_columns(final)),
                "population": " and ".join(
                    f"{flag} = 1" for flag in self.needs.population(final.measure)
                ),
            }
            for final in self.needs.finals
        ]
        is_paired = self.moments and self.moments.is_paired
        source = "paired_queries" if is_paired else "per_query"
        view = {"shared": shared, "metrics": metrics, "from": source}
        return Stage("metric_values", "metric_values", view)

    def _value_columns(self, final: MetricColumn) -> Iterator[Column]:
        measure = final.measure
        yield Column(literal(measure.name), "metric")
        yield Column(str(measure.k or 0), "k")
        yield Column(measure.column, "metric_value")
        if self._micro:
            ratio = bool(final.denominator)
            yield Column(f"{measure.column}_numerator" if ratio else measure.column, "numerator")
            yield Column(f"{measure.column}_denominator" if ratio else "1e0", "denominator")
        if self.moments:
            yield from self.moments.value_column(final)
        if self._counts:
            yield Column("1" if measure.metric.count else "0", "is_count")
        if self._has_pooled:
            yield Column("0" if measure.adds_up else "1", "is_pooled")
        if self._geometric:
            log = folded(_LOG.format(measure.column))
            yield Column(log if measure.is_geometric else "cast(null as double)", "metric_log")
        if self.needs.quantiles:
            quantile = measure.quantile
            text = "cast(null as double)" if quantile is None else double(quantile)
            yield Column(text, QUANTILE)

    def _totals_stages(self) -> Iterator[Stage]:
        sums, source, moments = self._sums, "metric_values", self.moments
        if moments and moments.has_terms:
            flags = ["is_count"] * self._counts + ["is_pooled"] * self._has_pooled
            parts = ("numerator", "denominator") if self._micro else ("metric_value", "1e0")
            flags += ["metric_log"] * self._geometric
            carried_columns = [*flags, "is_missing", "metric_value"]
            yield moments.terms(carried_columns, parts)
            other_sums = {n: s for n, s in sums.items() if n not in ("numerator", "denominator")}
            if moments.cluster:
                yield moments.cluster_sums(other_sums, self._segments)
                yield moments.totals_of_clusters(other_sums)
                return
            sums, source = moments.totals() | other_sums, "terms"
        view = {
            "about": "one row per system, segment and metric: the sums behind its mean",
            "groups": [*self.shape.groups],
            "keys": ["metric", "k"],
            "sums": [Column(sql, name) for name, sql in sums.items()],
            "from": source,
            "segments": self._segments,
        }
        yield Stage("totals", "segments", view)

    @property
    def _sums(self) -> dict[str, str]:
        """What is summed over queries."""
        weight = " * weight" if "weight" in self.shape.facts else ""
        total = self.shape.translation.total
        top = f"coalesce({total(f'metric_value{weight}')}, 0e0)"
        bottom = "cast(count(metric_value) as double)"
        if weight:
            bottom = total("case when metric_value is null then 0e0 else weight end")
        if self._micro:
            top, bottom = (
                total(f"case when numerator is null then 0e0 else {part}{weight} end")
                for part in ("numerator", "denominator")
            )
        counted = "metric_value is null"
        if self.shape.spec.options["missing"] == "drop":
            counted += " and is_missing = 0"
        sums = {
            "numerator": top,
            "denominator": bottom,
            "n_queries": "count(metric_value)",
            "n_skipped": f"sum(case when {counted} then 1 else 0 end)",
            "n_missing": "sum(is_missing)",
            "sum_sq": f"coalesce({total(f'metric_value * metric_value{weight}')}, 0e0)",
        }
        if self._counts:
            count = f"coalesce({total('metric_value')}, 0e0)"
            sums["total"] = f"case when max(is_count) = 1 then {count} end"
        if self._has_pooled:
            sums["is_pooled"] = "max(is_pooled)"
        if self._geometric:
            sums["sum_log"] = total("metric_log")
        return sums

    @property
    def _segments(self) -> list[Segment]:
        """Name, value and column of every segment; `all` has no column."""
        by_segments = [(name, segment(name), [segment(name)]) for name in self.shape.spec.by]
        return [(ALL, literal(ALL), []), *by_segments]

    def _summary_stage(self) -> Stage:
        names = ("segment_name", "segment_value", "metric", "k")
        prefix = "totals." if self._has_pooled_stage else ""
        columns = [
            Column(literal(self.shape.spec.title), "spec"),
            *self._named_keys(prefix),
            *(Column(f"{prefix}{name}", name) for name in names),
            *self._numbers(),
            *(Column(f"cast({n} as bigint)", n) for n in ("n_queries", "n_skipped", "n_missing")),
            Column(self._added_up("sum_sq", counts=False), "sum_sq"),
            *self._moment_columns(),
        ]
        on = equal("global_metrics", "totals", (*self.shape.groups, *names))
        view = {"about": self._about, "columns": columns, "pooled": on * bool(prefix)}
        return Stage("summary", "summary", view)

    @property
    def _about(self) -> str:
        """What the rows are, with the values that stand for no day, no segment and no cutoff."""
        has_day = "metric_date" in self.shape.keys
        no_day = "" if has_day else f" {NO_DATE}: no day,"
        values = f"{no_day} all: every query, k = 0: no cutoff"
        return f"one row per system, segment and metric\n--{values}"

    def _numbers(self) -> Iterator[Column]:
        """Value, numerator and denominator; both are NULL for what cannot be added up."""
        value = "numerator / nullif(denominator, 0e0)"
        if self._counts:
            value = f"coalesce(total, {value})"
        if self._has_pooled:
            wholes = ["exp(sum_log / nullif(n_queries, 0))"] * self._geometric
            wholes += ["pooled_value"] * self._has_pooled_stage
            pooled_value = wholes[0] if len(wholes) == 1 else f"coalesce({', '.join(wholes)})"
            value = f"case\n    when is_pooled = 1 then {pooled_value}\n    else {value}\nend"
        yield Column(value, "value")
        for name in ("numerator", "denominator"):
            yield Column(self._added_up(name, counts=self._counts), name)

    def _moment_columns(self) -> Iterator[Column]:
        """What intervals are made of; NULL for what is no ratio of sums."""
        if self.moments is None:
            return
        for name in self.moments.columns:
            text = self._added_up(self.moments.source(name), counts=self._counts)
            yield Column(f"cast({text} as bigint)" if name in COUNTS else text, name)

    def _added_up(self, name: str, *, counts: bool) -> str:
        """A sum, NULL for the metrics that are not made of it."""
        conditions = ["total is null"] * counts + ["is_pooled = 0"] * self._has_pooled
        return f"case when {' and '.join(conditions)} then {name} end" if conditions else name

    def _named_keys(self, prefix: str = "") -> Iterator[Column]:
        has_date = "metric_date" in self.shape.keys
        date = f"{prefix}metric_date" if has_date else f"cast({literal(NO_DATE)} as date)"
        yield Column(date, "metric_date")
        has_system = "system" in self.shape.keys
        yield Column(f"{prefix}system" if has_system else literal(self.shape.spec.title), "system")
