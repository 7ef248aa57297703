"""Ids: which columns can hold them, and texts that look as if they were meant to be one id."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter

from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.checks.problem import EXAMPLES, Problem, remedy_for
from sqlmetrics.plan.plan import Plan
from sqlmetrics.spec.days import is_day
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.table import many

QUOTES = "'\" \t\r\n"


def normal(text: str) -> str:
    """An id without what exports and joins add to it.

    >>> normal(" SKU-1"), normal("12.0"), normal("007"), normal("1e3")
    ('sku-1', '12', '7', '1000')
    """
    plain = unicodedata.normalize("NFKC", text).strip(QUOTES).casefold()
    try:
        number = float(plain.replace("_", "x"))  # Python reads 1_000
    except ValueError:
        return plain
    is_whole = math.isfinite(number) and number.is_integer()
    return str(int(number)) if is_whole else plain


def alike(ids: Iterable[str], other_ids: Iterable[str]) -> list[tuple[str, str]]:
    """The ids of the one side that look like one of the other, and are not it.

    >>> alike(["SKU-1", "b"], ["sku-1", "b", "c"])
    [('SKU-1', 'sku-1')]
    """
    by_form = {normal(text): text for text in ids}
    pairs = ((by_form[normal(text)], text) for text in other_ids if normal(text) in by_form)
    return [pair for pair in pairs if pair[0] != pair[1]]


_BROKEN = re.compile(r"DOUBLE|FLOAT|REAL|DECIMAL\(\d+,[1-9]")


def broken(plan: Plan, engine: Database, sources: Mapping[str, str]) -> Iterator[Problem]:
    """Columns of ids whose numbers may have fractions, so that 12.0 would not be '12'.

    Args:
        plan: The plan of the evaluation.
        engine: Where the tables are.
        sources: Table -> what stands behind FROM.
    """
    for table, source in sources.items():
        yield from of_fractions(table, _columns(plan, table), engine.columns(source))


def of_fractions(table: str, names: Iterable[str], types: Mapping[str, str]) -> Iterator[Problem]:
    """The same of one table, by the types of its columns."""
    kinds = {name.casefold(): kind for name, kind in types.items()}
    for name in names:
        kind = kinds.get(name.casefold(), "")
        if _BROKEN.match(kind):
            message = f"{name} has the type {kind}, but ids are texts or whole numbers"
            remedy = (
                "12.0 is not '12': cast it to bigint in the sql of the source, or with "
                "astype('Int64') in pandas"
            )
            yield Problem(table, message, 1, remedy=remedy)


def merged(plan: Plan, engine: Database, sources: Mapping[str, str]) -> Iterator[Problem]:
    """Columns whose collation takes different ids for equal; the arguments are as above."""
    columns = [
        {"table": table, "column": name, "source": sources[table]}
        for table, relation in plan.shape.tables.items()
        if relation.is_sql
        for name in _columns(plan, table)
    ]
    equal_ids = (
        engine.rows(print_template("checks/collation", {"columns": columns})) if columns else []
    )
    for (table, name), rows in groupby(sorted(equal_ids), key=itemgetter(0, 1)):
        examples = [row[2:] for row in rows]
        message = f"the collation of {name} treats different ids as equal"
        remedy = f'select {name} collate "binary" as {name} instead'
        yield Problem(table, message, len(examples), ("id", "equals"), examples, remedy)


def _columns(plan: Plan, table: str) -> list[str]:
    columns = plan.shape.columns[table]
    return [columns[role] for role in ("query", "item") if role in columns]


# Texts that are wanted as days: what databases other than DuckDB would guess or fail at.

MOST = 10_000
"""So many different texts of a column are looked at."""


def odd_days(plan: Plan, sources: Mapping[str, str], engine: Database) -> Iterator[Problem]:
    """Columns of days that are texts, with texts that are none of ISO 8601.

    Args:
        plan: The plan of the evaluation.
        sources: Table -> what stands behind FROM.
        engine: Where the tables are.
    """
    is_typed = not plan.translation.dialect.casts_texts
    for table, source in sources.items():
        name = plan.shape.columns[table].get("date", "")
        kind_by_column = {
            column.casefold(): kind for column, kind in engine.columns(source).items()
        }
        kind = kind_by_column.get(name.casefold())
        if kind is None or (is_typed and kind != "VARCHAR"):
            continue
        column = identifier(name)
        days = f"select distinct cast({column} as varchar) as day from {source}"
        rows = engine.rows(f"{days} where {column} is not null limit {MOST}")
        odd = [row for row in rows if not is_day(row[0])]
        if odd:
            message = f"{name} is not a date in {many(len(odd), 'text')}"
            remedy = remedy_for("date", [], of_file=False)
            yield Problem(table, message, len(odd), (name,), odd[:EXAMPLES], remedy)
