"""Replacing day by day, where a database has no transactions: each day of a table is whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from typing import TYPE_CHECKING

from sqlmetrics.engines.database import Database
from sqlmetrics.jobs.tables import targets
from sqlmetrics.spec.days import as_sql, day_of
from sqlmetrics.sql.dialect import EXCHANGE, OVERWRITE
from sqlmetrics.sql.template import finished, identifier, literal, parts, relation

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
    replace = {EXCHANGE: _exchanged, OVERWRITE: _overwritten}[job.at.dialect.writing.replace]
    new = _days(engine, f"(\n{rows.select}\n) as fresh")
    where = " and ".join(job.of("metric_date"))
    gone = _days(engine, f"{relation(name)}\nwhere {where}") - new
    with _beside(job, engine, name):
        for statement in replace(job, name, rows, new, gone):
            engine.execute(statement)


def _beside(job: Exchange, engine: Database, name: str) -> AbstractContextManager[None]:
    """A table like another one, for ClickHouse, while the block lasts."""
    if job.at.dialect.writing.replace != EXCHANGE:
        return nullcontext()
    beside = job.at.name(_key(job, name))
    return engine.made(f"create table {beside} as {job.at.name(name)}", f"drop table {beside}")


def _key(job: Exchange, name: str) -> str:
    """The name of a run's own table beside another one, in the same schema."""
    *schema, own = parts(name)
    return ".".join(f'"{part}"' for part in (*schema, f"{own}_{job.key}"))


def _days(engine: Database, source: str) -> set[date]:
    rows = engine.rows(finished(f"select distinct metric_date\nfrom {source}"))
    return {day_of(day) for (day,) in rows}


def _overwritten(
    job: Exchange, name: str, rows: TableRows, new: Iterable[date], gone: Iterable[date]
) -> Iterator[str]:
    """Spark: each day is a partition, which is written anew."""
    own = [one for one in rows.columns if one not in ("spec", "metric_date")]
    into, columns = job.at.name(name), ", ".join(map(job.at.column, own))
    names = ",\n    ".join(map(identifier, own))
    for day in sorted(new):
        select = f"select\n    {names}\nfrom (\n{rows.select}\n) as fresh"
        text = job.at.text(finished(f"{select}\nwhere metric_date = {as_sql(day)}")).rstrip()
        yield f"insert overwrite table {into} {_partition(job, day)} ({columns})\n{text}"
    for day in sorted(gone):
        yield f"alter table {into} drop if exists {_partition(job, day)}"


def _partition(job: Exchange, day: date) -> str:
    spec = job.at.value(literal(job.spec.title))
    return f"partition (spec = {spec}, metric_date = date '{day}')"


def _exchanged(
    job: Exchange, name: str, rows: TableRows, new: Iterable[date], gone: Iterable[date]
) -> Iterator[str]:
    """ClickHouse: the new rows are written beside, and each day's part changes places."""
    into, beside = job.at.name(name), job.at.name(_key(job, name))
    columns = ", ".join(map(job.at.column, rows.columns))
    spec = job.at.value(literal(job.spec.title))
    yield f"insert into {beside} ({columns})\n{job.at.text(finished(rows.select)).rstrip()}"
    for day in sorted(new):
        yield f"alter table {into} replace partition ({spec}, '{day}') from {beside}"
    for day in sorted(gone):
        yield f"alter table {into} drop partition ({spec}, '{day}')"
