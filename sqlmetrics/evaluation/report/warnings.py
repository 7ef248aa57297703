"""What a number hides: sentences that stand beneath a result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.spec.spec import Spec
from sqlmetrics.tables.tabular import Row

HIGH = 0.8
"""NDCG against the shown items from here on looks good."""

LOW = 0.5
"""What is below it, of NDCG against all labels and of recall, is not good."""


def caveats(spec: Spec, measures: Iterable[Measure], rows: Iterable[Row]) -> Iterator[str]:
    """What a reader of a summary should know.

    Args:
        spec: What was asked.
        measures: The metrics.
        rows: The summary.
    """
    preset = PRESETS[spec.preset]
    if preset.caveat:
        yield preset.caveat
    yield from _differences(spec.preset, measures)
    shown_measures = [
        measure for measure in measures if _has(spec, measure, "ndcg", measure.k, "shown_at_k")
    ]
    values = {(row["segment_name"], _list(row), row["metric"], row["k"]): row for row in rows}
    for measure in shown_measures:
        ndcgs = [
            candidate
            for candidate in measures
            if _has(spec, candidate, "ndcg", measure.k, "labels_at_k")
        ]
        recalls = [
            candidate for candidate in measures if _has(spec, candidate, "recall", measure.k, "r")
        ]
        if not ndcgs or not recalls:
            yield (
                f"{measure} only measures the order of the shown items; add "
                f"candidates@{measure.k or 10} to see it beside ndcg, dcg and recall"
            )
            continue
        for row in values.values():
            if (row["segment_name"], row["metric"], row["k"]) == ("all", *_key(measure)):
                other_rows = [
                    values["all", _list(row), *_key(candidate)]
                    for candidate in (ndcgs[0], recalls[0])
                ]
                yield from _hidden(measure, row, (ndcgs[0], recalls[0]), other_rows)


def low_grades(measures: Iterable[Measure], spec: Spec, highest: float) -> Iterator[str]:
    """That no label is relevant to some metrics, if all are below their `rel`.

    Args:
        measures: The metrics.
        spec: What was asked.
        highest: The highest grade.
    """
    components = dict.fromkeys(part for measure in measures for part in measure.components)
    blind = [measure for measure in components if _rel(spec, measure) > highest > 0]
    if blind:
        texts = ", ".join(map(str, blind))
        suggestion = blind[0].having("rel", highest)
        yield (
            f"the highest grade is {highest:g}, and relevant is from {_rel(spec, blind[0]):g} on: "
            f"to {texts} no item is; say {suggestion}"
        )


def _rel(spec: Spec, measure: Measure) -> float:
    """The lowest grade of what is relevant to a metric; 0 for one that looks at gains alone."""
    settings = spec.settings(measure)
    is_by_gain = "gain" in measure.metric.options and settings["gain"] != "binary"
    has_rel = "rel" in measure.metric.parameters and not is_by_gain
    return settings.parameter("rel") if has_rel else 0


def _differences(name: str, measures: Iterable[Measure]) -> Iterator[str]:
    """Of which metrics a preset does not give its tool's number, a sentence for each reason."""
    by_reason: dict[str, list[str]] = {}
    for measure in (part for whole in measures for part in whole.components):
        if reason := PRESETS[name].why_different(measure.metric.name, measure.k):
            by_reason.setdefault(reason, []).append(str(measure))
    for reason, texts in by_reason.items():
        yield f"preset {name} does not reproduce {' and '.join(texts)}: {reason}"


def _hidden(
    measure: Measure, row: Row, measures: tuple[Measure, Measure], other_rows: list[Row]
) -> Iterator[str]:
    """Whether a good order hides bad candidates."""
    numbers = [row["value"], *(other_row["value"] for other_row in other_rows)]
    if None in numbers or numbers[0] < HIGH or max(numbers[1:]) >= LOW:
        return
    day = f" on {row['metric_date']}" if str(row["metric_date"]) != NO_DATE else ""
    comparison = " and ".join(
        f"{candidate} {number:.4f}" for candidate, number in zip(measures, numbers[1:], strict=True)
    )
    yield (
        f"{row['system']}{day}: {measure} is {numbers[0]:.4f}, but {comparison}: the shown items "
        "are in a good order, but most good items are not shown"
    )


def _has(spec: Spec, measure: Measure, name: str, k: int | None, choice: str) -> bool:
    """Whether a measure is a metric at a cutoff, held against all labels or the shown items."""
    option = {"ndcg": "ideal", "recall": "recall_denominator"}.get(measure.metric.name, "")
    is_it = (measure.metric.name, measure.k) == (name, k)
    return is_it and spec.settings(measure)[option] == choice


def _key(measure: Measure) -> tuple[str, int]:
    return measure.name, measure.k or 0


def _list(row: Row) -> tuple[Any, str]:
    return row["metric_date"], row["system"]
