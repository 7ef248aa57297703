"""Runs in a process of their own, killed before one of their statements."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

from sqlmetrics.engines.database import Database

spawning = multiprocessing.get_context("forkserver")
spawning.set_forkserver_preload(
    ["duckdb", "pyarrow", "psycopg", "pytest", "sqlmetrics.jobs.run", "sqlmetrics.engines.postgres"]
)
"""Children come from a process that has imported all and opened nothing: 30 ms each."""


def before_statement(engine: Database, number: int, act: Callable[[], None]) -> None:
    """Do something before the statement of a number."""
    driver: Any = getattr(engine, "driver", engine)
    execute, numbers = driver.execute, itertools.count()

    def counted(sql: str) -> None:
        if next(numbers) == number:
            act()
        execute(sql)

    driver.execute = counted


def killed(engine: Database, number: int) -> None:
    """Kill the process before a statement."""
    before_statement(engine, number, lambda: os.kill(os.getpid(), signal.SIGKILL))
