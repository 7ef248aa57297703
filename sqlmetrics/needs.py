"""What the metrics need: every part of every metric as one column of one per-query sum.

However many metrics and cutoffs use a part, it is computed once: `ndcg@10`, `dcg@10` and
`ndcg(average_over=hits)@10` share the column `retrieved.dcg_at_10`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from sqlmetrics.conventions import OPTIONS
from sqlmetrics.measure import Measure, word
from sqlmetrics.option import Table
from sqlmetrics.rows import Rows
from sqlmetrics.spec import Spec
from sqlmetrics.stage import Column
from sqlmetrics.view import RowView, View, both, part_named

SUMS = {
    "ranked": "retrieved",
    "labels": "wanted",
    "ideal": "wanted",
    "ideal_shown": "shown",
    "ideal_returned": "as_returned",
}


@dataclass
class Sums:
    """The sums over one relation, one row a query: `retrieved` over `ranked`, and so on.

    Attributes:
        over: `ranked`, `labels`, `ideal`, `ideal_shown` or `ideal_returned`.
        suffix: Tells apart the ideal orders of gain tables that order grades differently.
        order: What an ideal order is sorted by, empty where nothing is.
        columns: The sums, by name.
        joined: Other sums that the rows of this one must be joined with.
    """

    over: str
    suffix: str = ""
    order: str = ""
    columns: dict[str, Column] = field(default_factory=dict)
    joined: dict[str, None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The stage of the sums."""
        return SUMS[self.over] + self.suffix

    @property
    def rows(self) -> str:
        """The stage of the rows that are summed, where it is an ideal order."""
        return self.over.removesuffix("_returned") + self.suffix

    @property
    def a_list(self) -> bool:
        """Whether there is one row a list, not one a query."""
        return self.over not in ("labels", "ideal")


@dataclass(frozen=True)
class Final:
    """A metric in `per_query`: its value and, for a micro mean, what it is a ratio of."""

    measure: Measure
    value: str
    numerator: str = ""
    denominator: str = ""


class Needs:
    """All that the metrics of a spec need.

    Attributes:
        finals: The metrics, in the spec's order.
        sums: The sums by name; `retrieved` and `wanted` are always there.
        rows: What ranked rows must tell.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.sums: dict[str, Sums] = {}
        self.rows = Rows()
        self._sums("ranked")
        self._sums("labels")
        self.finals = tuple(self._final(measure) for measure in spec.measures)

    @property
    def lists(self) -> str:
        """The stage with one row a list: the sums, unless items are left out before them."""
        return "answered" if self.spec.options["unjudged"] == "condensed" else "retrieved"

    @property
    def counts_unlabelled(self) -> bool:
        """Whether queries without a label can be counted too."""
        over = (self.spec.value(measure, "average_over") for measure in self.spec.measures)
        return "rankings" in over

    def _final(self, measure: Measure) -> Final:
        bound = self.spec.bound(measure)
        if not bound.metric.ratio:
            return Final(measure, self._guarded(bound, self._text(bound)))
        view = View(self.spec, bound, self._text)
        top, bottom = (bound.metric.sql(name, view) for name in ("numerator", "denominator"))
        value = self._guarded(bound, _ratio(top, bottom))
        micro = self.spec.value(bound, "average") == "micro"
        return Final(measure, value, top, bottom) if micro else Final(measure, value)

    def _text(self, measure: Measure) -> str:
        """A metric's value before any policy, in `per_query`."""
        if measure.metric.over != "query":
            return self._summed(measure)
        view = View(self.spec, measure, self._text)
        return measure.metric.sql("value", view)

    def _guarded(self, measure: Measure, value: str) -> str:
        """The value, what stands for it where it is undefined, or NULL if left out."""
        metric = measure.metric
        value = self._chosen("rounding", measure).format(value=value)
        if metric.undefined == "no_relevant":
            value = self._chosen("no_relevant", measure).format(value=value)
        elif metric.undefined == "zero":
            value = f"coalesce({value}, 0e0)"
        over = OPTIONS["average_over"].choice(self.spec.value(measure, "average_over"))
        if over.part:
            count = self._summed(part_named(measure, over.part))
            value = over.sql.format(count=count, value=value)
        where = {"is_labelled": "evaluated", "is_ranked": self.lists}
        only = self.population(measure)
        if self.spec.options["missing"] == "drop":
            only = [*dict.fromkeys([*only, "is_ranked"])]
        flags = [f"{where[flag]}.{flag} = 1" for flag in only]
        return f"case when {both(*flags)} then {value} end" if flags else value

    def _chosen(self, option: str, measure: Measure) -> str:
        """The text of an option's choice for a metric."""
        return OPTIONS[option].choice(self.spec.value(measure, option)).sql

    def population(self, measure: Measure) -> list[str]:
        """The flags of the queries that a metric's mean runs over, where not all have them."""
        over = OPTIONS["average_over"].choice(self.spec.value(measure, "average_over"))
        return [flag for flag in over.only if flag != "is_labelled" or self.counts_unlabelled]

    def _summed(self, measure: Measure) -> str:
        """Have a sum computed, and say how `per_query` refers to it."""
        sums = self._sums_of(measure)
        if measure.column not in sums.columns:
            rows = self.rows if measure.metric.over == "ranked" else Rows()
            view = RowView(self.spec, measure, partial(self._beside, sums), rows)
            sums.columns[measure.column] = Column(measure.metric.sql("value", view), measure.column)
        reference = f"{sums.name}.{measure.column}"
        undefined = sums.name == "wanted" or measure.metric.undefined == "skip"
        return reference if undefined else f"coalesce({reference}, 0e0)"

    def _beside(self, sums: Sums, part: Measure) -> str:
        """Another sum's column beside every row of this one."""
        self._summed(part)
        other = self._sums_of(part)
        reference = f"{other.name}.{part.column}"
        if sums is other:
            return f"max({reference})"
        sums.joined[other.name] = None
        return reference

    def _sums_of(self, measure: Measure) -> Sums:
        """Where a metric is summed."""
        over = measure.metric.over
        if not over.startswith("ideal"):
            return self._sums(over)
        gain = self.spec.value(measure, "gain")
        order, suffix = "grade", ""
        if isinstance(gain, Table):
            order = RowView(self.spec, measure, self._text, Rows()).gain
            suffix = f"_by_gain_{word(gain)}"
        if over == "ideal_returned":
            self._sums("ideal", suffix, order)
        return self._sums(over, suffix, order)

    def _sums(self, over: str, suffix: str = "", order: str = "") -> Sums:
        sums = self.sums.setdefault(SUMS[over] + suffix, Sums(over, suffix, order))
        if order:
            sums.over, sums.order = over, order
        return sums


def _ratio(top: str, bottom: str) -> str:
    """A quotient, undefined where the denominator is 0."""
    wrap = "\n    " if len(top + bottom) > 60 else " "
    return f"{top}{wrap}/ nullif({bottom}, 0e0)"
