"""What a reader should know of an evaluation's input, and when it is no evaluation at all.

The counts come from what is kept anyway. Whether any labelled item stands in any list is asked
only where all numbers of a system look as if none did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.checks import absence
from sqlmetrics.evaluation.checks.absence import notes_of_gaps
from sqlmetrics.evaluation.checks.ids import alike
from sqlmetrics.evaluation.checks.named_values import unknown_values
from sqlmetrics.evaluation.checks.problem import Problem
from sqlmetrics.plan.expressions import sums_of
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import Script
from sqlmetrics.plan.summary import NO_DATE
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import equal, print_template, with_stages
from sqlmetrics.sql.template import literal
from sqlmetrics.tables.table import printable
from sqlmetrics.tables.tabular import Row

SOME = 20
"""As many labelled queries are looked through for ids that look alike."""

ITEMS = 1000
"""As many of their items."""

MANY = 10
"""From so many ids on, if they are half of those looked at, ids that look alike are no chance."""

Number = tuple[str, str, int, float | None]
"""System, metric, cutoff and value of a row of the summary that holds for all queries."""


def notes(
    plan: Plan, script: Script, engine: Database, numbers: Iterable[Number], *, check: bool | float
) -> list[str]:
    """Sentences about the input that a reader should know.

    Args:
        plan: The plan of the evaluation.
        script: How `per_query` is read.
        engine: Where it is.
        numbers: What came of it.
        check: Whether bad input is refused.

    Raises:
        InputError: If no labelled item stands in any list, and many ids look alike.
    """
    counts = "select coalesce(sum(1 - is_ranked), 0), coalesce(sum(is_ranked), 0) from per_query"
    if "is_labelled" in {
        getattr(column, "name", column) for column in plan.per_query[-1].view["columns"]
    }:
        counts += " where is_labelled = 1"
    unranked, ranked = map(int, engine.rows(script.over(counts))[0])
    sentences = [*_unranked(unranked, unranked + ranked)]
    if check and _leaves_out(plan.spec):
        sentences += _unlabelled(plan, script, engine, ranked)
    if check:
        sentences += [*unknown_values(plan, engine, only_notes=True), *notes_of_gaps(plan, engine)]
    return [
        *sentences,
        *_Meeting(plan, engine).notes(numbers, check=check),
        *absence.sample_notes(check),
    ]


def _unranked(unranked: int, total: int) -> Iterator[str]:
    if unranked * 2 > total:
        yield f"{unranked:,} of {total:,} labelled queries have no ranking"


def _leaves_out(spec: Spec) -> bool:
    """Whether some mean leaves out lists without labels that could have some."""
    is_from_clicks = spec.clicks is not None and not spec.clicks.labels.pools
    over = {spec.settings(measure)["average_over"] for measure in spec.measures}
    return not is_from_clicks and not over <= {"rankings", "either"}


def _unlabelled(plan: Plan, script: Script, engine: Database, ranked: int) -> Iterator[str]:
    """How many lists count in no mean."""
    if script.lists:
        total = engine.rows(script.lists)[0][0]
    else:
        keys = ", ".join(plan.shape.keys)
        rankings = f"select distinct {keys} from {plan.shape.names['rankings']}"
        select = f"select count(*) from ({rankings}) as lists"
        total = engine.rows(with_stages(plan.inputs, select))[0][0]
    if total > ranked:
        of_query = plan.shape.keys == ("query_id",)
        noun = (
            "ranked queries have no label"
            if of_query
            else "lists belong to queries without a label"
        )
        yield f"{int(total) - ranked:,} of {int(total):,} {noun}, so they count in no mean"


@dataclass(frozen=True)
class _Meeting:
    """Whether labelled items stand in lists at all."""

    plan: Plan
    engine: Database

    def notes(self, numbers: Iterable[Number], *, check: bool | float) -> Iterator[str]:
        """One note for all systems, or one for each in whose lists no labelled item stands."""
        if not (suspects := _suspects(self.plan.spec, numbers)):
            return
        counted = self._counted()
        without = {name: n for name, n, n_labelled in counted if not n_labelled}
        if len(without) == len(counted) > 0:
            yield from self._of_all(sum(without.values()), check=check)
            return
        for system in sorted(without.keys() & suspects):
            yield f"{printable(system)}: {_nowhere(without[system])}"

    def _of_all(self, n_items: int, *, check: bool | float) -> Iterator[str]:
        ranked_items, labelled_items = self._examples()
        pairs = alike(ranked_items, labelled_items)
        if check and len(pairs) >= max(MANY, len(labelled_items) / 2):
            message = "no labelled item appears in any list, although the ids look alike"
            columns = ("item_id in rankings", "item_id in labels")
            remedy = (
                "give both tables the same ids: compare type, case, spaces, leading zeros; if "
                "they are different items, use --skip-input-checks (check=False)"
            )
            raise InputError(Problem("both tables", message, n_items, columns, pairs[:3], remedy))
        ranked_item, labelled_item = next(
            iter(pairs), (min(ranked_items, default=""), min(labelled_items, default=""))
        )
        look = ", which look alike: compare type, case, spaces, leading zeros" * bool(pairs)
        yield (
            f"{_nowhere(n_items)}, like {ranked_item!r} in the rankings and "
            f"{labelled_item!r} in the labels{look}"
        )

    def _counted(self) -> Sequence[tuple[str, int, int]]:
        """System, ranked items of labelled queries, and how many of them have a label."""
        names, label_keys = self.plan.shape.names, self.plan.shape.label_keys
        has_system = "system" in self.plan.shape.keys
        view = {
            "system": f"{names['rankings']}.system" if has_system else literal(""),
            "grouped": has_system,
            "label_keys": label_keys,
            "query": equal("labelled", names["rankings"], label_keys),
            "item": equal(names["labels"], names["rankings"], (*label_keys, "item_id")),
            **names,
        }
        select = print_template("checks/meeting", view)
        rows = self.engine.rows(with_stages(self.plan.inputs, select))
        return [(str(name), int(n), int(labelled)) for name, n, labelled in rows if n]

    def _examples(self) -> Iterator[list[str]]:
        """Items of the rankings, and of the labels, of some queries that both have."""
        rankings, labels = (self.plan.shape.names[table] for table in ("rankings", "labels"))
        on = " and ".join(equal(labels, rankings, self.plan.shape.label_keys))
        condition = f"where exists (select 1 from {rankings} where {on})"
        queries = self._texts("query_id", f"from {labels} {condition}", SOME)
        among = f"where query_id in ({', '.join(map(literal, queries))})"
        for table in (rankings, labels):
            yield self._texts("item_id", f"from {table} {among}", ITEMS)

    def _texts(self, column: str, rows: str, most: int) -> list[str]:
        select = f"select distinct {column} {rows} order by {column} limit {most}"
        return [str(value) for (value,) in self.engine.rows(with_stages(self.plan.inputs, select))]


def _nowhere(n_items: int) -> str:
    return f"no labelled item appears in any list: none of {n_items:,} ranked items has a label"


def _suspects(spec: Spec, numbers: Iterable[Number]) -> set[str]:
    """The systems whose numbers are all 0 or none, as if no labelled item were in their lists."""
    telling = {
        (measure.name, measure.k or 0)
        for measure in spec.measures
        if _is_zero_without_labels(spec, measure)
    }
    values: dict[str, list[Any]] = {}
    for system, metric, k, value in numbers:
        if (metric, int(k)) in telling:
            values.setdefault(system, []).append(value)
    return {system for system, system_values in values.items() if not any(system_values)}


def _is_zero_without_labels(spec: Spec, measure: Measure) -> bool:
    """Whether a metric is 0 or undefined for lists in which nothing has a label."""
    filled = spec.settings(measure)["no_relevant"] in ("one", "nan")
    if filled and measure.metric.undefined == "no_relevant":
        return False
    relations = ("ranked", "ideal_shown", "pairs")
    leaves = sums_of(spec, spec.settings(measure).measure)
    return any(leaf.metric.over in relations and leaf.metric.name != "num_ret" for leaf in leaves)


# What a number hides: sentences that stand beneath a result.

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
    for measure in (part for formula in measures for part in formula.components):
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
