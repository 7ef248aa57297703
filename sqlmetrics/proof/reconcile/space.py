"""The combinations of options that a number may come from: presets, and what departs from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure, Setting
from sqlmetrics.catalog.option import Value
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.spec.spec import Spec

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
        key = (*(point[self._places[name]] for name in self._own), self._widened(point))
        if key not in self._formulas:
            formula = self._formula(dict(zip(self._own, key, strict=False)))
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
    def _own(self) -> tuple[str, ...]:
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
