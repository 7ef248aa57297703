"""Days of times with a zone: whose days they are, table by table."""

from __future__ import annotations

from collections.abc import Mapping
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from sqlmetrics.errors import did_you_mean

UTC = "UTC"
ZONED = "TIMESTAMP WITH TIME ZONE"
"""DuckDB's word for the type of a time that is the same moment everywhere."""


def checked_zone(name: str) -> str:
    """The name of a time zone.

    Raises:
        ValueError: If there is none of that name.

    >>> checked_zone("Europe/Berlin")
    'Europe/Berlin'
    """
    zone_names = available_timezones()
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        if name == UTC:
            return name
        hint = did_you_mean(name, zone_names) or "; give a name like Europe/Berlin or UTC"
        raise ValueError(f"unknown time zone {name!r}{hint}") from None
    return name


def zone_of(table: str, column: str, kind: str, time_zone: str | None) -> str:
    """The zone whose days a column has; empty where its values are days, whatever the zone.

    Args:
        table: What is told of if it cannot be.
        column: The column of days or times.
        kind: Its type, in DuckDB's words; empty where that is not known.
        time_zone: The zone that was asked for.

    Raises:
        ValueError: If a zone was asked for, and the column has none.
    """
    if kind == ZONED:
        return time_zone or UTC
    if time_zone and kind:
        raise ValueError(
            f"{table}.time_zone: the column {column} is a {kind}, which has no time zone, so its "
            "days are the same everywhere; leave time_zone out"
        )
    return time_zone or ""


Zones = Mapping[str, str]
"""Table -> the zone whose days its times have; tables whose days are days are not there."""
