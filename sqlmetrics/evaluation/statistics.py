"""What a strategy is chosen by: the tables, measured on their first rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from math import ceil, inf
from typing import NamedTuple

from sqlmetrics.engines.database import Database
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.strategy import SHOWN, WINDOW, TableStatistics
from sqlmetrics.plan.tables import NO_BUCKET, Bucket
from sqlmetrics.spec.days import as_sql
from sqlmetrics.spec.segments import TRAFFIC
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.stage import print_template, with_stages
from sqlmetrics.sql.template import identifier, literal

# How many queries fit into memory at once: an evaluation in buckets of them.
#
# Lists are kept in memory: DuckDB cannot write them to disk while it makes them. Where not
# all of them fit, they are made bucket by bucket, each in one pass. Files that are sorted by
# query are still read once in all, since each bucket is a range of queries; others are read
# once a bucket. ClickHouse keeps the labels and the rows that it sorts in memory, and a bucket
# is told by the hash of the query: to read is the least of what it does.

SHARE = 0.5
"""The part of the memory limit that lists may take; joins and answers need theirs."""

SAMPLED = 20_000
"""About so many rows tell where the ranges of queries begin."""

SLACK = 1.5
"""How much more memory lists take than the numbers in them."""

WINDOW_BYTES = 145
"""What a row of the rankings or labels takes while ClickHouse joins and sorts it, its ids of some
13 letters: 3.4 GB were measured for 20 M rows and 4 M labels, picked out of 100 M."""

COUNTED = ("parquet", "parquets", "table", "relation")
"""Sources whose rows are counted without reading them."""

RANGES = {"VARCHAR", "BIGINT", "INTEGER", "UBIGINT", "UINTEGER", "SMALLINT", "HUGEINT"}
"""Types of ids whose ranges are told alike wherever they stand."""


def buckets(plan: Plan, engine: Database, measured: TableStatistics | None) -> tuple[Bucket, ...]:
    """The queries in buckets whose evaluation fits into memory.

    Args:
        plan: What is to be carried out.
        engine: Where the tables are.
        measured: What was measured of them.
    """
    if plan.shape.made_of.having(TRAFFIC) or plan.needs.pooled:  # of all queries together
        return (NO_BUCKET,)
    if plan.translation.dialect.quick_hash:
        return hashed(plan, engine)
    if plan.strategy.name in (WINDOW, SHOWN) or measured is None:
        return (NO_BUCKET,)
    return parts(plan, engine, SLACK * plan.strategy.bytes_a_row(measured, plan.needs))


def parts(
    plan: Plan, engine: Database, bytes_a_row: float, table: str = "rankings"
) -> tuple[Bucket, ...]:
    """The queries in buckets of which each fits into memory; one if all do, or none can tell.

    Args:
        plan: The tables.
        engine: Where they are.
        bytes_a_row: What a row takes.
        table: Whose rows are counted.
    """
    rows = n_rows(plan, engine, table)
    if rows is None or (memory := engine.memory) is None:
        return (NO_BUCKET,)
    number = ceil(rows * bytes_a_row / (SHARE * memory))
    return _cut(plan, engine, number, rows) if number > 1 else (NO_BUCKET,)


def n_rows(plan: Plan, engine: Database, table: str) -> int | None:
    """How many rows a table has, of a table that is no file those that are read; None if unknown.

    Files tell at once how many rows they have, but not how many meet a condition.
    """
    relation = plan.shape.tables[table]
    if relation.template not in COUNTED:
        return None
    where = plan.shape.where.get(table, "") if relation.template == "table" else ""
    return engine.count(source_text(relation, where))


def hashed(plan: Plan, engine: Database) -> tuple[Bucket, ...]:
    """The queries in buckets by their hash, of which each fits into ClickHouse's memory.

    Args:
        plan: The tables.
        engine: Where they are.
    """
    shape = plan.shape
    if shape.of_one_system:  # a click log is cleaned anew each time that its lists are read
        return (NO_BUCKET,)
    tables = ("rankings",) if shape.joined else ("rankings", "labels")
    rows = [engine.count(source_text(shape.tables[table], shape.where[table])) for table in tables]
    number = ceil(sum(rows) * WINDOW_BYTES / (SHARE * (engine.memory or inf)))
    if number < 2:
        return (NO_BUCKET,)
    bucket_rows = rows[0] // number
    return tuple(
        Bucket(
            {table: _of_hash(plan, table, number, index) for table in _query_tables(plan)},
            {},
            bucket_rows,
            index,
        )
        for index in range(number)
    )


def _of_hash(plan: Plan, table: str, number: int, index: int) -> str:
    """What the rows of a bucket meet; the dialect's own text."""
    translation = plan.translation
    column = f"cast({identifier(plan.shape.columns[table]['query'])} as varchar)"
    text = translation.over_column(translation.dialect.quick_hash, column)
    return translation.condition(f"{text} % {number} = {index}")


def _cut(plan: Plan, engine: Database, number: int, rows: int) -> tuple[Bucket, ...]:
    shape = plan.shape
    columns = {table: identifier(roles["query"]) for table, roles in _query_tables(plan).items()}
    conditions = _ranges(plan, engine, columns, number, rows) or _hashes(columns, number)
    systems = _systems(plan, engine) if shape.lives and not shape.spans_pauses else {}
    bucket_rows = rows // len(conditions)
    return tuple(
        Bucket(condition, systems, bucket_rows, number)
        for number, condition in enumerate(conditions)
    )


def _systems(plan: Plan, engine: Database) -> dict[str, tuple[str, ...]]:
    """The systems of each day, column by column."""
    groups = ", ".join(plan.shape.lives)
    select = f"select distinct {groups} from {plan.shape.names['rankings']} order by {groups}"
    rows = engine.rows(with_stages(plan.inputs, select))
    texts = [tuple(map(_as_sql, row)) for row in rows if None not in row]
    return dict(zip(plan.shape.lives, zip(*texts, strict=True), strict=bool(texts)))


def _as_sql(value: str | date) -> str:
    return as_sql(value) if isinstance(value, date) else literal(value)


def _query_tables(plan: Plan) -> dict[str, dict[str, str]]:
    """The tables that have a column of queries."""
    return {table: roles for table, roles in plan.shape.columns.items() if "query" in roles}


def _hashes(columns: dict[str, str], number: int) -> list[dict[str, str]]:
    """By the hash of the query, which takes a look at every row for every bucket."""
    text = "hash(cast({column} as varchar)) % {number} = {index}"
    return [
        {
            table: text.format(column=column, number=number, index=index)
            for table, column in columns.items()
        }
        for index in range(number)
    ]


def _ranges(
    plan: Plan, engine: Database, columns: dict[str, str], number: int, rows: int
) -> list[dict[str, str]]:
    """By ranges of queries, which files that are sorted by query can skip."""
    kinds = set()
    for table in columns:
        relation = plan.shape.tables[table]
        if relation.is_sql:  # its column may have a collation
            return []
        kind_by_column = engine.columns(source_text(relation))
        name = plan.shape.columns[table]["query"].casefold()
        kinds |= {kind for column, kind in kind_by_column.items() if column.casefold() == name}
    if len(kinds) != 1 or not kinds <= RANGES:
        return []
    view = {
        "query": columns["rankings"],
        "source": source_text(plan.shape.tables["rankings"]),
        "parts": [part / number for part in range(1, number)],
        "each": max(1, rows // SAMPLED),
    }
    quantiles = engine.rows(print_template("plan/bounds", view))[0][0] or []
    bounds = [
        literal(value) if isinstance(value, str) else str(value)
        for value in dict.fromkeys(quantiles)
    ]
    ranges = list(zip(["", *bounds], [*bounds, ""], strict=True))
    conditions = [{t: _between(column, *ends) for t, column in columns.items()} for ends in ranges]
    # those without an id by themselves: beside an `or` DuckDB skips no row group
    return [*conditions, {table: f"{column} is null" for table, column in columns.items()}]


def _between(column: str, first: str, end: str) -> str:
    """From a bound to before the next."""
    ends = [f"{column} {sign} {bound}" for sign, bound in ((">=", first), ("<", end)) if bound]
    return " and ".join(ends) or f"{column} is not null"


ROWS = 1 << 15
"""About how many rows are looked at."""

SCATTERED = 2
"""From so many runs of rows a list on, its items are not beside each other."""

SHORT = 3
"""Lists of fewer items on average may be parts of longer ones, whose other rows come later."""


def statistics_of(plan: Plan, engine: Database) -> TableStatistics | None:
    """What there is to choose a plan by; None where there is no choice.

    Args:
        plan: The portable plan.
        engine: Where the tables are.
    """
    if plan.translation.changes:
        return None
    if plan.shape.at.rankings.template == "query":
        return TableStatistics()  # even its first row may take long
    statistics = TableStatistics()
    if lists := _measured(plan, engine, "rankings"):
        statistics = TableStatistics(
            lists.longest,
            lists.usual,
            lists.tied / lists.number,
            scattered=lists.are_scattered,
        )
    if plan.shape.joined or plan.shape.at.labels.template == "query":
        return statistics
    queries = _measured(plan, engine, "labels")
    return (
        replace(statistics, labels=queries.usual, most=queries.longest) if queries else statistics
    )


class _Lists(NamedTuple):
    """Some lists, or the labels of some queries.

    Attributes:
        number: How many there are.
        runs: How many runs of rows they are in.
        longest: The most rows of one.
        usual: The mean.
        tied: How many have equal values.
    """

    number: int
    runs: int
    longest: int
    usual: float
    tied: int

    @property
    def are_scattered(self) -> bool:
        """Whether the items of a list are not beside each other."""
        return self.runs > SCATTERED * self.number


def _measured(plan: Plan, engine: Database, table: str) -> _Lists | None:
    """The lists of the first rows; of a file in which they are scattered, those of some queries.

    None where neither can tell.
    """
    first = _look(plan, engine, table, f"limit {ROWS}")
    if first.number and not first.are_scattered and first.usual >= SHORT:
        return first
    if (rows := n_rows(plan, engine, table)) is not None:
        step = rows // ROWS
        sample = (
            _look(plan, engine, table, f"where hash(query_id) % {step} = 0") if step > 1 else first
        )
        return sample if sample.number else None
    return None if first.are_scattered or not first.number else first


def _look(plan: Plan, engine: Database, table: str, chosen: str) -> _Lists:
    """What the chosen rows tell."""
    shape = plan.shape
    of_labels = table == "labels"
    view = {
        "keys": shape.label_keys if of_labels else shape.keys,
        "sorter": "grade" if of_labels else shape.sorters[0],
        "where": "grade <> 0" if of_labels else "",
        "table": shape.names[table],
        "chosen": chosen,
    }
    select = print_template("plan/offered", view)
    return _Lists(*engine.rows(with_stages(plan.inputs, select))[0])
