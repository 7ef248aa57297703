"""A result as people read it: text, markdown, HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlmetrics.evaluation.report import layout
from sqlmetrics.tables.table import Table, terminal_width

if TYPE_CHECKING:
    from sqlmetrics.evaluation.report.result import Result

LEGEND = {
    "n_skipped": "skipped: left out of the mean, the metric is undefined there",
    "n_missing": "missing: labelled queries without a ranking ({missing})",
}
MISSING = {"zero": "counted as empty lists", "drop": "left out", "error": "refused"}


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
    table = _table(result, per_query, None if full_width else terminal_width())
    return table.text(full_width=full_width, styled=styled)


def markdown(result: Result, *, per_query: bool = False) -> str:
    """A GitHub table."""
    return _table(result, per_query).markdown()


def html(result: Result, *, per_query: bool = False) -> str:
    """A table for a notebook: the best in bold, shares with a bar."""
    return _table(result, per_query).html()


def _table(result: Result, per_query: bool, width: int | None = None) -> Table:
    """The numbers, with notes below; None is for a file or a page."""
    table = layout.queries(result) if per_query else layout.cells(result, width)
    return replace(table, notes=footer(result, per_query=per_query))


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
