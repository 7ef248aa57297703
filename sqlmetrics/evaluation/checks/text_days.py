"""Texts that are wanted as days: what databases other than DuckDB would guess or fail at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.checks.problem import EXAMPLES, Problem, remedy_for
from sqlmetrics.plan.plan import Plan
from sqlmetrics.spec.days import is_day
from sqlmetrics.sql.template import identifier
from sqlmetrics.tables.table import many

MOST = 10_000
"""So many different texts of a column are looked at."""


def odd_days(plan: Plan, sources: Mapping[str, str], engine: Database) -> Iterator[Problem]:
    """Columns of days that are texts, with texts that are none of ISO 8601.

    Args:
        plan: The plan of the evaluation.
        sources: Table -> what stands behind FROM.
        engine: Where the tables are.
    """
    kinds = {"VARCHAR"}
    if plan.translation.dialect.casts_texts:
        kinds |= {"DATE", "TIMESTAMP", ""}  # no type keeps a text out
    for table, source in sources.items():
        name = plan.shape.columns[table].get("date", "")
        kind_by_column = {
            column.casefold(): kind for column, kind in engine.columns(source).items()
        }
        if kind_by_column.get(name.casefold()) not in kinds:
            continue
        column = identifier(name)
        days = f"select distinct cast({column} as varchar) as day from {source}"
        rows = engine.rows(f"{days} where {column} is not null limit {MOST}")
        odd = [row for row in rows if not is_day(row[0])]
        if odd:
            message = f"{name} is not a date in {many(len(odd), 'text')}"
            remedy = remedy_for("date", [], of_file=False)
            yield Problem(table, message, len(odd), (name,), odd[:EXAMPLES], remedy)
