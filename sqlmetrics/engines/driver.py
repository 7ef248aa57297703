"""What drivers share: one open connection that is given text of its own dialect."""

from __future__ import annotations

import re
import secrets
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from decimal import Decimal
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sqlmetrics.engines.failure import (
    DENIED,
    LOST,
    READ_ONLY,
    SQLSTATE,
    StatementError,
    first_line,
    one_line,
    reason_of,
)
from sqlmetrics.engines.waiting import LOCK_TIMEOUT, WATCH, waiting
from sqlmetrics.errors import EngineError, InputError, SpecError, shortened
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.template import finished, free_name, identifier, parts

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.engines.url import ConnectionURL


# What a connection makes of single statements: things for a while, and transactions.

TRANSACTION = ("begin", "commit", "rollback")
SAVEPOINT = (
    "savepoint sqlmetrics",
    "release savepoint sqlmetrics",
    "rollback to savepoint sqlmetrics",
)


class Statements(ABC):
    """A connection that executes statements.

    Attributes:
        transactional: Whether `transaction` can undo; if not, each statement stands alone.
        TRANSACTION: How a transaction begins, ends, and is undone.
    """

    transactional: ClassVar[bool] = True
    TRANSACTION: ClassVar[tuple[str, str, str]] = TRANSACTION

    @abstractmethod
    def execute(self, sql: str) -> None:
        """Run a statement."""

    def _in_transaction(self) -> bool:
        """Whether the user has a transaction open."""
        return False

    @contextmanager
    def temporary(self, create: str, drop: str) -> Iterator[None]:
        """What a statement makes, for as long as the block lasts."""
        self.execute(create)
        with self._dropped(drop):
            yield

    def chained(self, create: str, drop: str) -> AbstractContextManager[None]:
        """A table that is kept for as long as the block lasts, made of others that are."""
        return self.temporary(create, drop)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that the block does, or nothing of it, where the engine has transactions."""
        if not self.transactional:
            yield
            return
        begin, commit, rollback = SAVEPOINT if self._in_transaction() else self.TRANSACTION
        self.execute(begin)
        try:
            yield
        except BaseException:
            self._tried(rollback)
            raise
        self.execute(commit)

    @contextmanager
    def _dropped(self, drop: str) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self._tried(drop)
            raise
        self.execute(drop)

    def _tried(self, sql: str) -> None:
        """Clean up as far as it goes: the first error is the one to tell."""
        with suppress(EngineError):
            self.execute(sql)


_KINDS = ("BIGINT", "BOOLEAN", "DATE", "DOUBLE", "TIMESTAMP", "VARCHAR")

STANDARD = {kind: kind.lower() for kind in _KINDS}
"""Kind -> the type of a column, by the words of the standard."""


APPLICATION = "sqlmetrics"
"""What a server is told who asks."""

_TURNS: defaultdict[int, RLock] = defaultdict(RLock)
"""Connection of the user's own -> who works on it: its other threads wait, since what is made
there for a while, and settings, are of the connection."""


class Driver(Statements):
    """One open connection, used in a `with` block; a subclass says what differs.

    It is given text in its own dialect, and names as `template.relation` reads them: dotted,
    a part in double quotes where it is not a plain word; `quoted` turns such a name into the
    dialect's own text. Whatever its driver raises becomes an `EngineError` with the SQL, and
    after that the connection can be used again. What is registered is gone when it is left, and
    settings are put back; it is closed then if it was opened here.

    Attributes:
        TYPES: Kind -> the type of a column that is created; a kind that is not in it
            cannot be loaded.
        CODES: Beginnings of the database's codes of errors -> the kind of failure.
        KEEPS: How a statement begins that keeps rows for a while in a table of the session's own
            making, where there is no temporary one; empty where nothing is kept so.
        TAKES_SEVERAL: Whether a text may hold several statements.
        METRICS_AT_ONCE: So many metrics a query are well planned; 0 where it can be any number.
        errors: What its driver raises.
        HINT: What bounds a statement, and where it is said.
        is_read_only: Whether text of users may change nothing, where the database can be told.
        url: Where it is, if it was opened here.
        lock_timeout: As many seconds another run that writes the same is waited for.
    """

    dialect: str
    name: str
    holds_nan: ClassVar[bool] = True
    errors: tuple[type[BaseException], ...]
    TYPES: ClassVar[Mapping[str, str]]
    CODES: ClassVar[Mapping[str, str]] = SQLSTATE
    TAKES_SEVERAL: ClassVar[bool] = False
    METRICS_AT_ONCE: ClassVar[int] = 0
    KEEPS: ClassVar[str] = ""
    TEMPORARY: ClassVar[str] = "temporary "
    DROP: ClassVar[str] = "drop table"
    HINT: ClassVar[str] = "Ctrl-C stops it"

    def __init__(self, connection: Any, *, is_owned: bool = False) -> None:
        self._connection = connection
        self._own = is_owned
        self.is_read_only = False
        self.url: ConnectionURL | None = None
        self.lock_timeout = LOCK_TIMEOUT
        self._turn = _TURNS[id(connection)]
        self._undo = ExitStack()
        self._entered = 0
        self._is_closed = False

    @classmethod
    def of(cls, connection: Any) -> Driver:
        """The driver of a connection that the user has, which stays open."""
        return cls(connection)

    def __enter__(self) -> Self:
        if not self._own:
            self._turn.acquire()
        self._entered += 1
        if self._entered > 1:
            return self
        if self._own:
            self._undo.callback(self._quietly, self._close)
        try:
            with self._failing(""):
                self._settle()
        except BaseException as error:
            was_closed = self._is_closed
            self.__exit__()
            if was_closed and isinstance(error, EngineError):
                raise SpecError(
                    "the database is closed: its with block has ended, or it was opened "
                    "without one and a first call has used it; write `with sm.connect(...) "
                    "as database:` around the calls"
                ) from error
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        try:
            if not self._entered:
                self._undo.close()
                self._is_closed = self._own
        finally:
            if not self._own:
                self._turn.release()

    @property
    @abstractmethod
    def version(self) -> str:
        """As the server says it."""

    @abstractmethod
    def _run(self, sql: str) -> None:
        """Run a statement; errors are the driver's."""

    @abstractmethod
    def _arrow(self, sql: str) -> pa.Table:
        """The rows of a query, as the driver gives them."""

    @abstractmethod
    def _kinds(self, source: str) -> dict[str, str]:
        """Column -> kind of what stands behind FROM."""

    @abstractmethod
    def _fill(self, target: str, table: pa.Table) -> None:
        """Put all rows into a table that is empty, the fastest way there is."""

    @property
    def memory(self) -> float | None:
        """How many bytes it may take; None if the database does not say."""
        return None

    @property
    def files(self) -> list[str]:
        """The files that it has open, where it is a library that reads and writes them itself."""
        return []

    @property
    def _grammar(self) -> str:
        """The dialect's name in sqlglot."""
        return dialect_named(self.dialect).grammar

    def _close(self) -> None:
        self._connection.close()

    def _settle(self) -> None:
        """Set what decides the meaning of our text, to be put back afterwards."""

    def _recover(self) -> None:
        """Make the connection usable after an error."""

    def _code(self, error: BaseException) -> str:
        """The database's own code of an error."""
        return str(getattr(error, "sqlstate", None) or "")

    def _brief(self, error: BaseException) -> str:
        """What went wrong, in one line."""
        return first_line(error)

    def _reason(self, error: BaseException) -> str:
        return reason_of(self._code(error), self.CODES)

    def execute(self, sql: str) -> None:
        """Run a statement."""
        with self._failing(sql):
            self._run(finished(sql))

    def execute_all(self, statements: Sequence[str]) -> None:
        """Run statements in their order, at once where the database takes several."""
        texts = ["\n;\n".join(statements)] if statements and self.TAKES_SEVERAL else statements
        for text in texts:
            self.execute(text)

    def execute_together(self, statements: Sequence[str]) -> None:
        """Run statements in one transaction, where the database has any: all or none."""
        with self.transaction():
            self.execute_all(statements)

    def table(self, sql: str) -> pa.Table:
        """The rows of a query as an Arrow table."""
        from sqlmetrics.engines.types import settled

        with self._failing(sql):
            return settled(self._arrow(finished(sql)))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self._failing(sql):
            columns = [array.to_pylist() for array in self._arrow(finished(sql)).columns]
        return [tuple(map(plain, row)) for row in zip(*columns, strict=True)]

    def records(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query as dicts of Python's own values."""
        return self.table(sql).to_pylist()  # type: ignore[no-any-return]

    def try_out(self, sql: str) -> None:
        """Raise an error if a query cannot run; nothing is computed."""
        self.columns(f"(\n{sql}) as evaluation")

    def described(self, sql: str) -> dict[str, str]:
        """The columns of a query; see `columns`."""
        return self.columns(f"(\n{sql}) as source")

    def columns(self, source: str) -> dict[str, str]:
        """Names and types of what stands behind FROM; the types in DuckDB's words.

        Raises:
            InputError: If it cannot be read.
            EngineError: If the connection is lost or may not read it.
        """
        try:
            with self._failing(source):
                return self._kinds(finished(source))
        except StatementError as error:
            if error.reason in (LOST, DENIED, READ_ONLY):
                raise
            brief = self._brief(error.__cause__ or error)
            raise InputError(f"cannot be read: {brief}") from None

    def described_tables(self, names: Sequence[str]) -> dict[str, dict[str, str]]:  # noqa: ARG002
        """The columns of several tables by one look, where there is one.

        Args:
            names: Dotted names of tables and views.

        Returns:
            Name -> its columns, none of what is not there; without the names that take a look of
            their own.
        """
        return {}

    def quoted(self, name: str) -> str:
        """A dotted name as text of the dialect."""
        return ".".join(map(self._quoted, parts(finished(name))))

    def _quoted(self, part: str) -> str:
        from sqlglot import exp

        return exp.to_identifier(part, quoted=True).sql(self._grammar)

    def find(self, name: str) -> str | None:
        """A table or view as a dotted name, None if there is none of this name.

        A name is looked up as a whole first, then as `schema.table`.
        """
        quoted_name = name if name.isidentifier() else '"' + name.replace('"', '""') + '"'
        texts = dict.fromkeys((quoted_name, name))
        return next((text for text in texts if parts(text) and self._is_there(text)), None)

    def _is_there(self, name: str) -> bool:
        return self._has_columns(name, if_denied=True)

    def _has_columns(self, name: str, *, if_denied: bool) -> bool:
        try:
            self.columns(self.quoted(name))
        except InputError:
            return False
        except StatementError as error:
            if error.reason != DENIED:
                raise
            return if_denied
        return True

    def free_name(self, name: str) -> str:
        """The name, or one with a number behind it that no table or view has.

        MariaDB denies a look at what is not there, too: then every name would be taken.
        """
        return free_name(name, lambda free: self._has_columns(identifier(free), if_denied=False))

    def register(self, name: str, data: Any) -> str:
        """Make data readable until the connection is left, and say under which name.

        Raises:
            InputError: If it is not tabular data, or holds what the database cannot.
        """
        table = self._loadable(data)
        free = identifier(self.free_name(name))
        self._make(free, table, temporary=True)
        self._undo.callback(self._quietly, self._forget, free)
        return free

    def reads(self, frame: Any) -> bool:  # noqa: ARG002 (Spark reads its own)
        """Whether a DataFrame is the connection's own, which need not be loaded."""
        return False

    def lazy(self, query: Callable[[], str]) -> Callable[[], Any] | None:  # noqa: ARG002 (Spark's)
        """What makes a DataFrame of a query, which is computed when it is read; None without."""
        return None

    def _forget(self, name: str) -> None:
        """Drop what was registered."""
        self.execute(f"{self.DROP} {self.quoted(name)}")

    def load(self, name: str, data: Any) -> str:
        """Make a table of exactly this name, which stays, and fill it.

        Raises:
            InputError: As `register` does.
            EngineError: If there is such a table, or it cannot be written.
        """
        self._make(name, self._loadable(data), temporary=False)
        return name

    def _make(self, name: str, table: pa.Table, *, temporary: bool) -> None:
        target = self.quoted(name)
        self.execute(self._create_text(target, table, self.TEMPORARY if temporary else ""))
        try:
            with self._failing(f"-- loading {table.num_rows:,} rows into {target}"):
                self._fill(target, table)
        except BaseException:
            self._quietly(self.execute, f"drop table {target}")
            raise

    def _create_text(self, target: str, table: pa.Table, temporary: str) -> str:
        kinds = zip(table.column_names, self._types(table), strict=True)
        columns = ", ".join(f"{self._quoted(name)} {kind}" for name, kind in kinds)
        return f"create {temporary}table {target} ({columns})"

    def _types(self, table: pa.Table) -> list[str]:
        """The type of each column of a table that is created."""
        from sqlmetrics.engines.types import kind_of

        return [self.TYPES[kind_of(array.type)] for array in table.columns]

    def _loadable(self, data: Any) -> pa.Table:
        from sqlmetrics.engines.types import kind_of, tabular

        table = tabular(data)
        for field in table.schema:
            if kind_of(field.type) not in self.TYPES:
                problem = f"column {field.name!r} has the type {field.type}"
                raise InputError(f"{problem}, which cannot be loaded into {self.name}")
        if not self.holds_nan:
            self._refuse_nan(table)
        return table

    def _refuse_nan(self, table: pa.Table) -> None:
        import pyarrow.compute as pc

        from sqlmetrics.engines.types import ARROW

        for name, array in zip(table.column_names, table.columns, strict=True):
            if array.type == ARROW["DOUBLE"] and pc.any(pc.invert(pc.is_finite(array))).as_py():
                raise InputError(
                    f"column {name!r} has NaN or infinity, which {self.name} cannot store"
                )

    @property
    def work_memory(self) -> str:
        """What each step of a statement may take, where it is a setting of the session."""
        return ""

    def estimate(self, sql: str) -> str:  # noqa: ARG002 (a few can tell)
        """What a query is expected to read, in words; empty where the database does not say."""
        return ""

    def writing_rights(self, names: Sequence[str] = ()) -> tuple[str, ...]:  # noqa: ARG002
        """What the role may and may not write, a sentence each; none where that is not asked.

        Args:
            names: Tables and views that a run writes; without any, what it makes first.
        """
        return ()

    @property
    def session(self) -> str:
        """What tells the session from all others of the server; empty where that is unknown."""
        return ""

    def has_session(self, session: str) -> bool | None:  # noqa: ARG002 (a few can tell)
        """Whether a session of another time is still there; None where that is unknown."""
        return None

    def name_session(self, name: str) -> None:
        """Say on the server what runs, as its log of queries shows it, until the end.

        Args:
            name: The spec and the run.
        """
        self._tag(one_line(f"{APPLICATION} {name}"))

    def _tag(self, text: str) -> None:
        """Keep a text beside the session's statements, where the user has none there."""

    def stored(self, storage: str) -> str:
        """How a table that stays is stored, of the dialect's words on that."""
        return storage

    def refresh(self, names: Iterable[str]) -> None:
        """Forget what the session remembers of tables that other sessions may have changed.

        Args:
            names: Dotted names of tables, also of those that are not there.
        """

    def check_views(self, name: str) -> None:
        """Raise SpecError if the catalog of a table has no views."""

    @contextmanager
    def alone(self, name: str) -> Iterator[str]:  # noqa: ARG002 (an engine that locks needs it)
        """As the only one that writes what is named so; others wait.

        What is given is a sentence on a run that was killed while it wrote that, or empty.
        """
        yield ""

    def check_replaces(self, name: str) -> None:
        """Whether rows of a table can take the place of others there.

        Args:
            name: The table's dotted name; it need not be there.

        Raises:
            SpecError: If its place has no statement for it.
        """

    def check_alone(self) -> None:
        """Raise EngineError if another run took the lock of `alone` meanwhile."""

    @contextmanager
    def limited(self, memory: str) -> Iterator[None]:  # noqa: ARG002 (a few can be told)
        """With another limit of memory, for as long as the block lasts.

        Raises:
            SpecError: If it is no size, or the database cannot be told one.
        """
        raise SpecError(
            "memory limits DuckDB, ClickHouse, PostgreSQL, MySQL and MariaDB; set the memory of "
            f"{self.name} in its own settings"
        )
        yield

    @contextmanager
    def scanning(self) -> Iterator[None]:
        """With plans for statements that read most of their rows, while the block lasts."""
        yield

    @contextmanager
    def profiled(self, file: str) -> Iterator[None]:  # noqa: ARG002 (a few write one)
        """With the database's own profile of the last statement of the block in a JSON file.

        Raises:
            SpecError: If it writes none.
        """
        raise SpecError(f"only DuckDB writes a profile; use the one of {self.name}")
        yield

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """A schema of its own, dropped with all that is in it, also after a failure."""
        name = f"sqlmetrics_scratch_{secrets.token_hex(4)}"
        with self.temporary(*self._scratch(self.quoted(name))):
            yield name

    def _scratch(self, name: str) -> tuple[str, str]:
        """The statements that make a schema and drop it."""
        return f"create schema {name}", f"drop schema {name} cascade"

    @contextmanager
    def _failing(self, sql: str) -> Iterator[None]:
        with self._watched(sql), self._converting(sql):
            yield

    @contextmanager
    def _watched(
        self, sql: str, describe: Callable[[], tuple[str, str]] | None = None
    ) -> Iterator[None]:
        """Tell that a statement takes long, and stop it where the process is to stop.

        Args:
            sql: The statement.
            describe: What is waited for, where it is not the statement itself.
        """
        try:
            with waiting(
                describe or (lambda: (f"{self._product_and_url}: {purpose(sql)}", self.HINT)),
                getattr(self._connection, "interrupt", None),
                None if describe else self.share_done,
            ):
                yield
        except KeyboardInterrupt:
            WATCH.is_stopping = False
            self._stop()
            raise
        except Exception as error:
            if not (WATCH.is_stopping or self._is_interruption(error)):
                raise
            WATCH.is_stopping = False  # a driver told a signal as an error of its own
            raise KeyboardInterrupt from None

    share_done: Callable[[], float | None] | None = None
    """How much of the statement that runs is done, from 0 to 1; asked from another thread."""

    @property
    def _product_and_url(self) -> str:
        """The product, and where it is."""
        return f"{self.name} ({self.url})" if self.url and not self.url.in_memory else self.name

    @property
    def _bound(self) -> str:
        """How long another run is waited for, and how to change that."""
        return f"given up after {self.lock_timeout:,.0f} s (lock_timeout of the connection)"

    def _stop(self) -> None:
        """Stop what the server computes for us, where the driver has not done it."""

    def interrupt(self) -> None:
        """Stop the statement that runs, from another thread, where that can be."""
        with suppress(Exception):  # of a connection that is closed by now
            getattr(self._connection, "interrupt", self._stop)()

    def _is_interruption(self, error: Exception) -> bool:  # noqa: ARG002 (few drivers do so)
        """Whether the driver tells Ctrl-C as an error of its own."""
        return False

    @contextmanager
    def _converting(self, sql: str) -> Iterator[None]:
        """Tell the driver's errors as ours."""
        try:
            yield
        except self.errors as error:
            reason, brief = self._reason(error), self._brief(error)
            with suppress(*self.errors):
                self._recover()
            raise StatementError(self.name, reason, brief, sql) from error
        except _arrow_errors() as error:
            brief = f"the answer cannot be read: {first_line(error)}"
            raise StatementError(self.name, "", brief, sql) from error

    def _quietly(self, act: Any, *arguments: object) -> None:
        """Clean up as far as it goes: what failed before is the thing to tell."""
        with suppress(EngineError, *self.errors):
            act(*arguments)


def purpose(sql: str) -> str:
    r"""What a statement is for: the comment that it begins with, else its own first words.

    >>> purpose("-- the rows of each list\ncreate table t as select 1"), purpose("with\n    a as (")
    ('the rows of each list', 'its answer')
    """
    line = next(filter(None, map(str.strip, sql.splitlines())), "with")
    line = "its answer" if line == "with" else line
    return shortened(one_line(line.removeprefix("--").strip()), 120)


def _arrow_errors() -> tuple[type[BaseException], ...]:
    """What is raised by an answer that Arrow cannot hold; imported once something failed."""
    from pyarrow import ArrowException

    return ArrowException, OverflowError


# What a driver gives or is told, as Python's own values.

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b", re.IGNORECASE)


def plain(value: Any) -> Any:
    """A value without Decimal: a whole number if it was declared as one.

    >>> plain(Decimal("3")), plain(Decimal("3.00"))
    (3, 3.0)
    """
    if not isinstance(value, Decimal):
        return value
    exponent = value.as_tuple().exponent
    return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)


def size_in_bytes(size: str) -> int:
    """A size in bytes.

    Raises:
        SpecError: If it is none.

    >>> size_in_bytes("4GB"), size_in_bytes("1.5 GiB")
    (4000000000, 1610612736)
    """
    matched = _SIZE.fullmatch(size.strip())
    if matched is None or not float(matched[1]):
        raise SpecError(f"memory must be a size like 4GB, given {size!r}")
    number, unit, is_binary = matched.groups()
    base = 1024 if is_binary else 1000
    return int(float(number) * base ** " kmgt".index(unit.lower() or " "))
