"""Every engine that can be started here: sqlmetrics beside the query by hand, in one run.

    python -m benchmarks.engines                        # all that are here, 1 M rows
    python -m benchmarks.engines postgres chdb --rows 10_000_000

The files of `data` become tables of each engine. Then each way to the six means runs some times
in a process of its own: the query of `by_hand`, sqlmetrics, sqlmetrics with its input checks, and
on Spark its RankingMetrics (three of the six, no grades). The loading is not counted. CPU seconds
and memory are those of the process and of the server that it asks; no time is told unless all
means are equal.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import by_hand, data
from benchmarks.agreement import TOLERANCE
from benchmarks.contenders import METRICS
from benchmarks.process import ratio
from benchmarks.process_tree import parent_of, spending

TESTS = Path(__file__).resolve().parent.parent / "tests"
ENGINES = ("duckdb", "sqlite", "postgres", "mariadb", "chdb", "spark", "datafusion")
BY_HAND, OURS = "by hand", "sqlmetrics"
WAYS = (BY_HAND, OURS, "sqlmetrics, checked", "RankingMetrics")
HEAD = "| engine | way | CPU s | / by hand | s | / by hand | peak MB | / by hand |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a row an engine and way."""
    options = _parser().parse_args(arguments)
    files = data.files_of(options.rows)
    print(HEAD, "|---|---|" + "---:|" * 6, sep="\n", flush=True)
    wanted: dict[str, float] = {}
    for engine in options.engines:
        base: dict[str, float] = {}
        for way in (name for name in WAYS if name != WAYS[-1] or engine == "spark"):
            answer = measured(engine, way, files, options.runs)
            if answer is None:
                break
            wanted = wanted or answer["means"]
            agree(wanted, answer["means"], f"{engine}, {way}")
            took = {name: median(answer[name]) for name in ("cpu", "wall", "peak")}
            base = base or took
            print(line(answer["version"], way, took, base), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("engines", nargs="*", default=ENGINES, help=f"some of {', '.join(ENGINES)}")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rankings rows")
    parser.add_argument(
        "--runs", type=int, default=3, help="runs in each process; the median counts"
    )
    return parser


def line(engine: str, way: str, took: Mapping[str, float], base: Mapping[str, float]) -> str:
    """A row of the table."""
    form = {"cpu": ".2f", "wall": ".2f", "peak": ",.0f"}
    cells = [f"{took[name]:{form[name]}} | {ratio(took[name], base[name])}" for name in form]
    return f"| {engine} | {way} | {' | '.join(cells)} |"


def agree(wanted: Mapping[str, float], means: Mapping[str, float], who: str) -> None:
    """End everything if two ways have other means."""
    wrong = [
        f"{name}: {wanted[name]!r}, {who} has {mean!r}"
        for name, mean in means.items()
        if not abs(wanted[name] - mean) <= TOLERANCE
    ]
    if wrong:
        raise SystemExit("\n".join(["the numbers differ; no time is told", *wrong]))


def measured(engine: str, way: str, files: data.Files, runs: int) -> dict[str, Any] | None:
    """What a process tells of its runs; None where the engine is not here, which is said.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    code = "import sys; from benchmarks.engines import run; run(*sys.argv[1:])"
    command = [sys.executable, "-c", code, engine, way, str(files.rankings), str(files.labels)]
    completed = subprocess.run([*command, str(runs)], stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(completed.stdout.splitlines()[-1])
    if "missing" in answer:
        print(f"{engine} is left out: {answer['missing']}", file=sys.stderr)
        return None
    return dict(answer)


def run(name: str, way: str, rankings: str, labels: str, runs: str) -> None:
    """Inside the process: load the tables, run some times, print what it took."""
    import pyarrow.parquet as pq

    with opened(name) as engine:
        for table, file in (("rankings", rankings), ("labels", labels)):
            engine.load(table, pq.read_table(file))
            if name in ANALYZED:
                _raw(engine, f"{ANALYZED[name]} {table}")
        act, servers = _acts(way), servers_of(name, engine)
        answer: dict[str, Any] = {"version": f"{engine.name} {engine.version}"}
        answer |= {"cpu": [], "wall": [], "peak": []}
        for _ in range(int(runs)):
            began = time.perf_counter()
            with spending(servers) as spent:
                answer["means"] = act(engine)
            answer["wall"].append(time.perf_counter() - began)
            answer["cpu"].append(spent.cpu)
            answer["peak"].append(spent.peak)
    print(json.dumps(answer))


ANALYZED = {"postgres": "analyze", "mariadb": "analyze table"}
"""Engines that count what a new table holds when they are told to."""


@contextmanager
def opened(name: str) -> Iterator[Any]:
    """An engine as the tests start it; Spark as for large data."""
    sys.path.insert(0, str(TESTS))
    from engines.starting import Servers

    from sqlmetrics.engines.database import connect

    if name == "spark":
        from benchmarks import growth

        with growth.ENGINES["spark"]() as session, connect(session.connection) as engine:
            yield engine
        return
    with Servers() as servers:
        try:
            connection = servers.open(name)
        except BaseException as missing:  # pytest's own skip is no Exception
            print(json.dumps({"missing": str(missing)}))
            sys.stdout.flush()
            os._exit(0)
        with connect(connection) as engine:
            yield engine


def servers_of(name: str, engine: Any) -> list[int]:
    """The processes that work for this one, and are not its children."""
    if name != "postgres":
        return []
    return [parent_of(_raw(engine, "select pg_backend_pid()")[0][0])]


def _raw(engine: Any, sql: str) -> list[tuple[Any, ...]]:
    """The rows of the dialect's own text, by the session of the engine."""
    session = getattr(engine, "driver", engine)
    if not sql.lstrip().startswith(("select", "with")):
        session.execute(sql)
        return []
    return session.rows(sql)  # type: ignore[no-any-return]


def means_by_hand(engine: Any, *tables: str) -> dict[str, float]:
    """The six means by the query by hand, over tables or queries in brackets."""
    row = _raw(engine, by_hand.sql(engine.translation.dialect.name, *tables))[0]
    return dict(zip(METRICS, map(float, row), strict=True))


def our_means(
    engine: Any,
    rankings: str = "rankings",
    labels: str = "labels",
    *,
    check: bool = False,
    memory: str = "",
) -> dict[str, float]:
    """The six means by sqlmetrics."""
    import sqlmetrics as sm

    options: dict[str, Any] = {"gain": "linear", "check": check, "per_query": False}
    options |= {"memory": memory or None}
    result = sm.evaluate(rankings, labels, METRICS, connection=engine, **options)
    return {name: result[name] for name in METRICS}


def _ranking_metrics(_: Any) -> dict[str, float]:
    from pyspark.sql import SparkSession

    from benchmarks.contenders.spark_mllib import ranking_metrics

    return ranking_metrics(SparkSession.active(), "rankings", "labels")


def _acts(way: str) -> Callable[[Any], dict[str, float]]:
    acts = (means_by_hand, our_means, partial(our_means, check=True), _ranking_metrics)
    return dict(zip(WAYS, acts, strict=True))[way]


if __name__ == "__main__":
    main()
