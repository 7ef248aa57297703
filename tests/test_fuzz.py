"""Random, broken and odd input of every command: one message, an exit code of the table, in time.

`SQLMETRICS_FUZZ=2000 pytest tests/test_fuzz.py -m "long or not long"` tries so many seeds, each
with COMMANDS_EACH commands; a seed that fails is told, and `SQLMETRICS_SEED` begins at another.
"""

from __future__ import annotations

import io
import os
import random
import subprocess
import sys
import time
import traceback
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import duckdb
import pytest
from fuzz import Fuzz
from marked import by_turns
from slices import lot

from sqlmetrics.cli import main

EXIT_CODES = {0, 1, 2, 3, 4, 130, 143}
SECONDS = 20.0
"""No command on so little data takes longer, in seconds of the processor."""

COMMANDS_EACH = 6
SEED = lot("fuzz")
FEW, MANY = 4, int(os.environ.get("SQLMETRICS_FUZZ", "60"))

ENVIRONMENTS: tuple[dict[str, str | None], ...] = (
    {"PYTHONIOENCODING": "cp1252"},
    {"PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"HOME": None, "USER": None},
    {"HOME": "/nonexistent", "TMPDIR": "/nonexistent"},
    {"COLUMNS": "1"},
    {"COLUMNS": "x", "TERM": "dumb"},
    {"TZ": "Asia/Kathmandu"},
    {"PYTHONOPTIMIZE": "2"},
)
STREAMS = ("", " >&-", " 2>&-", " <&-", " >&- 2>&- <&-", " | head -c 1", " > /dev/full")


def run_in_process(line: list[str], folder: Path) -> str:
    """What is wrong with how a command ends; empty if nothing is."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    begun, code = time.process_time(), 0
    with (
        patch.object(sys, "argv", ["sqlmetrics", *line]),
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException:
            return traceback.format_exc()
    err.flush()
    stderr = err.buffer.getvalue().decode(errors="replace")  # type: ignore[attr-defined]
    return failure_of(code, stderr, time.process_time() - begun)


def failure_of(code: int, stderr: str, seconds: float) -> str:
    """What is wrong with a command that has ended."""
    if code not in EXIT_CODES:
        return f"exit code {code}: {stderr}"
    if "Traceback (most recent" in stderr:
        return stderr
    if code and not stderr.strip():
        return f"exit code {code} without a word"
    return f"{seconds:.1f} s" if seconds > SECONDS else ""


def failures(seeds: range, folder: Path) -> list[str]:
    """What went wrong, with the seed and the command."""
    problems = []
    for seed in seeds:
        seed_folder = folder / str(seed)
        seed_folder.mkdir()
        fuzz = Fuzz(seed, seed_folder)
        fuzz.files()
        duckdb.connect(str(seed_folder / "store.duckdb")).close()
        for line in fuzz.commands(COMMANDS_EACH):
            before = kept_files(seed_folder)
            if wrong := run_in_process(line, seed_folder) or overwritten_files(
                before, seed_folder, line
            ):
                problems.append(f"seed {seed}: {line}\n{wrong}")
    return problems


def kept_files(folder: Path) -> dict[Path, bytes]:
    """What no output may replace: all that stood there before the commands."""
    names = [path for path in folder.iterdir() if path.is_file()]
    return {path: path.read_bytes() for path in names if not path.name.startswith("made")}


def overwritten_files(before: dict[Path, bytes], folder: Path, line: list[str]) -> str:
    """Which files a command has changed that it was not to write; empty if none.

    Whoever insists: specs, databases and what stands before `--out` as an input stay.
    """
    if line[0] in ("init", "install", "sheet-import") or {"--db", "--connection"} & {*line}:
        return ""
    stays = {path for path, content in before.items() if content}
    if {"--overwrite", "--force"} & {*line}:
        read = line[: line.index("--out")] if "--out" in line else []
        stays = {path for path in stays if path.suffix in (".yml", ".duckdb") or path.name in read}
    changed = {path.name for path in stays if not path.exists()}
    changed |= {path.name for path in stays if path.exists() and path.read_bytes() != before[path]}
    return f"replaced {', '.join(sorted(changed))}" if changed else ""


@by_turns(12)
def test_odd_input_is_told(tmp_path: Path) -> None:
    assert not failures(range(SEED, SEED + FEW), tmp_path)


@pytest.mark.long
def test_more_odd_input_is_told(tmp_path: Path) -> None:
    wrong = failures(range(SEED + FEW, SEED + FEW + MANY), tmp_path)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.long
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=str)
def test_odd_environments_are_told(environment: dict[str, str | None], tmp_path: Path) -> None:
    chance = random.Random(str(environment))
    fuzz = Fuzz(SEED + len(str(environment)), tmp_path)
    fuzz.files()
    variables = {**os.environ, **environment}
    kept = {name: value for name, value in variables.items() if value is not None}
    for line in fuzz.commands(2):
        quoted = " ".join("'" + text.replace("'", "'\\''") + "'" for text in line)
        stream = chance.choice(STREAMS)
        completed = subprocess.run(
            f"{sys.executable} -m sqlmetrics {quoted}{stream}",
            shell=True,
            cwd=tmp_path,
            env=kept,
            capture_output=True,
            check=False,
            timeout=120,
        )
        stderr = completed.stderr.decode(errors="replace")
        assert completed.returncode in EXIT_CODES, (line, stream, stderr)
        assert "Traceback (most recent" not in stderr, (line, stream, stderr)
