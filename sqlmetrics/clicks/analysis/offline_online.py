"""Offline and online metrics side by side, day by day: whether they move together.

The tables are small, a row per day, system and segment, so all of it is plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

from sqlmetrics.catalog.dimension import direction
from sqlmetrics.errors import SpecError
from sqlmetrics.spec.days import day_of
from sqlmetrics.stats import NOISE
from sqlmetrics.stats.nonparametric import spearman
from sqlmetrics.tables.table import Table, metric_value, printable, segment_cell
from sqlmetrics.tables.tabular import ArrowTables, Block, Tabular, arrow_tables, kinds_of

# What two families of metrics say of the same days, as values and as tables.

SystemSegment = tuple[str, str, str]
"""A system, a segment's name and its value."""

PRINTED_CHANGES = 12
"""As many changes in opposite directions are printed."""


@dataclass(frozen=True)
class Line:
    """Both families on one day.

    Attributes:
        metric_date: The day.
        system: The system.
        segment_name: The segment's name, `all` for all.
        segment_value: Its value.
        offline: Metric, like `ndcg@10` -> value; only those that the day has.
        online: Likewise, like `ctr@5`.
    """

    metric_date: date
    system: str
    segment_name: str
    segment_value: str
    offline: Mapping[str, float]
    online: Mapping[str, float]

    @property
    def cell(self) -> SystemSegment:
        """What it is of."""
        return self.system, self.segment_name, self.segment_value


@dataclass(frozen=True)
class Pair:
    """An offline and an online metric of one system and segment.

    Attributes:
        system: The system.
        segment_name: The segment's name, `all` for all.
        segment_value: Its value.
        offline: The offline metric.
        online: The online metric.
        n_days: Days that have both.
        correlation: Spearman's rank correlation over these days, from -1 to 1. None if they
            are too few, or if one of the metrics is the same on all of them.
        lag: So many days after the offline metric the online one follows it best; below 0 it
            goes ahead. Best is the highest correlation, and the lowest where of one metric
            less is better. Of equal ones the smallest lag counts. None like above.
        lagged: The correlation at that lag.
        lagged_days: Over how many pairs of days.
    """

    system: str
    segment_name: str
    segment_value: str
    offline: str
    online: str
    n_days: int
    correlation: float | None
    lag: int | None
    lagged: float | None
    lagged_days: int


@dataclass(frozen=True)
class Contradiction:
    """A pair of metrics that did not go the same way: one became better, the other did not.

    Attributes:
        system: The system.
        segment_name: The segment's name, `all` for all.
        segment_value: Its value.
        offline: The offline metric.
        online: The online metric.
        since: The day before; for halves the first day of the first half.
        until: The day; for halves the last day of the second half.
        offline_change: By how much the offline metric changed.
        online_change: By how much the online metric changed.
    """

    system: str
    segment_name: str
    segment_value: str
    offline: str
    online: str
    since: date
    until: date
    offline_change: float
    online_change: float


@dataclass(frozen=True, repr=False)
class OfflineOnline(Tabular):
    """The table of both families, and how they go together; it prints as tables.

    Attributes:
        lines: One a day, system and segment.
        pairs: One a pair of metrics, system and segment.
        by_day: Where a pair did not go the same way from one day to the next that has both.
        by_half: The same for the means of the first and of the second half of the days; the
            middle one of an odd number counts in neither.
    """

    lines: tuple[Line, ...]
    pairs: tuple[Pair, ...]
    by_day: tuple[Contradiction, ...]
    by_half: tuple[Contradiction, ...]

    def to_dicts(self) -> dict[str, list[dict[str, Any]]]:
        """All of it, for JSON, but for the days, which are dates."""
        return {name: [asdict(row) for row in getattr(self, name)] for name in vars(self)}

    def _arrow_tables(self) -> ArrowTables:
        names = metrics({**line.offline, **line.online} for line in self.lines)
        rows = self.to_dicts()
        lines = [row | row["offline"] | row["online"] for row in rows["lines"]]
        kinds = {
            "lines": kinds_of(Line, **dict.fromkeys(names, "double")),
            "pairs": kinds_of(Pair),
            "by_day": kinds_of(Contradiction),
            "by_half": kinds_of(Contradiction),
        }
        return arrow_tables(rows | {"lines": lines}, kinds)

    def _blocks(self) -> Iterator[Block]:
        yield from (_lines(self.lines), _pairs(self.pairs))
        yield from _opposed("offline and online disagree, first half to second", self.by_half)
        yield from _opposed("offline and online disagree, day to day", self.by_day)


def _lines(lines: Sequence[Line]) -> Table:
    offline = metrics(line.offline for line in lines)
    online = metrics(line.online for line in lines)
    rows = [
        [str(line.metric_date), *_group_cells(line.cell)]
        + [metric_value(line.offline.get(name)) for name in offline]
        + [metric_value(line.online.get(name)) for name in online]
        for line in lines
    ]
    return Table(["day", "system", "segment", *offline, *online], rows, 3)


def _pairs(pairs: Sequence[Pair]) -> Table:
    names = ["system", "segment", "offline", "online", "days", "spearman"]
    rows = [
        [
            *_group_cells((pair.system, pair.segment_name, pair.segment_value)),
            *(pair.offline, pair.online, str(pair.n_days), _signed(pair.correlation)),
            *("-" if pair.lag is None else f"{pair.lag:+d}" if pair.lag else "0",),
            *(_signed(pair.lagged), str(pair.lagged_days)),
        ]
        for pair in pairs
    ]
    return Table([*names, "best lag", "spearman", "pairs"], rows, 4)


def _opposed(title: str, changes: Sequence[Contradiction]) -> Iterator[Block]:
    if not changes:
        return
    rows = [
        [
            f"{contradiction.since} to {contradiction.until}",
            *_group_cells(
                (contradiction.system, contradiction.segment_name, contradiction.segment_value)
            ),
            f"{contradiction.offline} {_signed(contradiction.offline_change)}",
            f"{contradiction.online} {_signed(contradiction.online_change)}",
        ]
        for contradiction in changes[:PRINTED_CHANGES]
    ]
    n_more = len(changes) - PRINTED_CHANGES
    table = Table([title, "system", "segment", "offline", "online"], rows)
    yield (table, f"... {n_more:,} more" if n_more > 0 else "")


def _group_cells(group: SystemSegment) -> tuple[str, str]:
    system, name, value = group
    return printable(system), segment_cell(name, value)


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def metrics(values: Iterable[Mapping[str, float]]) -> list[str]:
    """The metrics that are there on some day."""
    return list(dict.fromkeys(name for value_by_metric in values for name in value_by_metric))


Rows = Iterable[Mapping[str, Any]]
Series = Mapping[date, float]
"""Day -> value."""


def offline_online(
    offline: Rows, online: Rows, *, lags: int = 7, least_days: int = 5
) -> OfflineOnline:
    """Compare offline with online metrics of the same days, systems and segments.

    Args:
        offline: Rows of the fact table: `Result.to_dicts()` of an evaluation with days.
        online: Rows of the online metrics: `ClickResult.online().to_pylist()`.
        lags: The largest lag to try, in days, in both directions.
        least_days: The smallest number of days for a correlation, at least 3: with fewer days, one
            of many lags always fits.

    Raises:
        SpecError: If a metric has two values for a day, system and segment, or the two have no day,
            system and segment in common.

    >>> days = [date(2026, 1, day) for day in range(1, 7)]
    >>> both = {"system": "s", "segment_name": "all", "segment_value": "all", "k": 10}
    >>> def rows(metric, values):
    ...     return [both | {"metric": metric, "metric_date": day, "value": value}
    ...             for day, value in zip(days, values)]
    >>> ndcg, ctr = rows("ndcg", [1, 2, 3, 4, 5, 6]), rows("ctr", [2, 4, 6, 8, 9, 7])
    >>> (pair,) = offline_online(ndcg, ctr).pairs
    >>> round(pair.correlation, 3), pair.lag
    (0.829, -1)
    """
    if lags < 0 or least_days < 3:
        raise SpecError(
            f"lags must be 0 or more and least_days 3 or more, given {lags} and {least_days}"
        )
    lines = tuple(_joined(_values(offline, "offline"), _values(online, "online")))
    pairs, by_day, by_half = [], [], []
    for group, names, offline_series, two in _series(lines):
        pairs.append(_pair(group, names, offline_series, two, lags=lags, least=least_days))
        signs = direction(names[0]), direction(names[1])
        if 0 in signs:
            continue  # no way is the better one
        make_contradiction = partial(Contradiction, *group, *names)
        by_day += [
            make_contradiction(*days, *changes)
            for days, changes in _day_by_day(offline_series, two, signs)
        ]
        by_half += [
            make_contradiction(*days, *changes)
            for days, changes in _halves(offline_series, two, signs)
        ]
    return OfflineOnline(lines, tuple(pairs), tuple(by_day), tuple(by_half))


def _values(rows: Rows, family: str) -> dict[tuple[date, SystemSegment], dict[str, float]]:
    """Day and place -> metric -> value."""
    values_by_key: dict[tuple[date, SystemSegment], dict[str, float]] = {}
    seen_keys = set()
    for row in rows:
        group = (str(row["system"]), str(row["segment_name"]), str(row["segment_value"]))
        key = day_of(row["metric_date"]), group
        value_by_metric = values_by_key.setdefault(key, {})
        name = f"{row['metric']}@{row['k']}" if row["k"] else str(row["metric"])
        if (key, name) in seen_keys:
            where = f"{row['metric_date']}, system {group[0]!r}, {group[1]} {group[2]!r}"
            raise SpecError(
                f"{family}: {name} has two values for {where}; give the rows of one spec"
            )
        seen_keys.add((key, name))
        if row["value"] is not None:
            value_by_metric[name] = float(row["value"])
    return values_by_key


def _joined(
    offline: Mapping[tuple[date, SystemSegment], Mapping[str, float]],
    online: Mapping[tuple[date, SystemSegment], Mapping[str, float]],
) -> Iterator[Line]:
    if not offline.keys() & online.keys():
        raise SpecError(
            "offline and online have no day, system and segment in common; offline has "
            f"{_first(offline)}, online has {_first(online)}"
        )
    places = {group for _, group in (*offline, *online)}
    in_order = sorted(places, key=lambda group: (group[1] != "all", group[1:], group[0]))
    for group in in_order:
        days = sorted(day for day, day_group in {*offline, *online} if day_group == group)
        for day in days:
            yield Line(day, *group, offline.get((day, group), {}), online.get((day, group), {}))


def _first(values_by_key: Mapping[tuple[date, SystemSegment], object]) -> str:
    if not values_by_key:
        return "nothing"
    day, (system, name, value) = min(values_by_key)
    return f"{day}, system {system!r}, {name} {value!r}" + (
        " and others" if len(values_by_key) > 1 else ""
    )


def _series(
    lines: Sequence[Line],
) -> Iterator[tuple[SystemSegment, tuple[str, str], Series, Series]]:
    """Every pair of metrics of every place, and both by day."""
    by_place: dict[SystemSegment, list[Line]] = {}
    for line in lines:
        by_place.setdefault(line.cell, []).append(line)
    for group, group_lines in by_place.items():
        for offline_metric in metrics(line.offline for line in group_lines):
            for two in metrics(line.online for line in group_lines):
                offline_series = {
                    line.metric_date: line.offline[offline_metric]
                    for line in group_lines
                    if offline_metric in line.offline
                }
                right = {
                    line.metric_date: line.online[two] for line in group_lines if two in line.online
                }
                yield group, (offline_metric, two), offline_series, right


def _pair(
    group: SystemSegment,
    names: tuple[str, str],
    offline_series: Series,
    two: Series,
    *,
    lags: int,
    least: int,
) -> Pair:
    """How two metrics go together, on the same day and at the best lag."""
    n_days, correlation = _at(offline_series, two, 0, least)
    correlations: list[tuple[int, float, int]] = []
    for lag in sorted(range(-lags, lags + 1), key=lambda lag: (abs(lag), -lag)):
        n_pairs, lagged = _at(offline_series, two, lag, least)
        if lagged is not None:
            correlations.append((lag, lagged, n_pairs))
    if not correlations:
        return Pair(*group, *names, n_days, correlation, None, None, 0)
    turned = -1 if direction(names[0]) * direction(names[1]) < 0 else 1
    best, highest, n_pairs = max(
        correlations, key=lambda candidate: round(turned * candidate[1], 12)
    )
    return Pair(*group, *names, n_days, correlation, best, highest, n_pairs)


def _at(offline_series: Series, two: Series, lag: int, least: int) -> tuple[int, float | None]:
    """How many pairs of days there are at a lag, and their correlation."""
    later = timedelta(days=lag)
    days = [day for day in offline_series if day + later in two]
    if len(days) < least:
        return len(days), None
    return len(days), spearman(
        [offline_series[day] for day in days], [two[day + later] for day in days]
    )


Change = tuple[tuple[date, date], tuple[float, float]]
"""Since when and until when, and by how much the two metrics changed."""


Signs = tuple[int, int]
"""Whether higher is better, for both metrics; see `direction`."""


def _day_by_day(offline_series: Series, two: Series, signs: Signs) -> Iterator[Change]:
    days = sorted(offline_series.keys() & two.keys())
    for before, day in pairwise(days):
        changes = offline_series[day] - offline_series[before], two[day] - two[before]
        if _differ(changes, signs):
            yield (before, day), changes


def _halves(offline_series: Series, two: Series, signs: Signs) -> Iterator[Change]:
    days = sorted(offline_series.keys() & two.keys())
    half = len(days) // 2
    if not half:
        return
    first, last = days[:half], days[-half:]
    changes = (
        _mean(offline_series, last) - _mean(offline_series, first),
        _mean(two, last) - _mean(two, first),
    )
    if _differ(changes, signs):
        yield (days[0], days[-1]), changes


def _differ(changes: tuple[float, float], signs: Signs) -> bool:
    """Whether one metric became better, and the other did not."""
    offline_sign, two = (sign * _sign(change) for sign, change in zip(signs, changes, strict=True))
    return offline_sign != two


def _mean(series: Series, days: Iterable[date]) -> float:
    return fmean(series[day] for day in days)


def _sign(change: float) -> int:
    """1, 0 or -1; what is left of rounding is 0."""
    return 0 if abs(change) < NOISE else int(math.copysign(1, change))
