"""Which days a check looks at, and which of them the fact table has not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sqlmetrics.engines.database import Database
from sqlmetrics.spec.days import Days, day_of, ranges


@dataclass(frozen=True)
class Calendar:
    """The days of a check.

    Attributes:
        last: The last day that the table has of the spec.
        days: Those that are looked at: asked for, and there.
        gaps: Those that were asked for and are not there, as ranges.
    """

    last: date
    days: tuple[date, ...]
    gaps: tuple[Days, ...] = ()


def calendar(engine: Database, source: str, requested_days: Sequence[Days]) -> Calendar | None:
    """The days of a check; None if the table has no day of the spec.

    Args:
        engine: Where the table is.
        source: What stands behind a select of the spec's rows, from FROM on.
        requested_days: Ranges; the last day alone if there are none. A side that is open ends
            where the table does.
    """
    if not requested_days:
        # counted, since ClickHouse has a greatest day of no rows: 1970-01-01
        ((last, n),) = engine.rows(f"select max(metric_date) as day, count(*) as n {source}")
        return Calendar(day_of(last), (day_of(last),)) if n else None
    rows = engine.rows(f"select metric_date {source} group by metric_date")
    existing = {day_of(day) for (day,) in rows}
    if not existing:
        return None
    requested = {day for span in requested_days for day in _each(span, existing)}
    beyond = [span for span in requested_days if not any(_each(span, existing))]
    gaps = (*ranges(requested - existing), *beyond)
    return Calendar(max(existing), tuple(sorted(requested & existing)), gaps)


def _each(days: Days, existing: set[date]) -> Iterator[date]:
    day = days.start or min(existing)
    end = days.end or max(existing) + timedelta(1)
    while day < end:
        yield day
        day += timedelta(1)
