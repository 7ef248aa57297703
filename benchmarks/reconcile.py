"""Which share of the numbers of others `reconcile` names in its first three lines, and how fast.

`python -m benchmarks.reconcile --seed 7` makes new data, asks the queries of
`benchmarks.hand_written` and `hand_written_more` and the tools that are installed, prints each
number as people copy it, and gives it to `reconcile` with nothing else. A line names a number if
it says what stands beside the query, or has the tool's preset.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pyarrow as pa

import sqlmetrics as sm
from benchmarks.hand_written import QUERIES, Written
from benchmarks.hand_written_more import MORE_QUERIES
from sqlmetrics.proof.reconcile.result import Candidate

LINES = 3
QUERY_COUNT = 60

Tables = tuple[pa.Table, pa.Table]


@dataclass(frozen=True)
class Attempt:
    """One number: what it is called, whether it was named, in which seconds, and the text."""

    name: str
    is_named: bool
    seconds: float
    text: str


def world(seed: int) -> Tables:
    """Lists of 3 to 30 items with some equal scores, grades to 3, queries without list or hit."""
    rng = random.Random(seed)
    runs: list[dict[str, Any]] = []
    truth: list[dict[str, Any]] = []
    for number in range(QUERY_COUNT):
        query = {"query_id": f"q{number:03d}"}
        pool = [f"d{item:04d}" for item in rng.sample(range(5000), 60)]
        if rng.random() < 0.9:
            country = rng.choice(["at", "de", "de", "de", "ch"])
            for item in rng.sample(pool, rng.randint(3, 30)):
                score = round(rng.random(), rng.choice([1, 6]))
                runs.append(query | {"item_id": item, "score": score, "country": country})
        if rng.random() < 0.95:
            for item in rng.sample(pool, rng.randint(4, 30)):
                grade = rng.choice([0.0, 0.0, 1.0, 1.0, 2.0, 3.0])
                truth.append(query | {"item_id": item, "grade": grade})
    return pa.Table.from_pylist(runs), pa.Table.from_pylist(truth)


def hand_written(seed: int, count: int) -> Iterator[Attempt]:
    """The numbers of the first so many queries."""
    tables = world(seed)
    for name, query in islice({**QUERIES, **MORE_QUERIES}.items(), count):
        yield _attempt(name, query, tables)


def _attempt(name: str, query: Written, tables: Tables) -> Attempt:
    start = time.perf_counter()
    try:
        reconciliation = reconciled_of(query, tables)
    except sm.SpecError as error:
        return Attempt(name, False, time.perf_counter() - start, str(error))
    seconds = time.perf_counter() - start
    return Attempt(name, names(reconciliation, query), seconds, str(reconciliation))


def reconciled_of(query: Written, tables: Tables, digits: int = 0) -> sm.Reconciliation:
    """What `reconcile` says of a query's number, printed as people do or to more digits."""
    with duckdb.connect() as connection:
        for name, table in zip(("runs", "truth"), tables, strict=True):
            connection.register(name, table)
        number = connection.sql(query.sql).fetchall()[0][0]
    is_exact = digits and query.printed == Written.printed and "trunc" not in query.sql
    printed = f"{number:.{digits}f}" if is_exact else query.printed.format(number)
    by = {"by": "country"} if "averaged_averages" in query.is_mistake else {}
    return sm.reconcile(*tables, query.called, printed, **by)


def names(reconciliation: sm.Reconciliation, query: Written) -> bool:
    """Whether its first lines say what the number is."""
    if "percent" in query.departs:
        return any("percent" in note for note in reconciliation.notes)
    return any(_names(line, query) for line in reconciliation.candidates[:LINES])


def _names(line: Candidate, query: Written) -> bool:
    departures = {f"{option}={value}" for option, value in line.departures.items()}
    departures |= {"cut"} if line.cut else set()
    return (
        bool({*line.mistakes} & {*query.is_mistake})
        or any(re.search(rf"[ (]{re.escape(m)}[,): ]", line.words) for m in query.is_metric)
        or bool(departures & {*query.departs})
        or (query.is_right and bool(line.presets) and not line.distance)
    )


def tools(seed: int, count: int) -> Iterator[Attempt]:
    """Numbers of the tools that are installed, as many in all."""
    os.environ["SQLMETRICS_SEED"] = f"benchmark {seed}"
    tests = Path(__file__).parents[1] / "tests"
    sys.path[:0] = [str(tests), str(tests / "proof")]
    from live_tools import LIVE  # the tests' own adapters of tools
    from tool_numbers import is_first, named, numbers

    installed = [compared for compared in LIVE if _is_installed(compared)]
    print(f"tools: {', '.join(map(str, installed))}", file=sys.stderr)
    streams = [numbers(compared) for compared in installed]
    for number in range(count):
        compared = installed[number % len(installed)]
        metric, value, printed, rankings, labels = next(streams[number % len(installed)])
        start = time.perf_counter()
        reconciliation = sm.reconcile(rankings, labels, metric, printed)
        seconds = time.perf_counter() - start
        is_named = is_first(
            [named(line, compared, metric, value) for line in reconciliation.candidates],
            reconciliation,
        )
        yield Attempt(f"{compared} {metric}", is_named, seconds, str(reconciliation))


def _is_installed(compared: Any) -> bool:
    try:
        compared.adapter.version()
    except BaseException as error:  # a skipped test is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return False
    return True


def main() -> None:
    """Print the shares and seconds, and the text of each number that was not named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reconcile", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--queries", type=int, default=80, help="how many numbers of queries")
    parser.add_argument("--tools", type=int, default=100, help="how many numbers of tools")
    parser.add_argument("--verbose", action="store_true", help="the text of what was missed")
    arguments = parser.parse_args()
    print("| numbers | asked | named in the first three lines | median s | longest s |")
    print("|---|---:|---:|---:|---:|")
    groups = {"hand-written SQL": hand_written(arguments.seed, arguments.queries)}
    if arguments.tools:
        groups["live tools"] = tools(arguments.seed, arguments.tools)
    missed: list[Attempt] = []
    seconds_by_name: list[tuple[str, float]] = []
    for group, stream in groups.items():
        answers = list(stream)
        seconds = [answer.seconds for answer in answers]
        n_named = sum(answer.is_named for answer in answers)
        share = f"{n_named} ({n_named / len(answers):.0%})"
        print(
            f"| {group} | {len(answers)} | {share} | {median(seconds):.1f} | {max(seconds):.1f} |"
        )
        seconds_by_name += [(answer.name, answer.seconds) for answer in answers]
        missed += [answer for answer in answers if not answer.is_named]
    if arguments.verbose:
        print(f"\nlongest: {max(seconds_by_name, key=lambda pair: pair[1])}")
    for answer in missed:
        print(f"\nnot named: {answer.name}" + (f"\n{answer.text}" if arguments.verbose else ""))


if __name__ == "__main__":
    main()
