"""The way of a command through the package: files, functions, calls and statements.

Each command runs once before it is traced, on small data. `python -m benchmarks.trace` prints a
table; `--connection postgresql://...` builds there, and `--statements build` prints what a command
asks of the database.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import sqlmetrics
from sqlmetrics.cli import cli
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.engines.driver import Driver
from sqlmetrics.tables.table import Table

PACKAGE = str(Path(sqlmetrics.__file__).parent) + os.sep
FILES = {
    "runs.csv": "query_id,item_id,score\nq1,a,2\nq1,b,1\nq2,a,1\n",
    "other.csv": "query_id,item_id,score\nq1,a,1\nq1,b,2\nq2,a,1\n",
    "labels.csv": "query_id,item_id,grade\nq1,b,1\nq2,a,2\n",
    "log.csv": "request_id,query,item_id,position,clicked\nr1,q,a,1,0\nr1,q,b,2,1\nr2,q,a,1,1\n",
}
SPEC = """\
version: 1
name: traced
rankings: {relation: trace_runs}
labels: {relation: trace_labels}
metrics: [ndcg@10, recall@10, mrr]
output: {relation: trace_metrics}
checks: [{metric: mrr, min: 0}]
"""
COMMANDS: Mapping[str, Sequence[str]] = {
    "evaluate": ("evaluate", "runs.csv", "labels.csv", "-m", "ndcg@10"),
    "clicks": ("clicks", "log.csv", "-m", "ctr,mrr"),
    "compare": ("compare", "other.csv", "runs.csv", "labels.csv", "-m", "ndcg@10"),
    "build": ("build", "spec.yml", "--connection", "{url}"),
}
"""Command -> its arguments."""


@dataclass
class Trace:
    """What one command went through.

    Attributes:
        calls: Function -> how often it was entered.
        n_switches: How often a function was entered from another room.
        statements: What the database was asked, in order.
        n_described: How often it was asked for the columns of a table.
    """

    calls: Counter[CodeType] = field(default_factory=Counter)
    n_switches: int = 0
    statements: list[str] = field(default_factory=list)
    n_described: int = 0

    def enter(self, frame: FrameType, event: str, _: Any) -> None:
        """Count a call of a function of the package, as `sys.setprofile` tells it."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE) and code.co_name[0] != "<":
            self.calls[code] += 1
            caller = frame.f_back.f_code.co_filename if frame.f_back else ""
            self.n_switches += _room(caller) != _room(code.co_filename)

    @property
    def numbers(self) -> dict[str, int]:
        """What the table has of it."""
        return {
            "files": len({code.co_filename for code in self.calls}),
            "functions": len(self.calls),
            "calls": sum(self.calls.values()),
            "switches of room": self.n_switches,
            "statements": len(self.statements),
            "of columns": self.n_described,
            "comments": sum(text.startswith("comment on") for text in self.statements),
        }


def _room(file: str) -> str:
    return file.removeprefix(PACKAGE).split(os.sep)[0] if file.startswith(PACKAGE) else ""


def traced(command: Callable[[], object]) -> Trace:
    """Run a command, which prints nothing."""
    trace = Trace()
    with (
        _statements(trace),
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):
        sys.setprofile(trace.enter)
        try:
            command()
        finally:
            sys.setprofile(None)
    return trace


@contextmanager
def _statements(trace: Trace) -> Iterator[None]:
    """While the block lasts each statement is added to a trace."""
    watch, describe = Driver._watched, Database.describe

    def watching(driver: Driver, sql: str, *arguments: Any) -> Any:
        trace.statements += [sql.strip()] * (sql != "" and not arguments)
        return watch(driver, sql, *arguments)

    def describing(engine: Database, source: str) -> dict[str, str]:
        trace.n_described += 1
        return describe(engine, source)

    with (
        patch.object(Driver, "_watched", watching),
        patch.object(Database, "describe", describing),
    ):
        yield


def traces(url: str, folder: Path) -> dict[str, Trace]:
    """Each command, the second time that it runs.

    Args:
        url: Of the database that is built in; empty for a new file.
        folder: Where files are written.
    """
    for name, text in {**FILES, "spec.yml": SPEC}.items():
        (folder / name).write_text(text, encoding="utf-8")
    with chdir(folder):
        for number in (1, 2):
            database = url or f"duckdb:///trace_{number}.duckdb"
            trace_by_command = {}
            for command, arguments in COMMANDS.items():
                if command == "build":
                    _load(database)
                words = [word.format(url=database) for word in arguments]
                trace_by_command[command] = traced(lambda words=words: _run(words))  # type: ignore[misc]
    return trace_by_command


def _run(words: Sequence[str]) -> None:
    cli.main(words, standalone_mode=False)


def _load(url: str) -> None:
    """The tables of the spec, and none that a build has made."""
    import pyarrow.csv

    with connect(url, create=True) as engine:
        for schema, name in _built_relations(engine):
            engine.execute(f"drop {schema} if exists {name} cascade")
        for name in ("runs", "labels"):
            engine.execute(f"drop table if exists trace_{name}")
            engine.load(f"trace_{name}", pyarrow.csv.read_csv(f"{name}.csv"))


def _built_relations(engine: Any) -> list[tuple[str, str]]:
    """Kind and name of what a build made."""
    rows = engine.driver.rows(engine.translation.dialect.catalogue.relations)
    relations = [(str(kind), str(name)) for _, name, kind in rows if "trace_metrics" in str(name)]
    return sorted(relations, reverse=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Trace the commands and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace", description=__doc__)
    parser.add_argument("--connection", default="", help="URL of the database that is built in")
    parser.add_argument("--statements", choices=COMMANDS, help="print those of a command")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        trace_by_command = traces(options.connection, Path(folder))
    if options.statements:
        statements = trace_by_command[options.statements].statements
        print("\n".join(" ".join(text.split()) for text in statements))
        return
    numbers = {command: trace.numbers for command, trace in trace_by_command.items()}
    names = ["command", *numbers["evaluate"]]
    rows = [[command, *(f"{n:,}" for n in row.values())] for command, row in numbers.items()]
    print(Table(names, rows, 1).text())


if __name__ == "__main__":
    main()
