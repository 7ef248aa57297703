"""Rows whose query may come again: kept until they are asked for, in memory and then on disk."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sqlmetrics.engines.duckdb_file import own_file
from sqlmetrics.evaluation.streaming.lists import Array

IN_MEMORY = 4_000_000
"""As many rows are kept in memory: 96 MB."""

Rows = tuple[Array, Array, Array]
"""Query, score and grade of each row."""


class RowStore:
    """Rows in the order in which they came; above IN_MEMORY they go into a file of DuckDB."""

    def __init__(self) -> None:
        self._parts: list[Rows] = []
        self._waiting = 0
        self._file: Any = None

    def add(self, query: Array, scores: Array, grades: Array) -> None:
        """Keep rows."""
        part = (query.astype(np.int64), scores.astype(np.float64), grades.astype(np.float64))
        self._parts.append(part)
        self._waiting += len(query)
        if self._waiting > IN_MEMORY:
            self._write()

    def batches(self) -> Iterator[Rows]:
        """All rows, those of one query in one batch, in the order in which they came."""
        if self._file is None:
            if self._parts:
                yield _joined(self._parts)
            return
        self._write()
        # Queries by chance in parts: each part fits into memory and none is read twice.
        total = self._file.execute("select count(*) from rows").fetchall()[0][0]
        parts = max(1, -(-total // IN_MEMORY))
        for part in range(parts):
            read = self._file.execute(
                "select query, score, grade from rows where hash(query) % $parts = $part "
                "order by rowid",
                {"parts": parts, "part": part},
            ).fetchnumpy()
            if len(read["query"]):
                yield read["query"], read["score"], read["grade"]

    def merge(self, other: RowStore) -> None:
        """Keep the rows of another behind one's own."""
        for rows in other.batches():
            self.add(*rows)

    def __getstate__(self) -> dict[str, Any]:
        """The rows, for another process."""
        return {"rows": list(self.batches())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The rows of another process."""
        self.__init__()  # type: ignore[misc]
        for rows in state["rows"]:
            self.add(*rows)

    def _write(self) -> None:
        """Move what is in memory into the file."""
        if not self._parts:
            return
        if self._file is None:
            folder = tempfile.mkdtemp(prefix="sqlmetrics_")
            self._file = own_file(Path(folder) / "rows.db")
            weakref.finalize(self, _removed, self._file, folder)
            self._file.execute("create table rows (query bigint, score double, grade double)")
        waiting = pa.table(
            dict(zip(("query", "score", "grade"), _joined(self._parts), strict=True))
        )
        self._file.register("waiting", waiting)
        self._file.execute("insert into rows from waiting")
        self._file.unregister("waiting")
        self._parts, self._waiting = [], 0


def _removed(file: Any, folder: str) -> None:
    """Close the file of rows that nobody asks for any more, and delete it."""
    file.close()
    shutil.rmtree(folder, ignore_errors=True)


def _joined(parts: list[Rows]) -> Rows:
    query, scores, grades = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return query, scores, grades
