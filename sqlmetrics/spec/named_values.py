"""The values that a spec names, and that its data should have: actions, systems, segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from sqlmetrics.catalog.online import online
from sqlmetrics.spec.spec import Spec

if TYPE_CHECKING:
    from sqlmetrics.spec.click_log import Clicks
    from sqlmetrics.spec.threshold import Threshold

ACTION, SYSTEM = "action", "system"


@dataclass(frozen=True)
class NamedValue:
    """A value that a spec names.

    Attributes:
        spec_key: What names it, like `labels.grades`.
        role: What it is: `action`, `system`, or the name of a segment.
        value: The value.
        decides: Whether a number silently becomes another one where no row has it; else a note
            is enough.
        measures: Whether it is the action of a metric.
    """

    spec_key: str
    role: str
    value: str
    decides: bool = True
    measures: bool = False


def of_clicks(clicks: Clicks) -> Iterator[NamedValue]:
    """The values that are named under `clicks`; default values are named by nobody."""
    labels = clicks.labels
    if not labels.pools and labels.grades != type(labels)().grades:
        for action, grade in labels.grades.items():
            yield NamedValue("clicks.labels.grades", ACTION, action, decides=grade > 0)
    if clicks.success_actions != type(clicks).model_fields["success_actions"].default:
        for action in clicks.success_actions:
            yield NamedValue("clicks.success_actions", ACTION, action)
    if clicks.experiment is not None:  # a log may begin before its experiment
        for variant in clicks.experiment.variants:
            yield NamedValue("clicks.experiment.variants", SYSTEM, variant, decides=False)


def named_in(spec: Spec) -> Iterator[NamedValue]:
    """The values that a spec names beside those of its click log."""
    if spec.baseline is not None:
        yield NamedValue("baseline", SYSTEM, spec.baseline)
    for threshold in spec.checks:
        yield from _of_check(threshold)
    if spec.online:
        yield from _of_online(spec)


def _of_online(spec: Spec) -> Iterator[NamedValue]:
    """The actions that the metrics of a click log count."""
    from sqlmetrics.spec.click_columns import CLICK  # models, which take time to build

    measures = [online(text) for text in spec.online]
    success = spec.clicks.success_actions if spec.clicks else ()
    of_clicks = (m for m in measures if m.of_clicks or (m.of_success and CLICK in success))
    for measure in islice(of_clicks, 1):
        yield NamedValue(f"the metric {measure}", ACTION, CLICK)
    for measure in measures:
        if measure.action:
            yield NamedValue(f"the metric {measure}", ACTION, measure.action, measures=True)


def measured_actions(names: Iterable[NamedValue]) -> tuple[str, ...]:
    """The actions that metrics name, each once."""
    return tuple(dict.fromkeys(name.value for name in names if name.measures))


def _of_check(threshold: Threshold) -> Iterator[NamedValue]:
    """What a check names: where it is nowhere, the check fails, and no number is another one."""
    from sqlmetrics.spec.threshold import EVERY_VALUE, PREVIOUS

    if threshold.system is not None:
        yield NamedValue("checks.system", SYSTEM, threshold.system, decides=False)
    if threshold.against != PREVIOUS:
        yield NamedValue("checks.against", SYSTEM, threshold.against, decides=False)
    for segment, value in threshold.segment.items():
        if value != EVERY_VALUE:
            yield NamedValue("checks.segment", segment, value, decides=False)
