"""What a spec's fact table holds: its metrics, systems, segments and days, by their names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import NoDataError, SpecError, unknown
from sqlmetrics.jobs.definitions import read_metric_key
from sqlmetrics.jobs.schema import FACTS
from sqlmetrics.jobs.tables import columns_of, targets
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.days import Days, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, relation

MetricKey = tuple[str, int]
"""A metric's text without the cutoff, and the cutoff; 0 for none."""


@dataclass(frozen=True)
class StoredDays:
    """The days of a metric or a system.

    Attributes:
        first: The first day.
        last: The last one.
        n: How many there are.
    """

    first: date
    last: date
    n: int


@dataclass(frozen=True)
class StoredTable:
    """The rows of a spec in its fact table.

    Attributes:
        spec: The spec, with its `output`.
        engine: Where the table is.
    """

    spec: Spec
    engine: Database

    @property
    def name(self) -> str:
        """The name of the fact table."""
        return targets(self.spec)["facts"]

    @property
    def is_of_spec(self) -> str:
        """What its rows meet, as SQL."""
        return f"spec = {literal(self.spec.title)}"

    def check(self) -> None:
        """Look whether there is anything to read.

        Raises:
            NoDataError: If there is no table yet, or no row of the spec.
            SpecError: If it is no table of runs, or of such an old one that columns are not there.
        """
        columns = {column.casefold() for column in columns_of(self.name, self.engine)}
        if not columns:
            raise NoDataError(f"there is no table {self.name} yet; write it with sqlmetrics run")
        if missing := [column for column in FACTS if column not in columns]:
            raise SpecError(
                f"{self.name} lacks the column {missing[0]}; if an older version wrote "
                "the table, the next sqlmetrics run adds it"
            )
        if not self.days:
            raise NoDataError(
                f"{self.name} has no row of {self.spec.title} yet; write them with sqlmetrics run"
            )

    @cached_property
    def days(self) -> Sequence[date]:
        """The days that have rows of all queries, in their order."""
        rows = self._select("metric_date", "distinct ")
        return sorted(day_of(day) for (day,) in rows)

    @cached_property
    def systems(self) -> Mapping[str, StoredDays]:
        """System -> its days, in the order of names."""
        rows = self._select(f"system, {_SPAN}", group_by="system")
        return {str(system): _stored_days(*span) for system, *span in sorted(rows)}

    @cached_property
    def metrics(self) -> Mapping[MetricKey, StoredDays]:
        """Metric and cutoff -> its days: those that the spec asks for first, in its order."""
        rows = self._select(f"metric, k, {_SPAN}", group_by="metric, k")
        return {(metric, int(k)): _stored_days(*span) for metric, k, *span in sorted(rows)}

    @cached_property
    def segments(self) -> Mapping[str, Sequence[str]]:
        """Segment -> its values, those with most queries first."""
        select = (
            "select segment_name, segment_value, max(n_queries) as n_queries\n"
            f"from {relation(self.name)}\n"
            f"where {self.is_of_spec}\n    and segment_name <> {literal(ALL)}\n"
            "group by segment_name, segment_value"
        )
        rows = sorted(self.engine.rows(select), key=lambda row: (row[0], -row[2], row[1]))
        values: dict[str, list[str]] = {}
        for name, value, _ in rows:
            values.setdefault(str(name), []).append(str(value))
        return values

    @cached_property
    def computed_at(self) -> Any:
        """When its last rows were computed, in UTC."""
        return self._select("max(computed_at)")[0][0]

    def metric_keys(self, texts: Collection[str] = ()) -> list[MetricKey]:
        """Metrics by their texts; without any, those that the spec asks for and the table has.

        Raises:
            SpecError: If the table has none of a text.
        """
        name_by_key = {key: at_cutoff(*key) for key in self.metrics}
        if not texts:
            order = {str(measure): number for number, measure in enumerate(self.spec.measures)}
            return sorted(name_by_key, key=lambda key: order.get(name_by_key[key], len(order)))
        keys = []
        for text in texts:
            stored = [key for key, name in name_by_key.items() if name == text]
            key = stored[0] if stored else self._metric_key(text, name_by_key.values())
            if key not in name_by_key:
                raise SpecError(unknown("metric", text, name_by_key.values()))
            keys.append(key)
        return list(dict.fromkeys(keys))

    def _metric_key(self, text: str, names: Collection[str]) -> MetricKey:
        try:
            return read_metric_key(text, self.spec)
        except SpecError:
            raise SpecError(unknown("metric", text, names)) from None

    def check_systems(self, systems: Collection[str]) -> None:
        """Raise SpecError for a system that has no row."""
        for system in systems:
            if system not in self.systems:
                raise SpecError(unknown("system", system, self.systems))

    def check_segment(self, segment: str, value: str | None = None) -> None:
        """Raise SpecError for a segment, or a value of it, that has no row."""
        if segment == ALL and value in (None, ALL):
            return
        if segment not in self.segments:
            raise SpecError(unknown("segment", segment, (ALL, *self.segments)))
        if value is not None and value not in self.segments[segment]:
            raise SpecError(unknown(f"value of {segment}", value, self.segments[segment]))

    def days_in(self, days: Days | None) -> Sequence[date]:
        """The days of a range that have rows.

        Raises:
            NoDataError: If none has.
        """
        stored = [day for day in self.days if days is None or _is_within(day, days)]
        if not stored:
            raise NoDataError(
                f"{self.name} has no row of {self.spec.title} {days}; it has days from "
                f"{self.days[0]} to {self.days[-1]}"
            )
        return stored

    def days_by_system(self, days: Days | None) -> Mapping[str, Collection[date]]:
        """System -> its days in a range."""
        where = "\n    and ".join(self.conditions(days, segment_name=(ALL,)))
        text = f"select distinct system, metric_date\nfrom {relation(self.name)}\nwhere {where}"
        days_by_system: dict[str, set[date]] = {system: set() for system in self.systems}
        for system, day in self.engine.rows(text):
            days_by_system[str(system)].add(day_of(day))
        return days_by_system

    def conditions(self, days: Days | None = None, **names: Collection[str]) -> list[str]:
        """What rows meet: of the spec, of some days, and of some values of columns."""
        conditions = [self.is_of_spec]
        if days and days.start:
            conditions.append(f"metric_date >= date {literal(str(days.start))}")
        if days and days.end:
            conditions.append(f"metric_date < date {literal(str(days.end))}")
        for column, values in names.items():
            if values:
                conditions.append(f"{column} in ({', '.join(map(literal, sorted(values)))})")
        return conditions

    def _select(
        self, columns: str, distinct: str = "", *, group_by: str = ""
    ) -> list[tuple[Any, ...]]:
        """Of the rows of all queries, which are enough: segments have no other days."""
        where = f"{self.is_of_spec}\n    and segment_name = {literal(ALL)}"
        text = f"select {distinct}{columns}\nfrom {relation(self.name)}\nwhere {where}"
        return self.engine.rows(text + (f"\ngroup by {group_by}" if group_by else ""))


_SPAN = (
    "min(metric_date) as first_date, max(metric_date) as last_date, "
    "count(distinct metric_date) as n_days"
)


def _stored_days(first: Any, last: Any, n: Any) -> StoredDays:
    return StoredDays(day_of(first), day_of(last), int(n))


def _is_within(day: date, days: Days) -> bool:
    return (days.start is None or day >= days.start) and (days.end is None or day < days.end)
