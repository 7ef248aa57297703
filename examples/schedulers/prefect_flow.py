"""Prefect: a flow of two tasks; a schedule hands over no days, so the flow says which.

`python prefect_flow.py` serves it, every night at 2.
"""

import os
import subprocess

from prefect import flow, task

FOLDER = os.environ.get("SEARCH_FOLDER", "/srv/search")  # search.yml, profiles.yml


def call(verb: str, start: str, end: str) -> None:
    """One command; its exit code decides about the task."""
    days = ["--start", start, "--end", end]
    command = ["sqlmetrics", verb, "search.yml", "--target", "prod", *days]
    subprocess.run(command, cwd=FOLDER, check=True)


@task(retries=12, retry_delay_seconds=1800)  # exit code 4: the data is not there yet
def run(start: str, end: str) -> None:
    """Replace the days in the tables."""
    call("run", start, end)


@task
def check(start: str, end: str) -> None:
    """Compare each of the days with the spec's checks."""
    call("check", start, end)


@flow
def ranking_metrics(start: str = "yesterday", end: str = "today") -> None:
    """The days from start until before end; a backfill is a run with other dates."""
    run(start, end)
    check(start, end)


if __name__ == "__main__":
    ranking_metrics.serve(name="nightly", cron="0 2 * * *")
