"""The data: two Parquet files, the same on every machine for one shape and number of rows.

Usually 100 results a query with real-valued scores, and 20 labels with grades 0 to 3: on 19 of
the results (every fifth in the file's order, which is not the scores') and on one other item.
No two scores of a query are equal, even as 32-bit floats, so that every contender sorts
alike and none has to pay for tie-breaking.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "data"
SEED = 20


@dataclass(frozen=True)
class Shape:
    """How many results and labels a query has.

    Attributes:
        results: Results a query.
        labels: Labels a query: one of grade 1 on any result, or grades 0 to 3 on every
            (results // labels)th, the last of them on no result.
    """

    results: int = 100
    labels: int = 20

    @property
    def score(self) -> str:
        """Random bits above those of the position: 24 bits, all that a 32-bit float holds."""
        bits = (self.results - 1).bit_length()
        high = f"(hash(query, position, {SEED}) >> {40 + bits}) * {2**bits}"
        return f"({high} + position) / 1048576 as score"

    @property
    def grade(self) -> str:
        """The grade of a label."""
        drawn = f"hash(query, position, {SEED + 1}) % 4" if self.labels > 1 else "1"
        return f"cast({drawn} as integer) as grade"

    @property
    def labelled(self) -> str:
        """The position of label i."""
        step = self.results // self.labels
        if self.labels == 1:
            return f"cast(hash(i, {SEED + 2}) % {self.results} as bigint)"
        return f"{step} + {step} * (i % {self.labels})"


SHAPES: Mapping[str, Shape] = {
    "usual": Shape(),
    "short": Shape(10, 5),
    "long": Shape(1000, 50),
    "one-label": Shape(100, 1),
}

# 1000003 is prime: no item is twice among a query's results.
QUERY = """
copy (
    select
        'query-' || lpad(cast(query as varchar), 8, '0') as query_id,
        'item-' || lpad(
            cast((query * 7919 + position * 104729) % 1000003 as varchar), 7, '0'
        ) as item_id,
        {value}
    from (
        select i // {each} as query, {position} as position
        from range({rows}) as numbers(i)
    )
) to '{path}' (format parquet)
"""


@dataclass(frozen=True)
class Files:
    """Where the two tables are."""

    rankings: Path
    labels: Path


def made(rows: int, shape: str = "usual") -> Files:
    """The files of so many rankings rows, written unless they are there.

    A process of its own writes them: the peak memory of a process that starts others is
    counted as theirs.
    """
    kind = "" if shape == "usual" else f"{shape}_"
    files = Files(
        FOLDER / f"{kind}rankings_{rows}.parquet", FOLDER / f"{kind}labels_{rows}.parquet"
    )
    if not (files.rankings.exists() and files.labels.exists()):
        FOLDER.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.data", str(rows), shape]
        subprocess.run([*command, str(files.rankings), str(files.labels)], check=True)
    return files


def write(rows: int, shape: Shape, rankings: str, labels: str) -> None:
    """Write both files; each is seen only when it is complete."""
    queries = rows // shape.results
    _write(rankings, shape.score, f"i % {shape.results}", shape.results, queries)
    _write(labels, shape.grade, shape.labelled, shape.labels, queries)


def _write(path: str, value: str, position: str, each: int, queries: int) -> None:
    import duckdb

    partial = f"{path}.{os.getpid()}"
    text = {"value": value, "position": position, "each": each, "rows": each * queries}
    duckdb.connect().execute(QUERY.format(path=partial.replace("'", "''"), **text))
    os.replace(partial, path)


if __name__ == "__main__":
    write(int(sys.argv[1]), SHAPES[sys.argv[2]], sys.argv[3], sys.argv[4])
