"""DuckDB: embedded, or a connection that the user already has."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, Any

import duckdb

from sqlmetrics.engines.database_file import fill_empty, is_empty
from sqlmetrics.engines.driver import Driver, plain
from sqlmetrics.engines.failure import one_line
from sqlmetrics.engines.setup import Setup
from sqlmetrics.engines.url import ConnectionURL, is_file
from sqlmetrics.engines.waiting import waiting
from sqlmetrics.errors import EngineError, InputError, SpecError
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.template import EXACT_SUM, finished, free_name, literal, parts, relation

if TYPE_CHECKING:
    import pyarrow as pa

_TABLES = "select table_name from duckdb_tables() union all select view_name from duckdb_views()"

_COLUMNS = """select
    lower(table_name),
    concat(database_name, '.', schema_name),
    database_name = current_database()
    and (database_name, schema_name, table_name) in (
        select (database_name, schema_name, table_name)
        from duckdb_tables()
    ),
    lower(schema_name),
    lower(current_schema()),
    column_name,
    data_type
from duckdb_columns()
where lower(table_name) in ({names})
order by column_index"""
"""The columns of what is called so in all schemas, and whether it is a table of this database."""

SETTINGS = {
    "default_collation": "",
    "default_order": "ASCENDING",
    "default_null_order": "NULLS_LAST",
    "preserve_insertion_order": "true",
}
"""Settings that decide what our text means, and the values that it is written for."""

UNWANTED = "partitioned_execution"
"""An optimizer of DuckDB 2.0: it cuts a grouping of a sorted file into ranges, and then reads
the whole file again for each of them if the file is filtered, as our buckets are."""

_FILES = "select path from duckdb_databases() where path is not null"

_WRITING = RLock()

_USERS: Counter[int] = Counter()
"""Connection, by its id -> how many drivers read it: a user's own may be given twice at once."""


class DuckDB(Driver):
    """A connection of DuckDB. SELECT rights are enough: what is made is temporary.

    Args:
        connection: The user's own; it is left open. Default: a new one in memory.
        own: Whether to close it nevertheless.

    Raises:
        SpecError: If it is no DuckDB connection.
    """

    dialect = "duckdb"
    name = "DuckDB"
    errors = (duckdb.Error,)
    TAKES_SEVERAL = True
    TRANSACTION = ("begin transaction", "commit", "rollback")

    def __init__(
        self, connection: duckdb.DuckDBPyConnection | None = None, *, is_owned: bool = False
    ) -> None:
        if connection is not None and not isinstance(connection, duckdb.DuckDBPyConnection):
            raise SpecError(
                "connection must be a DuckDB connection; for a file give "
                f"duckdb.connect(path), given {connection!r}"
            )
        opened = open_database() if connection is None else connection
        self._memory = ""
        super().__init__(opened, is_owned=is_owned or connection is None)

    @classmethod
    def open(cls, url: ConnectionURL) -> DuckDB:
        """A file, read only with the option `read_only`; without a path, one in memory."""
        setup = Setup.of(url)
        connection = open_database(
            url.path or None, writing=not setup.read_only, config=setup.config
        )
        engine = cls(connection, is_owned=True)
        try:
            setup.carry_out(engine, url)
        except BaseException:
            connection.close()
            raise
        return engine

    @property
    def version(self) -> str:
        """Of the library."""
        return duckdb.__version__

    @property
    def memory(self) -> float:
        """Its setting `memory_limit`, asked for once until it is set here."""
        if not self._memory:
            self._memory = str(self.rows("select current_setting('memory_limit')")[0][0])
        number, unit = self._memory.split()
        power = ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit)
        return float(number) * float(1024**power)

    @contextmanager
    def limited(self, memory: str) -> Iterator[None]:
        """With another `memory_limit`, for as long as the block lasts."""
        setting = "select current_setting('memory_limit')"
        before = self.rows(setting)
        try:
            self.execute(f"set memory_limit = {literal(memory)}")
        except (EngineError, InputError):
            raise SpecError(f"memory must be a size like 4GB, given {memory!r}") from None
        self._memory = ""
        try:
            yield
        finally:
            self._memory = ""
            self._restore("reset memory_limit")
            if self.rows(setting) != before:  # told in rounded GiB: set only if it was set
                self._restore(f"set memory_limit = {literal(str(before[0][0]))}")

    @contextmanager
    def profiled(self, file: str) -> Iterator[None]:
        """With DuckDB's own profile of the last statement of the block in a JSON file."""
        self.execute("set enable_profiling = 'json'")
        self.execute(f"set profiling_output = {literal(file)}")
        try:
            yield
        finally:
            self._restore("reset profiling_output")
            self._restore("pragma disable_profiling")

    def _settle(self) -> None:
        """Set what decides the meaning of our text; the zone of the user's own connection stays."""
        self._memory = ""
        adding = dialect_named(self.dialect).exact_sum.format(name=EXACT_SUM)
        if self._own:
            with suppress(EngineError):  # without its library of calendars it is in UTC anyway
                self.execute(f"{adding};\nset TimeZone = 'UTC'")
        else:  # days of times with a zone name theirs
            self._add_exactly(adding)
            for name, target_value in SETTINGS.items():
                self._set(name, target_value)
        self._leave_out(UNWANTED)

    def _add_exactly(self, adding: str) -> None:
        """Give the user's connection the sum that is the same in any order, until it is left."""
        self.execute(adding)
        _USERS[id(self._connection)] += 1
        self._undo.callback(self._add_no_more)

    def _add_no_more(self) -> None:
        _USERS[id(self._connection)] -= 1
        if not _USERS[id(self._connection)]:
            del _USERS[id(self._connection)]
            self._restore(f"drop macro if exists temp.{EXACT_SUM}")

    def _set(self, name: str, target_value: str) -> None:
        value = self.rows(f"select current_setting('{name}')")[0][0]
        if str(value).casefold() != target_value.casefold():
            self.execute(f"set {name} = {literal(target_value)}")
            self._undo.callback(self._restore, f"set {name} = {literal(str(value))}")

    def _leave_out(self, optimizer: str) -> None:
        """Plan without one of the optimizers, if there is one of that name."""
        setting = "select current_setting('disabled_optimizers') from duckdb_optimizers()"
        optimizer_rows = self.rows(f"{setting} where name = {literal(optimizer)}")
        value = str(optimizer_rows[0][0]) if optimizer_rows else ""
        if optimizer_rows and optimizer not in value:
            disabled = ",".join(filter(None, (value, optimizer)))
            self.execute(f"set disabled_optimizers = {literal(disabled)}")
            self._undo.callback(self._restore, f"set disabled_optimizers = {literal(value)}")

    def _restore(self, setting: str) -> None:
        with suppress(EngineError):  # in a transaction that failed nothing can be set
            self.execute(setting)

    @property
    def files(self) -> list[str]:
        """Those of its databases."""
        return [path for (path,) in self.rows(_FILES)]

    def find(self, name: str) -> str | None:
        """As other drivers do; of most names, which are of files, the catalogue is asked once."""
        ends = {part.casefold() for part in (name, *parts(name)[-1:])}
        return super().find(name) if ends & self._tables() else None

    def _is_there(self, name: str) -> bool:
        return parts(name)[-1].casefold() in self._tables() and super()._is_there(name)

    def free_name(self, name: str) -> str:
        """The name, or one with a number behind it that no table or view has."""
        return free_name(name, self._tables().__contains__)

    def _tables(self) -> set[str]:
        return {table.casefold() for (table,) in self.rows(_TABLES)}

    def quoted(self, name: str) -> str:
        """A dotted name as text of the dialect."""
        return finished(relation(finished(name)))

    def _loadable(self, data: Any) -> Any:
        """Data in memory that can be read without a copy: a stream stays one."""
        import pyarrow as pa

        from sqlmetrics.engines.types import arrow_data, differ_in_case, unreadable

        try:
            table = arrow_data(data)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(unreadable(error)) from None
        differ_in_case(table.schema.names)
        return table

    def _make(self, name: str, table: Any, *, temporary: bool) -> None:
        """What is registered is read where it is."""
        if not temporary:
            self._fill(self.quoted(name), table)
            return
        from sqlmetrics.engines.types import unreadable

        try:
            self._connection.register(_plain(name), table)
        except (TypeError, ValueError, duckdb.Error) as error:
            raise InputError(unreadable(error)) from None

    def _fill(self, target: str, table: Any) -> None:
        """The table is made as it is filled: its types are those of the data."""
        held = self.register("sqlmetrics_loaded", table)
        self.execute(f"create table {target} as select * from {held}")

    def _forget(self, name: str) -> None:
        self._connection.unregister(_plain(name))

    def _scratch(self, name: str) -> tuple[str, str]:
        return f"attach ':memory:' as {name}", f"detach {name}"

    def _kinds(self, source: str) -> dict[str, str]:
        return self.described(f"select * from {source}")

    def described(self, sql: str) -> dict[str, str]:
        """The columns of a query."""
        try:
            with self._watched(sql):
                rows = self._connection.execute(f"describe {finished(sql)}").fetchall()
        except duckdb.Error as error:
            raise InputError(f"cannot be read: {_brief(error)}") from None
        return {name: kind for name, kind, *_ in rows}

    def described_tables(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """By the catalogue: tables of which there is one in all schemas, and what is nowhere.

        Columns of a view hang on its query, which is described by itself.
        """
        tables = {name: [part.lower() for part in parts(name)] for name in names}
        literals = ", ".join(literal(path[-1]) for path in tables.values())
        rows = self.rows(_COLUMNS.format(names=literals))
        described: dict[str, dict[str, str]] = {}
        for name, (*path, table) in tables.items():
            columns = [row for row in rows if row[0] == table]
            if not columns:
                described[name] = {}
                continue
            _, folder, is_table, schema, current, *_ = columns[0]
            is_only = all(row[1] == folder for row in columns)
            if is_only and is_table and (path or [current]) == [schema]:
                described[name] = {column: kind for *_, column, kind in columns}
        return described

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._fetched(sql)[1]

    def records(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query as dicts of Python's own values."""
        names, rows = self._fetched(sql)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _fetched(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names and rows of a query."""
        with self._failing(sql):
            cursor = self._connection.execute(finished(sql))
            names = [name for name, *_ in cursor.description]
            kinds = [str(kind) for _, kind, *_ in cursor.description]
            if any(kind.endswith("TIME ZONE") for kind in kinds):  # fetchall() wants pytz for it
                if hasattr(cursor, "abort"):  # from DuckDB 2.0 on, it holds the connection
                    cursor.abort()
                columns = self._connection.sql(finished(sql)).to_arrow_table().columns
                rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
            else:
                rows = cursor.fetchall()
        decimals = any(kind.startswith("DECIMAL") for kind in kinds)
        return names, [tuple(map(plain, row)) for row in rows] if decimals else rows

    def try_out(self, sql: str) -> None:
        """Raise an error if a query cannot run; nothing is computed."""
        self.rows(f"explain {sql}")

    def estimate(self, sql: str) -> str:
        """The rows that the planner expects to come of a query."""
        explained = self._connection.execute(f"explain (format json) {sql}").fetchall()
        estimates = re.findall(r'"Estimated Cardinality": "(\d+)"', explained[0][1])
        return f"about {int(estimates[0]):,} rows" if estimates else ""

    @contextmanager
    def alone(self, name: str) -> Iterator[str]:
        """As the only one of this process that writes: of others the file keeps out all."""
        with waiting(lambda: (f"another thread of this process that writes {name}", "")):
            _WRITING.acquire()
        try:
            yield ""
        finally:
            _WRITING.release()

    def execute_together(self, statements: Sequence[str]) -> None:
        """As other drivers do, with the transaction in the same text."""
        if self._in_transaction():
            super().execute_together(statements)
            return
        begin, commit, rollback = self.TRANSACTION
        try:
            self.execute_all([begin, *statements, commit])
        except BaseException:
            self._tried(rollback)
            raise

    def _run(self, sql: str) -> None:
        self._connection.execute(sql)

    def _arrow(self, sql: str) -> pa.Table:
        return self._connection.sql(sql).to_arrow_table()

    def share_done(self) -> float | None:
        """As DuckDB says it; None before it knows, and of a session that was told not to."""
        with suppress(Exception):  # of a connection that is closed by now
            percent = float(self._connection.query_progress())
            return percent / 100 if percent > 0 else None
        return None

    def _is_interruption(self, error: Exception) -> bool:
        return isinstance(error, RuntimeError) and "Query interrupted" in str(error)

    @contextmanager
    def _converting(self, sql: str) -> Iterator[None]:
        try:
            yield
        except (duckdb.Error, RuntimeError) as error:  # as versions of DuckDB refuse a surrogate
            if odd := next((char for char in sql if "\ud800" <= char <= "\udfff"), ""):
                raise InputError(f"a name or text has {odd!r}, which is not a character") from error
            is_cut = (
                isinstance(error, duckdb.IOException) and "gzip stream" in str(error).casefold()
            )
            if is_cut or isinstance(
                error, duckdb.InvalidInputException | duckdb.ConversionException
            ):
                raise InputError(f"cannot be read: {_brief(error)}") from error
            if isinstance(error, duckdb.Error):
                raise EngineError(f"DuckDB failed: {_brief(error)}", sql) from error
            raise


def _plain(name: str) -> str:
    """A name as it is in the catalogue, without quotes."""
    return parts(finished(name))[-1]


DUCKLAKE = (
    "its extension comes from the internet, or by pip install duckdb-extension-ducklake; "
    "then name it in profiles.yml: extensions: [ducklake], attach: [{path: ducklake:FILE, "
    "alias: lake}]"
)
"""What is said where a catalog of DuckLake cannot be opened."""


def open_database(
    database: str | None = None,
    *,
    writing: bool = False,
    config: Mapping[str, Any] | None = None,
) -> duckdb.DuckDBPyConnection:
    """A connection to a database file, or to a new database in memory.

    Args:
        database: The file; None for memory.
        writing: Whether to write to it; the file is then made if it is not there.
        config: What DuckDB is told as it opens the file.

    Raises:
        SpecError: If there is no folder for it.
        EngineError: If it cannot be opened.
    """
    if database is None:
        return _silent(
            duckdb.connect(config={"python_enable_replacements": False, **(config or {})})
        )
    if writing and is_empty(database):
        fill_empty(database)
    try:
        return _silent(duckdb.connect(database, read_only=not writing, config=dict(config or {})))
    except duckdb.Error as error:
        folder = os.path.dirname(database) or "."
        if is_file(database) and not os.path.isdir(folder):
            raise SpecError(f"there is no folder {folder!r} for {database!r}; create it") from None
        hint = f"; {DUCKLAKE}" if database.startswith("ducklake:") else ""
        raise EngineError(f"cannot open {database!r}: {_brief(error)}{hint}") from None


def _silent(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The same, which says how far it is and draws nothing: stdout is for data.

    In a notebook without ipywidgets DuckDB refuses to be told so, by whatever error, and draws
    nothing.
    """
    with suppress(Exception):
        connection.execute("set enable_progress_bar_print = false; set enable_progress_bar = true")
    return connection


def _brief(error: BaseException) -> str:
    """What went wrong, in one printable line, without DuckDB's advice on its own options."""
    if "Could not set lock" in str(error):
        holder = re.search(r" \(PID \d+\)", str(error))
        who = holder[0] if holder else ""
        return f"another process has it open{who}; stop it, or give it a copy to read (--publish)"
    if "Could not read enough bytes" in str(error):
        return (
            "the file ends too early: it was not completely written or copied, as after a full "
            "disk; restore it, or delete it if it is new, and run again"
        )
    if "not utf-8 encoded" in str(error):
        line = re.search(r"CSV Error on (Line: [\d,]+)", str(error))
        return f"it is not UTF-8{f' ({line[1]})' if line else ''}; save it as 'CSV UTF-8'"
    if "sniffing file" in str(error):
        mark = re.search(r"Delimiter Candidates: ('.*')", str(error))
        split = f"split at {mark[1]} " if mark else ""
        return (
            f"{split}some rows have more or fewer values than the header has names, or a quote is "
            "not closed"
        )
    lines = str(error).split("Possible ")[0].strip().split("\n")
    telling = [line.strip() for line in lines[:5] if line.strip(" ^") and line[:5] != "LINE "]
    message = " / ".join(telling[:4] if lines[0].startswith("Invalid Input") else telling[:1])
    return one_line(message)
