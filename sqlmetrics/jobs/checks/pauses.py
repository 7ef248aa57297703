"""Systems that pause: with rows on days before, and none on the day of a check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.spec.days import as_sql, day_of
from sqlmetrics.spec.threshold import Threshold


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


def since(paused: Mapping[str, date]) -> str:
    """When systems that pause had their last rows, and what to do; empty if none does."""
    last = ", ".join(f"{system} on {day}" for system, day in paused.items())
    remedy = "run this day again once its rows are there, or check a day that has them (--date)"
    return f"; last rows: {last}; {remedy}" if paused else ""
