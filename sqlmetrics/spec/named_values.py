"""The values that a spec names, and that its data should have: actions, systems, segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlmetrics.catalog.online import online
from sqlmetrics.spec.click_columns import CLICK
from sqlmetrics.spec.spec import Spec
from sqlmetrics.spec.threshold import EACH, PREVIOUS, Threshold

if TYPE_CHECKING:
    from sqlmetrics.spec.click_log import Clicks

ACTION, SYSTEM = "action", "system"


@dataclass(frozen=True)
class NamedValue:
    """A value that a spec names.

    Attributes:
        place: What names it, like `labels.grades`.
        role: What it is: `action`, `system`, or the name of a segment.
        value: The value.
        decides: Whether a number silently becomes another one where no row has it; else a note
            is enough.
    """

    place: str
    role: str
    value: str
    decides: bool = True


def of_clicks(clicks: Clicks) -> Iterator[NamedValue]:
    """The values that are named under `clicks`; default values are named by nobody."""
    labels = clicks.labels
    if not labels.pools and labels.grades != type(labels)().grades:
        for action, grade in labels.grades.items():
            yield NamedValue("clicks.labels.grades", ACTION, action, decides=grade > 0)
    if clicks.success_actions != type(clicks).model_fields["success_actions"].default:
        for action in clicks.success_actions:
            yield NamedValue("clicks.success_actions", ACTION, action)


def named_in(spec: Spec) -> Iterator[NamedValue]:
    """The values that a spec names beside those of its click log."""
    if spec.baseline is not None:
        yield NamedValue("baseline", SYSTEM, spec.baseline)
    for threshold in spec.checks:
        yield from _of_check(threshold)
    for text in spec.online:
        if online(text).of_clicks:
            yield NamedValue(f"the metric {text}", ACTION, CLICK)
            break


def _of_check(threshold: Threshold) -> Iterator[NamedValue]:
    """What a check names: where it is nowhere, the check fails, and no number is another one."""
    if threshold.system is not None:
        yield NamedValue("checks.system", SYSTEM, threshold.system, decides=False)
    if threshold.against != PREVIOUS:
        yield NamedValue("checks.against", SYSTEM, threshold.against, decides=False)
    for segment, value in threshold.segment.items():
        if value != EACH:
            yield NamedValue("checks.segment", segment, value, decides=False)
