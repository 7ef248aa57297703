"""Locks that a catalog keeps: a view or table that one session alone makes, and that it renews.

On Spark it is a view; in a catalog without views, as Iceberg's of Glue and Hadoop, a table.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from threading import Event, Thread
from typing import ClassVar

from sqlmetrics.engines.driver import Driver
from sqlmetrics.engines.failure import LOST, StatementError
from sqlmetrics.engines.waiting import waiting
from sqlmetrics.errors import EngineError
from sqlmetrics.sql.template import identifier, parts

RENEW_EVERY = 20.0
"""So many seconds after another a holder says that it is still there."""

STALE_AFTER = 120.0
"""A holder on another machine that says nothing for so many seconds is gone."""

POLL_EVERY = 0.5

_PREFIX = "sqlmetrics."

ABOUT = "keeps two runs apart that write the same tables"

VIEW, TABLE = "view", "table"

_NO_VIEWS = re.compile(
    r"view\W.{0,60}not supported|not support\w* views?|CATALOG_(ABILITY|OPERATION)"
)
"""What Spark says of a catalog that has none."""


@dataclass
class CatalogLock:
    """The right to write a table.

    Attributes:
        driver: A session of the catalog.
        name: The view, or table, that stands for it.
        table: What it is the lock of.
        token: What tells this holder from all others.
        kind: `view`, or `table` once the catalog has shown that it has no views.
    """

    PURGE: ClassVar[str] = " purge"

    driver: Driver
    name: str
    table: str
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    kind: str = VIEW

    @contextmanager
    def held(self, timeout: float) -> Iterator[str]:
        """With the lock; what is given is a sentence on a holder that died, or empty.

        Args:
            timeout: As many seconds another holder is waited for.

        Raises:
            EngineError: If it was not free in time, or was lost to another session meanwhile.
        """
        died = self._acquire(timeout)
        ended = Event()
        renewing = Thread(target=self._renew, args=(ended,), daemon=True)
        renewing.start()
        try:
            yield died
        finally:
            ended.set()
            renewing.join(RENEW_EVERY)
            with suppress(EngineError):
                if self._holder().get("session") == self.token:
                    self._drop(self.name)

    def check(self) -> None:
        """Raise EngineError if another session took the lock, as after a pause of minutes."""
        if self._holder().get("session") != self.token:
            raise EngineError(
                f"another run took over the lock of {self.table}, since this run did not renew it "
                f"for {STALE_AFTER:,.0f} s; this run writes nothing more"
            )

    def _acquire(self, timeout: float) -> str:
        began = time.monotonic()
        last_sign, since, died = "", began, ""
        while not self._create_relation(self.name):
            holder = self._holder()
            if not holder:
                continue  # it was released in between
            now = time.monotonic()
            if (sign := repr(sorted(holder.items()))) != last_sign:
                last_sign, since = sign, now
            if _is_gone(holder) or now - since > STALE_AFTER:
                died = self._break(self.name, holder) or died
            elif now - began >= timeout:
                raise EngineError(
                    f"another run writes {self.table}: {_named(holder)} holds {self.name}, and "
                    f"this run waited {timeout:,.0f} s for it (lock_timeout of the connection)"
                )
            time.sleep(POLL_EVERY)
        return died

    def _break(self, name: str, holder: Mapping[str, str]) -> str:
        """Take what a dead holder made away; one session alone may do that, by a claim.

        The claim of a session that died over it is taken away in the same way.
        """
        *schema, view = parts(name)
        claim = ".".join(map(identifier, (*schema, f"{view}_{holder['session']}")))
        if not self._create_relation(claim):
            claimant = self._holder(claim)
            if _is_gone(claimant):
                self._break(claim, claimant)
            return ""
        if self._holder(name).get("session") == holder["session"]:
            self._drop(name)
        self._drop(claim)
        return f"a run was killed while it wrote {self.table}: {_named(holder)}"

    def _drop(self, name: str) -> None:
        purge = self.PURGE if self.kind == TABLE else ""
        self.driver.execute(f"drop {self.kind} if exists {self.driver.quoted(name)}{purge}")

    def _create_relation(self, name: str) -> bool:
        """Make a view or table that names this session; False if there is one already."""
        try:
            self.driver.execute(self._create(name))
        except EngineError as error:
            if re.search("already.?exists", str(error), re.IGNORECASE):
                return False
            if self.kind == TABLE or not _NO_VIEWS.search(str(error)):
                raise
            self.kind = TABLE
            return self._create_relation(name)
        return True

    @cached_property
    def _names(self) -> dict[str, str]:
        """What is said of this session."""
        return {
            "session": self.token,  # Spark hides what is called a token
            "host": socket.gethostname(),
            "process": f"{os.getpid()} {_start_of(os.getpid())}",
            "since": datetime.now(UTC).isoformat(" ", "seconds"),
        }

    def _create(self, name: str) -> str:
        """The statement that fails where another session holds the lock."""
        names = self._names
        properties = ", ".join(f"'{_PREFIX}{name}' = '{text}'" for name, text in names.items())
        is_view = self.kind == VIEW
        columns, query = ("", "\nas\nselect 1 as n") if is_view else (" (n int)", "")
        return (
            f"create {self.kind} {self.driver.quoted(name)}{columns} comment '{ABOUT}'\n"
            f"tblproperties ({properties}){query}"
        )

    def _holder(self, name: str = "") -> dict[str, str]:
        """What is known of who holds it, or a claim of this name; empty if nobody does."""
        name = name or self.name
        if self.kind == TABLE:
            self.driver.refresh([name])
        try:
            rows = self.driver.rows(f"show tblproperties {self.driver.quoted(name)}")
        except StatementError as error:
            if error.reason == LOST:
                raise
            return {}
        text_by_property = {str(name): str(text) for name, text in rows}
        return {
            name.removeprefix(_PREFIX): text
            for name, text in text_by_property.items()
            if name.startswith(_PREFIX)
        }

    def _renew(self, ended: Event) -> None:
        number = 0
        while not ended.wait(RENEW_EVERY):
            number += 1
            with suppress(Exception):  # the run itself finds out that it has no connection
                self.driver.execute(self._renewed(number))

    def _renewed(self, number: int) -> str:
        """The statement that shows waiters another number."""
        name = self.driver.quoted(self.name)
        return f"alter {self.kind} {name} set tblproperties ('{_PREFIX}renewed' = '{number}')"


@dataclass
class TableLock(CatalogLock):
    """The same as a table without rows: not every catalog of Trino has views, or properties.

    Its comment says whose it is.
    """

    PURGE: ClassVar[str] = ""

    kind: str = TABLE

    def _create(self, name: str) -> str:
        return f"create table {self.driver.quoted(name)} (host varchar) comment {self._about()}"

    def _about(self, **added: str) -> str:
        return f"'{json.dumps({'about': ABOUT, **self._names, **added})}'"

    def _holder(self, name: str = "") -> dict[str, str]:
        name = name or self.name
        *schema, table = parts(name)
        places = ("current_catalog", "current_schema")
        catalog, schema_name = (*places[: 2 - len(schema)], *(f"'{part}'" for part in schema))
        rows = self.driver.rows(
            "select comment from system.metadata.table_comments\n"
            f"where catalog_name = {catalog} and schema_name = {schema_name} "
            f"and table_name = '{table.casefold()}'"
        )
        if not rows:
            return {}
        with suppress(ValueError):
            return {str(name): str(text) for name, text in json.loads(rows[0][0] or "").items()}
        raise EngineError(
            f"{name} is a table that no run made, and would keep runs apart that write "
            f"{self.table}; give it another name"
        )

    def _renewed(self, number: int) -> str:
        return (
            f"comment on table {self.driver.quoted(self.name)} is "
            f"{self._about(renewed=str(number))}"
        )


class LockingDriver(Driver):
    """A driver whose runs are kept apart by what one of them makes in the catalog."""

    LOCK: ClassVar[type[CatalogLock]] = CatalogLock

    @cached_property
    def _locks(self) -> list[CatalogLock]:
        return []

    @contextmanager
    def alone(self, name: str) -> Iterator[str]:
        """As the only one that writes what is named so: an object of its catalog keeps others out.

        One that a killed run left is taken away: at once where its process was on this
        machine, else after it was not renewed for two minutes.
        """
        *schema, table = parts(name)
        lock = self.LOCK(self, ".".join(map(identifier, (*schema, f"{table}_lock"))), name)
        with ExitStack() as held:
            with waiting(lambda: (f"the lock of {name}: {lock.name}", self._bound)):
                died = held.enter_context(lock.held(self.lock_timeout))
            self._locks.append(lock)
            held.callback(self._locks.remove, lock)
            yield died

    def check_alone(self) -> None:
        """Raise EngineError if another run took the lock of `alone` meanwhile."""
        for lock in self._locks:
            lock.check()


def _is_gone(holder: Mapping[str, str]) -> bool:
    """Whether the process of a holder on this machine has ended."""
    if holder.get("host") != socket.gethostname():
        return False
    process, _, start = holder.get("process", "").partition(" ")
    if not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return _start_of(int(process)) != start


@cache
def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
    return ""


def _start_of(process: int) -> str:
    """When a process started, so that a later one of its number is another; empty if unknown."""
    with suppress(OSError, IndexError):
        ticks = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[19]
        return f"{ticks} {_boot()}"
    return ""


def _named(holder: Mapping[str, str]) -> str:
    process = holder.get("process", "").partition(" ")[0]
    return f"process {process} on {holder.get('host')}, since {holder.get('since')} UTC"
