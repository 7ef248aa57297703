"""A number that a gate does not let through, in words: the same of a comparison and a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.tables.table import many, printable, probability

MOST_LOST = 3
"""As many of the queries that lost are told."""
LONGEST_QUERY = 60
"""As many characters of a query are told."""

QUERIES = "query", "queries"

HAS_ROW = "has a row"
"""The rule that a system and a segment have a number on the day at all."""


@dataclass(frozen=True)
class Change:
    """How far a value is from what it is compared with.

    Attributes:
        difference: The value less the other one.
        low: The lower end of the difference's interval; None if there is no interval.
        high: The upper end.
        level: What the interval covers, like 0.95.
        p_value: Of no difference, adjusted where several are tested; None if it is not known.
        confidence: The p-value is held against 1 less this.
    """

    difference: float
    low: float | None = None
    high: float | None = None
    level: float = CONFIDENCE
    p_value: float | None = None
    confidence: float = CONFIDENCE


@dataclass(frozen=True)
class Lost:
    """A query that lost.

    Attributes:
        query: Its text, its id where it has none.
        value: The metric's value.
        compared: That of what it is compared with.
    """

    query: str
    value: float
    compared: float

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Lost:
        """The query of a row with `query_text`, `query_id`, `value` and `baseline_value`."""
        query = row.get("query_text") or row["query_id"]
        return cls(str(query), float(row["value"]), float(row["baseline_value"]))


@dataclass(frozen=True)
class Failure:
    """A number that a gate does not let through; its text is what all recipients are told.

    Attributes:
        rule: What it breaks, like `worse` or `max_drop 0.01 against previous`.
        metric: The metric, or what is asked of a table; empty for all rows of a system.
        spec: The spec; empty if there is none.
        when: The day or days, like `on 2026-01-31`; empty where the data have none.
        system: The system; empty for a table as a whole.
        segment: The segment, like `country=DE`; empty for all queries.
        value: The value; None if there is none.
        against: What it is compared with: a system, or a day; empty if with nothing.
        compared: The value of that.
        change: How far it is from that, with its interval; None if that is not known.
        n: How many queries the value is a mean of; None if that is not known.
        counted: What `n` counts, one and several.
        lost: The queries that lost most.
        note: What else should be known.
    """

    rule: str
    metric: str
    spec: str = ""
    when: str = ""
    system: str = ""
    segment: str = ""
    value: float | None = None
    against: str = ""
    compared: float | None = None
    change: Change | None = None
    n: int | None = None
    counted: tuple[str, str] = QUERIES
    lost: Sequence[Lost] = ()
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Its text, and the numbers in it, as values that JSON has."""
        change = self.change or Change(0.0)
        return {
            "text": str(self),
            "spec": self.spec or None,
            "value": self.value,
            "compared": self.compared,
            "against": self.against or None,
            "difference": change.difference if self.change else None,
            "relative": (
                change.difference / abs(self.compared) if self.change and self.compared else None
            ),
            "ci_low": change.low,
            "ci_high": change.high,
            "ci_level": change.level if change.low is not None else None,
            "p_value": change.p_value,
            "n": self.n,
            "lost": [vars(query) for query in self.lost],
        }

    def __str__(self) -> str:
        system = printable(self.system) if self.system else ""
        of_system = [f"of {printable(system)}"] if system else []
        subject = " ".join(
            [
                *([printable(self.metric), *of_system] if self.metric else [system]),
                *([f"({printable(self.segment)})"] if self.segment else []),
                *([self.when] if self.when else []),
            ]
        )
        spec = f"{printable(self.spec)}: " if self.spec else ""
        if self.rule == HAS_ROW:
            return f"{spec}{subject} has no row{f': {self.note}' if self.note else ''}"
        note = f" ({self.note})" if self.note else ""
        line = f"{spec}{subject} {', '.join(self._numbers())}: {self.rule}{note}"
        return "\n".join([line, *self._lost()])

    def _numbers(self) -> list[str]:
        numbers = ["has no value" if self.value is None else f"is {value_text(self.value)}"]
        if self.compared is not None:
            reference = f" of {printable(self.against)}" if self.against else ""
            numbers.append(f"compared with {value_text(self.compared)}{reference}")
        if self.change is not None:
            numbers.append(self._change(self.change))
            if self.change.p_value is not None:
                p = probability(self.change.p_value, self.change.confidence, decimals=3)
                numbers.append(f"p {p[0]} {p[1:]}" if p.startswith("<") else f"p = {p}")
        if self.n is not None:
            numbers.append(many(self.n, *self.counted))
        return numbers

    def _change(self, change: Change) -> str:
        """The difference with its interval, in percent of what it is compared with."""
        scale = 100 / abs(self.compared) if self.compared else 1
        digits, unit = (1, " %") if self.compared else (4, "")

        def signed(number: float) -> str:
            return f"{number * scale:+.{digits}f}"

        if change.low is None or change.high is None:
            return f"{signed(change.difference)}{unit}"
        ends = f"{signed(change.low)} to {signed(change.high)}{unit}"
        return f"{signed(change.difference)}{unit} ({100 * change.level:.4g} % interval {ends})"

    def _lost(self) -> list[str]:
        if not self.lost:
            return []
        moves = (
            f"{printable(query.query, LONGEST_QUERY)!r} {value_text(query.compared)} to "
            f"{value_text(query.value)}"
            for query in self.lost[:MOST_LOST]
        )
        return [f"  lost most: {', '.join(moves)}"]


def value_text(value: float | None) -> str:
    """A value of a metric, or a count; empty where there is none.

    >>> value_text(0.25), value_text(12345), value_text(12.0), value_text(None)
    ('0.2500', '12,345', '12', '')
    """
    if value is None:
        return ""
    if isinstance(value, int):  # a count
        return f"{value:,}"
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) > 1 else f"{value:.4f}"
