"""MySQL and MariaDB, through PyMySQL."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from tempfile import NamedTemporaryFile
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pymysql
from pymysql.constants import FIELD_TYPE, SERVER_STATUS
from pymysql.cursors import Cursor

from sqlmetrics.engines.dbapi import WorkMemory
from sqlmetrics.engines.driver import STANDARD
from sqlmetrics.engines.failure import ABSENT, DENIED, LOST, READ_ONLY, TYPE, first_line
from sqlmetrics.engines.types import decimal, kind_of
from sqlmetrics.engines.url import ConnectionURL
from sqlmetrics.engines.waiting import CONNECT_TIMEOUT, STOP_TIMEOUT
from sqlmetrics.errors import EngineError
from sqlmetrics.sql.dialects import dialect_named

_KINDS = {
    FIELD_TYPE.DATE: "DATE",
    FIELD_TYPE.DATETIME: "TIMESTAMP",
    FIELD_TYPE.DOUBLE: "DOUBLE",
    FIELD_TYPE.FLOAT: "DOUBLE",
    FIELD_TYPE.INT24: "BIGINT",
    FIELD_TYPE.LONG: "BIGINT",
    FIELD_TYPE.LONGLONG: "BIGINT",
    FIELD_TYPE.NEWDATE: "DATE",
    FIELD_TYPE.SHORT: "BIGINT",
    FIELD_TYPE.TIME: "TIME",
    FIELD_TYPE.TIMESTAMP: "TIMESTAMP",
    FIELD_TYPE.TINY: "BIGINT",
    FIELD_TYPE.YEAR: "BIGINT",
}

ROW_BYTES = 60_000
"""What the varchars of a row may take together; the server's limit is 65,535."""

_KEPT = re.compile(r"((?:\s|--[^\n]*\n)*create temporary table (\S+) as\n)(.*)", re.DOTALL)
_OURS = re.compile(r"(?:\s|--.*\n)*(?:create|drop)\b")

ESCAPES = (("\\", r"\\"), ("\t", r"\t"), ("\n", r"\n"), ("\r", r"\r"), ("\0", r"\0"))


class MySQL(WorkMemory):
    """A connection of PyMySQL; rows go in by LOAD DATA LOCAL where the server allows it.

    Making or dropping a table that is not temporary commits: the engine's own rule.
    """

    holds_nan = False
    HINT = "read_timeout of the connection, in seconds, bounds it"
    errors = (pymysql.Error,)
    TYPES: ClassVar = STANDARD | {"TIMESTAMP": "datetime(6)"}
    CODES: ClassVar = {
        "0": LOST,
        "2006": LOST,
        "2013": LOST,
        "2055": LOST,
        "1927": LOST,
        "1792": READ_ONLY,
        "1044": DENIED,
        "1045": DENIED,
        "1142": DENIED,
        "1143": DENIED,
        "1227": DENIED,
        "1370": DENIED,
        "1049": ABSENT,
        "1051": ABSENT,
        "1054": ABSENT,
        "1146": ABSENT,
        "1264": TYPE,
        "1265": TYPE,
        "1292": TYPE,
        "1366": TYPE,
        "1367": TYPE,
        "1918": TYPE,
    }

    WORK_SETTINGS = ("tmp_table_size", "max_heap_table_size")  # the smaller one holds

    _connect_arguments: Mapping[str, Any] | None = None

    @classmethod
    def open(cls, url: ConnectionURL) -> MySQL:
        """The server of a URL; what follows `?` is PyMySQL's."""
        arguments = url.driver_options(**url.login)
        with url.opening():
            engine = cls(_connected(arguments), is_owned=True)
        engine._connect_arguments = arguments
        return engine

    @property
    def dialect(self) -> str:  # type: ignore[override]
        """That of MariaDB or MySQL, as the server says it."""
        return "mariadb" if "MariaDB" in self._connection.get_server_info() else "mysql"

    @property
    def name(self) -> str:  # type: ignore[override]
        """MariaDB or MySQL."""
        return dialect_named(self.dialect).title

    @property
    def version(self) -> str:
        """As the server says it."""
        version_text = self._connection.get_server_info().removeprefix("5.5.5-")  # for old clients
        return str(version_text.partition("-")[0])

    @property
    def collation(self) -> str:
        """That in which texts are equal only if their bytes are, also in trailing spaces."""
        return dialect_named(self.dialect).collation

    @property
    def TEMPORARY(self) -> str:  # type: ignore[override] # noqa: N802
        """MySQL cannot read a temporary table twice in one query; MariaDB can."""
        return "temporary " if self.dialect == "mariadb" else ""

    def _settings(self) -> dict[str, str]:
        """Settings that decide what our text means, or (the last two) whether it ever ends.

        A stage that is merged into another is joined by expressions, for which there is
        neither a key nor a hash join.
        """
        settings = {
            "sql_mode": "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO",
            "time_zone": "+00:00",
            "collation_connection": self.collation,
            "optimizer_switch": "derived_merge=off",
        }
        return settings | ({"join_cache_level": "4"} if self.dialect == "mariadb" else {})

    def _run(self, sql: str) -> None:
        """Run a statement; where nothing may change, with leave for tables of ours alone.

        A temporary table cannot be made in a transaction that reads only, but filled. A query
        whose rows nobody wants runs functions all the same, if they are deterministic: so it
        is tried out before it makes the table.
        """
        if not self.is_read_only or not _OURS.match(sql):
            super()._run(sql)
            return
        keep_match = _KEPT.fullmatch(sql) if self.TEMPORARY else None
        create, name, select = keep_match.groups() if keep_match else (sql, "", "")
        columns = f"select * from (\n{select}\n) as kept limit 0"
        if keep_match:
            super()._run(columns)
        with self._writing():
            super()._run(f"{create}{columns}" if keep_match else sql)
        if keep_match:
            super()._run(f"insert into {name}\n{select}")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """With leave to write what is ours."""
        if not self.is_read_only:
            yield
            return
        self._access("write")
        try:
            yield
        finally:
            self._access("only")

    def _access(self, access_mode: str) -> None:
        super()._run(f"set session transaction read {access_mode}")

    def _settle(self) -> None:
        for name, target_value in self._settings().items():
            value = self.rows(f"select @@session.{name}")[0][0]
            self._set(name, target_value)
            if not self._own:
                self._undo.callback(self._quietly, self._set, name, str(value))
        self._settle_memory()
        if self.is_read_only:
            self._access("only")

    def _work_size(self, name: str) -> int:
        return int(self.rows(f"select @@session.{name}")[0][0])

    def _set_work_size(self, name: str, size: int) -> None:
        self._set(name, str(size))

    def _set(self, name: str, value: str) -> None:
        self.execute(f"set session {name} = {value if value.isdigit() else self._literal(value)}")

    @contextmanager
    def alone(self, name: str) -> Iterator[str]:
        """As the only one that writes what is named so: a user lock, which ends with us."""
        key = self._lock_key(name)
        ((is_free,),) = self.rows(f"select get_lock({key}, 0)")
        if not is_free:
            self._wait_for(name, key)
        try:
            yield ""
        finally:
            self._quietly(self.rows, f"select release_lock({key})")

    def _wait_for(self, name: str, key: str) -> None:
        """Wait for the lock of another run.

        Raises:
            EngineError: If it is not free in time.
        """
        ((holder,),) = self.rows(f"select is_used_lock({key})")
        subject = f"the lock of {name}" + (f", which connection {holder} holds" if holder else "")
        sql = f"select get_lock({key}, {self.lock_timeout:.0f})"
        waited = self._watched(sql, lambda: (subject, self._bound))
        with waited, self._converting(sql), self._running(sql) as cursor:
            ((is_free,),) = cursor.fetchall()
        if not is_free:
            raise EngineError(
                f"another run writes {name}: {subject} was not free within "
                f"{self.lock_timeout:,.0f} s; try again, or raise lock_timeout of the connection"
            )

    def estimate(self, sql: str) -> str:
        """The rows that the server expects to look at, and the partitions that it reads."""
        with self._failing(sql), self._running(f"explain partitions {sql}") as cursor:
            names = [described[0].casefold() for described in cursor.description]
            plan = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        count = sum(int(line["rows"] or 0) for line in plan)
        read = ", ".join(str(line["partitions"]) for line in plan if line.get("partitions"))
        return f"about {count:,} rows" + (f", of {read}" if read else "")

    def _tag(self, text: str) -> None:
        """At the end of each statement, which the list of processes shows."""
        self._comment = f"\n-- {text}"

    def writing_rights(self, names: Sequence[str] = ()) -> tuple[str, ...]:  # noqa: ARG002
        """The grants that the server lists: of the user, and of its roles that are active."""
        return tuple(
            f"as granted: {text.removeprefix('GRANT ').partition(' IDENTIFIED')[0]}"
            for (text,) in self.rows("show grants")
        )

    @property
    def session(self) -> str:
        """The number of the connection."""
        ((number,),) = self.rows("select connection_id()")
        return str(number)

    def has_session(self, session: str) -> bool | None:
        """Whether there is a connection of that number, of the same user."""
        sql = f"select 1 from information_schema.processlist where id = {int(session)}"
        return bool(self.rows(sql))

    def _stop(self) -> None:
        """Kill the query over another connection: the driver has closed its own."""
        if self._connect_arguments:
            arguments = {**self._connect_arguments, "connect_timeout": STOP_TIMEOUT}
            with suppress(Exception), closing(_connected(arguments)) as connection:
                connection.query(f"kill query {self._connection.thread_id()}")

    def _cursor(self) -> Any:
        return self._connection.cursor(Cursor)

    def _in_transaction(self) -> bool:
        status = self._connection.server_status
        return bool(status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)

    def _code(self, error: BaseException) -> str:
        return str(error.args[0]) if error.args else "0"

    def _brief(self, error: BaseException) -> str:
        return first_line(error.args[1] if len(error.args) > 1 else error)

    def _kind(self, described: Sequence[Any]) -> str:
        code, precision, scale = described[1], described[4], described[5]
        if code in (FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL):
            return decimal(precision, scale)
        return _KINDS.get(code, "VARCHAR")

    def _types(self, table: pa.Table) -> list[str]:
        """Texts as varchars of the longest, which can be keys, else as longtext."""
        texts = {i: _longest(array) for i, array in enumerate(table.columns) if _is_text(array)}
        fits = sum(texts.values()) * 4 <= ROW_BYTES
        binary = f"character set utf8mb4 collate {self.collation}"
        return [
            f"{f'varchar({texts[i]})' if fits else 'longtext'} {binary}" if i in texts else kind
            for i, kind in enumerate(super()._types(table))
        ]

    def _fill(self, target: str, table: pa.Table) -> None:
        with NamedTemporaryFile("wb", suffix=".tsv", delete=False) as file:
            for batch in table.to_batches(max_chunksize=65_536):
                file.write(_lines(batch))
        try:
            with self._writing():
                super()._run(
                    f"load data local infile {self._literal(file.name)} into table {target} "
                    r"character set utf8mb4 fields terminated by '\t' escaped by '\\' "
                    r"lines terminated by '\n'"
                )
        except pymysql.Error as error:
            if self._code(error) not in ("1148", "3948", "3950", "4166"):  # not allowed
                raise
            with self._writing():
                super()._fill(target, table)
        finally:
            os.unlink(file.name)

    def _scratch(self, name: str) -> tuple[str, str]:
        binary = f"character set utf8mb4 collate {self.collation}"
        return f"create database {name} {binary}", f"drop database {name}"


def _connected(arguments: Mapping[str, Any]) -> pymysql.Connection[Any]:
    """A connection to a server that answers in time: PyMySQL waits for ever for its greeting."""
    seconds = float(arguments.get("connect_timeout", CONNECT_TIMEOUT))
    connect_arguments = {
        **arguments,
        "connect_timeout": seconds,
        "read_timeout": seconds,
        "defer_connect": True,
    }
    connection = pymysql.connect(**connect_arguments, autocommit=True, local_infile=True)
    connection.connect()
    reading = arguments.get("read_timeout")  # which is of statements
    connection._read_timeout = None if reading is None else float(reading)
    return connection


def _is_text(array: pa.ChunkedArray) -> bool:
    return kind_of(array.type) == "VARCHAR"


def _longest(array: pa.ChunkedArray) -> int:
    return max(pc.max(pc.utf8_length(array)).as_py() or 0, 1)


def _lines(batch: pa.RecordBatch) -> bytes:
    """Rows as LOAD DATA reads them: tabs between, NULL as backslash N."""
    fields = [_field(array) for array in batch.columns]
    joined = pc.binary_join_element_wise(*fields, "\t")
    lines = pc.binary_join_element_wise(joined, "", "\n")
    texts = lines.buffers()[-1]  # one behind the other, which is all that the file is
    return texts.to_pybytes() if texts else b""


def _field(array: pa.Array) -> pa.Array:
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    text = array.cast(pa.string())
    for character, escaped in ESCAPES:
        if pa.types.is_string(array.type):
            text = pc.replace_substring(text, character, escaped)
    return text.fill_null(r"\N")
