"""What a click log says: its cleaning, its online metrics, and those of its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.catalog.online import Online
from sqlmetrics.clicks.cleaning_report import Step, text
from sqlmetrics.evaluation.report.result import Result, summary_schema
from sqlmetrics.evaluation.report.table import aligned, metric_value
from sqlmetrics.spec.spec import Spec

Rows = Sequence[Mapping[str, Any]]

SCHEMA = summary_schema()
"""The columns of the fact table."""


@dataclass(frozen=True, repr=False)
class ClickResult:
    """The numbers of a click log; it prints as tables.

    Attributes:
        spec: What was asked.
        steps: What the cleaning left out, step by step.
        rows: `impressions` or an action -> how many rows were logged, and how many are left.
        findings: What is odd about the log, and how often.
        offline: The metrics of the lists that were shown, with answers as labels; None if no
            such metric was asked for.
        notes: What was taken for what, where nobody said it.
    """

    spec: Spec
    steps: tuple[Step, ...]
    rows: Mapping[str, tuple[int, int]]
    findings: Mapping[str, int]
    offline: Result | None
    _online: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()

    def online(self) -> pa.Table:
        """One row per online metric, day, system and segment: the fact table's columns.

        value = numerator / denominator, NULL where the denominator is 0; n_queries are the
        requests. There is no sum of squares.
        """
        return pa.Table.from_pylist(list(self._online), SCHEMA)

    def facts(self) -> pa.Table:
        """The rows of the fact table: online metrics, and those of the lists."""
        return pa.concat_tables(
            [self.online(), *([self.offline.summary().cast(SCHEMA)] if self.offline else [])]
        )

    def cleaning(self) -> str:
        """The report of the cleaning as a table."""
        return text(self.steps, self.rows)

    def to_dicts(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "cleaning": [vars(step) | {"left_out": step.removed} for step in self.steps],
            "rows": {what: {"logged": n[0], "left": n[1]} for what, n in self.rows.items()},
            "findings": dict(self.findings),
            "online": list(self._online),
            "offline": self.offline.to_dicts() if self.offline else [],
        }

    def markdown(self) -> str:
        """The numbers as tables of Markdown, without the report of the cleaning."""
        from sqlmetrics.evaluation.report.text import markdown, piped

        own = [piped(*_cells(self._online))] if self._online else []
        return "\n\n".join([*own, *([markdown(self.offline)] if self.offline else [])])

    def __repr__(self) -> str:
        odd = "\n".join(f"{what}: {n:,}" for what, n in self.findings.items())
        parts = [
            self.cleaning(),
            odd,
            _table(self._online) if self._online else "",
            repr(self.offline) if self.offline else "",
            "\n".join(self.notes),
        ]
        return "\n\n".join(part for part in parts if part)


def long(
    rows: Sequence[Mapping[str, Any]], asked: Sequence[Online], spec: Spec
) -> list[dict[str, Any]]:
    """The sums of online metrics, one row per metric."""
    return [
        {
            "spec": spec.title,
            "metric_date": row["metric_date"],
            "system": row["system"],
            "segment_name": row["segment_name"],
            "segment_value": row["segment_value"],
            "metric": one.name,
            "k": one.k or 0,
            "value": _ratio(row[f"{one.column}_numerator"], row[f"{one.column}_denominator"]),
            "numerator": row[f"{one.column}_numerator"],
            "denominator": row[f"{one.column}_denominator"],
            "n_queries": row["n_requests"],
            "n_skipped": 0,
            "n_missing": 0,
            "sum_sq": None,
            "definition_hash": spec.definition_hash(one),
        }
        for row in rows
        for one in asked
    ]


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None


PLACES = {"metric_date": "day", "system": "system", "segment_name": "segment", "segment_value": ""}
"""What a line of the table is of, and its head; left out where it is always the same."""


def _table(rows: Rows) -> str:
    heads, cells, first = _cells(rows)
    return aligned(heads, cells, numbers_from=first)


def _cells(rows: Rows) -> tuple[list[str], list[list[str]], int]:
    """One line a day, system and segment, one column per metric: heads, cells, first number."""
    told = {name: {row[name] for row in rows} for name in PLACES}
    places = [name for name in PLACES if len(told[name]) > 1]
    names = list(dict.fromkeys(_name(row) for row in rows))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        line = lines.setdefault(tuple(str(row[name]) for name in PLACES), {})
        line |= {name: str(row[name]) for name in places}
        line |= {_name(row): metric_value(row["value"]), "requests": f"{row['n_queries']:,}"}
    columns = [*places, *names, "requests"]
    cells = [[line[name] for name in columns] for line in lines.values()]
    return [PLACES.get(name, name) for name in columns], cells, len(places)


def _name(row: Mapping[str, Any]) -> str:
    return at_cutoff(row["metric"], row["k"])
