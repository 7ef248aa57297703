"""Mutants of the SQL templates: one small change each, which the quick tests have to find.

    python tests/mutants.py                       # some mutants a template, drawn by --seed
    python tests/mutants.py --each 99 'clicks/*'  # all of some templates
    python tests/mutants.py --tests tests/comparison 'comparison/*'  # by these tests alone: fast
    python tests/mutants.py --doubt               # is what EQUIVALENT names found after all?

All happens in one process, in a copy of the checkout. The tests are collected once, and run once to
see which of them print which lines of which template. Each mutant then stands in the copy, and a
fork of the process runs the tests that print the changed line, one cell of each test first and the
cheap ones before the others, until one fails or --limit CPU seconds are over.

Tests that compare SQL with SQL (golden texts, the README's block) do not count, and neither do
those that need another engine than DuckDB and SQLite; what PostgreSQL alone can run has a test
`APART`. Prints every mutant with the test that found it; exits with 1 if a smaller share than
--share was found, or is known to be `EQUIVALENT`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from functools import _lru_cache_wrapper
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEXTUAL = ("tests/sql/test_portable.py", "tests/test_docs.py", "tests/spec/test_schema.py")
"""Files whose tests compare texts, or run what others test too."""
BY_LOT = ("tests/test_seams.py", "tests/proof/test_explain.py")
"""Files of many slow cells, of which a tenth is enough."""
NEAR = {"duckdb", "sqlite"}
"""Engines that need no server."""
APART = {
    "jobs/grown.sql.jinja": "tests/jobs/test_job_views.py::test_each_row_of_each_view[postgres]"
}
"""Template that only a server can run -> its test, in a process of its own that ends the server."""
HANGS = 10
"""A test has found a mutant if it takes as many times what it took, and as many seconds more."""

PARAMETERS = (
    *("all_varchar", "auto_detect", "columns", "comment", "delim", "escape", "header"),
    *("hive_partitioning", "hive_types_autocast", "maximum_depth", "quote", "sample_size"),
    *("skip", "strict_mode", "union_by_name"),
)
OF_NO_PARAMETER = "".join(rf"(?<!\b{name})" for name in PARAMETERS)
"""Where readers of files are told something, `=` compares nothing."""

CHANGES: Sequence[tuple[str, str]] = (
    (r"(?<![<>=!])<=", "<"),
    (r"(?<![<>=!])>=", ">"),
    (r" < ", " <= "),
    (r" > ", " >= "),
    (rf"{OF_NO_PARAMETER} = ", " <> "),
    (r" <> ", " = "),
    (r" \+ ", " - "),
    (r" - ", " + "),
    (r" \* (?!replace|exclude)", " / "),
    (r" / ", " * "),
    (r"\band\b", "or"),
    (r"\bor\b(?! replace)", "and"),
    (r"\bleft join\b", "inner join"),
    (r"\binner join\b", "left join"),
    (r"\bsemi join\b", "anti join"),
    (r"\banti join\b", "semi join"),
    (r"\bdesc\b", "asc"),
    (r"\basc\b", "desc"),
    (r"\bmin\(", "max("),
    (r"\bmax\(", "min("),
    (r"\bsum\(", "max("),
    (r"\bcount\(\*\)", "max(1)"),
    (r"\bcount\((?!\*)", "max("),
    (r"\bdistinct ", ""),
    (r"\bunion all\b", "union"),
    (r"\bis null\b", "is not null"),
    (r"\bis not null\b", "is null"),
    (r"\bnot exists\b", "exists"),
    (r"\bnot in\b", "in"),
    (r"\btrue\b", "false"),
    (r"\bfalse\b", "true"),
    (r"\b(trim|lower|nullif)\(", "coalesce("),  # its first argument, as it is
    (r"\bcoalesce\(", "nullif("),
    (r"\b1\b", "2"),
    (r"\b0\b", "1"),
    (r"\b0e0\b", "1e0"),
    (r"\b1e0\b", "2e0"),
)

UNCHANGED = ("{%", "{#", "--", "select 1")
"""Lines that begin so stay as they are: Jinja's own, comments, and rows of which none is read."""

EQUIVALENT: Sequence[tuple[str, str, str, str]] = (
    ("checks/collation", "union all", "union", "three different texts"),
    ("checks/in_common", "limit 1", "limit 2", "asked is whether there is a row"),
    ("checks/meeting", "sum(", "max(", "asked is whether it is 0"),
    ("checks/meeting", "else 1 end", "else 2 end", "asked is whether it is 0"),
    ("clicks/chosen_requests", "union all", "union", "asked is which requests are among them"),
    (
        "clicks/chosen_requests",
        "and {{ condition }}",
        "or {{ condition }}",
        "more are read, and left out",
    ),
    (
        "clicks/duplicated_requests",
        "inner join",
        "left join",
        "more are looked at, and found to be without a copy",
    ),
    (
        "clicks/numbered_copies",
        "inner join",
        "left join",
        "more are looked at, and stay as they are",
    ),
    (
        "clicks/evaluated_impressions",
        "inner join",
        "left join",
        "each request is among those asked",
    ),
    ("clicks/online", "union all", "union", "each has another segment, and is grouped"),
    ("clicks/item_ranks", "max(case", "min(case", "an item stands once in a list"),
    (
        "clicks/clean_impressions",
        "union all",
        "union",
        "of repeated rows one is left, and no other is the same",
    ),
    ("clicks/chosen_requests", "distinct ", "", "asked is which requests are among them"),
    ("clicks/compared", "inner join", "left join", "each row is of one of these requests"),
    ("clicks/rate_quantiles", "* 1e0", "/ 1e0", "1 is 1 either way"),
    ("clicks/simulation/fates", "luck < ", "luck <= ", "no draw is just that share"),
    ("clicks/simulation/actions", "< {{", "<= {{", "no draw is just that share"),
    ("clicks/clean_impressions", "distinct ", "", "asked is who is not there"),
    ("clicks/totals", "union all", "union", "each has another reason, and is grouped"),
    ("clicks/compared", "< {{ k }}", "<= {{ k }}", "of two equal numbers either is the less"),
    ("plan/directions", "inner join", "left join", "no sum counts a NULL"),
    ("plan/query_systems", "union all", "union", "each is there once, with another flag"),
    ("plan/metric_values.inlined", "union all", "union", "each has another place"),
    ("plan/global_metrics", "union all", "union", "each has another metric, and is grouped"),
    ("plan/list_checks", "0 as n_gaps", "1 as n_gaps", "one look more, which finds nothing"),
    ("plan/list_checks", "sum(n_bad)", "max(n_bad)", "asked is whether it is 0"),
    ("plan/list_checks", "<= {{", "< {{", "more bits tell the items of such a list apart too"),
    ("plan/list_checks", "> bit_count", ">= bit_count", "more lists are sorted"),
    ("plan/segments", "union all", "union", "each has another segment, and is grouped"),
    (
        "inputs/csv_names",
        "varchar = true",
        "varchar = false",
        "a_1 is never read as a number",
    ),
    ("plan/tallies", "inner join", "left join", "its condition asks for a column of theirs"),
    ("plan/ranks_of_lists", "union all", "union", "each has another list, and its ranks once"),
    ("plan/open_lists", "distinct ", "", "asked is which lists are among them"),
    ("comparison/digits", "union all", "union", "no digit is twice"),
    ("comparison/pairs", "inner join", "left join", "a difference to nothing is left out"),
    ("jobs/daily_change", "inner join", "left join", "each row is of one of these days"),
    ("jobs/daily_change", "> 1", ">= 1", "before the first day there is none"),
    ("jobs/daily_change", "max(metric", "min(metric", "of one row"),
    ("jobs/daily_change", "between 1", "between 2", "of two days the last one is the maximum"),
    ("jobs/online", "union all", "union", "each has another metric"),
    ("jobs/mistakes", "union all", "union", "asked is whether there is one, and for the first"),
    ("jobs/guarded", "min(mistake", "max(mistake", "any of the mistakes may be the one told"),
    ("metrics/gini", "/ nullif(", "/ coalesce(", "a list shows an item, so that it is never 0"),
    ("metrics/overlap", "sum(", "max(", "of a list one row is not 0"),
    ("proof/orders", "union all", "union", "each has another rule"),
    ("annotation/allocation", "union all", "union", "each is of another stratum"),
    ("annotation/lots", "inner join", "left join", "no place is within a size that is NULL"),
    ("annotation/ungraded", "}} asc", "}} desc", "a set is made of them"),
    ("annotation/unlabelled", "coalesce(", "nullif(", "asked is whether it is 0 or NULL"),
    ("annotation/no_labels", "1 = 0", "2 = 0", "no row meets either"),
    ("annotation/no_labels", "1 = 0", "1 <> 0", "a row of NULLs is no item's label"),
    ("annotation/no_labels", "1 = 0", "1 = 1", "a row of NULLs is no item's label"),
    ("clicks/simulation/listed_items", "inner join", "left join", "each request has a list"),
    ("clicks/simulation/request_draws", "< {{ zero", "<= {{ zero", "no draw is just that share"),
    ("inputs/json_names", "distinct ", "", "a set is made of them"),
    ("inputs/json_types", "autocast = false", "autocast = true", "no name of a folder is a list"),
    ("inputs/parquets_gaps", "(select distinct file", "(select file", "grouped, and a minimum"),
    ("inputs/parquets_gaps", "(select distinct name", "(select name", "grouped, and a minimum"),
    ("inputs/trec_labels", "detect = false", "detect = true", "one column, whose format is told"),
    ("inputs/trec_rankings", "detect = false", "detect = true", "one column, whose format is told"),
)
"""Template, a part of a line, what it is in a mutant, and why no test can find that one."""


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

    @property
    def equivalent(self) -> str:
        """Why it is the same as the template; empty if it is not known to be."""
        return next((why for *row, why in EQUIVALENT if self.is_named(*row)), "")

    def is_named(self, template: str, before: str, after: str) -> bool:
        """Whether a row of `EQUIVALENT` means it."""
        if self.template != f"{template}.sql.jinja" or before not in self.before:
            return False
        return self.before.replace(before, after, 1) == self.after


def mutants(folder: Path, template: str) -> Iterator[Mutant]:
    """All mutants of a template; its header stays as it is."""
    text = (folder / template).read_text("utf-8")
    header = text.split("#}", 1)[0].count("\n") if text.startswith("{#") else -1
    for number, line in enumerate(text.splitlines()):
        if number <= header or line.strip().startswith(UNCHANGED):
            continue
        for pattern, instead in CHANGES:
            for match in re.finditer(pattern, line):
                inside = re.search(r"\{[{%][^}]*$", line[: match.start()])
                if not inside:
                    after = line[: match.start()] + instead + line[match.end() :]
                    yield Mutant(template, number + 1, line, after)


@dataclass
class Traced:
    """What a run of all tests without any change has told.

    Attributes:
        lines: Template -> its lines by which it is recognized -> the tests that print them.
        readers: Template -> the tests that read it.
        cost: Test -> seconds.
        failed: Tests that fail as it is.
    """

    lines: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    readers: dict[str, list[str]] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def tests(self, mutant: Mutant, kills: Mapping[str, int]) -> list[str]:
        """Those that can find a mutant: a cell of each test, then the next ones; cheap ones first.

        Where no test is known to print the line (it may be a part of Jinja's expression), those
        that read the template.

        Args:
            mutant: The mutant.
            kills: Test without its cell -> mutants of this folder that it has found; the more, the
                sooner its other cells have their turn.
        """
        lines = self.lines.get(mutant.template, {})
        candidates = lines.get(recognized(mutant.before)) or self.readers.get(mutant.template, [])
        cells: Counter[str] = Counter()
        order = []
        for test in sorted(candidates, key=lambda nodeid: (self.cost.get(nodeid, 0), nodeid)):
            name = test.partition("[")[0]
            turn = cells[name] / (1 + kills.get(name, 0))
            order.append((turn, self.cost.get(test, 0), test))
            cells[name] += 1
        return [test for *_, test in sorted(order)]


def recognized(line: str) -> str:
    """The longest part of a line that Jinja prints as it is.

    >>> recognized("    and {{ column }} = other.query_id{{ ',' if more }}")
    '= other.query_id'
    """
    return max((part.strip() for part in re.split(r"\{[{%].*?[}%]\}", line)), key=len)


class Tracer:
    """A plugin of pytest: which tests print which lines of the templates, and what they cost.

    What a fixture of a module or session prints counts for all tests that ask for it.

    Args:
        folder: The templates.
        items: The tests.
    """

    def __init__(self, folder: Path, items: Sequence[pytest.Item]) -> None:
        from jinja2 import Environment, Template

        from sqlmetrics.catalog.metric import Metric

        self.items = items
        self.doing = ""
        self.read: list[str] = []
        self.printed: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self.traced = Traced()
        names = [str(file.relative_to(folder)) for file in folder.rglob("*.sql.jinja")]
        self.parts = {
            name: {recognized(mutant.before) for mutant in mutants(folder, name)} - {""}
            for name in names
        }
        find, render, sql = Environment.get_template, Template.render, Metric.sql

        def finding(environment: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            self.read.append(str(name))
            return find(environment, name, *args, **kwargs)

        def rendering(template: Any, *args: Any, **view: Any) -> str:
            self.read = [str(template.name)]
            return self.record(render(template, *args, **view))

        def printing(metric: Any, macro: str, view: object) -> str:
            text = sql(metric, macro, view)
            self.read = [f"metrics/{metric.name}.sql.jinja"]
            return self.record(text)

        Environment.get_template = finding  # type: ignore[method-assign]
        Template.render = rendering  # type: ignore[method-assign]
        Metric.sql = printing  # type: ignore[method-assign]

    def record(self, text: str) -> str:
        """Note the lines of the templates that were read for a text."""
        mine = self.printed[self.doing]
        for name in set(self.read):
            mine.add((name, ""))
            mine |= {(name, part) for part in self.parts.get(name, ()) if part in text}
        return text

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """From here on templates are printed by this test."""
        self.doing = nodeid

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:
        """Meanwhile they are by a fixture, if other tests have it too."""
        before = self.doing
        if fixturedef.scope != "function":
            self.doing = f"fixture {fixturedef.baseid} {fixturedef.argname}"
        try:
            return (yield)
        finally:
            self.doing = before

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What a test costs, and whether it fails."""
        cost = self.traced.cost
        seconds = getattr(report, "cpu", report.duration)  # of the suite's own plugin
        cost[report.nodeid] = cost.get(report.nodeid, 0) + seconds
        if report.failed:
            self.traced.failed.append(report.nodeid)

    def result(self) -> Traced:
        """All of it, by template."""
        for item in self.items:
            for name in getattr(item, "fixturenames", ()):
                bases = {"", item.nodeid.partition("::")[0], str(Path(item.nodeid).parent)}
                for base in bases:
                    with suppress(KeyError):
                        self.printed[item.nodeid] |= self.printed[f"fixture {base} {name}"]
        for item in self.items:
            for template, line in sorted(self.printed.get(item.nodeid, ())):
                if line:
                    lines = self.traced.lines.setdefault(template, {})
                    lines.setdefault(line, []).append(item.nodeid)
                else:
                    self.traced.readers.setdefault(template, []).append(item.nodeid)
        return self.traced


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    Attributes:
        mutant: The mutant.
        status: `killed`, `equivalent` or `lived`.
        by: The test that found it, or why none did.
        seconds: What that took.
    """

    mutant: Mutant
    status: str
    by: str
    seconds: float = 0


class Mutating:
    """A plugin of pytest that runs the collected tests on mutants, each in a fork.

    Args:
        checkout: The copy of the checkout.
        sample: The mutants.
        limit: Seconds for one of them.
        kept: Where the trace is read from, if it is there, or else written to.
        doubt: Whether mutants that are said to be equivalent are tried too.
    """

    def __init__(
        self, checkout: Path, sample: Sequence[Mutant], limit: float, kept: Path, *, doubt: bool
    ) -> None:
        self.checkout, self.sample, self.limit, self.kept = checkout, sample, limit, kept
        self.doubt = doubt
        self.progress = checkout.parent / "progress"
        self.sound: set[str] = set()
        self.kills: dict[str, Counter[str]] = defaultdict(Counter)
        self.outcomes: list[Outcome] = []
        self.traced = Traced()
        self.items: dict[str, pytest.Item] = {}

    def pytest_configure(self) -> None:
        """Every cell, not a slice. That an example fails is enough: it need not be small."""
        os.environ["SQLMETRICS_ALL"] = "1"
        from hypothesis import Phase, settings

        settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate])
        settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what needs a server, and what compares texts."""
        items[:] = [
            item
            for item in items
            if not item.nodeid.startswith(TEXTUAL)
            and (not item.nodeid.startswith(BY_LOT) or crc32(item.nodeid.encode()) % 10 == 0)
            and {str(mark.args[0]) for mark in item.iter_markers("xdist_group")} <= NEAR
        ]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of the tests: all of them once, then some of them on each mutant."""
        del os.environ["SQLMETRICS_ALL"]  # every cell is here; each has one thread, as in pytest
        self.items = {item.nodeid: item for item in session.items}
        began = time.monotonic()
        self.traced = self.trace()
        print(f"{len(self.items)} tests print templates: {time.monotonic() - began:.0f} s")
        if self.traced.failed:
            return True
        for mutant in self.sample:
            outcome = self.tried(mutant)
            self.outcomes.append(outcome)
            by = outcome.by.removeprefix("tests/")
            print(f"{outcome.status:10} {outcome.seconds:5.1f} s  {mutant}  [{by}]", flush=True)
        return True

    def trace(self) -> Traced:
        """Run all tests without a change, in a fork too: this process must not know their work."""
        if not self.kept.is_file():

            def tracing() -> int:
                items = list(self.items.values())
                tracer = Tracer(self.checkout / "templates", items)
                items[0].config.pluginmanager.register(tracer, "tracer")
                for item, following in zip(items, [*items[1:], None], strict=True):
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                self.kept.write_text(json.dumps(asdict(tracer.result())))
                return 0

            forked(tracing)
        return Traced(**json.loads(self.kept.read_text()))

    def tried(self, mutant: Mutant) -> Outcome:
        """What becomes of a mutant."""
        if (why := mutant.equivalent) and not self.doubt:
            return Outcome(mutant, "equivalent", why)
        began = time.monotonic()
        kills = self.kills[mutant.template.partition("/")[0]]
        apart = APART.get(mutant.template, "")
        tests = [test for test in self.traced.tests(mutant, kills) if test in self.items]
        tests = [apart] if apart else tests
        file = self.checkout / "templates" / mutant.template
        text = file.read_text("utf-8")
        lines = text.splitlines(keepends=True)
        lines[mutant.line - 1] = mutant.after + "\n"
        while True:
            file.write_text("".join(lines), "utf-8")
            try:
                code = self.ended(tests)
            finally:
                file.write_text(text, "utf-8")
            seconds = time.monotonic() - began
            last = self.progress.read_text()
            if code in (KILLED, *HUNG):
                if self.is_sound(last):
                    kills[last.partition("[")[0]] += 1
                    return Outcome(mutant, "killed", last + " (hangs)" * (code in HUNG), seconds)
                tests.remove(last)
                continue
            why = f"{len(tests)} tests pass" if tests else "no test prints it"
            why = f"by the limit, after {last} of {len(tests)} tests" if code == LATE else why
            return Outcome(mutant, "lived", why, seconds)

    def is_sound(self, test: str) -> bool:
        """Whether a test passes by itself where nothing is changed."""
        if test not in self.sound and self.ended([test]) == PASSED:
            self.sound.add(test)
        return test in self.sound

    def ended(self, tests: Sequence[str]) -> int:
        """How tests end on the templates as they are in the copy now."""
        if {*tests} & {*APART.values()}:
            return self.run_apart(*tests)
        return forked(lambda: self.run(tests, self.limit))

    def run_apart(self, test: str) -> int:
        """In another process: a test that fails if its server is not here."""
        options = ["-q", "-n", "0", "-m", "not nightly", "-p", "no:cacheprovider"]
        command = [sys.executable, "-m", "pytest", *options, f"--rootdir={self.checkout}", test]
        environment = os.environ | {"REQUIRE_ENGINES": "1"}
        completed = subprocess.run(
            command, cwd=self.checkout, env=environment, capture_output=True, check=False
        )
        self.progress.write_text(test)
        return KILLED if completed.returncode else PASSED

    def run(self, tests: Sequence[str], limit: float) -> int:
        """In the fork: tests until one fails, or the time is over."""
        failures: list[str] = []

        class Watch:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                failures.extend([report.nodeid] * report.failed)

        forget()
        self.progress.write_text("0")
        began = spent()
        for number, test in enumerate(tests):
            if spent() - began > limit:
                self.progress.write_text(str(number))
                return LATE
            item = self.items[test]
            if not number:
                item.config.pluginmanager.register(Watch(), "watch")
            self.progress.write_text(test)
            most = HANGS * (1 + self.traced.cost.get(test, 0))
            signal.setitimer(signal.ITIMER_PROF, most)
            signal.alarm(int(HANGS * most))  # waits, and does nothing
            following = self.items[tests[number + 1]] if number + 1 < len(tests) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if failures:
                return KILLED
        return PASSED


PASSED, KILLED, LATE = 0, 1, 3
"""How a fork ends: no test fails, one does, the time is over."""
HUNG = (-signal.SIGPROF, -signal.SIGALRM)
"""Or a test takes far too long."""


def spent() -> float:
    """CPU seconds of this process and of its children that have ended: a busy machine adds none."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def forked(work: Callable[[], int]) -> int:
    """What some work returns in a fork of this process, which says nothing; or minus its signal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        code = 2
        try:
            os.setpgid(0, 0)  # what its tests start ends with it
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            code = work()
        finally:
            os._exit(code)
    try:
        _, status = os.waitpid(child, 0)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


def forget() -> None:
    """Forget what was made of the templates while tests were collected."""
    for tracked in gc.get_objects():
        if isinstance(tracked, _lru_cache_wrapper) and tracked.__module__.startswith("sqlmetrics."):
            tracked.cache_clear()


def draw(folder: Path, templates: Sequence[str], per_template: int, seed: str) -> list[Mutant]:
    """Some mutants of each template, by a seed."""
    names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*.sql.jinja"))
    sample = []
    for name in names:
        if any(fnmatch(name, pattern) for pattern in templates):
            candidates = list(mutants(folder, name))
            random.Random(f"{seed}/{name}").shuffle(candidates)
            sample += candidates[:per_template]
    return sample


def stale(folder: Path) -> list[tuple[str, str, str, str]]:
    """What `EQUIVALENT` names and no template has."""
    every = draw(folder, ["*"], sys.maxsize, "")
    return [row for row in EQUIVALENT if not any(mutant.is_named(*row[:3]) for mutant in every)]


def collected(checkout: Path, plugin: Mutating, only: Sequence[str]) -> None:
    """Start pytest in a copy, where the plugin takes over; of some tests, or of all."""
    os.chdir(checkout)
    os.environ["PYTHONPATH"] = f"{checkout}:{checkout / 'tests'}"
    tests = checkout / "tests"
    rooms = (tests / name for name in ("comparison", "jobs", "proof", "spec"))
    sys.path[:0] = [str(checkout), str(tests), *map(str, rooms)]
    options = ["-q", "-s", "-n", "0", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    folders = [f"--rootdir={checkout}", f"--basetemp={checkout.parent / 'tmp'}"]
    pytest.main([*options, *folders, *only], plugins=[plugin])


def summary(outcomes: Sequence[Outcome], seconds: float) -> str:
    """The figures."""
    counts = Counter(outcome.status for outcome in outcomes)
    templates = {outcome.mutant.template for outcome in outcomes}
    figures = ", ".join(
        f"{counts[status]} {status}" for status in ("killed", "equivalent", "lived")
    )
    return f"{len(templates)} templates, {len(outcomes)} mutants: {figures}; {seconds:.0f} s"


def main() -> int:
    """Draw, try, tell."""
    parser = argparse.ArgumentParser(description="Mutants of the SQL templates.")
    parser.add_argument("templates", nargs="*", default=["*"], help="like clicks/*")
    parser.add_argument("--each", type=int, default=2, help="mutants a template")
    parser.add_argument("--seed", default=os.environ.get("SQLMETRICS_SEED", "0"))
    parser.add_argument("--limit", type=float, default=60, help="CPU seconds for a mutant")
    parser.add_argument("--share", type=float, default=0.98, help="that has to be found")
    parser.add_argument("--doubt", action="store_true", help="try those of EQUIVALENT, alone")
    parser.add_argument("--tests", default="", help="folders or files of tests, behind commas")
    parser.add_argument("--trace", type=Path, help="a file that keeps what all tests print")
    arguments = parser.parse_args()
    began = time.monotonic()
    folder = ROOT / "templates"
    if gone := stale(folder):
        print("EQUIVALENT names what no mutant is; take these rows out:", *gone, sep="\n")
        return 2
    per_template = sys.maxsize if arguments.doubt else arguments.each
    sample = draw(folder, arguments.templates, per_template, arguments.seed)
    if arguments.doubt:
        sample = [mutant for mutant in sample if mutant.equivalent]
    with tempfile.TemporaryDirectory() as temporary:
        checkout = Path(temporary) / "beside" / "main"
        shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".git", "*.egg-info"))
        if (shared := ROOT.parent / "shared").is_dir():
            (checkout.parent / "shared").symlink_to(shared)
        kept = arguments.trace.resolve() if arguments.trace else checkout.parent / "trace"
        plugin = Mutating(checkout, sample, arguments.limit, kept, doubt=arguments.doubt)
        collected(checkout, plugin, arguments.tests.split(",") if arguments.tests else [])
    if plugin.traced.failed:
        print("tests fail without any change: run pytest first", *plugin.traced.failed, sep="\n")
        return 2
    print(
        "",
        *(f"lived: {outcome.mutant}" for outcome in plugin.outcomes if outcome.status == "lived"),
        sep="\n",
    )
    print(summary(plugin.outcomes, time.monotonic() - began))
    if arguments.doubt:  # each that a test finds is none
        return int(any(outcome.status == "killed" for outcome in plugin.outcomes))
    lived = sum(outcome.status == "lived" for outcome in plugin.outcomes)
    return int(len(plugin.outcomes) != len(sample) or lived > (1 - arguments.share) * len(sample))


if __name__ == "__main__":
    sys.exit(main())
