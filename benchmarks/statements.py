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

    found: Statements = []

    def watch(name: str) -> None:
        method = getattr(Database, name)

        def watching(self: Database, sql: str) -> Any:
            before, known = time.process_time(), len(found)
            answer = method(self, sql)
            del found[known:]  # what it called itself is counted here
            found.append((time.process_time() - before, sql))
            return answer

        setattr(Database, name, watching)

    def watch_tables(name: str) -> None:
        method = getattr(Database, name)

        @contextmanager
        def watching(self: Database, create: str, drop: str) -> Iterator[None]:
            before, known = time.process_time(), len(found)
            with method(self, create, drop):
                del found[known:]
                found.append((time.process_time() - before, create))
                yield

        setattr(Database, name, watching)

    for name in ("rows", "records", "table", "execute"):
        watch(name)
    for name in ("made", "chained"):
        watch_tables(name)
    return found


def told(statements: Sequence[tuple[float, str]]) -> Iterator[str]:
    """A line a statement that took more than a hundredth of a second, in order."""
    for cpu, sql in statements:
        if cpu >= 0.01:
            kept = sql.partition("create temporary ")[2].partition(" as\n")[0]
            yield f"{cpu:6.2f}  {kept or ' '.join(sql.split())[:90]}"
    yield f"{sum(cpu for cpu, _ in statements):6.2f}  all statements"
