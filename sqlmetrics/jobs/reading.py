"""The numbers that runs wrote, read back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, ClassVar

from sqlmetrics.catalog.dimension import RATIO, TOTAL, row_of
from sqlmetrics.catalog.measure import metric_texts
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import NoDataError, SpecError, SqlmetricsError, unknown
from sqlmetrics.jobs.days import days_between, zone_of_days
from sqlmetrics.jobs.definitions import read_metric_key, these
from sqlmetrics.jobs.pooled_days import rollup_by_period
from sqlmetrics.jobs.schema import FACTS, columns_of, targets
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.days import Days, day_of
from sqlmetrics.spec.reading import AnySpec, spec_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, relation
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.tables.table import Table, printable, value_text
from sqlmetrics.tables.tabular import Block, Row, Tabular

# What a spec's fact table holds: its metrics, systems, segments and days, by their names.

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
        if segment == ALL:
            raise SpecError(
                f"the value {value!r} needs a segment, of which it is one; known: "
                f"{', '.join(map(printable, self.segments)) or 'none'}"
            )
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


# A spec's numbers as its tables have them: days put together by sums over sums, never by means.

EVERY = ("day", "week", "month")
"""The periods that days may be put together by; weeks begin on Monday."""

MOST_DAYS = 5
"""As many days are named at most in a note."""

_KINDS = {
    **dict.fromkeys(("metric", "system", "segment_name", "segment_value"), "string"),
    **dict.fromkeys(("first_date", "last_date"), "date32"),
    "n_days": "int64",
    **dict.fromkeys(("value", "ci_low", "ci_high"), "double"),
    **dict.fromkeys(("n_queries", "n_skipped", "n_missing"), "int64"),
    "definition_hash": "string",
    "computed_at": "timestamp[us]",
}


@dataclass(frozen=True, repr=False)
class StoredMetrics(Tabular):
    """Numbers of a fact table; it prints as a table, also in a notebook.

    Attributes:
        spec: The name of the spec.
        days: The chosen days that have rows, in order.
        rows: One row per metric, system, segment value, period and definition.
        notes: Sentences that a reader should know: days without rows, other definitions, what is
            left out.
        is_cut: Whether there are more rows than `limit`.
    """

    spec: str
    days: Sequence[date]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    is_cut: bool = False

    _schemas: ClassVar = {"rows": _KINDS}

    def to_dicts(self) -> list[Row]:
        """The rows.

        `value` is numerator / denominator, summed over `n_days` days from `first_date` to
        `last_date`; NULL for metrics that cannot be added up, unless there is only one day.
        `ci_low` and `ci_high` bound it at 95 %, or, for a single day, at the `confidence` of the
        spec; NULL if the table does not have the sums. `n_queries` counts a query once per day.
        """
        return [*self.rows]

    def _blocks(self) -> Iterator[Block]:
        names = ["metric", "system", "segment", "days", "value", "interval", "queries"]
        cells = [
            [
                row["metric"],
                printable(row["system"]),
                ALL if row["segment_name"] == ALL else value_text(row["segment_value"]),
                span_text(row["first_date"], row["last_date"]),
                number_text(row["value"]),
                interval_text(row),
                f"{row['n_queries']:,}",
            ]
            for row in self.rows
        ]
        yield Table(names, cells, 4)
        if self.notes:
            yield "\n".join(self.notes)


def span_text(first: date, last: date) -> str:
    """A day, or the first and the last one."""
    return str(first) if first == last else f"{first} to {last}"


def number_text(value: float | None) -> str:
    """A number to read, of four decimals; `-` where there is none."""
    return "-" if value is None else f"{value:,.4f}"


def interval_text(row: Row) -> str:
    """The interval of a row."""
    return "-" if row["ci_low"] is None else f"{row['ci_low']:.4f} to {row['ci_high']:.4f}"


def query_metrics(
    spec: AnySpec,
    connection: Any,
    metrics: str | Sequence[str] = (),
    *,
    start: str | date | None = None,
    end: str | date | None = None,
    every: str = "",
    systems: str | Sequence[str] = (),
    segment: str = ALL,
    segment_value: str | None = None,
    limit: int | None = None,
) -> StoredMetrics:
    """Read the numbers that `run` has stored for a spec; nothing is evaluated.

    Several days are added up as sum(numerator) / sum(denominator). Queries that appear again on
    other days are no new evidence, so intervals count each query once. Days with another definition
    of a metric get rows of their own, since two definitions have no common mean.

    Args:
        spec: The spec of the run, with its `output`: its path, a `Spec` or a dict of its keys.
        connection: The database that holds its tables; see `connect`.
        metrics: Metrics such as `ndcg@10`. Default: all metrics of the spec in the table.
        start: The first day; `yesterday` and `-7 days` are days too. Default: the first day of the
            table.
        end: The day after the last one. Default: the day after the last day of the table.
        every: `day`, `week` (from Monday) or `month`: one row per period. Default: all days
            together.
        systems: The systems to read. Default: all.
        segment: A segment of the spec; each of its values has a row. Default: all queries.
        segment_value: The one value of the segment to read.
        limit: The largest number of rows.

    Returns:
        The rows, and notes on what is missing.

    Raises:
        SpecError: If the spec has no output, or no row has a given name; the nearest name is given.
        NoDataError: If the table has no row of the spec, or none of these days.
        EngineError: If the database fails.
    """
    spec = spec_of(spec)
    if every and every not in EVERY:
        raise SpecError(unknown("period", every, EVERY))
    if limit is not None and limit < 1:
        raise SpecError(f"limit is how many rows at most, 1 or more, given {limit}")
    days = days_between(start, end, zone_of_days(spec))
    with connect(connection) as engine:
        table = StoredTable(spec, engine)
        table.check()
        names = (systems,) if isinstance(systems, str) else tuple(systems)
        keys = table.metric_keys(metric_texts(metrics))
        table.check_systems(names)
        table.check_segment(segment, segment_value)
        stored_days = table.days_in(days)
        values = () if segment_value is None or segment == ALL else (segment_value,)
        conditions = table.conditions(
            days, system=names, segment_name=(segment,), segment_value=values
        )
        where = "\n    and ".join([*conditions, f"(\n    {these(keys)}\n)"])
        text = rollup_by_period(table.name, _period(stored_days, every), where)
        order = "metric asc, k asc, segment_value asc, system asc, period_start asc"
        order += ", first_date asc, definition_hash asc"
        text += f"\norder by {order}" + (f"\nlimit {limit + 1}" if limit else "")
        rows = [_row(record) for record in _in_order(engine, text, keys)]
        gaps = tuple(_gaps(table, days, [row["system"] for row in rows]))
    is_cut = limit is not None and len(rows) > limit
    notes = (*gaps, *_other_definitions(rows), *_not_added(rows), *_levels(spec, rows))
    return StoredMetrics(spec.title, stored_days, tuple(rows[:limit]), notes, is_cut)


def _in_order(engine: Database, text: str, keys: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """The rows of a query, metrics in the order in which they are asked for."""
    place_by_key = {key: number for number, key in enumerate(keys)}
    records = engine.records(text)
    return sorted(records, key=lambda record: place_by_key[record["metric"], int(record["k"])])


def _period(days: Sequence[date], every: str) -> str:
    """The first day of the period of a row, as SQL."""
    if every == "day":
        return "metric_date"
    starts = sorted({_period_start(day, every) for day in days}) if every else [days[0]]
    texts = [f"date {literal(str(start))}" for start in starts]
    branches = [f"    when metric_date < {end}\n    then {start}" for start, end in pairwise(texts)]
    if not branches:
        return texts[0]
    return "\n".join(["case", *branches, f"    else {texts[-1]}", "end"])


def _period_start(day: date, every: str) -> date:
    return day.replace(day=1) if every == "month" else day - timedelta(day.weekday())


def _row(record: dict[str, Any]) -> Row:
    metric, k = record["metric"], int(record["k"])
    row = {"metric": at_cutoff(metric, k)} | {
        name: record[name] for name in _KINDS if name in record and name != "metric"
    }
    if _roll_up(metric, k) == TOTAL:
        row["value"] = record["total_value"]
    days = {name: day_of(record[name]) for name in ("first_date", "last_date")}
    counts = ("n_days", "n_queries", "n_skipped", "n_missing")
    return row | days | {name: int(record[name]) for name in counts}


def _roll_up(metric: str, k: int) -> str:
    """How days are put together; of a metric that this version does not know, as of most."""
    try:
        return row_of(metric, k).roll_up
    except SqlmetricsError:
        return RATIO


def _gaps(table: StoredTable, days: Days | None, systems: Iterable[str]) -> Iterator[str]:
    """Days that were asked for and have no row, and days on which a system has none."""
    stored = table.days_in(days)
    first = days.start if days and days.start else stored[0]
    last = days.end - timedelta(1) if days and days.end else stored[-1]
    stored_days = {*stored}
    calendar = (first + timedelta(number) for number in range((last - first).days + 1))
    missing = [*islice((day for day in calendar if day not in stored_days), MOST_DAYS)]
    n_missing = (last - first).days + 1 - len(stored)
    if missing:
        names = _listed(missing, n_missing)
        yield f"no rows on {names}; the last day that has any is {table.days[-1]}"
    days_by_system = table.days_by_system(days)
    for system in dict.fromkeys(systems):
        paused = [day for day in stored if day not in days_by_system[system]]
        if paused:
            names = _listed(paused, len(paused))
            yield f"{printable(system)} has no rows on {names}, where other systems have some"


def _listed(days: Sequence[date], n: int) -> str:
    """So many days as a text: the first ones by name."""
    names = ", ".join(map(str, days[:MOST_DAYS]))
    return names if n <= MOST_DAYS else f"{names} and {n - MOST_DAYS:,} more days"


def _other_definitions(rows: Iterable[Row]) -> Iterator[str]:
    """Metrics whose days were computed by several definitions."""
    hashes: dict[str, dict[str, None]] = {}
    for row in rows:
        hashes.setdefault(row["metric"], {})[row["definition_hash"]] = None
    for metric, metric_hashes in hashes.items():
        if len(metric_hashes) > 1:
            yield (
                f"{metric} was computed by {len(metric_hashes)} definitions "
                f"({', '.join(metric_hashes)}): their days have rows of their own and no common "
                "mean; definition says what changed"
            )


def _levels(spec: Spec, rows: Iterable[Row]) -> Iterator[str]:
    """What intervals cover, where it is not the same for a day and for several."""
    if spec.confidence != CONFIDENCE and any(row["n_days"] == 1 for row in rows):
        yield (
            f"the interval of a single day is the one that was stored, {100 * spec.confidence:g} % "
            f"by the spec; that of several days covers {100 * CONFIDENCE:g} %"
        )


def _not_added(rows: Iterable[Row]) -> Iterator[str]:
    """Metrics that have no number of several days."""
    names = dict.fromkeys(
        row["metric"] for row in rows if row["value"] is None and row["n_days"] > 1
    )
    if names:
        yield (
            f"{', '.join(names)} cannot be added up over days, so several days have no number: "
            "ask for each day by itself"
        )
