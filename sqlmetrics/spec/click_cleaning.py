"""What is left out of a click log."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, field_validator

from sqlmetrics.spec.source import Model
from sqlmetrics.sql.user_sql import condition

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(value: object) -> object:
    """A duration like `30m` in seconds; a number is seconds already.

    >>> seconds("30m"), seconds(5)
    (1800.0, 5)
    """
    if not isinstance(value, str):
        return value
    number, unit = value.strip()[:-1], value.strip()[-1:]
    try:
        return float(number) * UNITS[unit]
    except (KeyError, ValueError):
        raise ValueError("is not a duration like 30m: give a number and s, m, h or d") from None


Seconds = Annotated[
    float,
    Field(ge=0),
    BeforeValidator(seconds),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0, "pattern": r"\d\s*[smhd]\s*$"}),
]
"""A number of them, or a text like `30m`."""

NEEDS = {
    "min_dwell": ("dwell",),
    "attribution_window": ("time",),
    "max_events_per_user_hour": ("user", "time"),
}
"""Option of the cleaning -> the columns of the events that it looks at."""


class Cleaning(Model):
    """What is left out of a log, each step by its own option."""

    test: str | None = None
    """A condition of the impressions: that is no user's traffic."""
    max_events_per_user_hour: int | None = Field(default=None, gt=0)
    """A user with more events than this in an hour is a bot, and all that the user did or was shown
    is left out."""
    bots_of: Literal["log", "day"] = "log"
    """`log`: a bot is left out on every day. `day`: on those days (in UTC) on which it had such an
    hour, and no other day is read to find bots."""
    min_dwell: Seconds | None = None
    """Clicks with a shorter stay, in seconds, are accidental."""
    attribution_window: Seconds | None = None
    """Events later than this after the impression are no answer to it."""
    deduplicate: bool = True
    """Whether a repeated event (request, item, action) counts once, the first. An item that was
    shown twice in a request always counts once, where it stood highest: else its events would count
    twice."""
    same_position: Literal["first", "drop", "keep"] = "keep"
    """Of two items at one position: `first` keeps the one shown first, `drop` neither, `keep` both,
    ranked by their ids.
    """
    unseen: int | None = Field(default=None, ge=0)
    """Leave out what stands more than so many positions below the last click of a request: it was
    not looked at. None keeps all."""

    @field_validator("test")
    @classmethod
    def _condition(cls, text: str | None) -> str | None:
        return text if text is None else condition(text)
