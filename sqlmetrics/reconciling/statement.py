"""The one statement: every order of the lists, every formula, and sums over the queries.

    orders ─┬> nonrelevant_in_order ───┐
            └> condensed_in_order ─────┤
    scores ─┬> nonrelevant_on_average ─┤
            └> condensed_on_average ───┴─> one row a world, rule and kind of query

Each of these stages is an evaluation of its own, with the stages of `plan`, in which a
rule for equal scores is what else is a system. Queries are told apart by what decides
whether they count: a label, a ranking, a hit. The policies of means are left to `Tally`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlmetrics.conventions import OPTIONS
from sqlmetrics.inputs.relation import Relation, Tables
from sqlmetrics.measure import Measure
from sqlmetrics.needs import Needs
from sqlmetrics.plan import per_query_stages
from sqlmetrics.reconciling.lists import Lists
from sqlmetrics.reconciling.target import NOISE
from sqlmetrics.reconciling.world import MICRO, Place, World, conventions_of, each_once
from sqlmetrics.shape import Shape
from sqlmetrics.spec import Spec
from sqlmetrics.sql import print_template, with_stages
from sqlmetrics.stage import Column, Stage
from sqlmetrics.template import double, literal

KINDS = ("is_labelled", "is_ranked")
NO_NUMBER = "cast(null as double)"


@dataclass(frozen=True)
class Given:
    """The per-query values that were seen elsewhere: table (query_id, value), and their unit."""

    table: str
    unit: float


class Unguarded(Needs):
    """Needs whose every query has its value, whether or not a mean would run over it."""

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
    worlds: Mapping[Place, World]
    given: Given | None = None

    @cached_property
    def text(self) -> str:
        """The whole of it."""
        worlds = self.worlds.values()
        stages = [*self._lists.stages(), *map(self._world_stage, worlds)]
        return with_stages(stages, "\nunion all\n".join(map(_all_of, worlds)))

    @cached_property
    def formulas(self) -> dict[Measure, list[str]]:
        """All formulas, and how their values are summed; their place is their number."""
        return each_once(list(self.worlds.values()))

    @cached_property
    def marks(self) -> list[Measure]:
        """All that picks queries; their place is their number."""
        return list(dict.fromkeys(one for world in self.worlds.values() for one in world.marks))

    @cached_property
    def _lists(self) -> Lists:
        has_ranks = "rank" in Shape(self.spec, self.at).columns["rankings"]
        ties = "input_order" if self.at.rankings.ordered and not has_ranks else "id_asc"
        spec = self.spec.having(conventions={**self.spec.conventions, "ties": ties})
        shape = Shape(spec, self.at).checked()
        return Lists(shape, list(self.worlds.values()), Needs(self.spec).reads_score)

    # -- a world ----------------------------------------------------------------------

    def _world_stage(self, world: World) -> Stage:
        spec = self._world_spec(world)
        names, source = self._lists.shape.names, self._lists.source(world)
        tables = Tables(
            Relation("table", source),
            Relation("table", self._lists.labels),
            Relation("table", names["queries"]) if "queries" in names else None,
        )
        shape = Shape(spec, tables)
        stages = (*shape.stages(), *per_query_stages(shape, Unguarded(spec)))
        kinds = self._kinds(world, spec)
        view = {
            "columns": [*kinds, *self._counts(), *self._sums(world, spec)],
            "given": self.given.table if self.given else "",
            "keys": [column.sql for column in kinds if column.sql != "0"],
        }
        text = with_stages(stages, print_template("reconcile/tally", view))
        return Stage(world.name, "printed", {"text": text})

    def _world_spec(self, world: World) -> Spec:
        """The evaluation of a world; a rule is its system."""
        base = self._lists.shape
        date = {"date": "metric_date"} if "metric_date" in base.keys else {}
        labelled = {"date": "metric_date"} if "metric_date" in base.label_keys else {}
        weight = {"weight": "weight"} if base.weighted == "rankings" else {}
        order = {"score": "score"} if self._lists.by_score(world) else {"rank": "given_rank"}
        given = {"query": "query_id", "item": "item_id", "system": "rule"} | order
        queries = None
        if base.spec.queries is not None:
            own = {"date": "metric_date"} if "metric_date" in base.known_keys else {}
            own |= {"weight": "weight"} if base.weighted == "queries" else {}
            queries = {"relation": base.names["queries"], "columns": {"query": "query_id", **own}}
        return Spec(
            rankings={
                "relation": self._lists.source(world),
                "columns": given | date | weight,
            },
            labels={"relation": self._lists.labels, "columns": labelled},
            queries=queries,
            metrics=[str(one) for one in world.metrics()],
            conventions=conventions_of(self.spec, world),
        )

    def _kinds(self, world: World, spec: Spec) -> list[Column]:
        """What tells the queries apart: all that decides whether one counts."""
        columns = [
            Column("per_query.system", "rule"),
            *(Column(f"per_query.{kind}", kind) for kind in KINDS),
        ]
        for number, mark in enumerate(self.marks):
            picked = "0"
            if mark in world.marks:
                value = f"per_query.{spec.measure(str(mark)).column}"
                picked = f"case when {value} is null then 0 else 1 end"
            columns.append(Column(picked, f"is_picked_{number}"))
        if self.given:
            known = f"case when {self.given.table}.query_id is null then 0 else 1 end"
            columns.append(Column(known, "is_given"))
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

    def _sums(self, world: World, spec: Spec) -> Iterator[Column]:
        """The same columns for every world, empty where it does not have the formula."""
        for number, (formula, ways) in enumerate(self.formulas.items()):
            column = ""
            if formula in world.formulas:
                column = f"per_query.{spec.measure(str(world.asked(formula))).column}"
            mine = world.formulas.get(formula, {})
            if self.given:
                yield from self._fits(self.given, column, ways, number)
            else:
                weighs = bool(column) and spec.weighs(formula)
                yield from self._totals(column, ways, mine, number, weighs=weighs)

    def _totals(
        self, column: str, ways: list[str], mine: Mapping[str, None], number: int, *, weighs: bool
    ) -> Iterator[Column]:
        """Sums over the queries that have a value, and of what they weigh."""
        times = "" if self._weight == "1e0" else f" * {self._weight}"
        ratio = f"{column}_numerator{times}", f"{column}_denominator{times}"
        weight = ratio[1] if weighs else self._weight
        yield Column(_known(column, weight), f"weight_{number}")
        for way in ways:
            there = column if way in mine else ""
            if way == MICRO:
                yield Column(_known(there, ratio[0]), f"top_{number}")
                yield Column(_known(there, ratio[1]), f"bottom_{number}")
            else:
                value = ratio[0] if weighs else f"{_rounded(column, way)}{times}"
                yield Column(_total(there, value), f"total_{number}_{way}")

    def _fits(self, given: Given, column: str, ways: list[str], number: int) -> Iterator[Column]:
        """How many values are the given ones, and what is given where there is no value."""
        seen = f"{given.table}.value"
        near = double(given.unit / 2 + NOISE)
        above, below = double(-NOISE), double(given.unit - NOISE)
        conditions = {
            f"unknown_{number}": f"{column} is null and {seen} is null",
            f"zeros_{number}": f"{column} is null and abs({seen}) <= {near}",
            f"ones_{number}": f"{column} is null and abs({seen} - 1e0) <= {near}",
        }
        for way in (way for way in ways if way != MICRO):
            apart = f"{_rounded(column, way)} - {seen}"
            conditions |= {
                f"rounded_{number}_{way}": f"abs({apart}) <= {near}",
                f"cut_{number}_{way}": f"{apart} >= {above} and {apart} < {below}",
            }
        for name, condition in conditions.items():
            counted = f"sum(\n    case when {condition}\n        then 1e0 else 0e0 end\n)"
            yield Column(counted if column else NO_NUMBER, name)


def _rounded(column: str, way: str) -> str:
    return OPTIONS["rounding"].choice(int(way) if way.isdecimal() else way).sql.format(value=column)


def _total(column: str, value: str) -> str:
    return f"coalesce(sum({value}), 0e0)" if column else NO_NUMBER


def _known(column: str, value: str) -> str:
    """The sum of something over the queries that have a value."""
    if not column:
        return NO_NUMBER
    if value == "1e0":
        return f"count({column})"
    return f"sum(case when {column} is null then 0e0 else {value} end)"


def _all_of(world: World) -> str:
    """All rows of a world, with what identifies it."""
    key = [
        Column(literal(world.unjudged), "unjudged"),
        Column(str(int(world.all_orders)), "all_orders"),
    ]
    return f"select\n    {', '.join(map(str, key))},\n    {world.name}.*\nfrom {world.name}"
