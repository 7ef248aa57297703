"""What the metrics need: every part of every metric as one column of one per-query sum.

However many metrics and cutoffs use a part, it is computed once: `ndcg@10`, `dcg@10` and
`ndcg(average_over=hits)@10` share the column `list_sums.dcg_at_10`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, partial

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure, parse, word
from sqlmetrics.catalog.metric import Metric, is_column_role, label_column
from sqlmetrics.catalog.option import Choice, GainTable
from sqlmetrics.plan.expressions import (
    MetricContext,
    RowContext,
    graded_part,
    join_conditions,
    part_named,
)
from sqlmetrics.plan.row_columns import RowColumns
from sqlmetrics.plan.segments import Segments
from sqlmetrics.spec.segments import RELEVANT_LABELS
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.layout import as_factor, folded
from sqlmetrics.sql.stage import Column
from sqlmetrics.sql.template import double, identifier

# `min_score`: the score from which an item counts as returned.


def reaches(spec: Spec, precision: str) -> str:
    """The condition of a {score} that counts as returned, empty if each does.

    The border is rounded as scores are: a score of .7 with 32 bits is below the .7 of 64.

    Args:
        spec: What is asked.
        precision: The value of `score_precision` that the scores are in.
    """
    least = spec.options["min_score"]
    if not isinstance(least, int | float):
        return ""
    rounded = double(least)
    if precision == "exact":
        rounded = f"{Decimal(str(least)):f}"
    elif precision != "double":
        rounded = OPTIONS["score_precision"].choice(precision).sql.format(score=rounded)
    return OPTIONS["min_score"].choice(least).sql.format(score="{score}", least=rounded)


TIED_AGREEMENT = "tied_agreement"
"""The relation of two lists by depth: there once for each meaning of equal scores."""

IDEAL_AGREEMENT = "ideal_agreement"
"""The relation of a list and its ideal order by depth: there once for each `rel`."""

RANK_CHANGES = "rank_changes"
"""The relation of relevant labels and their ranks in two lists: there once for each `rel`."""

SUMS = {
    "labels": "label_sums",
    "ideal": "label_sums",
    "ranked": "list_sums",
    "ideal_shown": "shown_sums",
    "ideal_returned": "returned_sums",
    "item_features": "item_sums",
    "rank_agreement": "baseline_sums",
    TIED_AGREEMENT: "tied_sums",
    IDEAL_AGREEMENT: "ideal_list_sums",
    RANK_CHANGES: "change_sums",
    "pairs": "pair_sums",
    "label_groups": "label_group_sums",
    "group_hits": "group_sums",
    "shown_groups": "shown_group_sums",
    "evidence": "evidence_sums",
    "ideal_groups": "ideal_group_sums",
}
"""Relation -> the stage of its sums; a sum may be joined with those before it."""

ITEMS_BESIDE_OTHERS = "items_beside_others"
"""The stage of items of lists with what windows over their lists tell."""

IDEAL_GROUPS = "ideal_groups"
"""The relation of the ideal order of labels with groups."""

OF_GROUPS = frozenset(("label_groups", "group_hits", "shown_groups", "evidence", IDEAL_GROUPS))
"""The relations of groups: there once for each `rel`, the ideal order for each `alpha` too."""

OF_TWO_LISTS = (TIED_AGREEMENT, IDEAL_AGREEMENT, RANK_CHANGES)
"""The relations of a list and another, by depth or by item."""

_OF_QUERY = frozenset(("labels", "ideal", "label_groups", IDEAL_GROUPS))
"""Relations of what holds for a query whichever list answers it."""


@dataclass
class SumStage:
    """The sums over one relation, one row per query: `list_sums` over `ranked`, and so on.

    Attributes:
        over: A relation of `SUMS`.
        suffix: Tells apart the ideal orders of gain tables that order grades differently,
            and pairs by what they compare.
        order: What an ideal order is sorted by, empty where nothing is.
        relevant: Which item of a pair is to be the higher one; empty: that of the higher
            grade. Of groups: which labels count.
        of_rel: The part of the suffix that tells `relevant`.
        alpha: How much less an item of a group is worth for each one above it, of an ideal order.
        columns: The sums, by name.
        joined: Other sums that the rows of this one must be joined with.
        cutoffs: The cutoffs of its sums, None for a sum over the whole list.
        row_columns: What its sums ask of the rows, where these are not the ranked ones.
    """

    over: str
    suffix: str = ""
    order: str = ""
    relevant: str = ""
    of_rel: str = ""
    alpha: float = 0.0
    columns: dict[str, Column] = field(default_factory=dict)
    joined: dict[str, None] = field(default_factory=dict)
    cutoffs: set[int | None] = field(default_factory=set)
    row_columns: RowColumns = field(default_factory=RowColumns)

    @property
    def name(self) -> str:
        """The stage of the sums."""
        return SUMS[self.over] + self.suffix

    @property
    def deepest(self) -> int | None:
        """The last rank that some sum looks at, None if one looks at the whole list."""
        cutoffs = [cutoff for cutoff in self.cutoffs if cutoff]
        return max(cutoffs) if cutoffs and len(cutoffs) == len(self.cutoffs) else None

    def reads(self, name: str) -> bool:
        """Whether some sum reads a column of the rows."""
        texts = [column.sql for column in self.columns.values()]
        texts += [text for window in self.row_columns.windows.values() for text in window.reads]
        return any(re.search(rf"\b{name}\b", text) for text in texts)

    @property
    def rows(self) -> str:
        """The stage of the rows that are summed, where it is none of labels or ranked ones."""
        if self.row_columns.windows:
            return ITEMS_BESIDE_OTHERS
        return self.over.removesuffix("_returned") + self.suffix

    @property
    def a_list(self) -> bool:
        """Whether there is one row per list, not one a query."""
        return self.over not in _OF_QUERY


@dataclass(frozen=True)
class MetricColumn:
    """A metric in `per_query`: its value and, for a micro mean, what it is a ratio of.

    A metric that has no value for a query has 1 there if the query adds rows to it.
    """

    measure: Measure
    value: str
    numerator: str = ""
    denominator: str = ""


class Needs:
    """All that the metrics of a spec need.

    Attributes:
        finals: The metrics, in the spec's order.
        sums: The sums by name; `list_sums` and `label_sums` are always there.
        rows: What ranked rows must tell.
        relevant_labels: The number of a query's relevant labels, as SQL in `per_query`; empty
            where no segment needs it.
        every_item: The metric to which an item without a label adds by itself, if there is
            one.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.sums: dict[str, SumStage] = {}
        self.rows = RowColumns()
        self.every_item: Measure | None = None
        self._sums("ranked")
        self._sums("labels")
        self.relevant_labels = self._relevant_labels()
        self.finals = tuple(self._final(measure) for measure in spec.measures)

    def _relevant_labels(self) -> str:
        """How many labels of a query are relevant, empty where no segment is made of it."""
        if not Segments(self.spec).having(RELEVANT_LABELS):
            return ""
        return self._summed(self.spec.settings(parse("num_rel")).measure)

    @property
    def lists(self) -> str:
        """The stage with one row per list: the sums, unless items are left out before them."""
        return "ranked_lists" if self.leaves_out else "list_sums"

    @property
    def leaves_out(self) -> bool:
        """Whether items are left out of their lists before these are ranked."""
        options = self.spec.options
        drops = options["unjudged"] == "condensed" or options["identical_ids"] == "drop"
        return drops or bool(self.border)

    @property
    def reads_item(self) -> bool:
        """Whether ranked rows must have their item."""
        return self._is_over(
            "item_features", "rank_agreement", *OF_TWO_LISTS, "pooled_items", *OF_GROUPS
        )

    @property
    def has_groups(self) -> bool:
        """Whether some metric looks at groups of labels."""
        return any(sum_stage.over in OF_GROUPS for sum_stage in self.sums.values())

    @property
    def reads_score(self) -> bool:
        """Whether ranked rows must have their score."""
        return self._is_over("pairs", "pooled_scores")

    @cached_property
    def label_columns(self) -> tuple[str, ...]:
        """The columns of the labels that metrics name themselves; ranked rows have them too."""
        roles = (need.removeprefix("labels.") for need in self.spec.needed if need[:7] == "labels.")
        return tuple(identifier(label_column(role)) for role in roles if is_column_role(role))

    @property
    def reads_judged(self) -> bool:
        """Whether ranked rows must say if their item has a label."""
        return self.rows.judged or self.reads_score

    def _is_over(self, *relations: str) -> bool:
        overs = {sums.over for sums in self.sums.values()}
        return not {*relations}.isdisjoint(overs | {measure.metric.over for measure in self.pooled})

    @property
    def border(self) -> str:
        """The condition of a {score} that counts as returned, empty if each does."""
        return reaches(self.spec, str(self.spec.options["score_precision"]))

    @property
    def depth(self) -> str:
        """The condition that a ranked row is looked at, empty without a depth."""
        depth = self.spec.options["depth"]
        return "" if depth == "none" else f"rnk <= {depth}"

    @cached_property
    def pooled(self) -> list[Measure]:
        """The metrics that are numbers of all lists together."""
        return [measure for measure in self.spec.measures if measure.metric.pooled]

    @cached_property
    def quantiles(self) -> list[Measure]:
        """The metrics whose summary is a quantile of the values of queries."""
        return [measure for measure in self.spec.measures if measure.quantile is not None]

    @cached_property
    def counts_unlabelled(self) -> bool:
        """Whether queries without a label can be counted too."""
        return any("is_labelled" not in self._over(measure).only for measure in self.spec.measures)

    def _final(self, measure: Measure) -> MetricColumn:
        if arithmetic := measure.metric.arithmetic:
            values = [self._final(component).value for component in arithmetic.components]
            value, over = arithmetic.sql(values), self._over(measure)
            if any(self._over(part) != over for part in arithmetic.components):
                value = self._of_population(measure, value)
            return MetricColumn(measure, value)
        settings = self.spec.settings(measure)
        bound = settings.measure
        view = MetricContext(self.spec, bound, self._text)
        if bound.metric.pooled:
            added = f"case when {view.rows} > 0e0 then 1e0 end"
            return MetricColumn(measure, self._counted(bound, added))
        if not bound.metric.ratio:
            return MetricColumn(measure, self._guarded(bound, self._text(bound)))
        top, bottom = (bound.metric.sql(name, view) for name in ("numerator", "denominator"))
        value = self._guarded(bound, _ratio(top, bottom))
        if settings.weighs:
            rounded = self._rounded(bound, _ratio(top, bottom))
            top, bottom = f"{view.weight} * {rounded}", view.weight
        elif settings["average"] != "micro":
            return MetricColumn(measure, value)
        return MetricColumn(measure, value, self._counted(bound, top), bottom)

    def plain_value(self, measure: Measure) -> str:
        """A metric's value before any policy, from the sums of a list."""
        bound = self.spec.settings(measure).measure
        if not bound.metric.ratio:
            return self._text(bound)
        view = MetricContext(self.spec, bound, self._text)
        return _ratio(*(bound.metric.sql(name, view) for name in ("numerator", "denominator")))

    def _text(self, measure: Measure) -> str:
        """A metric's value before any policy, in `per_query`."""
        if measure.metric.over != "query":
            return self._summed(measure)
        view = MetricContext(self.spec, measure, self._text)
        return measure.metric.sql("value", view)

    def _guarded(self, measure: Measure, value: str) -> str:
        """The value, what stands for it where it is undefined, or NULL if left out."""
        metric = measure.metric
        value = self._rounded(measure, value)
        if metric.undefined == "no_relevant":
            value = self._filled("no_relevant", measure, value)
        elif metric.undefined == "zero" or _is_zero_by_file(metric):
            value = f"coalesce({value}, 0e0)"
        return self._counted(measure, value)

    def _counted(self, measure: Measure, value: str) -> str:
        """The value of a query that the mean runs over, NULL for another."""
        return self._of_population(measure, self._judged(measure, value))

    def _of_population(self, measure: Measure, value: str) -> str:
        """The value of a query that is one of those that the metric is about, else NULL."""
        if self._over(measure).part:
            value = self._filled("average_over", measure, value)
        where = {"is_labelled": "query_systems", "is_ranked": self.lists}
        only = self.population(measure)
        if self.spec.options["missing"] == "drop":
            only = [*dict.fromkeys([*only, "is_ranked"])]
        flags = [f"{where[flag]}.{flag} = 1" for flag in only]
        if not flags:
            return value
        line = f"case when {join_conditions(*flags)} then {value} end"
        if len(line) <= 72:
            return line
        inner = value.replace("\n", "\n    ")
        return f"case when {join_conditions(*flags)}\n    then {inner}\nend"

    def _judged(self, measure: Measure, value: str) -> str:
        """The value, where no item without a label forbids one."""
        text = OPTIONS["unjudged"].choice(self.spec.options["unjudged"]).sql
        names = ("num_judged", "num_ret") if text else ()
        counts = [graded_part(self.spec, measure, name) for name in names]
        sums = [self._summed(count) for count in counts if count]
        return text.format(judged=sums[0], returned=sums[1], value=value) if sums else value

    def _filled(self, option: str, measure: Measure, value: str) -> str:
        """A value as an option's choice has it, by what the choice looks at of the query."""
        choice = self.spec.settings(measure).choice(option)
        count = self._summed(part_named(measure, choice.part)) if choice.part else ""
        is_ranked = f"coalesce({self.lists}.is_ranked, 0)"
        return choice.sql.format(value=value, count=count, is_ranked=is_ranked)

    def _rounded(self, measure: Measure, value: str) -> str:
        """The value of a query as `rounding` has it, which multiplies it."""
        rounding = self.spec.settings(measure).choice("rounding")
        return value if rounding.name == "none" else rounding.sql.format(value=as_factor(value))

    def population(self, measure: Measure) -> list[str]:
        """The flags of the queries that a metric's mean runs over, where not all have them."""
        over = self._over(measure)
        return [flag for flag in over.only if flag != "is_labelled" or self.counts_unlabelled]

    def _over(self, measure: Measure) -> Choice:
        """Which queries a metric's mean runs over."""
        return self.spec.settings(measure).choice("average_over")

    def _summed(self, measure: Measure) -> str:
        """Have a sum computed, and say how `per_query` refers to it."""
        sums = self._sums_of(measure)
        sums.cutoffs.add(measure.k)
        if measure.column not in sums.columns:
            if measure.metric.every_item or self._gains_of_nothing(measure):
                self.every_item = measure
            rows = self.rows if measure.metric.over == "ranked" else sums.row_columns
            view = RowContext(self.spec, measure, partial(self._beside, sums), rows)
            text = folded(measure.metric.sql("value", view))
            sums.columns[measure.column] = Column(text, measure.column)
        reference = f"{sums.name}.{measure.column}"
        undefined = sums.name == "label_sums" or measure.metric.undefined == "skip"
        return reference if undefined else f"coalesce({reference}, 0e0)"

    def _gains_of_nothing(self, measure: Measure) -> bool:
        """Whether grade 0 has a gain."""
        gain = self.spec.settings(measure)["gain"] if "gain" in measure.metric.options else None
        return isinstance(gain, GainTable) and bool(gain.get(0))

    def _beside(self, sums: SumStage, part: Measure) -> str:
        """Another sum's column beside every row of this one."""
        self._summed(part)
        joined_sums = self._sums_of(part)
        reference = f"{joined_sums.name}.{part.column}"
        if sums is joined_sums:
            return f"max({reference})"
        sums.joined[joined_sums.name] = None
        return reference

    def _sums_of(self, measure: Measure) -> SumStage:
        """Where a metric is summed."""
        over = measure.metric.over
        if over == "pairs":
            return self._pairs(measure)
        if over in OF_GROUPS:
            return self._groups(measure)
        if over in OF_TWO_LISTS:
            return self._two_lists(measure)
        if not over.startswith("ideal"):
            return self._sums(over)
        gain = self.spec.settings(measure)["gain"]
        order, suffix = "grade", ""
        view = RowContext(self.spec, measure, self._text, RowColumns())
        if measure.metric.operand:
            order = f"case when {view.relevant} then {view.worth} else 0e0 end"
            suffix = f"_by_{measure.metric.operands[0].casefold()}{view.suffix}"
        elif isinstance(gain, GainTable):
            order = view.gain
            suffix = f"_by_gain_{word(gain)}"
        if over == "ideal_returned":
            self._sums("ideal", suffix, order)
        return self._sums(over, suffix, order)

    def _two_lists(self, measure: Measure) -> SumStage:
        """A list beside the baseline's, with its ties or by labels, or beside its ideal order."""
        over = measure.metric.over
        if over == TIED_AGREEMENT:
            self.rows.tied_rnk = True
            return self._sums(over, f"_{self.spec.settings(measure)['rbo_ties']}")
        view = MetricContext(self.spec, measure, self._text)
        sums = self._sums(over, view.suffix)
        sums.relevant = view.relevant
        return sums

    def _pairs(self, measure: Measure) -> SumStage:
        """The pairs of a relevant item and another, or of any two different grades."""
        if "rel" not in measure.metric.parameters:
            return self._sums("pairs", "_by_grade")
        view = MetricContext(self.spec, measure, self._text)
        sums = self._sums("pairs", view.suffix)
        sums.relevant = view.relevant
        return sums

    def _groups(self, measure: Measure) -> SumStage:
        """The labels with groups of a `rel`; their ideal order, which `alpha` decides too."""
        view = MetricContext(self.spec, measure, self._text)
        alpha = self.spec.settings(measure).parameter("alpha")
        default = measure.metric.parameters.get("alpha", alpha)
        is_ideal = measure.metric.over == IDEAL_GROUPS
        of_alpha = f"_alpha{word(alpha)}" if is_ideal and alpha != default else ""
        sums = self._sums(measure.metric.over, view.suffix + of_alpha)
        sums.relevant, sums.of_rel, sums.alpha = view.relevant, view.suffix, alpha
        return sums

    def _sums(self, over: str, suffix: str = "", order: str = "") -> SumStage:
        sums = self.sums.setdefault(SUMS[over] + suffix, SumStage(over, suffix, order))
        if order:
            sums.over, sums.order = over, order
        return sums


def _is_zero_by_file(metric: Metric) -> bool:
    """Whether a file says `never`, and its SQL may be NULL all the same; sums of rows are not."""
    return bool(metric.template) and metric.over == "query" and metric.undefined == "never"


def _ratio(top: str, bottom: str) -> str:
    """A quotient, undefined where the denominator is 0."""
    wrap = "\n    " if len(top + bottom) > 54 else " "
    return f"{as_factor(top)}{wrap}/ nullif({bottom}, 0e0)"
