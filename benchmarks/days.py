"""What one new day costs of tables that hold a year, stored by day, beside that day alone.

A year is kept as hive folders of Parquet (`day=2026-01-31`) and as DuckDB tables sorted by day.
Each contender is a run of one day in a process of its own, in turn: of tables that have that day
alone, and of the year. `python -m benchmarks.days` simulates a click log of 1 M requests (10
results each, about 2,700 a day), whose day alone comes with the days beside it; it is also read
without `columns: {day: day}`. `--data rankings` takes 10 M rows of rankings, with labels by day.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import data
from benchmarks.clicks import CLEANING, COLUMNS, METRICS
from benchmarks.contenders import METRICS as METRICS_OF_LISTS
from benchmarks.contenders import THREADS
from benchmarks.data import FOLDER
from benchmarks.process import medians, used

DAYS = 365
TIMES = {"impressions": "shown_at", "events": "happened_at", "requests": "requested_at"}
CONTENDERS = {
    "clicks": ("that day alone", "a year by day", "a year"),
    "rankings": ("that day alone", "a year by day"),
}
"""What is stored -> the contenders: the day alone, with its column of days, without."""
NAMES = {"clicks": "days_{}", "rankings": "ranking_days_{}"}
FORMS = ("hive folders", "tables")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the contenders in turn, compare their numbers, print a table for each form."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.days", description=__doc__)
    parser.add_argument("--data", choices=list(CONTENDERS), default="clicks")
    parser.add_argument("--requests", type=int, default=1_000_000, help="searches in the log")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the rankings")
    parser.add_argument("--runs", type=int, default=3, help="runs of each contender")
    options = parser.parse_args(arguments)
    size = options.requests if options.data == "clicks" else options.rows
    # a process of its own: a child's peak of memory starts at its parent's
    command = [sys.executable, "-m", "benchmarks.days", "make", options.data, str(size)]
    subprocess.run(command, check=True)
    folder = FOLDER / NAMES[options.data].format(size)
    for form in FORMS:
        contenders = CONTENDERS[options.data]
        runs: dict[str, list[Mapping[str, Any]]] = {name: [] for name in contenders}
        for _ in range(options.runs):
            for name, usages in runs.items():
                usages.append(measured(options.data, form, name, folder))
        if len({str(run["numbers"]) for usages in runs.values() for run in usages}) > 1:
            raise SystemExit(f"{form}: the contenders have other numbers: no time is told")
        print(f"{form}\n{medians(runs)}\n")


def make(stored: str, size: str) -> None:
    """Write the folder of a year, unless it is there."""
    folder = FOLDER / NAMES[stored].format(size)
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (_make_log if stored == "clicks" else _make_rankings)(folder, int(size))


def _make_log(folder: Path, requests: int) -> None:
    import duckdb

    from sqlmetrics.clicks.simulation import simulate

    with TemporaryDirectory(dir=FOLDER) as log_folder:
        files = simulate(log_folder, requests=requests, days=DAYS, seed=20).files
        first = duckdb.execute(f"select min(shown_at) from '{files['impressions']}'").fetchall()
        tables = {
            table: f"select *, cast({time} as date) as day from '{files[table]}'"
            for table, time in TIMES.items()
        }
        _write(folder, tables, first[0][0].date() + timedelta(DAYS // 2), beside=1)


def _make_rankings(folder: Path, rows: int) -> None:
    """Each query is asked on one day."""
    files = data.files_of(rows)
    queries = data.SHAPES["usual"].queries(rows)
    first = date(2026, 1, 1)
    day = f"date '{first}' + cast(query_id[7:] as integer) * {DAYS} // {queries} as day"
    tables = {
        name: f"select *, {day} from '{file}'"
        for name, file in (("rankings", files.rankings), ("labels", files.labels))
    }
    _write(folder, tables, first + timedelta(DAYS // 2), beside=0)


def _write(folder: Path, tables: Mapping[str, str], middle: date, *, beside: int) -> None:
    """Store the tables of the year and those of a day, as folders and in a database.

    Args:
        folder: Where.
        tables: Name -> a query of its rows, with their `day`.
        middle: The day.
        beside: How many days before and after it are stored with it.
    """
    import duckdb

    first, last = middle - timedelta(beside), middle + timedelta(beside)
    near = f"where day between date '{first}' and date '{last}'"
    for name, only in (("year", ""), ("day", near)):
        (folder / name).mkdir(exist_ok=True)
        (folder / f"{name}.duckdb").unlink(missing_ok=True)
        with duckdb.connect(folder / f"{name}.duckdb", config={"threads": THREADS}) as kept:
            for table, rows in tables.items():
                kept.execute(f"create table {table} as select * from ({rows}) {only} order by day")
                kept.execute(
                    f"copy {table} to '{folder / name / table}' "
                    "(format parquet, partition_by (day), overwrite_or_ignore)"
                )
    (folder / "done").write_text(str(middle))


def measured(stored: str, form: str, name: str, folder: Path) -> dict[str, Any]:
    """One run in a process of its own: CPU and wall seconds, peak MB, the numbers of the day.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    with TemporaryDirectory() as answer_folder:
        answer = Path(answer_folder) / "answer.json"
        command = [sys.executable, "-m", "benchmarks.days", "run", stored, form, name]
        usage = used([*command, str(folder), str(answer)])
        numbers = json.loads(answer.read_text())
    return {"cpu": usage.cpu, "wall": usage.wall, "peak": usage.peak / 1e6, "numbers": numbers}


def run(stored: str, form: str, name: str, folder: str, answer: str) -> None:
    """Inside the process: run the job of one day, and write down its numbers."""
    import duckdb

    from sqlmetrics.engines.database import connect
    from sqlmetrics.jobs.run import write
    from sqlmetrics.spec.days import Days

    day = date.fromisoformat((Path(folder) / "done").read_text())
    alone, by_day, *_ = CONTENDERS[stored]
    tables = Path(folder) / ("day" if name == alone else "year")
    if stored == "clicks":
        spec = _log_spec(form, tables, by_day=name == by_day)
    else:
        spec = _rankings_spec(form, tables)
    connection = duckdb.connect(config={"threads": THREADS})
    if form == FORMS[1]:
        connection.execute(f"attach '{tables}.duckdb' as log (read_only)")
    with connect(connection) as engine:
        write(spec, engine, Days(start=day, end=day + timedelta(1)))
    rows = connection.execute(
        "select system, metric, k, round(value, 12), denominator from metrics order by all"
    ).fetchall()
    Path(answer).write_text(json.dumps(rows))


def _log_spec(form: str, tables: Path, *, by_day: bool) -> Any:
    import sqlmetrics as sm

    of_day = {"day": "day"} if by_day else {}
    clicks: dict[str, Any] = {
        table: _source(form, table, tables) | {"columns": {**columns, **of_day}}
        for table, columns in COLUMNS.items()
    }
    clicks["cleaning"] = CLEANING | {"bots_of": "day"}
    clicks["labels"] = {"grades": {"click": 1, "add_to_cart": 2, "purchase": 3}}
    return sm.Spec(name="clicks", clicks=clicks, metrics=METRICS, output={"relation": "metrics"})


def _rankings_spec(form: str, folder: Path) -> Any:
    import sqlmetrics as sm

    tables: dict[str, Any] = {
        table: _source(form, table, folder) | {"columns": {"date": "day"}}
        for table in ("rankings", "labels")
    }
    output = {"relation": "metrics"}
    return sm.Spec(name="rankings", metrics=list(METRICS_OF_LISTS), output=output, **tables)


def _source(form: str, table: str, folder: Path) -> dict[str, str]:
    if form == FORMS[1]:
        return {"relation": f"log.main.{table}"}
    return {"file": f"{folder / table}/**/*.parquet"}


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(*sys.argv[2:])
    elif sys.argv[1:2] == ["make"]:
        make(*sys.argv[2:])
    else:
        main()
