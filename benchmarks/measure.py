"""One run of one contender: a process of its own, and what the system says it took.

The system counts the CPU time of all threads and the peak of memory, from the start of
Python to the end of the process; the process itself tells how much of that was its start.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.contenders import CONTENDERS, THREADS, Contender
from benchmarks.data import SHAPES, Files
from benchmarks.process import used


@dataclass(frozen=True)
class Run:
    """What one process gave and took.

    Attributes:
        contender: Whose it was.
        means: The numbers that it gave.
        cpu: Seconds of user and system time.
        start: How many of these Python and the imports took.
        alone: How many the evaluation took, once what it needs was made of the files.
        wall: Seconds on the clock.
        peak: The most memory that it held, in MB.
    """

    contender: Contender
    means: Mapping[str, float]
    cpu: float
    start: float
    alone: float
    wall: float
    peak: float


def measured(contender: Contender, shape: str, files: Files) -> Run:
    """Run a contender once.

    Raises:
        CalledProcessError: If it fails; what it said went to standard error.
    """
    with TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "benchmarks.measure", contender.name, shape]
        command += [str(files.rankings), str(files.labels), str(answer)]
        environment = os.environ | {"POLARS_MAX_THREADS": str(THREADS)}
        usage = used(command, environment)
        report = json.loads(answer.read_text())
    cpu, start = usage.cpu, report["start"]
    alone = cpu - report.get("before", start)
    return Run(contender, report["means"], cpu, start, alone, usage.wall, usage.peak / 1e6)


def _cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def run(name: str, shape: str, rankings: str, labels: str, answer: str) -> None:
    """Inside the process: compute the means and write them down."""
    contender = next(candidate for candidate in CONTENDERS if candidate.name == name)
    module = import_module(f"benchmarks.contenders.{contender.module}")
    if hasattr(module, "prepare"):
        module.prepare(**contender.options)
    report = {"start": _spent()}
    tables: tuple[object, object] = rankings, labels
    if hasattr(module, "read"):
        tables = module.read(rankings, labels, SHAPES[shape])
        report["before"] = _spent()
    means = module.means(*tables, SHAPES[shape], **contender.options)
    Path(answer).write_text(json.dumps({**report, "means": means}))


def _spent() -> float:
    return _cpu(resource.getrusage(resource.RUSAGE_SELF))


if __name__ == "__main__":
    run(*sys.argv[1:])
