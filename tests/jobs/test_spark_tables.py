"""Tables of a Hive metastore that several processes of Spark write, read and are killed in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engines.hive import metastore
from engines.lakes import CATALOGS, GET
from engines.server import REQUIRED, MissingError
from marked import long, nightly
from slices import is_all, kept, lot

PROCESS = Path(__file__).with_name("spark_process.py")
KILLED_BEFORE = ("2", "6", "10", "14", "18", "22", "26", "30")
"""Statements of a run: of the lock, of tables, of new files, of days, of the run log."""

KILLED_IN = ("1.05", "2.2", "2.6", "3.2", "3.6", "4.2", "6.1", "8.1")
"""The same of Delta and Iceberg, and seconds after it began: of the lock, of each table, of the
run log, of views. A run of the tests has some of the moments, by night all."""

PAIRS = (((1, 4), (1, 4)), ((1, 3), (3, 5)))
"""Days of runs that write at the same time: the same, and others. One pair a run of the tests."""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module", params=[nightly("parquet"), *map(long, CATALOGS)])
def tables(request: pytest.FixtureRequest) -> str:
    """What the tables are of."""
    return str(request.param)


@pytest.fixture(scope="module")
def start(tables: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a process at tables that have six days."""
    folder = tmp_path_factory.mktemp("hive")
    is_lake = tables in CATALOGS
    try:
        with metastore(folder, tables if is_lake else "") as url:

            def started(*arguments: object) -> subprocess.Popen[str]:
                command = [sys.executable, str(PROCESS), url, *map(str, arguments)]
                pipe = subprocess.PIPE
                return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

            assert ended(started("load"))[0] == 0
            yield started
    except MissingError as missing:
        message = f"{tables} is not here ({missing}){f'; get it by: {GET}' if is_lake else ''}"
        (pytest.fail if REQUIRED else pytest.skip)(message)


def ended(process: subprocess.Popen[str]) -> tuple[int, Any]:
    """The exit code of a process, and what it printed last."""
    output, errors = process.communicate(timeout=900)
    assert process.returncode in (0, -9), errors
    lines = output.splitlines()
    return process.returncode, json.loads(lines[-1]) if lines and process.returncode == 0 else None


def look(start: Start) -> dict[str, Any]:
    """What stands there, after a look at what must hold in any case."""
    _, state = ended(start("tell"))
    assert state["doubled"] == 0
    assert [(n, n_runs) for _, n, n_runs, _ in state["days"]] == [(30, 1)] * 6
    assert [(n, n_keys) for _, n, n_keys in state["queries"]] == [(8, 8)] * 6
    return dict(state)


def test_two_at_once_and_a_reader(start: Start) -> None:
    reader = start("read")
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    pairs = PAIRS if is_all() else [PAIRS[lot("pairs of ranges") % len(PAIRS)]]
    for ranges in pairs:
        processes = [start("run", *days) for days in ranges]
        assert [ended(process)[0] for process in processes] == [0, 0]
    _, totals = ended(reader)
    assert totals["reads"] > 10
    assert (totals["not whole"], totals["failed"]) == (0, 0)
    assert totals["runs"] >= 1 + len(pairs)
    state = look(start)
    assert [outcome for outcome, _ in state["log"]] == ["replaced"] * (1 + 2 * len(pairs))
    assert not [name for name in state["tables"] if "beside" in name or name.endswith("_lock")]


def test_killed_and_told(start: Start, tables: str) -> None:
    reader = start("read")
    *earlier, last = KILLED_IN if tables in CATALOGS else KILLED_BEFORE
    moments = [*kept(f"moments {tables}", earlier, 0.2), last]
    codes = [ended(start("run", 1, 4, moment))[0] for moment in moments]
    assert codes.count(-9) >= len(moments) - 1
    state = look(start)
    days = {run_id for _, _, _, run_id in state["days"]}
    if state["status"][0]["n_unlogged_rows"]:
        assert len(days) > 1
    _, report = ended(start("run", 1, 4))
    assert "a run was killed while it wrote metrics" in report["notes"][0]
    _, totals = ended(reader)
    assert (totals["not whole"], totals["failed"]) == (0, 0)
    state = look(start)
    assert state["status"][0]["n_unlogged_rows"] == 0
    assert "a run was killed" in state["log"][-1][1]
