"""What has to be evaluated for a number of points: a few worlds, each with many metrics.

What becomes of unjudged items, and whether metrics are means over all orders of equal
scores, changes the rows that are summed: each pair is a world of its own. The rules for
equal scores are its systems, the formulas its metrics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure, Setting
from sqlmetrics.catalog.metric import catalog
from sqlmetrics.catalog.option import Value
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.plan.expressions import graded_part
from sqlmetrics.plan.needs import reaches
from sqlmetrics.plan.shape import Shape
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, Window, equal
from sqlmetrics.sql.template import identifier, literal

# The combinations of options that a number may come from: presets, and what departs from them.

ORDER = ("ties", "score_precision")
"""What decides the order of a list that has scores."""

SPEC_WIDE = (*ORDER, "unjudged", "missing")
"""The options of all metrics that are tried."""

HELD = ("min_score", "depth")
"""Those that hold as they are given. The others say what bad input becomes, and there is none."""

POLICIES = ("no_relevant", "average", "average_over")
"""The options of a metric that are arithmetic over its per-query values."""

UNTRIED = ("table", "number", "geometric", "error", "nan", "exact")
"""Choices that need a value of their own, refuse the data, or give no number.

Scores that are not the same exactly as by their doubles are refused, unless that is given.
"""

RARE: Mapping[str, Collection[Setting]] = {
    "unjudged": ("skip",),
    "no_relevant": ("one_if_empty",),
    "ties": ("include",),
}
"""Choices that are tried where a preset has them alone: queries are told apart by a count more."""

DEFAULTS: Mapping[str, Value] = {"rel": 1} | {
    name: option.choices[0].name for name, option in OPTIONS.items()
}
"""What a metric's text need not say."""

Point = tuple[Setting, ...]
"""A value for each option of a space, in its order."""


@dataclass(frozen=True)
class Space:
    """The options that are tried for a metric, and where the presets are among them.

    Attributes:
        measure: The metric, with what its text sets.
        tried: Option (or `rel`) -> the values that are tried; one where it is given.
        presets: Preset -> its own point, which need not be among those that are tried.
    """

    measure: Measure
    tried: Mapping[str, tuple[Setting, ...]]
    presets: Mapping[str, Point]

    def value(self, point: Point, name: str) -> Setting | None:
        """The value of one option at a point, None if the metric has no such option."""
        return point[self._places[name]] if name in self._places else None

    def formula(self, point: Point) -> Measure:
        """The metric with the settings that decide the value of a query, before rounding."""
        key = (*(point[self._places[name]] for name in self._formula_options), self._widened(point))
        if key not in self._formulas:
            formula = self._formula(dict(zip(self._formula_options, key, strict=False)))
            self._formulas[key] = formula.having("ties", "include") if key[-1] else formula
        return self._formulas[key]

    def _widened(self, point: Point) -> bool:
        """Whether the top k of a point holds all that tie with the k-th."""
        ties = self.value(point, "ties")
        return self.measure.metric.of_set and OPTIONS["ties"].choice(ties).widens

    def _formula(self, values: dict[str, Setting]) -> Measure:
        fixed_settings = tuple(pair for pair in self.measure.settings if pair[0] not in self.tried)
        measure = replace(self.measure, settings=fixed_settings)
        if values.get("gain", "binary") != "binary":
            values["rel"] = 1
        if OPTIONS["rounding"].choice(values["rounding"]).term == "{value}":
            values["rounding"] = "none"
        for name, value in values.items():
            if name in measure.metric.settings:
                measure = measure.having(name, value)
        return measure.without(DEFAULTS)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.tried)}

    @cached_property
    def _formula_options(self) -> tuple[str, ...]:
        """The options that a formula depends on."""
        metric_settings = self.measure.metric.settings
        return tuple(
            name
            for name in self.tried
            if name in metric_settings and name not in (*POLICIES, "ties")
        )

    @cached_property
    def _formulas(self) -> dict[Point, Measure]:
        return {}

    def points(self, departures: int) -> dict[Point, int]:
        """All points in so many departures from a preset, with the fewest that it takes."""
        distance_by_point = dict.fromkeys(self.presets.values(), 0)
        edge = list(distance_by_point)
        for distance in range(1, departures + 1):
            edge = [
                neighbour
                for point in edge
                for neighbour in self._beside(point)
                if neighbour not in distance_by_point
            ]
            edge = list(dict.fromkeys(edge))
            distance_by_point |= dict.fromkeys(edge, distance)
        return {
            point: distance
            for point, distance in distance_by_point.items()
            if self._is_tried(point)
        }

    def like(self, preset: str, settings: Mapping[str, Setting]) -> Point | None:
        """A preset's point with other values, None if one of them is not tried."""
        if preset not in self.presets or not settings.keys() <= self._places.keys():
            return None
        values = {**dict(zip(self.tried, self.presets[preset], strict=True)), **settings}
        point = tuple(values.values())
        return point if self._is_tried(point) else None

    def departures(self, point: Point, preset: str) -> dict[str, Setting]:
        """The options in which a point departs from a preset, with its own values."""
        pairs = zip(self.tried, point, self.presets[preset], strict=True)
        return {name: value for name, value, preset_value in pairs if value != preset_value}

    def _beside(self, point: Point) -> Iterator[Point]:
        for position, (name, values) in enumerate(self.tried.items()):
            for value in values:
                if value != point[position] and value not in RARE.get(name, ()):
                    yield (*point[:position], value, *point[position + 1 :])

    def _is_tried(self, point: Point) -> bool:
        """Whether all values are tried, and `rel` departs only where it changes something."""
        if not all(
            value in tried_values
            for value, tried_values in zip(point, self.tried.values(), strict=True)
        ):
            return False
        rel, gain = (self.value(point, name) for name in ("rel", "gain"))
        if rel is None or rel == 1 or gain in (None, "binary"):
            return True
        return bool(OPTIONS["average_over"].choice(self.value(point, "average_over")).sql)


def space(
    spec: Spec, *, needless: Collection[str] = (), ordered: bool, grades: Iterable[float]
) -> Space:
    """The space of a spec's one metric.

    Args:
        spec: What is given: the metric, and the conventions that are known.
        needless: Options that change nothing, since the lists have ranks, say.
        ordered: Whether the input has an order of its own.
        grades: The grades from which an item may be relevant.
    """
    measure = spec.measures[0]
    given_settings = dict(spec.conventions) | dict(measure.settings)
    tried: dict[str, tuple[Setting, ...]] = {}
    for name in _names(measure):
        tried[name] = _values(name, measure, ordered=ordered, grades=grades)
        if name in needless:
            tried[name] = tried[name][:1]
        elif name in given_settings or name in HELD:
            tried[name] = (_held(spec, measure, name),)
    presets = {
        preset: tuple(
            choices[0] if name in given_settings or name in needless else _of(preset, measure, name)
            for name, choices in tried.items()
        )
        for preset in _with(measure)
    }
    return Space(measure, tried, presets)


def _names(measure: Measure) -> Sequence[str]:
    needless = {"ties"} if measure.metric.micro else {"ties", "average"}
    option_names = [n for n in measure.metric.settings if n in OPTIONS and n not in needless]
    rel = ["rel"] if "rel" in measure.metric.parameters else []
    return [*SPEC_WIDE, *HELD, *rel, *option_names]


def _values(
    name: str, measure: Measure, *, ordered: bool, grades: Iterable[float]
) -> tuple[Setting, ...]:
    """The choices of an option that can be tried, and those that a preset has."""
    if name == "rel":
        return tuple(dict.fromkeys((1, *grades)))
    rare = RARE.get(name, ())
    choices = (choice for choice in OPTIONS[name].choices if choice.quantile is None)
    names = (choice.name for choice in choices if choice.name not in (*UNTRIED, *rare))
    values: list[Setting] = [
        int(choice_name) if choice_name.isdecimal() else choice_name for choice_name in names
    ]
    without = {"error"} if ordered else {"error", "input_order"}
    if name == "discount" and measure.metric.ratio:
        without.add("ln")  # log2 times a constant
    values += [_of(preset, measure, name) for preset in _with(measure)]
    return tuple(value for value in dict.fromkeys(values) if value not in without)


def _with(measure: Measure) -> list[str]:
    """The presets of tools that have the metric."""
    return [preset for preset, row in PRESETS.items() if row.has(measure.metric.name, measure.k)]


def _held(spec: Spec, measure: Measure, name: str) -> Setting:
    settings = spec.settings(measure)
    return settings.parameter(name) if name == "rel" else settings[name]


def _of(preset: str, measure: Measure, name: str) -> Setting:
    """What a preset says of an option, for this metric."""
    row = PRESETS[preset]
    alone: Mapping[str, Setting] = row.metrics.get(measure.metric.name, {})
    default = OPTIONS[name].choices[0].name if name in OPTIONS else 1
    return alone.get(name, row.options.get(name, default))


MICRO, JUDGED = "micro", "judged"

_NOWHERE: Any = {"rankings": {"relation": "rankings"}, "labels": {"relation": "labels"}}

WorldKey = tuple[str, bool]
"""What identifies a world: `unjudged`, and whether metrics are means over all orders."""

Rule = tuple[str, str]
"""What sorts a list: `ties` and `score_precision`."""


@dataclass
class Evaluations:
    """An evaluation of its own.

    Attributes:
        unjudged: The value of that option.
        all_orders: Whether a metric is the mean over all orders of equal scores.
        rules: The rules for the order of a list.
        formulas: The metrics, without the policies of their means -> how their values are
            summed: rounded in which way, or `micro`.
        marks: Metrics that say by their value for a query whether a mean runs over it: a count
            by whether it has one, the share of labelled items by whether it is 1.
    """

    unjudged: str
    all_orders: bool
    rules: dict[Rule, None] = field(default_factory=dict)
    formulas: dict[Measure, dict[str, None]] = field(default_factory=dict)
    marks: dict[Measure, None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The stage of its sums."""
        return f"{self.unjudged}_{'on_average' if self.all_orders else 'in_order'}"

    def as_summed(self, formula: Measure) -> Measure:
        """A formula as it is asked for: with what it is a ratio of, if that is summed."""
        return formula.having("average", "micro") if MICRO in self.formulas[formula] else formula

    def metrics(self) -> Iterator[Measure]:
        """All that is evaluated."""
        yield from map(self.as_summed, self.formulas)
        yield from self.marks


def place_of(space: Space, point: Point) -> tuple[WorldKey, Rule]:
    """The world of a point, and the rule for the order of its lists."""
    ties, precision, unjudged = (
        str(space.value(point, name)) for name in ("ties", "score_precision", "unjudged")
    )
    unjudged_rule = "nonrelevant" if unjudged == "skip" else unjudged
    return (unjudged_rule, OPTIONS["ties"].choice(ties).all_orders), (ties, precision)


def summed(space: Space, point: Point) -> str:
    """How the values of queries are summed: rounded in which way, or `micro`."""
    if space.value(point, "average") == "micro":
        return MICRO
    rounding = space.value(point, "rounding")
    return str(rounding) if OPTIONS["rounding"].choice(rounding).term == "{value}" else "none"


def marks_of(space: Space, point: Point) -> list[Measure]:
    """What says by its value for a query whether a mean runs over it, if it picks some.

    A count of relevant items in the top k has all that such a choice may look at: the
    grade of a relevant item, and the cutoff. Of `unjudged=skip`, the share of labelled items
    has: what it leaves has the values that it has otherwise.
    """
    over = space.value(point, "average_over")
    marks = [_hits(space, point, over)] if OPTIONS["average_over"].choice(over).sql else []
    if space.value(point, "unjudged") == "skip":
        looked_at = _looked_at(space.formula(point))
        marks += [looked_at] if looked_at else []
    return marks


@cache
def _looked_at(formula: Measure) -> Measure | None:
    return graded_part(Spec(**_NOWHERE, metrics=("num_q",)), formula, JUDGED)


def label_count(space: Space, point: Point) -> Measure | None:
    """The count that has a value for queries with a relevant label, where that decides a value."""
    if space.value(point, "no_relevant") != "one_if_empty":
        return None
    return _hits(space, point, "relevant")


def _hits(space: Space, point: Point, over: Setting | None) -> Measure:
    rel = space.value(point, "rel")
    settings = [pair for pair in space.formula(point).settings if pair[0] == "ties"]
    settings += [] if rel in (None, 1) else [("rel", rel)]
    alike = Measure(space.measure.metric, tuple(settings), space.measure.k)
    return alike.part(catalog()["num_rel_ret"]).having("average_over", over)  # type: ignore[arg-type]


def worlds_of(
    points: Iterable[tuple[Space, Point]], spec: Spec, orders: Iterable[str] = ()
) -> dict[WorldKey, Evaluations]:
    """What has to be evaluated for points; formulas that their world refuses are left out.

    Args:
        points: Each with the space that it is of.
        spec: What is given.
        orders: Orders of a list that no option has, like `orders.WORST_FIRST`.
    """
    worlds: dict[WorldKey, Evaluations] = {}
    for space, point in points:
        world_key, rule = place_of(space, point)
        world = worlds.setdefault(world_key, Evaluations(*world_key))
        world.rules[rule] = None
        if not world.all_orders:
            world.rules |= dict.fromkeys((order, rule[1]) for order in orders)
        world.formulas.setdefault(space.formula(point), {})[summed(space, point)] = None
        counts = [*marks_of(space, point), label_count(space, point)]
        world.marks |= dict.fromkeys(mark for mark in counts if mark)
    for world in worlds.values():
        bare = spec.having(metrics=("num_q",), conventions=conventions_of(spec, world))
        for measures in (world.formulas, world.marks):
            for measure in [measure for measure in measures if bare.unfit(measure)]:
                del measures[measure]
    return {world_key: world for world_key, world in worlds.items() if world.formulas}


def conventions_of(spec: Spec, world: Evaluations) -> dict[str, Any]:
    """The conventions of a world: what is given for bad input, its own, and no policies."""
    option_names = (
        *("min_score", "depth", "duplicate_rankings", "identical_ids"),
        *("negative_grades", "absent_systems"),
    )
    bare = {
        "missing": "zero",
        "no_relevant": "skip",
        "average": "macro",
        "average_over": "labels",
        "rounding": "none",
    }
    world_options = {
        "unjudged": world.unjudged,
        "ties": "average" if world.all_orders else "id_asc",
    }
    return {name: spec.options[name] for name in option_names} | bare | world_options


def name_column(formula: Measure, part: str, way: str = "none") -> str:
    """The statement's column of a sum of a formula."""
    return f"{formula.column}_{part}" + ("" if way == "none" else f"_rounding{way}")


def has(mark: Measure) -> str:
    """The statement's column that says whether a mean runs over a query."""
    return f"has_{mark.column}"


# The stages from the tables to the lists, once in the order of every rule for equal scores.
#
# rankings ─┬> item_scores ─┬> orders   one row per item and rule, with its rank
# labels ───┘               └> scores   the same with its score, for what compares scores

WORST_FIRST = "worst_first"
"""The order of a list that is sorted the wrong way round, where a rule has the name of `ties`."""


@dataclass(frozen=True)
class Lists:
    """The lists by every rule.

    Attributes:
        shape: The tables as they are given; with their order, if they have one.
        worlds: What reads them.
        compares: Whether the metric compares the scores of items.
    """

    shape: Shape
    worlds: Sequence[Evaluations]
    compares: bool

    def stages(self) -> Iterator[Stage]:
        """All of them."""
        yield from map(self._raw, self.shape.stages())
        if self.labels == "unique_labels":
            keys = (*self.shape.label_keys, "item_id")
            best = [Column("max(grade)", "grade")]
            view = {"keys": keys, "best": best, "from": self.shape.names["labels"]}
            view["row"] = "query and item"
            yield Stage(self.labels, "unique", view)
        yield self._scored_stage()
        for name in dict.fromkeys(map(self.source, self.worlds)):
            yield self._rules_stage(name)

    def source(self, world: Evaluations) -> str:
        """The stage with the lists of a world."""
        return "scores" if self.by_score(world) else "orders"

    def by_score(self, world: Evaluations) -> bool:
        """Whether a world needs the scores, not one order of them."""
        return (world.all_orders or self.compares) and not self.has_ranks

    @property
    def labels(self) -> str:
        """The stage of the labels, without duplicates."""
        merges = self.shape.spec.options["duplicate_labels"] == "max_grade"
        return "unique_labels" if merges or self.shape.has_groups else self.shape.names["labels"]

    @property
    def grouped_labels(self) -> str:
        """The stage of the labels that the evaluations read: with their groups, if it has some."""
        return self.shape.names["labels"] if self.shape.has_groups else self.labels

    @property
    def has_ranks(self) -> bool:
        """Whether the lists have ranks, not scores."""
        return "rank" in self.shape.columns["rankings"]

    @property
    def _keys(self) -> list[str]:
        return [key for key in self.shape.keys if key != "system"]

    def _raw(self, stage: Stage) -> Stage:
        """The scores as they are: every precision reads them itself."""
        if stage.name != self.shape.names["rankings"] or self.has_ranks:
            return stage
        score = Column(identifier(self.shape.columns["rankings"]["score"]), "score")
        columns = [score if column.name == "score" else column for column in stage.view["columns"]]
        return Stage(stage.name, stage.template, {**stage.view, "columns": columns})

    def _scored_stage(self) -> Stage:
        rankings = self.shape.names["rankings"]
        carried = [*self._keys, "item_id", *self.shape.listed_facts]
        carried += [name for name in ("given_rank", "input_order") if name in self.shape.sorters]
        columns = [Column(f"{rankings}.{name}", name) for name in carried]
        for precision in self._precisions:
            text = OPTIONS["score_precision"].choice(precision).sql
            columns.append(Column(text.format(score=f"{rankings}.score"), f"score_{precision}"))
        columns.append(Column(f"coalesce({self.labels}.grade, 0e0)", "grade"))
        on = equal(self.labels, rankings, (*self.shape.label_keys, "item_id"))
        view = {"columns": columns, "rankings": rankings, "labels": self.labels, "on": on}
        return Stage("item_scores", "proof/item_scores", view)

    @cached_property
    def _precisions(self) -> list[str]:
        if self.has_ranks:
            return []
        rules = (rule for world in self.worlds for rule in world.rules)
        return list(dict.fromkeys(precision for _, precision in rules))

    def _rules_stage(self, name: str) -> Stage:
        rule_sets = (world.rules for world in self.worlds if self.source(world) == name)
        rules = dict.fromkeys(rule for rules in rule_sets for rule in rules)
        about = "the lists in the order of each rule for equal scores"
        sorter = self._rank
        if name == "scores":
            about = "the lists with their scores as each precision has them"
            sorter = self._score
        names = (*self._keys, "item_id", *self.shape.listed_facts)
        carried = [Column(name, name) for name in names]
        selects = [
            [Column(literal(name_of(rule)), "rule"), *carried, sorter(rule)] for rule in rules
        ]
        return Stage(name, "proof/orders", {"rules": selects, "about": about})

    def _rank(self, rule: Rule) -> Column:
        ties, precision = rule
        if ties == WORST_FIRST:
            return Column(self._from_border(self._worst_first(precision), precision), "given_rank")
        if self.has_ranks:
            return Column("given_rank", "given_rank")
        score, choice = f"score_{precision} desc", OPTIONS["ties"].choice(ties)
        order = [score, *choice.sql.split(", ")]
        rank = f"row_number() over {Window(self._keys, order)}"
        if choice.widens:  # equal scores have equal ranks
            rank = f"rank() over {Window(self._keys, [score])}"
        return Column(self._from_border(rank, precision), "given_rank")

    def _worst_first(self, precision: str) -> str:
        order = ["given_rank desc"] if self.has_ranks else [f"score_{precision} asc", "item_id asc"]
        return f"row_number() over {Window(self._keys, order)}"

    def _score(self, rule: Rule) -> Column:
        _, precision = rule
        return Column(self._from_border(f"score_{precision}", precision), "score")

    def _from_border(self, value: str, precision: str) -> str:
        """A value of an item, none if its score is below `min_score`; its row stays."""
        border = reaches(self.shape.spec, precision).format(score=f"score_{precision}")
        return f"case when {border} then {value} end" if border else value


def name_of(rule: Rule) -> str:
    """What a rule is called in the statement."""
    return " ".join(rule)
