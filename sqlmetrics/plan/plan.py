"""Spec + catalogue -> Plan: every decision about an evaluation's SQL is made here.

The plan is a list of stages, one CTE each, from the two tables to the summary:

    rankings ─> ranked ─> list_sums ──┐
    labels ──┴> ideal ──> label_sums ─┴> query_systems ─> per_query ─> summary

Templates only print what they are given: no stage decides anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.errors import SpecError
from sqlmetrics.plan.fusion import FUSED, fused_rankings, fused_relation
from sqlmetrics.plan.items import QueryColumnsRead
from sqlmetrics.plan.moments import Moments
from sqlmetrics.plan.needs import Needs
from sqlmetrics.plan.per_query import PerQuery
from sqlmetrics.plan.shape import APPEARANCES, Shape
from sqlmetrics.plan.strategy import PORTABLE, WINDOW, Strategy, TableStatistics, choose
from sqlmetrics.plan.summary import Summary
from sqlmetrics.plan.tables import NO_BUCKET, Bucket, Tables
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import variant
from sqlmetrics.sql.translation import Translation

INLINED = "inlined"
"""The templates for databases that compute a stage anew each time that it is read."""
MANY_METRICS = 60
"""Past so many metrics a dialect's template for wide tables is taken, where it has one: in DuckDB
each reader of a stage takes memory for all of its columns, and each metric is a reader."""


@dataclass(frozen=True)
class Plan:
    """All that there is to print, in order; a stage is made when it is first asked for.

    Attributes:
        shape: What the tables hold, and which queries are looked at.
        needs: What the metrics need.
        strategy: How lists are ranked.
        moments: Whether the summary has what intervals are made of.
    """

    shape: Shape
    needs: Needs
    strategy: Strategy = PORTABLE
    moments: bool = False

    def choose(
        self, measured: TableStatistics | None, name: str | None = None, suspects: str = ""
    ) -> Strategy:
        """The strategy that fits; see `strategy.choose`."""
        return choose(self.shape, self.needs, measured, name, suspects)

    def by(self, strategy: Strategy, bucket: Bucket = NO_BUCKET) -> Plan:
        """The same with another strategy, and of a bucket of queries alone."""
        return replace(self, strategy=strategy, shape=replace(self.shape, bucket=bucket))

    @property
    def spec(self) -> Spec:
        """What was asked."""
        return self.shape.spec

    @property
    def translation(self) -> Translation:
        """How the database of the tables reads SQL."""
        return self.shape.translation

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The metrics, in the order of the spec."""
        return self.spec.measures

    @cached_property
    def inputs(self) -> tuple[Stage, ...]:
        """The tables, as the other stages and the input checks read them.

        Where a plan looks at a table twice, neither DuckDB nor PostgreSQL shall copy it first:
        PostgreSQL knows nothing of the copy, and joins the wrong way round.
        """
        copies = self.translation.dialect.copies_stages
        by_window = self.strategy.name == WINDOW
        suspects = self.strategy.suspects
        extra_columns = {
            self.shape.names["rankings"]: [Column(suspects, "is_suspect")] * bool(suspects)
        }
        stages = []
        for stage in self.shape.stages():
            columns = [*stage.view["columns"], *extra_columns.get(stage.name, ())]
            is_table = stage.view["relation"].template == "table"
            hint = "not materialized" if not by_window or (copies and is_table) else ""
            stages.append(replace(stage, view={**stage.view, "columns": columns}, hint=hint))
        if self.shape.looks_for_systems:
            stages.append(self.shape.appearances())
        if fused := self._fused:
            rankings, *other_stages = stages
            fused_view = {"relation": Relation("table", FUSED), "where": []}
            rankings = replace(rankings, view={**rankings.view, **fused_view})
            # what reads tables of the user's comes first, lest a stage of such a name hide them
            stages = [fused[0], *other_stages, *fused[1:], rankings]
        return self._with_variants(stages)

    @property
    def rankings(self) -> tuple[Stage, ...]:
        """The table of the rankings alone, with the stages that it is made of."""
        names = self.shape.names
        names_read = {APPEARANCES, *(names[table] for table in names if table != "rankings")}
        return tuple(stage for stage in self.inputs if stage.name not in names_read)

    @property
    def unfused(self) -> Plan:
        """The plan before `fuse` of the spec adds systems to the rankings; itself without it."""
        tables = self.shape.at.unfused
        if tables is None:
            return self
        spec = self.spec.unfused
        shape = Shape(spec, tables.on(self.shape.at.ends), self.shape.bucket)
        return Plan(shape, Needs(spec))

    @property
    def _fused(self) -> list[Stage]:
        """The stages of the rankings that are fused from others."""
        rankings = self.spec.rankings
        return fused_rankings(self.unfused, rankings) if self.shape.at.unfused else []

    @cached_property
    def per_query(self) -> tuple[Stage, ...]:
        """From the tables to one row per query."""
        return self._with_variants(self._lists.stages())

    @property
    def tables(self) -> tuple[str, str]:
        """The stages of the rankings and of the labels, without duplicates."""
        return self._lists.names()

    @cached_property
    def lists(self) -> tuple[Stage, ...]:
        """From the tables to these two, for what else is read from them."""
        return (*self.inputs, *self._with_variants(self._lists.unique_stages()))

    @cached_property
    def again(self) -> tuple[Stage, ...]:
        """The part of these that the summary reads too, beside `per_query`.

        It is the ranked rows, if a metric is a number for all lists together.
        """
        return self._with_variants(self._lists.ranked_stages()) if self.needs.pooled else ()

    @cached_property
    def summary(self) -> tuple[Stage, ...]:
        """From `per_query` to one row per metric, system and segment."""
        moments = Moments(self.shape, self.needs) if self.moments else None
        return self._with_variants(Summary(self.shape, self.needs, moments).stages())

    @property
    def output(self) -> tuple[Column, ...]:
        """The columns of the per-query table."""
        return tuple(Summary(self.shape, self.needs).per_query_output())

    @property
    def where(self) -> str:
        """Which rows of `per_query` that table holds."""
        return "is_ranked = 1" if self.spec.options["missing"] == "drop" else ""

    @property
    def counted_lists(self) -> str:
        """The stage whose rows are the lists, where the database has it at hand; else empty."""
        copies = self.translation.dialect.copies_stages
        return self.needs.lists if copies and not self.strategy.suspects else ""

    @property
    def _lists(self) -> PerQuery:
        return PerQuery(self.shape, self.needs, self.strategy)

    def _with_variants(self, stages: Iterable[Stage]) -> tuple[Stage, ...]:
        """The stages, each by the dialect's own template if it has one, or one for its kind."""
        dialect = self.translation.dialect
        kinds = [INLINED] * dialect.inlines_stages
        wide = [f"{dialect.name}_wide"] * (len(self.measures) > MANY_METRICS)
        names = (*wide, dialect.name, dialect.relative, *kinds)
        return tuple(replace(stage, template=variant(stage.template, *names)) for stage in stages)


def with_fused(spec: Spec, tables: Tables) -> Tables:
    """Tables whose rankings have the systems that a spec fuses from others.

    Args:
        spec: What is asked.
        tables: Where its tables are, as they are.

    Raises:
        SpecError: If the lists cannot be fused.
    """
    if not spec.rankings.fuse:
        return tables
    unfused = spec.unfused
    relation = fused_relation(Plan(Shape(unfused, tables), Needs(unfused)), spec.rankings)
    zones = {table: zone for table, zone in tables.zones.items() if table != "rankings"}
    kinds = {**tables.day_kinds, "rankings": "DATE"}
    return replace(tables, rankings=relation, zones=zones, day_kinds=kinds, unfused=tables)


def make_plan(spec: Spec, tables: Tables, *, moments: bool = False) -> Plan:
    """The portable plan of a spec.

    Args:
        spec: What is asked.
        tables: Where they are; `tables_of` reads it off a spec.
        moments: Whether the summary has what intervals are made of.

    Raises:
        SpecError: If the spec asks for what its sources cannot give.
    """
    shape = Shape(spec, tables).checked()
    if problems := [*QueryColumnsRead(shape).problems(), *_absent_functions(shape)]:
        raise SpecError(problems)
    return Plan(shape, Needs(spec), moments=moments)


def _absent_functions(shape: Shape) -> Iterator[str]:
    """Functions of metric files that are not named for the database."""
    dialect = shape.translation.dialect
    for metric in dict.fromkeys(measure.metric for measure in shape.spec.components):
        for name, names in metric.functions.items():
            if dialect.name not in names:
                titles = " and ".join(DIALECTS[other].title for other in names)
                yield (
                    f"{metric.file}: {name}() is for {titles}, not for {dialect.title}; name "
                    f"{dialect.name} under [functions] if it means the same there"
                )
