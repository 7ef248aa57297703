"""Replacing day by day, where a database has no transactions: each day of a table is whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from typing import TYPE_CHECKING

from sqlmetrics.engines.database import Database
from sqlmetrics.jobs.partition_locations import PartitionLocations
from sqlmetrics.jobs.tables import targets
from sqlmetrics.spec.days import day_of
from sqlmetrics.sql.dialect import OVERWRITE
from sqlmetrics.sql.template import finished, literal, parts, relation

if TYPE_CHECKING:
    from sqlmetrics.jobs.exchange import Exchange, TableRows


def replace_by_day(job: Exchange, table: str, engine: Database) -> None:
    """Put new rows of a table in the place of the old ones, one day after the other.

    Days that have no row any more are dropped. What is done is done: a run that fails leaves
    each day of each table old or new, and the next run does the rest.

    Args:
        job: What is replaced.
        table: Which of its tables.
        engine: ClickHouse or Spark.
    """
    name, rows = targets(job.spec)[table], job.rows[table]
    where = " and ".join(job.of("metric_date"))
    old = _days(engine, f"{relation(name)}\nwhere {where}")
    if job.at.dialect.writing.replace == OVERWRITE:
        PartitionLocations(job, name, engine).replace(rows, old)
        return
    new = _days(engine, f"(\n{rows.select}\n) as fresh")
    staging_name = job.at.name(_key(job, name))
    staging = engine.made(
        f"create table {staging_name} as {job.at.name(name)}", f"drop table {staging_name}"
    )
    with staging:
        for statement in _exchanged(job, name, rows, new, old - new):
            engine.execute(statement)


def _key(job: Exchange, name: str) -> str:
    """The name of a run's own table beside another one, in the same schema."""
    *schema, table_name = parts(name)
    return ".".join(f'"{part}"' for part in (*schema, f"{table_name}_{job.key}"))


def _days(engine: Database, source: str) -> set[date]:
    rows = engine.rows(finished(f"select distinct metric_date\nfrom {source}"))
    return {day_of(day) for (day,) in rows}


def _exchanged(
    job: Exchange, name: str, rows: TableRows, new: Iterable[date], dropped_days: Iterable[date]
) -> Iterator[str]:
    """ClickHouse: the new rows are written beside, and each day's part changes places."""
    into, staging_name = job.at.name(name), job.at.name(_key(job, name))
    columns = ", ".join(map(job.at.column, rows.columns))
    spec = job.at.value(literal(job.spec.title))
    yield f"insert into {staging_name} ({columns})\n{job.at.text(finished(rows.select)).rstrip()}"
    for day in sorted(new):
        yield f"alter table {into} replace partition ({spec}, '{day}') from {staging_name}"
    for day in sorted(dropped_days):
        yield f"alter table {into} drop partition ({spec}, '{day}')"
