"""A standalone cluster of Spark whose executors are killed in the middle of what it computes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from engines.server import REQUIRED, MissingError
from engines.spark_cluster import SETTINGS, WORKERS, Cluster, cluster
from job_days import KEY, NUMBERS, check_clicks, click_log, expected, same

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

PROCESS = Path(__file__).with_name("spark_process.py")
KILLED_AT = (0.2, 0.5, 0.8)
"""Shares of the time that it takes."""

Row = dict[str, Any]


class Served:
    """A process that has a session of a cluster, and does what it is asked for."""

    def __init__(self, at: Cluster, process: subprocess.Popen[str]) -> None:
        self.cluster, self.process = at, process
        self.outcomes = Counter[str]()
        assert self._line() == "ready"

    def __call__(self, task: str, killed_after: float | None = None) -> Row:
        """Do something, while one of the two executors is killed so many seconds later."""
        self._wait_for_executors()
        self._say(task)
        assert self._line() == "begun"
        if killed_after is not None:
            time.sleep(killed_after)
            os.kill(self.cluster.executors()[0], signal.SIGKILL)
        reply: Row = json.loads(self._line())
        if killed_after is not None:
            self.outcomes[f"{task}: {'failed' if 'error' in reply else 'went on'}"] += 1
        return reply

    def _wait_for_executors(self) -> None:
        for _ in range(600):
            if len(self.cluster.executors()) == WORKERS:
                return
            time.sleep(0.1)
        pytest.fail("the workers started no executors")

    def _say(self, task: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{task}\n")
        self.process.stdin.flush()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("cluster")
    try:
        with cluster(folder) as at:
            settings = SETTINGS | {"spark.sql.warehouse.dir": f"{folder}/warehouse"}
            options = "&".join(f"{name}={quote(text, safe='')}" for name, text in settings.items())
            command = [sys.executable, str(PROCESS), f"{at.url}?{options}", "serve"]
            pipe = subprocess.PIPE
            with (folder / "errors").open("w") as errors:
                process = subprocess.Popen(
                    command, stdin=pipe, stdout=pipe, stderr=errors, text=True, cwd=folder
                )
                try:
                    yield Served(at, process)
                finally:
                    process.kill()
                    process.communicate()
    except MissingError as missing:
        (pytest.fail if REQUIRED else pytest.skip)(f"a cluster of Spark: {missing}")


def check_rows(rows: list[Row]) -> None:
    """These are the numbers of DuckDB."""
    by_key = {tuple(str(row[name]) for name in KEY): row for row in rows}
    wanted = expected([*range(6)]).to_dicts()
    assert len(by_key) == len(rows) == len(wanted)
    for row in wanted:
        actual = by_key[tuple(str(row[name]) for name in KEY)]
        assert all(same(actual[name], row[name]) for name in NUMBERS), row


def test_an_executor_is_killed_in_the_middle(served: Served) -> None:
    """What runs goes on, or fails whole; then the tables are old or new, and the next run works."""
    seconds = {task: served(task)["seconds"] for task in ("evaluation", "job", "click log")}
    for task, lasting in seconds.items():
        for share in KILLED_AT:
            reply = served(task, share * lasting)
            if "values" in reply:
                check_rows(reply["values"])
            if task != "evaluation":
                check_tables(served("tables"))
    assert sum(served.outcomes.values()) == len(seconds) * len(KILLED_AT)
    print(dict(served.outcomes))  # what pytest -s shows is what the page of Spark says
    for task in seconds:
        assert "error" not in served(task)
    log = check_tables(served("tables"))
    assert {outcome for outcome, _ in log} <= {"replaced", "failed"}


def check_tables(stored: Row) -> list[tuple[str, str]]:
    """The tables are whole, with the same numbers after each run."""
    facts = stored["facts"]
    check_rows([row for row in facts if row["spec"] == "shop"])
    clicks = [row for row in facts if row["spec"] == "log"]
    check_clicks({tuple(str(row[name]) for name in KEY): row for row in clicks}, click_log(1))
    for spec in ("shop", "log"):
        pairs = {(row["metric_date"], row["run_id"]) for row in facts if row["spec"] == spec}
        assert len({day for day, _ in pairs}) == len(pairs), "a day of two runs"
    assert [(n, n_keys) for _, n, n_keys in stored["queries"]] == [(8, 8)] * 6
    return [(outcome, message) for outcome, message in stored["log"]]
