"""What one new day costs of a click log that holds a year, stored by day, beside that day alone.

A simulated year of searches is kept as hive folders of Parquet (`day=2026-01-31`) and as DuckDB
tables sorted by day. Each contender is a run of one day in a process of its own, in turn: of a log
that has that day and the days beside it alone, of the year with `columns: {day: day}`, and of the
year without. `python -m benchmarks.days --requests 1_000_000` (10 results each, about 2,700 a day).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.clicks import CLEANING, COLUMNS, METRICS
from benchmarks.contenders import THREADS
from benchmarks.data import FOLDER
from benchmarks.process import medians, used

DAYS = 365
TIMES = {"impressions": "shown_at", "events": "happened_at", "requests": "requested_at"}
CONTENDERS = ("that day alone", "a year by day", "a year")
FORMS = ("hive folders", "tables")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the contenders in turn, compare their numbers, print a table for each form."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.days", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000, help="searches in the year")
    parser.add_argument("--runs", type=int, default=3, help="runs of each contender")
    given = parser.parse_args(arguments)
    folder = made(given.requests)
    for form in FORMS:
        runs: dict[str, list[Mapping[str, Any]]] = {name: [] for name in CONTENDERS}
        for _ in range(given.runs):
            for name, own in runs.items():
                own.append(measured(form, name, folder))
        if len({str(run["numbers"]) for own in runs.values() for run in own}) > 1:
            raise SystemExit(f"{form}: the contenders have other numbers: no time is told")
        print(f"{form}\n{medians(runs)}\n")


def made(requests: int) -> Path:
    """The folder of a year, written unless it is there: hive folders, tables, one day's too."""
    import duckdb

    from sqlmetrics.clicks.simulation.simulate import simulate

    folder = FOLDER / f"days_{requests}"
    if (folder / "done").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=FOLDER) as place:
        files = simulate(place, requests=requests, days=DAYS, seed=20).files
        first = duckdb.execute(f"select min(shown_at) from '{files['impressions']}'").fetchall()
        middle = first[0][0].date() + timedelta(DAYS // 2)
        near = f"between date '{middle - timedelta(1)}' and date '{middle + timedelta(1)}'"
        for name, only in (("year", ""), ("day", f"where day {near}")):
            (folder / name).mkdir(exist_ok=True)
            (folder / f"{name}.duckdb").unlink(missing_ok=True)
            with duckdb.connect(folder / f"{name}.duckdb", config={"threads": THREADS}) as kept:
                for table, time in TIMES.items():
                    rows = f"select *, cast({time} as date) as day from '{files[table]}'"
                    kept.execute(
                        f"create table {table} as select * from ({rows}) {only} order by day"
                    )
                    kept.execute(
                        f"copy {table} to '{folder / name / table}' "
                        "(format parquet, partition_by (day), overwrite_or_ignore)"
                    )
    (folder / "done").write_text(str(middle))
    return folder


def measured(form: str, name: str, folder: Path) -> dict[str, Any]:
    """One run in a process of its own: CPU and wall seconds, peak MB, the numbers of the day.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    with TemporaryDirectory() as place:
        answer = Path(place) / "answer.json"
        command = [sys.executable, "-m", "benchmarks.days", "run", form, name]
        usage = used([*command, str(folder), str(answer)])
        numbers = json.loads(answer.read_text())
    return {"cpu": usage.cpu, "wall": usage.wall, "peak": usage.peak / 1e6, "numbers": numbers}


def run(form: str, name: str, folder: str, answer: str) -> None:
    """Inside the process: run the job of one day, and write down its numbers."""
    import duckdb

    import sqlmetrics as sm
    from sqlmetrics.engines.database import connect
    from sqlmetrics.jobs.run import write
    from sqlmetrics.spec.days import Days

    day = date.fromisoformat((Path(folder) / "done").read_text())
    place = Path(folder) / ("day" if name == CONTENDERS[0] else "year")
    stored = {"day": "day"} if name == CONTENDERS[1] else {}
    clicks: dict[str, Any] = {
        table: _source(form, table, place) | {"columns": {**columns, **stored}}
        for table, columns in COLUMNS.items()
    }
    clicks["cleaning"] = CLEANING | {"bots_of": "day"}
    clicks["labels"] = {"grades": {"click": 1, "add_to_cart": 2, "purchase": 3}}
    output = {"relation": "metrics"}
    spec = sm.Spec(name="clicks", clicks=clicks, metrics=METRICS, output=output)
    connection = duckdb.connect(config={"threads": THREADS})
    if form == FORMS[1]:
        connection.execute(f"attach '{place}.duckdb' as log (read_only)")
    with connect(connection) as engine:
        write(spec, engine, Days(start=day, end=day + timedelta(1)))
    rows = connection.execute(
        "select system, metric, k, round(value, 12), denominator from metrics order by all"
    ).fetchall()
    Path(answer).write_text(json.dumps(rows))


def _source(form: str, table: str, place: Path) -> dict[str, str]:
    if form == FORMS[1]:
        return {"relation": f"log.main.{table}"}
    return {"file": f"{place / table}/**/*.parquet"}


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(*sys.argv[2:])
    else:
        main()
