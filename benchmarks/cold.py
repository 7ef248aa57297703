"""What a cold start costs: the CPU of whole processes on two small files, in turn.

The ratios are to a DuckDB that is imported, opened and asked for 1. Python's own cache of modules
is used, as on anybody's second call. `python -m benchmarks.cold --runs 15`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from subprocess import DEVNULL
from tempfile import TemporaryDirectory

from benchmarks.process import used

DUCKDB = "duckdb"
CASES: Mapping[str, Sequence[str]] = {
    "python": ("-c", "pass"),
    DUCKDB: ("-c", "import duckdb; duckdb.connect().execute('select 1')"),
    "import sqlmetrics": ("-c", "import sqlmetrics"),
    "sqlmetrics --help": ("-m", "sqlmetrics", "--help"),
    "sqlmetrics evaluate": (
        *("-m", "sqlmetrics", "evaluate", "runs.csv", "labels.csv"),
        *("-m", "ndcg@10,mrr"),
    ),
    "evaluate() in Python": (
        "-c",
        "import sqlmetrics as sm\n"
        "sm.evaluate('runs.csv', 'labels.csv', ['ndcg@10', 'mrr'], per_query=False)",
    ),
    **{
        f"sqlmetrics {verb}": ("-m", "sqlmetrics", verb, "spec.yml", *where)
        for verb, where in {
            "compile": (),
            "show": (),
            "build": ("--db", "metrics.duckdb"),
            "check": ("--db", "metrics.duckdb"),
        }.items()
    },
}
"""Case -> what Python is given. The first `build` writes what `check` reads."""

FILES = {
    "runs.csv": "query_id,item_id,score\nq1,a,2\nq1,b,1\nq2,a,1\n",
    "labels.csv": "query_id,item_id,grade\nq1,b,1\nq2,a,2\n",
    "spec.yml": (
        "rankings: {file: runs.csv}\nlabels: {file: labels.csv}\nmetrics: [ndcg@10, mrr]\n"
        "output: {relation: metrics, per_query: query_metrics}\n"
        "checks: [{metric: ndcg@10, min: 0.2}]\n"
    ),
}


def cpu(case: str, folder: Path) -> float:
    """Seconds of user and system time of one process.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, *CASES[case]]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # nothing would be kept for the next call
    return used(command, environment, cwd=folder, stdout=DEVNULL).cpu


def text(seconds: Mapping[str, Sequence[float]]) -> str:
    """A Markdown table of the medians."""
    base = median(seconds[DUCKDB])
    rows = [
        f"| {case} | {median(of):.3f} | {median(of) / base:.1f} |" for case, of in seconds.items()
    ]
    return "\n".join(["| | CPU s | / DuckDB |", "|---|---:|---:|", *rows])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all cases in turn, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cold", description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="runs of each case")
    options = parser.parse_args(arguments)
    seconds: dict[str, list[float]] = {case: [] for case in CASES}
    with TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in FILES.items():
            (folder / file).write_text(content)
        for number in range(options.runs + 1):
            for case in CASES:
                taken = cpu(case, folder)
                if number:  # the first run compiles what Python and the templates keep
                    seconds[case].append(taken)
    print(text(seconds))


if __name__ == "__main__":
    main()
