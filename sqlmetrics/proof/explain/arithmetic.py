"""The arithmetic of a metric on one list: its parts, their sums, and how they go together.

The numbers are the reference's. How parts become a metric is read from the metric's own
template, with numbers in the place of columns: nothing is written by hand for a metric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.plan.expressions import MetricContext, used_parts
from sqlmetrics.proof import reference, reference_columns
from sqlmetrics.proof.explain.example import CATALOGUE, DAY, Grades, Value, grouped
from sqlmetrics.proof.verify import build_question
from sqlmetrics.spec.spec import Spec


def _is_ideal(over: str) -> bool:
    """Whether rows are an ideal order whose worth is a sum of gains times discounts."""
    return over.startswith("ideal") and over not in ("ideal_groups", "ideal_agreement")


def number(value: Value) -> str:
    """A number to read: whole ones plain, others to four decimals.

    >>> number(2.0), number(0.5), number(None)
    ('2', '0.5000', 'undefined')
    """
    if value is None:
        return "undefined"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.4f}"


def parts(spec: Spec, measure: Measure) -> Iterator[Measure]:
    """The metrics that a metric is made of, each after its own parts; itself last."""
    for part in used_parts(spec, measure):
        yield from parts(spec, part)
    yield measure


@dataclass(frozen=True)
class Arithmetic:
    """One metric on one list.

    Attributes:
        spec: Whose conventions hold.
        measure: The metric.
        ranked: The items of the list, best first, with their grades; None without a label.
        labels: The grades of all labelled items.
        other: The baseline's list.
    """

    spec: Spec
    measure: Measure
    ranked: Grades
    labels: Grades
    other: tuple[str, ...]

    @cached_property
    def parts(self) -> tuple[Measure, ...]:
        """The metric's parts, each once, and the metric itself."""
        return tuple(dict.fromkeys(parts(self.spec, self.measure)))

    @cached_property
    def sums(self) -> dict[str, list[float]]:
        """What each rank adds to the parts that are sums over the list, by their names."""
        of_rows = ("ranked", "group_hits")
        sums = (part for part in self.parts if part.metric.over in of_rows)
        added = {part.metric.name: self._added(part) for part in sums if self.value(part, []) == 0}
        return {name: terms for name, terms in added.items() if min(terms, default=0) >= 0}

    @property
    def has_gain(self) -> bool:
        """Whether grades are worth gains."""
        metrics = [part.metric for part in self.parts]
        by_columns = {"discount" in m.options and m.operand_table == "labels" for m in metrics}
        return any(by_columns) or any("gain" in metric.options for metric in metrics)

    @property
    def has_rel(self) -> bool:
        """Whether items are relevant or not."""
        return any("rel" in part.metric.parameters for part in self.parts)

    def steps(self) -> Iterator[tuple[str, str]]:
        """Every part and the metric itself, and how its value comes about."""
        for part in self.parts:
            value = self.value(part)
            calculation = self._how(part, value)
            operand = f"({part.metric.operands[0]})" if part.metric.operands else ""
            name = at_cutoff(part.name.partition("(")[0] + operand, part.k)
            yield (
                name,
                number(value)
                if calculation in ("", number(value))
                else f"{calculation} = {number(value)}",
            )

    def value(self, part: Measure, grades: Sequence[Value] | None = None) -> Value:
        """A part's value by the reference, before any policy; None where it is undefined."""
        if part.metric.arithmetic:
            values = [self.value(component, grades) for component in part.components]
            return reference.combined(part.metric.arithmetic.python, values)
        question = build_question(self.spec, part)
        ranked_grades = list(self.ranked.values()) if grades is None else grades
        label_grades = list(self.labels.values())
        if part.metric.operand_table == "labels":
            worths = [self.gain(item, grade) for item, grade in self.ranked.items()]
            ranked_grades = worths[: len(ranked_grades)]
            label_grades = [self.gain(item, grade) for item, grade in self.labels.items()]
        ranks = enumerate(ranked_grades, start=1)
        items = list(self.ranked)[: len(ranked_grades)]
        inputs = {
            "grades": ranked_grades,
            "labels": label_grades,
            "items": items,
            "in_pool": [item in self.labels for item in items],
            "graded": self.labels,
            "other": self.other,
            "own_ties": [[item] for item in items],
            "other_ties": [[item] for item in self.other],
            "day": DAY,
            "groups": grouped(self.labels),
            "catalogue": CATALOGUE,
            "rows": [(-float(rank), grade) for rank, grade in ranks if grade is not None],
            "lists": [list(self.ranked)],
        }
        return reference.computed(question, inputs)

    def gain(self, item: str, grade: Value) -> float:
        """What an item's grade is worth, or its label by a column."""
        settings = self.spec.settings(self.measure)
        if self.measure.metric.operand_table == "labels":
            value = CATALOGUE[item].columns[self.measure.metric.operand]
            return reference_columns.worth(grade, value, settings.parameter("rel"))
        gain: Any = settings["gain"]
        return reference.gain(grade, gain, settings.parameter("rel"))

    def discount(self, rank: int) -> float:
        """What a rank is worth."""
        settings = self.spec.settings(self.measure)
        return reference_columns.discount_of(
            rank, str(settings["discount"]), settings.parameter("p")
        )

    def ideal(self) -> Grades:
        """The items of the ideal order, best first; empty if the metric has none."""
        overs = {part.metric.over for part in self.parts}
        if not any(map(_is_ideal, overs)):
            return {}
        items = self.ranked if "ideal_shown" in overs else self.labels
        return dict(sorted(items.items(), key=lambda pair: -self.gain(*pair)))

    def ideal_worth(self) -> list[float]:
        """Gain x discount of the items of the ideal order."""
        labels = enumerate(self.ideal().items(), start=1)
        return [self.gain(*label) * self.discount(rank) for rank, label in labels]

    def _added(self, part: Measure) -> list[float]:
        grades = list(self.ranked.values())
        sums = [self.value(part, grades[:length]) or 0.0 for length in range(len(grades) + 1)]
        return [round(after - before, 12) for before, after in pairwise(sums)]

    def _how(self, part: Measure, value: Value) -> str:
        """The arithmetic as a text, empty if there is none."""
        if part.metric.arithmetic:
            return part.metric.arithmetic.text(list(map(self._number, part.components)))
        if part.metric.over == "query":
            return self._filled(part)
        terms: list[float] = []
        if part.metric.name in self.sums:
            terms = self.sums[part.metric.name][: part.k]
        elif _is_ideal(part.metric.over):
            terms = self._ideal_terms(value or 0.0)
        return " + ".join(map(number, terms)) if len(terms) > 1 else ""

    def _ideal_terms(self, value: float) -> list[float]:
        """As much of the ideal order as the value is the sum of."""
        ideal_terms = self.ideal_worth()
        lengths = sorted(
            range(1, len(ideal_terms) + 1), key=lambda length: length != self.measure.k
        )
        fits = (
            n for n in lengths if math.isclose(math.fsum(ideal_terms[:n]), value, abs_tol=1e-12)
        )
        return ideal_terms[: next(fits, 0)]

    def _filled(self, part: Measure) -> str:
        """A metric's template with numbers in the place of its parts."""
        metric = part.metric
        view = MetricContext(self.spec, part, self._number)
        if not metric.ratio:
            return _readable(metric.sql("value", view))
        top, bottom = (_readable(metric.sql(name, view)) for name in ("numerator", "denominator"))
        is_one = " " not in bottom or bottom.startswith("case")
        return f"{top} / {bottom if is_one else f'({bottom})'}"

    def _number(self, part: Measure) -> str:
        value = self.value(part)
        return "NULL" if value is None else number(value)


def _readable(text: str) -> str:
    """SQL's arithmetic as people write it."""
    return " ".join(re.sub(r"\b(\d+(?:\.\d+)?)e0\b", r"\1", text).split())
