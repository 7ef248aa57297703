"""A process of its own that writes or reads tables of Spark: what tests start, and kill.

python spark_process.py URL load | run FIRST END [KILLED] | read | tell | serve

KILLED is the number of a statement before which it is killed, or of one in which it is, with the
seconds that it lasted: 3.5 is half a second after the third began.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from job_days import METRICS, click_job, click_log, days, job, log

import sqlmetrics as sm
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.jobs.run import write

EACH_DAY = """
select metric_date, count(*) as n, count(distinct run_id) as n_runs, min(run_id) as run_id
from metrics group by metric_date order by metric_date
"""
QUERIES = """
select metric_date, count(*) as n, count(distinct system, query_id) as n_keys
from metrics_of_queries group by metric_date order by metric_date
"""


def load(engine: Database) -> None:
    for name, table in zip(("runs", "truth"), log(), strict=True):
        engine.load(name, table)
    write(job(), engine, days(0, 6))


def run(engine: Database, first: str, end: str, killed: str = "") -> None:
    """A run of some days; its statements are counted."""
    driver: Any = engine.driver
    execute, n_statements = driver.execute, 0
    number, _, seconds = killed.partition(".")

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def counted(sql: str) -> None:
        nonlocal n_statements
        if threading.current_thread() is threading.main_thread():
            if str(n_statements) == number and seconds:
                threading.Timer(float(f"0.{seconds}"), kill).start()
            elif str(n_statements) == number:
                kill()
            n_statements += 1
        execute(sql)

    driver.execute = counted
    try:
        report = write(job(), engine, days(int(first), int(end)))
    except SqlmetricsError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        sys.exit(3)
    print(json.dumps({"statements": n_statements, "notes": report.notes}), flush=True)


def read(engine: Database) -> None:
    """Read until stdin ends, and count what is not whole."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    totals = {"reads": 0, "not whole": 0, "failed": 0, "runs": 0}
    first_counts, run_ids = None, set()
    print("ready", flush=True)
    while not ended.is_set():
        try:
            rows = engine.driver.rows(EACH_DAY)
            of_queries = engine.driver.rows(QUERIES)
        except SqlmetricsError as error:
            totals["failed"] += 1
            print(str(error)[:300], file=sys.stderr)
            continue
        counts = [n for _, n, *_ in rows], [n for _, n, _ in of_queries]
        first_counts = first_counts or counts
        is_whole = counts == first_counts and all(n_runs == 1 for *_, n_runs, _ in rows)
        is_whole = is_whole and all(n == n_keys for _, n, n_keys in of_queries)
        totals["reads"] += 1
        totals["not whole"] += not is_whole
        run_ids |= {run_id for *_, run_id in rows}
        time.sleep(0.2)
    print(json.dumps(totals | {"runs": len(run_ids)}), flush=True)


def tell(engine: Database) -> None:
    """What stands there now, as JSON."""
    status = engine.table("select * from metrics_status where spec = 'shop'").to_pylist()
    log_rows = engine.rows("select outcome, message from metrics_runs order by started_at")
    facts = "metric_date, system, segment_name, segment_value, metric, k"
    doubled = f"(select 1 as n from metrics group by spec, {facts} having count(*) > 1) as twice"
    tables = [name for _, name, _ in engine.driver.rows("show tables")]
    print(
        json.dumps(
            {
                "days": engine.driver.rows(EACH_DAY),
                "queries": engine.driver.rows(QUERIES),
                "doubled": engine.rows(f"select count(*) as n from {doubled}")[0][0],
                "status": status,
                "log": log_rows,
                "tables": sorted(tables),
            },
            default=str,
        ),
        flush=True,
    )


def serve(engine: Database) -> None:
    """Do what each line of stdin asks for, and print what came of it."""
    for name, table in (*zip(("runs", "truth"), log(), strict=True), *click_log(1).items()):
        engine.load(name, table)
    print("ready", flush=True)
    for line in sys.stdin:
        print("begun", flush=True)
        began = time.monotonic()
        try:
            reply = SERVED[line.strip()](engine)
        except SqlmetricsError as error:
            reply = {"error": str(error)[:2000]}
        reply["seconds"] = time.monotonic() - began
        print(json.dumps(reply, default=str), flush=True)


def _evaluated(engine: Database) -> dict[str, Any]:
    columns = {"system": "system", "date": "ds", "by": "country"}
    result = sm.evaluate("runs", "truth", METRICS, **columns, confidence=0.95, connection=engine)
    return {"values": result.to_dicts(), "queries": len(result.per_query())}


def _written(engine: Database) -> dict[str, Any]:
    return {"run_id": write(job(), engine, days(0, 6)).run_id}


def _of_clicks(engine: Database) -> dict[str, Any]:
    return {"run_id": write(click_job(), engine).run_id}


def _stored_rows(engine: Database) -> dict[str, Any]:
    """What stands in the tables."""
    return {
        "facts": engine.table("select * from metrics").to_pylist(),
        "queries": engine.driver.rows(QUERIES),
        "log": engine.rows("select outcome, message from metrics_runs order by started_at"),
    }


SERVED = {
    "evaluation": _evaluated,
    "job": _written,
    "click log": _of_clicks,
    "tables": _stored_rows,
}

if __name__ == "__main__":
    commands = {"load": load, "run": run, "read": read, "tell": tell, "serve": serve}
    with connect(sys.argv[1]) as database:
        commands[sys.argv[2]](database, *sys.argv[3:])
