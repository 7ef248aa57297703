"""PostgreSQL, through psycopg 3."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, ClassVar

import psycopg
import psycopg.sql
import pyarrow as pa
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from pyarrow import csv

from sqlmetrics.engines.dbapi import WorkMemory
from sqlmetrics.engines.driver import APPLICATION, STANDARD
from sqlmetrics.engines.failure import LOST, StatementError, first_line
from sqlmetrics.engines.types import decimal
from sqlmetrics.engines.url import ConnectionURL
from sqlmetrics.engines.waiting import CONNECT_TIMEOUT
from sqlmetrics.errors import EngineError
from sqlmetrics.sql.template import parts

_KINDS = {
    "bool": "BOOLEAN",
    "bpchar": "VARCHAR",
    "bytea": "BLOB",
    "date": "DATE",
    "float4": "DOUBLE",
    "float8": "DOUBLE",
    "int2": "BIGINT",
    "int4": "BIGINT",
    "int8": "BIGINT",
    "name": "VARCHAR",
    "text": "VARCHAR",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "varchar": "VARCHAR",
}

_CSV = csv.WriteOptions(include_header=False)
"""Texts in quotes and NULL as nothing: what COPY takes for NULL and for an empty text."""


logging.getLogger("psycopg").addHandler(logging.NullHandler())  # what it says of Ctrl-C

"""What a session is called, unless the user calls it otherwise."""

KEEPALIVES = {"keepalives_idle": 60, "keepalives_interval": 15, "keepalives_count": 4}
"""When a server that is gone is told by the system, unless the user says otherwise; 0 is the
system's own, as dbt has it."""

SETTINGS = {"parallel_tuple_cost": "0.01", "client_connection_check_interval": "10s"}
"""What a session sets where nobody has: that rows which go from one process to another cost
what they do, as every plan sorts or groups most of its rows in several, and that a statement
ends when its client is gone. What a server does not know, or cannot do, is left alone."""

_HOLDER = """select
    concat(
        'pid ', locks.pid, ' (', nullif(sessions.application_name, '') || ', ',
        sessions.usename, ', connected since ',
        to_char(sessions.backend_start, 'YYYY-MM-DD HH24:MI:SS'), ')'
    )
from pg_locks as locks
    left join pg_stat_activity as sessions on sessions.pid = locks.pid
where locks.locktype = 'advisory'
    and locks.granted
    and locks.objsubid = 1
    and (cast(locks.classid as bigint) << 32 | cast(locks.objid as bigint)) = {key}
    and locks.database = (select oid from pg_database where datname = current_database())"""

_RIGHTS = """with named as (
    select
        coalesce(namespaces.nspname, requested.schema_name, current_schema()) as schema_name,
        requested.name,
        classes.relowner
    from (values {names}) as requested(name, schema_name)
        left join pg_class as classes on classes.oid = to_regclass(requested.name)
        left join pg_namespace as namespaces on namespaces.oid = classes.relnamespace
)
select
    case
        when schema_name is null then 'no: no schema of the search_path is there'
        when to_regnamespace(quote_ident(schema_name)) is null
            then concat('no: there is no schema ', schema_name)
        when not has_schema_privilege(schema_name, 'create')
            then concat('no: CREATE on schema ', schema_name, ' is missing')
        when relowner is null then concat('yes: CREATE on schema ', schema_name)
        when not pg_has_role(relowner, 'usage')
            then concat('no: ', name, ' belongs to ', pg_get_userbyid(relowner))
        else concat('yes: CREATE on schema ', schema_name, ', and owns what is there')
    end as answer
from named"""

_SESSION = "concat(pid, '/', extract(epoch from backend_start))"

READ_ONLY = "set transaction read only"

_KEPT = re.compile(r"((?:\s|--[^\n]*\n)*create temporary table (\S+) as\n)(.*)", re.DOTALL)
_OURS = re.compile(r"(?:\s|--.*\n)*(?:analyze|create|drop|set|begin|commit|rollback)\b")


def _reading(sql: str) -> str:
    """A statement that changes nothing but a temporary table of ours.

    What is sent in one message is one transaction, and one that has begun to read only cannot
    write again, whatever the text of a user calls. A temporary table is made before that, of a
    query that is not run.
    """
    if keep_match := _KEPT.fullmatch(sql):
        create, name, select = keep_match.groups()
        return f"{create}{select}\nwith no data;\n{READ_ONLY};\ninsert into {name}\n{select}"
    return sql if _OURS.match(sql) else f"{READ_ONLY};\n{sql}"


def _set_role(name: str) -> psycopg.sql.Composed:
    """The statement that takes a role, whose plain name folds as in dbt."""
    folded = name.lower() if re.fullmatch(r"[A-Za-z_][\w$]*", name) else name
    return psycopg.sql.SQL("set role {}").format(psycopg.sql.Identifier(folded))


class Postgres(WorkMemory):
    """A connection of psycopg; rows go in by COPY."""

    dialect = "postgres"
    name = "PostgreSQL"
    errors = (psycopg.Error,)
    TAKES_SEVERAL = True
    HINT = "options='-c statement_timeout=10min' of the connection bounds it"
    TYPES: ClassVar = STANDARD | {"DOUBLE": "double precision", "VARCHAR": 'text collate "C"'}

    WORK_SETTINGS = ("work_mem",)

    @classmethod
    def open(cls, url: ConnectionURL) -> Postgres:
        """The server of a URL; what follows `?` is libpq's."""
        database, schema = url.parts
        # libpq takes a service file's settings where nobody else says any
        has_service = "PGSERVICE" in os.environ or "service" in dict(url.options)
        bounds: dict[str, int] = {} if has_service else dict(KEEPALIVES)
        if not has_service and "PGCONNECT_TIMEOUT" not in os.environ:
            bounds["connect_timeout"] = CONNECT_TIMEOUT
        arguments = url.driver_options(
            host=url.host,
            port=url.port,
            user=url.user,
            password=url.password,
            dbname=database,
            fallback_application_name=APPLICATION,
            **bounds,
        )
        role = str(arguments.pop("role", None) or "")
        search_path = ", ".join(
            filter(None, (schema, str(arguments.pop("search_path", None) or "")))
        )
        arguments = {
            name: value for name, value in arguments.items() if value or name not in KEEPALIVES
        }
        with url.opening():
            connection = psycopg.connect(**arguments, autocommit=True)
            try:  # not by `options`, which would replace those of PGOPTIONS or a service file
                if role:
                    connection.execute(_set_role(role))
                if search_path:
                    change = "select set_config('search_path', %s, false)"
                    connection.execute(change, (search_path,))
            except BaseException:
                connection.close()
                raise
        return cls(connection, is_owned=True)

    def interrupt(self) -> None:
        """Cancel the statement that runs."""
        with suppress(psycopg.Error):
            self._connection.cancel()

    def estimate(self, sql: str) -> str:
        """Rows and bytes that the planner expects, and the tables or partitions that it reads."""
        with self._failing(sql), self._running(f"explain (format json) {sql}") as cursor:
            ((answer,),) = cursor.fetchall()
        root = (answer if isinstance(answer, list) else json.loads(answer))[0]["Plan"]
        scans, pending = list[str](), [root]
        while pending:
            node = pending.pop()
            pending += node.get("Plans", [])
            scans += filter(None, [node.get("Relation Name")])
        rows, size = root["Plan Rows"], root["Plan Rows"] * root["Plan Width"]
        table_names = sorted(dict.fromkeys(scans))
        suffix = f" and {len(table_names) - 10:,} more" if len(table_names) > 10 else ""
        read = f", of {', '.join(table_names[:10])}{suffix}" if table_names else ""
        return f"about {rows:,} rows, {size / 1e6:,.1f} MB{read}"

    def writing_rights(self, names: Sequence[str] = ()) -> tuple[str, ...]:
        """Whether the role may create in each schema, and owns what is there: PostgreSQL says."""
        names_with_schemas = [(self.quoted(name), [*parts(name)[-2:-1]]) for name in names] or [
            ("", [])
        ]
        none = "cast(null as text)"
        rows = ", ".join(
            f"({self._literal(name)}, {self._literal(schema[0]) if schema else none})"
            for name, schema in names_with_schemas
        )
        rights = [text for (text,) in self.rows(_RIGHTS.format(names=rows))]
        missing = tuple(dict.fromkeys(text for text in rights if text.startswith("no")))
        return missing or tuple(dict.fromkeys(rights))

    @property
    def session(self) -> str:
        """Its process on the server, and when that began."""
        rows = self.rows(f"select {_SESSION} from pg_stat_activity where pid = pg_backend_pid()")
        return str(rows[0][0])

    def has_session(self, session: str) -> bool | None:
        """Whether that process is there; its start is hidden from a role that is another one."""
        pid = int(session.partition("/")[0])
        rows = self.rows(
            f"select {_SESSION}, backend_start from pg_stat_activity where pid = {pid}"
        )
        return None if rows and rows[0][1] is None else any(text == session for text, _ in rows)

    def _tag(self, text: str) -> None:
        """In `pg_stat_activity`, unless the session is the user's."""
        ((current,),) = self.rows("select current_setting('application_name')")
        if self._own and current.partition(" ")[0] == APPLICATION:
            self.execute(f"set application_name = {self._literal(text)}")

    def _work_size(self, name: str) -> int:
        sql = f"select cast(setting as bigint) * 1024 from pg_settings where name = '{name}'"
        return int(self.rows(sql)[0][0])

    def _set_work_size(self, name: str, size: int) -> None:
        self.execute(f"set {name} = {self._literal(f'{size // 1024}kB')}")

    @contextmanager
    def temporary(self, create: str, drop: str) -> Iterator[None]:
        """What a statement makes, for as long as the block lasts.

        A temporary table is analysed: nobody else does that, and without it a plan takes it
        for one of few rows.
        """
        with super().temporary(create, drop):
            if keep_match := _KEPT.match(create):
                self._analyse(keep_match[2])
            yield

    def _make(self, name: str, table: pa.Table, *, temporary: bool) -> None:
        super()._make(name, table, temporary=temporary)
        if temporary and table.num_rows:
            self._analyse(self.quoted(name))

    def _analyse(self, table: str) -> None:
        self.execute(f"analyze {table}")

    @property
    def version(self) -> str:
        """As the server says it."""
        return str(self._connection.info.parameter_status("server_version") or "")

    def _settle(self) -> None:
        if not (self._connection.autocommit or self._in_transaction()):
            self._connection.autocommit = True
            self._undo.callback(self._quietly, setattr, self._connection, "autocommit", False)
        zone = str(self.rows("show timezone")[0][0])
        if zone != "UTC":
            self.execute("set timezone = 'UTC'")
            back = f"set timezone = {self._literal(zone)}"
            self._undo.callback(self._quietly, self.execute, back)
        for name, value in SETTINGS.items():
            self._set_usual(name, value)
        self._settle_memory()

    def _set_usual(self, name: str, value: str) -> None:
        """Set what has the server's own default, until the session is given back."""
        if self._set_default(name, value):
            self._undo.callback(self._quietly, self.execute, f"reset {name}")

    def _set_default(self, name: str, value: str) -> bool:
        """Set what has the server's own default; whether it has."""
        named = f"name = {self._literal(name)}"
        is_default = bool(
            self.rows(f"select 1 from pg_settings where {named} and source = 'default'")
        )
        if is_default:
            self._quietly(self.execute, f"set {name} = {self._literal(value)}")
        return is_default

    @contextmanager
    def scanning(self) -> Iterator[None]:
        """Without nested loops where there is another way, unless the user has set that.

        The stages of a click log select rows by expressions, such as the day of a number, of which
        the server has no statistics: it takes each for one row in 200, and what is left for one
        row, so that it reads the log anew for each request.
        """
        is_set = self._set_default("enable_nestloop", "off")
        try:
            yield
        finally:
            if is_set:
                self._quietly(self.execute, "reset enable_nestloop")

    @contextmanager
    def alone(self, name: str) -> Iterator[str]:
        """As the only one that writes what is named so: an advisory lock, which ends with us."""
        key = self._lock_key(name)
        ((is_free,),) = self.rows(f"select pg_try_advisory_lock({key})")
        if not is_free:
            self._wait_for(name, key)
        try:
            yield ""
        finally:
            self._quietly(self.rows, f"select pg_advisory_unlock({key})")

    def _wait_for(self, name: str, key: str) -> None:
        """Wait for the lock of another run.

        Raises:
            EngineError: If it is not free in time.
        """
        rows = self.rows(_HOLDER.format(key=key))
        holder = f", which {rows[0][0]} holds" if rows else ""
        limit = f"{self.lock_timeout * 1000:.0f}ms" if self.lock_timeout else "1ms"
        ((before,),) = self.rows("select current_setting('lock_timeout')")
        self.execute(f"set lock_timeout = {self._literal(limit)}")
        try:
            sql = f"select 1 from pg_advisory_lock({key})"
            waited = self._watched(sql, lambda: (f"the lock of {name}{holder}", self._bound))
            with waited, self._converting(sql):
                self._run(sql)
        except StatementError as error:
            if not isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                raise
            raise EngineError(
                f"another run writes {name}{holder}: its lock was not free within "
                f"{self.lock_timeout:,.0f} s; try again, or raise lock_timeout of the connection"
            ) from None
        finally:
            self._quietly(self.execute, f"set lock_timeout = {self._literal(before)}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that the block does, or nothing of it; a savepoint in a user's transaction."""
        with self._converting("commit"), self._connection.transaction():
            yield

    def _in_transaction(self) -> bool:
        return bool(self._connection.info.transaction_status != TransactionStatus.IDLE)

    def _cursor(self) -> Any:
        return self._connection.cursor(row_factory=tuple_row)

    @contextmanager
    def _running(self, sql: str) -> Iterator[Any]:
        with self._guarded(), self._cursor() as cursor:
            # not prepared: a temporary table that was made anew has other columns
            cursor.execute(_reading(sql) if self.is_read_only else sql, prepare=False)
            while cursor.nextset():  # the last one answers
                pass
            yield cursor

    def _guarded(self) -> Any:
        """Within a transaction a savepoint: an error undoes the one statement alone."""
        is_in_transaction = self._connection.info.transaction_status == TransactionStatus.INTRANS
        return self._connection.transaction() if is_in_transaction else nullcontext()

    def _reason(self, error: BaseException) -> str:
        return LOST if self._connection.closed else super()._reason(error)

    def _brief(self, error: BaseException) -> str:
        primary_message = getattr(getattr(error, "diag", None), "message_primary", None)
        return first_line(primary_message or error)

    def _kind(self, described: Any) -> str:
        type_info = self._connection.adapters.types.get(described.type_code)
        if type_info is None:
            return "VARCHAR"
        if type_info.name == "numeric":
            return decimal(described.precision, described.scale)
        kind = _KINDS.get(type_info.name, type_info.name.upper())
        return f"{kind}[]" if described.type_code == type_info.array_oid else kind

    def _fill(self, target: str, table: pa.Table) -> None:
        copying = f"copy {target} from stdin (format csv)"
        with self._guarded(), self._cursor() as cursor, cursor.copy(copying) as copy:
            for batch in table.to_batches(max_chunksize=65_536):
                block = pa.BufferOutputStream()
                csv.write_csv(batch, block, _CSV)
                copy.write(block.getvalue().to_pybytes())
