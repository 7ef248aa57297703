"""What the suite costs and what it leaves out: CPU seconds a file, and why tests are skipped.

One line by default. `SQLMETRICS_CPU_BUDGET=180` prints the files that cost most, warns past the
budget and fails past twice it; `.ci/run` sets it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

import pytest
from slices import is_all, seed

LONGEST = 15
"""As many files are named as cost most."""


def cpu() -> float:
    """CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Suite:
    """The plugin: in a worker of pytest-xdist it measures, in the main process it sums up.

    Args:
        budget: CPU seconds that the suite may cost; 0 if nobody counts.
    """

    def __init__(self, budget: float = 0) -> None:
        self.budget = budget
        self.files: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()
        self.skips: Counter[str] = Counter()
        self.workers = 0.0
        self._began = cpu()
        self._last = self._began

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Any:
        """What a phase of a test has cost goes along with its report."""
        report = yield
        now = cpu()
        report.cpu, self._last = now - self._last, now
        return report

    def pytest_runtest_logstart(self) -> None:
        """What happened between two tests belongs to neither."""
        self._last = cpu()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test's phase, here or in a worker."""
        file = report.nodeid.partition("::")[0]
        self.files[file] += getattr(report, "cpu", 0.0)
        self.tests[file] += report.when == "call"
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skips[_reason(report.longrepr[2])] += 1

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A worker tells all that it has cost; twice the budget fails."""
        cost = cpu() - self._began
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["cpu"] = cost
            return
        self.workers += cost if not self.workers else 0  # workers are children here: seen once
        if self.budget and self.workers > 2 * self.budget and not exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has ended."""
        self.workers += getattr(node, "workeroutput", {}).get("cpu", 0.0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The table, and the skips in a line."""
        write = terminalreporter.write_line
        if self.budget:
            for file, seconds in self.files.most_common(LONGEST):
                write(f"{seconds:7.1f} CPU s {self.tests[file]:6,} tests  {file}")
        tried = "all cells" if is_all() else f"the slice of SQLMETRICS_SEED={seed()}"
        write(f"{self.workers:.0f} CPU s{self._verdict()}; {tried}")
        if self.skips:
            reasons = "; ".join(f"{count} {why}" for why, count in self.skips.most_common())
            write(f"skipped: {reasons}")

    def _verdict(self) -> str:
        if not self.budget:
            return ""
        over = self.workers / self.budget
        if over <= 1:
            return f" of a budget of {self.budget:.0f}"
        return f": past the budget of {self.budget:.0f}" + ", twice: this fails" * (over > 2)


def _reason(text: str) -> str:
    """Why a test was skipped, without what differs from test to test.

    >>> _reason("Skipped: spark is not here (No module named 'pyspark'); get it by: pip install x")
    'spark is not here; get it by: pip install x'
    """
    return re.sub(r" \(.*?\)(?=;)", "", text.removeprefix("Skipped: "))
