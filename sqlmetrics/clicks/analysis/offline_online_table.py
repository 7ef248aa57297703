"""What two families of metrics say of the same days, as values and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from sqlmetrics.tables.table import Table, metric_value, printable, segment_cell
from sqlmetrics.tables.tabular import ArrowTables, Block, Tabular, arrow_tables, kinds_of

Place = tuple[str, str, str]
"""A system, a segment's name and its value."""

SHOWN = 12
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
    def place(self) -> Place:
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
        [str(line.metric_date), *_place(line.place)]
        + [metric_value(line.offline.get(name)) for name in offline]
        + [metric_value(line.online.get(name)) for name in online]
        for line in lines
    ]
    return Table(["day", "system", "segment", *offline, *online], rows, 3)


def _pairs(pairs: Sequence[Pair]) -> Table:
    names = ["system", "segment", "offline", "online", "days", "spearman"]
    rows = [
        [
            *_place((pair.system, pair.segment_name, pair.segment_value)),
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
            *_place(
                (contradiction.system, contradiction.segment_name, contradiction.segment_value)
            ),
            f"{contradiction.offline} {_signed(contradiction.offline_change)}",
            f"{contradiction.online} {_signed(contradiction.online_change)}",
        ]
        for contradiction in changes[:SHOWN]
    ]
    n_more = len(changes) - SHOWN
    table = Table([title, "system", "segment", "offline", "online"], rows)
    yield (table, f"... {n_more:,} more" if n_more > 0 else "")


def _place(group: Place) -> tuple[str, str]:
    system, name, value = group
    return printable(system), segment_cell(name, value)


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def metrics(values: Iterable[Mapping[str, float]]) -> list[str]:
    """The metrics that are there on some day."""
    return list(dict.fromkeys(name for value_by_metric in values for name in value_by_metric))
