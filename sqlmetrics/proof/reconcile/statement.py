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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.plan.expressions import join_conditions
from sqlmetrics.plan.needs import Needs
from sqlmetrics.plan.per_query import per_query_stages
from sqlmetrics.plan.shape import Shape
from sqlmetrics.plan.tables import Tables
from sqlmetrics.proof.reconcile.worlds import (
    JUDGED,
    MICRO,
    Evaluations,
    Lists,
    Point,
    Space,
    WorldKey,
    conventions_of,
    has,
    label_count,
    marks_of,
    name_column,
    name_of,
    place_of,
    summed,
)
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import case, double, literal
from sqlmetrics.stats import TIED
from sqlmetrics.tables.tabular import Row

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
        given_values: The per-query values that were seen, None for a mean.
    """

    spec: Spec
    at: Tables
    worlds: Mapping[WorldKey, Evaluations]
    given_values: GivenTable | None = None

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
            "given_table": self.given_values.table if self.given_values else "",
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
            query_columns = {"date": "metric_date"} if "metric_date" in base.keys_of_queries else {}
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
        if self.given_values:
            query_id = f"{self.given_values.table}.query_id"
            has_value_sql = f"case when {query_id} is null then 0 else 1 end"
            columns.append(Column(has_value_sql, "is_given"))
        return columns

    def _counts(self) -> Iterator[Column]:
        yield Column("count(*)", "queries")
        yield Column(f"coalesce(sum({self._weight}), 0e0)", "weight")
        if self.given_values:
            table = self.given_values.table
            yield Column(f"sum(case when {table}.value is null then 1e0 else 0e0 end)", "blank")

    # -- sums over the queries of a kind ------------------------------------------------

    @property
    def _weight(self) -> str:
        weighted = self._lists.shape.weighted and not self.spec.measures[0].metric.count
        return "per_query.weight" if weighted else "1e0"

    def _sums(self, world: Evaluations, spec: Spec) -> Iterator[Column]:
        """What the means of every formula are made of."""
        for formula, ways in world.formulas.items():
            column = spec.measure(str(world.as_summed(formula))).column
            if self.given_values:
                yield from _fits(self.given_values, formula, column, ways)
            else:
                yield from self._totals(formula, column, ways, weighs=spec.settings(formula).weighs)

    def _totals(
        self, formula: Measure, column: str, ways: Iterable[str], *, weighs: bool
    ) -> Iterator[Column]:
        """Sums over the queries that have a value, and of what they weigh."""
        times = "" if self._weight == "1e0" else f" * {self._weight}"
        top, bottom = (f"{column}_{part}{times}" for part in ("numerator", "denominator"))
        weight = bottom if weighs else self._weight
        yield Column(_sum_of_known(column, weight), name_column(formula, "weight"))
        for way in ways:
            if way == MICRO:
                counted = f"{column}_numerator"  # also where the query alone has no value
                yield Column(_sum_of_known(counted, top), name_column(formula, "numerator"))
                yield Column(_sum_of_known(counted, bottom), name_column(formula, "denominator"))
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


def _sum_of_known(column: str, value: str) -> str:
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


# The rows of the statement -> the value of a combination of options.

FILLED: Mapping[object, float] = {"zero": 0.0, "one": 1.0}
"""What a query counts for which the metric is undefined, by `no_relevant`."""


@dataclass(frozen=True)
class Tally:
    """What the statement found, for the points that it was made for.

    Attributes:
        space: The options.
        statement: What ran.
        rows: What it gave.
    """

    space: Space
    statement: Statement
    rows: Sequence[Row]

    def covers(self, point: Point) -> bool:
        """Whether the point's formula fits its other options, so that it was computed."""
        world_key, _ = place_of(self.space, point)
        world = self.statement.worlds.get(world_key)
        if world is None or self.space.formula(point) not in world.formulas:
            return False
        counts = (*marks_of(self.space, point), label_count(self.space, point))
        return all(mark in world.marks for mark in counts if mark)

    def mean(self, point: Point, order: str = "") -> float | None:
        """The summary of the metric; None if it runs over no query, or is no number.

        Args:
            point: The combination of options.
            order: The order of the lists instead of the point's rule for equal scores.
        """
        formula, way = self.space.formula(point), summed(self.space, point)
        weight = name_column(formula, "weight")
        parts = name_column(formula, "total", way), weight
        if way == MICRO:
            parts = name_column(formula, "numerator"), name_column(formula, "denominator")
        filling = self._filled(point)
        top = bottom = unfilled = 0.0
        for row in self._counted(point, order):
            top += row[parts[0]] or 0
            bottom += row[parts[1]] or 0
            undefined, filled = row["weight"] - row[weight], filling(row)
            if filled is None or way == MICRO:
                unfilled += undefined
            else:
                top += filled * undefined
                bottom += undefined
        if self.space.measure.metric.count:
            return top
        policy = self.space.value(point, "no_relevant")
        is_number = policy != "nan" or way == MICRO or unfilled <= TIED
        return top / bottom if bottom and is_number else None

    def fits(self, point: Point, *, cut: bool = False) -> tuple[int, int]:
        """How many of the given values a point explains, and how many it has beside them."""
        formula, way = self.space.formula(point), summed(self.space, point)
        fitting = name_column(formula, "cut" if cut else "rounded", way)
        filling = self._filled(point)
        explained = beyond = 0
        for row, counts in self._rows(point):
            if not row["is_given"]:
                beyond += row["queries"] if counts else 0
            elif counts:
                filled = filling(row)
                name = "unknown" if filled is None else "ones" if filled else "zeros"
                explained += row[fitting] + row[name_column(formula, name)]
            else:
                explained += row["blank"]
        return int(explained), int(beyond)

    def _filled(self, point: Point) -> Callable[[Row], float | None]:
        """What the queries of a row count for which the metric is undefined, None if nothing."""
        known_mark = label_count(self.space, point)
        if known_mark is None:
            filled = FILLED.get(self.space.value(point, "no_relevant"))
            return lambda _: filled
        name = has(known_mark)
        return lambda row: float(not row["is_ranked"] and not row[name])

    def _counted(self, point: Point, order: str) -> Iterator[Row]:
        return (row for row, counts in self._rows(point, order) if counts)

    def _rows(self, point: Point, order: str = "") -> Iterator[tuple[Row, bool]]:
        """The rows of a point's world and order, each with whether its queries count."""
        world_key, (ties, precision) = place_of(self.space, point)
        rule = (order or ties, precision)
        flags = [*OPTIONS["average_over"].choice(self.space.value(point, "average_over")).only]
        if self.space.value(point, "missing") == "drop":
            flags.append("is_ranked")
        flags += [has(mark) for mark in marks_of(self.space, point)]
        for row in self._by_rule[world_key, name_of(rule)]:
            yield row, all(row[flag] for flag in flags)

    @cached_property
    def _by_rule(self) -> dict[tuple[WorldKey, str], list[Row]]:
        rows_by_rule: dict[tuple[WorldKey, str], list[Row]] = {}
        for row in self.rows:
            world_key = (row["unjudged"], bool(row["all_orders"]))
            rows_by_rule.setdefault((world_key, row["rule"]), []).append(row)
        return rows_by_rule
