"""A result as people and programs read it: text, markdown, HTML, CSV, JSON."""

from __future__ import annotations

import html as markup
import io
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv

from sqlmetrics.measure import Measure
from sqlmetrics.result import KEYS, Result

WIDE = 6
COUNTS = {"n_queries": "queries", "n_skipped": "skipped", "n_missing": "missing"}
LEGEND = (
    "queries: counted in the mean; skipped: left out, the metric is undefined there;\n"
    "missing: labelled queries without a ranking ({missing})"
)
MISSING = {"zero": "counted as empty lists", "drop": "left out", "error": "refused"}

Grid = tuple[list[str], list[list[str]]]


def text(result: Result) -> str:
    """Aligned columns, and below them what the counts mean and by which conventions."""
    names, rows = grid(result)
    return "\n".join([*aligned(names, rows, right_from=_labels(result)), "", *footer(result)])


def markdown(result: Result) -> str:
    """A GitHub table."""
    names, rows = grid(result)
    left = _labels(result)
    rule = ["---" if i < left else "---:" for i in range(len(names))]
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in ([names, rule, *escaped])]
    return "\n".join([*lines, "", *footer(result)])


def html(result: Result) -> str:
    """A table for a notebook; everything from the data is escaped."""
    names, rows = grid(result)
    left = _labels(result)
    head = "".join(f"<th>{markup.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(_cell(cell, i >= left) for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    notes = "<br>".join(markup.escape(line) for line in footer(result))
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"<small>{notes}</small>"
    )


def csv(table: pa.Table) -> str:
    """Comma-separated values with a header; NULL is empty."""
    buffer = io.BytesIO()
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    pyarrow.csv.write_csv(table, buffer, options)
    return buffer.getvalue().decode()


def json_lines(table: pa.Table) -> str:
    """A JSON list of rows, one a line; NaN, which JSON has not, becomes null."""
    rows = [json.dumps(_plain(row), ensure_ascii=False) for row in table.to_pylist()]
    return "[\n" + ",\n".join(rows) + "\n]"


def grid(result: Result) -> Grid:
    """The cells of the table: a column a metric, or a row a metric where they are many."""
    if len(result.measures) <= WIDE and not _several_means(result):
        return _wide(result)
    return _long(result)


def footer(result: Result) -> list[str]:
    """What a reader must know to trust the numbers."""
    spec = result.spec
    own = [f"{name}={value}" for name, value in spec.conventions.items()]
    notes = [f"note: {note}" for note in result.notes]
    legend = LEGEND.format(missing=MISSING[str(spec.options["missing"])])
    return [legend, "conventions: " + ", ".join([spec.preset, *own]), *notes]


def aligned(names: Sequence[str], rows: Sequence[Sequence[str]], right_from: int) -> list[str]:
    """Lines of aligned cells; columns from `right_from` on are numbers."""
    cells = [list(names), *map(list, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    return ["  ".join(_padded(row, widths, right_from)).rstrip() for row in cells]


def _padded(row: Sequence[str], widths: Sequence[int], right_from: int) -> list[str]:
    return [
        cell.rjust(width) if i >= right_from else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _several_means(result: Result) -> bool:
    """Whether metrics are averaged over different queries, so that each needs its count."""
    over = {result.spec.value(measure, "average_over") for measure in result.measures}
    return len(over) > 1


def _keys(result: Result) -> list[str]:
    """The keys worth a column: those that say something here."""
    spec = result.spec
    shown = {"system"}
    if spec.rankings.columns.date:
        shown.add("metric_date")
    if spec.by:
        shown |= {"segment_name", "segment_value"}
    return [key for key in KEYS if key in shown]


def _labels(result: Result) -> int:
    """How many columns are labels, not numbers."""
    long = len(result.measures) > WIDE or _several_means(result)
    return len(_keys(result)) + (1 if long else 0)


def _wide(result: Result) -> Grid:
    keys = _keys(result)
    found: dict[tuple[str, ...], dict[tuple[str, int], dict[str, Any]]] = {}
    for row in result.to_dicts():
        label = tuple(_label(row[key]) for key in keys)
        found.setdefault(label, {})[row["metric"], row["k"]] = row
    names = [_heading(key) for key in keys] + [str(m) for m in result.measures]
    rows = []
    for label, by_metric in found.items():
        mine = [by_metric.get((m.name, m.k or 0), {}) for m in result.measures]
        values = [_value(m, row) for m, row in zip(result.measures, mine, strict=True)]
        counts = [_span([row.get(count) for row in mine]) for count in COUNTS]
        rows.append([*label, *values, *counts])
    return [*names, *COUNTS.values()], rows


def _long(result: Result) -> Grid:
    keys = _keys(result)
    measures = {(m.name, m.k or 0): m for m in result.measures}
    rows = []
    for row in result.to_dicts():
        measure = measures[row["metric"], row["k"]]
        labels = [_label(row[key]) for key in keys]
        counts = [_span([row[count]]) for count in COUNTS]
        rows.append([*labels, str(measure), _value(measure, row), *counts])
    return [*(_heading(key) for key in keys), "metric", "value", *COUNTS.values()], rows


def _heading(key: str) -> str:
    return {"metric_date": "date", "segment_name": "segment", "segment_value": "value"}.get(
        key, key
    )


def _label(value: object) -> str:
    text = str(value)
    return text if text.isprintable() else repr(text)[1:-1]


def _value(measure: Measure, row: dict[str, Any]) -> str:
    value = row.get("value")
    if value is None:
        return "-"
    return f"{value:,.0f}" if measure.metric.count else f"{value:.4f}"


def _span(counts: Sequence[int | None]) -> str:
    known = sorted({count for count in counts if count is not None})
    if not known:
        return "-"
    return f"{known[0]:,}" if len(known) == 1 else f"{known[0]:,}-{known[-1]:,}"


def _cell(cell: str, is_number: bool) -> str:
    align = ' style="text-align: right"' if is_number else ""
    return f"<td{align}>{markup.escape(cell)}</td>"


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: None if value != value else value.isoformat() if hasattr(value, "isoformat") else value
        for key, value in row.items()
    }
