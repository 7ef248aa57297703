"""What each statement of an evaluation takes, inside the process that runs it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Statements = list[tuple[float, str]]
"""CPU seconds and the text of each statement, in order."""


def watched() -> Statements:
    """A list that gains the CPU seconds and the text of each statement from now on."""
    from sqlmetrics.engines.database import Database

    statements: Statements = []

    def watch(name: str) -> None:
        method = getattr(Database, name)

        def watching(self: Database, sql: str) -> Any:
            start, n_before = time.process_time(), len(statements)
            answer = method(self, sql)
            del statements[n_before:]  # what it called itself is counted here
            statements.append((time.process_time() - start, sql))
            return answer

        setattr(Database, name, watching)

    def watch_tables(name: str) -> None:
        method = getattr(Database, name)

        @contextmanager
        def watching(self: Database, create: str, drop: str) -> Iterator[None]:
            start, n_before = time.process_time(), len(statements)
            with method(self, create, drop):
                del statements[n_before:]
                statements.append((time.process_time() - start, create))
                yield

        setattr(Database, name, watching)

    for name in ("rows", "records", "table", "execute"):
        watch(name)
    for name in ("temporary", "chained"):
        watch_tables(name)
    return statements


def cost_lines(statements: Sequence[tuple[float, str]]) -> Iterator[str]:
    """A line a statement that took more than a hundredth of a second, in order."""
    for cpu, sql in statements:
        if cpu >= 0.01:
            kept = sql.partition("create temporary ")[2].partition(" as\n")[0]
            yield f"{cpu:6.2f}  {kept or ' '.join(sql.split())[:90]}"
    yield f"{sum(cpu for cpu, _ in statements):6.2f}  all statements"
