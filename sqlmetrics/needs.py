"""What the metrics need: every part of every metric as one column of one per-query sum.

However many metrics and cutoffs use a part, it is computed once: `ndcg@10`, `dcg@10` and
`ndcg(average_over=hits)@10` share the column `retrieved.dcg_at_10`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlmetrics.catalog import Metric, catalog
from sqlmetrics.conventions import OPTIONS
from sqlmetrics.measure import Measure, word
from sqlmetrics.option import Table, put_together
from sqlmetrics.spec import Spec
from sqlmetrics.stage import Column
from sqlmetrics.template import case, double, number

SUMS = {
    "ranked": "retrieved",
    "labels": "wanted",
    "ideal": "wanted",
    "ideal_shown": "shown",
    "pairs": "paired",
}
LISTS = ("ranked", "ideal_shown", "pairs")
"""What has sums for each list; the others have them for each query's labels."""


@dataclass
class Sums:
    """The sums over one relation, one row a query: `retrieved` over `ranked`, and so on.

    Attributes:
        over: `ranked`, `labels`, `ideal`, `ideal_shown` or `pairs`.
        suffix: Tells apart the ideal orders of gain tables that order grades differently,
            and pairs by what they compare.
        order: What an ideal order is sorted by, empty where nothing is.
        relevant: Which item of a pair is to be the higher one; empty: that of the higher
            grade.
        columns: The sums, by name.
        joined: Other sums that the rows of this one must be joined with.
    """

    over: str
    suffix: str = ""
    order: str = ""
    relevant: str = ""
    columns: dict[str, Column] = field(default_factory=dict)
    joined: dict[str, None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The stage of the sums."""
        return SUMS[self.over] + self.suffix

    @property
    def rows(self) -> str:
        """The stage of the rows that are summed."""
        return self.over + self.suffix


@dataclass(frozen=True)
class Final:
    """A metric in `per_query`: its value and, for a micro mean, what it is a ratio of.

    A metric that has no value for a query has 1 there if the query adds rows to it.
    """

    measure: Measure
    value: str
    numerator: str = ""
    denominator: str = ""


@dataclass(frozen=True)
class View:
    """What a metric's template sees: its settings, columns and conditions as SQL."""

    k: int | None
    gain: str
    discount: str
    relevant: str
    hits_so_far: str
    parts: Mapping[str, str]

    def __getattr__(self, name: str) -> str:
        try:
            return self.__dict__["parts"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def hit(self) -> str:
        """The condition of a relevant row in the top k."""
        return _all(self._top, self.relevant)

    def in_top(self, value: str) -> str:
        """The value for rows in the top k, 0 for others."""
        return case(self._top, value) if self._top else value

    def in_hits(self, value: str, condition: str = "") -> str:
        """The value for relevant rows in the top k, 0 for others."""
        return case(_all(self._top, condition, self.relevant), value)

    def in_relevant(self, value: str) -> str:
        """The value for relevant rows, 0 for others."""
        return case(self.relevant, value)

    @property
    def _top(self) -> str:
        return f"rnk <= {self.k}" if self.k else ""


class Needs:
    """All that the metrics of a spec need.

    Attributes:
        finals: The metrics, in the spec's order.
        sums: The sums by name; `retrieved` and `wanted` are always there.
        reads_judged: Whether ranked rows must say if they have a label.
        reads_score: Whether they must have their score.
        reads_item: Whether they must have their item.
        running_hits: Running counts of hits that ranked rows must have, by name, with
            the condition of a hit.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.sums: dict[str, Sums] = {}
        self.reads_judged = False
        self.reads_score = False
        self.reads_item = False
        self.running_hits: dict[str, str] = {}
        self._sums("ranked")
        self._sums("labels")
        self.finals = tuple(self._final(measure) for measure in spec.measures)

    @property
    def lists(self) -> str:
        """The stage with one row a list: the sums, unless items are left out before them."""
        return "answered" if self.spec.options["unjudged"] == "condensed" else "retrieved"

    @property
    def depth(self) -> str:
        """The condition that a ranked row is looked at, empty without a depth."""
        depth = self.spec.options["depth"]
        return "" if depth == "none" else f"rnk <= {depth}"

    @property
    def pooled(self) -> list[Measure]:
        """The metrics that are numbers of all lists together."""
        return [measure for measure in self.spec.measures if measure.metric.pooled]

    @property
    def counts_unlabelled(self) -> bool:
        """Whether queries without a label can be counted too."""
        over = (self.spec.value(measure, "average_over") for measure in self.spec.measures)
        return "rankings" in over

    def _final(self, measure: Measure) -> Final:
        metric = measure.metric
        if metric.over != "query" and not metric.pooled:
            return Final(measure, self._guarded(measure, self._summed(measure)))
        parts = self._parts(measure)
        view = self._view(measure, measure.k, parts)
        if metric.pooled:
            self._note_rows(metric, view)
            return Final(
                measure, self._counted(measure, f"case when {parts['rows']} > 0e0 then 1e0 end")
            )
        if not metric.ratio:
            return Final(measure, self._guarded(measure, metric.sql("value", view)))
        top, bottom = metric.sql("numerator", view), metric.sql("denominator", view)
        value = self._guarded(measure, _ratio(top, bottom))
        if "weight" in parts:
            top, bottom = _ratio(f"{parts['weight']} * {top}", bottom), parts["weight"]
        elif self.spec.value(measure, "average") != "micro":
            return Final(measure, value)
        return Final(measure, value, self._counted(measure, top), bottom)

    def _guarded(self, measure: Measure, value: str) -> str:
        """The value, what stands for it where it is undefined, or NULL if left out."""
        metric = measure.metric
        if metric.undefined == "no_relevant":
            policy = OPTIONS["no_relevant"].choice(self.spec.value(measure, "no_relevant"))
            value = policy.sql.format(value=value)
        elif metric.undefined == "never" and (metric.ratio or metric.over in ("labels", "ideal")):
            value = f"coalesce({value}, 0e0)"
        return self._counted(measure, value)

    def _counted(self, measure: Measure, value: str) -> str:
        """The value of a query that the mean runs over, NULL for another."""
        over = OPTIONS["average_over"].choice(self.spec.value(measure, "average_over"))
        if over.sql:
            hits = self._summed(measure.part(catalog()["num_rel_ret"]))
            value = over.sql.format(hits=hits, value=value)
        where = {"is_labelled": "evaluated", "is_ranked": self.lists}
        only = self.population(measure)
        if self.spec.options["missing"] == "drop":
            only = [*dict.fromkeys([*only, "is_ranked"])]
        flags = [f"{where[flag]}.{flag} = 1" for flag in only]
        return f"case when {_all(*flags)} then {value} end" if flags else value

    def population(self, measure: Measure) -> list[str]:
        """The flags of the queries that a metric's mean runs over, where not all have them."""
        over = OPTIONS["average_over"].choice(self.spec.value(measure, "average_over"))
        return [flag for flag in over.only if flag != "is_labelled" or self.counts_unlabelled]

    def _parts(self, measure: Measure) -> dict[str, str]:
        """The metric's parts, with what its options add to them."""
        parts = {
            name: self._summed(measure.part(catalog()[part]))
            for name, part in measure.metric.parts.items()
        }
        return put_together(parts, self.spec.choices(measure))

    def _summed(self, measure: Measure) -> str:
        """Have a sum computed, and say how `per_query` refers to it."""
        sums, k = self._sums_of(measure)
        if measure.column not in sums.columns:
            parts = {
                name: self._row_part(sums, measure.part(catalog()[part]))
                for name, part in measure.metric.parts.items()
            }
            view = self._view(measure, k, parts)
            self._note_rows(measure.metric, view)
            sums.columns[measure.column] = Column(measure.metric.sql("value", view), measure.column)
        reference = f"{sums.name}.{measure.column}"
        undefined = sums.name == "wanted" or measure.metric.undefined == "skip"
        return reference if undefined else f"coalesce({reference}, 0e0)"

    def _row_part(self, sums: Sums, part: Measure) -> str:
        """Another sum's column beside every row of this one."""
        self._summed(part)
        other, _ = self._sums_of(part)
        sums.joined[other.name] = None
        return (
            f"max({other.name}.{part.column})" if sums is other else f"{other.name}.{part.column}"
        )

    def _sums_of(self, measure: Measure) -> tuple[Sums, int | None]:
        """Where a metric is summed, and the cutoff there."""
        if measure.metric.over == "pairs":
            return self._pairs(measure), measure.k
        if measure.metric.over != "ideal":
            return self._sums(measure.metric.over), measure.k
        choice = OPTIONS["ideal"].choice(self.spec.value(measure, "ideal"))
        gain = self.spec.value(measure, "gain")
        order, suffix = "grade", ""
        if isinstance(gain, Table):
            order = self._gain(measure, "")
            suffix = f"_by_gain_{word(gain)}"
        return self._sums(choice.over, suffix, order), measure.k if choice.cut else None

    def _pairs(self, measure: Measure) -> Sums:
        """The pairs of a relevant item and another, or of any two different grades."""
        if "rel" not in measure.metric.parameters:
            return self._sums("pairs", "_by_grade")
        relevant, suffix = self.relevant(measure)
        sums = self._sums("pairs", suffix)
        sums.relevant = relevant
        return sums

    def _sums(self, over: str, suffix: str = "", order: str = "") -> Sums:
        sums = self.sums.setdefault(SUMS[over] + suffix, Sums(over, suffix, order))
        if order:
            sums.over, sums.order = over, order
        return sums

    def _note_rows(self, metric: Metric, view: View) -> None:
        if "judged" in metric.rows:
            self.reads_judged = True
        if "score" in metric.rows:
            self.reads_score = True
        if "item_id" in metric.rows:
            self.reads_item = True
        if "hits_so_far" in metric.rows:
            self.running_hits[view.hits_so_far] = view.relevant

    def _view(self, measure: Measure, k: int | None, parts: Mapping[str, str]) -> View:
        relevant, suffix = self.relevant(measure)
        discount = OPTIONS["discount"].choice(self.spec.value(measure, "discount"))
        return View(
            k=k,
            gain=self._gain(measure, relevant),
            discount=discount.sql.format(rank="rnk"),
            relevant=relevant,
            hits_so_far=f"hits_so_far{suffix}",
            parts=parts,
        )

    def relevant(self, measure: Measure) -> tuple[str, str]:
        """The condition of a relevant item, and what it adds to names."""
        rel = self.spec.parameter(measure, "rel")
        return f"grade >= {number(rel)}", "" if rel == 1 else f"_rel{word(rel)}"

    def _gain(self, measure: Measure, relevant: str) -> str:
        gain = self.spec.value(measure, "gain")
        if isinstance(gain, Table):
            pairs = [f"when {number(grade)} then {double(gain[grade])}" for grade in gain]
            return f"case grade {' '.join(pairs)} else 0e0 end"
        return OPTIONS["gain"].choice(gain).sql.format(grade="grade", relevant=relevant)


def _ratio(top: str, bottom: str) -> str:
    wrap = "\n    " if len(top + bottom) > 60 else " "
    return f"{top}{wrap}/ nullif({bottom}, 0e0)"


def _all(*conditions: str) -> str:
    return " and ".join(filter(None, conditions))
