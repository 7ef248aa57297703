"""How an engine grows with the rows: `python -m benchmarks.growth --engine spark --rows 1e6 1e7`.

Every run is a process of its own: six metrics, with the input checks. Seconds, CPU seconds and
memory are those of the first evaluation there, of the process and of all servers that it starts,
whose start is not counted. `--by-hand` puts the query of `by_hand` beside it, and sqlmetrics
without checks; no time is told unless their means agree. `--skewed 5` makes one query of 5% of all
rows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import data, engines
from benchmarks.process import ratio
from benchmarks.process_tree import spending

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.liveUpdate.period": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "16",
}
CLUSTER = SETTINGS | {
    "spark.driver.memory": "1g",
    "spark.executor.cores": "1",
    "spark.executor.memory": "2g",
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
}
"""What a driver of two workers is told."""

# Items get the name of the query that they came from, so that no item is twice in the merged one;
# scores something smaller than the difference of any two, so that none of its scores are equal.
SKEWED = """
copy (
    select
        case when is_merged then 'query-00000000' else query_id end as query_id,
        case when is_merged then item_id || '-' || query_id else item_id end as item_id,
        {value}
    from (
        select *, cast(query_id[7:] as bigint) as number, number % {each} = 0 as is_merged
        from '{source}'
    )
) to '{target}' (format parquet)
"""


@dataclass(frozen=True)
class Opened:
    """An engine in this process and its children.

    Attributes:
        connection: What `evaluate` takes.
        source: What `evaluate` takes for the path of a Parquet file.
        shuffled: Bytes that its stages sent each other until now.
    """

    connection: Any
    source: Callable[[str], str]
    shuffled: Callable[[], float] = float


def main() -> None:
    """Measure every size and print a Markdown table."""
    options = _parser().parse_args()
    names = ("cpu", "wall", "peak", "shuffled")
    print(
        "| rows | way | CPU s | / by hand | s | peak MB | MB shuffled |",
        "|---:|---|" + "---:|" * 5,
        sep="\n",
    )
    for rows in options.rows:
        files = _skewed(rows, options.skewed) if options.skewed else data.files_of(rows)
        by_hand: dict[str, Any] = {}
        for way in engines.WAYS[:3] if options.by_hand else engines.WAYS[2:3]:
            runs = [
                measured(options.engine, files, options.memory, way) for _ in range(options.runs)
            ]
            by_hand = by_hand or runs[0]
            engines.agree(by_hand["means"], runs[0]["means"], way)
            cpu, wall, peak, shuffled = (median(run[name] for run in runs) for name in names)
            times = ratio(cpu, by_hand["cpu"]) if options.by_hand else "-"
            print(
                f"| {rows:,} | {way} | {cpu:.1f} | {times} | {wall:.0f} | {peak:,.0f} "
                f"| {shuffled:,.1f} |",
                flush=True,
            )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--engine", choices=sorted(ENGINES), default="spark")
    parser.add_argument("--rows", type=_rows, nargs="+", default=[10**6], help="like 1e6 1e7")
    parser.add_argument("--runs", type=int, default=1, help="runs of each size")
    parser.add_argument("--memory", default="", help="what DuckDB or ClickHouse may take, like 2GB")
    parser.add_argument("--by-hand", action="store_true", help="the query by hand beside it")
    parser.add_argument("--skewed", type=int, default=0, help="percent of the rows in one query")
    return parser


def _rows(text: str) -> int:
    return int(float(text))


def _skewed(rows: int, percent: int) -> data.Files:
    """The files with one heavy query, written unless they are there."""
    plain = data.files_of(rows)
    name = f"skewed_{percent}_{{}}_{rows}.parquet"
    files = data.Files(*(data.FOLDER / name.format(table) for table in ("rankings", "labels")))
    for source, target, value in (
        (plain.rankings, files.rankings, "score + number / 2199023255552 as score"),
        (plain.labels, files.labels, "grade"),
    ):
        if not target.exists():
            import duckdb

            copy = SKEWED.format(source=source, target=target, value=value, each=100 // percent)
            duckdb.connect().execute(copy)
    return files


def measured(
    engine: str, files: data.Files, memory: str = "", way: str = engines.WAYS[2]
) -> dict[str, Any]:
    """One run in a process of its own: means, seconds, CPU seconds, MB at the peak and shuffled."""
    arguments = (engine, way, str(files.rankings), str(files.labels), memory)
    return printed_by("benchmarks.growth", "run", *arguments)


def printed_by(module: str, act: str, *arguments: str) -> dict[str, Any]:
    """What a function of a module prints at its end, in a process of its own.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    code = f"import sys; from {module} import {act}; {act}(*sys.argv[1:])"
    command = [sys.executable, "-c", code, *arguments]
    completed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(completed.stdout.splitlines()[-1]))


def run(engine: str, way: str, rankings: str, labels: str, memory: str = "") -> None:
    """Inside the process: evaluate once and print what it took."""
    from sqlmetrics.engines.database import connect

    with ENGINES[engine]() as opened, connect(opened.connection) as database:
        sources = [opened.source(path) for path in (rankings, labels)]
        if way == engines.BY_HAND:
            evaluate = partial(engines.means_by_hand, database, *map(_bracketed, sources))
            if memory and engine == "duckdb":
                database.driver.execute(f"set memory_limit = '{memory}'")
        else:
            check = way == engines.WAYS[2]
            evaluate = partial(engines.our_means, database, *sources, check=check, memory=memory)
        with spent(opened) as took:
            means = evaluate()
    print(json.dumps(took | {"means": means}))


def _bracketed(source: str) -> str:
    """What a query by hand may have behind `from`."""
    return f"({source})" if source.startswith("select ") else f"'{source}'"


@contextmanager
def spent(opened: Opened) -> Iterator[dict[str, Any]]:
    """What the block takes of an engine; known when it ends."""
    took: dict[str, Any] = {}
    began, sent = time.perf_counter(), opened.shuffled()
    with spending() as usage:
        yield took
    took |= {"wall": time.perf_counter() - began, "cpu": usage.cpu, "peak": usage.peak}
    took["shuffled"] = (opened.shuffled() - sent) / 1e6


@contextmanager
def _spark(master: str = "local[2]", settings: Mapping[str, str] = SETTINGS) -> Iterator[Opened]:
    """`local[2]`: driver and executors are threads of one Java process."""
    from pyspark.sql import SparkSession

    with TemporaryDirectory() as tables:
        builder = SparkSession.builder.master(master)
        for name, value in {**settings, "spark.sql.warehouse.dir": tables}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        context = session.sparkContext._jsc.sc()
        yield Opened(session, "select * from parquet.`{}`".format, partial(_written, context))
        session.stop()


def _written(context: Any) -> float:
    """Bytes that all executors of a Spark wrote for the next stage."""
    context.listenerBus().waitUntilEmpty()
    executors = context.statusStore().executorList(False)
    numbers = range(executors.size())
    return float(sum(executors.apply(number).totalShuffleWrite() for number in numbers))


@contextmanager
def _spark_cluster() -> Iterator[Opened]:
    """A standalone cluster: a master, and two workers of one core and 2 GB each."""
    sys.path.insert(0, str(engines.TESTS))
    from engines.spark_cluster import cluster

    with (
        TemporaryDirectory() as folder,
        cluster(Path(folder), memory="2g") as standalone,
        _spark(standalone.url, CLUSTER) as opened,
    ):
        yield opened


@contextmanager
def _trino() -> Iterator[Opened]:
    """A coordinator that works too, and a worker, of 2.5 GB each; the files are Iceberg tables."""
    sys.path.insert(0, str(engines.TESTS))
    from engines.trino_server import LARGE, cluster

    with cluster(size=LARGE) as servers:
        servers.work()
        sent = "select coalesce(sum(output_bytes), 0) from system.runtime.tasks"
        yield Opened(servers.url, partial(_added, servers), lambda: servers.rows(sent)[0][0])


def _added(servers: Any, path: str) -> str:
    """A query of an Iceberg table of a Parquet file, whose values are not written again."""
    import pyarrow.parquet as pq

    table = Path(path).stem
    folder = servers.folder / "data" / table
    folder.mkdir()
    shutil.copy(path, folder)
    types = {"string": "varchar", "double": "double", "int32": "integer"}
    columns = ", ".join(f"{field.name} {types[str(field.type)]}" for field in pq.read_schema(path))
    servers.rows(f"create table iceberg.shop.{table} ({columns})")
    add = f"execute add_files(location => 'local:///{table}', format => 'PARQUET')"
    servers.rows(f"alter table iceberg.shop.{table} {add}")
    return f"select * from iceberg.shop.{table}"


@contextmanager
def _chdb() -> Iterator[Opened]:
    """ClickHouse inside this process, over Parquet files."""
    from chdb.session import Session

    yield Opened(Session(), "select * from file('{}', Parquet)".format)


@contextmanager
def _duckdb() -> Iterator[Opened]:
    """DuckDB inside this process, over Parquet files."""
    yield Opened("duckdb://", str)


ENGINES = {
    "duckdb": _duckdb,
    "chdb": _chdb,
    "spark": _spark,
    "spark_cluster": _spark_cluster,
    "trino": _trino,
}


if __name__ == "__main__":
    main()
