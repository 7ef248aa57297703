"""What is asked of some days: a spec, and the ends of the days where its tables have days."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from pydantic import ValidationError

from sqlmetrics.errors import SpecError
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.days import Days
from sqlmetrics.spec.spec import Spec


def on_days(spec: Spec, days: Days | None, *, check: bool = True) -> Spec:
    """The spec; of a click log it says itself which days are evaluated, each for itself.

    Args:
        spec: What is asked.
        days: Which days; None for all, as the spec says it.
        check: Whether labels may not be learned from these days.

    Raises:
        SpecError: If they would be.
    """
    clicks = spec.clicks
    if clicks is None or days is None:
        return spec
    changed = {"daily": True, "evaluation": days}
    own = {name: getattr(clicks, name) for name in Clicks.model_fields} | changed
    ranged = _click_log(own) if check else clicks.model_copy(update=changed)
    return spec.having(clicks=ranged, rankings=None, labels=None)


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
            f"the rankings have no column of dates, so they are of one day; given {days}; "
            "name the column as rankings.columns.date, or give the day as the start alone"
        )
    return Days(start=first, end=first + timedelta(1))


def _click_log(given: Mapping[str, object]) -> Clicks:
    try:
        return Clicks(**given)
    except ValidationError as error:
        told = "; ".join(one["msg"].removeprefix("Value error, ") for one in error.errors())
        raise SpecError(f"clicks, on the days of this run: {told}") from None


def days_between(
    start: str | date | None, end: str | date | None, *, option: str = ""
) -> Days | None:
    """The days from a start to before an end; None if neither is given.

    Args:
        start: The first day, also as a text.
        end: The day after the last one, likewise.
        option: What stands before the two names where they were given, like `--`.

    Raises:
        SpecError: If one is no date, or the end does not come after the start.
    """
    if not (start or end):
        return None
    try:
        return Days.model_validate({"start": start, "end": end})
    except ValidationError as error:
        wrong = error.errors()[0]
        if wrong["loc"]:
            what = f"{option}{wrong['loc'][0]} is a date like 2026-01-31"
            raise SpecError(f"{what}, given {wrong['input']!r}") from None
        raise SpecError(wrong["msg"].removeprefix("Value error, ")) from None
