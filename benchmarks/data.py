"""The data: two Parquet files, the same on every machine for one shape and number of rows.

Usually 100 results a query with real-valued scores, and 20 labels with grades 0 to 3: on 19 of
the results (every fifth in the file's order, which is not the scores') and on one other item.
Where a shape is not about ties, no two scores of a query are equal, even as 32-bit floats, so
that every contender sorts alike.
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
        blocks: How the rows of a block are spread over queries: (rows, results a query) each.
        label_step: One label a so many results, with grades 0 to 3, the last of a query on no
            result; 0 for one of grade 1 on any result.
        tied: Whether there are only a dozen scores. The rows of a query are then in the order
            in which trec_eval takes items with equal scores, the last id first, so that
            contenders that keep the order of the rows agree with it.
        systems: How many systems rank every query.
        scattered: Whether the rows of a query lie all over the file, as warehouses export them.
    """

    blocks: tuple[tuple[int, int], ...] = ((100, 100),)
    label_step: int = 5
    tied: bool = False
    systems: int = 1
    scattered: bool = False

    @property
    def rows(self) -> int:
        """Rows of a block, over all systems."""
        return self.systems * sum(rows for rows, _ in self.blocks)

    def queries(self, rows: int) -> int:
        """How many queries so many rows have."""
        return rows // self.rows * sum(size // results for size, results in self.blocks)

    def labels(self, rows: int) -> int:
        """How many labels so many rows have."""
        return rows // self.systems // self.label_step if self.label_step else self.queries(rows)


SHAPES: Mapping[str, Shape] = {
    "usual": Shape(),
    "short": Shape(((10, 10),), label_step=2),
    "long": Shape(((1000, 1000),), label_step=20),
    "one-label": Shape(label_step=0),
    "ties": Shape(tied=True),
    "skewed": Shape(((50_000, 50_000), (25_000, 500), (25_000, 10))),
    "systems": Shape(systems=5),
    "scattered": Shape(scattered=True),
    "scattered-one-label": Shape(label_step=0, scattered=True),
}

SCATTERED = f"order by hash(query_id, item_id, {SEED})"
"""What scatters the rows of a query."""

# 1000003 is prime: no item is twice among a query's results.
QUERY = """
copy (
    with

    places as (
        select
            {systems}
            i // {block} * {block_queries} + case {query} end as query,
            case {position} end as position
        from range({rows}) as numbers(i){crossed}
    ),

    items as (
        select
            *,
            'query-' || lpad(cast(query as varchar), 8, '0') as query_id,
            'item-' || lpad(
                cast((query * 7919 + {item} * 104729) % 1000003 as varchar), 7, '0'
            ) as item_id
        from places
        {where}
    )

    select {columns}
    from items
    {order}
) to '{path}' (format parquet)
"""


@dataclass(frozen=True)
class Files:
    """Where the two tables are."""

    rankings: Path
    labels: Path


def files_of(rows: int, shape: str = "usual") -> Files:
    """The files of so many rankings rows, written unless they are there.

    A process of its own writes them: the peak memory of a process that starts others is
    counted as theirs.
    """
    tables = (FOLDER / f"{shape}_{table}_{rows}.parquet" for table in ("rankings", "labels"))
    files = Files(*tables)
    if not (files.rankings.exists() and files.labels.exists()):
        FOLDER.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.data", str(rows), shape]
        subprocess.run([*command, str(files.rankings), str(files.labels)], check=True)
    return files


def write(rows: int, shape: Shape, rankings: str, labels: str) -> None:
    """Write both files; each is seen only when it is complete."""
    bits = (max(results for _, results in shape.blocks) - 1).bit_length()
    random_bits = f"hash(query, position{', s' if shape.systems > 1 else ''}, {SEED})"
    # random bits above those of the position: 24 bits, all that a 32-bit float holds
    score = f"(({random_bits} >> {40 + bits}) * {2**bits} + position) / 1048576"
    parts = {
        "columns": f"query_id, item_id, {f'{random_bits} % 12' if shape.tied else score} as score",
        "item": "position",
        "order": "order by query_id, item_id desc" if shape.tied else "",
    }
    if shape.systems > 1:
        parts["columns"] = f"'system-' || s as system, {parts['columns']}"
        parts |= {"systems": "s,", "crossed": f", range({shape.systems}) as systems(s)"}
    if shape.scattered:
        parts["order"] = SCATTERED
    _write(rankings, shape, rows, parts)
    grade = f"hash(query, position, {SEED + 1})"
    # every query has a relevant item: tools differ on those that have none
    grade = f"case when position = 0 then {grade} % 3 + 1 else {grade} % 4 end"
    # the item one step behind: that of the last label of a query is none of its results
    step = {
        "item": f"(position + {shape.label_step})",
        "where": f"where position % {shape.label_step} = 0",
    }
    if not shape.label_step:
        grade = "1"
        step = {"where": f"where position = hash(query, {SEED + 2}) % {shape.blocks[0][1]}"}
    columns = f"query_id, item_id, cast({grade} as integer) as grade"
    order = {"order": SCATTERED * shape.scattered}
    _write(labels, shape, rows, {"item": "position", **step, "columns": columns, **order})


def _write(path: str, shape: Shape, rows: int, parts: Mapping[str, str]) -> None:
    import duckdb

    partial = f"{path}.{os.getpid()}"
    block = shape.rows // shape.systems
    query, position, first, queries = [], [], 0, 0
    for size, results in shape.blocks:
        within = f"when i % {block} < {first + size} then"
        query.append(f"{within} {queries} + (i % {block} - {first}) // {results}")
        position.append(f"{within} (i % {block} - {first}) % {results}")
        first, queries = first + size, queries + size // results
    text = {
        "block": block,
        "block_queries": queries,
        "query": " ".join(query),
        "position": " ".join(position),
        "rows": rows // shape.systems,
        "path": partial.replace("'", "''"),
    }
    nothing = dict.fromkeys(("systems", "crossed", "where", "order"), "")
    duckdb.connect().execute(QUERY.format(**nothing | text | parts))
    os.replace(partial, path)


if __name__ == "__main__":
    write(int(sys.argv[1]), SHAPES[sys.argv[2]], sys.argv[3], sys.argv[4])
