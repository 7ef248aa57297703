"""Systems that pause: with rows on days before, and none on the day of a check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.spec.days import as_sql, day_of
from sqlmetrics.spec.threshold import Threshold

LONGEST_PAUSE = timedelta(7)
"""So long a system is said to pause that had rows; a table whose days are rarer looks one back."""


def paused_systems(
    threshold: Threshold,
    rows: Iterable[Mapping[str, Any]],
    source: str,
    day: date,
    engine: Database,
) -> dict[str, date]:
    """The systems that a check means and that pause -> their last day with rows.

    Args:
        threshold: The check.
        rows: Those of the day.
        source: All rows of the spec, from FROM to the end of a condition.
        day: The day of the check.
        engine: Where they are.
    """
    last_days = engine.rows(
        f"select system, max(metric_date) {source} and metric_date < {as_sql(day)} "
        "group by system order by system"
    )
    present = {row["system"] for row in rows}
    return {
        system: day_of(last)
        for system, last in last_days
        if system not in present
        and threshold.system in (None, system)
        and system != threshold.against
    }


def newly_paused(
    last_days: Mapping[str, date], present: Iterable[str], day: date
) -> dict[str, date]:
    """The systems that pause since a few days -> their last day with rows.

    One that has no row for longer has ended, as far as anybody can tell.

    Args:
        last_days: System -> its last day with rows before the day of the check.
        present: The systems with rows on that day.
        day: The day of the check.
    """
    latest = max(last_days.values(), default=day)
    return {
        system: last
        for system, last in sorted(last_days.items())
        if system not in {*present} and (day - last <= LONGEST_PAUSE or last == latest)
    }


def since(paused: Mapping[str, date]) -> str:
    """When systems that pause had their last rows, and what to do; empty if none does."""
    remedy = "run this day again once the rows are there, or check a day that has them (--date)"
    if len(paused) == 1:
        return f"its last rows are of {next(iter(paused.values()))}; {remedy}"
    last = ", ".join(f"{system} on {day}" for system, day in paused.items())
    return f"the last rows are those of {last}; {remedy}" if paused else ""
