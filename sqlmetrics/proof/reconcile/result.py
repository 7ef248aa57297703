"""What gives a number: the candidates, and what chance would have given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlmetrics.catalog.measure import Measure, Setting
from sqlmetrics.proof.reconcile.target import Target
from sqlmetrics.tables.tabular import ArrowTables, Row, Tabular, arrow_tables, kinds_of

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
        given: How many per-query values there were.
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
    given: int
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
        from sqlmetrics.proof.reconcile.text import text

        return text(self)

    def html(self) -> str:
        """The same for a page: a candidate is one row there."""
        from sqlmetrics.proof.reconcile.text import html

        return html(self)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "metric": str(self.measure),
            "value": self.target.text if self.target else None,
            "given": self.given,
            "tried": self.tried,
            "values": self.values,
            "most_departures": self.most,
            "expected_by_chance": self.expected_by_chance,
            "needless": self.needless,
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "nearest": [candidate.to_dict() for candidate in self.nearest],
            "notes": [*self.notes],
        }
