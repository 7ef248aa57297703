"""What a database is asked: every metric by every preset and option, every shape of input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import listed
from sqlmetrics.catalog.option import GainTable, Option
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.errors import SpecError, did_you_mean
from sqlmetrics.evaluation.inputs.sources import tables_of
from sqlmetrics.plan.plan import plan
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialect import Dialect
from sqlmetrics.sql.dialects import DEFAULT, DIALECTS

K = 3
VALUES: Mapping[str, Any] = {"table": GainTable({1: 1, 2: 4.5, 3: 9}), "number": 2}
"""Choices that are no names -> a value."""

FRACTION = 0.1
"""The value for a choice that may be a fraction; some scores are it, and some a little above."""

GREEDY = "alpha_ndcg(alpha=0.9, rel=2, discount=reciprocal)@4"
"""An ideal list of other labels and other gains than those of the metrics by their names."""

ELSEWHERE = {"duplicate_rankings", "duplicate_labels", "unjudged", "negative_grades"}
"""Options that need tables of their own, or that refuse these."""


@dataclass(frozen=True)
class Case:
    """One evaluation that must succeed.

    Attributes:
        name: What is special about it.
        spec: What is asked; its relations are the names of `data.tables`.
    """

    name: str
    spec: Spec


@dataclass(frozen=True)
class Refusal:
    """One evaluation that must be refused.

    Attributes:
        name: What is wrong with its tables.
        spec: What is asked.
        words: What the message must have.
    """

    name: str
    spec: Spec
    words: str


FORMULAS = (
    f"blend = 0.7 * ndcg@{K} + 0.3 * (recall@{K} - mrr)",
    f"quotient = 1 - ap / (ndcg@{K} - hit@{K})",
)
"""Numbers made of several metrics."""


FUSE = [
    {"name": "rrf", "runs": ["o'ld", "new"], "window": 5},
    {"name": "sum", "weights": {"o'ld": 0.3, "new": 0.7}, "like": "opensearch"},
    {"name": "points", "runs": ["new", "o'ld"], "method": "borda", "limit": 7},
]
"""Systems that are made of others."""


def texts() -> list[str]:
    """Every metric, with and without a cutoff, and formulas over some."""
    plain = [metric.name for metric in listed() if metric.cutoff != "required"]
    cut = [f"{metric.name}@{K}" for metric in listed() if metric.cutoff != "none"]
    return [*plain, *cut, *FORMULAS]


def cases(dialect: Dialect, schema: str = "", only: Callable[[str], bool] = bool) -> Iterator[Case]:
    """All that a dialect can be asked, over tables in a schema; `only` picks by the name."""
    tables = _Tables(schema)
    requests = chain(_of_presets(dialect), _of_options(dialect), _of_input(tables, dialect))
    for name, metrics, spec_fields in requests:
        spec = _fitting(metrics, **{**tables.usual, **spec_fields}) if only(name) else None
        if spec is not None:
            yield Case(name, spec)


def refusals(schema: str = "") -> Iterator[Refusal]:
    """What would give wrong numbers."""
    tables = _Tables(schema)
    for name, spec_fields, words in (
        ("a NULL score", {"rankings": tables.where("", "no_score")}, "score is NULL"),
        ("a repeated row", {"rankings": tables.where("", "doubled")}, "more than once"),
        ("a negative grade", {"labels": {"relation": tables.of("minus")}}, "grade is negative"),
        ("a text for a number", {"labels": {"relation": tables.of("words")}}, "grade"),
    ):
        yield Refusal(
            f"refuses {name}", Spec(metrics=["ndcg@3"], **{**tables.usual, **spec_fields}), words
        )


Asked = tuple[str, list[str], Mapping[str, Any]]
"""A name, metrics, and what a spec has beside the usual."""


def _lacking(dialect: Dialect) -> dict[str, tuple[str, str]]:
    """Values that a table, or the dialect, has not -> an option and what it is instead."""
    lacking = {"input_order": ("ties", "id_asc")}
    if not dialect.has_float32:
        lacking["float32"] = ("score_precision", "double")
    if not dialect.has_nan:
        lacking["nan"] = ("no_relevant", "skip")
    return lacking


def _of_presets(dialect: Dialect) -> Iterator[Asked]:
    """Every preset, but for what cannot be."""
    lacking = _lacking(dialect)
    for name, preset in PRESETS.items():
        values = chain(
            preset.options.values(), *map(dict.values, map(dict, preset.metrics.values()))
        )
        options = dict(lacking[str(value)] for value in values if str(value) in lacking)
        yield f"preset {name}", texts(), {"preset": name, "conventions": options}


def _of_options(dialect: Dialect) -> Iterator[Asked]:
    """Every value of every option but the house's, for the metrics that have it."""
    left_out = {"error", *_lacking(dialect)}
    for option in OPTIONS.values():
        has = [text for text in texts() if _has(text, option)]
        for choice in option.choices[1:] if option.name not in ELSEWHERE else ():
            if choice.name not in left_out:
                value = VALUES.get(choice.name, choice.name) if choice.whole else FRACTION
                extra_options = {"gain": "binary"} if "gain=binary" in choice.needs else {}
                yield (
                    f"{option.name}={value}",
                    has,
                    {"conventions": {**extra_options, option.name: value}},
                )


def _of_input(tables: _Tables, dialect: Dialect) -> Iterator[Asked]:
    """Other tables, other columns, other policies for what is bad in them."""
    ranks = {"relation": tables.of("ranks"), "columns": {"rank": "place"}}
    recent = {"relation": tables.of("recent"), "columns": {"score": "place"}}
    joined = {"relation": tables.of("joined"), "columns": {"grade": "grade"}}
    dated = {"relation": tables.of("dated"), "columns": {"system": "system", "date": "ds"}}
    segmented = {"relation": tables.of("queries"), "columns": {"segments": ["country"]}}
    weighed = {"relation": tables.of("queries"), "columns": {"weight": "traffic"}}
    grouped = {"relation": tables.of("grouped"), "columns": {"group": "subtopic"}}
    mapped = {"none": 0, "low": 1, "mid": 2, "high": 3}
    fields_by_case: dict[str, Mapping[str, Any]] = {
        "ranks": {"rankings": ranks, "baseline": None},
        "ranks, with the mean over ties": {
            "rankings": ranks,
            "baseline": None,
            "conventions": {"ties": "average"},
        },
        "exact scores above 2^53": {
            "rankings": recent,
            "baseline": None,
            "conventions": {"score_precision": "exact"},
        },
        "exact scores above 2^53, with min_score": {
            "rankings": recent,
            "baseline": None,
            "conventions": {"score_precision": "exact", "min_score": 2**53 + 1},
        },
        "scores of 6 decimals, with min_score and depth": {
            "conventions": {"score_precision": "decimal6", "min_score": FRACTION, "depth": 2},
        },
        "joined labels": {"rankings": joined, "labels": None, "baseline": None},
        "days": {"rankings": dated},
        "days, segments of queries": {"rankings": dated, "queries": segmented, "by": ["country"]},
        "segments of rankings": {"by": ["device"]},
        "fused systems, segments": {
            "rankings": {**tables.where(""), "fuse": FUSE},
            "by": ["device"],
        },
        "fused systems alone, days": {
            "rankings": {**dated, "fuse": FUSE, "fused_only": True},
            "queries": segmented,
            "by": ["country"],
            "baseline": "sum",
        },
        "weights": {"queries": weighed},
        "weights, with the mean over some queries": {
            "queries": weighed,
            "conventions": {"average_over": "common", "missing": "drop"},
        },
        "grades that are texts": {"labels": {"relation": tables.of("words"), "grades": mapped}},
        "labels of groups": {"labels": grouped},
        "labels of groups, days": {"labels": grouped, "rankings": dated},
        "labels of groups, condensed, with depth": {
            "labels": grouped,
            "conventions": {
                "unjudged": "condensed",
                "depth": 3,
                "duplicate_labels": "max_grade",
                "no_relevant": "zero",
            },
        },
        "condensed lists": {"conventions": {"unjudged": "condensed"}},
        "lists with an unlabelled item are skipped": {"conventions": {"unjudged": "skip"}},
        "a condition": {"rankings": tables.where("score >= 0 and item_id <> 'ss'")},
        "repeated rows": {
            "rankings": tables.where("", "doubled"),
            "labels": {"relation": tables.of("doubled_labels")},
            "conventions": {"duplicate_rankings": "best_score", "duplicate_labels": "max_grade"},
        },
        "repeated rows that count each time": tables.repeated("count"),
        "repeated rows that keep their ranks": tables.repeated("first"),
        "negative grades as unjudged": tables.minus("unjudged"),
        "negative grades as 0": tables.minus("zero"),
    }
    for name, spec_fields in fields_by_case.items():
        deep = [f"alpha_ndcg@{dialect.places}", GREEDY] if name == "labels of groups" else []
        yield name, [*texts(), *deep], spec_fields


def names(dialect: Dialect | None = None) -> list[str]:
    """The names of all cases; nothing is planned for it."""
    case_names: list[str] = []

    def noted(name: str) -> bool:
        case_names.append(name)
        return False

    list(cases(dialect or DIALECTS[DEFAULT], "", noted))
    return [*case_names, *(refusal.name for refusal in refusals(""))]


def chosen(words: Sequence[str]) -> list[str]:
    """The cases of a name, or with a word in their names.

    Raises:
        SpecError: If a word is in none; the nearest name is told.
    """
    case_names = names()
    matches: list[str] = []
    for word in words:
        folded = word.casefold()
        word_matches = [name for name in case_names if name.casefold() == folded]
        word_matches = word_matches or [name for name in case_names if folded in name.casefold()]
        if not word_matches:
            guess = did_you_mean(word, case_names) or ";"
            raise SpecError(f"unknown case {word!r}{guess} --list-cases prints all")
        matches += word_matches
    return matches


class _Tables:
    """The tables of the hard data set, in a schema."""

    def __init__(self, schema: str) -> None:
        self.schema = schema

    def of(self, name: str) -> str:
        """A table's name with its schema."""
        return f"{self.schema}.{name}" if self.schema else name

    @property
    def usual(self) -> dict[str, Any]:
        """The tables of a spec, where nothing is special."""
        facts = {name: name for name in ("category", "popularity", "users")}
        return {
            "rankings": self.where(""),
            "labels": {"relation": self.of("labels")},
            "items": {"relation": self.of("items"), "columns": facts},
            "baseline": "o'ld",
        }

    def where(self, condition: str, name: str = "rankings") -> dict[str, Any]:
        """The rankings that meet a condition."""
        columns = {"system": "system"}
        return {"relation": self.of(name), "columns": columns, "where": condition or None}

    def repeated(self, policy: str) -> dict[str, Any]:
        """Lists that hold items twice, and what becomes of them."""
        return {
            "rankings": self.where("", "doubled"),
            "conventions": {"duplicate_rankings": policy},
        }

    def minus(self, policy: str) -> dict[str, Any]:
        """Labels with grades below 0, and the policy for them."""
        labels = {"relation": self.of("minus")}
        return {"labels": labels, "conventions": {"negative_grades": policy}}


@cache
def _has(text: str, option: Option) -> bool:
    """Whether a metric is changed by an option."""
    if option.scope == "spec":
        return True
    measure = Spec(**_Tables("").usual, metrics=[text]).measures[0]
    return option.name in measure.metric.settings


def _fitting(metrics: list[str], **spec_fields: Any) -> Spec | None:
    """A spec of all the metrics that can be asked with what is given, None if none can."""
    fitting: list[str] = []
    for text in metrics:
        try:
            spec = Spec(metrics=[text], **spec_fields)
            planned = plan(spec, tables_of(spec)).spec.metrics
        except SpecError:
            continue
        # CatBoost's ERR and PFound take probabilities; the doctor's grades go further.
        fitting += [metric for metric in planned if "max_grade=1" not in metric]
    return Spec(metrics=fitting, **spec_fields) if fitting else None
