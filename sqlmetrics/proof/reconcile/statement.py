"""The one statement: every order of the lists, every formula, and sums over the queries.

    orders ─┬> nonrelevant_in_order ───┐
            └> condensed_in_order ─────┤
    scores ─┬> nonrelevant_on_average ─┤
            └> condensed_on_average ───┴─> one row per world, rule and kind of query

Each of these stages is an evaluation of its own, with the stages of `plan`, in which a
rule for equal scores is what else is a system. Queries are told apart by what decides
whether they count: a label, a ranking, a hit. The policies of means are left to `Tally`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.plan.expressions import join_conditions
from sqlmetrics.plan.needs import Needs
from sqlmetrics.plan.per_query import per_query_stages
from sqlmetrics.plan.shape import Shape
from sqlmetrics.plan.tables import Tables
from sqlmetrics.proof.reconcile.orders import Lists
from sqlmetrics.proof.reconcile.worlds import (
    JUDGED,
    MICRO,
    Evaluations,
    Place,
    conventions_of,
    has,
    name_column,
)
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import case, double, literal
from sqlmetrics.stats import TIED

KINDS = ("is_labelled", "is_ranked")


@dataclass(frozen=True)
class GivenTable:
    """The per-query values that were seen elsewhere: table (query_id, value), and their unit."""

    table: str
    unit: float


class Unguarded(Needs):
    """Needs whose every query has its value, whether or not a mean would run over it."""

    @property
    def border(self) -> str:
        """The lists have no score or rank where an item is below it: see `Lists`."""
        return "{score} is not null" if super().border else ""

    @property
    def counts_unlabelled(self) -> bool:
        """Queries without a label are there too."""
        return True

    def population(self, _: Measure) -> list[str]:
        """No flag is asked for."""
        return []


@dataclass(frozen=True)
class Statement:
    """The statement for a number of points.

    Attributes:
        spec: What is given: the tables, the metric, the conventions that are known.
        at: Where the tables are.
        worlds: What is to be evaluated.
        given: The per-query values that were seen, None for a mean.
    """

    spec: Spec
    at: Tables
    worlds: Mapping[Place, Evaluations]
    given: GivenTable | None = None

    @cached_property
    def text(self) -> str:
        """The whole of it."""
        worlds = self.worlds.values()
        stages = [*self._lists.stages(), *map(self._world_stage, worlds)]
        return with_stages(stages, "\nunion all by name\n".join(map(_all_of, worlds)))

    @cached_property
    def _lists(self) -> Lists:
        has_ranks = "rank" in Shape(self.spec, self.at).columns["rankings"]
        ties = "input_order" if self.at.rankings.ordered and not has_ranks else "id_asc"
        spec = self.spec.having(conventions={**self.spec.conventions, "ties": ties})
        shape = Shape(spec, self.at).checked()
        return Lists(shape, list(self.worlds.values()), Needs(self.spec).reads_score)

    # -- a world ----------------------------------------------------------------------

    def _world_stage(self, world: Evaluations) -> Stage:
        spec = self._world_spec(world)
        names, source = self._lists.shape.names, self._lists.source(world)
        tables = Tables(
            Relation("table", source),
            Relation("table", self._lists.grouped_labels),
            Relation("table", names["queries"]) if "queries" in names else None,
        )
        shape = Shape(spec, tables)
        stages = (*shape.stages(), *per_query_stages(shape, Unguarded(spec)))
        kinds = self._kinds(world, spec)
        view = {
            "columns": [*kinds, *self._counts(), *self._sums(world, spec)],
            "given": self.given.table if self.given else "",
            "keys": [column.sql for column in kinds],
        }
        text = with_stages(stages, print_template("proof/tally", view))
        return Stage(world.name, "text", {"text": text})

    def _world_spec(self, world: Evaluations) -> Spec:
        """The evaluation of a world; a rule is its system."""
        base = self._lists.shape
        date = {"date": "metric_date"} if "metric_date" in base.keys else {}
        labelled = {"date": "metric_date"} if "metric_date" in base.label_keys else {}
        labelled |= {"group": "group_id"} if base.has_groups else {}
        weight = {"weight": "weight"} if base.weighted == "rankings" else {}
        order = {"score": "score"} if self._lists.by_score(world) else {"rank": "given_rank"}
        columns = {"query": "query_id", "item": "item_id", "system": "rule"} | order
        queries = None
        if base.queries is not None:
            query_columns = {"date": "metric_date"} if "metric_date" in base.known_keys else {}
            query_columns |= {"weight": "weight"} if base.weighted == "queries" else {}
            queries = {
                "relation": base.names["queries"],
                "columns": {"query": "query_id", **query_columns},
            }
        return Spec(
            rankings={
                "relation": self._lists.source(world),
                "columns": columns | date | weight,
            },
            labels={"relation": self._lists.grouped_labels, "columns": labelled},
            queries=queries,
            metrics=[str(measure) for measure in world.metrics()],
            metrics_from=self.spec.metrics_from,
            conventions=conventions_of(self.spec, world),
        )

    def _kinds(self, world: Evaluations, spec: Spec) -> list[Column]:
        """What tells the queries apart: all that decides whether one counts."""
        columns = [
            Column("per_query.system", "rule"),
            *(Column(f"per_query.{kind}", kind) for kind in KINDS),
        ]
        for mark in world.marks:
            value = f"per_query.{spec.measure(str(mark)).column}"
            unjudged = f"per_query.is_ranked = 1 and {value} < 1e0"
            lacks = unjudged if mark.metric.name == JUDGED else f"{value} is null"
            columns.append(Column(f"case when {lacks} then 0 else 1 end", has(mark)))
        if self.given:
            has_value_sql = f"case when {self.given.table}.query_id is null then 0 else 1 end"
            columns.append(Column(has_value_sql, "is_given"))
        return columns

    def _counts(self) -> Iterator[Column]:
        yield Column("count(*)", "queries")
        yield Column(f"coalesce(sum({self._weight}), 0e0)", "weight")
        if self.given:
            table = self.given.table
            yield Column(f"sum(case when {table}.value is null then 1e0 else 0e0 end)", "blank")

    # -- sums over the queries of a kind ------------------------------------------------

    @property
    def _weight(self) -> str:
        weighted = self._lists.shape.weighted and not self.spec.measures[0].metric.count
        return "per_query.weight" if weighted else "1e0"

    def _sums(self, world: Evaluations, spec: Spec) -> Iterator[Column]:
        """What the means of every formula are made of."""
        for formula, ways in world.formulas.items():
            column = spec.measure(str(world.asked(formula))).column
            if self.given:
                yield from _fits(self.given, formula, column, ways)
            else:
                yield from self._totals(formula, column, ways, weighs=spec.settings(formula).weighs)

    def _totals(
        self, formula: Measure, column: str, ways: Iterable[str], *, weighs: bool
    ) -> Iterator[Column]:
        """Sums over the queries that have a value, and of what they weigh."""
        times = "" if self._weight == "1e0" else f" * {self._weight}"
        top, bottom = (f"{column}_{part}{times}" for part in ("numerator", "denominator"))
        weight = bottom if weighs else self._weight
        yield Column(_known(column, weight), name_column(formula, "weight"))
        for way in ways:
            if way == MICRO:
                counted = f"{column}_numerator"  # also where the query alone has no value
                yield Column(_known(counted, top), name_column(formula, "numerator"))
                yield Column(_known(counted, bottom), name_column(formula, "denominator"))
            else:
                factor = f" * {bottom}" if weighs else times
                total = f"sum({_rounded(column, way)}{factor})"
                yield Column(total, name_column(formula, "total", way))


def _fits(
    given_table: GivenTable, formula: Measure, column: str, ways: Iterable[str]
) -> Iterator[Column]:
    """How many values are the given ones, and what is given where there is no value."""
    given_value, none = f"{given_table.table}.value", f"{column} is null"
    near = f"<= {double(given_table.unit / 2 + TIED)}"
    yield _count(name_column(formula, "unknown"), none, f"{given_value} is null")
    yield _count(name_column(formula, "zeros"), none, f"abs({given_value}) {near}")
    yield _count(name_column(formula, "ones"), none, f"abs({given_value} - 1e0) {near}")
    for way in ways:
        difference = f"{_rounded(column, way)} - {given_value}"
        cut = (
            f"{difference} >= {double(-TIED)}",
            f"{difference} < {double(given_table.unit - TIED)}",
        )
        yield _count(name_column(formula, "rounded", way), f"abs({difference}) {near}")
        yield _count(name_column(formula, "cut", way), *cut)


def _rounded(column: str, way: str) -> str:
    choice = OPTIONS["rounding"].choice(int(way) if way.isdecimal() else way)
    return choice.sql.format(value=column)


def _known(column: str, value: str) -> str:
    """The sum of something over the queries that have a value."""
    if value == "1e0":
        return f"count({column})"
    return f"sum({case(f'{column} is null', '0e0', value)})"


def _count(name: str, *conditions: str) -> Column:
    return Column(f"sum({case(join_conditions(*conditions), '1e0')})", name)


def _all_of(world: Evaluations) -> str:
    """All rows of a world, with what identifies it."""
    key = [
        Column(literal(world.unjudged), "unjudged"),
        Column(str(int(world.all_orders)), "all_orders"),
    ]
    return f"select\n    {', '.join(map(str, key))},\n    {world.name}.*\nfrom {world.name}"
