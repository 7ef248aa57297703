"""Replacing days, where a database has no transactions: each day of a table is whole.

Tables of Delta and Iceberg on Spark change by one commit each, which has all days.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import date
from typing import TYPE_CHECKING

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import EngineError, SpecError
from sqlmetrics.jobs.partition_locations import (
    PARTITIONS,
    PartitionLocations,
    described,
    unpartitioned,
)
from sqlmetrics.jobs.tables import columns_of, targets
from sqlmetrics.spec.days import day_of
from sqlmetrics.sql.dialect import LAKES, OVERWRITE
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import finished, literal, parts, relation

if TYPE_CHECKING:
    from sqlmetrics.jobs.exchange import Exchange, TableRows


ICEBERG = "iceberg"

ATTEMPTS = 3
"""As many times a commit is tried that another writer's came before, such as a compaction."""

_CONFLICT = re.compile(
    r"DELTA_CONCURRENT_|DELTA_METADATA_CHANGED|Concurrent\w+Exception|CommitFailedException"
    r"|ValidationException: (?!Cannot delete file)"
)
"""What Delta and Iceberg say of a commit that does not go with another one."""


def replace_by_day(job: Exchange, table: str, engine: Database) -> None:
    """Put new rows of a table in the place of the old ones, one day after the other.

    Days that have no row any more are dropped. What is done is done: a run that fails leaves
    each day of each table old or new, and the next run does the rest. A table of Delta or Iceberg
    changes by one commit: all of its days are old or new.

    Args:
        job: What is replaced.
        table: Which of its tables.
        engine: ClickHouse or Spark.

    Raises:
        SpecError: If the table is of a kind of which a day cannot be replaced in one step.
        EngineError: If something cannot be written.
    """
    name, rows = targets(job.spec)[table], job.rows[table]
    if job.at.dialect.writing.replace == OVERWRITE and _has_commits(name, engine):
        commit(name, engine, replaced_where(job, name, rows, engine))
        return
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


def replaced_where(job: Exchange, name: str, rows: TableRows, engine: Database) -> str:
    """The statement by which a table of Delta or Iceberg has new days, by place: a commit.

    Days without a new row go by it, too.
    """
    kind_by_column = dict(_columns_of(name, engine)) if columns_of(name, engine) else {}
    new = {column.casefold() for column in rows.columns}
    view = {
        "table": job.at.name(name),
        "where": [job.at.value(condition) for condition in job.of("metric_date")],
        "columns": [
            quoted if column.casefold() in new else f"cast(null as {kind}) as {quoted}"
            for column, kind in (kind_by_column or dict.fromkeys(rows.columns, "")).items()
            for quoted in [job.at.column(column)]
        ],
        "select": job.at.text(finished(rows.select)).rstrip(),
    }
    return print_template("jobs/replaced_where", view)


def _columns_of(name: str, engine: Database) -> Iterator[tuple[str, str]]:
    """The columns of a table with Spark's words for their types, in their order."""
    for column, kind, *_ in engine.driver.rows(f"describe {engine.translation.name(name)}"):
        if not column or str(column).startswith("#"):
            return
        yield str(column), str(kind)


def will_commit(name: str, engine: Database) -> bool:
    """Whether a run replaces days of a table of Spark's by a commit; of one that is not there, too.

    Raises:
        SpecError: If it is of a kind of which a day cannot be replaced in one step.
    """
    if columns_of(name, engine):
        return _has_commits(name, engine)
    storage = engine.translation.dialect.by_day
    return engine.driver.stored(storage) != storage


def _has_commits(name: str, engine: Database) -> bool:
    """Whether a table of Spark's is one of Delta or Iceberg.

    Raises:
        SpecError: If it is neither of these nor Parquet, or its files hold several days.
    """
    table = engine.translation.name(name)
    file_format = described(engine, table).get("Provider", "none that is known").casefold()
    if file_format == "parquet":
        return False
    if file_format not in LAKES:
        raise SpecError(
            f"{name} has the format {file_format}, in which run cannot replace a day in one "
            "step; let run create its tables, as Delta, Iceberg or Parquet"
        )
    if file_format == ICEBERG and not {"spec", "metric_date"} <= _partitions(table, engine):
        raise unpartitioned(name)
    return True


def _partitions(table: str, engine: Database) -> set[str]:
    """The columns by whose values a table of Iceberg is cut into parts."""
    names = [str(name) for name, *_ in engine.driver.rows(f"describe {table}")]
    if PARTITIONS not in names:
        return set()
    following = names[names.index(PARTITIONS) + 1 :]
    return set(following[: following.index("")] if "" in following else following)


def commit(name: str, engine: Database, statement: str) -> None:
    """Execute a statement that is one commit, again where another commit came before.

    Raises:
        EngineError: If it cannot be executed, or each time another writer was faster.
    """
    for attempt in range(ATTEMPTS):
        engine.driver.check_alone()
        try:
            engine.execute(statement)
        except EngineError as error:
            if not _CONFLICT.search(str(error)):
                raise
            if attempt + 1 == ATTEMPTS:
                raise EngineError(
                    f"something else than a run wrote {name} at the same time, {ATTEMPTS} times: "
                    f"none of its days is replaced; run again when it has ended: {error}",
                    statement,
                ) from error
            engine.driver.refresh([name])
        else:
            return


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
