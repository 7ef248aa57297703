"""Spec + catalogue -> Plan: every decision about an evaluation's SQL is made here.

The plan is a list of stages, one CTE each, from the two tables to the summary:

    rankings ─> ranked ─> retrieved ─┐
    labels ──┴> ideal ──> wanted ────┴> evaluated ─> per_query ─> summary

Templates only print what they are given: no stage decides anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.plan.bucket import WHOLE, Bucket
from sqlmetrics.plan.needs import Needs
from sqlmetrics.plan.per_query import PerQuery
from sqlmetrics.plan.shape import Shape
from sqlmetrics.plan.strategy import WINDOW, Strategy, TableStatistics, chosen
from sqlmetrics.plan.summary import Summary
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import variant


@dataclass(frozen=True)
class Plan:
    """All that there is to print, in order.

    Attributes:
        spec: What was asked.
        measures: The metrics, in the order of the spec.
        shape: What the two tables hold.
        inputs: The two tables, as the other stages and the input checks read them.
        per_query: From the tables to one row a query.
        again: The part of these that the summary reads too, beside `per_query`: the ranked
            rows, if a metric is a number of all lists together.
        summary: From `per_query` to one row a metric, system and segment.
        output: The columns of the per-query table.
        where: Which rows of `per_query` that table holds.
        physical: How lists are ranked.
    """

    spec: Spec
    measures: tuple[Measure, ...]
    shape: Shape
    inputs: tuple[Stage, ...]
    per_query: tuple[Stage, ...]
    again: tuple[Stage, ...]
    summary: tuple[Stage, ...]
    output: tuple[Column, ...]
    where: str
    physical: Strategy


def plan(
    spec: Spec,
    tables: Tables,
    *,
    offer: TableStatistics | None = None,
    physical: str | None = None,
    bucket: Bucket = WHOLE,
    suspects: str = "",
) -> Plan:
    """The plan of a spec.

    Args:
        spec: What is asked.
        tables: Where they are; `tables_of` reads it off a spec.
        offer: What was measured of them, to choose the fastest physical plan; without it,
            the portable one.
        physical: The physical plan that was asked for: one of `physical.PLANS`.
        bucket: Which queries are looked at.
        suspects: What rows of the rankings meet that break a rule, if a plan that can shall
            look for them, for repeated items and for gaps in ranks on the way.

    Raises:
        SpecError: If the spec asks for what its sources cannot give.
    """
    shape = Shape(spec, tables, bucket).checked()
    needs = Needs(spec)
    rollup = Summary(shape, needs)
    way = chosen(shape, needs, offer, physical, suspects)
    lists = PerQuery(shape, needs, way)
    dialect = tables.translation.dialect

    def own(stages: Iterable[Stage]) -> tuple[Stage, ...]:
        """The stages, each by the dialect's own template if it has one."""
        names = dialect.name, dialect.relative
        return tuple(replace(one, template=variant(one.template, *names)) for one in stages)

    return Plan(
        spec=spec,
        measures=spec.measures,
        shape=shape,
        inputs=own(_read(shape, way)),
        per_query=own(lists.stages()),
        again=own(lists.ranked_stages()) if needs.pooled else (),
        summary=own(rollup.stages()),
        output=tuple(rollup.per_query_output()),
        where="is_ranked = 1" if spec.options["missing"] == "drop" else "",
        physical=way,
    )


def _read(shape: Shape, physical: Strategy) -> Iterator[Stage]:
    """The tables; where a plan looks at them twice, DuckDB shall not copy them first."""
    hint = "" if physical.name == WINDOW else "not materialized"
    suspect = [Column(physical.suspects, "is_suspect")] if physical.suspects else []
    more = {shape.names["rankings"]: suspect}
    for stage in shape.stages():
        columns = [*stage.view["columns"], *more.get(stage.name, ())]
        yield replace(stage, view={**stage.view, "columns": columns}, hint=hint)
    if shape.spans_pauses:
        yield shape.appearances()
