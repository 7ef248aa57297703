"""The data: two Parquet files, the same on every machine for one number of rows.

100 results a query with real-valued scores, and 20 labels with grades 0 to 3: on 19 of the
results (every fifth in the file's order, which is not the scores') and on one other item.
No two scores of a query are equal, even as 32-bit floats, so that every contender sorts
alike and none has to pay for tie-breaking.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "data"
RESULTS = 100
LABELS = 20
SEED = 20

# 17 random bits above 7 bits of the position: 24 bits, all that a 32-bit float can hold.
SCORE = f"((hash(query, position, {SEED}) >> 47) * 128 + position) / 1048576 as score"
GRADE = f"cast(hash(query, position, {SEED + 1}) % 4 as integer) as grade"

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


def made(rows: int) -> Files:
    """The files of so many rankings rows, written unless they are there.

    A process of its own writes them: the peak memory of a process that starts others is
    counted as theirs.
    """
    files = Files(FOLDER / f"rankings_{rows}.parquet", FOLDER / f"labels_{rows}.parquet")
    if not (files.rankings.exists() and files.labels.exists()):
        FOLDER.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.data", str(rows)]
        subprocess.run([*command, str(files.rankings), str(files.labels)], check=True)
    return files


def write(rows: int, rankings: str, labels: str) -> None:
    """Write both files; each is seen only when it is complete."""
    queries = rows // RESULTS
    _write(rankings, SCORE, "i % 100", RESULTS, queries)
    _write(labels, GRADE, "5 + 5 * (i % 20)", LABELS, queries)


def _write(path: str, value: str, position: str, each: int, queries: int) -> None:
    import duckdb

    partial = f"{path}.{os.getpid()}"
    shape = {"value": value, "position": position, "each": each, "rows": each * queries}
    duckdb.connect().execute(QUERY.format(path=partial.replace("'", "''"), **shape))
    os.replace(partial, path)


if __name__ == "__main__":
    write(int(sys.argv[1]), sys.argv[2], sys.argv[3])
