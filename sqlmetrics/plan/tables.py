"""The tables of an evaluation, each as what stands behind FROM, and what is read of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from sqlmetrics.spec.days import Ends
from sqlmetrics.spec.source import Queries, Source
from sqlmetrics.spec.zones import Zones
from sqlmetrics.sql.relation import Relation, protect_query
from sqlmetrics.sql.template import literal
from sqlmetrics.sql.translation import Translation


@dataclass(frozen=True)
class FunnelStages:
    """The stages that a query's lists go through, each of which has a list of its own.

    Attributes:
        column: The column of the rankings that names a row's stage.
        names: The stages, the first one first; empty for all, in no order.
    """

    column: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownLists:
    """What a click log tells of lists of which every item stands where it was shown.

    Attributes:
        ranks: A relation of their labelled items: query_id, what else the rankings have of a
            list, grade and rnk; a list without a label has one row without these two.
        other_requests: A relation of the requests of all other lists, request_id.
        facts: The columns of the first that may be segments.
    """

    ranks: str
    other_requests: str
    facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tables:
    """The tables of an evaluation; those of the queries and the items need not be there.

    Attributes:
        rankings: The ranked items.
        labels: The graded items.
        queries: What is known of queries.
        items: What is known of items.
        translation: The dialect of the database that they are in.
        ends: Of the days that are looked at, where a table has days; None for all.
        notes: What should be known of how they are read.
        zones: Table -> the zone whose days its times have, for those that have times with one.
        day_kinds: Table -> the type of its column of days, where that is known and it is compared
            as it is.
        funnel: The stages that lists go through; None where a query has one list a system.
        shown_lists: What a click log tells of the ranks; None where the rankings are to be read.
        systems: The names of tables that are a system each, as they were given; else empty.
        trace_queries: What `queries` has, where it is what traces say of their queries, and the
            spec names no such table; else None.
        left_out: Which files of rankings are left out; empty if none is.
        system_column: The column of systems that each of several runs has, and that is not used.
        unfused: The same before `fuse` of the spec adds systems to the rankings; None without it.
    """

    rankings: Relation
    labels: Relation
    queries: Relation | None = None
    items: Relation | None = None
    translation: Translation = field(default_factory=Translation)
    ends: Ends | None = None
    zones: Zones = field(default_factory=dict)
    day_kinds: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    funnel: FunnelStages | None = None
    shown_lists: ShownLists | None = None
    systems: tuple[str, ...] = ()
    trace_queries: Queries | None = None
    left_out: str = ""
    system_column: str = ""
    unfused: Tables | None = None

    def condition(self, table: str, source: Source) -> str:
        """The condition that is still to be met by the rows of a table; empty without one."""
        is_met = table == "rankings" and self.unfused is not None
        return "" if is_met else source.where or ""

    def on(self, ends: Ends | None) -> Tables:
        """The same, of some days alone; None for all."""
        return replace(self, ends=ends)

    @property
    def on_all_days(self) -> Tables:
        """The same, of all days, in whatever files they are."""
        return replace(
            self,
            rankings=self.rankings.of_all_files,
            labels=self.labels.of_all_files,
            queries=self.queries and self.queries.of_all_files,
            ends=None,
            unfused=self.unfused and self.unfused.on_all_days,
        )

    def protected(self, relation: Relation) -> Relation:
        """A table as the compiler prints it: a query of the user's is hidden from translation."""
        return protect_query(relation, self.translation)


@dataclass(frozen=True)
class Bucket:
    """Some of the queries, with all their rankings and labels.

    Attributes:
        conditions: Table -> what its rows in this bucket meet, over the source's columns.
        systems: The systems of each day that is looked at, also those without a list in this
            bucket: day and system, as far as there are such columns, each as values in SQL.
        rows: About how many rows of the rankings are in it.
        number: Its number.
    """

    conditions: Mapping[str, str] = field(default_factory=dict)
    systems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rows: int = 0
    number: int = 0

    def of(self, table: str, condition: str) -> str:
        """A condition of a table's rows together with that of the bucket."""
        conditions = [part for part in (condition, self.conditions.get(table, "")) if part]
        return conditions[0] if len(conditions) == 1 else " and ".join(f"({c})" for c in conditions)


NO_BUCKET = Bucket()


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
