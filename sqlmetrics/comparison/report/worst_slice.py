"""What the means over all queries hide: the segment that is worse, and moves most queries farthest.

`report`, `compare` of a spec and `diagnose` tell it by the same choice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlmetrics.comparison.report.numbers import coverage, number, p_value, signed
from sqlmetrics.plan.summary import ALL
from sqlmetrics.tables.tabular import Row

MOVED = ("better", "worse")
"""Verdicts of what moved."""


def leading_row(overall: Sequence[Row]) -> Row | None:
    """The first metric of a system that moved; else the first one."""
    moved = (row for row in overall if row["verdict"] in MOVED)
    return next(moved, overall[0] if overall else None)


def worst_slice(slices: Sequence[Row], metric: str) -> Row | None:
    """The slice of a system that is worse, and moves most queries farthest; None if none is."""
    worse = [row for row in slices if row["metric"] == metric and row["verdict"] == "worse"]
    return farthest(worse)


def farthest(rows: Sequence[Row]) -> Row | None:
    """The row that moves most queries farthest."""
    return max(rows, key=lambda row: abs(row["difference"]) * row["n"], default=None)


def segment_of(row: Row) -> str:
    """A slice as people read it."""
    return f"{row['segment_name']} = {row['segment_value']}"


def worst_slices(rows: Sequence[Row]) -> Iterator[Row]:
    """For each system that is worse in a slice, the row of it.

    Args:
        rows: All rows of a comparison, those over all queries first, with verdicts.
    """
    for system in dict.fromkeys(row["system"] for row in rows):
        system_rows = [row for row in rows if row["system"] == system]
        leading = leading_row([row for row in system_rows if row["segment_name"] == ALL])
        slices = [row for row in system_rows if row["segment_name"] != ALL]
        worst = worst_slice(slices, leading["metric"]) if leading else None
        if worst is not None:
            yield worst


def describe_slice(row: Row, level: float, counted: str) -> str:
    """A slice that is worse, in words.

    Args:
        row: Its row.
        level: The coverage of a single interval.
        counted: What `n` counts, several.
    """
    covered = coverage([row], level)
    ends = f"{covered} % interval {signed(row['ci_low'])} to {signed(row['ci_high'])}"
    return (
        f"{row['system']} is worse than {row['baseline']} for {segment_of(row)}: {row['metric']} "
        f"{number(row['baseline_value'])} → {number(row['value'])} ({signed(row['difference'])}; "
        f"{ends}, {p_value(row['p_adjusted'], level)}, {row['n']:,} {counted})"
    )
