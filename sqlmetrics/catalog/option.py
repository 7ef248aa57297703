"""An option: its choices, and the values that people write for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.tables.table import DECIMALS


def plain(value: float) -> str:
    """A number without a needless `.0`."""
    is_short = float(value).is_integer() and abs(value) < 1e16
    return str(int(value)) if is_short else repr(float(value))


class GainTable(dict[float, float]):
    """A gain table, grade -> gain, that can be a part of a frozen value."""

    def __str__(self) -> str:
        return f"{{{', '.join(f'{plain(grade)}: {plain(gain)}' for grade, gain in self.items())}}}"

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


Value = str | int | float | GainTable


@dataclass(frozen=True)
class Choice:
    """One value of an option.

    Attributes:
        name: What users write.
        meaning: One line for people.
        sql: The text it becomes; {grade}, {rank}, {relevant}, {score}, {value}, and in an
            option of metrics {k} and the metric's parts by name, are filled in by the plan.
            Empty where the choice is not a piece of text.
        uncut: The text for a metric without a cutoff, where it is another.
        term: For `rounding`: the text that a term of DCG becomes.
        cut: The same for a term that is a number.
        weight: For `discount`: what a rank is worth, given the metric's parameters.
        parameters: What a metric gets to set with it: name -> its default, and its limit as
            `Metric.limits` has it.
        only: For `average_over`: the flags of the queries that the mean runs over.
        part: For `average_over` and `no_relevant`: the metric that {count} stands for.
        needs: What must hold for it, in words; the spec knows how to tell.
        data: What metrics need beside rankings and labels if it holds; see `Metric.needs`.
        all_orders: For `ties`: whether the metrics are means over all orders of ties.
        widens: For `ties`: whether the top k of metrics of a set holds all that tie with the k-th.
        adds: What it adds to the parts of its metric, by the part's name, as SQL over
            {parts}; a part of a new name is made of it. `weight` is what a query weighs
            in the mean.
        quantile: For `average`: the share of the values below the summary, from 0 to 1;
            None for a mean.
        geometric: For `average`: whether it is the geometric mean.
        is_whole: For `number`: whether it is a whole one, from 1 on; else any finite number.
    """

    name: str
    meaning: str
    sql: str = ""
    uncut: str = ""
    term: str = "{value}"
    cut: Callable[[float], float] = float
    weight: Callable[[int, Mapping[str, float]], float] = lambda _rank, _settings: 0.0
    parameters: Mapping[str, tuple[float, str]] = field(default_factory=dict, hash=False)
    only: tuple[str, ...] = ()
    part: str = ""
    needs: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    all_orders: bool = False
    widens: bool = False
    adds: Mapping[str, str] = field(default_factory=dict, hash=False)
    quantile: float | None = None
    geometric: bool = False
    is_whole: bool = True

    @property
    def adds_up(self) -> bool:
        """Whether it is made of sums over queries, which can be put together over days."""
        return self.quantile is None and not self.geometric


@dataclass(frozen=True)
class Option:
    """One convention: its choices, the house default first.

    Attributes:
        scope: `metric` if a metric's text may set it, `spec` if it holds for all.
        of_days: Whether it holds only where rankings have days.
        later: Whether tables were written before it was an option: at its default it leaves
            `definition_hash` as it was.
    """

    name: str
    scope: str
    meaning: str
    choices: tuple[Choice, ...]
    of_days: bool = False
    later: bool = False

    def choice(self, value: object) -> Choice:
        """The row of a value; a mapping is the choice `table`.

        Raises:
            SpecError: If the value is unknown.
        """
        name = "table" if isinstance(value, GainTable) else value
        if isinstance(value, int | float) and not isinstance(value, bool):
            name = str(value) if str(value) in self._choice_by_name else "number"
        if isinstance(name, str) and name in self._choice_by_name and value != "number":
            return self._choice_by_name[name]
        raise SpecError(unknown(f"value for {self.name}", value, [*self._choice_by_name]))

    @cached_property
    def _choice_by_name(self) -> Mapping[str, Choice]:
        return {choice.name: choice for choice in self.choices}

    @property
    def takes_fractions(self) -> bool:
        """Whether its number may be a fraction, 0 or negative."""
        return any(not choice.is_whole for choice in self.choices)

    def defines(self, value: object) -> bool:
        """Whether a value is a part of the definition of a metric."""
        return not (self.later and value == self.choices[0].name)


def is_number(value: object) -> bool:
    """Whether a value is a finite number, as a DOUBLE holds it."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


@dataclass(frozen=True)
class Difference:
    """Metrics of which a tool's number is another than the one by its preset.

    Attributes:
        metrics: Their names.
        reason: How the tool computes it, and what gives its number, if something does.
        uncut: Whether the two differ only without a cutoff.
    """

    metrics: tuple[str, ...]
    reason: str
    uncut: bool = False


@dataclass(frozen=True)
class Preset:
    """A named set of choices.

    Attributes:
        note: Whose conventions they are.
        options: Option -> value; the house's holds for the others.
        metrics: Metric -> options that hold for that metric alone.
        caveat: What a reader of its numbers should know, if anything.
        only: The metrics that the tool has, where it has few: `reconcile` names it for no other.
        differences: What it does not reproduce; a result says so beneath such a metric.
        decimals: How many decimals the tool prints its means with, and tables of values have.
    """

    note: str
    options: Mapping[str, Value] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    caveat: str = ""
    only: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    decimals: int = DECIMALS

    def has(self, metric: str, k: int | None) -> bool:
        """Whether a number of a metric can be the tool's."""
        return (not self.only or metric in self.only) and not self.why_different(metric, k)

    def why_different(self, metric: str, k: int | None) -> str:
        """How the tool's number of a metric differs; empty if it does not."""
        reasons = (
            difference.reason
            for difference in self.differences
            if metric in difference.metrics and not (difference.uncut and k)
        )
        return next(reasons, "")

    @property
    def departures(self) -> list[str]:
        """How it departs from the house, one text an option."""
        own_options = [f"{name}={value}" for name, value in self.options.items()]
        alone = [
            f"{name}={value} for {metric}"
            for metric, options in self.metrics.items()
            for name, value in options.items()
        ]
        return own_options + alone
