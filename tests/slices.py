"""Which cells of a large matrix this run tries: a slice that a seed chooses.

`SQLMETRICS_SEED` is the seed: CI sets it to the commit, so that each commit tries another slice;
without it all runs on one machine try the same. `SQLMETRICS_ALL=1` tries every cell.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")


def keep(name: str, share: float) -> bool:
    """Whether a cell belongs to this run, in which a share of all cells is tried.

    >>> keep("any cell", 1.0), keep("any cell", 0.0) and os.environ.get("SQLMETRICS_ALL") != "1"
    (True, False)
    """
    return is_all() or lot(name) < share * 2**32


def is_all() -> bool:
    """Whether every cell is asked for."""
    return os.environ.get("SQLMETRICS_ALL") == "1"


def is_seeded() -> bool:
    """Whether somebody chose the seed."""
    return "SQLMETRICS_SEED" in os.environ


def lot(name: str) -> int:
    """What a name draws in this run, below 2**32."""
    return crc32(f"{seed()} {name}".encode())


def seed() -> str:
    """What chooses this run's slices."""
    return os.environ.get("SQLMETRICS_SEED", "0")


def commit() -> str:
    """The commit that is tested, in short; empty outside a checkout."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    folder = Path(__file__).parent
    completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return completed.stdout.strip()


def kept(matrix: str, values: Iterable[T], share: float, name: Callable[[T], str] = str) -> list[T]:
    """The values of a matrix that belong to this run; one at least.

    Args:
        matrix: its name; two of them keep different values.
        values: all of them.
        share: how many of them, from 0 to 1.
        name: how a value is named; the same in each run.
    """
    all_values = list(values)
    chosen = [value for value in all_values if keep(f"{matrix} {name(value)}", share)]
    return chosen or all_values[:1]
