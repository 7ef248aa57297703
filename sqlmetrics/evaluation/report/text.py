"""A result as people read it: text, markdown, HTML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlmetrics.evaluation.report import layout
from sqlmetrics.tables.table import Table

if TYPE_CHECKING:
    from sqlmetrics.evaluation.report.result import Result

LEGEND = {
    "n_skipped": "skipped: left out of the mean, the metric is undefined there",
    "n_missing": "missing: labelled queries without a ranking ({missing})",
}
MISSING = {"zero": "counted as empty lists", "drop": "left out", "error": "refused"}


def table(result: Result, *, per_query: bool = False, width: int | None = None) -> Table:
    """The numbers, and below them what differs from the ordinary.

    Args:
        result: The numbers.
        per_query: Whether those of each query are shown instead of the means.
        width: How wide the terminal is; None for a file or a page.
    """
    numbers = layout.queries(result) if per_query else layout.cells(result, width)
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
