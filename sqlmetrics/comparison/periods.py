"""Two days or periods of one system, side by side as if they were two systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sqlmetrics.errors import SpecError
from sqlmetrics.spec.days import Days, Ends, is_day, said_day, today
from sqlmetrics.sql.template import literal

DAY = "metric_date"


@dataclass(frozen=True)
class Period:
    """Days by a name.

    Attributes:
        name: As a person wrote them: a day, or the first and the last one.
        days: The days.
    """

    name: str
    days: Days

    @property
    def condition(self) -> str:
        """What a row meets that is of these days."""
        return "\n    and ".join(self.days.ends.of(DAY))

    @property
    def outside(self) -> str:
        """What a row meets that is of other days."""
        condition = "\n        and ".join(self.days.ends.of(DAY))
        return f"not (\n        {condition}\n    )"

    @property
    def is_a_day(self) -> bool:
        """Whether no query can come again in it."""
        start, end = self.days.start, self.days.end
        return start is not None and end == start + timedelta(1)


@dataclass(frozen=True)
class OneOf(Ends):
    """The ends of several periods, of which a day is in one."""

    periods: tuple[Days, ...] = ()

    def of(self, day: str) -> list[str]:
        """What an expression meets that is one of the days."""
        conditions = ("\n            and ".join(period.ends.of(day)) for period in self.periods)
        return ["(\n        " + "\n        or ".join(conditions) + "\n    )"]


def period(dates: str | date, zone: str | None = None) -> Period:
    """A day like 2026-11-01, or days like 2026-11-01..2026-11-07, both ends among them.

    Args:
        dates: The days, also as `yesterday` or `-7 days..-1 day`.
        zone: In which it is today; by default UTC.

    Raises:
        SpecError: If it is neither.

    >>> period("2026-11-01..2026-11-07").days.end
    datetime.date(2026, 11, 8)
    """
    text = str(dates).strip()
    first, _, last = text.partition("..")
    try:
        start, end = (said_day(day, lambda: today(zone)) for day in (first, last or first))
        if end < start:
            raise ValueError
        days = Days(start=start, end=end + timedelta(1))
    except (ValueError, OverflowError):
        raise SpecError(
            f"{text!r} is not a day like 2026-11-01 or a range like 2026-11-01..2026-11-07"
        ) from None
    words = not is_day(first)
    return Period(f"{start}..{end}" if words and last else str(start) if words else text, days)


def periods(dates: Sequence[str | date], zone: str | None = None) -> tuple[Period, ...]:
    """The periods that are compared; the arguments are as of `period`.

    Raises:
        SpecError: If there are less than two, or two have a day in common.
    """
    parsed = tuple(period(day, zone) for day in dates)
    if len(parsed) == 1:
        raise SpecError(
            f"dates {parsed[0].name}: compare needs two or more, like 2026-11-01,2026-11-08"
        )
    for position, later in enumerate(parsed):
        for earlier in parsed[:position]:
            if later.days.overlaps(earlier.days):
                raise SpecError(
                    f"dates {earlier.name} and {later.name} share a day; give periods that do "
                    "not overlap"
                )
    return parsed


def periods_asked(
    dates: str | Sequence[str | date], zone: str | None, *, days: object
) -> tuple[Period, ...]:
    """The periods that an argument names; none if it is empty.

    Args:
        dates: Days and periods, of a text behind commas.
        zone: In which it is today.
        days: What is asked of days besides.

    Raises:
        SpecError: As `periods` does, or if days are asked for besides.
    """
    named_dates = dates.split(",") if isinstance(dates, str) else tuple(dates)
    if named_dates and days:
        raise SpecError("dates already choose the days; leave out start and end")
    return periods(named_dates, zone) if named_dates else ()


def name_of(day: date, periods: Sequence[Period]) -> str:
    """The name of the period that a day is in."""
    day_span = Days(start=day, end=day + timedelta(1))
    return next(period.name for period in periods if period.days.overlaps(day_span))


def days_of_all(spans: Sequence[Days]) -> Days:
    """From the first day of any to the last one; open where one is.

    >>> str(days_of_all([Days(start=date(2026, 1, 1), end=date(2026, 1, 2)), \
Days(start=date(2026, 1, 8), end=date(2026, 1, 9))]))
    'from 2026-01-01 and before 2026-01-09'
    """
    starts, ends = [span.start for span in spans], [span.end for span in spans]
    start = None if None in starts else min(start for start in starts if start)
    end = None if None in ends else max(end for end in ends if end)
    return Days(start=start, end=end)


def ends_of_all(spans: Sequence[Days]) -> Ends:
    """The same as SQL, without the days between."""
    hull = days_of_all(spans)
    ends = hull.ends
    return OneOf(ends.start, ends.end, words=str(hull), periods=tuple(spans))


def name_of_day(periods: Sequence[Period]) -> str:
    """The period that a row is of, as SQL."""
    whens = (
        "    when {}\n        then {}".format("\n        and ".join(period.days.ends.of(DAY)), name)
        for period, name in ((period, literal(period.name)) for period in periods)
    )
    return "\n".join(["case", *whens, "end"])


def in_any(periods: Sequence[Period]) -> str:
    """What a row meets that is of one of them."""
    conditions = ("\n            and ".join(period.days.ends.of(DAY)) for period in periods)
    return "(\n        " + "\n        or ".join(conditions) + "\n    )"
