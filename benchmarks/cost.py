"""What more of everything costs: metrics, systems, segments, ties, checks.

Each case is a process of its own on the same number of rows, in turn with the others of its
group; the ratios are to the first of them. `python -m benchmarks.cost --rows 10_000_000`;
`--stages` tells the CPU seconds of each statement with checks, `--only checks` some groups.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contenders import METRICS, THREADS
from benchmarks.data import FOLDER, Files, files_of
from benchmarks.process import used
from benchmarks.statements import cost_lines, watched

FOUR = ("ndcg@10", "ndcg@20", "recall@100", "mrr")
NAMES = ("ndcg", "recall", "precision", "mrr")
FORTY = [f"{name}@{k}" for name in NAMES for k in range(10, 101, 10)]
CASES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "metrics": {"4": {"metrics": FOUR}, "40": {"metrics": FORTY}},
    "systems": {"1": {"metrics": METRICS}, "5": {"metrics": METRICS, "data": "systems"}},
    "segments": {
        "none": {"metrics": METRICS, "data": "segments"},
        "two, with roll-up": {"metrics": METRICS, "data": "segments", "by": ["country", "device"]},
    },
    "ties": {
        "none": {"metrics": METRICS},
        "in 1% of the lists": {"metrics": METRICS, "data": "few_ties"},
        "in every list": {"metrics": METRICS, "data": "ties"},
    },
    "checks": {"off": {"metrics": METRICS}, "on": {"metrics": METRICS, "check": True}},
    "checks, scattered rows": {
        "off": {"metrics": METRICS, "data": "scattered"},
        "on": {"metrics": METRICS, "data": "scattered", "check": True},
    },
    "per query": {
        "summary": {"metrics": METRICS},
        "and per-query table": {"metrics": METRICS, "per_query": True},
    },
    "plan": {"fastest": {"metrics": METRICS}, "window": {"metrics": METRICS, "plan": "window"}},
}
"""What varies -> case -> how it is evaluated."""

OTHER_RANKINGS = {
    "systems": "select 's' || s as system, query_id, item_id, score + s as score "
    "from {rankings}, range(5) as systems(s)",
    "segments": "select *, 'c' || hash(query_id) % 20 as country, "
    "'d' || hash(query_id) % 3 as device from {rankings}",
    "ties": "select query_id, item_id, floor(score * 2) / 2 as score from {rankings}",
    "scattered": "select * from {rankings} order by hash(query_id, item_id)",
    "few_ties": "select query_id, item_id, case when hash(query_id) % 100 = 0 "
    "then floor(score * 2) / 2 else score end as score from {rankings}",
}
"""Other rankings over the same labels."""


def rankings_of(files: Files, data: str | None) -> Path:
    """The rankings of a case, written unless they are there."""
    if data is None:
        return files.rankings
    path = FOLDER / f"{data}_{files.rankings.name}"
    if not path.exists():
        import duckdb

        select = OTHER_RANKINGS[data].format(rankings=f"read_parquet('{files.rankings}')")
        duckdb.execute(f"copy ({select}) to '{path}.part' (format parquet)")
        os.replace(f"{path}.part", path)
    return path


def measured(rankings: Path, labels: Path, case: Mapping[str, Any]) -> float:
    """CPU seconds of one case in a process of its own."""
    options = json.dumps({key: value for key, value in case.items() if key != "data"})
    command = [
        sys.executable,
        "-m",
        "benchmarks.cost",
        "--one",
        str(rankings),
        str(labels),
        options,
    ]
    return used(command).cpu


def run_case(rankings: str, labels: str, options_json: str) -> None:
    """Inside the process."""
    import duckdb

    from sqlmetrics import evaluate

    options: dict[str, Any] = {"check": False, "per_query": False} | json.loads(options_json)
    columns = duckdb.read_parquet(rankings).columns
    system = {"system": "system"} if "system" in columns else {}
    connection = duckdb.connect(config={"threads": THREADS})
    evaluate(rankings, labels, options.pop("metrics"), connection=connection, **system, **options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--stages", action="store_true", help="tell each statement of one run")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        run_case(*options.one)
        return
    files = files_of(options.rows)
    if options.stages:
        stages(files)
        return
    print(f"{options.rows:,} rankings rows; {THREADS} threads; medians of {options.runs} runs\n")
    print("| what | case | CPU s | ratio |\n|---|---|---:|---:|")
    for group in options.only:
        runs: dict[str, list[float]] = {name: [] for name in CASES[group]}
        for _ in range(options.runs):
            for name, case in CASES[group].items():
                rankings = rankings_of(files, case.get("data"))
                runs[name].append(measured(rankings, files.labels, case))
        first = median(next(iter(runs.values())))
        for name, seconds in runs.items():
            cpu = median(seconds)
            print(f"| {group} | {name} | {cpu:.2f} | {cpu / first:.2f} |", flush=True)


def stages(files: Files) -> None:
    """Tell what each statement takes with checks, in this process."""
    statements = watched()
    for group in ("checks", "checks, scattered rows"):
        case = CASES[group]["on"]
        rankings = rankings_of(files, case.get("data"))
        options = json.dumps({key: value for key, value in case.items() if key != "data"})
        statements.clear()
        run_case(str(rankings), str(files.labels), options)
        print("\n".join([group, *cost_lines(statements)]))


if __name__ == "__main__":
    main()
