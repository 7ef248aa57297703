"""What a night costs that looks at an experiment, in a click log of 30 days.

    python -m benchmarks.experiment_nights
    python -m benchmarks.experiment_nights --rows 100_000

A request shows ten items, a user comes back over all days, and each of two variants has half of
them. The last night is run without the experiment, and with it: the day alone, and the running
total, which reads all days. Then a late night of the middle is run, which also computes the running
totals of the days after it. CPU seconds are those of the process, in which DuckDB runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FIRST, DAYS, ITEMS, USERS = date(2026, 1, 1), 30, 10, 50_000
HEAD = "| night | s | CPU s |\n|---|---:|---:|"

LOG = """create table log as
select
    'r' || request as request_id,
    'u' || request * 7919 % {users} as user_id,
    'i' || (request * 31 + place * 7) % 100003 as item_id,
    place as position,
    case when request * 7919 % {users} % 2 = 0 then 'old' else 'new' end as system,
    timestamp '2026-01-01' + to_seconds(request * {days} * 86400 // {requests}) as shown_at,
    hash(request * 10 + place) % 100 < 30 // place + 2 * (request * 7919 % {users} % 2) as clicked
from range({requests}) as requests(request), range(1, {items} + 1) as places(place)"""

EXPERIMENT = {
    "variants": ["old", "new"],
    "control": "old",
    "start": FIRST,
    "primary": "ctr@5",
    "guardrails": [{"metric": "abandonment", "max_drop_pct": 2}],
}
COLUMNS = {
    "request": "request_id",
    "user": "user_id",
    "item": "item_id",
    "position": "position",
    "system": "system",
    "time": "shown_at",
    "clicked": "clicked",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a row a night."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.experiment_nights",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    options = parser.parse_args(arguments)
    print(HEAD)
    with TemporaryDirectory() as folder:
        database = str(Path(folder) / "nights.duckdb")
        _fill(database, options.rows // ITEMS)
        _night("the last one, without the experiment", database, DAYS - 1, {})
        _night("the last one", database, DAYS - 1, {"experiment": EXPERIMENT})
        half = DAYS // 2
        _night(f"{half - 2} before it", database, half + 1, {"experiment": EXPERIMENT}, half - 2)
        _night(
            f"one late, {half - 1} are there after it", database, half, {"experiment": EXPERIMENT}
        )


def _fill(database: str, requests: int) -> None:
    import duckdb

    with duckdb.connect(database) as connection:
        connection.execute(LOG.format(users=USERS, requests=requests, days=DAYS, items=ITEMS))


def _night(
    name: str, database: str, day: int, experiment: Mapping[str, Any], days: int = 1
) -> None:
    """Run some nights, and print what they took."""
    import sqlmetrics as sm

    log = {"relation": "log", "columns": COLUMNS}
    spec = sm.Spec(
        name="nights",
        clicks={"log": log, **experiment},
        metrics=["ctr@5", "abandonment"],
        output={"relation": "metrics"},
    )
    start = FIRST + timedelta(day)
    wall, cpu = time.perf_counter(), time.process_time()
    sm.run(spec, database, start=start, end=start + timedelta(days), adopt=True)
    taken = time.perf_counter() - wall, time.process_time() - cpu
    print("| {} | {:.1f} | {:.1f} |".format(name, *taken), flush=True)


if __name__ == "__main__":
    main()
