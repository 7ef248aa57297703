"""The command line: make the data, run the contenders in turn, compare, print the table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import agreement, chart, contenders, data, measure, report
from benchmarks.contenders import CONTENDERS, Contender


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark; a disagreement between contenders ends it without a table."""
    parser = _parser()
    given = parser.parse_args(arguments)
    present, absent = contenders.split(given.only)
    shape = data.SHAPES[given.shape]
    if given.rows % shape.rows:
        parser.error(f"--rows: give a multiple of {shape.rows}")
    present = tuple(one for one in present if one.can(shape))
    files = data.made(given.rows, given.shape)
    runs: list[measure.Run] = []
    for number in range(given.runs):
        _tell(f"run {number + 1} of {given.runs}: {', '.join(one.name for one in present)}")
        runs += [measure.measured(one, given.shape, files) for one in present]
        agreement.check(runs)
    text = report.text(given.rows, given.shape, runs, present, absent)
    print(text)
    if given.out:
        _tell(chart.written(given.out, given.rows, given.shape, runs, text))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=_rows, default=10_000_000, help="rankings rows")
    parser.add_argument("--shape", choices=list(data.SHAPES), default="usual")
    parser.add_argument("--out", type=Path, help="a folder for the table and a chart of it")
    parser.add_argument("--runs", type=_runs, default=3, help="runs of each contender")
    known = ", ".join(one.name for one in CONTENDERS)
    parser.add_argument("--only", type=_names, default=CONTENDERS, help=f"some of: {known}")
    return parser


def _rows(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("give 1 or more")
    return int(text)


def _runs(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError("give 1 or more")
    return int(text)


def _names(text: str) -> tuple[Contender, ...]:
    names = [name.strip() for name in text.split(",")]
    unknown = sorted(set(names) - {one.name for one in CONTENDERS})
    if unknown:
        known = ", ".join(one.name for one in CONTENDERS)
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {known}")
    return tuple(one for one in CONTENDERS if one.name in names)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
