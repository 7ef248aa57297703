"""The usual mistakes of hand-written SQL: one row each, with how it is computed and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlmetrics.catalog.measure import Measure, Setting
from sqlmetrics.proof.reconcile.orders import WORST_FIRST

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
