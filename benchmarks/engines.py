"""The same million rows on every engine that can be started here, in one run.

    python benchmarks/engines.py                       # all that are here
    python benchmarks/engines.py duckdb sqlite --rows 100000

Loads the same tables into each, evaluates them without input checks, and prints a table: engine,
version, seconds to load, seconds to evaluate (the faster of two), and the largest difference
between its per-query values and DuckDB's, |a - b| / max(1, |b|).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import sqlmetrics as sm

ROOT = Path(__file__).resolve().parent.parent
METRICS = ["ndcg@10", "recall@100", "precision@10", "mrr", "ap", "gauc"]
LEFT_OUT = ("googlesql", "clickhouse_connect")
"""One is made to be right and holds 100,000 rows; the other is ClickHouse by another door."""


def tables(rows: int) -> tuple[pa.Table, pa.Table]:
    """Lists of 100 with ties and two zeros, 20 labels a query; always the same."""
    rankings = f"""
        select
            'q' || (n // 100) as query_id,
            'i' || (hash(n) % 2000) || '_' || (n % 100) as item_id,
            case when n % 50 = 0 then -0.0 else (hash(n + 7) % 400) / 400.0 end as score
        from range({rows}) as t(n)
    """
    labels = f"""
        select
            'q' || (n // 20) as query_id,
            'i' || (hash((n // 20) * 100 + n % 20 * 7) % 2000) || '_' || (n % 20 * 7 % 100)
                as item_id,
            hash(n + 3) % 4 as grade
        from range({rows // 5}) as t(n)
    """
    with duckdb.connect() as connection:
        return tuple(connection.sql(f"from ({one})").to_arrow_table() for one in (rankings, labels))  # type: ignore[return-value]


def measured(name: str, servers: Any, given: tuple[pa.Table, pa.Table]) -> tuple[Any, list[float]]:
    """The engine, and the seconds it took to load and to evaluate; and its result."""
    with servers.open(name) as engine:
        start = time.perf_counter()
        names = [
            engine.register(f"bench_{role}", one) for role, one in zip("rl", given, strict=True)
        ]
        loaded = time.perf_counter() - start
        taken = []
        for _ in range(2):
            start = time.perf_counter()
            result = sm.evaluate(*names, METRICS, connection=engine, check=False)
            taken.append(time.perf_counter() - start)
        return (engine.name, engine.version, result), [loaded, min(taken)]


def apart(result: sm.Result, other: sm.Result) -> float:
    """The largest difference of two results, query by query."""
    rows, others = (one.per_query().to_pylist() for one in (result, other))
    assert [row["query_id"] for row in rows] == [row["query_id"] for row in others]
    largest = 0.0
    for row, theirs in zip(rows, others, strict=True):
        for measure in result.measures:
            a, b = row[measure.column], theirs[measure.column]
            assert (a is None) == (b is None), (row, theirs)
            if a is not None:
                largest = max(largest, abs(a - b) / max(1.0, abs(b)))
    return largest


def main() -> None:
    """Measure, and print a row an engine."""
    sys.path.insert(0, str(ROOT / "tests"))
    from engines.starting import STARTED, Servers

    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("engines", nargs="*", default=[n for n in STARTED if n not in LEFT_OUT])
    asked.add_argument("--rows", type=int, default=1_000_000)
    given = asked.parse_args()
    made = tables(given.rows)
    first: sm.Result | None = None
    print("| engine | version | load s | evaluate s | largest difference |")
    print("|---|---|---|---|---|")
    with Servers() as servers:
        for name in ["duckdb", *(one for one in given.engines if one != "duckdb")]:
            try:
                servers.connection(name)
            except BaseException as missing:  # pytest's own skip is no Exception
                print(f"{name} is left out: {missing}", file=sys.stderr)
                continue
            (engine, version, result), (load, evaluate) = measured(name, servers, made)
            first = first or result
            difference = f"{apart(result, first):.0e}" if result is not first else "-"
            print(
                f"| {engine} | {version} | {load:.2f} | {evaluate:.2f} | {difference} |", flush=True
            )


if __name__ == "__main__":
    main()
