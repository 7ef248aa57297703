"""What is asked of some days: a spec, and the ends of the days where its tables have days."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sqlmetrics.errors import SpecError
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.spec.days import A_DAY, Days, Ends, Later, day_of, day_of_text, today_in
from sqlmetrics.spec.spec import Spec
from sqlmetrics.spec.zones import checked_zone
from sqlmetrics.sql.translation import Translation

if TYPE_CHECKING:
    from sqlmetrics.spec.click_log import Clicks

NO_DAY = f"cast('{NO_DATE}' as date)"
"""Where rows stand that have no day."""


@dataclass(frozen=True)
class Question:
    """What is asked of some days.

    Attributes:
        spec: The spec; of a click log it says itself which days are evaluated.
        ends: The days of the rankings that are read; None for all, and of a click log.
        day: The day of rows that have none, as SQL; empty if the evaluation says it.
    """

    spec: Spec
    ends: Ends | None
    day: str


class ClientDays(Days):
    """The days that a client of the database says: its parameters stand where dates would."""

    texts: tuple[str, str]
    """The parameters themselves, texts of the first day and of the day after the last one."""
    dates: tuple[str, str]
    """The first day and the day after the last one, as SQL."""
    moments: tuple[str, str]
    """When they begin, in microseconds, likewise."""

    @property
    def are_all(self) -> bool:
        """The client gives both ends."""
        return False

    def __str__(self) -> str:
        return "on the days of this run"

    def overlaps(self, _: Days) -> bool:
        """Whoever runs it sees to it that labels are not learned from these days."""
        return False

    def conditions_on(
        self, time: str, zone: str = "", local: Callable[[str], str] = str
    ) -> list[str]:
        """What a time in microseconds meets that lies in them: in a zone, what clocks show."""
        clock_time = local(time) if zone else time
        return [f"{clock_time} >= {self.moments[0]}", f"{clock_time} < {self.moments[1]}"]

    def around(
        self,
        column: str,
        before: int,
        after: int | None,
        later: Later,
        *,
        is_date: bool = False,  # noqa: ARG002 (a date is what `later` gives)
    ) -> list[str]:
        """What a column of days meets that lies in them, or so many days before or after."""
        start, end = self.texts
        ends = {">=": later(start, -before)}
        ends |= {"<": later(end, after)} if after is not None else {}
        return [f"{column} {sign} {day}" for sign, day in ends.items()]

    @property
    def ends(self) -> Ends:
        """As SQL."""
        return Ends(*self.dates, words=str(self))


def client_days(translation: Translation, parameter: str) -> ClientDays:
    """The days of a compiled job, by how its client names a parameter."""
    parameters = [parameter.format(name=name) for name in ("start", "end")]
    times = (translation.dialect.times.moment.format(column=name) for name in parameters)
    moments = (translation.dialect.times.micros.format(column=time) for time in times)
    return ClientDays(
        texts=parameters,
        dates=[f"cast({translation.user_text(name)} as date)" for name in parameters],
        moments=[translation.user_text(moment) for moment in moments],
    )


def on_days(spec: Spec, days: Days | None) -> Question:
    """What is asked of some days: where tables have days, of these alone.

    Args:
        spec: What is asked.
        days: Which days; None for all, as the spec says it.

    Raises:
        SpecError: If labels would be learned from these days.
    """
    ends = days.ends if days else None
    if days is None or spec.clicks is None:
        is_dated = spec.rankings.columns.date is not None
        first = (ends and ends.start) or NO_DAY
        return Question(spec, ends, "") if is_dated else Question(spec, None, first)
    ranged = _changed(
        spec.clicks, {"daily": True, "evaluation": days}, "clicks, on the days of this run"
    )
    return Question(spec.having(clicks=ranged, rankings=None, labels=None), None, "")


def days_of(spec: Spec, days: Days | None) -> Days | None:
    """The days; for rankings without dates the one that they are of. None for those there are.

    Raises:
        SpecError: If such rankings shall be of several days.
    """
    if spec.rankings.columns.date or spec.clicks:
        return days
    first = days.start if days else date.fromisoformat(NO_DATE)
    if first is None or (days and days.end not in (None, first + timedelta(1))):
        raise SpecError(
            f"the rankings have no column of dates, so all rows are of one day; given {days}; "
            "name the column as rankings.columns.date, or give the day only as the start"
        )
    return Days(start=first, end=first + timedelta(1))


def in_zone(spec: Spec, zone: str | None) -> Spec:
    """The spec with the days of a zone in place of its own; of none, the spec itself.

    Raises:
        SpecError: If it has no click log, or there is no such zone.
    """
    if zone is None:
        return spec
    if spec.clicks is None:
        raise SpecError("the spec has no clicks; evaluate takes rankings and labels")
    clicks = _changed(spec.clicks, {"time_zone": zone}, "time_zone")
    return spec.having(clicks=clicks, rankings=None, labels=None)


def _changed(clicks: Clicks, changes: Mapping[str, Any], setting_path: str) -> Clicks:
    """A click log of which something is said anew."""
    model = type(clicks)
    settings = {name: getattr(clicks, name) for name in model.model_fields}
    try:
        return model(**{**settings, **changes})
    except ValidationError as error:
        message = "; ".join(
            problem["msg"].removeprefix("Value error, ") for problem in error.errors()
        )
        raise SpecError(f"{setting_path}: {message}") from None


def zone_of_days(rankings: object, time_zone: str | None = None) -> str | None:
    """The zone whose days are meant; None for UTC.

    Args:
        rankings: What is asked: a spec, which says it, or tables.
        time_zone: For tables: the zone that was given beside them.

    Raises:
        SpecError: If there is no such zone.
    """
    if isinstance(rankings, Spec):
        return (rankings.clicks or rankings.rankings).time_zone
    try:
        return checked_zone(time_zone) if time_zone else None
    except ValueError as error:
        raise SpecError(f"time_zone {error}") from None


def day_named(text: str | date, zone: str | None = None, *, option: str = "day") -> date:
    """The day that a person names.

    Args:
        text: A date, also as a text, `today`, `yesterday`, or an offset like `-3 days`.
        zone: In which it is today; by default UTC.
        option: Where it was given, like `--date`.

    Raises:
        SpecError: If it is none of these.
    """
    if isinstance(text, date):
        return day_of(text)
    try:
        return day_of_text(text, lambda: today_in(zone))
    except (AttributeError, ValueError, OverflowError):  # which no text has
        raise SpecError(f"{option} is {A_DAY}, given {text!r}") from None


def days_between(
    start: str | date | None,
    end: str | date | None,
    zone: str | None = None,
    *,
    option: str = "",
) -> Days | None:
    """The days from a start to before an end; None if neither is given.

    Args:
        start: The first day, as `day_named` takes it.
        end: The day after the last one, likewise.
        zone: In which it is today; by default UTC.
        option: What stands before the two names where they were given, like `--`.

    Raises:
        SpecError: If one is no day, or the end does not come after the start.
    """
    if not (start or end):
        return None
    first = day_named(start, zone, option=f"{option}start") if start else None
    last = day_named(end, zone, option=f"{option}end") if end else None
    try:
        return Days(start=first, end=last)
    except ValidationError as error:
        raise SpecError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None


def days_looked_at(
    spec: Spec,
    day: str | date | None,
    start: str | date | None,
    end: str | date | None,
    *,
    option: str = "",
) -> tuple[Days, ...]:
    """One day, or those of a range; none if nothing is given.

    Args:
        spec: Whose days.
        day: The day, as `day_named` takes it.
        start: The first of several.
        end: The day after the last one.
        option: What stands before the names where they were given, like `--`.

    Raises:
        SpecError: If one is no day, or a day and a range are given.
    """
    zone = zone_of_days(spec)
    day_range = days_between(start, end, zone, option=option)
    if day is None:
        return (day_range,) if day_range else ()
    if day_range:
        day_option, two = ("--date", "--start, --end") if option else ("day", "start, end")
        raise SpecError(f"give one day ({day_option}) or a range of days ({two})")
    only = day_named(day, zone, option="--date" if option else "day")
    return (Days(start=only, end=only + timedelta(1)),)
