"""Mutants of the SQL templates: one small change each, which the quick tests have to find.

    python tests/mutants.py                 # one mutant a template, drawn by --seed
    python tests/mutants.py --each 3 'clicks/*'

The suite runs once and says which tests print which template. Each mutant then stands in a copy of
the checkout, and those tests run on it until one fails: first a few cheap ones, then the others.
Tests that compare SQL with SQL (golden texts, the README's block) do not count. Prints the mutants
that live, and how many were killed; exits with 1 below --share.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TEXTUAL = ("tests/test_portable.py", "tests/test_docs.py", "tests/test_schema.py")
"""Files whose tests compare texts, or run what others test too."""
FIRST = 12
"""As many cheap tests are tried first."""
PRELOADED = ("duckdb", "jinja2", "pandas", "polars", "pyarrow", "pydantic", "sqlglot")
"""What most tests import."""

CHANGES: Sequence[tuple[str, str]] = (
    (r"(?<![<>=!])<=", "<"),
    (r"(?<![<>=!])>=", ">"),
    (r" < ", " <= "),
    (r" > ", " >= "),
    (r" = ", " <> "),
    (r" <> ", " = "),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r" \* ", " / "),
    (r" / ", " * "),
    (r"\band\b", "or"),
    (r"\bor\b", "and"),
    (r"\bleft join\b", "join"),
    (r"(?<!left )(?<!cross )\bjoin\b", "left join"),
    (r"\bdesc\b", "asc"),
    (r"\basc\b", "desc"),
    (r"\bmin\(", "max("),
    (r"\bmax\(", "min("),
    (r"\bsum\(", "max("),
    (r"\bcount\(", "max("),
    (r"\bdistinct ", ""),
    (r"\bunion all\b", "union"),
    (r"\bis null\b", "is not null"),
    (r"\bis not null\b", "is null"),
    (r"\bnot exists\b", "exists"),
    (r"\bnot in\b", "in"),
    (r"\b1\b", "2"),
    (r"\b0\b", "1"),
    (r"\b0e0\b", "1e0"),
    (r"\b1e0\b", "2e0"),
)


class Trace:
    """A plugin of pytest: which tests print which template, and what they cost.

    Args:
        folder: Where each process writes what it has seen.
    """

    def __init__(self, folder: Path) -> None:
        from jinja2 import Template

        from sqlmetrics.catalog.metric import Metric

        self.folder, self.test = folder, ""
        self.seen: dict[str, set[str]] = defaultdict(set)
        self.cost: Counter[str] = Counter()
        render, sql = Template.render, Metric.sql

        def rendering(template: Any, *args: Any, **view: Any) -> str:
            self.seen[self.test].add(str(template.name))
            return render(template, *args, **view)

        def printing(metric: Any, macro: str, view: object) -> str:
            self.seen[self.test].add(f"metrics/{metric.name}.sql.jinja")
            return sql(metric, macro, view)

        Template.render = rendering  # type: ignore[method-assign]
        Metric.sql = printing  # type: ignore[method-assign]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """From here on templates are printed by this test."""
        self.test = nodeid

    def pytest_runtest_logreport(self, report: Any) -> None:
        """What a test costs."""
        self.cost[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write it down, for this process."""
        seen = {test: sorted(names) for test, names in self.seen.items()}
        text = json.dumps({"seen": seen, "cost": self.cost})
        (self.folder / f"{os.getpid()}.json").write_text(text)


def pytest_configure(config: Any) -> None:
    """Called where pytest is given `-p mutants`."""
    config.pluginmanager.register(Trace(Path(os.environ["SQLMETRICS_TRACE"])), "trace")


@dataclass(frozen=True)
class Mutant:
    """A template with one change.

    Attributes:
        template: Its path below `templates`.
        line: The line of the change, from 1.
        before: The line as it is.
        after: And with the change.
    """

    template: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.template}:{self.line}: {self.before.strip()}  ->  {self.after.strip()}"


def mutants(folder: Path, template: str) -> Iterator[Mutant]:
    """All mutants of a template; comments, headers and Jinja's own lines stay as they are."""
    text = (folder / template).read_text("utf-8")
    header = text.split("#}", 1)[0].count("\n") if text.startswith("{#") else -1
    for number, line in enumerate(text.splitlines()):
        is_jinja = line.strip().startswith(("{%", "{#"))
        if number <= header or line.strip().startswith("--") or is_jinja:
            continue
        for pattern, instead in CHANGES:
            for found in re.finditer(pattern, line):
                inside = re.search(r"\{[{%][^}]*$", line[: found.start()])
                if not inside:
                    after = line[: found.start()] + instead + line[found.end() :]
                    yield Mutant(template, number + 1, line, after)


def traced(arguments: Sequence[str]) -> tuple[Mapping[str, set[str]], Mapping[str, float]]:
    """Template -> the tests that print it; and test -> seconds."""
    with tempfile.TemporaryDirectory() as folder:
        given = os.environ | {"SQLMETRICS_TRACE": folder, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
        command = [sys.executable, "-m", "pytest", "-p", "mutants", *arguments]
        subprocess.run(command, cwd=ROOT, env=given, check=False, stdout=subprocess.DEVNULL)
        tests: dict[str, set[str]] = defaultdict(set)
        cost: Counter[str] = Counter()
        for file in Path(folder).glob("*.json"):
            read = json.loads(file.read_text())
            for test, names in read["seen"].items():
                for name in names if test and not test.startswith(TEXTUAL) else ():
                    tests[name].add(test)
            cost |= Counter(read["cost"])
    return tests, cost


def survives(mutant: Mutant, tests: Sequence[str], folder: Path) -> bool:
    """Whether all tests pass in a copy of the checkout that has the change."""
    file = folder / "templates" / mutant.template
    text = file.read_text("utf-8")
    lines = text.splitlines(keepends=True)
    lines[mutant.line - 1] = mutant.after + "\n"
    file.write_text("".join(lines), "utf-8")
    try:
        return all(_passes(part, folder) for part in (tests[:FIRST], tests[FIRST:]) if part)
    finally:
        file.write_text(text, "utf-8")


def _passes(tests: Sequence[str], folder: Path) -> bool:
    """Run tests in a copy; by a fork, since to import what they need takes longest."""
    for name in PRELOADED:
        with suppress(ImportError):
            import_module(name)
    process = get_context("fork").Process(target=_run, args=(tests, folder))
    process.start()
    process.join()
    return process.exitcode == 0


def _run(tests: Sequence[str], folder: Path) -> None:
    """In the fork: the tests, quietly."""
    import pytest

    os.chdir(folder)
    os.environ["PYTHONPATH"] = f"{folder}:{folder / 'tests'}"
    sys.path[:0] = [str(folder), str(folder / "tests")]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", f"--rootdir={folder}"]
    os._exit(int(pytest.main([*options, *tests])))


def main() -> int:
    """Draw, try, tell."""
    parser = argparse.ArgumentParser(description="Mutants of the SQL templates.")
    parser.add_argument("templates", nargs="*", default=["*"], help="like clicks/*")
    parser.add_argument("--each", type=int, default=1, help="mutants a template")
    parser.add_argument("--seed", default=os.environ.get("SQLMETRICS_SEED", "0"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.98, help="that has to be killed")
    given = parser.parse_args()
    folder = ROOT / "templates"
    names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*.sql.jinja"))
    names = [name for name in names if any(fnmatch(name, one) for one in given.templates)]
    chosen: list[Mutant] = []
    for name in names:
        there = list(mutants(folder, name))
        random.Random(f"{given.seed}/{name}").shuffle(there)
        chosen += there[: given.each]
    tests, cost = traced([])
    with tempfile.TemporaryDirectory() as place:
        copies = [Path(place) / str(number) / "main" for number in range(given.workers)]
        for copy in copies:
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "*.egg-info"))
        free = list(copies)
        control = random.Random(given.seed).sample(sorted(cost), min(40, len(cost)))
        if not _passes([one for one in control if not one.startswith(TEXTUAL)], copies[0]):
            print("tests fail without any change: run pytest first")
            return 2

        def tried(mutant: Mutant) -> str:
            copy = free.pop()
            try:
                order = sorted(tests.get(mutant.template, ()), key=lambda test: cost[test])
                if not order:
                    return "no test prints it"
                return "lives" if survives(mutant, order, copy) else ""
            finally:
                free.append(copy)

        with ThreadPoolExecutor(given.workers) as pool:
            outcomes = list(pool.map(tried, chosen))
    living = [f"{one}: {how}" for one, how in zip(chosen, outcomes, strict=True) if how]
    print("\n".join(living))
    killed = len(chosen) - len(living)
    print(f"{killed} of {len(chosen)} mutants killed ({killed / max(1, len(chosen)):.1%})")
    return int(killed < given.share * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
