"""A process of its own, and what the system says it took."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

# The system's unit of peak memory: kilobytes on Linux, bytes on macOS.
PEAK_UNIT = 1 if sys.platform == "darwin" else 1024

NO_CACHE = "PYTHONDONTWRITEBYTECODE"
"""With it Python compiles each module whose cache is stale in every process anew."""


@dataclass(frozen=True)
class Usage:
    """CPU seconds of all threads, seconds on the clock, and the peak of memory in bytes."""

    cpu: float
    wall: float
    peak: int


def used(
    command: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any
) -> Usage:
    """Run a command to its end; Python's cache of modules is kept, as on anybody's machine.

    Args:
        command: The program and its arguments.
        environment: Its environment; default: this one.
        options: What `Popen` takes besides.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    variables = os.environ if environment is None else environment
    caching = {name: value for name, value in variables.items() if name != NO_CACHE}
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=caching, **options)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)  # else it is waited for again
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Usage(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * PEAK_UNIT)


def medians(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """A Markdown table of the medians, and of what they are to the first contender's."""
    names = ("cpu", "wall", "peak")
    of = {
        name: [median(run[column] for run in usages) for column in names]
        for name, usages in runs.items()
    }
    base = next(iter(of.values()))
    lines = [
        f"| {name} | {cpu:.2f} | {ratio(cpu, base[0])} | {wall:.2f} | {ratio(wall, base[1])} "
        f"| {peak:,.0f} | {ratio(peak, base[2])} |"
        for name, (cpu, wall, peak) in of.items()
    ]
    head = "| | CPU s | ratio | wall s | ratio | peak MB | ratio |"
    return "\n".join([head, "|---|---:|---:|---:|---:|---:|---:|", *lines])


def ratio(value: float, base: float) -> str:
    """A value over its base, as a cell; `-` where the base was too short for the system's clock."""
    return f"{value / base:.2f}" if base else "-"
