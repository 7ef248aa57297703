"""The cleaning report: how many rows each step leaves out, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.evaluation.report.layout import Cells
from sqlmetrics.evaluation.report.table import aligned

IMPRESSIONS = "impressions"
REASONS = {
    "incomplete": "its request, item or position is missing",
    "unreadable time": "its time is there, and is none that can be read",
    "test traffic": "the request meets the condition for test traffic",
    "bot": "the user has more events in an hour than a person has",
    "same position": "another item stands at the same position",
    "below the last click": "too far below the last click of the request to have been seen",
    "no impression": "the item was not shown in that request",
    "before the impression": "it happened before the item was shown",
    "after the window": "it happened too long after the item was shown",
    "short stay": "the user left the item at once",
    "repeated": "the same again: an item of a request, or an action on it",
}
"""Why a row is left out, in the order of the steps."""


@dataclass(frozen=True)
class Step:
    """One step of the cleaning.

    Attributes:
        what: `impressions`, or the action of events.
        why: One of `REASONS`.
        rows_in: How many rows came to it.
        rows_out: How many it left.
    """

    what: str
    why: str
    rows_in: int
    rows_out: int

    @property
    def removed(self) -> int:
        """How many it took away."""
        return self.rows_in - self.rows_out


def steps(counts: Mapping[tuple[str, str | None], int]) -> Iterator[Step]:
    """The steps that took something away, from how many rows of each kind have which reason."""
    for what, (logged, _) in totals(counts).items():
        left = logged
        for why in REASONS:
            removed = counts.get((what, why), 0)
            if removed:
                yield Step(what, why, left, left - removed)
            left -= removed


def totals(counts: Mapping[tuple[str, str | None], int]) -> dict[str, tuple[int, int]]:
    """`impressions` or an action -> how many rows were logged, and how many are left."""
    actions = sorted({what for what, _ in counts} - {IMPRESSIONS})
    return {
        what: (
            sum(number for (kind, _), number in counts.items() if kind == what),
            counts.get((what, None), 0),
        )
        for what in (IMPRESSIONS, *actions)
    }


def cells(done: Sequence[Step], totals: Mapping[str, tuple[int, int]]) -> Cells:
    """The report as a table: what came in, what each step took, what is left."""
    lines = []
    for what, (before, after) in totals.items():
        lines.append((what, "logged", "", f"{before:,}"))
        lines += [
            ("", one.why, f"-{one.removed:,}", f"{one.rows_out:,}")
            for one in done
            if one.what == what
        ]
        lines.append(("", "left", "", f"{after:,}"))
    return Cells(("rows", "step", "left out", "left"), lines, 2)


def text(done: Sequence[Step], totals: Mapping[str, tuple[int, int]]) -> str:
    """The same, aligned."""
    made = cells(done, totals)
    return aligned(made.names, made.rows, numbers_from=made.left)
