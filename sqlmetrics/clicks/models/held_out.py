"""Which requests models learn from, and which they are held against."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlmetrics.clicks.clean_log import CleanLog
from sqlmetrics.clicks.segment import Rows
from sqlmetrics.spec.days import Days
from sqlmetrics.sql.stage import print_template, with_stages

SHARE = 5
"""The last of so many parts of the days is held out."""

LOTS = ("0", "1", "2")
"""Without times, requests are held out whose id's MD5 starts with one of these of 16 digits."""


@dataclass(frozen=True)
class HeldOut:
    """The requests that a model is held against.

    Attributes:
        rows: The impressions that are left.
        held_out: What such a request meets, as SQL over the impressions of one.
        learned: What a request meets that is learned from; empty for all others.
        words: Which these are, for a person.
    """

    rows: Rows
    held_out: str
    words: str
    learned: str = ""


def held_out(log: CleanLog, rows: Rows | None = None) -> HeldOut:
    """The requests to hold out: those of `evaluation`, else of the last fifth of the days.

    One day at least; of a log of one day, or without times, 3 in 16 requests by the MD5 of their
    ids, the same ones on every database. What is learned from are those of `labels.window`, or
    all others. The days are those of the whole log, whichever rows are asked for.

    Args:
        log: The log.
        rows: Whose impressions; default: all.
    """
    clicks, tables = log.tables.clicks, log.tables
    rows = rows or Rows(tables.left)
    stage_name = rows.name
    if clicks.evaluation:
        began, window = f"min({stage_name}.shown_at)", clicks.labels.window
        learned = " and ".join(tables.names.holds(window, began)) if window else ""
        words = f"requests {clicks.evaluation}"
        return HeldOut(
            rows, " and ".join(tables.names.holds(clicks.evaluation, began)), words, learned
        )
    days = _days(log, tables.left) if "time" in tables.names.impressions else []
    if len(days) > 1:
        last = max(len(days) // SHARE, 1)
        start = datetime.fromtimestamp(0, UTC) + timedelta(days[-last])
        late = Days(start=start.date())
        words = f"requests {late}, {last} of {len(days)} days"
        return HeldOut(
            rows, " and ".join(tables.names.holds(late, f"min({stage_name}.shown_at)")), words
        )
    translation = tables.names.at
    lot = translation.expression(translation.dialect.hashed, f"{stage_name}.request_id")
    lots = ", ".join(f"'{digit}'" for digit in LOTS)
    words = f"{len(LOTS)} in 16 requests, by their ids"
    return HeldOut(rows, f"substr({lot}, 1, 1) in ({lots})", words)


def _days(log: CleanLog, stage_name: str) -> list[int]:
    """The days on which requests began, counted from 1970."""
    number = log.tables.names.day_number("started_at")
    view = {"of": log.tables.of, "shown": stage_name, "day_number": number}
    select = print_template("clicks/models/days", view)
    rows = log.engine.rows(with_stages(log.tables.stages(stage_name), select))
    return sorted(int(day) for (day,) in rows if day is not None)
