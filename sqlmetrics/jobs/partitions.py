"""Replacing days, where a database has no transactions: each day of a table is whole.

Tables of Delta and Iceberg on Spark change by one commit each, which has all days.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import EngineError, SpecError
from sqlmetrics.jobs.schema import columns_of, targets
from sqlmetrics.spec.days import day_of
from sqlmetrics.sql.dialect import LAKES, OVERWRITE
from sqlmetrics.sql.stage import print_template
from sqlmetrics.sql.template import finished, identifier, literal, parts, relation

if TYPE_CHECKING:
    from sqlmetrics.jobs.exchange import Exchange, TableRows


# Replacing days on Spark: new files beside the old ones, then the catalog names other files.
#
# new rows ─> a table of the run's own, in a folder below the old one's ─> its partitions
# per day:    alter table ... partition (...) set location: a reader has the old files or the
#             new ones, and those that it began to read stay
# old files ─> partitions of a table `<name>_replaced`, from which a later run drops them

KEPT_DAYS = 1
"""Replaced files go when they are older than so many days: whoever reads them has ended then."""

PARTITIONS = "# Partition Information"
"""What stands before the columns of partitions where Spark describes a table."""


@dataclass(frozen=True)
class PartitionLocations:
    """The days of one table of a job, whose files are named by the catalog of a Spark.

    Attributes:
        job: What is replaced.
        name: The table.
        engine: The Spark.
    """

    job: Exchange
    name: str
    engine: Database

    def replace(self, rows: TableRows, old_days: Collection[date]) -> None:
        """Put new days in the place of old ones; days without a row any more go.

        Args:
            rows: The new rows.
            old_days: The days that have rows and are replaced.

        Raises:
            SpecError: If the table is of a kind of which a day cannot be replaced in one step.
            EngineError: If something cannot be written; each day is old or new then.
        """
        self._check_partitions()
        self._drop_replaced()
        folder_by_day = self._stage(rows)
        for day in sorted(set(old_days) - folder_by_day.keys()):
            folder_by_day[day] = self._empty_folder(day)
            self._switch({day: folder_by_day[day]})
            self._execute(f"alter table {self._table} drop if exists {self._partition(day)}")
            del folder_by_day[day]
        self._switch(folder_by_day)

    @cached_property
    def _columns(self) -> list[tuple[str, str]]:
        """The columns with their types, those of partitions last."""
        columns = list[tuple[str, str]]()
        for name, kind, *_ in self._rows(f"describe {self._table}"):
            if str(name).startswith("#") or not name:
                break
            columns.append((str(name), str(kind)))
        return columns

    @cached_property
    def _root(self) -> str:
        """The folder of this run, which Spark passes over where it lists the table's."""
        location = described(self.engine, self._table)["Location"]
        return f"{location.rstrip('/')}/_runs/{self.job.key}"

    def _check_partitions(self) -> None:
        details = described(self.engine, self._table)
        names = [name for name, _ in self._columns]
        if PARTITIONS not in details or names[-2:] != ["spec", "metric_date"]:
            raise unpartitioned(self.name)

    def _stage(self, rows: TableRows) -> dict[date, str]:
        """Write the new rows beside the old ones: day -> the folder of its files."""
        self._drop_left_behind()
        staged = self._quoted(_with_ending(self.name, f"_beside_{self.job.key}"))
        select = self.job.at.text(finished(rows.select)).rstrip()
        self._execute(
            f"create table {staged} like {self._table} using parquet\n"
            f"location {self._text(self._root)}"
        )
        try:
            self._execute(
                f"insert into {staged} by name\n"
                f"select /*+ rebalance(metric_date) */ *\nfrom (\n{select}\n) as fresh"
            )
            folders = self._partitions(staged)
        finally:  # which leaves its files, since it was given their location
            self._execute(f"drop table if exists {staged}")
        return {day: f"{self._root}/{folder}" for day, folder in folders.items()}

    def _empty_folder(self, day: date) -> str:
        """A folder without rows, for the moment before a day goes: nobody's files do."""
        folder = f"{self._root}/none/{day}"
        names = ", ".join(self._quoted(identifier(name)) for name, _ in self._columns[:-2])
        self._execute(
            f"insert overwrite directory {self._text(folder)} using parquet\n"
            f"select {names} from {self._table} limit 0"
        )
        return folder

    def _switch(self, folder_by_day: Mapping[date, str]) -> None:
        """Name the new files in the catalog, each day in one step."""
        self.engine.driver.check_alone()
        existing_days = self._partitions(self._table)
        added = "".join(
            f"\n    {self._partition(day)} location {self._text(folder)}"
            for day, folder in sorted(folder_by_day.items())
            if day not in existing_days
        )
        if added:
            self._execute(f"alter table {self._table} add if not exists{added}")
        for day in sorted(folder_by_day.keys() & existing_days):
            replaced = self._location(self._table, self._partition(day))
            self._execute(
                f"alter table {self._table} {self._partition(day)}\n"
                f"set location {self._text(folder_by_day[day])}"
            )
            self._keep_replaced(day, replaced)

    @cached_property
    def _replaced(self) -> str:
        return self._quoted(_with_ending(self.name, "_replaced"))

    def _keep_replaced(self, day: date, folder: str) -> None:
        """Name old files in a table of their own, so that they can be read and dropped."""
        self._execute(
            f"alter table {self._replaced} add if not exists "
            f"{self._partition(day, str(_today()))} location {self._text(folder)}"
        )

    def _drop_replaced(self) -> None:
        """Make the table of replaced files; drop those of it that nobody reads any more."""
        columns = ",\n    ".join(f"{self.job.at.column(n)} {kind}" for n, kind in self._columns)
        self._execute(
            f"create table if not exists {self._replaced} (\n    {columns},\n"
            "    replaced_on date,\n    replaced_by string\n)\nusing parquet\n"
            "partitioned by (spec, metric_date, replaced_on, replaced_by)\n"
            "comment 'what runs replaced: their files go a day later'"
        )
        for (folder,) in self._rows(f"show partitions {self._replaced} {self._of_spec}"):
            values = _values(str(folder))
            if day_of(values["replaced_on"]) >= _today() - timedelta(KEPT_DAYS):
                continue
            day = day_of(values["metric_date"])
            partition = self._partition(day, values["replaced_on"], values["replaced_by"])
            if not self._is_read(day, self._location(self._replaced, partition)):
                self._execute(f"alter table {self._replaced} drop if exists {partition}")

    def _is_read(self, day: date, folder: str) -> bool:
        """Whether a day of the table has its files there, as after somebody put them back."""
        if day not in self._partitions(self._table):
            return False
        return self._location(self._table, self._partition(day)) == folder

    def _drop_left_behind(self) -> None:
        """Drop the tables of runs that were killed: the lock says that none is there."""
        *schema, table = parts(self.name)
        in_schema = f"in {self._quoted('.'.join(map(identifier, schema)))} " if schema else ""
        for _, name, *_ in self._rows(f"show tables {in_schema}like '{table}_beside_*'"):
            leftover = ".".join(map(identifier, (*schema, str(name))))
            self._execute(f"drop table if exists {self._quoted(leftover)}")

    def _location(self, table: str, partition: str) -> str:
        return described(self.engine, f"{table} {partition}")["Location"]

    def _partitions(self, table: str) -> dict[date, str]:
        """Days of the spec that a table names -> the name of their folder."""
        rows = self._rows(f"show partitions {table} {self._of_spec}")
        folders = [str(folder) for (folder,) in rows]
        return {day_of(_values(folder)["metric_date"]): folder for folder in folders}

    def _partition(self, day: date, replaced_on: str = "", replaced_by: str = "") -> str:
        values = f"spec = {self._text(self.job.spec.title)}, metric_date = date '{day}'"
        if replaced_on:
            values += f", replaced_on = date '{replaced_on}'"
            values += f", replaced_by = '{replaced_by or self.job.key}'"
        return f"partition ({values})"

    @property
    def _of_spec(self) -> str:
        return f"partition (spec = {self._text(self.job.spec.title)})"

    @cached_property
    def _table(self) -> str:
        return self._quoted(self.name)

    def _quoted(self, name: str) -> str:
        return self.job.at.name(name)

    def _text(self, text: str) -> str:
        return self.job.at.value(literal(text))

    def _execute(self, statement: str) -> None:
        self.engine.execute(statement)

    def _rows(self, statement: str) -> list[tuple[object, ...]]:
        return self.engine.driver.rows(statement)


def described(engine: Database, table: str) -> dict[str, str]:
    """What the catalog of a Spark says of a table, each thing as it is said first."""
    details: dict[str, str] = {}
    for name, text, *_ in engine.driver.rows(f"describe extended {table}"):
        details.setdefault(str(name), str(text))
    return details


def unpartitioned(name: str) -> SpecError:
    """The error of a table of which no day can be replaced in one step."""
    return SpecError(
        f"{name} is not partitioned by spec and metric_date, so run cannot replace a "
        "day in one step; let run create its tables"
    )


def _today() -> date:
    return datetime.now(UTC).date()


def _with_ending(name: str, ending: str) -> str:
    *schema, table = parts(name)
    return ".".join(map(identifier, (*schema, table + ending)))


def _values(folder: str) -> dict[str, str]:
    """The values that the name of a partition's folder has.

    >>> _values("spec=a b%2Fc/metric_date=2026-01-31")
    {'spec': 'a b/c', 'metric_date': '2026-01-31'}
    """
    values = (part.partition("=") for part in folder.split("/"))
    return {unquote(column): unquote(value) for column, _, value in values}


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
    staging = engine.temporary(
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
