"""Days from one until before another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import model_validator

from sqlmetrics.errors import InputError
from sqlmetrics.spec.source import Model
from sqlmetrics.sql.template import literal

Later = Callable[[str, int], str]
"""A text of a day as SQL, and a number -> SQL of the day so many days later."""


class Days(Model):
    """Days in UTC, or in the `time_zone` of a log: the first is among them, the end is not."""

    start: date | None = None
    """The first day; None if there is none."""
    end: date | None = None
    """The day after the last one; None if there is none."""

    @model_validator(mode="after")
    def _are_some(self) -> Days:
        if self.are_all:
            raise ValueError("give start, end or both")
        if self.start and self.end and self.start >= self.end:
            raise ValueError(f"the end must come after the start; no day is {self}")
        return self

    @property
    def are_all(self) -> bool:
        """Whether no end is given."""
        return self.start is None and self.end is None

    def __str__(self) -> str:
        words = {"from": self.start, "before": self.end}
        return " and ".join(f"{word} {day}" for word, day in words.items() if day)

    def overlaps(self, other: Days) -> bool:
        """Whether a day is in both.

        >>> first = Days(start="2026-01-01", end="2026-01-15")
        >>> first.overlaps(Days(start="2026-01-15")), first.overlaps(Days(end="2026-01-02"))
        (False, True)
        """
        start = max(self.start or date.min, other.start or date.min)
        return start < min(self.end or date.max, other.end or date.max)

    def conditions_on(self, time: str, zone: str = "", _: Callable[[str], str] = str) -> list[str]:
        """What a time in microseconds meets that lies in them.

        Args:
            time: The time.
            zone: Whose days they are; empty for UTC.

        >>> Days(start="2026-01-01").conditions_on("shown_at")
        ['shown_at >= 1767225600000000']
        """
        ends = {">=": self.start, "<": self.end}
        return [f"{time} {sign} {_micros(day, zone)}" for sign, day in ends.items() if day]

    def around(
        self, column: str, before: int, after: int | None, _: Later, *, is_date: bool = False
    ) -> list[str]:
        """What a column of days meets that lies in them, or so many days before or after.

        The ends are texts, which a column of dates takes for days and one of texts for texts.

        Args:
            column: The column.
            before: How many days before.
            after: How many days after; None for all.
            is_date: Whether the column has dates that are compared with nothing but dates.

        >>> Days(start="2026-01-02", end="2026-01-03").around("day", 1, None, str)
        ["day >= '2026-01-01'"]
        """
        ends = {">=": _moved(self.start, -before)}
        ends |= {"<": _moved(self.end, after)} if after is not None else {}
        days = {sign: literal(day) for sign, day in ends.items() if day}
        form = "cast({} as date)" if is_date else "{}"
        return [f"{column} {sign} {form.format(day)}" for sign, day in days.items()]

    @property
    def ends(self) -> Ends:
        """As SQL."""
        start, end = (as_sql(day) if day else None for day in (self.start, self.end))
        return Ends(start, end, words=str(self), days=self)


@dataclass(frozen=True)
class Ends:
    """The ends of days as SQL: dates, or what a client puts in their place.

    Attributes:
        start: The first day; None if there is none.
        end: The day after the last one; None if there is none.
        last: The last one, where that is known instead.
        words: The days for a person, where they are known.
        days: The days themselves, where they are known.
        only: The ranges of them that are meant, where others in between are not; empty for all.
    """

    start: str | None
    end: str | None
    last: str | None = None
    words: str = ""
    days: Days | None = None
    only: tuple[Ends, ...] = ()

    def of(self, day: str) -> list[str]:
        """What an expression meets that is one of the days.

        >>> Days(end="2026-01-15").ends.of("metric_date")
        ["metric_date < cast('2026-01-15' as date)"]
        """
        ends = {">=": self.start, "<": self.end, "<=": self.last}
        conditions = [f"{day} {sign} {end}" for sign, end in ends.items() if end]
        if self.only:
            ranges = (" and ".join(part.of(day)) for part in self.only)
            conditions.append(f"({' or '.join(f'({part})' for part in ranges)})")
        return conditions


def as_sql(day: date) -> str:
    """A day as SQL.

    >>> as_sql(date(2026, 1, 31))
    "cast('2026-01-31' as date)"
    """
    return f"cast({literal(day.isoformat())} as date)"


def _moved(day: date | None, number: int) -> str:
    """So many days later, as a text; empty without a day."""
    return (day + timedelta(number)).isoformat() if day else ""


def _micros(day: date, zone: str) -> int:
    """When a day begins; where it has no midnight, when clocks go forward to it."""
    begin = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone) if zone else UTC)
    return round(begin.timestamp() * 1e6)


def day_of(value: object) -> date:
    """The day of a date, a time or the text of one.

    Raises:
        InputError: If it is none, or not of the years 1 to 9999.
    """
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError:
        raise InputError(
            f"{str(value)[:40]!r} is not a day of the years 1 to 9999; fix the dates, or check "
            "whether the times are in another unit"
        ) from None


_DAY = re.compile(r"\s*(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ].*)?", re.DOTALL)


def is_day(text: str) -> bool:
    """Whether a text begins with a day as ISO 8601 writes it, which every engine reads alike.

    >>> is_day("2026-01-31 10:00"), is_day("31.01.2026"), is_day("2026-02-30")
    (True, False, False)
    """
    match = _DAY.fullmatch(text)
    try:
        return match is not None and bool(date(*map(int, match.groups())))
    except ValueError:
        return False


_BACK = re.compile(r"-\s*(\d{1,5})\s*days?")


def clock() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)


def today_in(zone: str | None = None) -> date:
    """The day that it is now in a zone.

    Args:
        zone: Like `Europe/Berlin`; by default UTC.
    """
    return clock().astimezone(UTC if zone in (None, "UTC") else ZoneInfo(zone)).date()


def day_of_text(text: str, now: Callable[[], date] = today_in) -> date:
    """The day that a text says: a date, `today`, `yesterday`, or an offset like `-3 days`.

    Args:
        text: What was typed.
        now: What says which day it is.

    Raises:
        ValueError: If it says none.

    >>> now = lambda: date(2026, 3, 1)
    >>> [str(day_of_text(text, now)) for text in ("2026-01-31", "yesterday", "-3 days")]
    ['2026-01-31', '2026-02-28', '2026-02-26']
    """
    word = text.strip().casefold()
    if match := _BACK.fullmatch(word):
        return now() - timedelta(int(match[1]))
    if word in _WORDS:
        return now() - timedelta(_WORDS[word])
    return date.fromisoformat(text.strip())


def names_day(text: str) -> bool:
    """Whether a text begins with a day, or is one in words.

    >>> names_day("2026-01-31 10:00"), names_day("-1 day"), names_day("popularity")
    (True, True, False)
    """
    word = text.strip().casefold()
    return is_day(text) or word in _WORDS or _BACK.fullmatch(word) is not None


_WORDS = {"today": 0, "yesterday": 1}
A_DAY = "a date like 2026-01-31, today, yesterday or an offset like '-3 days'"
"""What `day_of_text` takes."""


def ranges(days: Iterable[date]) -> Iterator[Days]:
    """Days that follow one another as ranges, in their order.

    >>> [str(days) for days in ranges([date(2026, 1, 3), date(2026, 1, 1), date(2026, 1, 2)])]
    ['from 2026-01-01 and before 2026-01-04']
    """
    start: date | None = None
    last = date.min
    for day in sorted(set(days)):
        if start is not None and day - last > timedelta(1):
            yield Days(start=start, end=last + timedelta(1))
            start = None
        start = start or day
        last = day
    if start is not None:
        yield Days(start=start, end=last + timedelta(1))
