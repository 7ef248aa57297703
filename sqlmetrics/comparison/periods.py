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
        inside = "\n        and ".join(self.days.ends.of(DAY))
        return f"not (\n        {inside}\n    )"

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
        each = ("\n            and ".join(one.ends.of(day)) for one in self.periods)
        return ["(\n        " + "\n        or ".join(each) + "\n    )"]


def period(given: str | date, zone: str | None = None) -> Period:
    """A day like 2026-11-01, or days like 2026-11-01..2026-11-07, both ends among them.

    Args:
        given: The days, also as `yesterday` or `-7 days..-1 day`.
        zone: In which it is today; by default UTC.

    Raises:
        SpecError: If it is neither.

    >>> period("2026-11-01..2026-11-07").days.end
    datetime.date(2026, 11, 8)
    """
    text = str(given).strip()
    first, _, last = text.partition("..")
    try:
        start, end = (said_day(one, lambda: today(zone)) for one in (first, last or first))
        if end < start:
            raise ValueError
        days = Days(start=start, end=end + timedelta(1))
    except (ValueError, OverflowError):
        raise SpecError(
            f"{text!r} is no day like 2026-11-01, nor days like 2026-11-01..2026-11-07, the first "
            "and the last one"
        ) from None
    words = not is_day(first)
    return Period(f"{start}..{end}" if words and last else str(start) if words else text, days)


def periods(given: Sequence[str | date], zone: str | None = None) -> tuple[Period, ...]:
    """The periods that are compared; the arguments are as of `period`.

    Raises:
        SpecError: If there are less than two, or two have a day in common.
    """
    found = tuple(period(one, zone) for one in given)
    if len(found) == 1:
        raise SpecError(
            f"dates {found[0].name}: compare needs two or more, like 2026-11-01,2026-11-08"
        )
    for place, one in enumerate(found):
        for other in found[:place]:
            if one.days.overlaps(other.days):
                raise SpecError(f"dates {other.name} and {one.name} have a day in common")
    return found


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
    given = dates.split(",") if isinstance(dates, str) else tuple(dates)
    if given and days:
        raise SpecError("dates say which days are compared: leave out start and end")
    return periods(given, zone) if given else ()


def name_of(day: date, some: Sequence[Period]) -> str:
    """The name of the period that a day is in."""
    whole = Days(start=day, end=day + timedelta(1))
    return next(period.name for period in some if period.days.overlaps(whole))


def days_of_all(some: Sequence[Days]) -> Days:
    """From the first day of any to the last one; open where one is.

    >>> str(days_of_all([Days(start=date(2026, 1, 1), end=date(2026, 1, 2)), \
Days(start=date(2026, 1, 8), end=date(2026, 1, 9))]))
    'from 2026-01-01 and before 2026-01-09'
    """
    starts, ends = [one.start for one in some], [one.end for one in some]
    start = None if None in starts else min(one for one in starts if one)
    end = None if None in ends else max(one for one in ends if one)
    return Days(start=start, end=end)


def ends_of_all(some: Sequence[Days]) -> Ends:
    """The same as SQL, without the days between."""
    hull = days_of_all(some)
    ends = hull.ends
    return OneOf(ends.start, ends.end, words=str(hull), periods=tuple(some))


def name_of_day(some: Sequence[Period]) -> str:
    """The period that a row is of, as SQL."""
    whens = (
        "    when {}\n        then {}".format("\n        and ".join(one.days.ends.of(DAY)), name)
        for one, name in ((one, literal(one.name)) for one in some)
    )
    return "\n".join(["case", *whens, "end"])


def in_any(some: Sequence[Period]) -> str:
    """What a row meets that is of one of them."""
    each = ("\n            and ".join(one.days.ends.of(DAY)) for one in some)
    return "(\n        " + "\n        or ".join(each) + "\n    )"
