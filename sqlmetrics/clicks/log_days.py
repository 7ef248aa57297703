"""The days of a click log's requests, told without cleaning it where its rows are stored by day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from datetime import date, timedelta

from sqlmetrics.clicks.clean_log import cleaned_log, log_tables
from sqlmetrics.clicks.log_rows import RowsRead
from sqlmetrics.engines.database import Database
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.days import Days, day_of
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.stage import with_stages

Ranges = Callable[[Iterable[date]], Iterable[Days]]


def days_of_log(
    clicks: Clicks,
    engine: Database,
    known_days: Set[date],
    ranges: Ranges,
    days: Days | None = None,
) -> set[date]:
    """The days on which something was shown, of the zone of the log.

    Where the impressions have a column of the days under which they are stored, only their times
    are read, and of days that are known already none; some of the others may be of nobody who
    counts. Without one the log is cleaned.

    Args:
        clicks: What the log is.
        engine: Where it is.
        known_days: Days that need not be looked for: they are of the log if a row is stored there.
        ranges: Makes ranges of days.
        days: Which days are looked at, which `clicks` evaluates; None for all.
    """
    if not clicks.day_column("log" if clicks.log else "impressions"):
        return _days_left(clicks, engine, only_days=days is not None)
    with engine.keeping_rows():
        tables, _ = log_tables(clicks, engine)
    read = RowsRead(clicks, tables.names, (days,) if days else (), "")
    condition = " and ".join(read.where("impressions", all_requests=True))
    stored = _days(engine, read.stored("impressions"), source_text(tables.impressions, condition))
    margin, _ = read.margins("impressions")
    near = {day + timedelta(far) for day in stored for far in range(-margin, margin + 1)}
    day_ranges = tuple(ranges(near - known_days))
    if not day_ranges:
        return stored & known_days
    read = RowsRead(clicks, tables.names, day_ranges, "")
    source = source_text(
        tables.impressions, " and ".join(read.where("impressions", all_requests=True))
    )
    return (
        _days(engine, tables.names.day_of_time, source) - known_days
    ) & near | stored & known_days


def _days_left(clicks: Clicks, engine: Database, *, only_days: bool) -> set[date]:
    """Those of what is left once the log is cleaned."""
    with cleaned_log(clicks, engine, only_days=only_days) as log:
        tables = log.tables
        return _days(
            engine,
            "metric_date",
            tables.of[tables.evaluates],
            lambda select: with_stages(tables.stages(tables.evaluates), select),
        )


def _days(
    engine: Database, day: str, source: str, wrap_select: Callable[[str], str] = str
) -> set[date]:
    rows = engine.rows(wrap_select(f"select distinct {day} as metric_date from {source}"))
    return {day_of(value) for (value,) in rows if value is not None}
