"""A result as people and programs read it: text, markdown, HTML, CSV, JSON."""

from __future__ import annotations

import csv as csv_module
import html as markup
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from sqlmetrics.evaluation.report import layout
from sqlmetrics.evaluation.report.layout import Cells
from sqlmetrics.evaluation.report.table import aligned, terminal_width

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.evaluation.report.result import Result

LEGEND = {
    "n_skipped": "skipped: left out of the mean, the metric is undefined there",
    "n_missing": "missing: labelled queries without a ranking ({missing})",
}
MISSING = {"zero": "counted as empty lists", "drop": "left out", "error": "refused"}

_MARKUP = r"\\|<(?=[A-Za-z/!?])|(?<=\])\("
_PROSE, _CELL = re.compile(_MARKUP), re.compile(rf"[|`]|{_MARKUP}")
"""What would begin a tag or the address of a link, or take away the mark before one; and, in a
table, what would begin code or end a cell."""

BAR = "rgba(70, 130, 180, .25)"
"""The colour of bars, on a light and on a dark page."""


def text(
    result: Result, *, per_query: bool = False, full_width: bool = False, styled: bool = False
) -> str:
    """Aligned columns, and below them what differs from the ordinary.

    Args:
        result: The numbers.
        per_query: Whether those of each query are shown instead of the means.
        full_width: Whether it may be wider than the terminal, for a file.
        styled: Whether the best system's numbers are bold, by marks of terminals.
    """
    width = None if full_width else terminal_width()
    cells = layout.queries(result) if per_query else layout.cells(result, width)
    styles = dict.fromkeys(cells.best, "bold") if styled else {}
    table = aligned(
        cells.names, cells.rows, numbers_from=cells.left, styles=styles, full_width=full_width
    )
    return "\n\n".join(filter(None, [table, "\n".join(footer(result, per_query=per_query))]))


def markdown(result: Result, *, per_query: bool = False) -> str:
    """A GitHub table."""
    cells = layout.queries(result) if per_query else layout.cells(result)
    table = piped(cells.names, cells.rows, cells.left)
    return "\n\n".join(filter(None, [table, prose("\n".join(footer(result, per_query=per_query)))]))


def piped(names: Sequence[str], rows: Sequence[Sequence[str]], n_labels: int) -> str:
    r"""Cells as a GitHub table, numbers to the right; no id of the data is a tag or a link.

    >>> print(piped(["item"], [["<b>a|b</b>"], ["[x](javascript:alert)"]], n_labels=1))
    | item |
    | --- |
    | \<b>a\|b\</b> |
    | [x]\(javascript:alert) |
    """
    rule = ["---" if i < n_labels else "---:" for i in range(len(names))]
    head, *body = ([_CELL.sub(r"\\\g<0>", cell) for cell in row] for row in (names, *rows))
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *body])


def prose(text: str) -> str:
    r"""A text for Markdown, in which names from the data make no tag and no link.

    >>> print(prose("note: <script> has p <0.05; [x](javascript:y)"))
    note: \<script> has p <0.05; [x]\(javascript:y)
    """
    return _PROSE.sub(r"\\\g<0>", text)


def html(result: Result, *, per_query: bool = False) -> str:
    """A table for a notebook: the best in bold, shares with a bar."""
    cells = layout.queries(result) if per_query else layout.cells(result)
    return page(cells, footer(result, per_query=per_query))


def page(cells: Cells, notes: Sequence[str] = ()) -> str:
    """Cells as HTML, and notes below; everything from the data is escaped."""
    head = "".join(f"<th>{markup.escape(name)}</th>" for name in cells.names)
    body = "".join(f"<tr>{''.join(_row(cells, i))}</tr>" for i in range(len(cells.rows)))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return table + page_notes(notes)


def page_notes(notes: Sequence[str]) -> str:
    """Lines below a table, as HTML."""
    below = "<br>".join(markup.escape(line) for line in notes)
    return f"<small>{below}</small>" if below else ""


def _row(cells: Cells, row: int) -> Iterator[str]:
    for column, cell in enumerate(cells.rows[row]):
        position = row, column
        style = ["text-align: right"] if column >= cells.left else []
        if position in cells.shares:
            end = f"{100 * min(max(cells.shares[position], 0.0), 1.0):.1f}%"
            style.append(f"background: linear-gradient(90deg, {BAR} {end}, transparent {end})")
        content = markup.escape(cell)
        content = f"<b>{content}</b>" if position in cells.best else content
        yield f'<td style="{"; ".join(style)}">{content}</td>' if style else f"<td>{content}</td>"


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
    return [
        json.dumps({key: _plain_value(value) for key, value in row.items()}, ensure_ascii=False)
        for row in table.to_pylist()
    ]


def footer(result: Result, *, per_query: bool = False) -> list[str]:
    """What a reader must know beside the numbers: nothing of an ordinary result.

    What counts mean that are not 0, conventions that are not the house's, systems that are not
    there on all days, and the notes.
    """
    spec = result.spec
    missing = MISSING[str(spec.options["missing"])]
    lines = [
        LEGEND[count].format(missing=missing)
        for count in (() if per_query else layout.counted(result))
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
        for row in layout.all_days(layout.facts(result))
        if row["segment_name"] == "all"
    }
    if len(set(days.values())) > 1:
        day_counts = ", ".join(f"{system} of {number:,}" for system, number in days.items())
        yield f"all days are not the same days for each system: {day_counts}"


def _plain_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat() if isinstance(value, date) else value
