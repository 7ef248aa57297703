"""Runs -> the text that is printed: medians, the numbers agreed on, and the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median

from benchmarks.agreement import TOLERANCE, agreed
from benchmarks.contenders import METRICS, THREADS, Contender
from benchmarks.data import SHAPES
from benchmarks.measure import Run

HEAD = (
    "contender",
    "CPU s",
    "of which start",
    "of which evaluation",
    "wall s",
    "peak MB",
    "CPU / bare-join",
)


def text(
    rows: int,
    shape: str,
    runs: Sequence[Run],
    present: Sequence[Contender],
    absent: Sequence[Contender],
) -> str:
    """The whole report.

    Args:
        rows: How many rows were ranked.
        shape: How many a query.
        runs: All runs of all contenders, found to agree.
        present: The contenders that ran.
        absent: Those that could not.
    """
    by_name = {
        contender.name: [run for run in runs if run.contender == contender] for contender in present
    }
    times = len(runs) // len(present) if present else 0
    parts = [
        f"{rows:,} rankings rows, {SHAPES[shape].labels(rows):,} labels; {THREADS} threads; "
        f"medians of {times} run{'' if times == 1 else 's'}",
        _table(list(_cells(by_name))),
        "\n".join(f"- {contender.name}: {contender.about}" for contender in present),
        _agreed(runs),
        "\n".join(_left_out(contender) for contender in absent),
        _machine(present),
    ]
    return "\n\n".join(part for part in parts if part)


def _cells(by_name: dict[str, list[Run]]) -> Iterator[tuple[str, ...]]:
    yield HEAD
    bare = [run.cpu for runs in by_name.values() for run in runs if not run.contender.has_metrics]
    for name, runs in by_name.items():
        cpu = median(run.cpu for run in runs)
        yield (
            name,
            f"{cpu:.2f}",
            f"{median(run.start for run in runs):.2f}",
            f"{median(run.alone for run in runs):.2f}",
            f"{median(run.wall for run in runs):.2f}",
            f"{median(run.peak for run in runs):,.0f}",
            f"{cpu / median(bare):.2f}" if bare else "-",
        )


def _table(cells: Sequence[Sequence[str]]) -> str:
    """Markdown with aligned columns: the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [_line(row, widths) for row in cells]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([lines[0], _line(rule, widths), *lines[1:]])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(row, widths, strict=True)
    cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
    return f"| {' | '.join(cells)} |"


def _agreed(runs: Sequence[Run]) -> str:
    """The numbers that all have."""
    rated = [run for run in runs if run.contender.has_metrics]
    if not rated:
        return ""
    means = agreed(rated)
    numbers = ", ".join(f"{metric} {means[metric]:.6f}" for metric in METRICS if metric in means)
    return f"All agree within {TOLERANCE}: {numbers}."


def _left_out(contender: Contender) -> str:
    return f"Left out: {contender.name}; pip install {' '.join(contender.missing)}"


def _machine(present: Sequence[Contender]) -> str:
    packages = sorted({package for contender in present for package in contender.needs.values()})
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return (
        f"{_processor()}, {os.cpu_count()} cores; {platform.platform()}; "
        f"Python {platform.python_version()}, {versions}"
    )


def _processor() -> str:
    """The processor's name, where the system tells it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
