"""What holds for one metric of a spec: every option and parameter, with its value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.option import Choice, Value


@dataclass(frozen=True)
class Settings:
    """The settings of a metric: its own, else those of the preset, else the spec's.

    Attributes:
        measure: The metric, with what the preset says of it alone.
        options: What holds for metrics that say nothing themselves.
    """

    measure: Measure
    options: Mapping[str, Value]

    def __getstate__(self) -> dict[str, object]:
        """Without what was resolved: a choice may hold a function, which no pickle takes."""
        return {"measure": self.measure, "options": self.options}

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """Option or parameter -> what holds, resolved once."""
        return {**self.options, **self.measure.metric.parameters, **dict(self.measure.settings)}

    @cached_property
    def _choice_by_option(self) -> dict[str, Choice]:
        return {}

    def __getitem__(self, option: str) -> Value:
        return self.values[option]

    def parameter(self, name: str) -> float:
        """A number of the metric's own: what its text says, else its default."""
        return cast(float, self.values.get(name, 1))

    def choice(self, option: str) -> Choice:
        """The row of an option's value."""
        if option not in self._choice_by_option:
            self._choice_by_option[option] = OPTIONS[option].choice(self.values[option])
        return self._choice_by_option[option]

    def reads(self, parameter: str) -> bool:
        """Whether a parameter decides a value: not if it belongs to a choice that does not hold."""
        options = [
            name
            for name in self.measure.metric.options
            if any(parameter in choice.parameters for choice in OPTIONS[name].choices)
        ]
        return not options or any(parameter in self.choice(name).parameters for name in options)

    @cached_property
    def choices(self) -> list[Choice]:
        """The choices that hold for the options of the metric's formula."""
        return [self.choice(name) for name in self.measure.metric.options]

    @property
    def weighs(self) -> bool:
        """Whether the metric says itself what a query weighs in its mean."""
        return any("weight" in choice.adds for choice in self.choices)

    @property
    def is_mean(self) -> bool:
        """Whether the metric's summary is the plain mean of its values of queries."""
        metric = self.measure.metric
        return not (metric.count or metric.pooled or self.weighs or self["average"] != "macro")
