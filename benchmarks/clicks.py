"""What a click log costs: a simulated one, cleaned and evaluated, beside the bare join of it.

Every run is a process of its own, in turn, from the files to the numbers: all cleaning, two
metrics of lists and four online. The bare join is DuckDB's: impressions LEFT JOIN clicked items,
one GROUP BY. `python -m benchmarks.clicks --requests 1_000_000` (10 results each) simulates the
log once; `--stages` tells the CPU seconds of each statement of one run.

`--engine spark` is about another database: the same log beside its evaluation of as many ranked
rows (`growth`), each the first of its process, with the input checks; the start is not counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import data, growth
from benchmarks.contenders import THREADS
from benchmarks.data import FOLDER
from benchmarks.process import medians, used
from benchmarks.statements import cost_lines as cost_of
from benchmarks.statements import watched

RESULTS = 10
"""Of a simulated request."""

METRICS = ["ndcg@10", "mrr", "ctr@5", "abandonment", "first_click_rank", "time_to_first_click"]

COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "impressions": {
        "query": "query",
        "system": "system",
        "user": "user_id",
        "time": "shown_at",
        "segments": ["country"],
    },
    "events": {"dwell": "dwell", "user": "user_id", "time": "happened_at"},
    "requests": {
        "query": "query",
        "system": "system",
        "user": "user_id",
        "time": "requested_at",
        "results": "n_results",
        "segments": ["country"],
    },
}

CLEANING = {
    "test": "is_test = 1",
    "max_events_per_user_hour": 200,
    "attribution_window": "30m",
    "min_dwell": 5,
}

BARE = """
select
    impressions.system,
    count(*) as n_shown,
    count(clicked.item_id) as n_clicked
from '{folder}/impressions.parquet' as impressions
left join (
    select distinct request_id, item_id
    from '{folder}/events.parquet'
    where action = 'click'
) as clicked
    on clicked.request_id = impressions.request_id
        and clicked.item_id = impressions.item_id
group by impressions.system
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the contenders in turn, compare what they counted, print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clicks", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000, help="searches of 10 results")
    parser.add_argument("--runs", type=int, default=3, help="runs of each contender")
    parser.add_argument("--memory", default="", help="DuckDB's memory_limit, like 7GB")
    parser.add_argument("--engine", choices=("chdb", "spark"), help="another database")
    parser.add_argument("--stages", action="store_true", help="tell each statement of one run")
    options = parser.parse_args(arguments)
    folder = simulated_log(options.requests)
    if options.engine:
        beside_rankings(options.engine, folder, options.requests, options.runs)
        return
    if options.stages:
        measured("stages", folder, options.memory)
        return
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in ("bare join", "sqlmetrics")}
    for _ in range(options.runs):
        for name, usages in runs.items():
            usages.append(measured(name, folder, options.memory))
    if len({run["impressions"] for usages in runs.values() for run in usages}) > 1:
        raise SystemExit("the contenders count other impressions: no time is told")
    print(medians(runs))


def beside_rankings(engine: str, folder: Path, requests: int, runs: int) -> None:
    """Measure a log on another database, beside as many rows of rankings there."""
    files = data.files_of(requests * RESULTS)
    took: dict[str, list[dict[str, float]]] = {"rankings": [], "click log": []}
    for _ in range(runs):
        took["rankings"].append(growth.measured(engine, files))
        took["click log"].append(
            growth.printed_by("benchmarks.clicks", "run_on", engine, str(folder))
        )
    print(medians(took))


def simulated_log(requests: int) -> Path:
    """The folder of a simulated log, written unless it is there."""
    folder = FOLDER / f"clicks_{requests}"
    if not (folder / "requests.parquet").exists():
        command = [sys.executable, "-m", "sqlmetrics", "simulate", str(folder), "--overwrite"]
        subprocess.run([*command, "--requests", str(requests), "--quiet"], check=True)
    return folder


def measured(name: str, folder: Path, memory: str = "") -> dict[str, float]:
    """One run in a process of its own: CPU and wall seconds, peak MB, impressions counted.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    with TemporaryDirectory() as folder_name:
        answer = Path(folder_name) / "answer.json"
        command = [sys.executable, "-m", "benchmarks.clicks", "run", name]
        command += [str(folder), memory, str(answer)]
        usage = used(command)
        counted = json.loads(answer.read_text())
    took = {"cpu": usage.cpu, "wall": usage.wall, "peak": usage.peak / 1e6}
    return took | {"impressions": counted}


def run(name: str, folder: str, memory: str, answer: str) -> None:
    """Inside the process: count, and write down how many impressions there were."""
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS})
    if memory:
        connection.execute(f"set memory_limit = '{memory}'")
    if name == "bare join":
        rows = connection.execute(BARE.format(folder=folder)).fetchall()
        counted = sum(impressions for _, impressions, _ in rows)
    else:
        counted = evaluated(folder, connection, by_stage=name == "stages")
    Path(answer).write_text(json.dumps(counted))


def run_on(engine: str, folder: str) -> None:
    """Inside the process: evaluate the log on another database, and print what it took.

    Raises:
        SystemExit: If it counts other impressions than there are.
    """
    import pyarrow.parquet as pq

    import sqlmetrics as sm

    with growth.ENGINES[engine]() as opened:
        log = log_of(folder, "sql", opened.source)
        spec = sm.Spec(name="clicks", clicks=log, metrics=METRICS)
        with growth.spent(opened) as took:
            result = sm.evaluate_clicks(spec, opened.connection, per_query=False)
        counted = result.rows["impressions"][0]
    if counted != pq.read_metadata(f"{folder}/impressions.parquet").num_rows:
        raise SystemExit(f"{engine} counts {counted:,} impressions: no time is told")
    print(json.dumps(took))


def log_of(folder: str, source: str = "file", text: Callable[[str], str] = str) -> dict[str, Any]:
    """The `clicks` of a spec on a simulated log: its files, or a query that reads each."""
    log: dict[str, Any] = {
        name: {source: text(f"{folder}/{name}.parquet"), "columns": columns}
        for name, columns in COLUMNS.items()
    }
    labels = {"grades": {"click": 1, "add_to_cart": 2, "purchase": 3}}
    return log | {"cleaning": CLEANING, "labels": labels}


def evaluated(folder: str, connection: Any, *, by_stage: bool) -> int:
    """The impressions of a log that was evaluated; the cost of each statement is told."""
    import sqlmetrics as sm

    spec = sm.Spec(name="clicks", clicks=log_of(folder), metrics=METRICS)
    statements = watched() if by_stage else []
    result = sm.evaluate_clicks(spec, connection, per_query=False)
    if by_stage:
        print("\n".join(cost_of(statements)))
    return result.rows["impressions"][0]


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(*sys.argv[2:])
    else:
        main()
