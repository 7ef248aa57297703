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
    options = parser.parse_args(arguments)
    present, absent = contenders.split(options.only)
    shape = data.SHAPES[options.shape]
    if options.rows % shape.rows:
        parser.error(f"--rows: give a multiple of {shape.rows}")
    present = tuple(contender for contender in present if contender.can(shape))
    files = data.files_of(options.rows, options.shape)
    runs: list[measure.Run] = []
    for number in range(options.runs):
        names = ", ".join(contender.name for contender in present)
        _tell(f"run {number + 1} of {options.runs}: {names}")
        runs += [measure.measured(contender, options.shape, files) for contender in present]
        agreement.check(runs)
    text = report.text(options.rows, options.shape, runs, present, absent)
    print(text)
    if options.out:
        _tell(chart.write(options.out, options.rows, options.shape, runs, text))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=_rows, default=10_000_000, help="rankings rows")
    parser.add_argument("--shape", choices=list(data.SHAPES), default="usual")
    parser.add_argument("--out", type=Path, help="a folder for the table and a chart of it")
    parser.add_argument("--runs", type=_runs, default=3, help="runs of each contender")
    names = ", ".join(contender.name for contender in CONTENDERS)
    parser.add_argument("--only", type=_names, default=CONTENDERS, help=f"some of: {names}")
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
    unknown = sorted(set(names) - {contender.name for contender in CONTENDERS})
    if unknown:
        contenders = ", ".join(contender.name for contender in CONTENDERS)
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {contenders}")
    return tuple(contender for contender in CONTENDERS if contender.name in names)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
