"""The cleaning report: how many rows each step leaves out, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.spec.click_columns import CLICK
from sqlmetrics.spec.click_log import Cleaning
from sqlmetrics.tables.table import Table

IMPRESSIONS = "impressions"
UNUSED = "not used"
REASONS = {
    UNUSED: "the action has no label, and no metric or success uses it",
    "test traffic": "the request meets the condition for test traffic",
    "bot": "the user has more events in an hour than a person can have",
    "incomplete": "the request, item or position is missing",
    "unreadable time": "the time cannot be read",
    "same position": "another item has the same position",
    "below the last click": "the item is too far below the last click to have been seen",
    "no impression": "the item was not shown in that request",
    "before the impression": "the event happened before the item was shown",
    "after the window": "the event happened too long after the item was shown",
    "short stay": "the user left the item at once",
    "repeated": "the row repeats an item of a request, or an action on it",
}
"""Why a row is left out."""

_OF_IMPRESSIONS = (
    *("test traffic", "bot", "incomplete", "unreadable time"),
    *("repeated", "same position", "below the last click"),
)
_OF_EVENTS = (
    *(UNUSED, "test traffic", "bot", "unreadable time", "same position", "no impression"),
    *("before the impression", "after the window", "short stay", "repeated"),
)
"""The reasons in the order in which they are looked at: a row is left out for the first."""

EARLY = "before the impression"
TIMED = _OF_EVENTS[_OF_EVENTS.index(EARLY) :]
"""The reasons of events on items that were shown."""


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


def steps(
    counts: Mapping[tuple[str, str | None], int], cleaning: Cleaning | None = None
) -> Iterator[Step]:
    """The steps that took something away, from how many rows of each kind have which reason.

    Args:
        counts: `impressions` or an action, and why it was left out or None -> how many rows.
        cleaning: What the spec says: a step that it names, and that took nothing of anything,
            is there too, once.
    """
    used = {reason for (_, reason), number in counts.items() if number}
    named_steps = _named(cleaning) if cleaning else ()
    idle = {reason: kind for reason, kind in named_steps if reason not in used}
    for kind, (logged, _) in totals(counts).items():
        remaining = logged
        for reason in _OF_IMPRESSIONS if kind == IMPRESSIONS else _OF_EVENTS:
            removed = counts.get((kind, reason), 0)
            if removed or idle.get(reason) == kind:
                yield Step(kind, reason, remaining, remaining - removed)
            remaining -= removed


def _named(cleaning: Cleaning) -> Iterator[tuple[str, str]]:
    """The steps that a spec names -> of what rows it is said that they took none."""
    if cleaning.test is not None:
        yield "test traffic", IMPRESSIONS
    if cleaning.max_events_per_user_hour is not None:
        yield "bot", IMPRESSIONS
    if cleaning.same_position != "keep":
        yield "same position", IMPRESSIONS
    if cleaning.unseen is not None:
        yield "below the last click", IMPRESSIONS
    if cleaning.attribution_window is not None:
        yield "after the window", CLICK
    if cleaning.min_dwell is not None:
        yield "short stay", CLICK
    if cleaning.deduplicate and "deduplicate" in cleaning.model_fields_set:
        yield "repeated", CLICK


def totals(counts: Mapping[tuple[str, str | None], int]) -> dict[str, tuple[int, int]]:
    """`impressions` or an action -> how many rows were logged, and how many are left."""
    actions = sorted(
        {kind for kind, _ in counts} - {IMPRESSIONS},
        key=lambda kind: ((kind, UNUSED) in counts, kind),
    )
    return {
        row_kind: (
            sum(number for (kind, _), number in counts.items() if kind == row_kind),
            counts.get((row_kind, None), 0),
        )
        for row_kind in (IMPRESSIONS, *actions)
    }


def cleaning_table(cleaning_steps: Sequence[Step], totals: Mapping[str, tuple[int, int]]) -> Table:
    """The report as a table: what came in, what each step took, what is left."""
    lines, unused = [], {step.what for step in cleaning_steps if step.why == UNUSED}
    for kind, (before, after) in totals.items():
        if kind in unused:
            lines.append((kind, UNUSED, f"-{before:,}", "0"))
            continue
        lines.append((kind, "logged", "", f"{before:,}"))
        lines += [
            ("", step.why, f"{-step.removed:,}", f"{step.rows_out:,}")
            for step in cleaning_steps
            if step.what == kind
        ]
        lines.append(("", "kept", "", f"{after:,}"))
    return Table(("rows", "step", "left out", "kept"), lines, 2)
