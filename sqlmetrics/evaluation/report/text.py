"""A result as people and programs read it: text, markdown, HTML, CSV, JSON."""

from __future__ import annotations

import csv as csv_module
import html as markup
import io
import json
import math
from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.evaluation.report.table import aligned, metric_value, printable, terminal_width

if TYPE_CHECKING:
    from sqlmetrics.evaluation.report.result import Result

WIDE = 6
COUNTS = {"n_queries": "queries", "n_skipped": "skipped", "n_missing": "missing"}
LEGEND = (
    "queries: counted in the mean; skipped: left out, the metric is undefined there;\n"
    "missing: labelled queries without a ranking ({missing})"
)
MISSING = {"zero": "counted as empty lists", "drop": "left out", "error": "refused"}

Cells = tuple[list[str], list[list[str]], int]
"""Headings, rows, and how many columns stand before the numbers."""


def text(result: Result, *, per_query: bool = False) -> str:
    """Aligned columns, and below them what the counts mean and by which conventions."""
    names, rows, left = cells(result, per_query=per_query)
    table = aligned(names, rows, numbers_from=left)
    return "\n".join([table, "", *footer(result)])


def markdown(result: Result, *, per_query: bool = False) -> str:
    """A GitHub table."""
    table = piped(*cells(result, per_query=per_query))
    return "\n".join([table, "", *footer(result)])


def piped(names: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """Cells as a GitHub table, numbers to the right."""
    rule = ["---" if i < left else "---:" for i in range(len(names))]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in [names, rule, *escaped])


def html(result: Result) -> str:
    """A table for a notebook; everything from the data is escaped."""
    names, rows, left = cells(result)
    head = "".join(f"<th>{markup.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(_cell(cell, i >= left) for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    notes = "<br>".join(markup.escape(line) for line in footer(result))
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><small>{notes}</small>"
    )


def csv(table: pa.Table) -> str:
    """Comma-separated values with a header; NULL is empty."""
    buffer = io.StringIO()
    writer = csv_module.writer(buffer, lineterminator="\n")
    writer.writerow(table.column_names)
    for batch in table.to_batches():
        writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return buffer.getvalue()


def json_lines(table: pa.Table) -> str:
    """A JSON list of rows, one a line; NaN, which JSON has not, becomes null."""
    return "[\n" + ",\n".join(_objects(table)) + "\n]"


def jsonl(table: pa.Table) -> str:
    """JSON lines: a row per line, without a list around them."""
    return "\n".join(_objects(table))


def _objects(table: pa.Table) -> list[str]:
    return [json.dumps(_plain(row), ensure_ascii=False) for row in table.to_pylist()]


def cells(result: Result, *, per_query: bool = False) -> Cells:
    """The cells of the table: a column per metric, or a row per metric where they are many."""
    if per_query:
        return _queries(result)
    fits = len(result.measures) <= WIDE and not _several_means(result)
    kinds = (_wide, _across, _long) if fits else (_across, _long, _across)
    width = terminal_width()
    if width is None:
        return kinds[0](result)
    made = [kind(result) for kind in kinds]
    return next((one for one in made if _width(one) <= width), min(made, key=_width))


def _width(cells: Cells) -> int:
    """How wide a table of them is."""
    names, rows, _ = cells
    columns = zip(names, *rows, strict=True)
    return sum(max(map(len, column)) + 2 for column in columns) - 2


def footer(result: Result) -> list[str]:
    """What a reader must know to trust the numbers."""
    spec = result.spec
    own = [
        f"{name}={','.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in spec.conventions.items()
    ]
    notes = [f"note: {note}" for note in result.notes]
    legend = LEGEND.format(missing=MISSING[str(spec.options["missing"])])
    return [legend, "conventions: " + ", ".join([spec.preset, *own]), *notes]


def _several_means(result: Result) -> bool:
    """Whether metrics are averaged over different queries, so that each needs its count."""
    over = {result.spec.value(measure, "average_over") for measure in result.measures}
    return len(over) > 1


def _keys(result: Result) -> dict[str, Callable[[dict[str, Any]], str]]:
    """The columns before the numbers: those that say something here."""
    keys: dict[str, Callable[[dict[str, Any]], str]] = {}
    if "metric_date" in result.list_keys:
        keys["date"] = lambda row: str(row["metric_date"])
    if result.spec.by:
        keys["segment"] = _segment
    return keys | {"system": lambda row: printable(row["system"])}


def _segment(row: dict[str, Any]) -> str:
    if row["segment_name"] == "all":
        return "all"
    return f"{printable(row['segment_name'])}={printable(row['segment_value'])}"


def _queries(result: Result) -> Cells:
    table = result.per_query()
    measures = [measure for measure in result.measures if not measure.metric.pooled]
    columns = {measure.column for measure in measures}
    keys = [name for name in table.column_names if name not in columns]
    rows = [
        [
            *(printable(row[key]) for key in keys),
            *(_number(measure, row[measure.column]) for measure in measures),
        ]
        for row in table.to_pylist()
    ]
    names = ["date" if key == "metric_date" else key for key in keys]
    return [*names, *map(str, measures)], rows, len(keys)


def _wide(result: Result) -> Cells:
    keys = _keys(result)
    found: dict[tuple[str, ...], dict[tuple[str, int], dict[str, Any]]] = {}
    for row in result.to_dicts():
        label = tuple(shown(row) for shown in keys.values())
        found.setdefault(label, {})[row["metric"], row["k"]] = row
    names = [*keys, *map(str, result.measures)]
    rows = []
    for label, by_metric in found.items():
        mine = [by_metric.get((m.name, m.k or 0), {}) for m in result.measures]
        values = [
            _number(m, row.get("value")) for m, row in zip(result.measures, mine, strict=True)
        ]
        counts = [_span([row.get(count) for row in mine]) for count in COUNTS]
        rows.append([*label, *values, *counts])
    return [*names, *COUNTS.values()], rows, len(keys)


def _across(result: Result) -> Cells:
    """A row a metric, a column per system."""
    keys = {name: shown for name, shown in _keys(result).items() if name != "system"}
    measures = {(m.name, m.k or 0): m for m in result.measures}
    found: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for row in result.to_dicts():
        labels = (*(shown(row) for shown in keys.values()), str(measures[row["metric"], row["k"]]))
        found.setdefault(labels, {})[row["system"]] = row
    systems = list(dict.fromkeys(system for mine in found.values() for system in mine))
    rows = []
    for labels, mine in found.items():
        values = [mine.get(system, {}) for system in systems]
        numbers = [
            _number(measures[one["metric"], one["k"]], one["value"]) if one else "-"
            for one in values
        ]
        counts = [_span([one.get(count) for one in values]) for count in COUNTS]
        rows.append([*labels, *numbers, *counts])
    names = [*keys, "metric", *map(printable, systems), *COUNTS.values()]
    return names, rows, len(keys) + 1


def _long(result: Result) -> Cells:
    keys = _keys(result)
    measures = {(m.name, m.k or 0): m for m in result.measures}
    rows = []
    for row in result.to_dicts():
        measure = measures[row["metric"], row["k"]]
        labels = [shown(row) for shown in keys.values()]
        counts = [_span([row[count]]) for count in COUNTS]
        rows.append([*labels, str(measure), _number(measure, row["value"]), *counts])
    names = [*keys, "metric", "value", *COUNTS.values()]
    return names, rows, len(keys) + 1


def _number(measure: Measure, value: float | None) -> str:
    is_count = value is not None and measure.metric.count
    return f"{value:,.0f}" if is_count else metric_value(value)


def _span(counts: Sequence[int | None]) -> str:
    known = sorted({count for count in counts if count is not None})
    if not known:
        return "-"
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,}-{known[-1]:,}"


def _cell(cell: str, is_number: bool) -> str:
    align = ' style="text-align: right"' if is_number else ""
    return f"<td{align}>{markup.escape(cell)}</td>"


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: _plain_value(value) for key, value in row.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat() if isinstance(value, date) else value
