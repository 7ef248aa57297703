"""The choices in which tools disagree, as data: one row per option, one row per choice.

A choice whose effect is a piece of SQL carries that piece: the room `plan` puts the columns in, no
template decides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

from sqlmetrics.catalog.option import Choice, GainTable, Option, Value, is_number
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.sql.template import double

ALIKE = 1e-9
"""Values this near below a border of rounding count as on it: sums differ in their last bits."""


def _rounded(value: str, units: int, up: float) -> str:
    """SQL that rounds a value to a whole number of units of 1."""
    return f"floor({value} * {units}e0 + {double(round(up + ALIKE * units, 12))}) / {units}e0"


def _to_hundredths(value: float) -> float:
    """A number, rounded down likewise."""
    return math.floor((value + ALIKE) * 100) / 100


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")

_IF_ANY = "case when {count} > 0e0 then {value} end"

OPTIONS: Mapping[str, Option] = MappingProxyType(
    {
        option.name: option
        for option in (
            Option(
                "gain",
                "metric",
                "what a grade is worth in DCG",
                (
                    Choice("exp", "2^grade - 1", "(power(2e0, {grade}) - 1e0)"),
                    Choice("linear", "the grade itself", "{grade}"),
                    Choice(
                        "binary",
                        "1 if relevant (grade >= rel), else 0",
                        "case when {relevant} then 1e0 else 0e0 end",
                    ),
                    Choice(
                        "table", "grade -> gain, written {1: 1, 2: 3}, or [0, 1, 3] from grade 0 on"
                    ),
                ),
            ),
            Option(
                "discount",
                "metric",
                "what a rank is worth in DCG",
                (
                    Choice(
                        "log2",
                        "1 / log2(rank + 1)",
                        "ln(2e0) / ln({rank} + 1e0)",
                        weight=lambda rank, _: math.log(2) / math.log(rank + 1),
                    ),
                    Choice(
                        "log2_max2",
                        "1 / log2(max(rank, 2)): ranks 1 and 2 weigh the same",
                        "ln(2e0) / ln(case when {rank} > 2 then {rank} * 1e0 else 2e0 end)",
                        weight=lambda rank, _: math.log(2) / math.log(max(rank, 2)),
                    ),
                    Choice(
                        "ln",
                        "1 / ln(rank + 1)",
                        "1e0 / ln({rank} + 1e0)",
                        weight=lambda rank, _: 1 / math.log(rank + 1),
                    ),
                    Choice(
                        "reciprocal", "1 / rank", "1e0 / {rank}", weight=lambda rank, _: 1 / rank
                    ),
                    Choice(
                        "geometric",
                        "p^(rank - 1), with p of the metric: dcg(discount=geometric, p=0.6)",
                        "case when {rank} <= {last} then power({p}, {rank} - 1) else 0e0 end",
                        weight=lambda rank, settings: settings["p"] ** (rank - 1),
                        parameters={"p": (0.8, "below 1")},
                    ),
                    Choice("none", "1: every rank weighs the same", "1e0", weight=lambda *_: 1.0),
                ),
            ),
            Option(
                "stop",
                "metric",
                "the probability that a reader stops at an item, in ERR and pFound",
                (
                    Choice(
                        "exp",
                        "(2^grade - 1) / 2^max_grade",
                        "((power(2e0, grade) - 1e0) / power(2e0, {max_grade}))",
                    ),
                    Choice(
                        "linear",
                        "grade / max_grade; with max_grade=1 the grade itself, a probability",
                        "(grade / {max_grade})",
                    ),
                ),
                later=True,
            ),
            Option(
                "ideal",
                "metric",
                "the list that IDCG is computed from",
                (
                    Choice("labels_at_k", "all labels, best first, cut at k", "{best}"),
                    Choice("labels", "all labels, best first, not cut", "{whole}"),
                    Choice(
                        "shown_at_k",
                        "the items of the ranking alone, best first, cut at k",
                        "{shown}",
                        needs=("no depth with ties=average",),
                    ),
                    Choice(
                        "all_k",
                        "all k ranks are relevant, even if there are fewer relevant labels",
                        "{every_rank}",
                        needs=("a cutoff", "a cutoff of at most 1,000,000", "gain=binary"),
                    ),
                    Choice(
                        "all_returned",
                        "all items returned in the top k are relevant, even if fewer labels are",
                        "{every_returned}",
                        needs=("gain=binary",),
                    ),
                    Choice(
                        "min_k_r",
                        "the first min(k, R) ranks are relevant: labels_at_k of binary gains",
                        "{best}",
                        needs=("gain=binary",),
                    ),
                    Choice(
                        "hits",
                        "as many relevant ranks as the top k has: only their order counts",
                        "{hits_first}",
                        needs=("gain=binary", "one order of ties"),
                    ),
                    Choice(
                        "returned",
                        "all labels, best first, cut at the number of items returned in the top k",
                        "{as_long}",
                    ),
                ),
            ),
            Option(
                "recall_denominator",
                "metric",
                "what recall divides by",
                (
                    Choice("r", "R, the number of relevant labels", "{num_rel}"),
                    Choice(
                        "min_k_r",
                        "min(k, R): 1 can be reached at every k",
                        "case when {num_rel} >= {size} then {size} else {num_rel} end",
                    ),
                    Choice(
                        "shown",
                        "the relevant items of the whole list",
                        "{found}",
                        needs=("no depth with ties=average",),
                    ),
                ),
            ),
            Option(
                "recall_level",
                "metric",
                "how many relevant items a level of recall means",
                (
                    Choice(
                        "at_least",
                        "level x R, rounded up: floor(level x R + 0.9)",
                        "floor({recall} * {num_rel} + 9e-1)",
                    ),
                    Choice(
                        "nearest",
                        "level x R, rounded half up",
                        "floor({recall} * {num_rel} + 5e-1)",
                    ),
                ),
            ),
            Option(
                "precision_denominator",
                "metric",
                "what precision divides by",
                (
                    Choice("k", "k, also if the list is shorter", "{size}"),
                    Choice("returned", "the items returned in the top k", "{returned}"),
                    Choice(
                        "min_k_r",
                        "min(k, R)",
                        "case when {num_rel} >= {size} then {size} else {num_rel} end",
                    ),
                ),
            ),
            Option(
                "ap_denominator",
                "metric",
                "what average precision divides by",
                (
                    Choice("r", "R, the number of relevant labels", "{num_rel}"),
                    Choice(
                        "min_k_r",
                        "min(k, R); R without a cutoff",
                        "case when {num_rel} >= {k}e0 then {k}e0 else {num_rel} end",
                        uncut="{num_rel}",
                    ),
                    Choice(
                        "min_k_shown",
                        "min(k, relevant items of the whole list)",
                        "case when {found} >= {k}e0 then {k}e0 else {found} end",
                        uncut="{found}",
                        needs=("no depth with ties=average",),
                    ),
                    Choice("k", "k", "{k}e0", needs=("a cutoff",)),
                    Choice(
                        "min_r_returned",
                        "min(R, items returned in the top k)",
                        "case when {num_rel} >= {returned} then {returned} else {num_rel} end",
                    ),
                    Choice(
                        "hits",
                        "the relevant items of the top k",
                        "{hits}",
                        needs=("one order of ties",),
                    ),
                    Choice(
                        "shown",
                        "the relevant items of the whole list",
                        "{found}",
                        needs=("no depth with ties=average",),
                    ),
                ),
            ),
            Option(
                "rr_of",
                "metric",
                "the relevant items that reciprocal rank looks at",
                (
                    Choice("first", "the first: 1 / its rank", "{first}"),
                    Choice(
                        "all",
                        "all: the sum of 1 / rank, divided by their number in the whole list",
                        "{every} / nullif({found}, 0e0)",
                        needs=("no depth with ties=average",),
                    ),
                    Choice(
                        "highest_grade",
                        "the first of those with the highest grade in the top k",
                        "{highest}",
                        needs=("one order of ties",),
                    ),
                ),
            ),
            Option(
                "rbp_of",
                "metric",
                "what a relevant item is worth in RBP",
                (
                    Choice("relevant", "1, whatever its grade", "1e0"),
                    Choice("grade", "its grade", "grade"),
                ),
                later=True,
            ),
            Option(
                "rbo_ties",
                "metric",
                "what equal scores mean in rank-biased overlap that is aware of ties",
                (
                    Choice("a", "any order: the mean over all orders of both lists"),
                    Choice("b", "any order, and equal lists agree wholly, ties or not"),
                    Choice("w", "the same rank: the items are equally good"),
                ),
                later=True,
            ),
            Option(
                "rbo_bound",
                "metric",
                "what rank-biased overlap makes of items below the ends of lists",
                (
                    Choice("extrapolated", "they agree as those above do", "{extrapolated}"),
                    Choice("min", "none is in both lists", "{least}"),
                    Choice("max", "all are in both lists, as far as they can be", "{most}"),
                    Choice(
                        "residual",
                        "the difference of the two: how much is not known",
                        "{most}\n    - {least}",
                    ),
                ),
                later=True,
            ),
            Option(
                "similarity",
                "metric",
                "the similarity of two items",
                (
                    Choice(
                        "category",
                        "1 if they have the same category, else 0",
                        "same_category_above",
                        data=("items.category",),
                    ),
                    Choice(
                        "vector",
                        "the cosine of their vectors",
                        "cosine_above",
                        data=("items.vector",),
                    ),
                ),
            ),
            Option(
                "ties",
                "spec",
                "the order of items with equal scores; ids compare as UTF-8 bytes",
                (
                    Choice("id_asc", "lower item id first", "item_id asc"),
                    Choice("id_desc", "higher item id first", "item_id desc"),
                    Choice("input_order", "in input order", "input_order asc"),
                    Choice(
                        "average",
                        "the exact mean over all orders of the equal items",
                        "item_id asc",
                        all_orders=True,
                    ),
                    Choice("best", "higher grade first", "grade desc, item_id asc"),
                    Choice("worst", "lower grade first", "grade asc, item_id asc"),
                    Choice(
                        "include",
                        "lower item id first; counts of the top k include all ties of the k-th",
                        "item_id asc",
                        widens=True,
                    ),
                    Choice("error", "equal scores are refused", "item_id asc"),
                ),
            ),
            Option(
                "score_precision",
                "spec",
                "the precision in which scores are compared",
                (
                    Choice("double", "64-bit floats", "cast({score} as double)"),
                    Choice("float32", "32-bit floats", "cast({score} as real)"),
                    Choice(
                        "decimal6",
                        "decimals, rounded half up to 6 places",
                        "floor(cast({score} as double) * 1000000e0 + 0.5e0) / 1000000e0",
                    ),
                    Choice("exact", "the exact integers or decimals of their column", "{score}"),
                ),
            ),
            Option(
                "min_score",
                "spec",
                "the lowest score with which an item counts as returned",
                (
                    Choice("none", "none: every item counts"),
                    Choice(
                        "number",
                        "this score; lower items are left out before ranking",
                        "{score} >= {least}",
                        is_whole=False,
                    ),
                ),
                later=True,
            ),
            Option(
                "depth",
                "spec",
                "the last rank of a list that counts",
                (
                    Choice("none", "the last of the list"),
                    Choice("number", "this rank; the rows below it do not count"),
                ),
            ),
            Option(
                "duplicate_rankings",
                "spec",
                "an item that appears twice in a ranking",
                (
                    Choice("error", "is refused"),
                    Choice("best_score", "counts once, at its best score or rank"),
                    Choice(
                        "first",
                        "counts once, at its best rank; repeats keep theirs, but lose their label",
                    ),
                    Choice("count", "counts each time: recall and NDCG can be above 1"),
                ),
            ),
            Option(
                "identical_ids",
                "spec",
                "a ranked item that has the id of its query",
                (
                    Choice("keep", "counts as any other"),
                    Choice(
                        "drop",
                        "is left out before ranking; its label, if it has one, still counts",
                        "{item} <> {query}",
                    ),
                ),
                later=True,
            ),
            Option(
                "duplicate_labels",
                "spec",
                "an item that appears twice in the labels of a query",
                (
                    Choice("error", "is refused"),
                    Choice("max_grade", "counts once, with its highest grade"),
                ),
            ),
            Option(
                "unjudged",
                "spec",
                "a ranked item without a label",
                (
                    Choice("nonrelevant", "counts as grade 0"),
                    Choice("condensed", "is left out before ranking"),
                    Choice("error", "is refused, in the list of a labelled query"),
                    Choice(
                        "skip",
                        "leaves the query out of metrics that read the item's grade",
                        "case when {judged} = {returned} then {value} end",
                    ),
                    Choice(
                        "nan",
                        "makes metrics that read the item's grade NaN",
                        "case when {judged} = {returned} then {value} "
                        "else cast('NaN' as double) end",
                    ),
                ),
            ),
            Option(
                "negative_grades",
                "spec",
                "a label with a grade below 0",
                (
                    Choice("error", "is refused", "{grade}"),
                    Choice(
                        "unjudged",
                        "is ignored, but its query counts as labelled",
                        "case when {grade} >= 0 then {grade} end",
                    ),
                    Choice(
                        "zero",
                        "counts as grade 0",
                        "case when {grade} < 0 then 0e0 else {grade} end",
                    ),
                ),
            ),
            Option(
                "missing",
                "spec",
                "a labelled query without a ranking",
                (
                    Choice("zero", "counts as an empty list"),
                    Choice("drop", "is left out"),
                    Choice("error", "is refused"),
                ),
            ),
            Option(
                "absent_systems",
                "spec",
                "a system without rows on a day, in rankings with days",
                (
                    Choice("skip", "has no numbers for that day"),
                    Choice(
                        "missing",
                        "misses all queries of the day, if it has rows before and after it",
                    ),
                ),
                of_days=True,
                later=True,
            ),
            Option(
                "no_relevant",
                "metric",
                "a query for which the metric is undefined",
                (
                    Choice("skip", "is left out", "{value}"),
                    Choice("zero", "counts 0", "coalesce({value}, 0e0)"),
                    Choice(
                        "nan",
                        "makes the mean NaN",
                        "coalesce({value}, cast('NaN' as double))",
                    ),
                    Choice("one", "counts 1", "coalesce({value}, 1e0)"),
                    Choice(
                        "one_if_empty",
                        "counts 1 if it has no relevant label and no ranking, else 0",
                        "coalesce({value}, case when {is_ranked} = 0 and "
                        "coalesce({count}, 0e0) = 0e0 then 1e0 else 0e0 end)",
                        part="num_rel",
                    ),
                ),
            ),
            Option(
                "average",
                "metric",
                "how the values of the queries become one number",
                (
                    Choice("macro", "mean of the per-query values"),
                    Choice("micro", "sum of numerators / sum of denominators"),
                    Choice(
                        "geometric",
                        "geometric mean of the per-query values, those below 0.00001 as 0.00001",
                        geometric=True,
                    ),
                    Choice("median", "median of the per-query values", quantile=0.5),
                    Choice("min", "smallest of the per-query values", quantile=0),
                    Choice("p10", "10th percentile of the per-query values", quantile=0.1),
                    Choice("p90", "90th percentile of the per-query values", quantile=0.9),
                    Choice("max", "largest of the per-query values", quantile=1),
                ),
            ),
            Option(
                "average_over",
                "metric",
                "the queries that the mean runs over",
                (
                    Choice("labels", "queries with a label", only=("is_labelled",)),
                    Choice("rankings", "queries with a ranking", only=("is_ranked",)),
                    Choice(
                        "common",
                        "queries with both",
                        only=("is_labelled", "is_ranked"),
                    ),
                    Choice("either", "queries with a label, a ranking or both"),
                    Choice(
                        "relevant",
                        "queries with a relevant label",
                        _IF_ANY,
                        part="num_rel",
                        only=("is_labelled",),
                    ),
                    Choice(
                        "common_relevant",
                        "queries with a relevant label and a ranking",
                        _IF_ANY,
                        part="num_rel",
                        only=("is_labelled", "is_ranked"),
                    ),
                    Choice(
                        "hits",
                        "queries with a relevant item in the top k",
                        _IF_ANY,
                        part="num_rel_ret",
                        only=("is_labelled",),
                        needs=("one order of ties",),
                    ),
                    Choice(
                        "relevant_shown",
                        "queries with a relevant item anywhere in their list",
                        _IF_ANY,
                        part="num_rel_ret@list",
                        only=("is_labelled",),
                        needs=("no depth with ties=average",),
                    ),
                ),
            ),
            Option(
                "rounding",
                "metric",
                "how the value of a query is rounded before the mean",
                (
                    Choice("none", "not at all", "{value}"),
                    Choice("2", "to 2 decimals, half up", _rounded("{value}", 100, 0.5)),
                    Choice("4", "to 4 decimals, half up", _rounded("{value}", 10_000, 0.5)),
                    Choice(
                        "floor2",
                        "to 2 decimals, down, and so is each term of DCG",
                        _rounded("{value}", 100, 0),
                        term=_rounded("{value}", 100, 0),
                        cut=_to_hundredths,
                        needs=("one order of ties for terms of DCG",),
                    ),
                ),
            ),
            Option(
                "gauc_weight",
                "metric",
                "the weight of a query's AUC in the mean",
                (
                    Choice("none", "1: every query weighs the same"),
                    Choice(
                        "impressions",
                        "the number of its scored and labelled items",
                        adds={"weight": "({positives} + {negatives})"},
                    ),
                    Choice(
                        "positives",
                        "the number of those that are relevant",
                        adds={"weight": "{positives}"},
                    ),
                ),
            ),
            Option(
                "tied_scores",
                "metric",
                "a pair of items with different grades and equal scores",
                (
                    Choice("exclude", "does not count"),
                    Choice(
                        "half",
                        "counts half as concordant, half as discordant",
                        adds={"concordant": "5e-1 * {tied}", "discordant": "5e-1 * {tied}"},
                    ),
                    Choice("concordant", "counts as concordant", adds={"concordant": "{tied}"}),
                    Choice("discordant", "counts as discordant", adds={"discordant": "{tied}"}),
                ),
            ),
            Option(
                "equal_labels",
                "metric",
                "a pair of items with equal grades, whatever their scores",
                (
                    Choice("exclude", "does not count"),
                    Choice("concordant", "counts as concordant", adds={"concordant": "{equal}"}),
                ),
            ),
            Option(
                "pnr_form",
                "metric",
                "what the concordant pairs are divided by",
                (
                    Choice(
                        "share",
                        "concordant and discordant pairs: pos / (pos + neg)",
                        adds={"compared": "{concordant}\n    + {discordant}"},
                    ),
                    Choice(
                        "ratio",
                        "discordant pairs: pos / neg",
                        adds={"compared": "{discordant}"},
                    ),
                ),
            ),
        )
    }
)


def resolve(preset: str, overrides: Mapping[str, Value]) -> dict[str, Value]:
    """Every option with its value: the house's, the preset's, then the given ones.

    Args:
        preset: A name of `PRESETS`.
        overrides: Options that override the preset's.

    Raises:
        SpecError: If the preset, an option or a value is unknown; all are told.
    """
    problems = [] if preset in PRESETS else [unknown("preset", preset, PRESETS)]
    for name, value in overrides.items():
        problems += problems_of(name, value)
    if problems:
        raise SpecError(problems)
    defaults = {name: option.choices[0].name for name, option in OPTIONS.items()}
    return {**defaults, **PRESETS[preset].options, **overrides}


def read(name: str, value: object) -> Value:
    """A value as it was written, in the form that is compared and kept.

    Raises:
        SpecError: If it is a gain table with anything but numbers in it.
    """
    if isinstance(value, str):
        value = value.strip().casefold()
        if value.isdecimal():
            return int(value)
    if name in OPTIONS and OPTIONS[name].takes_fractions:
        return _number(value)
    if not isinstance(value, Mapping):
        return value  # type: ignore[return-value]  # a parameter, or told by problems_of
    bad = [(g, v) for g, v in value.items() if not is_number(g) or not _is_gain(v)]
    if bad:
        raise SpecError(f"{name}: a table maps grades to gains, and both are numbers; given {bad}")
    return GainTable(sorted((float(grade), float(gain)) for grade, gain in value.items()))


def _number(value: object) -> Value:
    """A number that may be a fraction, also of a text; a whole one as such, so that 1.0 is 1."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value) if value.lstrip("+-").isdecimal() else float(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value  # type: ignore[return-value]  # told by problems_of


def problems_of(name: str, value: object) -> list[str]:
    """What is wrong with one option and its value; an empty list if nothing is."""
    if name not in OPTIONS:
        return [unknown("option", name, OPTIONS)]
    try:
        choice = OPTIONS[name].choice(value)
    except SpecError as error:
        return list(error.problems)
    if choice.name == "number":
        return _number_problems(name, value, is_whole_number=choice.is_whole)
    return _table_problems(name, value) if choice.name == "table" else []


def _number_problems(name: str, value: object, *, is_whole_number: bool) -> list[str]:
    if not is_whole_number:
        return [] if is_number(value) else [f"{name} must be a finite number, given {value!r}"]
    if isinstance(value, int) and value >= 1:
        return []
    return [f"{name} must be a whole number, 1 or more, given {value!r}"]


def _table_problems(name: str, value: object) -> list[str]:
    if not isinstance(value, GainTable) or not value:
        return [f"{name}=table needs the table itself, like {name}={{1: 1, 2: 3}}"]
    if value.get(0, 0) != 0:
        return [f"{name}: grade 0 must gain 0, since items without a label count as grade 0"]
    bad = {grade: gain for grade, gain in value.items() if not 0 <= gain <= 1e100}
    return (
        [f"{name}: gains must be 0 or more and finite, at most 1e100, given {GainTable(bad)}"]
        if bad
        else []
    )


def _is_gain(value: object) -> bool:
    """An infinite gain is a number too; what it is not is told with its value."""
    return isinstance(value, float) or is_number(value)
