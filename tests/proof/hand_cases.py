"""The cases worked out by hand, read from `tests/cases`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from memory import evaluate

import sqlmetrics as sm

Row = dict[str, str | float | None]
Tables = Sequence[list[Row]]
ABSENT = "absent"
ROLES = ("query", "item", "score", "rank", "grade", "system", "date", "weight")


@dataclass(frozen=True, eq=False)
class Case:
    """One case of a file, as it is written there."""

    name: str
    why: str
    lists: str
    labels: str
    expect: Mapping[str, Any] = field(default_factory=dict)
    conventions: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    preset: str = "house"
    rank: bool = False
    items: str = ""
    baseline: str | None = None
    refused: str = ""
    prints: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def metric_texts(self) -> tuple[str, ...]:
        """The texts of the metrics to compute."""
        return tuple(self.metrics or self.expect)

    @property
    def policies(self) -> str:
        """What cases have in common that can stand in one table; empty if this one cannot."""
        columns = {name for line in _lines(self.lists) + _lines(self.labels) for name in line}
        of_its_own = (self.by, self.items, self.baseline, columns - {"query", "items"})
        refuses = any(word in " ".join(self.metric_texts) for word in ("{", "max_grade"))  # grades
        if any(of_its_own) or refuses or ABSENT in str(self.expect):
            return ""
        return f"{self.preset} {'by rank ' * self.rank}{sorted(self.conventions.items())}"

    def tables(self) -> tuple[list[Row], list[Row]]:
        """The rows of the rankings, and of the labels."""
        order = "rank" if self.rank else "score"
        rankings = _rows(self.lists, order, _countdown if order == "score" else _countup)
        return rankings, _rows(self.labels, "grade", lambda position, length: 1.0)

    def evaluated(self, tables: Tables = (), **options: Any) -> sm.Result:
        """The case by SQL, from Arrow tables; or others by its policies."""
        rankings, labels = tables or self.tables()
        columns = {role: role for role in ROLES if role in rankings[0] and role != "score"}
        columns |= {"group": "group"} if "group" in labels[0] else {}
        columns = {"score": "score", "item": "item", "query": "query", "by": self.by} | columns
        return evaluate(
            pa.Table.from_pylist(rankings),
            pa.Table.from_pylist(labels),
            cell=self.name,
            preset=self.preset,
            items=pa.Table.from_pylist(_catalogue(self.items)) if self.items else None,
            baseline=self.baseline,
            **({"metrics": self.metric_texts} | columns | self.conventions | options),
        )


def _read(path: Path) -> Iterator[Case]:
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    for entry in tables["case"]:
        data = tables["data"][entry.pop("data")] if "data" in entry else {}
        yield Case(**(data | entry))


CASES = [
    case
    for path in sorted((Path(__file__).parents[1] / "cases").glob("*.toml"))
    for case in _read(path)
]
ANSWERED = [case for case in CASES if case.expect]


def _rows(text: str, number: str, default: Callable[[int, int], float]) -> list[Row]:
    """The rows of a table of lists: one row per item."""
    return [
        {
            **{name: _cell(name, cell) for name, cell in line.items() if name != "items"},
            "query": query,
            "item": item,
            number: value,
        }
        for line in _lines(text)
        for query in _queries(line["query"])
        for item, value in _items(line["items"], default)
    ]


def _catalogue(text: str) -> list[dict[str, Any]]:
    """The rows of the items table."""
    if "|" not in text:
        return [{"item": item} for item in text.split()]
    numbers: Mapping[str, Callable[[str], Any]] = {
        "popularity": float,
        "users": float,
        "price": float,
        "vector": lambda cell: [float(number) for number in cell.split()],
    }
    return [
        {name: numbers.get(name, str)(cell) if cell else None for name, cell in line.items()}
        for line in _lines(text)
    ]


def _lines(text: str) -> list[dict[str, str]]:
    if "|" not in text:
        return [{"query": "q", "items": text}]
    header, *lines = [
        [cell.strip() for cell in line.split("|")] for line in text.split("\n") if line
    ]
    return [dict(zip(header, line, strict=True)) for line in lines]


def _cell(name: str, cell: str) -> str | float | None:
    return float(cell) if name == "weight" else cell or None


def _queries(text: str) -> list[str]:
    many = re.fullmatch(r"([a-z]*)(\d+)\.\.(\d+)", text)
    if many is None:
        return [unquote(text)]
    return [f"{many[1]}{number}" for number in range(int(many[2]), int(many[3]) + 1)]


def _items(text: str, default: Callable[[int, int], float]) -> Iterator[tuple[str, float]]:
    words = text.split()
    for position, word in enumerate(words):
        item, colon, number = word.rpartition(":")
        value = _number(number) if colon else default(position, len(words))
        yield unquote(item if colon else word), value


def _number(text: str) -> float:
    """A number as it is written: a float may round a long one."""
    return int(text) if text.isdecimal() and len(text) > 15 else float(text)


def _countdown(position: int, length: int) -> float:
    return length - position


def _countup(position: int, length: int) -> float:
    return position + 1
