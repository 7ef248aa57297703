"""What is waited for: told after some seconds, by one thread for all; and how waiting ends."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Condition, Event, Thread, local

from sqlmetrics.errors import EngineError, masked

TELL_AFTER = 10.0
"""After so many seconds it is told what is waited for."""

TELL_EVERY = 60.0
"""So many seconds later it is told again; of what says how far it is, every `TELL_AFTER`."""

CONNECT_TIMEOUT = 30
"""As many seconds a server has to answer, unless `connect_timeout` says otherwise."""

STOP_TIMEOUT = 5
"""As many seconds a server has to answer when a statement is to be stopped there."""

LOCK_TIMEOUT = 3_600.0
"""As many seconds another run may write the same tables, unless `lock_timeout` says otherwise."""

STOP_AGAIN = 0.2
"""After so many seconds the next statement is stopped too: a stop ends one statement alone."""

_LOG = logging.getLogger(__name__)


@dataclass
class Wait:
    """Something that is waited for.

    Attributes:
        describe: What it is, and what of it can be changed.
        interrupt: Ends it from another thread, where a driver can.
        share: How much of it is done, from 0 to 1, where a driver knows it.
        parent: What the same thread waits for meanwhile: the inner one is told alone.
        since: When it began, by the clock of `time.monotonic`.
        due: When it is told next.
        has_inner: Whether the thread waits for something within it.
    """

    describe: Callable[[], tuple[str, str]]
    interrupt: Callable[[], object] | None
    share: Callable[[], float | None] | None
    parent: Wait | None
    since: float = field(default_factory=time.monotonic)
    due: float = 0.0
    has_inner: bool = False

    def __post_init__(self) -> None:
        """Tell it after a while."""
        self.due = self.since + TELL_AFTER

    @property
    def message(self) -> str:
        """The line that is told."""
        subject, hint = self.describe()
        share = self.share and self.share()
        subject += "" if share is None else f", {share:.0%} done"
        seconds = time.monotonic() - self.since
        return masked(f"waiting {seconds:,.0f} s for {subject}" + (f"; {hint}" if hint else ""))


class Watch:
    """All that is waited for, and the thread that tells it, which starts with the first of it.

    Attributes:
        is_stopping: Whether a signal came, and the statement that it is to end has not ended.
    """

    def __init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        """Forget all: a process that was forked has no thread but one."""
        self.is_stopping = False
        self._changed = Condition()
        self._waits: dict[int, Wait] = {}
        self._thread: Thread | None = None
        self._wakes = math.inf
        self._inner = local()

    @contextmanager
    def waiting(
        self,
        describe: Callable[[], tuple[str, str]],
        interrupt: Callable[[], object] | None = None,
        share: Callable[[], float | None] | None = None,
    ) -> Iterator[None]:
        """Tell what is waited for if the block lasts long."""
        parent = getattr(self._inner, "wait", None)
        wait = Wait(describe, interrupt, share, parent)
        with self._changed:
            if parent:
                parent.has_inner = True
            self._waits[id(wait)] = wait
            if self._thread is None:
                self._thread = Thread(target=self._tell_all, name="sqlmetrics-wait", daemon=True)
                self._thread.start()
            elif wait.due < self._wakes:
                self._changed.notify()
        self._inner.wait = wait
        try:
            yield
        finally:
            self._inner.wait = parent
            with self._changed:
                self._waits.pop(id(wait), None)
                if parent:
                    parent.has_inner = False
                    parent.since = time.monotonic()
                    parent.due = parent.since + TELL_AFTER

    def interrupt(self, before: float) -> None:
        """End what has been waited for since before a moment, where a driver can."""
        with self._changed:  # nothing begins or ends meanwhile
            for wait in self._waits.values():
                if wait.interrupt and wait.since < before:
                    with suppress(Exception):  # of a connection that is closed by now
                        wait.interrupt()

    def _tell_all(self) -> None:
        while True:
            for message in self._messages():
                _LOG.warning("%s", message)

    def _messages(self) -> list[str]:
        """What is to be told next; waits until there is something, or something has changed."""
        with self._changed:
            open_waits = [wait for wait in self._waits.values() if not wait.has_inner]
            now = time.monotonic()
            late = [wait for wait in open_waits if wait.due <= now]
            for wait in late:
                wait.due = now + (TELL_AFTER if wait.share else TELL_EVERY)
            if not late:
                self._wakes = min((wait.due for wait in open_waits), default=math.inf)
                self._changed.wait(None if self._wakes == math.inf else self._wakes - now)
        return [wait.message for wait in late]


WATCH = Watch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WATCH.start_anew)


def waiting(
    describe: Callable[[], tuple[str, str]],
    interrupt: Callable[[], object] | None = None,
    share: Callable[[], float | None] | None = None,
) -> AbstractContextManager[None]:
    """Tell what is waited for if the block lasts long.

    Args:
        describe: What is waited for, and what bounds it or how to change that.
        interrupt: Ends it from another thread.
        share: How much of it is done.
    """
    return WATCH.waiting(describe, interrupt, share)


@contextmanager
def time_limit(seconds: float, name: str, interrupt: Callable[[], object]) -> Iterator[None]:
    """Stop what a database computes once the block has lasted so many seconds.

    Args:
        seconds: How many, above 0.
        name: The database.
        interrupt: Stops the statement that runs, from another thread.

    Raises:
        EngineError: If a statement was stopped.
    """
    is_over, is_late = Event(), Event()

    def watch() -> None:
        wait = seconds
        while not is_over.wait(wait):
            is_late.set()
            interrupt()
            wait = STOP_AGAIN

    thread = Thread(target=watch, name="sqlmetrics-time-limit", daemon=True)
    thread.start()
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:  # which is how some drivers tell a stop
        if not is_late.is_set():
            raise
        raise EngineError(f"stopped after {seconds:g} s: {name} did not answer") from error
    finally:
        is_over.set()
        thread.join()
