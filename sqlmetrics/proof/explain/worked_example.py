"""A metric worked out on a short list: the table, the arithmetic, the value, and SQL's value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import is_column_role
from sqlmetrics.catalog.option import GainTable
from sqlmetrics.engines.database import connect
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.run import run
from sqlmetrics.plan.plan import plan
from sqlmetrics.proof.explain.arithmetic import Arithmetic, number
from sqlmetrics.proof.explain.example import (
    BASELINE,
    CATALOGUE,
    GROUPS,
    LIST,
    NOT_RETRIEVED,
    SYSTEM,
    Grades,
    Value,
    items,
    label_rows,
    needed_fields,
    rankings,
)
from sqlmetrics.proof.verify import evaluated_by_reference
from sqlmetrics.spec.spec import Spec

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
    ranked = _seen(spec, {item: labels.get(item) for item in LIST})
    baseline = _seen(spec, {item: labels.get(item) for item in BASELINE})
    arithmetic = Arithmetic(spec, spec.measures[0], ranked, labels, tuple(baseline))
    value, sql_value = _both(spec)
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


def _seen(spec: Spec, ranked: Grades) -> Grades:
    """The items that count, by the conventions about lists."""
    if spec.options.get("unjudged") == "condensed":
        ranked = {item: grade for item, grade in ranked.items() if grade is not None}
    depth = spec.options.get("depth")
    return dict(list(ranked.items())[: depth if isinstance(depth, int) else None])


def _both(spec: Spec) -> tuple[Value, Value]:
    """The query's value by the reference and by the SQL; or that of all, which is one."""
    with connect() as engine:
        tables = opened(spec, engine)
        proof = evaluated_by_reference(plan(spec, tables), engine)
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
    return ("rank", "item", "grade", *_known(arithmetic), *value_columns, *arithmetic.sums)


def _rows(arithmetic: Arithmetic) -> Iterator[Row]:
    """One row per item; those that do not count have no numbers."""
    width = len(_columns(arithmetic))
    for rank, (item, grade) in enumerate(arithmetic.ranked.items(), start=1):
        row: Row = (str(rank), item, _grade(grade), *_known(arithmetic, rank, item))
        if rank <= (arithmetic.measure.k or rank):
            row += _told(arithmetic, rank, item, grade) + tuple(
                number(terms[rank - 1]) for terms in arithmetic.sums.values()
            )
        yield row + ("",) * (width - len(row))
    for item, grade in {**LIST, **arithmetic.labels}.items():
        if item not in arithmetic.ranked:
            group_cells = tuple(
                " ".join(GROUPS[item]) for name in _known(arithmetic) if name == "group"
            )
            row = ("-", item, _grade(grade), *group_cells)
            yield row + ("",) * (width - len(row))


def _known(arithmetic: Arithmetic, rank: int = 0, item: str = "") -> Row:
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
            *_told(arithmetic, rank, item, grade),
            number(ideal_terms[rank - 1]),
        )


def _told(arithmetic: Arithmetic, rank: int, item: str, grade: Value) -> Row:
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
