"""Rows of some days, told by a range of their column itself, so that a database prunes."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from sqlmetrics.plan.tables import Tables
from sqlmetrics.sql.template import literal

MARGIN = timedelta(hours=3)
"""So far the midnights of a database may be from ours, which may know other rules of a zone."""


def of_days(tables: Tables, table: str, column: str, day: str) -> list[str]:
    """What the rows of a table meet that are of the days that are looked at.

    A column of days, or of times, is compared as it is: an index finds the rows then, and
    partitions without any are not read. A text, and a column whose type is not known, is cast.
    The database says which day a time is of in a zone other than UTC, of rows in a wider range.

    Args:
        tables: Where the tables are, with the ends of the days.
        table: Which of them.
        column: The column of its days.
        day: The day of a row, as SQL.
    """
    if tables.ends is None:
        return []
    kind, zone, days = tables.day_kinds.get(table, ""), tables.zones.get(table), tables.ends.days
    times = tables.translation.dialect.times
    if kind and zone and days and times.instant:
        margin = timedelta(0) if zone == "UTC" else MARGIN
        ends = ((">=", days.start, -margin), ("<", days.end, margin))
        moments = [(sign, _midnight(end, zone, far)) for sign, end, far in ends if end]
        ranged = [
            f"{column} {sign} {_instant(tables, moment)}" for sign, moment in moments if moment
        ]
        is_exact = zone == "UTC" and len(ranged) == len(moments)
        return ranged if is_exact else [*tables.ends.of(day), *ranged]
    if kind in ("DATE", "TIMESTAMP") and times.compares_days:
        return tables.ends.of(column)
    return tables.ends.of(day)


def _midnight(day: date, zone: str, far: timedelta) -> datetime | None:
    """A time so far from when a day begins, in UTC; None beyond the ends of the calendar."""
    time_zone = UTC if zone == "UTC" else ZoneInfo(zone)
    try:
        return datetime(day.year, day.month, day.day, tzinfo=time_zone).astimezone(UTC) + far
    except OverflowError:
        return None


def _instant(tables: Tables, moment: datetime) -> str:
    """A moment in UTC, as SQL."""
    text = literal(moment.replace(tzinfo=None).isoformat(" "))
    return tables.translation.expression(tables.translation.dialect.times.instant, text)
