"""What a comparison costs beside its evaluation: moments, intervals, t, and a bootstrap of 1,000.

Each case is a process of its own on the same queries of two systems, from the files to the
numbers; the ratios are to the evaluation alone. `python -m benchmarks.compare --queries 1_000_000`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.contenders import THREADS
from benchmarks.data import FOLDER
from benchmarks.process import used

METRICS = (
    *("ndcg@5", "ndcg@10", "recall@5", "recall@10", "precision@5", "precision@10"),
    *("mrr", "ap", "hit@5", "hit@10"),
)
RESULTS, LABELS = 10, 2
"""Of a query: short lists, where evaluating them costs least."""

CASES = ("evaluate", "t", "bootstrap", "unpaired")

_RANKINGS = """
select
    system, query as query_id, query * 100 + place as item_id,
    (hash(query * 1000 + place * 7 + if(system = 'new', 3, 0)) % 1000003) / 1000.0
        + if(place < {labels}, 200.0, 0.0) as score
from
    range({queries}) as queries(query), range({results}) as places(place),
    (values ('old'), ('new')) as systems(system)
order by query
"""
_LABELS = """
select query as query_id, query * 100 + place as item_id, 1 + hash(query + place) % 3 as grade
from range({queries}) as queries(query), range({labels}) as places(place)
"""


def files_of(queries: int) -> tuple[Path, Path]:
    """The two files, written unless they are there."""
    FOLDER.mkdir(exist_ok=True)
    paths = []
    for name, text in (("rankings", _RANKINGS), ("labels", _LABELS)):
        path = FOLDER / f"compare_{name}_{queries}.parquet"
        if not path.exists():
            select = text.format(queries=queries, results=RESULTS, labels=LABELS)
            copy = f"copy ({select}) to '{path}.part' (format parquet)"
            # a process of its own: a child's peak of memory starts at its parent's
            subprocess.run(
                [sys.executable, "-c", f"import duckdb; duckdb.execute({copy!r})"], check=True
            )
            os.replace(f"{path}.part", path)
        paths.append(path)
    return paths[0], paths[1]


def measured(case: str, files: tuple[Path, Path]) -> tuple[float, float]:
    """CPU seconds of one case in a process of its own, and its peak of memory in MB."""
    command = [sys.executable, "-m", "benchmarks.compare", "--one", case, *map(str, files)]
    usage = used(command)
    return usage.cpu, usage.peak / 1e6


def run_case(case: str, rankings: str, labels: str) -> None:
    """Inside the process."""
    import duckdb

    import sqlmetrics as sm

    connection = duckdb.connect(config={"threads": THREADS})
    if case == "evaluate":
        sm.evaluate(
            rankings,
            labels,
            METRICS,
            system="system",
            connection=connection,
            check=False,
            per_query=False,
        )
        return
    options = {"paired": False} if case == "unpaired" else {"test": case}
    sm.compare(
        rankings, labels, METRICS, baseline="old", connection=connection, check=False, **options
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        run_case(*options.one)
        return
    files = files_of(options.queries)
    print(
        f"{options.queries:,} queries of 2 systems, {len(METRICS)} metrics, {RESULTS} results and"
    )
    print(f"{LABELS} labels a query; {THREADS} threads; medians of {options.runs} runs\n")
    print("| case | CPU s | / evaluation | peak MB |\n|---|---:|---:|---:|")
    first = 0.0
    for case in CASES:
        runs = [measured(case, files) for _ in range(options.runs)]
        cpu, peak = median(run[0] for run in runs), max(run[1] for run in runs)
        first = first or cpu
        print(f"| {case} | {cpu:.1f} | {cpu / first:.2f} | {peak:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
