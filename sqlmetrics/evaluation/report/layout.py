"""The cells of a result as people read them: what stands beside and below one another.

Of several layouts it is the one of the fewest lines that the terminal has room for. Beside the
rows of the summary there are those over all days, and marks: the best system, and shares of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.tables.table import (
    DECIMALS,
    MOST_ROWS,
    Table,
    metric_value,
    printable,
    segment_cell,
)
from sqlmetrics.tables.tabular import Row

if TYPE_CHECKING:
    from sqlmetrics.evaluation.report.result import Result

WIDE = 6
"""With more metrics than this, a file has them below one another."""

BROKEN = 3
"""A table in several parts is read as badly as one with so many times the lines."""

MANY = 20 * MOST_ROWS
"""More numbers than this have one layout, since a terminal shows their beginning alone."""

COUNTS = {"n_queries": "queries", "n_skipped": "skipped", "n_missing": "missing"}
ALL_DAYS = "all days"
UNIT_RANGE = ("0 to 1", "0 or 1")

LEGEND = {
    "n_skipped": "skipped: queries for which the metric is undefined; the mean leaves them out",
    "n_missing": "missing: labelled queries without a ranking; they are {missing}",
}
MISSING = {"zero": "counted as empty lists", "drop": "left out", "error": "refused"}

Key = Mapping[str, Callable[[Row], str]]


class Columned(Protocol):
    """A metric as a column: one of lists, or one of what users did."""

    @property
    def name(self) -> str:
        """Its text without the cutoff."""

    @property
    def k(self) -> int | None:
        """Its cutoff."""

    @property
    def metric(self) -> Any:
        """What is known of it: `better`, `range` and `count`."""


class Facts(NamedTuple):
    """Rows of the fact table, and what is shown of them.

    Attributes:
        rows: By day, segment, metric and system.
        measures: Their metrics, in order.
        is_dated: Whether they have days.
        has_segments: Whether they have segments.
        counts: The columns of counts that say something, with their headings.
        has_several_means: Whether metrics are averaged over different queries, so that each
            needs its count.
        decimals: How many decimals values are shown with.
    """

    rows: Sequence[Row]
    measures: Sequence[Columned]
    is_dated: bool
    has_segments: bool
    counts: Mapping[str, str]
    has_several_means: bool = False
    decimals: int = DECIMALS


def noted(result: Result, *, per_query: bool = False, width: int | None = None) -> Table:
    """The numbers, and below them what differs from the ordinary.

    Args:
        result: The numbers.
        per_query: Whether those of each query are shown instead of the means.
        width: How wide the terminal is; None for a file or a page.
    """
    numbers = queries(result) if per_query else cells(result, width)
    return replace(numbers, notes=footer(result, per_query=per_query))


def footer(result: Result, *, per_query: bool = False) -> list[str]:
    """What a reader must know beside the numbers: nothing of an ordinary result.

    What counts mean that are not 0, conventions that are not the house's, systems that are not
    there on all days, and the notes.
    """
    spec = result.spec
    missing = MISSING[str(spec.options["missing"])]
    lines = [
        LEGEND[count].format(missing=missing)
        for count in (() if per_query else counted(result))
        if count in LEGEND
    ]
    conventions = [
        f"{name}={','.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in spec.conventions.items()
    ]
    if conventions or spec.preset != "house":
        lines.append("conventions: " + ", ".join([spec.preset, *conventions]))
    if not per_query:
        lines += _days(result)
    return [*lines, *(f"note: {note}" for note in result.notes)]


def _days(result: Result) -> Iterator[str]:
    """Of how many days the means over all days are, if not of the same for each system."""
    days = {
        row["system"]: row["n_days"]
        for row in all_days(facts(result))
        if row["segment_name"] == "all"
    }
    if len(set(days.values())) > 1:
        day_counts = ", ".join(
            f"{printable(system)} of {number:,}" for system, number in days.items()
        )
        yield f"the means over all days use different days for each system: {day_counts}"


def cells(result: Result, width: int | None = None) -> Table:
    """The cells of a result's table.

    Args:
        result: The numbers.
        width: How wide the terminal is; None for a file or a page.
    """
    return arranged(facts(result), width)


def facts(result: Result) -> Facts:
    """What is shown of a result."""
    over = {result.spec.settings(measure)["average_over"] for measure in result.measures}
    return Facts(
        result.to_dicts(),
        result.measures,
        "metric_date" in result.list_keys,
        bool(result.spec.by),
        {name: COUNTS[name] for name in counted(result)},
        len(over) > 1,
        PRESETS[result.spec.preset].decimals,
    )


def arranged(facts: Facts, width: int | None = None) -> Table:
    """The cells of a table of facts, with a row over all days: of several layouts the shortest.

    Args:
        facts: The numbers.
        width: How wide the terminal is; None for a file or a page.
    """
    layouts = _Layouts(facts)
    across = facts.has_several_means
    if width is None:
        is_wide = len(facts.measures) <= WIDE and not across
        return layouts.wide() if is_wide else layouts.across()
    if len(facts.rows) > MANY:
        return layouts.across() if across else layouts.wide()
    tables = [layouts.across(), layouts.long()]
    tables = tables if across else [layouts.wide(), *tables]
    return min(tables, key=lambda table: _lines(table, width))


def _lines(table: Table, width: int) -> int:
    """How many lines it has, more for one that is broken into parts."""
    n_parts = len(table.parts(width))
    return n_parts * (len(table.rows) + 1) * (BROKEN if n_parts > 1 else 1)


def queries(result: Result) -> Table:
    """The cells of the per-query table."""
    table = result.per_query()
    measures = [measure for measure in result.measures if not measure.metric.pooled]
    columns = {measure.column for measure in measures}
    keys = [name for name in table.column_names if name not in columns]
    decimals = PRESETS[result.spec.preset].decimals
    rows = [
        [
            *(printable(row[key]) for key in keys),
            *(_number(measure, row[measure.column], decimals) for measure in measures),
        ]
        for row in table.to_pylist()
    ]
    names = ["date" if key == "metric_date" else key for key in keys]
    return Table([*names, *map(str, measures)], rows, len(keys))


def counted(result: Result) -> list[str]:
    """The counts that say something: that of queries, and others that are not 0 everywhere."""
    rows = result.to_dicts()
    return [name for name in COUNTS if name == "n_queries" or any(row[name] for row in rows)]


def all_days(facts: Facts) -> list[Row]:
    """The rows over all days, where there are several: sums over sums.

    Counts are added up; a metric of all lists together has no number, and neither has what no
    query counted in. `n_days` says how many days a row is of.
    """
    rows = facts.rows
    if not facts.is_dated or len({row["metric_date"] for row in rows}) < 2:
        return []
    measures = {(measure.name, measure.k or 0): measure for measure in facts.measures}
    names = ("segment_name", "segment_value", "metric", "k", "system")
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    total_rows = [
        {
            **dict(zip(names, key, strict=True)),
            "metric_date": ALL_DAYS,
            "value": _together(measures[key[2], key[3]], day_rows),
            "n_days": len(day_rows),
            **{count: sum(row[count] or 0 for row in day_rows) for count in COUNTS},
        }
        for key, day_rows in groups.items()
    ]
    places = {key: position for position, key in enumerate(measures)}
    systems = list(dict.fromkeys(row["system"] for row in rows))
    return sorted(
        total_rows,
        key=lambda row: (
            *(row["segment_name"] != "all", row["segment_name"], row["segment_value"]),
            *(places[row["metric"], row["k"]], systems.index(row["system"])),
        ),
    )


def _together(measure: Columned, rows: Sequence[Row]) -> float | None:
    if measure.metric.count:
        values = [row["value"] for row in rows if row["value"] is not None]
        return sum(values) if values else None
    counted = [row for row in rows if row["denominator"]]
    total = sum(row["denominator"] for row in counted)
    return sum(row["numerator"] for row in counted) / total if total else None


class _Layouts:
    """The layouts that a table of facts may have."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.measures = {(measure.name, measure.k or 0): measure for measure in facts.measures}
        self.rows: list[Row] = [*facts.rows, *all_days(facts)]

    def keys(self) -> dict[str, Callable[[Row], str]]:
        """The columns before the numbers: those that say something here."""
        keys: dict[str, Callable[[Row], str]] = {}
        if self.facts.is_dated:
            keys["date"] = lambda row: str(row["metric_date"])
        if self.facts.has_segments:
            keys["segment"] = lambda row: segment_cell(row["segment_name"], row["segment_value"])
        return keys | {"system": lambda row: printable(row["system"])}

    def wide(self) -> Table:
        """A row a system, a column per metric."""
        keys = self.keys()
        rows_by_label: dict[tuple[str, ...], dict[tuple[str, int], Row]] = {}
        for row in self.rows:
            label = tuple(to_text(row) for to_text in keys.values())
            rows_by_label.setdefault(label, {})[row["metric"], row["k"]] = row
        lines = [
            (label, [row_by_metric.get(key) for key in self.measures], list(self.measures.values()))
            for label, row_by_metric in rows_by_label.items()
        ]
        return self._filled([*keys, *map(str, self.measures.values())], lines, len(keys))

    def across(self) -> Table:
        """A row a metric, a column per system."""
        keys = {name: to_text for name, to_text in self.keys().items() if name != "system"}
        rows_by_label: dict[tuple[str, ...], dict[str, Row]] = {}
        for row in self.rows:
            labels = (*(to_text(row) for to_text in keys.values()), str(self._measure(row)))
            rows_by_label.setdefault(labels, {})[row["system"]] = row
        systems = list(
            dict.fromkeys(
                system for row_by_system in rows_by_label.values() for system in row_by_system
            )
        )
        lines = []
        for labels, row_by_system in rows_by_label.items():
            measure = self._measure(next(iter(row_by_system.values())))
            lines.append(
                (
                    labels,
                    [row_by_system.get(system) for system in systems],
                    [measure] * len(systems),
                )
            )
        return self._filled([*keys, "metric", *map(printable, systems)], lines, len(keys) + 1)

    def long(self) -> Table:
        """A row a metric and system."""
        keys = self.keys()
        lines = []
        for row in self.rows:
            measure = self._measure(row)
            labels = (*(to_text(row) for to_text in keys.values()), str(measure))
            lines.append((labels, [row], [measure]))
        return self._filled([*keys, "metric", "value"], lines, len(keys) + 1)

    def _measure(self, row: Row) -> Columned:
        return self.measures[row["metric"], row["k"]]

    def _filled(
        self,
        names: list[str],
        lines: Sequence[tuple[tuple[str, ...], Sequence[Row | None], Sequence[Columned]]],
        n_labels: int,
    ) -> Table:
        """Labels, the summary's rows behind them, and the counts of these."""
        best = set(self._best())
        texts, bold, shares = [], {}, {}
        for number, (labels, rows, measures) in enumerate(lines):
            means = [
                _mean(measure, row or {}, self.facts.decimals)
                for measure, row in zip(measures, rows, strict=True)
            ]
            counts = [_span([row[count] for row in rows if row]) for count in self.facts.counts]
            texts.append([*labels, *means, *counts])
            for i, (row, measure) in enumerate(zip(rows, measures, strict=True), n_labels):
                if row and id(row) in best:
                    bold[number, i] = "bold"
                if row and row["value"] is not None and measure.metric.range in UNIT_RANGE:
                    shares[number, i] = row["value"]
        heads = [*names, *self.facts.counts.values()]
        return Table(heads, texts, n_labels, styles=bold, shares=shares)

    def _best(self) -> Iterator[int]:
        """The rows with the best number among the systems of the same place, as it is shown."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        names = ("metric_date", "segment_name", "segment_value", "metric", "k")
        for row in self.rows:
            groups.setdefault(tuple(row[name] for name in names), []).append(row)
        for rows in groups.values():
            sign = SIGNS[self._measure(rows[0]).metric.better]
            valued_rows = [row for row in rows if row["value"] is not None]
            if not sign or len({row.get("n_days") for row in rows}) > 1:
                continue  # neither is better, or they are not of the same days
            value_by_row = {
                id(row): round(row["value"], self.facts.decimals) * sign for row in valued_rows
            }
            if len(set(value_by_row.values())) > 1:
                best = max(value_by_row.values())
                yield from (row for row, value in value_by_row.items() if value == best)


def _mean(measure: Columned, row: Row, decimals: int) -> str:
    """A value, and half of its interval if it has one."""
    text = _number(measure, row.get("value"), decimals)
    if row.get("ci_low") is None:
        return text
    return f"{text} ±{metric_value((row['ci_high'] - row['ci_low']) / 2, decimals)}"


def _number(measure: Columned, value: float | None, decimals: int) -> str:
    is_count = value is not None and measure.metric.count
    return f"{value:,.0f}" if is_count else metric_value(value, decimals)


def _span(counts: Sequence[int | None]) -> str:
    distinct_counts = sorted({count for count in counts if count is not None})
    if not distinct_counts:
        return "-"
    return (
        f"{distinct_counts[0]:,}"
        if len(distinct_counts) == 1
        else f"{distinct_counts[0]:,}-{distinct_counts[-1]:,}"
    )
