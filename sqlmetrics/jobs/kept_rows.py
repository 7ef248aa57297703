"""What stays of the days that a run replaces: rows and columns of metrics that it does not compute.

A metric that a spec asks for no more keeps its history, and one that is new brings only its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.jobs.schema import PER_QUERY
from sqlmetrics.jobs.tables import columns_of, targets
from sqlmetrics.sql.stage import Column, print_template
from sqlmetrics.sql.template import identifier, lines, relation

if TYPE_CHECKING:
    from sqlmetrics.jobs.exchange import Exchange, TableRows

KEPT = "sqlmetrics_kept_"
"""What the tables are called that hold such rows while a run replaces the others."""


@contextmanager
def with_kept(job: Exchange, engine: Database) -> Iterator[Mapping[str, TableRows]]:
    """The new rows of a job together with what stays beside them of the same days.

    Args:
        job: What is replaced.
        engine: Where its tables are.

    Yields:
        Table -> its new rows, while the tables are there that hold what stays.
    """
    rows, steps = dict(job.rows), list[Step]()
    for table, new in job.rows.items():
        if not new.replaces:
            continue
        if table == "per_query":
            rows[table] = replace(new, replaces="")
            kept_columns = _kept_columns(job, new, engine)
            replacement = _beside(job, new, kept_columns) if kept_columns else None
        else:
            of_table = replace(job, ends=new.ends or job.ends)
            replacement = _among(of_table, table, new, engine) if job.at.dialect.by_day else None
        if replacement is not None:
            step, rows[table] = replacement
            steps.append(step)
    with keeping(engine, steps):
        yield rows


def _kept_columns(job: Exchange, new: TableRows, engine: Database) -> list[str]:
    """The columns of the per-query table that hold something and are not computed."""
    name = targets(job.spec)["per_query"]
    computed = {column.casefold() for column in new.columns}
    other_columns = [
        column for column in columns_of(name, engine) if column.casefold() not in computed
    ]
    if not other_columns:
        return []
    counts = lines(
        f"count({identifier(column)}) as n_{n}" for n, column in enumerate(other_columns)
    )
    where = " and ".join(job.of("metric_date"))
    (row,) = engine.rows(f"select\n    {counts}\nfrom {relation(name)}\nwhere {where}")
    return [column for column, n in zip(other_columns, row, strict=True) if n]


def _beside(job: Exchange, new: TableRows, kept_columns: Sequence[str]) -> tuple[Step, TableRows]:
    """New rows of the per-query table with columns that the old ones have."""
    name, columns = f"{KEPT}per_query", (*new.columns, *kept_columns)
    view = {
        "kept": name,
        "rows": new.select,
        "keys": [f"kept.{key} = fresh.{key}" for key in PER_QUERY],
        "new_columns": [
            f"{'kept' if column in kept_columns else 'fresh'}.{identifier(column)}"
            for column in columns
        ],
        "old_columns": [
            f"kept.{identifier(column)}"
            if column in kept_columns or column in PER_QUERY
            else Column("cast(null as double)", identifier(column))
            for column in columns
        ],
    }
    select = print_template("jobs/kept_columns", view)
    old = _old(job, "per_query", (*PER_QUERY, *kept_columns), [])
    return Step(name, old), replace(new, columns=columns, select=select, replaces="")


def _among(
    job: Exchange, table: str, new: TableRows, engine: Database
) -> tuple[Step, TableRows] | None:
    """New rows with old ones of other metrics, where whole days are replaced; None without such."""
    kinds = engine.columns(relation(targets(job.spec)[table]))
    columns = (*new.columns, *(column for column in kinds if column not in new.columns))
    kept_conditions = [f"not ({new.replaces})"]
    old = _old(job, table, columns, kept_conditions)
    if not engine.rows(f"select count(*) as n from (\n{old}\n) as kept")[0][0]:
        return None
    name = f"{KEPT}{table}"
    view = {
        "kept": name,
        "rows": new.select,
        "new_columns": [
            f"fresh.{identifier(column)}"
            if column in new.columns
            else Column(f"cast(null as {kinds[column]})", identifier(column))
            for column in columns
        ],
        "old_columns": [f"kept.{identifier(column)}" for column in columns],
    }
    select = print_template("jobs/kept_rows", view)
    return Step(name, old), replace(new, columns=columns, select=select, replaces="")


def _old(job: Exchange, table: str, columns: Sequence[str], extra_conditions: Sequence[str]) -> str:
    """The query of the rows of the days that are there."""
    where = "\n    and ".join([*job.of("metric_date"), *extra_conditions])
    source = relation(targets(job.spec)[table])
    return f"select\n    {lines(map(identifier, columns))}\nfrom {source}\nwhere\n    {where}"
