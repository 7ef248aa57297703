"""Metrics of all lists together: what a day, system or segment has as a whole.

They cannot be put together from values of queries, so the ranked rows are gone through for
them, and counted as far as that goes without losing anything:

    ranked, per_query ─> scores_of_all ─> scores_of_segments ─> scores_in_order ─> global_metrics

Quantiles of the values of queries cannot be put together either, and stand there beside them:

    metric_values ─> values_in_order ─> global_metrics

`per_query` tells which queries count: there such a metric has 1 for a query that adds rows
to it. In all these stages every metric has columns of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.plan.expressions import MetricContext
from sqlmetrics.plan.needs import Needs, SumStage
from sqlmetrics.plan.segments import SEGMENT, Segment
from sqlmetrics.plan.shape import Shape, segment
from sqlmetrics.sql.stage import Column, Stage, Window, equal
from sqlmetrics.sql.template import case, double, literal

# Pairs of the scored and labelled items of a list, counted without making any pair.
#
# Of every score it is counted how many items have it that are to be higher, and how many
# that are to be lower; running counts then say how many of either stand above them:
#
#     ranked ─> [levels] ─> scores ─> pairs ─> pair_sums
#
# Items are to be higher if they are relevant; or, for every grade of a query in turn, if
# they have that grade, and lower if they have a lower one.


def pair_stages(sums: SumStage, keys: tuple[str, ...], depth: str) -> Iterator[Stage]:
    """The stages from `ranked` to the rows that sums over pairs are taken from.

    Args:
        sums: The sums over the pairs.
        keys: What a list is identified by.
        depth: The condition that a ranked row is looked at, empty without one.
    """
    where = " and ".join(filter(None, ("ranked.judged = 1e0", depth)))
    groups = (*keys, "grade") if not sums.relevant else keys
    if not sums.relevant:
        yield _levels_stage(groups, where)
    yield _scores_stage(sums, keys, where)
    view = {
        "about": "and the number of items of either kind with a higher score",
        "columns": [*groups, "highs", "lows", *running(groups, "highs", "lows")],
        "from": f"scores{sums.suffix}",
    }
    yield Stage(sums.rows, "steps", view)


def running(groups: tuple[str, ...], *names: str) -> Iterator[Column]:
    """How much of each column stands above a row's score."""
    window = Window(groups, ["score desc"], "unbounded preceding")
    for name in names:
        yield Column(f"sum({name}) over {window} - {name}", f"{name}_above")


def _levels_stage(groups: tuple[str, ...], where: str) -> Stage:
    view = {
        "about": "one row per query and grade",
        "keys": groups,
        "from": "ranked",
        "where": where,
    }
    return Stage("levels", "sums", view | {"columns": [], "joins": {}})


def _scores_stage(sums: SumStage, keys: tuple[str, ...], where: str) -> Stage:
    """How many items of a score are to be higher and how many lower."""
    about, groups, joins = "query and score", [f"ranked.{key}" for key in keys], {}
    high = f"ranked.{sums.relevant}"
    if not sums.relevant:
        about, high = "query, grade and score", "ranked.grade = levels.grade"
        groups.append("levels.grade")
        joins = {"levels": [*equal("levels", "ranked", keys), "levels.grade >= ranked.grade"]}
    view = {
        "about": f"one row per {about}: the items that should rank higher, and lower",
        "keys": [*groups, "ranked.score"],
        "columns": [
            Column(f"sum({case(high, '1e0')})", "highs"),
            Column(f"sum({case(high, '0e0', '1e0')})", "lows"),
        ],
        "from": "ranked",
        "joins": joins,
        "where": where,
    }
    return Stage(f"scores{sums.suffix}", "sums", view)


QUANTILE, IN_ORDER = "quantile", "values_in_order"
"""The column of `metric_values` that says which one, and the stage that is read for it."""

_Select = tuple[list[object], str, tuple[str, ...]]
"""A part of `global_metrics`: its columns, where they are from, and what they are grouped by."""


def pooled_stages(shape: Shape, needs: Needs, segments: Sequence[Segment]) -> Iterator[Stage]:
    """The stages from `ranked` and `per_query` to one row per metric, system and segment.

    Args:
        shape: What the tables hold.
        needs: What the metrics need.
        segments: The segments of the summary.
    """
    pools = [_scores(shape, needs), _items(shape, needs)]
    pools = [pool for pool in pools if pool.values]
    for pool in pools:
        yield from pool.stages(shape, segments)
    values = [
        (measure, value, pool.source) for pool in pools for measure, value in pool.values.items()
    ]
    selects = [_select(shape, *value) for value in values]
    if needs.quantiles:
        yield _in_order(shape, segments)
        selects.append(_between(shape))
    if selects:
        yield Stage("global_metrics", "global_metrics", {"metrics": selects})


@dataclass(frozen=True)
class GlobalMetrics:
    """What is counted of every score, or of every item, of all lists together.

    Attributes:
        name: What the stages are called by.
        by: The column of `ranked` whose values are counted.
        where: The conditions of the rows that count for any metric.
        tallies: The counts.
        steps: What is added to them, one stage after the other.
        values: The metrics, each as a sum over the last stage.
        beside: A stage of one row that stands beside every row of the last stage.
    """

    name: str
    by: str
    where: Sequence[str]
    tallies: Sequence[Column]
    steps: Sequence[tuple[str, str, Sequence[Column]]]
    values: dict[Measure, str]
    beside: tuple[Stage, ...] = ()

    @property
    def noun(self) -> str:
        """What one row of a stage is."""
        return self.name.removesuffix("s")

    @property
    def source(self) -> str:
        """Where the values come from: the last stage, and what stands beside it."""
        last = self.steps[-1][0] if self.steps else "of_segments"
        crossed = [f"cross join {stage.name}" for stage in self.beside]
        return "\n".join([f"{self.name}_{last}", *crossed])

    def stages(self, shape: Shape, segments: Sequence[Segment]) -> Iterator[Stage]:
        """From `ranked` to the last stage."""
        yield self._tallies_stage(shape)
        names = [column.name for column in self.tallies]
        view = {
            "about": "the same for each segment and for all queries",
            "groups": [*shape.groups],
            "keys": [self.by],
            "sums": [Column(f"sum({name})", name) for name in names],
            "from": f"{self.name}_of_all",
            "segments": segments,
        }
        yield Stage(f"{self.name}_of_segments", "segments", view)
        columns: list[object] = [*shape.groups, *SEGMENT, *names]
        before = f"{self.name}_of_segments"
        for name, about, added in self.steps:
            view = {"about": about, "columns": [*columns, *added], "from": before}
            before = f"{self.name}_{name}"
            yield Stage(before, "steps", view)
            columns += [column.name for column in added]
        yield from self.beside

    def _tallies_stage(self, shape: Shape) -> Stage:
        keys = [f"ranked.{key}" for key in shape.groups]
        keys += [f"per_query.{segment(name)}" for name in shape.spec.by]
        view = {
            "about": f"one row per {self.noun}: how often it occurs in the queries that count",
            "keys": [*keys, f"ranked.{self.by}"],
            "columns": self.tallies,
            "on": equal("per_query", "ranked", shape.keys),
            "where": self.where,
        }
        return Stage(f"{self.name}_of_all", "tallies", view)


def _counts(measures: Sequence[Measure]) -> str:
    """The condition of a query that counts for any of the metrics."""
    flags = [f"per_query.{measure.column} = 1e0" for measure in measures]
    either = "\n        or ".join(flags)
    return either if len(flags) == 1 else f"(\n        {either}\n    )"


def _select(shape: Shape, measure: Measure, value: str, source: str) -> _Select:
    keys = (*shape.groups, *SEGMENT)
    columns: list[object] = [
        *keys,
        Column(literal(measure.name), "metric"),
        Column(str(measure.k or 0), "k"),
        Column(value, "pooled_value"),
    ]
    return columns, source, keys


# -- scores: AUC ------------------------------------------------------------------------


def _scores(shape: Shape, needs: Needs) -> GlobalMetrics:
    """How many relevant items have a score, and how many others."""
    measures = [measure for measure in needs.pooled if measure.metric.over == "pooled_scores"]
    aucs = [_Auc(measure, needs, (*shape.groups, *SEGMENT)) for measure in measures]
    steps = [
        ("in_order", "and the number of relevant items with a higher score"),
        ("cut", "and the number of other items within the limit of false positives"),
    ]
    columns = [[c for auc in aucs for c in auc.in_order()], [c for auc in aucs for c in auc.cut()]]
    return GlobalMetrics(
        "scores",
        "score",
        [
            condition
            for condition in (_counts(measures), "ranked.judged = 1e0", needs.depth)
            if condition
        ],
        [column for auc in aucs for column in auc.tallies()],
        [(*step, added) for step, added in zip(steps, columns, strict=True) if added],
        {auc.measure: auc.value() for auc in aucs},
    )


@dataclass(frozen=True)
class _Auc:
    """The columns of one AUC, named by it."""

    measure: Measure
    needs: Needs
    partition: tuple[str, ...]

    @property
    def max_fpr(self) -> float:
        """The share of the others up to which the area is taken."""
        return self.needs.spec.settings(self.measure).parameter("max_fpr")

    @property
    def view(self) -> MetricContext:
        """Its settings."""
        return MetricContext(self.needs.spec, self.measure, str)

    def name(self, suffix: str) -> str:
        """A column."""
        return f"{self.measure.column}_{suffix}"

    def tallies(self) -> Iterator[Column]:
        """Relevant items and others, of the queries that count."""
        flag, high = f"per_query.{self.measure.column} = 1e0", self.view.relevant
        for suffix, condition in (("highs", f"ranked.{high}"), ("lows", f"not ranked.{high}")):
            yield Column(f"sum({case(f'{flag} and {condition}', '1e0')})", self.name(suffix))

    def in_order(self) -> Iterator[Column]:
        """What stands above a score, and what is left of the limit there."""
        yield from running(self.partition, self.name("highs"))
        if self.max_fpr < 1:
            lows = self.name("lows")
            limit = f"{double(self.max_fpr)} * sum({lows}) over {Window(self.partition)}"
            window = Window(self.partition, ["score desc"], "unbounded preceding")
            yield Column(f"{limit}\n+ {lows} - sum({lows}) over {window}", self.name("left"))

    def cut(self) -> Iterator[Column]:
        """How many of a score's others are within the limit."""
        if self.max_fpr < 1:
            remaining, lows = self.name("left"), self.name("lows")
            whens = (
                f"when {remaining} >= {lows} then {lows}\n    when {remaining} > "
                f"0e0 then {remaining}"
            )
            yield Column(f"case\n    {whens}\n    else 0e0\nend", self.name("within"))

    def value(self) -> str:
        """The metric as a sum over the last stage."""
        view = SimpleNamespace(
            highs=self.name("highs"),
            lows=self.name("lows"),
            above=self.name("highs_above"),
            within=self.name("within"),
            max_fpr=self.view.max_fpr,
        )
        return self.measure.metric.sql("partial" if self.max_fpr < 1 else "value", view)


# -- items: coverage and Gini -----------------------------------------------------------


def _items(shape: Shape, needs: Needs) -> GlobalMetrics:
    """How often an item stands in the top k. Items that are never shown have no row."""
    measures = [measure for measure in needs.pooled if measure.metric.over == "pooled_items"]
    deepest = max((measure.k or 0 for measure in measures), default=0)
    ginis = [measure for measure in measures if measure.metric.name == "gini"]
    places = [_place_column(measure, (*shape.groups, *SEGMENT)) for measure in ginis]
    return GlobalMetrics(
        "items",
        "item_id",
        [
            condition
            for condition in (_counts(measures), f"ranked.rnk <= {deepest}", needs.depth)
            if condition
        ],
        [_shown_column(measure) for measure in measures],
        [("in_order", "and its place, 1 for the most shown item", places)] if places else [],
        {measure: _over_items(measure) for measure in measures},
        (_catalogue_stage(shape),) if measures else (),
    )


def _shown_column(measure: Measure) -> Column:
    condition = f"per_query.{measure.column} = 1e0 and ranked.rnk <= {measure.k}"
    return Column(f"sum({case(condition, '1e0')})", f"{measure.column}_shown")


def _place_column(measure: Measure, partition: tuple[str, ...]) -> Column:
    window = Window(partition, [f"{measure.column}_shown desc", "item_id asc"])
    return Column(f"row_number() over {window}", f"{measure.column}_place")


def _over_items(measure: Measure) -> str:
    name = measure.column
    view = SimpleNamespace(shown=f"{name}_shown", place=f"{name}_place", n_items="n_items")
    return measure.metric.sql("value", view)


def _catalogue_stage(shape: Shape) -> Stage:
    view = {
        "about": "one row: the number of items",
        "columns": [Column("cast(count(*) as double)", "n_items")],
        "from": shape.names["items"],
    }
    return Stage("catalogue_size", "steps", view)


def _in_order(shape: Shape, segments: Sequence[Segment]) -> Stage:
    """One row per query with a value and segment, with its place among them.

    No percentile function is asked for: databases differ in which they have and in how they go
    between two values. A value's place among the others is known everywhere, and so is how far
    it is from the place that is wanted: the two values beside it are summed, each by how near.

    Args:
        shape: What the tables hold.
        segments: The segments of the summary.
    """
    view = {
        "about": "the place of a value within its segment, and the place of the quantile",
        "groups": [*shape.groups],
        "keys": ["metric", "k"],
        "segments": segments,
        "quantile": QUANTILE,
    }
    return Stage(IN_ORDER, IN_ORDER, view)


def _between(shape: Shape) -> _Select:
    """The values at the place that is wanted: between two, by how near each is."""
    keys = (*shape.groups, *SEGMENT, "metric", "k")
    return [*keys, Column(_BETWEEN, "pooled_value")], IN_ORDER, keys


_BETWEEN = """sum(
    metric_value
    * case
        when abs(n_below - quantile_rank) < 1e0
            then 1e0 - abs(n_below - quantile_rank)
        else 0e0
    end
)"""
