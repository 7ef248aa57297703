"""The usual mistakes of hand-written SQL: one row each, with how it is computed and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure, Setting
from sqlmetrics.catalog.metric import catalog
from sqlmetrics.engines.database import Database
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.tables import Tables
from sqlmetrics.proof.reconcile.worlds import DEFAULTS, WORST_FIRST
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, Window, equal, print_template, with_stages
from sqlmetrics.sql.template import case, conditions, double

LOG2 = "ln(2e0) / ln({rank} + 1e0)"
CAPS = (2, 3, 4, 5)
"""Where ideal lists and grades are capped: tables of constants in queries are that short."""


@dataclass(frozen=True)
class Dcg:
    """How a query writes the sums of NDCG, where no option does.

    Attributes:
        discount: What a rank is worth in both lists, as SQL over {rank}.
        grade: What the grade is, in both lists, as SQL over {grade}.
        ideal_gain: The gain of the ideal list, empty for that of the list itself.
        deepest: How many ranks the ideal list has at most, None for all to the cutoff.
        of_hits: Whether the ideal list is made of the relevant items of the top k.
        ideal_discount: What a rank is worth in the ideal list, empty for the same.
        rank: What is taken for the rank in the list, as a column of `list_ranks`.
        of_top: Whether the ideal list is the top k itself, best first.
    """

    discount: str = LOG2
    grade: str = "{grade}"
    ideal_gain: str = ""
    deepest: int | None = None
    of_hits: bool = False
    ideal_discount: str = ""
    rank: str = "rnk"
    of_top: bool = False


@dataclass(frozen=True)
class Mistake:
    """One mistake: options, an order, a way to write DCG, a value, or what is made of means.

    Attributes:
        name: A short name.
        sentence: What the query does.
        advice: What to do instead.
        metrics: The metrics in which it is made, empty for all.
        options: The options that do the same on purpose.
        dcg: How it writes DCG, where no option does it.
        order: In which order it reads lists, where no option does it.
        sql: A value of a query, over the columns of `per_query`, those of `list_facts` and
            `label_counts`, and the cutoff {k}.
        of_means: What the means of its parts become: their `harmonic` mean, or the `reciprocal`
            of one.
        of_values: What the values of queries become instead of their mean: `median`, `sum`, or
            `complement`, 1 - the mean.
        factor: How many times too large it makes the number.
    """

    name: str
    sentence: str
    advice: str
    metrics: tuple[str, ...] = ()
    options: Mapping[str, Setting] = field(default_factory=dict)
    dcg: Dcg | None = None
    order: str = ""
    sql: str = ""
    of_means: str = ""
    of_values: str = ""
    factor: float = 1.0

    @property
    def has_options(self) -> bool:
        """Whether options, or an order, do the same."""
        is_computed = self.dcg or self.sql or self.of_means or self.of_values
        return not is_computed and self.factor == 1.0

    def is_of(self, measure: Measure) -> bool:
        """Whether the mistake can be made in a metric, at its cutoff."""
        if self.metrics and measure.metric.name not in self.metrics:
            return False
        deepest = self.dcg.deepest if self.dcg else None
        return deepest is None or measure.k is None or deepest < measure.k


_IDEAL = "build the ideal list from all labels, best first, cut at k"
_START = "start from the labelled queries, left join the rankings, and count a missing query as 0"
_RATIO, _DCG = ("ndcg",), ("ndcg", "dcg")

AVERAGED = Mistake(
    "averaged_averages",
    "averaged averages: the mean of the means per {}, not the mean over queries",
    "store sums and counts, and divide at the end",
)

REPEATED = Mistake(
    "repeats_counted",
    "repeated items are counted, as after a join that multiplies rows",
    "keep one row per query and item before the join",
    options={"duplicate_rankings": "count"},
)

MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "missing_dropped",
        "an inner join drops labelled queries without a ranking",
        _START,
        options={"missing": "drop"},
    ),
    Mistake(
        "hitless_dropped",
        "queries without a hit are dropped (an inner join, or a mean over hits)",
        _START,
        options={"average_over": "hits"},
    ),
    Mistake(
        "ideal_of_shown",
        "the ideal list is made of the shown items",
        _IDEAL,
        _RATIO,
        {"ideal": "shown_at_k"},
    ),
    Mistake(
        "ideal_of_hits",
        "the ideal list is made of the hits",
        _IDEAL,
        _RATIO,
        {"gain": "binary", "ideal": "hits", "average_over": "hits"},
    ),
    Mistake(
        "ranked_after_join",
        "ranks are counted after the join, so items without a label lose their rank",
        "rank first, then join the labels",
        options={"unjudged": "condensed"},
    ),
    Mistake(
        "log2_of_rank",
        "the discount is log2(rank), patched so that ranks 1 and 2 weigh the same",
        "divide by log2(rank + 1)",
        _DCG,
        {"discount": "log2_max2"},
    ),
    Mistake(
        "divided_by_returned",
        "precision divides by the returned items, even if they are fewer than k",
        "divide by k",
        ("precision",),
        {"precision_denominator": "returned"},
    ),
    Mistake(
        "recall_of_shown",
        "recall divides by the relevant items of the list, not of the labels",
        "count the relevant labels",
        ("recall",),
        {"recall_denominator": "shown"},
    ),
    Mistake(
        "ap_over_hits",
        "average precision divides by the hits, not by the relevant labels",
        "count the relevant labels",
        ("ap",),
        {"ap_denominator": "hits"},
    ),
    Mistake(
        "ideal_as_long_as_the_list",
        "the ideal list is as short as the list",
        _IDEAL,
        _RATIO,
        {"ideal": "returned"},
    ),
    Mistake(
        "ideal_of_k",
        "the ideal list has k relevant items, even if fewer are known",
        _IDEAL,
        _RATIO,
        {"gain": "binary", "ideal": "all_k"},
    ),
    Mistake(
        "rank_from_0",
        "ranks from 1 are discounted by log2(rank + 2), the formula for ranks from 0",
        "divide by log2(rank + 1); log2(rank + 2) is for ranks from 0",
        _DCG,
        dcg=Dcg("ln(2e0) / ln({rank} + 2e0)"),
    ),
    Mistake(
        "first_rank_lost",
        "log2(rank) is 0 at rank 1, so the first item is lost",
        "divide by log2(rank + 1)",
        _DCG,
        dcg=Dcg("case when {rank} > 1 then ln(2e0) / ln({rank}) end"),
    ),
    Mistake(
        "worst_first",
        "the lists are read from the end: lowest score first",
        "order by score desc, or by asc for ranks and distances",
        order=WORST_FIRST,
    ),
    Mistake(
        "rank_from_0_in_dcg",
        "DCG alone is discounted by log2(rank + 2), the formula for ranks from 0",
        "divide by log2(rank + 1) in both sums",
        _RATIO,
        dcg=Dcg("ln(2e0) / ln({rank} + 2e0)", ideal_discount=LOG2),
    ),
    Mistake(
        "shared_ranks",
        "rank() gives equal scores the same rank, so more than k items are in the top k",
        "number the rows: row_number() over (... order by score desc, item_id)",
        _DCG,
        dcg=Dcg(rank="tied_rnk"),
    ),
    Mistake(
        "dense_ranks",
        "dense_rank() counts scores, not items",
        "number the rows: row_number() over (... order by score desc, item_id)",
        _DCG,
        dcg=Dcg(rank="dense_rnk"),
    ),
    Mistake(
        "ideal_of_top",
        "the ideal list is the shown top k, sorted by grade",
        _IDEAL,
        _RATIO,
        dcg=Dcg(of_top=True),
    ),
    Mistake(
        "grade_0_in_recall",
        "recall divides by all labels, including those that are not relevant",
        "count the relevant labels",
        ("recall",),
        sql="{num_rel_ret} / n_labels",
    ),
    Mistake(
        "rank_below_k",
        "the top k is written rank < k, so its last item is lost",
        "write rank <= k",
        ("precision",),
        sql="{num_rel_ret} / {k}",
    ),
    Mistake(
        "rank_from_0_in_mrr",
        "the reciprocal rank is 1 / (rank + 1), the formula for ranks from 0",
        "divide 1 by the rank; 1 / (rank + 1) is for ranks from 0",
        ("mrr",),
        sql="{mrr} / (1e0 + {mrr})",
    ),
    Mistake(
        "f1_of_means",
        "F1 is computed from mean precision and mean recall",
        "compute F1 of each query, then the mean",
        ("f1",),
        of_means="harmonic",
    ),
    Mistake(
        "median_of_queries",
        "this is the median of {} over queries, not the mean",
        "take the mean: avg(), with 0 for a query without a hit",
        of_values="median",
    ),
    Mistake(
        "sum_of_queries",
        "this is the sum of {} over queries, not the mean",
        "divide by the number of labelled queries",
        of_values="sum",
    ),
    Mistake(
        "one_minus_it",
        "this is 1 - the mean of {}, as a loss",
        "subtract it from 1",
        of_values="complement",
    ),
    Mistake(
        "sqrt_of_rank",
        "the discount is the square root of the rank",
        "divide by log2(rank + 1)",
        _DCG,
        dcg=Dcg("1e0 / sqrt({rank})"),
    ),
    Mistake(
        "one_more_than_log2",
        "the discount is 1 + log2(rank)",
        "divide by log2(rank + 1)",
        _DCG,
        dcg=Dcg("1e0 / (1e0 + ln({rank}) / ln(2e0))"),
    ),
    Mistake(
        "last_hit",
        "the reciprocal rank is of the last relevant item, not of the first",
        "divide 1 by the smallest rank",
        ("mrr",),
        sql="case when {mrr} > 0e0 then 1e0 / last_hit else {mrr} end",
    ),
    Mistake(
        "mean_hit",
        "this is 1 / the mean rank of a query's relevant items",
        "divide 1 by the smallest rank",
        ("mrr",),
        sql="case when {mrr} > 0e0 then 1e0 / mean_hit else {mrr} end",
    ),
    Mistake(
        "mrr_of_mean_rank",
        "this is 1 / the mean rank of the first relevant items, not the mean of 1 / rank",
        "divide 1 by the rank of each query, then take the mean",
        ("mrr",),
        of_means="reciprocal",
    ),
    Mistake(
        "precision_at_every_rank",
        "average precision adds the precision at every rank, and divides by k",
        "add the precision at the ranks of relevant items, and divide by the relevant labels",
        ("ap",),
        sql="case when {ap} >= 0e0 then coalesce(precisions / {k}, 0e0) end",
    ),
    Mistake(
        "doubled",
        "a join doubles each hit, so the number is twice as large",
        "keep one row per query and item before the join",
        ("recall", "precision", "ndcg", "dcg", "ap"),
        factor=2.0,
    ),
    Mistake(
        "linear_over_exp",
        "the gain is the grade in DCG, but 2^grade - 1 in IDCG",
        "use the same gain in both sums",
        _RATIO,
        {"gain": "linear"},
        dcg=Dcg(ideal_gain="exp"),
    ),
    Mistake(
        "exp_over_linear",
        "the gain is 2^grade - 1 in DCG, but the grade in IDCG",
        "use the same gain in both sums",
        _RATIO,
        {"gain": "exp"},
        dcg=Dcg(ideal_gain="linear"),
    ),
    Mistake(
        "log10",
        "the discount uses log(), base 10 in DuckDB and PostgreSQL, instead of log2()",
        "divide by log2(rank + 1)",
        ("dcg",),
        dcg=Dcg("ln(10e0) / ln({rank} + 1e0)"),
    ),
    *(
        Mistake(
            f"ideal_capped_at_{n}",
            f"the ideal list is capped at {n}",
            _IDEAL,
            _RATIO,
            dcg=Dcg(deepest=n),
        )
        for n in CAPS
    ),
    *(
        Mistake(
            f"ideal_of_hits_capped_at_{n}",
            f"the ideal list is made of the hits and capped at {n}",
            _IDEAL,
            _RATIO,
            {"gain": "binary"},
            dcg=Dcg(deepest=n, of_hits=True),
        )
        for n in CAPS
    ),
    *(
        Mistake(
            f"grades_capped_at_{n}",
            f"grades are capped at {n}",
            "use the same, uncapped grades in both sums",
            _DCG,
            dcg=Dcg(grade=f"least({{grade}}, {n}e0)"),
        )
        for n in CAPS
    ),
)
"""All of them, the commonest first: of several with one value the first is told.

`averaged_averages` is made in every metric of data with days or segments, `repeats_counted` where
lists hold items twice."""


@dataclass(frozen=True)
class MistakenValue:
    """What a mistake gives on the data.

    Attributes:
        mistake: Its row.
        value: The number.
        metric: The metric with the gain of the query, as `evaluate` takes it.
        group: What the means are of that are averaged, or the metric that is no mean.
        beside: What else the query does, empty for nothing.
    """

    mistake: Mistake
    value: float
    metric: str
    group: str = ""
    beside: str = ""

    @property
    def words(self) -> str:
        """All of it as a sentence."""
        sentence = self.mistake.sentence.format(self.group)
        return f"{sentence}; {self.beside}" if self.beside else sentence


# The numbers that hand-written SQL's mistakes give, where no option does the same on purpose.
#
# ranked ─> list_dcg ───┐
# ideal ──> label_dcg ──┴> handwritten ─> one row per day, segment and kind of query
#
# One statement beside the first, with the stages of an evaluation up to `per_query`.

GAINS = ("exp", "linear", "binary")
ORDERS = ("id_asc", "id_desc", "input_order")

_ALL, _RANKED, _ZERO = "all", "ranked", "zero"
_OVER: Mapping[str, str] = {
    _ALL: "",
    _RANKED: "labelled queries without a ranking are left out",
    _ZERO: "a query without a value counts 0",
}
"""The queries that a mean runs over, in words: of the labelled ones."""


@dataclass(frozen=True)
class _Value:
    """A value of queries: its column, and what it is."""

    column: str
    sql: str
    metric: Measure
    mistake: Mistake | None


@dataclass(frozen=True)
class Handwritten:
    """What a query with a mistake would give.

    Attributes:
        spec: What is given, with the segments.
        tables: Where they are.
        gains: The gains that are tried, empty for a metric without.
    """

    spec: Spec
    tables: Tables
    gains: tuple[str, ...]

    def values(self, engine: Database) -> tuple[list[MistakenValue], list[float]]:
        """The mistakes with their values, and the right values."""
        rows = engine.table(self.text).to_pylist()
        right = [
            self._mean(rows, value_column, over)
            for value_column in self._right
            for over in (_ALL, _ZERO)
        ]
        mistaken = [
            MistakenValue(value_column.mistake, mean, str(value_column.metric), beside=words)
            for value_column in self._wrong
            for over, words in _OVER.items()
            if value_column.mistake and (mean := self._mean(rows, value_column, over)) is not None
        ]
        mistaken += [*self._averages(rows), *self._multiples(rows), *self._of_means(rows)]
        mistaken += self._of_values(rows)
        return mistaken, [value for value in right if value is not None]

    @cached_property
    def text(self) -> str:
        """The statement."""
        stages = [*self._plan.inputs, *self._plan.per_query]
        if self._wrong:
            stages += self._wrong_stages()
        keys = [*self._groups.values(), "is_ranked"]
        counted = [
            column
            for value_column in self._columns
            for column in (
                Column(f"sum({value_column.sql})", f"{value_column.column}_total"),
                Column(f"count({value_column.sql})", f"{value_column.column}_queries"),
            )
        ]
        source = "handwritten" if self._wrong else "per_query"
        view = {
            "about": "sums over the queries, correct and with each mistake",
            "keys": keys,
            "columns": [*counted, Column("count(*)", "queries"), *self._medians(source)],
            "from": source,
        }
        return with_stages(stages, print_template("proof/dcg_sums", view))

    def _medians(self, source: str) -> Iterator[Column]:
        """The medians of the right values over all queries, beside every row."""
        for value_column in self._right:
            name = value_column.column
            for over, (value, where) in {
                _ALL: (name, ""),
                _RANKED: (name, " where is_ranked = 1"),
                _ZERO: (f"coalesce({name}, 0e0)", ""),
            }.items():
                text = f"(select median({value}) from {source}{where})"
                yield Column(text, f"{name}_median_{over}")

    @cached_property
    def _plan(self) -> Plan:
        ties = self.spec.options["ties"]
        given_conventions = {
            n: v for n, v in self.spec.conventions.items() if n not in ("missing", "average")
        }
        conventions = {**given_conventions, "ties": ties if ties in ORDERS else "id_asc"}
        metrics = [str(measure) for measure in self._bases]
        metrics += map(str, self._parts.values())
        if self.spec.measures[0].metric.name in ("ndcg", "dcg"):
            metrics += ["hit(ties=include)@1"]  # its rows have the ranks that equal scores share
        return make_plan(self.spec.having(metrics=metrics, conventions=conventions), self.tables)

    @cached_property
    def _parts(self) -> dict[str, Measure]:
        """What mistakes are made of beside the metric, at its cutoff or at the rank above."""
        names = {
            "recall": ("num_rel_ret",),
            "f1": ("precision", "recall"),
            "mrr": ("mrr", "first_rank"),
            "ap": ("ap",),
            "precision": ("num_rel_ret",),
        }
        measure = self.spec.measures[0]
        parts = {name: measure.part(catalog()[name]) for name in names.get(measure.metric.name, ())}
        if measure.metric.name == "precision":
            last = max(1, (measure.k or 1) - 1)
            return {name: replace(part, k=last) for name, part in parts.items()}
        return parts

    def _column(self, part: str) -> str:
        return self._plan.spec.measure(str(self._parts[part])).column

    @cached_property
    def _bases(self) -> list[Measure]:
        """The metric itself, with each gain."""
        measure = self.spec.measures[0]
        measures = (measure.having("gain", gain) for gain in self.gains)
        return [base.without(DEFAULTS) for base in measures] or [measure]

    @cached_property
    def _groups(self) -> dict[str, str]:
        """What means may be averaged over: in words -> the column."""
        days = {"day": "metric_date"} if "metric_date" in self._plan.shape.keys else {}
        return days | {name: segment(name) for name in self.spec.by}

    # -- values of queries --------------------------------------------------------------

    @property
    def _columns(self) -> list[_Value]:
        return [*self._right, *self._wrong, *map(self._part_value, self._parts)]

    def _part_value(self, part: str) -> _Value:
        return _Value(self._column(part), self._column(part), self._parts[part], None)

    @cached_property
    def _right(self) -> list[_Value]:
        spec = self._plan.spec
        columns = [spec.measure(str(measure)).column for measure in self._bases]
        return [
            _Value(column, column, measure, None)
            for column, measure in zip(columns, self._bases, strict=True)
        ]

    @cached_property
    def _wrong(self) -> list[_Value]:
        """The ways to write DCG that no option has, and what else is wrong in a query."""
        value_columns = []
        for mistake in MISTAKES:
            if not mistake.is_of(self.spec.measures[0]):
                continue
            if mistake.sql:
                columns = {part: self._column(part) for part in self._parts}
                k = self.spec.measures[0].k
                sql = mistake.sql.format(**columns, k=double(k) if k else "n_ranked")
                value_columns.append(_Value(mistake.name, sql, self._bases[0], mistake))
            if mistake.dcg is None:
                continue
            if mistake.dcg.rank != "rnk" and not self._has_scores:
                continue
            for gain in self.gains:
                if gain == mistake.options.get("gain", gain):
                    name = f"{mistake.name}_{gain}"
                    base = self._bases[self.gains.index(gain)]
                    value_columns.append(_Value(name, self._ratio(name), base, mistake))
        return value_columns

    @property
    def _has_scores(self) -> bool:
        return "score" in self._plan.shape.columns["rankings"]

    def _ratio(self, name: str) -> str:
        top = f"coalesce({name}_dcg, 0e0)"
        return f"{top} / nullif({name}_idcg, 0e0)" if self._divides else top

    @property
    def _divides(self) -> bool:
        return self.spec.measures[0].metric.name == "ndcg"

    def _wrong_stages(self) -> Iterator[Stage]:
        """One row per query with what each mistake needs."""
        names, joins = [], []
        shape = self._plan.shape
        if any(value_column.mistake and value_column.mistake.dcg for value_column in self._wrong):
            tops, bottoms = list(self._sums("dcg")), list(self._sums("idcg"))
            yield self._ranks_stage()
            yield self._sums_stage("list_dcg", "list_ranks", shape.keys, tops)
            joins.append(("list_dcg", shape.keys))
            if bottoms:
                yield self._sums_stage("label_dcg", "ideal", shape.label_keys, bottoms)
                joins.append(("label_dcg", shape.label_keys))
            names += [column.name for column in (*tops, *bottoms)]
        else:
            labels = shape.names["labels"]
            counts = [Column("count(*)", "n_labels")]
            yield self._sums_stage("label_counts", labels, shape.label_keys, counts)
            joins.append(("label_counts", shape.label_keys))
            names.append("n_labels")
            if self.spec.measures[0].metric.name in ("mrr", "ap"):
                yield self._facts_stage()
                joins.append(("list_facts", shape.keys))
                names += ["last_hit", "mean_hit", "precisions", "n_ranked"]
        text = "-- one row per query: its sums with each mistake\nselect\n    per_query.*,\n    "
        text += ",\n    ".join(names) + "\nfrom per_query"
        for stage, keys in joins:
            text += f"\nleft join {stage}\n    on {conditions(equal(stage, 'per_query', keys))}"
        yield Stage("handwritten", "text", {"text": text})

    def _facts_stage(self) -> Stage:
        """What else people make of the ranks of hits: the last, the mean, and all precisions."""
        keys, k = self._plan.shape.keys, self.spec.measures[0].k
        hit_rank = case(f"{self._relevant} and rnk <= {k}" if k else self._relevant, "rnk", "")
        precision = case(f"rnk <= {k}", "n_hits / rnk", "") if k else "n_hits / rnk"
        down = Window(keys, ["rnk asc"], "unbounded preceding")
        view = {
            "about": "the ranks of hits, and the precisions at all ranks",
            "keys": keys,
            "columns": [
                Column(f"max({hit_rank})", "last_hit"),
                Column(f"avg({hit_rank})", "mean_hit"),
                Column(f"sum({precision})", "precisions"),
                Column("count(*)", "n_ranked"),
            ],
            "from": f"(\n    select *, sum({case(self._relevant, '1e0')}) over {down} as n_hits\n"
            "    from ranked\n) as hits",
        }
        return Stage("list_facts", "proof/dcg_sums", view)

    def _ranks_stage(self) -> Stage:
        """What else is taken for a rank: by `dense_rank()`, and by the grades of the top k."""
        keys = self._plan.shape.keys
        columns = [Column("*", "*")]
        if self._has_scores:
            window = Window(keys, ["tied_rnk asc"])
            columns.append(Column(f"dense_rank() over {window}", "dense_rnk"))
        is_top = case(f"rnk <= {self.spec.measures[0].k}", "1") if self.spec.measures[0].k else "1"
        columns.append(
            Column(f"row_number() over {Window([*keys, is_top], ['grade desc'])}", "best_rnk")
        )
        lines = ",\n    ".join("*" if column.name == "*" else str(column) for column in columns)
        about = "-- other ranks that hand-written SQL uses"
        return Stage("list_ranks", "text", {"text": f"{about}\nselect\n    {lines}\nfrom ranked"})

    def _sums_stage(
        self, name: str, source: str, keys: Sequence[str], columns: list[Column]
    ) -> Stage:
        view = {"about": "sums with each mistake", "keys": keys, "columns": columns, "from": source}
        return Stage(name, "proof/dcg_sums", view)

    def _sums(self, part: str) -> Iterator[Column]:
        """DCG over the list, or IDCG over `ideal`; that of the list itself is beside its DCG."""
        for value_column in self._wrong:
            dcg = value_column.mistake.dcg if value_column.mistake else None
            if dcg is None:
                continue
            gain = str(value_column.metric.setting("gain") or DEFAULTS["gain"])
            if part == "dcg":
                yield Column(self._sum(dcg, gain), f"{value_column.column}_dcg")
            if self._divides and (part == "dcg") == (dcg.of_hits or dcg.of_top):
                yield Column(self._ideal(dcg, gain), f"{value_column.column}_idcg")

    def _ideal(self, dcg: Dcg, gain: str) -> str:
        """The sum of the list that is taken for the ideal one."""
        if dcg.of_hits:
            return self._of_hits(dcg.deepest or 0)
        ideal_dcg = replace(dcg, discount=dcg.ideal_discount or dcg.discount, rank="rnk")
        if dcg.of_top:
            return self._sum(
                replace(ideal_dcg, discount=dcg.discount.format(rank="best_rnk")), gain
            )
        return self._sum(ideal_dcg, dcg.ideal_gain or gain, deepest=dcg.deepest)

    def _sum(self, dcg: Dcg, gain: str, *, deepest: int | None = None) -> str:
        grade = dcg.grade.format(grade="grade")
        gain_sql = OPTIONS["gain"].choice(gain).sql.format(grade=grade, relevant=self._relevant)
        term = f"{gain_sql} * {dcg.discount.format(rank=dcg.rank)}"
        k = min(filter(None, (deepest, self.spec.measures[0].k)), default=None)
        return f"sum({case(f'{dcg.rank} <= {k}', term) if k else term})"

    def _of_hits(self, most: int) -> str:
        """The sum of the discounts of as many ranks as there are hits, from a table of a few."""
        cutoff = f" and rnk <= {k}" if (k := self.spec.measures[0].k) else ""
        hits = f"sum(case when {self._relevant}{cutoff} then 1 else 0 end)"
        terms = (case(f"{hits} >= {n}", double(1 / math.log2(n + 1))) for n in range(1, most + 1))
        return "\n    + ".join(term.strip() for term in terms)

    @property
    def _relevant(self) -> str:
        return f"grade >= {double(float(self.spec.measures[0].setting('rel') or 1))}"  # type: ignore[arg-type]

    # -- means ----------------------------------------------------------------------------

    def _averages(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[MistakenValue]:
        """The means of the means of days or segments."""
        for grouping, column in self._groups.items():
            groups: dict[Any, list[Mapping[str, Any]]] = {}
            for row in rows:
                groups.setdefault(row[column], []).append(row)
            for value_column in self._right:
                for over, words in _OVER.items():
                    means = [self._mean(group, value_column, over) for group in groups.values()]
                    defined_means = [mean for mean in means if mean is not None]
                    if defined_means:
                        mean = sum(defined_means) / len(defined_means)
                        yield MistakenValue(
                            AVERAGED, mean, str(value_column.metric), grouping, words
                        )

    def _of_means(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[MistakenValue]:
        """The harmonic mean of means, or 1 / a mean."""
        for mistake in MISTAKES:
            if not mistake.of_means or not mistake.is_of(self.spec.measures[0]):
                continue
            for over, words in _OVER.items():
                parts = [*self._parts] if mistake.of_means == "harmonic" else ["first_rank"]
                means = [self._mean(rows, self._part_value(part), over) for part in parts]
                if all(means):
                    harmonic = len(means) / sum(1 / mean for mean in means if mean)
                    value = harmonic if mistake.of_means == "harmonic" else 1 / harmonic
                    yield MistakenValue(mistake, value, str(self._bases[0]), beside=words)

    def _of_values(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[MistakenValue]:
        """What is no mean: medians, sums, and 1 - the mean of what is at most 1."""
        measure = self.spec.measures[0]
        is_share = measure.metric.range in ("0 to 1", "0 or 1")
        for mistake, value_column, over in product(MISTAKES, self._right, _OVER):
            if not mistake.of_values or (mistake.of_values == "complement" and not is_share):
                continue
            mean = self._mean(rows, value_column, over)
            if mean is None:
                continue
            total = sum(row[f"{value_column.column}_total"] or 0.0 for row in rows)
            value = {
                "median": rows[0][f"{value_column.column}_median_{over}"],
                "sum": total,
                "complement": 1 - mean,
            }[mistake.of_values]
            if value is not None:
                metric = str(value_column.metric)
                yield MistakenValue(mistake, value, metric, str(measure), _OVER[over])

    def _multiples(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[MistakenValue]:
        """The means that are too large by a factor."""
        for mistake in MISTAKES:
            if mistake.factor == 1.0 or not mistake.is_of(self.spec.measures[0]):
                continue
            for value_column in self._right:
                mean = self._mean(rows, value_column, _ALL)
                if mean is not None:
                    yield MistakenValue(mistake, mistake.factor * mean, str(value_column.metric))

    def _mean(
        self, rows: Sequence[Mapping[str, Any]], value_column: _Value, over: str
    ) -> float | None:
        selected_rows = [row for row in rows if over != _RANKED or row["is_ranked"]]
        total = sum(row[f"{value_column.column}_total"] or 0.0 for row in selected_rows)
        column = "queries" if over == _ZERO else f"{value_column.column}_queries"
        queries = sum(row[column] for row in selected_rows)
        return total / queries if queries else None
