"""A stratified sample of queries: its rows, its strata, and its file."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from math import floor
from pathlib import Path
from typing import Any

import pyarrow as pa

from sqlmetrics.annotation import csv_file
from sqlmetrics.annotation.pool import (
    QueryContext,
    check_rankings,
    facts,
    lot,
    rankings_alone,
    stages,
)
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.output_files import note_read
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.arguments import check_count
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.segments import THIRDS, UNKNOWN
from sqlmetrics.plan.shape import segment
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, equal, print_template, with_stages
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


def size_of_sample(rates: Mapping[int, float], name: str, population: int, least: int) -> int:
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


# Drawing a stratified random sample of the queries, the same on every engine.
#
# Strata are the values of segments and, with traffic, head, torso and tail. Within a stratum
# every set of n of its N queries is as likely as any other (simple random sampling without
# replacement; Cochran, Sampling Techniques, 3rd ed. 1977, ch. 2 and 5): each query draws the
# lot md5(seed | day | query id), and the n lowest lots are taken. Pairs of a query and an item are
# drawn in the same way, of those that a system shows in its top k; a pair is in the stratum of its
# query, so that its inclusion probability is that of all pairs of the stratum. With rates the best
# rank of its item makes strata, too, of which a share each is drawn.

LEAST = 2
"""Queries drawn from a stratum at least, else its variance cannot be estimated."""

SHARES = ("queries", "traffic")
"""What the sample is shared out by."""


def allocate(
    populations: Sequence[int], size: int, shares: Sequence[float], units: str = "queries"
) -> list[int]:
    """How many queries to draw from each stratum: in proportion to the shares, two at least.

    Every stratum gets min(2, its population). Then one query after the other goes to the
    stratum with the largest share / (2 n + 1) that has queries left (Sainte-Laguë's
    method, which rounds proportional numbers so that they add up); among equals to the
    first. Small strata are so taken whole.

    Args:
        populations: Queries of each stratum (N), 1 or more.
        size: Queries to draw in all; as many as there are if it is more.
        shares: What each stratum's part is proportional to, 0 or more.
        units: What is drawn, in words.

    Raises:
        SpecError: If the size does not suffice for two queries a stratum.

    >>> allocate([600, 300, 100, 1], 20, [600, 300, 100, 1])
    [11, 6, 2, 1]
    """
    sample_sizes = [min(LEAST, population) for population in populations]
    if size < sum(sample_sizes):
        raise SpecError(
            f"the sample needs {sum(sample_sizes):,} {units} or more, two from each of the "
            f"{len(sample_sizes):,} strata, given {size:,}; give a larger size or fewer strata"
        )
    waiting = [
        (-share / (2 * n + 1), i) for i, (share, n) in enumerate(_pairs(shares, sample_sizes))
    ]
    heapq.heapify(waiting)
    for _ in range(min(size, sum(populations)) - sum(sample_sizes)):
        while sample_sizes[waiting[0][1]] == populations[waiting[0][1]]:
            heapq.heappop(waiting)
        i = waiting[0][1]
        sample_sizes[i] += 1
        heapq.heapreplace(waiting, (-shares[i] / (2 * sample_sizes[i] + 1), i))
    return sample_sizes


def draw(
    spec: Spec,
    engine: Database,
    size: int | None,
    *,
    by: Sequence[str] = (),
    traffic: bool = False,
    seed: int = 1,
    share: str = "queries",
    k: int | None = None,
    rates: Mapping[int, float] | None = None,
) -> Sample:
    """A stratified sample of the queries that the rankings have; with days, of (day, query).

    A query's traffic class is where its traffic begins when all queries stand by falling
    weight, equal ones by day and id: head before the first third of all traffic, torso
    before the second, tail after it. A query without a segment is `(unknown)`.

    Args:
        spec: The evaluation; its labels are not looked at.
        engine: Where the tables are.
        size: Queries to draw; all of them if there are fewer. None with rates.
        by: Segments whose values make strata.
        traffic: Whether head, torso and tail make strata.
        seed: Another seed draws another sample.
        share: Allocate in proportion to `queries` or to `traffic`.
        k: Draw pairs of a query and an item instead, of those in the top k of a list.
        rates: Draw pairs by the best rank of their item: last rank -> the share of the pairs down
            to it, from the last rank above it on.

    Raises:
        SpecError: If the size is too small, a rate is no share, or traffic has no weights.
        InputError: If there is no query, or an id or a weight is missing or negative.
    """
    check_rates(rates or {})
    if rates:
        k = max(rates)
    frame = _frame(spec, engine, by, traffic=traffic or share == "traffic", seed=seed, k=k)
    frame = replace(frame, traffic=traffic, bands=RankBands.until(rates or ()))
    strata, count = frame.strata_rows(engine)
    populations = [row[-3] for row in strata]
    if rates:
        sample_sizes = [size_of_sample(rates, row[-4], row[-3], LEAST) for row in strata]
    else:
        shares = populations if share == "queries" else [row[-2] for row in strata]
        sample_sizes = allocate(populations, size or 0, shares, frame.units)
    rows = [(*row[:-2], n) for row, n in zip(strata, sample_sizes, strict=True)]
    names, select = frame.select(rows)
    return Sample(names, tuple(engine.rows(select)), f"{count};\n\n{select};\n")


def strata_sums(
    spec: Spec,
    engine: Database,
    by: Sequence[str],
    *,
    traffic: bool,
    k: int | None = None,
    bands: RankBands | None = None,
) -> dict[Key, tuple[int, float]]:
    """Stratum -> how many queries or pairs it has, and their weights; 1 each without weights."""
    frame = _frame(spec, engine, by, traffic=traffic, seed=1, k=k)
    frame = replace(frame, bands=bands or RankBands())
    rows, _ = frame.strata_rows(engine)
    return {tuple(map(str, row[:-3])): (int(row[-3]), float(row[-2])) for row in rows}


def _frame(
    spec: Spec, engine: Database, by: Sequence[str], *, traffic: bool, seed: int, k: int | None
) -> _Frame:
    """The population of a spec's rankings.

    Raises:
        SpecError: If the strata cannot be made.
    """
    check_count("k", 1 if k is None else k)
    plan = make_plan(spec.having(by=tuple(by)), opened(spec, engine))
    check_rankings(plan, engine)
    if plan.shape.derived_facts:
        derived_names = ", ".join(plan.shape.derived_facts.values())
        raise SpecError(
            f"by: {derived_names} cannot be a stratum; name columns and conditions, or use "
            "--traffic to sample by head, torso and tail"
        )
    context = facts(plan.shape, plan.shape.names["rankings"])
    if traffic and not context.weight:
        raise SpecError(
            "the strata head, torso and tail need the traffic of each query; name its column as "
            "weight in rankings.columns or queries.columns"
        )
    return _Frame(plan, context, traffic, seed, k)


@dataclass(frozen=True)
class _Frame:
    """The population and its strata as SQL."""

    plan: Plan
    context: QueryContext
    traffic: bool
    seed: int
    k: int | None = None
    bands: RankBands = field(default_factory=RankBands)

    @property
    def keys(self) -> list[str]:
        """The columns that a query or a pair is identified by."""
        return [*self.plan.shape.query_keys, *([ITEM] if self.k else [])]

    @property
    def units(self) -> str:
        """What is drawn, in words."""
        return "pairs" if self.k else "queries"

    def strata_rows(self, engine: Database) -> tuple[list[tuple[Any, ...]], str]:
        """One row per stratum, and the statement; InputError if there is no query, or a bad one."""
        count = self.count()
        rows = engine.rows(count)
        _check(rows, self.context)
        return rows, count

    @property
    def strata(self) -> list[str]:
        """The columns that make the strata."""
        return [*self.query_strata, *([RANKS] if self.bands.bands else [])]

    @property
    def query_strata(self) -> list[str]:
        """Those that a query is in."""
        return [*map(segment, self.plan.spec.by), *([TRAFFIC] if self.traffic else [])]

    @property
    def carried(self) -> list[str]:
        return [WEIGHT] if self.context.weight else []

    def count(self) -> str:
        """One row per stratum: its columns, queries, traffic and bad queries."""
        columns = [
            Column("count(*)", "n_queries"),
            Column(f"sum({WEIGHT if self.context.weight else '1e0'})", "weight"),
            Column(_BAD_WEIGHT if self.context.weight else _BAD_QUERY, "n_bad"),
        ]
        order = [f"{name} asc" for name in self.strata]
        view = {"strata": self.strata, "columns": columns, "order": order}
        return with_stages(self._stages(), print_template("annotation/strata", view))

    def select(self, strata: Sequence[Sequence[Any]]) -> tuple[tuple[str, ...], str]:
        """The names of a sample and the query for its rows."""
        keys = self.keys
        names = [*keys, *self.strata, *self.carried]
        depth = [Column(str(self.k), DEPTH)] if self.k else []
        select = [
            *names,
            *depth,
            *DESIGN[:2],
            Column("1e0 * sample_size / stratum_size", DESIGN[2]),
            Column("1e0 * stratum_size / sample_size", DESIGN[3]),
        ]
        order = [f"{name} asc" for name in (*self.strata, *keys)]
        stages = [*self._stages(), self._allocation(strata), self._lots(names)]
        last = print_template("annotation/sample", {"columns": select, "order": order})
        return (*names, *([DEPTH] if self.k else []), *DESIGN), with_stages(stages, last)

    def _stages(self) -> list[Stage]:
        shape = self.plan.shape
        rankings = shape.names["rankings"]
        view = {
            "keys": [f"{rankings}.{key}" for key in shape.query_keys],
            "columns": [Column(f"min({sql})", n) for n, sql in self.context.columns.items()],
            "rankings": rankings,
            "joins": self.context.joins,
        }
        inputs = stages(self.plan, with_labels=False) if self.k else rankings_alone(self.plan)
        population = [*inputs, Stage("population", "annotation/population", view)]
        queries = [*population, *([self._traffic()] if self.traffic else []), self._units()]
        return [*queries, *(self._pairs(self.k) if self.k else [])]

    def _pairs(self, k: int) -> list[Stage]:
        """The pairs that lists show, each in the stratum of its query."""
        query_keys = self.plan.shape.query_keys
        view = {
            "about": f"one row per query and item in the top {k} of a list",
            "keys": [f"ranked.{key}" for key in self.keys],
            "columns": [Column("min(rnk)", "best_rank")] if self.bands.bands else [],
            "joins": {},
            "where": [f"rnk <= {k}"],
        }
        columns = [
            *(f"pool.{key}" for key in self.keys),
            *(f"query_units.{name}" for name in self.query_strata),
            *([Column(self.bands.of("pool.best_rank"), RANKS)] if self.bands.bands else []),
            *(f"query_units.{name}" for name in self.carried),
            Column(lot(self.plan, self.seed, self.keys, "pool."), "lot"),
        ]
        about = "one row per pair: the stratum of its query and its random number"
        joined = {"about": about, "columns": columns, "from": "pool", "to": "query_units"}
        on = equal("query_units", "pool", tuple(query_keys))
        return [
            Stage("pool", "annotation/pool", view),
            Stage("units", "comparison/join", {**joined, "on": on}),
        ]

    def _traffic(self) -> Stage:
        keys = ", ".join(f"{key} asc" for key in self.plan.shape.query_keys)
        above = (
            "coalesce(\n    sum(weight) over (\n"
            f"        order by weight desc, {keys}\n"
            "        rows between unbounded preceding and 1 preceding\n    ),\n    0e0\n)"
        )
        columns = ["population.*", Column(above, "above"), Column("sum(weight) over ()", "total")]
        return Stage("queries_by_traffic", "annotation/traffic", {"columns": columns})

    def _units(self) -> Stage:
        keys = self.plan.shape.query_keys
        columns: list[object] = list(keys)
        for name in map(segment, self.plan.spec.by):
            columns.append(Column(f"coalesce({name}, {literal(UNKNOWN)})", name))
        if self.traffic:
            columns.append(Column(_CLASS, TRAFFIC))
        lots = [] if self.k else [Column(lot(self.plan, self.seed, keys), "lot")]
        view = {
            "about": f"one row per query: its stratum{'' if self.k else ' and its random number'}",
            "columns": [*columns, *self.carried, *lots],
            "from": "queries_by_traffic" if self.traffic else "population",
        }
        return Stage("query_units" if self.k else "units", "annotation/units", view)

    def _allocation(self, strata: Sequence[Sequence[Any]]) -> Stage:
        names = [*self.strata, *DESIGN[:2]]
        rows = [
            [Column(literal(v) if isinstance(v, str) else str(v), n) for v, n in _pairs(row, names)]
            for row in strata
        ]
        return Stage("allocation", "annotation/allocation", {"rows": rows, "units": self.units})

    def _lots(self, names: Sequence[str]) -> Stage:
        parts = ", ".join(f"units.{name}" for name in self.strata) or "1"
        keys = ", ".join(f"units.{key} asc" for key in self.keys)
        over = f"    partition by {parts}\n    order by units.lot asc, {keys}"
        columns = [
            *(Column(f"units.{name}", name) for name in names),
            *(Column(f"allocation.{name}", name) for name in DESIGN[:2]),
            Column(f"row_number() over (\n{over}\n)", "lot_rank"),
        ]
        on = equal("allocation", "units", tuple(self.strata)) or ["1 = 1"]
        return Stage("lots", "annotation/lots", {"columns": columns, "on": on, "units": self.units})


_CLASS = THIRDS.format(above="above", total="total")

_BAD_QUERY = "sum(case when query_id is null then 1 else 0 end)"
_BAD_WEIGHT = """sum(
    case
        when query_id is null or weight is null then 1
        when not (weight between 0e0 and 1.7976931348623157e308) then 1
        else 0
    end
)"""


def _check(strata: Sequence[Sequence[Any]], context: QueryContext) -> None:
    if not sum(row[-3] for row in strata):
        raise InputError("rankings: the table has no rows, so there is no query to sample")
    bad = sum(row[-1] for row in strata)
    if bad:
        problem = "no id, or a missing or negative weight" if context.weight else "no id"
        raise InputError(
            f"rankings: queries with {problem}: {bad:,}; fix these rows or leave them out"
        )


def _pairs(left_values: Sequence[Any], right: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(left_values, right, strict=True))
