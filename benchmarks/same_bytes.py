"""Whether ten runs over the same rows write the same files, byte for byte.

    python -m benchmarks.same_bytes duckdb --rows 1e7
    python -m benchmarks.same_bytes sqlite postgres chdb datafusion --rows 4e5

Two systems on four days, lists of 1 to 199 items, a country and a weight; and a simulated click log
of a 40th as many requests. Ten runs: 1, 2, 4 and 8 threads over the rows sorted by query, the same
over shuffled ones, and two with less memory, which DuckDB and ClickHouse take in buckets, the first
by the window. Each writes an evaluation, its values of queries, a click log, a comparison by
bootstrap, the tables of a job as `--publish` writes them, and the page of a report. What is left
out is what a run is called and when it was (`run_id` and times in the tables of a job), and on the
page the SQL that ran, which depends on the plan.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import clicks
from benchmarks.data import FOLDER
from sqlmetrics.errors import EngineError, SpecError

TESTS = Path(__file__).resolve().parent.parent / "tests"
ENGINES = ("duckdb", "sqlite", "postgres", "chdb", "datafusion")
METRICS = ["ndcg@10", "mrr", "ap", "rbp", "err@10", "recall@5", "f1@3", "dcg@20"]
MEAN_LENGTH, SYSTEMS = 100, 2

RANKINGS = f"""
select
    date '2026-11-01' + cast(query % 4 as integer) as ds,
    'query-' || lpad(cast(query as varchar), 8, '0') as query_id,
    'item-' || query % 5 || '-' || item as item_id,
    if(system = 0, 'old', 'new') as system,
    hash(query, item, system) % 1048576 / 1048573 as score,
    'C' || query % 7 as country,
    1 / (1 + query % 13) as weight
from range({{queries}}) as queries(query), range(2 * {MEAN_LENGTH} - 1) as items(item),
    range({SYSTEMS}) as systems(system)
where item <= query * 7919 % (2 * {MEAN_LENGTH} - 1)
"""
LABELS = f"""
select distinct
    'query-' || lpad(cast(query as varchar), 8, '0') as query_id,
    'item-' || query % 5 || '-' || item as item_id,
    cast(hash(query, item) % 4 as integer) as grade
from range({{queries}}) as queries(query), range(2 * {MEAN_LENGTH} - 1) as items(item)
where item <= query * 7919 % (2 * {MEAN_LENGTH} - 1) and hash(item, query) % 5 = 0
"""
ORDERS = {"sorted": "{keys}", "shuffled": "hash({keys}, 7)"}
KEYS = {
    "rankings": "query_id, item_id, system",
    "labels": "query_id, item_id",
    "impressions": "request_id, position",
    "events": "request_id, item_id, happened_at, action",
    "requests": "request_id",
}

THREADS: Mapping[str, Sequence[str]] = {
    "duckdb": ["set threads = {threads}"],
    "chdb": ["set max_threads = {threads}"],
    "datafusion": ["set datafusion.execution.target_partitions = {threads}"],
    "postgres": [
        "set max_parallel_workers_per_gather = {workers}",
        "set min_parallel_table_scan_size = 0",
        "set parallel_setup_cost = 0",
        "set parallel_tuple_cost = 0",
    ],
}
"""Engine -> what its session is told; SQLite has one thread."""

OF_RUN = re.compile(r"run_id|computed_at|first_seen")
"""Columns of a job's tables that say which run it was, and when."""

_SQL = re.compile(r'<pre tabindex="0"><code>.*?</code></pre>', re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass(frozen=True)
class Run:
    """One of the ten.

    Attributes:
        order: Of the rows.
        threads: How many the engine may take.
        arguments: What `evaluate` is told besides.
    """

    order: str
    threads: int
    arguments: Mapping[str, Any]


def runs(engine: str, rows: int) -> list[Run]:
    """The ten runs, those over the same file one after the other."""
    memory = {"memory": f"{max(rows // 10**4, 300)}MB"} if engine in ("duckdb", "chdb") else {}
    less = {"sorted": memory | {"plan": "window"}, "shuffled": memory}
    return [
        Run(order, threads, arguments)
        for order in ORDERS
        for threads, arguments in [*((threads, {}) for threads in (1, 2, 4, 8)), (4, less[order])]
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a row an engine and file."""
    choices = _parser().parse_args(arguments)
    for order in ORDERS:
        files_of(choices.rows, order)
    print("| engine | file | bytes | ten runs |", "|---|---|---:|---|", sep="\n", flush=True)
    for engine in choices.engines:
        with redirect_stderr(io.StringIO()):  # notes, the same in each run
            files_of_runs = list(written_by(engine, choices.rows, choices.only))
        for name in dict.fromkeys(name for files in files_of_runs for name in files):
            versions = [files[name] for files in files_of_runs if name in files]
            outcome = differences(versions)
            if name in WRITERS:
                outcome = f"{len(versions)} refused or failed: {versions[0].decode()}"
            print(f"| {engine} | {name} | {len(versions[0]):,} | {outcome} |", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_bytes", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("engines", nargs="*", default=ENGINES, help=f"some of {', '.join(ENGINES)}")
    parser.add_argument("--rows", type=_rows, default=10**6, help="rankings rows, like 4e5")
    parser.add_argument("--only", choices=WRITERS, nargs="+", default=WRITERS)
    return parser


def _rows(text: str) -> int:
    return int(float(text))


def differences(contents: Sequence[bytes]) -> str:
    """Whether files are equal; else how many are not, and how much of them."""
    different = [content for content in contents if content != contents[0]]
    if not different:
        return f"all {len(contents)} equal"
    lines, farthest = 0, 0.0
    expected = _lines(contents[0])
    for other in different:
        actual = _lines(other)
        if len(actual) != len(expected):
            return f"{len(different)} differ, in their lines: {len(actual):,} for {len(expected):,}"
        pairs = [pair for pair in zip(expected, actual, strict=True) if pair[0] != pair[1]]
        lines = max(lines, len(pairs))
        farthest = max([farthest, *(_distance(*pair) for pair in pairs)])
    return (
        f"{len(different)} differ, in up to {lines:,} of {len(expected):,} lines, "
        f"relatively by {farthest:.0e}"
    )


def _lines(content: bytes) -> list[str]:
    """The lines of a file; of a Parquet file those of its rows as CSV."""
    if content.startswith(b"PAR1"):
        import pyarrow.parquet as pq

        from sqlmetrics.tables.tabular import csv_text

        return csv_text(pq.read_table(io.BytesIO(content))).splitlines()
    return content.decode().splitlines()


def _distance(expected: str, actual: str) -> float:
    """The largest relative difference of the numbers in two lines; infinite for other texts."""
    if _NUMBER.sub("", expected) != _NUMBER.sub("", actual):
        return float("inf")
    pairs = zip(_NUMBER.findall(expected), _NUMBER.findall(actual), strict=True)
    numbers = [(float(number), float(other)) for number, other in pairs]
    return max(abs(number - other) / max(abs(number), 1e-300) for number, other in numbers)


def written_by(name: str, rows: int, writers: Sequence[str]) -> Iterator[dict[str, bytes]]:
    """The files of each of the ten runs, by what they are called."""
    for order in ORDERS:
        folder = files_of(rows, order)
        with opened(name, folder) as engine:
            for run in (run for run in runs(name, rows) if run.order == order):
                for statement in THREADS.get(name, ()):
                    workers = run.threads - 1
                    engine.driver.execute(statement.format(threads=run.threads, workers=workers))
                files: dict[str, bytes] = {}
                for writer in writers:
                    try:
                        files |= WRITERS[writer](engine, **run.arguments)
                    except (EngineError, SpecError) as error:  # DataFusion keeps no tables
                        files[writer] = str(error).encode()
                yield files


@contextmanager
def opened(name: str, folder: Path) -> Iterator[Any]:
    """An engine with the tables of a folder."""
    import duckdb
    import pyarrow.parquet as pq

    from sqlmetrics.engines.database import Database, connect

    if name == "duckdb":
        with duckdb.connect() as connection, connect(connection) as engine:
            for table in KEYS:
                connection.execute(f"create view {table} as from '{folder}/{table}.parquet'")
            yield engine
        return
    sys.path.insert(0, str(TESTS))
    from engines.starting import Servers

    with Servers() as servers, Database(servers.open(name)) as engine:
        for table in KEYS:
            engine.load(table, pq.read_table(folder / f"{table}.parquet"))
        yield engine


def files_of(rows: int, order: str) -> Path:
    """The folder of all tables in an order, written unless it is there."""
    import duckdb

    folder = FOLDER / f"same_bytes_{rows}" / order
    if folder.exists():
        return folder
    staging = folder.with_name(f"{order}.part")
    staging.mkdir(parents=True, exist_ok=True)
    queries = max(rows // MEAN_LENGTH // SYSTEMS, 4)
    log = clicks.simulated_log(max(rows // 40, 100))
    sources = {name: f"from '{log}/{name}.parquet'" for name in clicks.COLUMNS}
    sources |= {
        "rankings": RANKINGS.format(queries=queries),
        "labels": LABELS.format(queries=queries),
    }
    for name, select in sources.items():
        by = ORDERS[order].format(keys=KEYS[name])
        duckdb.execute(
            f"copy (from ({select}) order by {by}) to '{staging}/{name}.parquet' (format parquet)"
        )
    staging.rename(folder)
    return folder


def contents(writers: Mapping[str, Callable[[str], None]]) -> dict[str, bytes]:
    """What each writer writes into a file."""
    files = {}
    with TemporaryDirectory() as folder:
        for number, (name, write) in enumerate(writers.items()):
            file = Path(folder) / f"{number}"
            write(str(file))
            files[name] = file.read_bytes()
    return files


def evaluation(engine: Any, **arguments: Any) -> dict[str, bytes]:
    """The means in each format, and the values of queries."""
    import sqlmetrics as sm
    from sqlmetrics.cli.output import emit_result

    result = sm.evaluate(
        "rankings",
        "labels",
        METRICS,
        system="system",
        date="ds",
        by=["country"],
        weight="weight",
        confidence=0.95,
        connection=engine,
        **arguments,
    )
    means = {
        f"evaluation, {form}": partial(emit_result, result, False, form)
        for form in ("csv", "parquet", "json", "markdown")
    }
    return contents(means | {"values of queries, csv": partial(emit_result, result, True, "csv")})


def click_log(engine: Any, **_: Any) -> dict[str, bytes]:
    """What a click log says, as JSON and as CSV."""
    import sqlmetrics as sm
    from sqlmetrics.cli.output import emit_clicks

    log = {
        **clicks.log_of("", "relation", lambda path: Path(path).stem),
        "propensity": {"method": "harvest"},
    }
    metrics = ["ndcg@10", "mrr", "ctr@5", "first_click_rank", "time_to_first_click"]
    spec = sm.Spec(name="clicks", clicks=log, metrics=metrics)
    result = sm.evaluate_clicks(spec, engine, confidence=0.95)
    return contents(
        {f"click log, {form}": partial(emit_clicks, result, form) for form in ("json", "csv")}
    )


def comparison(engine: Any, **_: Any) -> dict[str, bytes]:
    """A comparison by bootstrap, with what moved."""
    import sqlmetrics as sm

    result = sm.compare(
        "rankings",
        "labels",
        METRICS,
        system="system",
        date="ds",
        by=["country"],
        baseline="old",
        test="bootstrap",
        replicates=200,
        contributions=True,
        movers=10,
        connection=engine,
    )
    return {
        "comparison, json": result.to_json().encode(),
        "comparison, markdown": result.markdown().encode(),
    }


def job(engine: Any, **_: Any) -> dict[str, bytes]:
    """The tables of a job, as they are published."""
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    import sqlmetrics as sm
    from sqlmetrics.jobs.publish import publish

    spec = sm.Spec(
        name="nights",
        rankings={"relation": "rankings", "columns": {"date": "ds", "system": "system"}},
        labels={"relation": "labels"},
        by=["country"],
        metrics=METRICS,
        output={"relation": "facts", "per_query": "facts_per_query"},
    )
    sm.run(spec, engine, full_refresh=True)
    files = {}
    with TemporaryDirectory() as folder:
        publish(spec, engine, f"{folder}/tables")
        for file in sorted(Path(folder, "tables").glob("*.parquet")):
            if file.stem == "facts_runs":  # the log of the runs themselves
                continue
            table = pq.read_table(file)
            kept = [name for name in table.column_names if not OF_RUN.fullmatch(name)]
            text = io.BytesIO()
            pacsv.write_csv(table.select(kept), text)
            files[f"job, {file.stem}"] = text.getvalue()
    return files


def report(engine: Any, **_: Any) -> dict[str, bytes]:
    """The page of a report."""
    import sqlmetrics as sm

    page = sm.report(
        "rankings",
        "labels",
        METRICS,
        system="system",
        date="ds",
        by=["country"],
        baseline="old",
        connection=engine,
    )
    with TemporaryDirectory() as folder:
        text = page.save(Path(folder) / "page.html").read_text(encoding="utf-8")
    return {"report, html": _SQL.sub("", text).encode()}


WRITERS = {
    "evaluation": evaluation,
    "clicks": click_log,
    "comparison": comparison,
    "job": job,
    "report": report,
}


if __name__ == "__main__":
    main()
