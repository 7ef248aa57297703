"""How an engine grows with the rows: `python -m benchmarks.growth --engine spark --rows 1e6 1e7`.

Every run is a process of its own, from opening the engine to the summary, with the input
checks. Seconds and CPU seconds are those of `evaluate` alone, the first of its process.
`--skewed` merges every hundredth query into one: 1% of all rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import data
from benchmarks.process import PEAK_UNIT

METRICS = ["ndcg@10", "recall@100", "mrr"]
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "16",
}

# items get the name of the query that they came from: no item is twice in the merged one
SKEWED = """
copy (
    select
        case when is_merged then 'query-00000000' else query_id end as query_id,
        case when is_merged then item_id || '-' || query_id else item_id end as item_id,
        {value}
    from (select *, cast(query_id[7:] as bigint) % 100 = 0 as is_merged from '{source}')
) to '{target}' (format parquet)
"""


@dataclass(frozen=True)
class Opened:
    """An engine in a process.

    Attributes:
        connection: What `evaluate` takes.
        source: The text of a query that reads a Parquet file.
        cpu: Seconds of CPU time until now.
        peak: The most memory until now, in MB.
    """

    connection: Any
    source: str
    cpu: Callable[[], float]
    peak: Callable[[], float]


def main() -> None:
    """Measure every size and print a Markdown table."""
    given = _parser().parse_args()
    print("| rows | queries | seconds | CPU seconds | peak MB |\n|---:|---:|---:|---:|---:|")
    for rows in given.rows:
        files = _skewed(rows) if given.skewed else data.made(rows)
        runs = [measured(given.engine, files, given.memory) for _ in range(given.runs)]
        seconds, cpu, peak = (median(run[name] for run in runs) for name in ("wall", "cpu", "peak"))
        print(
            f"| {rows:,} | {runs[0]['queries']:,} | {seconds:.0f} | {cpu:.0f} | {peak:,.0f} |",
            flush=True,
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--engine", choices=sorted(ENGINES), default="spark")
    parser.add_argument("--rows", type=_rows, nargs="+", default=[10**6], help="like 1e6 1e7")
    parser.add_argument("--runs", type=int, default=1, help="runs of each size")
    parser.add_argument("--memory", default="", help="what the engine may take, like 2GB")
    parser.add_argument("--skewed", action="store_true", help="one query has 1%% of the rows")
    return parser


def _rows(text: str) -> int:
    return int(float(text))


def _skewed(rows: int) -> data.Files:
    """The files with one heavy query, written unless they are there."""
    plain = data.made(rows)
    folder = data.FOLDER
    files = data.Files(folder / f"skewed_{rows}.parquet", folder / f"skewed_labels_{rows}.parquet")
    for source, target, value in (
        (plain.rankings, files.rankings, "score"),
        (plain.labels, files.labels, "grade"),
    ):
        if not target.exists():
            import duckdb

            text = SKEWED.format(source=source, target=target, value=value)
            duckdb.connect().execute(text)
    return files


def measured(engine: str, files: data.Files, memory: str = "") -> dict[str, float]:
    """One run in a process of its own: seconds, CPU seconds, peak MB."""
    asked = (engine, str(files.rankings), str(files.labels), memory)
    return told("benchmarks.growth", "run", *asked)


def told(module: str, act: str, *arguments: str) -> dict[str, float]:
    """What a function of a module prints at its end, in a process of its own.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    code = f"import sys; from {module} import {act}; {act}(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run(engine: str, rankings: str, labels: str, memory: str = "") -> None:
    """Inside the process: evaluate once and print what it took."""
    import sqlmetrics as sm

    with ENGINES[engine]() as opened:
        sources = [opened.source.format(path) for path in (rankings, labels)]
        with spent(opened) as took:
            result = sm.evaluate(
                *sources,
                METRICS,
                connection=opened.connection,
                per_query=False,
                memory=memory or None,
            )
        queries = result.summary()["n_queries"][0].as_py()
    print(json.dumps(took | {"queries": queries}))


@contextmanager
def spent(opened: Opened) -> Iterator[dict[str, float]]:
    """What the block takes of an engine; known when it ends."""
    took: dict[str, float] = {}
    began, cpu = time.perf_counter(), opened.cpu()
    yield took
    took |= {"wall": time.perf_counter() - began, "cpu": opened.cpu() - cpu, "peak": opened.peak()}


@contextmanager
def _spark() -> Iterator[Opened]:
    """`local[2]`: driver and executors are threads of one Java process, which is measured."""
    from pyspark.sql import SparkSession

    with TemporaryDirectory() as tables:
        builder = SparkSession.builder.master("local[2]")
        for name, value in {**SETTINGS, "spark.sql.warehouse.dir": tables}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        java = Path("/proc") / str(session._jvm.java.lang.ProcessHandle.current().pid())
        yield Opened(
            session,
            "select * from parquet.`{}`",
            lambda: (
                sum(map(int, (java / "stat").read_text().rpartition(")")[2].split()[11:13])) / 100
            ),
            lambda: int((java / "status").read_text().partition("VmHWM:")[2].split()[0]) / 1024,
        )
        session.stop()


@contextmanager
def _chdb() -> Iterator[Opened]:
    """ClickHouse inside this process, over Parquet files."""
    from chdb.session import Session

    session = Session()
    yield Opened(
        session,
        "select * from file('{}', Parquet)",
        time.process_time,
        lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_UNIT / 1e6,
    )


ENGINES = {"spark": _spark, "chdb": _chdb}


if __name__ == "__main__":
    main()
