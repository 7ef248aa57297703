"""What gives a number: the candidates, and what chance would have given."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from textwrap import wrap
from typing import Any

from sqlmetrics.catalog.measure import Measure, Setting
from sqlmetrics.catalog.metric import Metric, limits
from sqlmetrics.errors import SpecError
from sqlmetrics.stats import TIED
from sqlmetrics.tables.table import Table, html_notes, many, terminal_width
from sqlmetrics.tables.tabular import ArrowTables, Row, Tabular, arrow_tables, kinds_of

# A number seen elsewhere: what it says, and how far its digits reach.

_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*(%?)\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    """A number with its digits.

    Attributes:
        text: As it was written.
        number: What it says; a percentage as a share.
        unit: What 1 in its last digit is worth.

    >>> target = read("35.06%")
    >>> target.number, target.unit, target.decimals
    (0.3506, 0.0001, 4)
    """

    text: str
    number: float
    unit: float

    @property
    def decimals(self) -> int:
        """How many digits there are behind the point."""
        return max(0, round(-math.log10(self.unit)))

    def is_rounded(self, value: float) -> bool:
        """Whether a value, rounded to as many digits, is the number."""
        return abs(value - self.number) <= self.unit / 2 + TIED

    def is_cut(self, value: float) -> bool:
        """Whether a value, cut off after as many digits, is the number."""
        return -TIED <= value - self.number < self.unit - TIED


def read(value: object) -> Target:
    """A number as people write it: `0.3506`, `.3506`, `35.06%`.

    Raises:
        SpecError: If it is none, or not finite.
    """
    text = str(value).strip()
    match = _NUMBER.fullmatch(text)
    if isinstance(value, bool) or match is None:
        raise SpecError(f"value must be a number like 0.3506 or 35.06%, given {value!r}")
    number = Decimal(match[1])
    exponent = int(number.as_tuple().exponent)
    if match[2]:
        number, exponent = number / 100, exponent - 2
    if not -300 < exponent < 300 or not math.isfinite(float(number)):
        raise SpecError(f"value must be a number like 0.3506 or 35.06%, given {value!r}")
    return Target(text, float(number), float(Decimal(10) ** exponent))


def checked(target: Target, metric: Metric) -> Target:
    """The number, if the metric can be it.

    Raises:
        SpecError: If it is out of the metric's range.
    """
    least, most = limits(metric.range)
    low, high = -math.inf if least is None else least, math.inf if most is None else most
    if low - target.unit / 2 <= target.number <= high + target.unit / 2:
        return target
    percent = "; write a percentage like 35.06%" if low <= target.number / 100 <= high else ""
    raise SpecError(
        f"{metric.name} is {metric.range}, so it cannot be {target.text}"
        + (percent if high == 1 and target.number > 1 else "")
    )


_OF_JSON = (
    *("presets", "departures", "cut", "decimals", "words", "metric", "value", "same"),
    *("by_chance", "explained", "beyond", "mistakes", "advice", "other_metric"),
)
"""What the JSON of a candidate has, in this order."""


@dataclass(frozen=True)
class Candidate:
    """Conventions that give the number.

    Attributes:
        presets: The presets that they depart from least; all of them give the same.
        departures: The options in which they depart from these, with their values.
        words: The same as a sentence.
        metric: The metric's text to evaluate with: with `rel`, if that departs.
        value: What they give: the mean; None for per-query values.
        cut: Whether the number is theirs only if it was cut off, not rounded.
        same: How many other combinations give the very same value.
        by_chance: How many values that come about with as few departures would match by
            accident; None for per-query values.
        explained: How many of the per-query values they give; 0 for a mean.
        beyond: How many queries count by them that have no per-query value.
        mistakes: The known mistakes of hand-written SQL that give the same; without presets,
            it is these alone that give it.
        advice: What to write instead of the first of them.
        decimals: To how many decimals the tools of these presets had rounded the mean, where
            the number shows that; 0 where it does not.
        other_metric: Whether they give it for another metric or cutoff than the one that was
            named: `metric` is that one.
    """

    presets: tuple[str, ...]
    departures: Mapping[str, Setting]
    words: str
    metric: str
    value: float | None
    cut: bool
    same: int
    by_chance: float | None
    explained: int = 0
    beyond: int = 0
    mistakes: tuple[str, ...] = ()
    advice: str = ""
    decimals: int = 0
    other_metric: bool = False

    @property
    def distance(self) -> int:
        """How many departures it takes.

        That a number is cut off is one, and so are a mistake and another metric.
        """
        return len(self.departures) + self.cut + (not self.presets) + self.other_metric

    @property
    def conventions(self) -> dict[str, Setting]:
        """The departures as `evaluate` takes them, beside the preset and the metric."""
        return {name: value for name, value in self.departures.items() if name != "rel"}

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        values = vars(self) | {
            "presets": list(self.presets),
            "departures": {name: str(value) for name, value in self.departures.items()},
            "mistakes": list(self.mistakes),
        }
        return {name: values[name] for name in _OF_JSON}


@dataclass(frozen=True, repr=False)
class Reconciliation(Tabular):
    """What gives a number; it prints as a table.

    Attributes:
        measure: The metric.
        target: The number, None for per-query values.
        candidates: What gives it, the fewest departures first.
        needless: How many more would give it too, but depart further from a preset than a
            candidate that departs in a part of their options.
        nearest: If nothing does: what comes nearest.
        tried: How many combinations of options there were.
        values: How many different values they gave; 0 for per-query values.
        n_given: How many per-query values there were.
        most: With how many departures at most.
        expected_by_chance: How many of all values would match by accident; None for
            per-query values.
        executed_sql: The statement that ran.
        notes: What should be known of how the tables were read.
    """

    measure: Measure
    target: Target | None
    candidates: tuple[Candidate, ...]
    needless: int
    nearest: tuple[Candidate, ...]
    tried: int
    values: int
    n_given: int
    most: int
    expected_by_chance: float | None
    executed_sql: str
    notes: tuple[str, ...] = ()

    def to_dicts(self) -> list[Row]:
        """One dict a candidate, of the keys that its object in `to_dict` has."""
        return [candidate.to_dict() for candidate in self.candidates]

    def _arrow_tables(self) -> ArrowTables:
        candidates_by_table = {"candidates": self.candidates, "nearest": self.nearest}
        rows = {
            table: [
                vars(candidate)
                | {"presets": ", ".join(candidate.presets), "n_departures": candidate.distance}
                for candidate in candidates
            ]
            for table, candidates in candidates_by_table.items()
        }
        kinds = {"presets": "string", "n_departures": "int64", **kinds_of(Candidate)}
        return arrow_tables(rows, dict.fromkeys(rows, kinds))

    def text(self) -> str:
        """What gives the number, how many were tried, and what chance would have given."""
        return text(self)

    def html(self) -> str:
        """The same for a page: a candidate is one row there."""
        return html(self)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "metric": str(self.measure),
            "value": self.target.text if self.target else None,
            "given": self.n_given,
            "tried": self.tried,
            "values": self.values,
            "most_departures": self.most,
            "expected_by_chance": self.expected_by_chance,
            "needless": self.needless,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "nearest": [candidate.to_dict() for candidate in self.nearest],
            "notes": [*self.notes],
        }


# A reconciliation as text.

WIDTH = 88
WORDS = 56
NARROW = 24
NUMBERS = 34
"""What the columns before the words take, about."""
PRINTED_CANDIDATES = 10
LIKELY = 0.3
"""From so many accidental matches on a match says little."""


def text(reconciliation: Reconciliation) -> str:
    """What gives the number, how many were tried, and what chance would have given."""
    head = _head(reconciliation)
    table = _table(reconciliation, reconciliation.candidates or reconciliation.nearest)
    return "\n\n".join(
        filter(None, [head, table, "\n".join(map(_wrapped, _notes(reconciliation)))])
    )


def html(reconciliation: Reconciliation) -> str:
    """The same for a notebook: a candidate is one row there."""
    names, digits = _names(reconciliation)
    candidates = (reconciliation.candidates or reconciliation.nearest)[:PRINTED_CANDIDATES]
    rows = [[*_numbers(candidate, digits), candidate.words] for candidate in candidates]
    ordered = [[*row[:1], row[3], *row[1:3]] for row in rows]  # texts stand before numbers
    heads = [names[0], names[3], *names[1:3]]
    table = Table(heads, ordered, 2, notes=list(_notes(reconciliation)))
    return html_notes([_head(reconciliation)]) + table.html()


def _names(reconciliation: Reconciliation) -> tuple[list[str], int]:
    """The headings, and how many decimals a value is shown with."""
    if reconciliation.target is None:
        return ["departures", "explained", "not given", "conventions"], 0
    return ["departures", "value", "by chance", "conventions"], reconciliation.target.decimals + 2


def _numbers(candidate: Candidate, digits: int) -> list[str]:
    """How far a candidate departs, and its numbers."""
    numbers = [f"{candidate.explained:,}", f"{candidate.beyond:,}"]
    if candidate.value is not None:
        numbers = [f"{candidate.value:.{digits}f}", _odds(candidate.by_chance)]
    return [str(candidate.distance), *numbers]


def _head(reconciliation: Reconciliation) -> str:
    heading = (
        f"{reconciliation.measure} = {reconciliation.target.text}"
        if reconciliation.target
        else f"{reconciliation.measure}"
    )
    if reconciliation.target is None:
        heading += f", {many(reconciliation.n_given, 'per-query value')}"
    if reconciliation.candidates:
        first = reconciliation.candidates[0]
        return f"{heading}: this is {first.metric}" if first.other_metric else heading
    return _wrapped(f"{heading}: no combination matches. The nearest:")


def _table(reconciliation: Reconciliation, candidates: Sequence[Candidate]) -> str:
    shown_candidates = candidates[:PRINTED_CANDIDATES]
    names, digits = _names(reconciliation)
    table = Table(
        names, [row for candidate in shown_candidates for row in _rows(candidate, digits)]
    ).text()
    n_hidden = len(candidates) - len(shown_candidates)
    return f"{table}\n... and {n_hidden:,} more" if n_hidden > 0 else table


def _rows(candidate: Candidate, digits: int) -> Iterator[list[str]]:
    """A candidate: its numbers, and its words on as many lines as they need."""
    room = min(WORDS, max(NARROW, (terminal_width() or WIDTH) - NUMBERS))
    first, *other_lines = wrap(
        candidate.words,
        room,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield [*_numbers(candidate, digits), first]
    yield from (["", "", "", line] for line in other_lines)


def _notes(reconciliation: Reconciliation) -> Iterator[str]:
    yield from (f"note: {note}" for note in reconciliation.notes)
    yield from _verdict(reconciliation)
    mistakes = [
        candidate
        for candidate in reconciliation.candidates[:PRINTED_CANDIDATES]
        if candidate.mistakes and candidate.distance
    ]
    for advice in dict.fromkeys(candidate.advice for candidate in mistakes):
        yield f"what to do: {advice}"
    if reconciliation.needless:
        yield (
            f"not shown: {many(reconciliation.needless, 'combination')} that would match with more "
            "departures than needed"
        )
    about = (
        f"tried: {reconciliation.tried:,} combinations with up to "
        f"{_departures(reconciliation.most)} from a preset"
    )
    if reconciliation.target is None:
        yield about
        yield "not given: queries that count by these conventions but have no given value"
        return
    yield (
        f"{about}; they give {reconciliation.values:,} different values; "
        f"chance alone would match {_odds(reconciliation.expected_by_chance)} of them to "
        f"{many(reconciliation.target.decimals, 'decimal')}"
    )
    if reconciliation.candidates:
        yield "by chance: that number among the values with no more departures than the line"


def _verdict(reconciliation: Reconciliation) -> Iterator[str]:
    if not reconciliation.candidates:
        return
    first = reconciliation.candidates[0]
    fewest = [
        candidate for candidate in reconciliation.candidates if candidate.distance == first.distance
    ]
    values = len({candidate.value for candidate in fewest})
    if len(fewest) > 1:
        with_many = _departures(first.distance)
        values_note = f" give {values} different values" if values > 1 else " give the same value"
        yield (
            f"several match: {len(fewest)} lines with "
            f"{with_many}{values_note if reconciliation.target else ''}"
        )
    elif len(first.presets) > 1:
        yield f"several match: {len(first.presets)} presets give the same value on this data"
    if first.same:
        combinations = many(first.same, "other combination")
        yield f"the same as the first line: {combinations}, whose options change nothing here"
    if reconciliation.target and (first.by_chance or 0) > LIKELY:
        yield "this may well be a coincidence: more digits or per-query values would tell"


def _departures(number: int) -> str:
    return f"{number} departure{'' if number == 1 else 's'}"


def _odds(expected: float | None) -> str:
    """How many values would match by chance, as it is read.

    >>> _odds(0.0001), _odds(1.26), _odds(330.4)
    ('<0.001', '1.3', '330')
    """
    if expected is None:
        return "-"
    if 0 < expected < 0.001:
        return "<0.001"
    return f"{expected:.2g}" if expected < 99.5 else f"{expected:,.0f}"


def _wrapped(line: str) -> str:
    return "\n".join(wrap(line, min(WIDTH, terminal_width() or WIDTH), subsequent_indent="    "))


# How many values would match a number by accident.

NEIGHBOURS = 20
ALIKE = 10
"""Values with so many equal decimals are one value."""


def distinct_by_chance(values: Iterable[float]) -> list[float]:
    """The values in order, those that are the same but for their last bits once."""
    return sorted({round(value, ALIKE): value for value in values}.values())


def expected_by_chance(values: Sequence[float], number: float, unit: float) -> float:
    """How many of some values to expect within half a unit of a number that is none of theirs.

    They are as dense there as around it: on both sides as far as the nearest `NEIGHBOURS`
    of those that do not match reach, and a unit at least.

    >>> round(expected_by_chance([i / 1000 for i in range(1001)], 0.5, 0.0001), 2)
    0.1
    """
    edge = unit / 2
    distances = sorted(abs(value - number) for value in values)
    distances = [distance for distance in distances if distance > edge]
    if not distances:
        return 0.0
    reach = max(distances[:NEIGHBOURS][-1], edge + unit)
    near = sum(distance <= reach for distance in distances)
    return near * unit / (2 * (reach - edge))
