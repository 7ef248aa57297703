"""A stratified sample of queries: its rows, its strata, and its file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from math import floor
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlmetrics.annotation import csv_file
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.output_files import note_read
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.arguments import check_count
from sqlmetrics.plan.plan import Plan
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import literal
from sqlmetrics.tables.table import many

# Strata of pairs by depth: the best ranks that lists show an item at, each with a sampling rate.
#
# As for the pools of TREC: the top of all lists is graded whole, and a share of what is deeper.

RANKS = "ranks"
"""The column of a sample that says from which ranks a pair was drawn, like `11-100`."""

_BAND = re.compile(r"([1-9]\d*)-([1-9]\d*)")


@dataclass(frozen=True)
class RankBands:
    """Ranges of ranks, the best first.

    Attributes:
        bands: The first and the last rank of each.
    """

    bands: tuple[tuple[int, int], ...] = ()

    @classmethod
    def until(cls, ranks: Iterable[int]) -> RankBands:
        """The ranges that end at some ranks.

        >>> RankBands.until([100, 10]).names
        ('1-10', '11-100')
        """
        ends = sorted(ranks)
        return cls(tuple(zip([1, *(end + 1 for end in ends)], ends, strict=False)))

    @classmethod
    def named(cls, names: Iterable[str]) -> RankBands:
        """The ranges of some names, for each of which `is_band` holds."""
        ends = (name.partition("-") for name in {*names})
        return cls(tuple(sorted((int(first), int(last)) for first, _, last in ends)))

    @property
    def names(self) -> tuple[str, ...]:
        """What the ranges are called."""
        return tuple(f"{first}-{last}" for first, last in self.bands)

    def of(self, column: str) -> str:
        """The name of the range that a rank is in, as SQL."""
        whens = [
            f"    when {column} between {first} and {last} then {literal(name)}"
            for (first, last), name in zip(self.bands, self.names, strict=True)
        ]
        return "\n".join(["case", *whens, "end"])


def is_band(name: str) -> bool:
    """Whether a text is the name of a range of ranks.

    >>> is_band("11-100"), is_band("11"), is_band("7-3")
    (True, False, False)
    """
    match = _BAND.fullmatch(name)
    return match is not None and int(match[1]) <= int(match[2])


def check_rates(rates: Mapping[int, float]) -> None:
    """Raise SpecError for a last rank or a share that is none."""
    for rank, share in rates.items():
        check_count("the rank of a rate", rank)
        if not 0 < share <= 1:
            raise SpecError(
                f"the rate down to rank {rank} must be a share above 0 and up to 1, like 0.2, "
                f"given {share:g}"
            )


def drawn(rates: Mapping[int, float], name: str, population: int, least: int) -> int:
    """How many pairs of a range are drawn: its share, rounded, but so many at least."""
    share = rates[int(name.rpartition("-")[2])]
    return max(min(least, population), floor(share * population + 0.5))


KEYS = ("metric_date", "query_id")
ITEM = "item_id"
TRAFFIC, WEIGHT, DEPTH = "traffic", "weight", "k"
DESIGN = ("stratum_size", "sample_size", "probability", "sampling_weight")

Key = tuple[str, ...]
"""A query, as the texts of its keys; or a stratum, as those of its columns."""

_NUMBERS = {
    WEIGHT: float,
    DEPTH: int,
    DESIGN[0]: int,
    DESIGN[1]: int,
    DESIGN[2]: float,
    DESIGN[3]: float,
}


@dataclass(frozen=True)
class Sample:
    """The sampled queries, or pairs of a query and an item, each with its stratum.

    Attributes:
        names: The columns: `metric_date` if the rankings have days, `query_id`, of pairs `item_id`,
            the strata (`by_<segment>`, `traffic`, of pairs `ranks`), `weight` if there is one, of
            pairs the last rank that they were drawn from (`k`), then DESIGN: how many queries or
            pairs the stratum has (N) and how many were drawn (n), the inclusion probability n / N
            and the sampling weight N / n.
        rows: One row per sampled query or pair.
        executed_sql: The statements that drew it, empty if it was read from a file.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    executed_sql: str = ""

    @classmethod
    def read(cls, path: str | Path) -> Sample:
        """The sample of a file that `str(sample)` was written to.

        Raises:
            InputError: If a column is missing or unknown, a number is none, a query
                stands twice, or rows are missing: the estimates need all of them.
        """
        note_read(path)
        records = csv_file.read(path)
        problems = list(_column_problems(records.names))
        if problems:
            raise InputError([f"{str(path)!r}: {problem}" for problem in problems])
        pairs = zip(records.rows, records.lines, strict=True)
        rows = tuple(_values(records.names, row, f"{str(path)!r} line {n}") for row, n in pairs)
        sample = cls(records.names, rows)
        problems = list(sample._problems())
        if problems:
            raise InputError([f"{str(path)!r}: {problem}" for problem in problems])
        return sample

    def __str__(self) -> str:
        """The sample as CSV; `read` gives back the same."""
        rows = ([v.isoformat() if isinstance(v, date) else v for v in row] for row in self.rows)
        return csv_file.csv_text(self.names, rows)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The columns that a query is identified by."""
        return tuple(name for name in KEYS if name in self.names)

    @cached_property
    def has_items(self) -> bool:
        """Whether pairs of a query and an item were drawn, not queries."""
        return ITEM in self.names

    @property
    def units(self) -> str:
        """What was drawn, in words."""
        return "pairs" if self.has_items else "queries"

    @cached_property
    def unit_keys(self) -> tuple[str, ...]:
        """The columns that a row is identified by."""
        return (*self.keys, ITEM) if self.has_items else self.keys

    @cached_property
    def depth(self) -> int:
        """The last rank that pairs were drawn from."""
        return int(self.column(DEPTH)[0])

    @cached_property
    def strata_names(self) -> tuple[str, ...]:
        """The columns that make the strata."""
        return tuple(name for name in self.names if _is_stratum(name))

    @cached_property
    def bands(self) -> RankBands:
        """The ranges of ranks that make strata of pairs; none if they do not."""
        return RankBands.named(self.column(RANKS)) if RANKS in self.names else RankBands()

    def column(self, name: str) -> list[Any]:
        """The values of a column, in the order of the rows."""
        return [row[self.names.index(name)] for row in self.rows]

    def of(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """The values of several columns, a tuple a row."""
        places = [self.names.index(name) for name in names]
        return [tuple(row[index] for index in places) for row in self.rows]

    def texts(self, names: Sequence[str]) -> list[Key]:
        """The values of several columns as texts, a tuple a row."""
        return [tuple(map(str, row)) for row in self.of(names)]

    def stage(self, plan: Plan, engine: Database) -> Stage:
        """The stage `sample_queries`, one row per sampled query, with the data behind it.

        Raises:
            SpecError: If the sample has days and the spec has none, or the other way round.
        """
        if self.keys != plan.shape.query_keys:
            has = "has no days" if "metric_date" in plan.shape.query_keys else "has days"
            raise SpecError(
                f"the sample {has}, unlike the rankings of the spec; draw the sample again"
            )
        keys = self.unit_keys
        texts = {key: pa.array(map(str, self.column(key)), pa.string()) for key in keys}
        table = engine.register("sqlmetrics_sample", pa.table(texts))
        types = {"metric_date": "date", "query_id": "varchar", ITEM: "varchar"}
        columns = [Column(f"cast({key} as {types[key]})", key) for key in keys]
        return Stage(
            "sample_queries", "annotation/sample_queries", {"columns": columns, "table": table}
        )

    def _problems(self) -> Iterator[str]:
        units = Counter(self.of(self.unit_keys))
        if len(units) < len(self.rows):
            unit = ", ".join(map(str, units.most_common(1)[0][0]))
            yield f"the {'pair' if self.has_items else 'query'} {unit} appears twice"
        if self.has_items and len({*self.column(DEPTH)}) > 1:
            yield f"the rows differ in {DEPTH}, the last rank that they were drawn from"
        strata = Counter(self.of(self.strata_names))
        designs = Counter(self.of((*self.strata_names, *DESIGN[:2])))
        for (*stratum, size, n_drawn), n in designs.items():
            stratum_name = ", ".join(stratum) or "the sample"
            if strata[tuple(stratum)] != n:
                yield f"{stratum_name}: the rows differ in stratum_size or sample_size"
            elif n != n_drawn:
                rows = many(n, "row")
                yield (
                    f"{stratum_name}: {n_drawn} {self.units} were drawn, but the sample has "
                    f"{rows}; give all of them"
                )
            elif not 1 <= n_drawn <= size:
                yield (
                    f"{stratum_name}: {n_drawn} of {size} {self.units} cannot have been drawn; "
                    "draw the sample again"
                )


def _is_stratum(name: str) -> bool:
    return name in (TRAFFIC, RANKS) or name.startswith("by_")


def _column_problems(names: Sequence[str]) -> Iterator[str]:
    columns = (*KEYS, ITEM, TRAFFIC, RANKS, WEIGHT, DEPTH, *DESIGN, "by_<segment>")
    for name in names:
        if name not in columns and not _is_stratum(name):
            yield unknown("column", name, columns)
    for name in ("query_id", *([DEPTH] if ITEM in names else []), *DESIGN[:2]):
        if name not in names:
            yield f"the column {name} is missing; the columns are {', '.join(names)}"


def _values(names: Sequence[str], row: Sequence[str], where: str) -> tuple[Any, ...]:
    return tuple(_value(name, text, where) for name, text in zip(names, row, strict=True))


def _value(name: str, text: str, where: str) -> Any:
    if name == "metric_date":
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise InputError(f"{where}: {name} is not a day like 2026-01-31: {text!r}") from None
    if name == RANKS and not is_band(text):
        raise InputError(f"{where}: {name} is not a range of ranks like 11-100: {text!r}")
    if name not in _NUMBERS:
        return text
    if not re.fullmatch(r"\d+" if _NUMBERS[name] is int else r"\d+(\.\d*)?(e[+-]?\d+)?", text):
        raise InputError(f"{where}: {name} is not a number: {text!r}")
    return _NUMBERS[name](text)
