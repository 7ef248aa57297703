"""The options as typed keyword arguments, for editors and type checkers.

`UPDATE_GOLDEN=1 pytest tests/catalog/test_catalog.py` writes `Conventions` from the catalogue's
options. Texts are read in any case; a number may be a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict, TypeVar

_Value = TypeVar("_Value")

OneOrSeveral: TypeAlias = _Value | Sequence[_Value]
"""A value of a metric's option, or several: every metric is computed once for each."""

Gains: TypeAlias = Mapping[int, float] | Mapping[float, float]
"""Grade -> gain."""

GainList: TypeAlias = Sequence[float]
"""The gains of the grades 0, 1, 2, ..."""


class Conventions(TypedDict, total=False):
    """What `evaluate` takes beside its own arguments; all are optional."""

    gain: OneOrSeveral[Literal["exp", "linear", "binary"] | Gains] | GainList
    discount: OneOrSeveral[Literal["log2", "log2_max2", "ln", "reciprocal", "geometric", "none"]]
    stop: OneOrSeveral[Literal["exp", "linear"]]
    ideal: OneOrSeveral[
        Literal[
            "labels_at_k",
            "labels",
            "shown_at_k",
            "all_k",
            "all_returned",
            "min_k_r",
            "hits",
            "returned",
        ]
    ]
    recall_denominator: OneOrSeveral[Literal["r", "min_k_r", "shown"]]
    recall_level: OneOrSeveral[Literal["at_least", "nearest"]]
    precision_denominator: OneOrSeveral[Literal["k", "returned", "min_k_r"]]
    ap_denominator: OneOrSeveral[
        Literal["r", "min_k_r", "min_k_shown", "k", "min_r_returned", "hits", "shown"]
    ]
    rr_of: OneOrSeveral[Literal["first", "all", "highest_grade"]]
    rbp_of: OneOrSeveral[Literal["relevant", "grade"]]
    rbo_ties: OneOrSeveral[Literal["a", "b", "w"]]
    rbo_bound: OneOrSeveral[Literal["extrapolated", "min", "max", "residual"]]
    similarity: OneOrSeveral[Literal["category", "vector"]]
    ties: Literal[
        "id_asc", "id_desc", "input_order", "average", "best", "worst", "include", "error"
    ]
    score_precision: Literal["double", "float32", "decimal6", "exact"]
    min_score: Literal["none"] | float
    depth: Literal["none"] | int
    duplicate_rankings: Literal["error", "best_score", "first", "count"]
    identical_ids: Literal["keep", "drop"]
    duplicate_labels: Literal["error", "max_grade"]
    unjudged: Literal["nonrelevant", "condensed", "error", "skip", "nan"]
    negative_grades: Literal["error", "unjudged", "zero"]
    missing: Literal["zero", "drop", "error"]
    absent_systems: Literal["skip", "missing"]
    no_relevant: OneOrSeveral[Literal["skip", "zero", "nan", "one", "one_if_empty"]]
    average: OneOrSeveral[
        Literal["macro", "micro", "geometric", "median", "min", "p10", "p90", "max"]
    ]
    average_over: OneOrSeveral[
        Literal[
            "labels",
            "rankings",
            "common",
            "either",
            "relevant",
            "common_relevant",
            "hits",
            "relevant_shown",
        ]
    ]
    rounding: OneOrSeveral[Literal["none", "2", 2, "4", 4, "floor2"]]
    gauc_weight: OneOrSeveral[Literal["none", "impressions", "positives"]]
    tied_scores: OneOrSeveral[Literal["exclude", "half", "concordant", "discordant"]]
    equal_labels: OneOrSeveral[Literal["exclude", "concordant"]]
    pnr_form: OneOrSeveral[Literal["share", "ratio"]]
