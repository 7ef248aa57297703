"""The conventions of lists whose items have no ids, and what equal scores mean there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.spec.spec import Spec

TIES = ("average", "best", "worst", "input_order")
"""Rules for tied scores that need no ids of items."""


def streamed_options(preset: str | None, conventions: Mapping[str, Any]) -> dict[str, Any]:
    """The conventions of a stream: as given, and ties=average where no other rule can hold.

    Raises:
        SpecError: If one of them needs what a stream does not have.
    """
    if conventions.get("identical_ids") == "drop":
        raise SpecError("identical_ids=drop: items have no ids here; leave the option out")
    if conventions.get("min_score", "none") != "none":
        raise SpecError("min_score: whole lists are evaluated here; leave items out with mask")
    if conventions.get("score_precision") == "exact":
        raise SpecError(
            "score_precision=exact: scores of models are 64-bit floats; leave the option out"
        )
    options = {**conventions, "identical_ids": "keep"}
    of_preset = PRESETS[preset].options if preset and preset in PRESETS else {}
    if not options.get("ties") and of_preset.get("ties") not in TIES:
        options["ties"] = "average"
    return options


def refuse_ties(spec: Spec) -> None:
    """Raise SpecError if what a metric does with equal scores needs ids of items."""
    rules = {str(measure): spec.settings(measure)["ties"] for measure in spec.components}
    for text, rule in {"": spec.options["ties"], **rules}.items():
        if rule not in TIES:
            message = unknown("ties, for items without ids,", rule, TIES)
            raise SpecError(f"{text}: {message}" if text else message)
    for measure in spec.components:
        rule = rules[str(measure)]
        if rule in ("best", "worst") and "num_judged" in measure.metric.parts.values():
            raise SpecError(
                f"{measure}: ties={rule} orders items by their labels and does not define the "
                "order of an unlabelled item and one of label 0; use average or input_order"
            )


def needs_ties(spec: Spec) -> bool:
    """Whether a metric looks at equal scores of lists that come in order, not at places alone."""
    return any(
        not measure.metric.by_grades or spec.settings(measure)["ties"] != "input_order"
        for measure in spec.components
    )
