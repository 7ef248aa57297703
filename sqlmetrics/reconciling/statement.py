"""The one statement: every order of the lists, every formula, and sums over the queries.

    rankings ─┬> scored ─┬> orders ─┬> nonrelevant_in_order ─┐
    labels ───┘          │          └> condensed_in_order ───┤
                         └> scores ──> ..._on_average ───────┴─> one row a rule and kind of query

Each of the last stages is an evaluation of its own, with the stages of `plan`, in which a
rule for equal scores is what else is a system. Queries are told apart by what decides
whether they count: a label, a ranking, a hit. The policies of means are left to `means`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlmetrics.catalog import catalog
from sqlmetrics.conventions import OPTIONS
from sqlmetrics.inputs.relation import Relation, Tables
from sqlmetrics.measure import Measure
from sqlmetrics.needs import Needs
from sqlmetrics.plan import per_query_stages
from sqlmetrics.reconciling.space import Point, Space
from sqlmetrics.reconciling.target import NOISE
from sqlmetrics.shape import Shape
from sqlmetrics.spec import Spec
from sqlmetrics.sql import print_template, with_stages
from sqlmetrics.stage import Column, Stage, Window, equal
from sqlmetrics.template import double, identifier, lines, literal

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


@dataclass
class World:
    """An evaluation of its own: what becomes of unjudged items, in one order or in all.

    Attributes:
        unjudged: The value of that option.
        all_orders: Whether a metric is the mean over all orders of equal scores.
        rules: The rules for the order of a list: (ties, score_precision).
        formulas: The metrics, without the policies of their means.
        thresholds: The grades from which an item is a hit.
    """

    unjudged: str
    all_orders: bool
    rules: dict[tuple[str, str], None] = field(default_factory=dict)
    formulas: dict[Measure, None] = field(default_factory=dict)
    thresholds: dict[float, None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The stage of its sums."""
        return f"{self.unjudged}_{'on_average' if self.all_orders else 'in_order'}"


Place = tuple[str, bool]
"""What identifies a world: `unjudged`, and whether metrics are means over all orders."""


def place_of(space: Space, point: Point) -> tuple[Place, tuple[str, str]]:
    """The world of a point, and the rule for the order of its lists."""
    ties, precision, unjudged = (
        str(space.value(point, name)) for name in ("ties", "score_precision", "unjudged")
    )
    return (unjudged, OPTIONS["ties"].choice(ties).all_orders), (ties, precision)


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
        return with_stages(self._stages(), self._union())

    @cached_property
    def formulas(self) -> list[Measure]:
        """All formulas of all worlds, each once: a column of sums each."""
        return list(dict.fromkeys(one for world in self.worlds.values() for one in world.formulas))

    @cached_property
    def thresholds(self) -> list[float]:
        """The grades from which an item is a hit, a flag each."""
        some = (one for world in self.worlds.values() for one in world.thresholds)
        return list(dict.fromkeys(some))

    @property
    def keys(self) -> list[str]:
        """The columns that tell a row apart within a world."""
        given = ["is_given"] if self.given else []
        return ["rule", *KINDS, *(f"is_hit_{i}" for i in range(len(self.thresholds))), *given]

    @property
    def sums(self) -> list[str]:
        """What there is of a formula, behind its number."""
        if self.given:
            return ["rounded", "cut", "unknown", "zeros", "ones"]
        return [
            "total",
            "weight",
            *(["top", "bottom"] if self.spec.measures[0].metric.micro else []),
        ]

    @cached_property
    def _base(self) -> Shape:
        """The tables as they are given; with their order, if they have one."""
        has_ranks = "rank" in Shape(self.spec, self.at).columns["rankings"]
        ties = "input_order" if self.at.rankings.ordered and not has_ranks else "id_asc"
        conventions = {**self.spec.conventions, "ties": ties}
        return Shape(self.spec.having(conventions=conventions), self.at).checked()

    @property
    def _keys(self) -> list[str]:
        return [key for key in self._base.keys if key != "system"]

    @property
    def _labels(self) -> str:
        merges = self._base.spec.options["duplicate_labels"] == "max_grade"
        return "unique_labels" if merges else self._base.names["labels"]

    def _stages(self) -> Iterator[Stage]:
        yield from map(self._raw, self._base.stages())
        if self._labels == "unique_labels":
            keys = (*self._base.label_keys, "item_id")
            best = [Column("max(grade)", "grade")]
            view = {"keys": keys, "best": best, "from": self._base.names["labels"]}
            yield Stage(self._labels, "unique", view)
        yield self._scored()
        sources = {world.all_orders: self._order(world) for world in self.worlds.values()}
        yield from sources.values()
        for world in self.worlds.values():
            source = sources[world.all_orders]
            yield Stage(world.name, "printed", {"text": self._world(world, source.name)})

    def _raw(self, stage: Stage) -> Stage:
        """The scores as they are: every precision reads them itself."""
        role = self._base.columns["rankings"].get("score")
        if stage.name != self._base.names["rankings"] or "rank" in self._base.columns["rankings"]:
            return stage
        columns = [
            Column(identifier(str(role)), "score") if column.name == "score" else column
            for column in stage.view["columns"]
        ]
        return Stage(stage.name, stage.template, {**stage.view, "columns": columns})

    # -- the orders of a list ---------------------------------------------------------

    @cached_property
    def _precisions(self) -> list[str]:
        rules = (rule for world in self.worlds.values() for rule in world.rules)
        return list(dict.fromkeys(precision for _, precision in rules))

    @property
    def _has_ranks(self) -> bool:
        return "rank" in self._base.columns["rankings"]

    def _scored(self) -> Stage:
        rankings = self._base.names["rankings"]
        carried = [*self._keys, "item_id", *self._base.listed_facts]
        carried += [name for name in ("given_rank", "input_order") if name in self._base.sorters]
        columns = [Column(f"{rankings}.{name}", name) for name in carried]
        for precision in [] if self._has_ranks else self._precisions:
            choice = OPTIONS["score_precision"].choice(precision)
            columns.append(
                Column(choice.sql.format(score=f"{rankings}.score"), f"score_{precision}")
            )
        columns.append(Column(f"coalesce({self._labels}.grade, 0e0)", "grade"))
        on = equal(self._labels, rankings, (*self._base.label_keys, "item_id"))
        view = {"columns": columns, "rankings": rankings, "labels": self._labels, "on": on}
        return _printed("scored", "scored", view)

    def _order(self, world: World) -> Stage:
        """The lists by every rule: their ranks, or the scores that are equal by it."""
        if world.all_orders:
            rules = [self._equal(rule) for rule in self._rules(all_orders=True)]
            about = "the lists with their scores as each precision has them"
            return _printed("scores", "orders", {"rules": rules, "about": about})
        rules = [self._ranks(*rule) for rule in self._rules(all_orders=False)]
        about = "the lists in the order of each rule for equal scores"
        return _printed("orders", "orders", {"rules": rules, "about": about})

    def _rules(self, *, all_orders: bool) -> list[tuple[str, str]]:
        """The rules of all worlds of a kind."""
        some = (world.rules for world in self.worlds.values() if world.all_orders == all_orders)
        return list(dict.fromkeys(rule for rules in some for rule in rules))

    def _ranks(self, ties: str, precision: str) -> list[Column]:
        order = [f"score_{precision} desc", *OPTIONS["ties"].choice(ties).sql.split(", ")]
        ranks = f"row_number() over {Window(self._keys, order)}"
        rank = "given_rank" if self._has_ranks else ranks
        return [*self._carried((ties, precision)), Column(rank, "given_rank")]

    def _equal(self, rule: tuple[str, str]) -> list[Column]:
        return [*self._carried(rule), Column(f"score_{rule[1]}", "score")]

    def _carried(self, rule: tuple[str, str]) -> list[Column]:
        names = (*self._keys, "item_id", *self._base.listed_facts)
        return [Column(literal(" ".join(rule)), "rule"), *(Column(name, name) for name in names)]

    # -- the evaluations --------------------------------------------------------------

    def _world(self, world: World, source: str) -> str:
        spec = self._spec(world, source)
        queries = self._base.names.get("queries")
        tables = Tables(
            Relation("table", source),
            Relation("table", self._labels),
            Relation("table", queries) if queries else None,
        )
        shape = Shape(spec, tables)
        stages = (*shape.stages(), *per_query_stages(shape, Unguarded(spec)))
        given = self.given.table if self.given else ""
        keys = [column.sql for column in self._kinds(world, spec) if column.sql != "0"]
        view = {
            "columns": [*self._kinds(world, spec), *self._counts(), *self._sums(world, spec)],
            "given": given,
            "keys": keys,
        }
        return with_stages(stages, print_template("reconcile/tally", view))

    def _spec(self, world: World, source: str) -> Spec:
        """The evaluation of a world; a rule is its system."""
        base = self._base
        date = {"date": "metric_date"} if "metric_date" in base.keys else {}
        labelled = {"date": "metric_date"} if "metric_date" in base.label_keys else {}
        weight = {"weight": "weight"} if base.weighted == "rankings" else {}
        order = {"score": "score"} if world.all_orders else {"rank": "given_rank"}
        given = {"query": "query_id", "item": "item_id", "system": "rule"} | order
        queries = None
        if base.spec.queries is not None:
            own = {"date": "metric_date"} if "metric_date" in base.known_keys else {}
            own |= {"weight": "weight"} if base.weighted == "queries" else {}
            queries = {"relation": base.names["queries"], "columns": {"query": "query_id", **own}}
        return Spec(
            rankings={"relation": source, "columns": given | date | weight},
            labels={"relation": self._labels, "columns": labelled},
            queries=queries,
            metrics=[str(one) for one in self._asked(world)],
            conventions=conventions_of(self.spec, world),
        )

    def _asked(self, world: World) -> Iterator[Measure]:
        for formula in world.formulas:
            yield formula.having("average", "micro") if formula.metric.micro else formula
        if not world.all_orders:
            yield from (self._hits(rel) for rel in world.thresholds)

    def _hits(self, rel: float) -> Measure:
        measure = self.spec.measures[0]
        part = Measure(measure.metric, (("rel", rel),), measure.k)
        hits = part.part(catalog()["num_rel_ret"])
        return hits if rel != 1 else hits.without({"rel": 1})

    def _kinds(self, world: World, spec: Spec) -> list[Column]:
        """What tells the queries apart: all that decides whether one counts."""
        columns = [
            Column("per_query.system", "rule"),
            *(Column(f"per_query.{k}", k) for k in KINDS),
        ]
        for number, rel in enumerate(self.thresholds):
            hit = "0"
            if not world.all_orders and rel in world.thresholds:
                column = spec.measure(str(self._hits(rel))).column
                hit = f"case when per_query.{column} > 0e0 then 1 else 0 end"
            columns.append(Column(hit, f"is_hit_{number}"))
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

    @property
    def _weight(self) -> str:
        weighted = self._base.weighted and not self.spec.measures[0].metric.count
        return "per_query.weight" if weighted else "1e0"

    def _sums(self, world: World, spec: Spec) -> Iterator[Column]:
        for number, formula in enumerate(self.formulas):
            texts = dict.fromkeys(self.sums, NO_NUMBER)
            if formula in world.formulas:
                asked = formula.having("average", "micro") if formula.metric.micro else formula
                column = f"per_query.{spec.measure(str(asked)).column}"
                texts = self._fits(column, self.given) if self.given else self._totals(column)
            for name, text in texts.items():
                yield Column(text, f"{name}_{number}")

    def _totals(self, column: str) -> dict[str, str]:
        """Sums over the queries that have a value."""
        times = "" if self._weight == "1e0" else f" * {self._weight}"
        parts = {"total": f"{column}{times}", "weight": self._weight}
        if "top" in self.sums:
            parts |= {"top": f"{column}_numerator{times}", "bottom": f"{column}_denominator{times}"}
        parts["total"] = f"coalesce(sum({parts['total']}), 0e0)"
        for name in parts.keys() - {"total"}:
            parts[name] = f"sum(case when {column} is null then 0e0 else {parts[name]} end)"
        return {name: parts[name] for name in self.sums}

    def _fits(self, column: str, given: Given) -> dict[str, str]:
        """How many values are the given ones, and what is given where there is no value."""
        value = f"{given.table}.value"
        near = double(given.unit / 2 + NOISE)
        below = double(given.unit - NOISE)
        conditions = {
            "rounded": f"abs({column} - {value}) <= {near}",
            "cut": f"{column} - {value} >= {double(-NOISE)} and {column} - {value} < {below}",
            "unknown": f"{column} is null and {value} is null",
            "zeros": f"{column} is null and abs({value}) <= {near}",
            "ones": f"{column} is null and abs({value} - 1e0) <= {near}",
        }
        return {
            name: f"sum(case when {condition} then 1e0 else 0e0 end)"
            for name, condition in conditions.items()
        }

    def _union(self) -> str:
        names = [*self.keys, "queries", "weight", *(["blank"] if self.given else [])]
        names += [f"{name}_{i}" for i in range(len(self.formulas)) for name in self.sums]
        selects = []
        for world in self.worlds.values():
            key = [
                Column(literal(world.unjudged), "unjudged"),
                Column(str(int(world.all_orders)), "all_orders"),
            ]
            selects.append(f"select\n    {lines(key, names)}\nfrom {world.name}")
        return "\nunion all\n".join(selects)


def _printed(name: str, template: str, view: Mapping[str, Any]) -> Stage:
    return Stage(name, "printed", {"text": print_template(f"reconcile/{template}", view)})


def conventions_of(spec: Spec, world: World) -> dict[str, Any]:
    """The conventions of a world: the given ones that say what bad input becomes, and its own."""
    kept = ("depth", "duplicate_rankings", "negative_grades")
    given = {name: spec.options[name] for name in kept}
    return given | {"unjudged": world.unjudged, "ties": "average" if world.all_orders else "id_asc"}


def worlds_of(space: Space, points: Sequence[Point], spec: Spec) -> dict[Place, World]:
    """What has to be evaluated for points; formulas that their world refuses are left out."""
    worlds: dict[Place, World] = {}
    for point in points:
        place, rule = place_of(space, point)
        world = worlds.setdefault(place, World(*place))
        world.rules[rule] = None
        world.formulas[space.formula(point)] = None
        if space.value(point, "average_over") == "hits":
            world.thresholds[hit_of(space, point)] = None
    for world in worlds.values():
        bare = spec.having(metrics=("num_q",), conventions=conventions_of(spec, world))
        fits = [one for one in world.formulas if not bare.unfit(one)]
        world.formulas = dict.fromkeys(fits)
    return {place: world for place, world in worlds.items() if world.formulas}


def hit_of(space: Space, point: Point) -> float:
    """The grade from which an item of a point is a hit."""
    if "rel" in space.tried:
        return float(space.value(point, "rel"))  # type: ignore[arg-type]
    return 1.0
