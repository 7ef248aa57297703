"""ClickHouse: inside the process through chdb, or a server through clickhouse-connect."""

from __future__ import annotations

import re
import uuid
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from sqlmetrics.engines.driver import Driver, size_in_bytes
from sqlmetrics.engines.failure import ABSENT, DENIED, LOST, TYPE, first_line
from sqlmetrics.engines.types import decimal
from sqlmetrics.engines.url import ConnectionURL
from sqlmetrics.engines.waiting import CONNECT_TIMEOUT, STOP_TIMEOUT
from sqlmetrics.errors import EngineError

SETTINGS = {
    "join_use_nulls": "1",
    "group_by_use_nulls": "1",
    "union_default_mode": "ALL",
    "session_timezone": "UTC",
    "output_format_arrow_string_as_string": "1",
}
"""Settings that decide what our text means: without the first, what a join does not find is
0 or an empty text, and no NULL."""

SPILLS = (
    "max_bytes_before_external_sort",
    "max_bytes_before_external_group_by",
    "max_bytes_before_external_join",
)
"""Settings of how much is kept in memory before it goes to disk; older versions lack the last."""

USUAL = 4e9
"""So many bytes may be taken where the database does not say how many it has."""

_WRAPPED = re.compile(r"(?:Nullable|LowCardinality)\((.*)\)$")
_ZONED = re.compile(r"DateTime(?:64)?\([^()]*'")
_KINDS = (
    ("Int", "BIGINT"),
    ("UInt", "BIGINT"),
    ("Float", "DOUBLE"),
    ("BFloat", "DOUBLE"),
    ("String", "VARCHAR"),
    ("FixedString", "VARCHAR"),
    ("Enum", "VARCHAR"),
    ("Bool", "BOOLEAN"),
    ("DateTime", "TIMESTAMP"),
    ("Date", "DATE"),
    ("Tuple", "STRUCT"),
    ("Map", "MAP"),
    ("Interval", "INTERVAL"),
)


class ClickHouse(Driver):
    """What the two have in common. There are no transactions: each statement stands alone."""

    dialect = "clickhouse"
    name = "ClickHouse"
    transactional = False
    TYPES: ClassVar = {
        "BIGINT": "Nullable(Int64)",
        "BOOLEAN": "Nullable(Bool)",
        "DATE": "Nullable(Date32)",
        "DOUBLE": "Nullable(Float64)",
        "TIMESTAMP": "Nullable(DateTime64(6))",
        "VARCHAR": "Nullable(String)",
    }
    CODES: ClassVar = {
        "6": TYPE,
        "16": ABSENT,
        "38": TYPE,
        "41": TYPE,
        "43": TYPE,
        "47": ABSENT,
        "53": TYPE,
        "60": ABSENT,
        "70": TYPE,
        "72": TYPE,
        "81": ABSENT,
        "164": DENIED,
        "209": LOST,
        "210": LOST,
        "386": TYPE,
        "497": DENIED,
        "516": DENIED,
    }

    def __init__(self, connection: Any, *, is_owned: bool = False) -> None:
        super().__init__(connection, is_owned=is_owned)
        self._memory: float | None = None

    @property
    def memory(self) -> float:
        """What was given, or the setting `max_memory_usage`, or a quarter of the server's."""
        return self._memory or float(self._in_force("max_memory_usage")) or self._share()

    def estimate(self, sql: str) -> str:
        """The rows and parts that are read, by the index; nothing of tables in memory."""
        tables = self.table(f"explain estimate {sql}").to_pylist()
        rows, parts = (sum(table[name] for table in tables) for name in ("rows", "parts"))
        return f"about {rows:,} rows, of {parts:,} parts" if tables else ""

    def _tag(self, text: str) -> None:
        """As `log_comment` in `system.query_log`, unless the user has set one."""
        if not self._in_force("log_comment"):
            self._quietly(self._set, "log_comment", text)  # a user may not change settings
            self._undo.callback(self._quietly, self._set, "log_comment", "")

    def _share(self) -> float:
        """What one evaluation may take of a server that serves others too."""
        try:
            return float(self.rows("select getServerSetting('max_server_memory_usage')")[0][0]) / 4
        except EngineError:  # an older version, or no right to ask
            return USUAL

    @contextmanager
    def limited(self, memory: str) -> Iterator[None]:
        """With another `max_memory_usage`; what a statement cannot hold in half of it goes to disk.

        Where the user may not change settings, it is cut into buckets alone.
        """
        size = size_in_bytes(memory)
        value_by_setting = {"max_memory_usage": size} | dict.fromkeys(SPILLS, size // 2)
        with ExitStack() as undo:
            undo.callback(setattr, self, "_memory", self._memory)
            for name, value in value_by_setting.items():
                with suppress(EngineError, *self.errors):
                    before = self._in_force(name)
                    self._set(name, str(value))
                    undo.callback(self._quietly, self._set, name, before)
            self._memory = size
            yield

    def _in_force(self, name: str) -> str:
        """The value that holds for a setting, whether the session or the user's profile has it."""
        return str(self.rows(f"select toString(getSetting('{name}'))")[0][0])

    @abstractmethod
    def _setting(self, name: str) -> str:
        """The value that a setting has."""

    @abstractmethod
    def _set(self, name: str, value: str) -> None:
        """Set a setting for the session."""

    def _settle(self) -> None:
        for name, target_value in SETTINGS.items():
            value = self._setting(name)
            self._set(name, target_value)
            if not self._own:
                self._undo.callback(self._quietly, self._set, name, value)

    def _recover(self) -> None:
        """After a query that failed as it ran, chdb spoils the next Arrow answer: ask for one."""
        self._run("select 1")

    def _quoted(self, part: str) -> str:
        return "`" + part.replace("\\", "\\\\").replace("`", "\\`") + "`"

    def _reason(self, error: BaseException) -> str:
        code = re.search(r"\bcode:? (\d+)", str(error), re.IGNORECASE)
        return self.CODES.get(code[1], "") if code else self._reason_without_code(error)

    def _reason_without_code(self, error: BaseException) -> str:  # noqa: ARG002
        return ""

    def _brief(self, error: BaseException) -> str:
        text = re.sub(r".*?DB::Exception: (?:\[\S+\] )?", "", str(error), count=1, flags=re.DOTALL)
        return first_line(text)

    def _kinds(self, source: str) -> dict[str, str]:
        rows = self._arrow(f"describe table (select * from {source} limit 0)").to_pylist()
        return {row["name"]: _kind(row["type"]) for row in rows}

    def _create_text(self, target: str, table: pa.Table, temporary: str) -> str:
        engine = "Memory" if temporary else "MergeTree order by tuple()"
        return f"{super()._create_text(target, table, temporary)} engine = {engine}"

    def _scratch(self, name: str) -> tuple[str, str]:
        return f"create database {name}", f"drop database {name}"


class ChDB(ClickHouse):
    """A session of chdb; a process can have one alone."""

    name = "ClickHouse (chdb)"

    def __init__(self, connection: Any, *, is_owned: bool = False) -> None:
        import chdb

        self.errors = (chdb.ChdbError, RuntimeError)  # its versions raise one or the other
        super().__init__(connection, is_owned=is_owned)

    @classmethod
    def open(cls, url: ConnectionURL) -> ChDB:
        """A folder, or without a path a new database in memory."""
        from chdb.session import Session

        with url.opening():
            return cls(Session(f"/{url.path}") if url.path else Session(), is_owned=True)

    @property
    def version(self) -> str:
        """As the library says it."""
        return str(self.rows("select version()")[0][0])

    def _run(self, sql: str) -> None:
        self._connection.query(sql, "CSV")

    def _arrow(self, sql: str) -> pa.Table:
        answer = self._connection.query(sql, "Arrow").bytes()
        return pa.ipc.open_file(pa.BufferReader(answer)).read_all() if answer else pa.table({})

    def _setting(self, name: str) -> str:
        return self._in_force(name)

    def _set(self, name: str, value: str) -> None:
        text = value.replace("\\", "\\\\").replace("'", "\\'")
        self.execute(f"set {name} = '{text}'")

    def _fill(self, target: str, table: pa.Table) -> None:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "rows.parquet"
            pq.write_table(table, file)
            self._run(f"insert into {target} select * from file('{file}', Parquet)")


class Server(ClickHouse):
    """A client of clickhouse-connect, with a session, which temporary tables need."""

    HINT = "send_receive_timeout of the connection, 300 s unless it says more, bounds it"
    _connect_arguments: Mapping[str, Any] = {}
    _query_id = ""

    def __init__(self, connection: Any, *, is_owned: bool = False) -> None:
        from clickhouse_connect.driver.exceptions import ClickHouseError

        self.errors = (ClickHouseError,)
        super().__init__(connection, is_owned=is_owned)

    @classmethod
    def open(cls, url: ConnectionURL) -> Server:
        """The server of a URL; what follows `?` is clickhouse-connect's (`secure=true`)."""
        arguments = url.driver_options(
            host=url.host,
            port=url.port,
            username=url.user,
            password=url.password,
            database=url.parts[0],
        )
        with url.opening():
            engine = cls(_client(arguments), is_owned=True)
        engine._connect_arguments = arguments
        return engine

    @property
    def version(self) -> str:
        """As the server says it."""
        return str(self._connection.server_version)

    def _run(self, sql: str) -> None:
        self._connection.command(sql, settings=self._identified())

    def _arrow(self, sql: str) -> pa.Table:
        return self._connection.query_arrow(sql, use_strings=True, settings=self._identified())

    def _identified(self) -> dict[str, str]:
        """The id of the next query, by which `_stop` finds it; of a user's client none."""
        self._query_id = str(uuid.uuid4()) if self._connect_arguments else ""
        return {"query_id": self._query_id} if self._query_id else {}

    def _stop(self) -> None:
        """Kill the query over another connection, outside the session, which it holds."""
        if self._query_id:
            arguments = {
                **self._connect_arguments,
                "connect_timeout": STOP_TIMEOUT,
                "send_receive_timeout": 0,
            }
            arguments.pop("session_id", None)
            with suppress(Exception), closing(_client(arguments, session=False)) as client:
                client.command(f"kill query where query_id = '{self._query_id}' async")

    def _setting(self, name: str) -> str:
        none = "" if name == "session_timezone" else "0"
        return str(self._connection.get_client_setting(name) or none)

    def _set(self, name: str, value: str) -> None:
        self._connection.set_client_setting(name, value)

    def _reason_without_code(self, error: BaseException) -> str:
        return LOST if type(error).__name__ == "OperationalError" else ""

    def _fill(self, target: str, table: pa.Table) -> None:
        self._connection.insert_arrow(target, table)


def _client(arguments: Mapping[str, Any], *, session: bool = True) -> Any:
    """A client of a server that answers in time; statements have `send_receive_timeout`."""
    import clickhouse_connect
    from urllib3 import Timeout

    seconds = int(arguments.get("connect_timeout", CONNECT_TIMEOUT))
    reading = int(arguments.get("send_receive_timeout", 300)) or seconds
    client_arguments = {**arguments, "connect_timeout": seconds, "send_receive_timeout": seconds}
    client = clickhouse_connect.get_client(
        **client_arguments, **({} if session else {"autogenerate_session_id": False})
    )
    client.timeout = Timeout(connect=seconds, read=reading)
    return client


def _kind(declared: str) -> str:
    """DuckDB's word for a type of ClickHouse.

    >>> _kind("LowCardinality(Nullable(String))"), _kind("Array(Int8)"), _kind("Decimal(9, 2)")
    ('VARCHAR', 'BIGINT[]', 'DECIMAL(9,2)')
    """
    while wrapped := _WRAPPED.match(declared):
        declared = wrapped[1]
    if _ZONED.match(declared):
        return "TIMESTAMP WITH TIME ZONE"
    if declared.startswith("Array("):
        return f"{_kind(declared[6:-1])}[]"
    if declared.startswith("Decimal"):
        digits = [int(number) for number in re.findall(r"\d+", declared)[-2:]]
        return decimal(*digits) if len(digits) == 2 else decimal(None, None)
    return next((kind for start, kind in _KINDS if declared.startswith(start)), declared.upper())
