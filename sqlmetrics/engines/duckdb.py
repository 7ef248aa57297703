"""DuckDB: embedded, or a connection that the user already has."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from threading import RLock
from typing import TYPE_CHECKING, Any

import duckdb

from sqlmetrics.engines.descriptions import Descriptions
from sqlmetrics.engines.failure import one_line
from sqlmetrics.engines.setup import Setup
from sqlmetrics.engines.statements import Statements
from sqlmetrics.engines.url import ConnectionURL, check_there, is_file, is_sqlite
from sqlmetrics.engines.values import plain
from sqlmetrics.errors import EngineError, InputError, SpecError
from sqlmetrics.sql.template import finished, free_name, literal, parts, relation
from sqlmetrics.sql.translation import Translation

if TYPE_CHECKING:
    import pyarrow as pa

_TABLES = "select table_name from duckdb_tables() union select view_name from duckdb_views()"

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


_WRITING = RLock()


class DuckDB(Descriptions, Statements):
    """One connection. SELECT rights are enough: what is made is temporary.

    Used in a `with` block; on leaving it the connection is as it was: settings that
    change the meaning of SQL are put back, and nothing that was made stays.

    Args:
        connection: The user's own; it is left open. Default: a new one in memory.
        own: Whether to close it nevertheless.

    Raises:
        SpecError: If it is no DuckDB connection.
    """

    dialect = "duckdb"

    name = "DuckDB"
    translation = Translation()
    holds_nan = True

    def __init__(
        self, connection: duckdb.DuckDBPyConnection | None = None, *, own: bool = False
    ) -> None:
        if connection is not None and not isinstance(connection, duckdb.DuckDBPyConnection):
            raise SpecError(
                "connection must be a DuckDB connection; for a file give "
                f"duckdb.connect(path), given {connection!r}"
            )
        self._own = own or connection is None
        self._connection = open_database() if connection is None else connection
        self._undo = ExitStack()
        self._entered = 0

    @classmethod
    def open(cls, place: ConnectionURL) -> DuckDB:
        """A file, read only with the option `read_only`; without a path, one in memory."""
        setup = Setup.of(place)
        connection = open_database(
            place.path or None, writing=not setup.read_only, config=setup.config
        )
        engine = cls(connection, own=True)
        try:
            setup.carry_out(engine, place)
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
        """How many bytes it may take: its setting `memory_limit`."""
        text = str(self.rows("select current_setting('memory_limit')")[0][0])
        number, unit = text.split()
        power = ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit)
        return float(number) * float(1024**power)

    @contextmanager
    def limited(self, memory: str) -> Iterator[None]:
        """With another limit of memory, for as long as the block lasts.

        Raises:
            SpecError: If it is no size.
        """
        setting = "select current_setting('memory_limit')"
        before = self.rows(setting)
        try:
            self.execute(f"set memory_limit = {literal(memory)}")
        except (EngineError, InputError):
            raise SpecError(f"memory is a size like 4GB, given {memory!r}") from None
        try:
            yield
        finally:
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

    def __enter__(self) -> DuckDB:
        self._entered += 1
        if self._entered > 1:
            return self
        if self._own:
            self._undo.callback(self._connection.close)
            with suppress(EngineError):  # without its library of calendars it is in UTC anyway
                self._set("TimeZone", "UTC")
        else:  # its zone stays: days of times with a zone name theirs
            self._settle()
        self._leave_out(UNWANTED)
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if not self._entered:
            self._undo.close()

    def _settle(self) -> None:
        """Set what decides the meaning of our text, to be put back afterwards."""
        for name, wanted in SETTINGS.items():
            self._set(name, wanted)

    def _set(self, name: str, wanted: str) -> None:
        value = self.rows(f"select current_setting('{name}')")[0][0]
        if str(value).casefold() != wanted.casefold():
            self.execute(f"set {name} = {literal(wanted)}")
            self._undo.callback(self._restore, f"set {name} = {literal(str(value))}")

    def _leave_out(self, optimizer: str) -> None:
        """Plan without one of the optimizers, if there is one of that name."""
        setting = "select current_setting('disabled_optimizers') from duckdb_optimizers()"
        known = self.rows(f"{setting} where name = {literal(optimizer)}")
        value = str(known[0][0]) if known else ""
        if known and optimizer not in value:
            both = ",".join(filter(None, (value, optimizer)))
            self.execute(f"set disabled_optimizers = {literal(both)}")
            self._undo.callback(self._restore, f"set disabled_optimizers = {literal(value)}")

    def _restore(self, setting: str) -> None:
        with suppress(EngineError):  # in a transaction that failed nothing can be set
            self.execute(setting)

    def find(self, name: str) -> str | None:
        """A table or view as text for FROM, None if there is none of this name.

        A name is looked up as a whole first, then as `schema.table`.
        """
        known = {table.casefold() for (table,) in self.rows(_TABLES)}
        whole = name if name.isidentifier() else '"' + name.replace('"', '""') + '"'
        for text in (whole, name):
            if parts(text) and parts(text)[-1].casefold() in known and self._is_readable(text):
                return text
        return None

    def _is_readable(self, source: str) -> bool:
        try:
            self.columns(relation(source))
        except InputError:
            return False
        return True

    def register(self, name: str, data: Any) -> str:
        """Make data in memory readable without a copy, and say under which name.

        Raises:
            InputError: If it is not tabular data.
        """
        import pyarrow as pa

        from sqlmetrics.engines.types import arrow_data, differ_in_case, unreadable

        free = self.free_name(name)
        try:
            table = arrow_data(data)
            self._connection.register(free, table)
        except (pa.ArrowException, TypeError, ValueError, duckdb.Error) as error:
            raise InputError(unreadable(error)) from None
        differ_in_case(table.schema.names)
        self._undo.callback(self._connection.unregister, free)
        return free

    def load(self, name: str, data: Any) -> str:
        """Make a table of exactly this name, which stays, and fill it.

        Raises:
            InputError: If it is not tabular data.
            EngineError: If there is such a table, or it cannot be written.
        """
        held = self.register("sqlmetrics_loaded", data)
        self.execute(f"create table {self.quoted(name)} as select * from {held}")
        return name

    def quoted(self, name: str) -> str:
        """A dotted name as text of the dialect."""
        return finished(relation(finished(name)))

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """A schema of its own, in memory, dropped with all that is in it."""
        name = f"sqlmetrics_scratch_{secrets.token_hex(4)}"
        with self.made(f"attach ':memory:' as {name}", f"detach {name}"):
            yield name

    def free_name(self, name: str) -> str:
        """The name, or one with a number behind it that no table or view has."""
        taken = {table.casefold() for (table,) in self.rows(_TABLES)}
        return free_name(name, taken.__contains__)

    def describe(self, source: str) -> dict[str, str]:
        """Names and types of what stands behind FROM, as it is now.

        Raises:
            InputError: If it cannot be read.
        """
        try:
            rows = self._connection.execute(finished(f"describe select * from {source}")).fetchall()
        except duckdb.Error as error:
            raise InputError(f"cannot be read: {_brief(error)}") from None
        return {name: kind for name, kind, *_ in rows}

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._fetched(sql)[1]

    def records(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query as dicts of Python's own values."""
        names, rows = self._fetched(sql)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _fetched(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """The names and rows of a query."""
        with _failing(sql):
            found = self._connection.execute(finished(sql))
            names = [name for name, *_ in found.description]
            kinds = [str(kind) for _, kind, *_ in found.description]
            if any(kind.endswith("TIME ZONE") for kind in kinds):  # fetchall() wants pytz for it
                if hasattr(found, "abort"):  # from DuckDB 2.0 on, it holds the connection
                    found.abort()
                columns = self._connection.sql(finished(sql)).to_arrow_table().columns
                rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
            else:
                rows = found.fetchall()
        decimals = any(kind.startswith("DECIMAL") for kind in kinds)
        return names, [tuple(map(plain, row)) for row in rows] if decimals else rows

    def try_out(self, sql: str) -> None:
        """Raise an error if a query cannot run; nothing is computed."""
        self.rows(f"explain {sql}")

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:  # noqa: ARG002 (no other process can write)
        """As the only one of this process that writes: of others the file keeps out all."""
        with _WRITING:
            yield

    def _transaction(self) -> tuple[str, str, str]:
        return "begin transaction", "commit", "rollback"

    def table(self, sql: str) -> pa.Table:
        """The rows of a query as an Arrow table."""
        from sqlmetrics.engines.types import settled

        with _failing(sql):
            return settled(self._connection.sql(finished(sql)).to_arrow_table())

    def execute(self, sql: str) -> None:
        """Run a statement."""
        with _failing(sql):
            self._connection.execute(finished(sql))


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
        SpecError: If the file is not there, and is only read.
        EngineError: If it cannot be opened.
    """
    if database is None:
        return duckdb.connect(config={"python_enable_replacements": False, **(config or {})})
    if not writing:
        check_there(database)
    try:
        return duckdb.connect(database, read_only=not writing, config=dict(config or {}))
    except duckdb.Error as error:
        if is_sqlite(database):
            url = f"sqlite:///{database}"
            raise SpecError(f"{database!r} is a SQLite file: --connection {url}") from None
        folder = os.path.dirname(database) or "."
        if is_file(database) and not os.path.isdir(folder):
            raise SpecError(f"there is no folder {folder!r} for {database!r}; make it") from None
        raise EngineError(f"cannot open {database!r}: {_brief(error)}") from None


@contextmanager
def _failing(sql: str) -> Iterator[None]:
    try:
        yield
    except (duckdb.InvalidInputException, duckdb.ConversionException) as error:
        raise InputError(f"cannot be read: {_brief(error)}") from error
    except duckdb.Error as error:
        raise EngineError(f"DuckDB failed: {_brief(error)}", sql) from error


def _brief(error: Exception) -> str:
    """What went wrong, in one printable line, without DuckDB's advice on its own options."""
    if "Could not set lock" in str(error):
        holder = re.search(r" \(PID \d+\)", str(error))
        who = holder[0] if holder else ""
        return f"another process has it open{who}; stop it, or let it read what --publish copies"
    if "not utf-8 encoded" in str(error):
        line = re.search(r"CSV Error on (Line: [\d,]+)", str(error))
        return f"it is not UTF-8{f' ({line[1]})' if line else ''}; save it as 'CSV UTF-8'"
    if "sniffing file" in str(error):
        mark = re.search(r"Delimiter Candidates: ('.*')", str(error))
        split = f"split at {mark[1]} " if mark else ""
        return (
            f"{split}it has rows with more or fewer values than its header line has names, or "
            "an open quote"
        )
    lines = str(error).split("Possible ")[0].strip().split("\n")
    telling = [line.strip() for line in lines[:5] if line.strip(" ^") and line[:5] != "LINE "]
    told = " / ".join(telling[:4] if lines[0].startswith("Invalid Input") else telling[:1])
    return one_line(told)
