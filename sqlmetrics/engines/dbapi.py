"""What engines with a PEP 249 driver share: cursors, fetched rows, Arrow from a description."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from sqlmetrics.engines.driver import Driver, plain, size_in_bytes
from sqlmetrics.engines.types import column
from sqlmetrics.sql.dialects import dialect_named
from sqlmetrics.sql.template import finished

WORK_MEMORY = 64 * 1024 * 1024
"""How many bytes a sort, a hash or a temporary table of a statement takes at least: with the 4 or
16 MB of a new server one of millions of rows is written to disk over and over."""

SHARES = 16
"""A statement has several such steps, and each of some processes has its own: so many of them share
what `memory` says."""


class DbApi(Driver):
    """A connection of a PEP 249 driver.

    Args:
        connection: The driver's.
        own: Whether to close it in the end.
        give_back: What to do with it instead, where it is one of a pool.
    """

    BATCH: ClassVar[int] = 1000
    """Rows of one INSERT, where the database has no faster way in."""

    _comment = ""
    """What ends each statement, where the session has no other place for it."""

    def __init__(
        self,
        connection: Any,
        *,
        is_owned: bool = False,
        give_back: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(connection, is_owned=is_owned)
        if give_back:
            self._undo.callback(self._quietly, give_back)

    @abstractmethod
    def _kind(self, described: Sequence[Any]) -> str:
        """The kind of a column by its row of the cursor's description."""

    @contextmanager
    def _running(self, sql: str) -> Iterator[Any]:
        with closing(self._cursor()) as cursor:
            try:
                cursor.execute(f"{sql}{self._comment}")
                yield cursor
            except KeyboardInterrupt:
                if cancel := getattr(cursor, "cancel", None):  # a driver's own way, if it has one
                    with suppress(Exception):
                        cancel()
                raise

    def _cursor(self) -> Any:
        """A cursor whose rows are tuples, whatever the user's connection makes of rows."""
        return self._connection.cursor()

    def _run(self, sql: str) -> None:
        with self._running(sql):
            pass

    def _described(self, cursor: Any) -> list[tuple[str, str]]:
        return [
            (description[0], self._kind(description)) for description in cursor.description or ()
        ]

    def _kinds(self, source: str) -> dict[str, str]:
        with self._running(f"select * from {source} limit 0") as cursor:
            return dict(self._described(cursor))

    def _arrow(self, sql: str) -> pa.Table:
        with self._running(sql) as cursor:
            described = self._described(cursor)
            values = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(described)
        arrays = [
            column(column_values, kind)
            for column_values, (_, kind) in zip(values, described, strict=True)
        ]
        return pa.table(arrays, names=[name for name, _ in described])

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self._failing(sql), self._running(finished(sql)) as cursor:
            decimals = any(kind.startswith("DECIMAL") for _, kind in self._described(cursor))
            rows = cursor.fetchall()
        return [tuple(map(plain, row) if decimals else row) for row in rows]

    def _fill(self, target: str, table: pa.Table) -> None:
        for batch in table.to_batches(max_chunksize=self.BATCH):
            rows = zip(*(array.to_pylist() for array in batch.columns), strict=True)
            values = ",\n".join(f"({', '.join(map(self._literal, row))})" for row in rows)
            self._run(f"insert into {target} values\n{values}")

    def _lock_key(self, name: str) -> str:
        """What the lock of a table is called, as SQL, where runs are kept apart by one."""
        return dialect_named(self.dialect).writing.lock_key(name, self.quoted(name), self._literal)

    def _literal(self, value: Any) -> str:
        """A value as SQL, for databases that are loaded by INSERT alone."""
        if isinstance(value, str):
            return exp.Literal.string(value).sql(self._grammar)
        if isinstance(value, float):
            text = repr(value)
            number = text if "e" in text else f"{text}e0"
            return number if text[-1].isdigit() else self._unfinite(text)
        return exp.convert(value).sql(self._grammar)

    def _unfinite(self, text: str) -> str:
        """NaN or infinity as SQL."""
        words = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
        return f"cast('{words[text]}' as {self.TYPES['DOUBLE']})"


class WorkMemory(DbApi):
    """A connection whose session sets the memory of each step, never below what it had."""

    WORK_SETTINGS: ClassVar[tuple[str, ...]]
    """The settings that hold the size."""

    _usual_sizes: dict[str, int] | None = None

    @abstractmethod
    def _work_size(self, name: str) -> int:
        """How many bytes a setting of the session allows."""

    @abstractmethod
    def _set_work_size(self, name: str, size: int) -> None:
        """Let it allow so many bytes."""

    @property
    def work_memory(self) -> str:
        """What each step of a statement may take, and what it could before us."""
        usual_sizes = self._usual_sizes or {}
        return ", ".join(
            f"{name} {_text(size)} (the role's own: {_text(usual_sizes.get(name, size))})"
            for name, size in self._work_sizes().items()
        )

    @contextmanager
    def limited(self, memory: str) -> Iterator[None]:
        """With a share of it for each step of a statement."""
        share = size_in_bytes(memory) // SHARES
        before = self._work_sizes()
        try:
            for name, size in (self._usual_sizes or before).items():
                self._set_work_size(name, max(share, size))
            yield
        finally:
            for name, size in before.items():
                self._quietly(self._set_work_size, name, size)

    def _settle_memory(self) -> None:
        """Set it, to be put back afterwards."""
        self._usual_sizes = self._work_sizes()
        for name, size in self._usual_sizes.items():
            if size < WORK_MEMORY:
                self._quietly(
                    self._set_work_size, name, WORK_MEMORY
                )  # it makes things faster alone
                self._undo.callback(self._quietly, self._set_work_size, name, size)

    def _work_sizes(self) -> dict[str, int]:
        return {name: self._work_size(name) for name in self.WORK_SETTINGS}


def _text(size: int) -> str:
    """A size as servers write it.

    >>> _text(64 * 1024 * 1024), _text(1_500_000)
    ('64MB', '1464kB')
    """
    kilobytes = size // 1024
    return f"{kilobytes}kB" if kilobytes % 1024 else f"{kilobytes // 1024}MB"
