"""Ctrl-C and SIGTERM while a command runs: it stops what it does and cleans up, in bounded time."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread, current_thread, main_thread
from typing import Any

from sqlmetrics.engines.waiting import WATCH

STOPPING = (signal.SIGINT, signal.SIGTERM)

GRACE = 15.0
"""As many seconds a command has to clean up: a library may not let go of what it computes."""

PATIENCE = 0.2
"""After so many seconds what is computed is interrupted, unless the signal has done so."""

REPEATED = 1.0
"""A signal within so many seconds is the same one: a terminal and a wrapper may both send it."""


class Stop:
    """The signal that stops a command, once it has come.

    Attributes:
        number: Which one; 0 before it comes.
        is_over: Whether the command has ended.
    """

    def __init__(self) -> None:
        self.number = 0
        self.is_over = Event()
        self._since = 0.0

    def __call__(self, number: int, _: object) -> None:
        """Be told by Python. A second one ends the process at once."""
        if not self.number:
            self.number = number
            self._since = time.monotonic()
            WATCH.is_stopping = True
            raise KeyboardInterrupt
        if time.monotonic() - self._since > REPEATED:
            self.end("stopped at once: what was made for a while may be left behind")

    @property
    def exit_code(self) -> int:
        """As a shell tells a process that a signal ended."""
        return 128 + self.number

    def watch(self, reading: socket.socket) -> None:
        """End the process where it does not end by itself; Python may not even be told.

        Args:
            reading: Has a byte for each signal, as soon as it comes.
        """
        with suppress(OSError), reading:
            while (number := reading.recv(1)) and number[0] not in STOPPING:
                pass
            if not number:
                return
            began = time.monotonic()
            if not self.is_over.wait(PATIENCE):
                WATCH.interrupt(began)
            if not self.is_over.wait(GRACE):
                self.number = self.number or number[0]
                self.end(f"stopped: what was computed did not end within {GRACE:.0f} s")

    def end(self, message: str) -> None:
        """End the process without cleaning up."""
        with suppress(OSError, ValueError):
            os.write(2, f"{message}\n".encode())
        os._exit(self.exit_code)


@contextmanager
def heeding_signals() -> Iterator[Stop]:
    """Let the first signal raise KeyboardInterrupt, wherever the command is."""
    stop = Stop()
    if current_thread() is not main_thread() or sys.platform == "win32":
        yield stop
        return
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    Thread(target=stop.watch, args=(reading,), name="sqlmetrics-stop", daemon=True).start()
    before: dict[Any, Any] = {number: signal.getsignal(number) for number in STOPPING}
    outer = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    try:
        for number in STOPPING:
            if before[number] is not signal.SIG_IGN:  # `nohup`, or a shell's `&`
                signal.signal(number, stop)
        yield stop
    finally:
        stop.is_over.set()
        WATCH.is_stopping = False
        signal.set_wakeup_fd(outer)
        for number, handler in before.items():
            signal.signal(number, handler)
        writing.close()
