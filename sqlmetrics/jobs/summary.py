"""What a run did as plain values, for whatever started it: a scheduler, a catalogue of lineage."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.errors import NoDataError, SqlmetricsError
from sqlmetrics.jobs.checks.verdict import Verdict
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.run import RunReport
from sqlmetrics.jobs.schema import targets
from sqlmetrics.spec.days import Days
from sqlmetrics.spec.spec import Spec

NO_DATA, FAILED, REPLACED, NOTHING = "no data", "failed", "replaced", "nothing to do"
"""How a run ends: the data is not there yet, it failed, days were replaced, or none was missing."""


@dataclass
class Summary:
    """What a run has done so far.

    Attributes:
        spec: What is asked.
        requested_days: Which days were asked for; None for all, or those that are missing.
        database: The product and its version; empty until it is open.
        reports: What was written, a range of days each.
        published: Where to the tables were copied.
        verdicts: What was checked, if it was.
        message: Why it failed; empty if it did not.
        exit_code: That of the command.
    """

    spec: Spec
    requested_days: Days | None = None
    database: str = ""
    reports: list[RunReport] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    verdicts: Sequence[Verdict] | None = None
    message: str = ""
    exit_code: int = 0
    _begun: float = field(default_factory=time.monotonic, repr=False)

    def fail(self, error: SqlmetricsError) -> None:
        """Put down why it failed: not the error itself, which keeps the connection alive."""
        self.message, self.exit_code = str(error), error.exit_code

    @property
    def outcome(self) -> str:
        """One of the four words above."""
        if self.message:
            return NO_DATA if self.exit_code == NoDataError.exit_code else FAILED
        return REPLACED if self.reports else NOTHING

    @property
    def days(self) -> tuple[date | None, date | None]:
        """The first day and the day after the last one; None where that is open or unknown."""
        day_ranges = [report.days for report in self.reports if report.days]
        if not day_ranges and self.requested_days:
            day_ranges = [self.requested_days]
        starts, ends = (
            [day_range.start for day_range in day_ranges],
            [day_range.end for day_range in day_ranges],
        )
        start = min((day for day in starts if day), default=None) if all(starts) else None
        return start, max((day for day in ends if day), default=None) if all(ends) else None

    @property
    def rows(self) -> dict[str, int]:
        """Table by its name -> the rows that the run put into it."""
        name_by_table = targets(self.spec)
        counts: dict[str, int] = {}
        for report in self.reports:
            for table, n in report.rows.items():
                counts[name_by_table[table]] = counts.get(name_by_table[table], 0) + n
        return counts

    @property
    def definitions(self) -> dict[str, str]:
        """Metric like `ndcg@10` -> its definition_hash."""
        return {at_cutoff(metric, k): definition for metric, k, definition in hashes(self.spec)}

    def to_dict(self) -> dict[str, Any]:
        """All of it as values that JSON has."""
        from sqlmetrics import __version__

        start, end = self.days
        content = {
            "spec": self.spec.title,
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "message": self.message or None,
            "start": start and str(start),
            "end": end and str(end),
            "rows": self.rows,
            "definitions": self.definitions,
            "published": self.published,
            "runs": [_run(report, targets(self.spec)) for report in self.reports],
            "seconds": round(time.monotonic() - self._begun, 3),
            "database": self.database or None,
            "sqlmetrics": __version__,
        }
        if self.verdicts is not None:
            content["checks"] = [verdict.to_dict() for verdict in self.verdicts]
        return content


def _run(report: RunReport, name_by_table: Mapping[str, str]) -> dict[str, Any]:
    """A range of days, as the run log has it under the same `run_id`."""
    start, end = (report.days.start, report.days.end) if report.days else (None, None)
    return {
        "run_id": report.run_id,
        "start": start and str(start),
        "end": end and str(end),
        "rows": {name_by_table[table]: n for table, n in report.rows.items()},
        "last_day": report.last_day and str(report.last_day),
        "values": dict(report.headline),
        "notes": list(report.notes),
        "seconds": round(report.seconds, 3),
    }
