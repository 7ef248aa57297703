"""An option: its choices, and the values that people write for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlmetrics.errors import SpecError, unknown


def plain(value: float) -> str:
    """A number without a needless `.0`."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


class Table(dict[float, float]):
    """A gain table, grade -> gain, that can be a part of a frozen value."""

    def __str__(self) -> str:
        return f"{{{', '.join(f'{plain(grade)}: {plain(gain)}' for grade, gain in self.items())}}}"

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


Value = str | int | Table


@dataclass(frozen=True)
class Choice:
    """One value of an option.

    Attributes:
        name: What users write.
        meaning: One line for people.
        sql: The text it becomes; {grade}, {rank}, {relevant}, {score}, {value} are
            filled in by the plan. Empty where the choice is not a piece of text.
        over: For `ideal`: whose order it is, `ideal` (labels) or `ideal_shown`.
        cut: For `ideal`: whether the metric's cutoff holds for the ideal order too.
        only: For `average_over`: the flags of the queries that the mean runs over.
        needs: What metrics need beside rankings and labels if it holds; see `Metric`.
        adds: What it adds to the parts of its metric, by the part's name, as SQL over
            {parts}; a part of a new name is made of it. `weight` is what a query weighs
            in the mean.
    """

    name: str
    meaning: str
    sql: str = ""
    over: str = "ideal"
    cut: bool = True
    only: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    adds: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Option:
    """One convention: its choices, the house default first.

    Attributes:
        scope: `metric` if a metric's text may set it, `spec` if it holds for all.
    """

    name: str
    scope: str
    meaning: str
    choices: tuple[Choice, ...]

    def choice(self, value: object) -> Choice:
        """The row of a value; a mapping is the choice `table`.

        Raises:
            SpecError: If the value is unknown.
        """
        name = "table" if isinstance(value, Table) else value
        if isinstance(value, int) and not isinstance(value, bool):
            name = "number"
        for choice in self.choices:
            if choice.name == name and value != "number":
                return choice
        known = [choice.name for choice in self.choices]
        raise SpecError(unknown(f"value for {self.name}", value, known))


def put_together(parts: Mapping[str, str], choices: Iterable[Choice]) -> dict[str, str]:
    """The parts of a metric, with what choices add to them.

    >>> half = Choice("half", "", adds={"above": "5e-1 * {tied}", "weight": "{tied}"})
    >>> put_together({"above": "a", "tied": "t"}, [half])
    {'above': '(a + 5e-1 * t)', 'tied': 't', 'weight': 't'}
    """
    whole = dict(parts)
    for choice in choices:
        for name, text in choice.adds.items():
            added = text.format(**whole)
            wrap = "\n    " if len(whole.get(name, "") + added) > 60 else " "
            whole[name] = f"({whole[name]}{wrap}+ {added})" if name in whole else added
    return whole


def is_number(value: object) -> bool:
    """Whether a value is a finite number, as a DOUBLE holds it."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
