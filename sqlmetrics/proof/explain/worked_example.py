"""A metric worked out on a short list: the table, the arithmetic, the value, and SQL's value."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import at_cutoff, is_column_role
from sqlmetrics.catalog.option import GainTable
from sqlmetrics.engines.database import connect
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.plan.expressions import MetricContext, used_parts
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.proof import reference, reference_columns
from sqlmetrics.proof.explain.example import (
    BASELINE,
    CATALOGUE,
    DAY,
    GROUPS,
    LIST,
    NOT_RETRIEVED,
    SYSTEM,
    Grades,
    grouped,
    items,
    label_rows,
    needed_fields,
    rankings,
)
from sqlmetrics.proof.reference import Value
from sqlmetrics.proof.verify import build_question, evaluated_by_reference
from sqlmetrics.spec.spec import Spec

# The arithmetic of a metric on one list: its parts, their sums, and how they go together.
#
# The numbers are the reference's. How parts become a metric is read from the metric's own
# template, with numbers in the place of columns: nothing is written by hand for a metric.


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
            calculation = self._arithmetic(part, value)
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
            return reference_columns.value_of_label(grade, value, settings.parameter("rel"))
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

    def _arithmetic(self, part: Measure, value: Value) -> str:
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


Row = tuple[str, ...]


@dataclass(frozen=True)
class WorkedExample:
    """A metric worked out on the list.

    Attributes:
        columns: The names of the table's columns.
        rows: One row per item, the ranked ones first.
        ideal: Rows (rank, item, grade, gain, discount, their product) of the ideal order,
            empty if the metric has none.
        steps: What is computed -> how: the metric's parts, then the metric.
        remark: What an option makes of the value, empty if nothing.
        value: The value by the reference; None if the query is left out. For a metric of
            all lists together, its value for this one list.
        sql_value: The value by the SQL on DuckDB.
    """

    columns: Row
    rows: tuple[Row, ...]
    ideal: tuple[Row, ...]
    steps: tuple[tuple[str, str], ...]
    remark: str
    value: Value
    sql_value: Value

    @property
    def difference(self) -> float:
        """How far the two values are apart, infinite if one side alone has none."""
        if self.value is None or self.sql_value is None:
            return 0.0 if self.value is self.sql_value else math.inf
        if math.isnan(self.value) and math.isnan(self.sql_value):
            return 0.0
        return abs(self.value - self.sql_value)


def worked(measure: Measure, preset: str) -> WorkedExample:
    """Work a metric out on the list, by the conventions of a preset.

    Args:
        measure: The metric; with a gain table the list's grades are those of the table.
        preset: A name of `PRESETS`.

    Raises:
        SpecError: If the metric does not fit the preset's conventions.
    """
    labels = _labels(measure)
    spec = _spec(measure, preset, labels)
    ranked = _counted_items(spec, {item: labels.get(item) for item in LIST})
    baseline = _counted_items(spec, {item: labels.get(item) for item in BASELINE})
    arithmetic = Arithmetic(spec, spec.measures[0], ranked, labels, tuple(baseline))
    value, sql_value = _two_values(spec)
    return WorkedExample(
        columns=_columns(arithmetic),
        rows=tuple(_rows(arithmetic)),
        ideal=tuple(_ideal_rows(arithmetic)),
        steps=tuple(arithmetic.steps()),
        remark=_remark(arithmetic, value),
        value=value,
        sql_value=sql_value,
    )


def _labels(measure: Measure) -> Grades:
    """The labels; grades 1, 2, 3 are the first, second and third of a gain table."""
    labels = {item: grade for item, grade in {**LIST, **NOT_RETRIEVED}.items() if grade is not None}
    table = measure.setting("gain")
    levels = sorted(grade for grade in table if grade > 0) if isinstance(table, GainTable) else []
    if not levels:
        return labels
    return {i: levels[min(int(g), len(levels)) - 1] if g else g for i, g in labels.items()}


def _spec(measure: Measure, preset: str, labels: Grades) -> Spec:
    spec_fields = dict(needed_fields(measure, preset))
    systems = "baseline" in spec_fields
    label_fields = {"columns": spec_fields["labels"]["columns"]} if "labels" in spec_fields else {}
    roles = [need.partition(".")[2] for need in measure.metric.needs]
    roles = list(filter(is_column_role, roles))
    label_table = label_rows(labels, roles, groups=bool(label_fields))
    spec_fields["labels"] = {"data": label_table, **label_fields}
    columns = spec_fields.get("rankings", {}).get("columns", {})
    table = rankings(systems=systems, days="date" in columns)
    spec_fields["rankings"] = {"data": table, "columns": columns}
    if "items" in spec_fields:
        spec_fields["items"] = {"data": items(roles), "columns": spec_fields["items"]["columns"]}
    return Spec(
        **spec_fields,
        name="example",
        metrics=[measure.text],
        preset=preset,
    )


def _counted_items(spec: Spec, ranked: Grades) -> Grades:
    """The items that count, by the conventions about lists."""
    if spec.options.get("unjudged") == "condensed":
        ranked = {item: grade for item, grade in ranked.items() if grade is not None}
    depth = spec.options.get("depth")
    return dict(list(ranked.items())[: depth if isinstance(depth, int) else None])


def _two_values(spec: Spec) -> tuple[Value, Value]:
    """The query's value by the reference and by the SQL; or that of all, which is one."""
    with connect() as engine:
        tables = opened(spec, engine)
        proof = evaluated_by_reference(make_plan(spec, tables), engine)
        result = run(spec, tables, engine, check=False)
    if spec.measures[0].metric.pooled:
        ((mean,),) = proof.summary.values()
        return mean.value, result.to_dicts()[0]["value"]
    rows = result.per_query().to_pylist()
    system_rows = [row for row in rows if row["system"] in (SYSTEM, spec.title)]
    (values,) = (
        query_values for (_, system, _), query_values in proof.per_query.items() if system != "prod"
    )
    return values[0], system_rows[0][spec.measures[0].column] if system_rows else None


def _columns(arithmetic: Arithmetic) -> Row:
    value_columns = (
        ("gain", "discount") if arithmetic.has_gain else ("relevant",) * arithmetic.has_rel
    )
    return ("rank", "item", "grade", *_fact_cells(arithmetic), *value_columns, *arithmetic.sums)


def _rows(arithmetic: Arithmetic) -> Iterator[Row]:
    """One row per item; those that do not count have no numbers."""
    width = len(_columns(arithmetic))
    for rank, (item, grade) in enumerate(arithmetic.ranked.items(), start=1):
        row: Row = (str(rank), item, _grade(grade), *_fact_cells(arithmetic, rank, item))
        if rank <= (arithmetic.measure.k or rank):
            row += _gain_cells(arithmetic, rank, item, grade) + tuple(
                number(terms[rank - 1]) for terms in arithmetic.sums.values()
            )
        yield row + ("",) * (width - len(row))
    for item, grade in {**LIST, **arithmetic.labels}.items():
        if item not in arithmetic.ranked:
            group_cells = tuple(
                " ".join(GROUPS[item]) for name in _fact_cells(arithmetic) if name == "group"
            )
            row = ("-", item, _grade(grade), *group_cells)
            yield row + ("",) * (width - len(row))


def _fact_cells(arithmetic: Arithmetic, rank: int = 0, item: str = "") -> Row:
    """What metrics need beside grades, in a row; the names without one."""
    names = [need.rpartition(".")[2] for need in arithmetic.spec.needed if need != "items"]
    if not item:
        return tuple(names)
    below = "-" if rank > len(arithmetic.other) else arithmetic.other[rank - 1]
    facts = {**vars(CATALOGUE[item]), "baseline": below}
    columns = CATALOGUE[item].columns
    values = {name: columns[name] if is_column_role(name) else facts.get(name) for name in names}
    values["group"] = " ".join(GROUPS.get(item, "-"))
    return tuple(str(values[name]) for name in names)


def _ideal_rows(arithmetic: Arithmetic) -> Iterator[Row]:
    ideal_terms = arithmetic.ideal_worth()
    for rank, (item, grade) in enumerate(arithmetic.ideal().items(), start=1):
        yield (
            str(rank),
            item,
            _grade(grade),
            *_gain_cells(arithmetic, rank, item, grade),
            number(ideal_terms[rank - 1]),
        )


def _gain_cells(arithmetic: Arithmetic, rank: int, item: str, grade: Value) -> Row:
    """The gain and the discount of an item, or whether it is relevant."""
    if arithmetic.has_gain:
        return number(arithmetic.gain(item, grade)), number(arithmetic.discount(rank))
    rel = arithmetic.spec.settings(arithmetic.measure).parameter("rel")
    return ("yes" if (grade or 0) >= rel else "no",) * arithmetic.has_rel


def _remark(arithmetic: Arithmetic, value: Value) -> str:
    """Which option made something else of the value."""
    raw_value, metric = arithmetic.value(arithmetic.measure), arithmetic.measure.metric
    if raw_value is None and metric.undefined != "no_relevant":
        return metric.empty
    if raw_value is not None and value is not None:
        return ""
    name = "no_relevant" if raw_value is None else "average_over"
    choice = arithmetic.spec.settings(arithmetic.measure).choice(name)
    return f"{name}={choice.name}, {OPTIONS[name].meaning}: {choice.meaning}"


def _grade(grade: Value) -> str:
    return "-" if grade is None else number(grade)
