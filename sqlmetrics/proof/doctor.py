"""Whether a database gives the numbers that it should: on hard data, with every option."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import chain
from typing import Any, ClassVar

import pyarrow as pa

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import listed
from sqlmetrics.catalog.option import GainTable, Option
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.failure import LARGE, StatementError
from sqlmetrics.errors import InputError, SpecError, SqlmetricsError, did_you_mean
from sqlmetrics.evaluation.checks.checks import check_inputs
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.inputs.sources import tables_of
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.proof.verify import Agreement, compare, evaluated_by_reference
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.conformance import Conformance
from sqlmetrics.sql.dialect import Dialect
from sqlmetrics.sql.dialects import DEFAULT, DIALECTS
from sqlmetrics.tables.table import Table
from sqlmetrics.tables.tabular import Block, Kinds, Row, Tabular, arrow_table, kinds_of

# What a database is asked: every metric by every preset and option, every shape of input.

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


CaseArguments = tuple[str, list[str], Mapping[str, Any]]
"""A name, metrics, and what a spec has beside the usual."""


def _lacking(dialect: Dialect) -> dict[str, tuple[str, str]]:
    """Values that a table, or the dialect, has not -> an option and what it is instead."""
    lacking = {"input_order": ("ties", "id_asc")}
    if not dialect.has_float32:
        lacking["float32"] = ("score_precision", "double")
    if not dialect.has_nan:
        lacking["nan"] = ("no_relevant", "skip")
    return lacking


def _of_presets(dialect: Dialect) -> Iterator[CaseArguments]:
    """Every preset, but for what cannot be."""
    lacking = _lacking(dialect)
    for name, preset in PRESETS.items():
        values = chain(
            preset.options.values(), *map(dict.values, map(dict, preset.metrics.values()))
        )
        options = dict(lacking[str(value)] for value in values if str(value) in lacking)
        yield f"preset {name}", texts(), {"preset": name, "conventions": options}


def _of_options(dialect: Dialect) -> Iterator[CaseArguments]:
    """Every value of every option but the house's, for the metrics that have it."""
    left_out = {"error", *_lacking(dialect)}
    for option in OPTIONS.values():
        has = [text for text in texts() if _has(text, option)]
        for choice in option.choices[1:] if option.name not in ELSEWHERE else ():
            if choice.name not in left_out:
                value = VALUES.get(choice.name, choice.name) if choice.is_whole else FRACTION
                extra_options = {"gain": "binary"} if "gain=binary" in choice.needs else {}
                yield (
                    f"{option.name}={value}",
                    has,
                    {"conventions": {**extra_options, option.name: value}},
                )


def _of_input(tables: _Tables, dialect: Dialect) -> Iterator[CaseArguments]:
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
            planned = make_plan(spec, tables_of(spec)).spec.metrics
        except SpecError:
            continue
        # CatBoost's ERR and PFound take probabilities; the doctor's grades go further.
        fitting += [metric for metric in planned if "max_grade=1" not in metric]
    return Spec(metrics=fitting, **spec_fields) if fitting else None


# A small hard data set: what makes databases give different numbers.

IDS = ("a", "A", "a ", " a", "á", "a\u0301", "ß", "ss", "10", "9", "😀", "o'x", 'w"e', "b\\s", "%s")
"""Ids that differ only in case, space or accent, and what is written with special signs."""

QUERIES = ("q", "Q", "q ", "é", "e\u0301", "10", "9", "😀", "o'q", "b\\q")
_ALL_QUERIES = (*QUERIES, "long", "one item", "not relevant", "not ranked", "not labelled")
SYSTEMS = ("new", "New", "o'ld")
SCORES = (3.0, 1.0, 0.0, -0.0, 1e-300, 0.1, 0.1 + 1e-11, 2.0**24, 2.0**24 + 1, -5.5)
"""Among them two zeros, and numbers that are equal to 32 bits and to 6 decimals."""

GRADES = (0.0, 0.0, 1.0, 2.0, 3.0)
WORDS = {0.0: "none", 1.0: "low", 2.0: "mid", 3.0: "high"}
DAYS = (date(2024, 2, 29), date(2024, 3, 1), date(2024, 3, 2))
CATEGORIES = ("a", "A", "a ", "o'x")
DEVICES = ("phone", "Phone", "o'x")
SUBTOPICS = ("1", "01", "a", "A", "a ", "á", "", "o'x", "😀")
COUNTRIES = ("de", "DE", "o'x", None)

Rows = list[dict[str, object]]


def tables(longest: int = 1000) -> dict[str, pa.Table]:
    """Name -> table, always the same.

    Args:
        longest: How long the longest list is.
    """
    many = [f"i{number:03}" for number in range(longest)]
    chance = random.Random(20240229)  # noqa: S311  # always the same numbers
    rankings = list(_rankings(chance, many))
    labels = list(_labels(chance, many))
    ids = (*IDS, *many)
    grade_by_pair = {(row["query_id"], row["item_id"]): row["grade"] for row in labels}
    items: Rows = [
        {
            "item_id": item,
            "category": chance.choice(CATEGORIES),
            "popularity": chance.randint(1, 9),
            "users": 12,
        }
        for item in ids
    ]
    queries: Rows = [
        {"query_id": query, "country": country, "traffic": float(chance.randint(0, 3))}
        for query, country in zip(_ALL_QUERIES, COUNTRIES * 9, strict=False)
    ]
    joined = [
        row | {"grade": grade_by_pair.get((row["query_id"], row["item_id"]))}
        for row in rankings
        if row["system"] == "new"
    ]
    rows: dict[str, Rows] = {
        "rankings": rankings,
        "labels": labels,
        "items": items,
        "queries": queries,
        "joined": joined,
        "ranks": list(_ranks(joined)),
        "recent": [row | {"place": 2**53 + int(str(row["place"])) // 2} for row in _ranks(joined)],
        "dated": list(_dated(rankings, chance)),
        "words": [row | {"grade": WORDS[float(str(row["grade"]))]} for row in labels],
        "doubled": rankings + [row | {"score": float(str(row["score"])) + 1} for row in joined[:9]],
        "doubled_labels": labels + [row | {"grade": 3.0} for row in labels[:9]],
        "minus": [row | {"grade": -2.0} if row["grade"] == 1 else row for row in labels],
        "grouped": list(_grouped(labels, chance)),
        "no_score": [row | {"score": None} if row["item_id"] == "A" else row for row in rankings],
    }
    return {name: _table(table_rows) for name, table_rows in rows.items()}


def _rankings(chance: random.Random, many: list[str]) -> Iterator[dict[str, object]]:
    for system in SYSTEMS:
        for query in QUERIES:
            if (system, query) == ("New", "Q"):  # this system has not answered it
                continue
            items = chance.sample(IDS, chance.randint(1, len(IDS)))
            yield from _list(system, query, items, SCORES, chance)
        yield from _list(system, "one item", ["a"], SCORES, chance)
        yield from _list(system, "not relevant", IDS[:5], SCORES, chance)
        yield from _list(system, "not labelled", IDS[:3], SCORES, chance)
    scores = tuple(score / 8 for score in range(40))
    yield from _list("new", "long", chance.sample(many, len(many)), scores, chance)


def _list(
    system: str,
    query: str,
    items: list[str] | tuple[str, ...],
    scores: tuple[float, ...],
    chance: random.Random,
) -> Iterator[dict[str, object]]:
    device = DEVICES[len(query) % len(DEVICES)]
    for item in items:
        row = {"system": system, "query_id": query, "item_id": item}
        yield row | {"score": chance.choice(scores), "device": device}


def _labels(chance: random.Random, many: list[str]) -> Iterator[dict[str, object]]:
    lists: dict[str, list[str]] = {
        query: chance.sample(IDS, chance.randint(1, len(IDS))) for query in QUERIES
    }
    lists |= {
        "long": chance.sample(many, min(60, len(many))),
        "one item": ["a"],
        "not ranked": list(IDS[:4]),
    }
    for query, items in lists.items():
        grades = [chance.choice(GRADES) for _ in items]
        grades[0] = 2.0  # something is relevant
        for item, grade in zip(items, grades, strict=True):
            yield {"query_id": query, "item_id": item, "grade": grade}
    for item in IDS[:4]:
        yield {"query_id": "not relevant", "item_id": item, "grade": 0.0}


def _grouped(labels: Rows, chance: random.Random) -> Iterator[dict[str, object]]:
    """The labels of up to three subtopics each, with grades of their own."""
    for row in labels:
        for subtopic in chance.sample(SUBTOPICS, chance.randint(1, 3)):
            yield row | {"subtopic": subtopic, "grade": chance.choice((0.0, row["grade"]))}


def _ranks(rows: Rows) -> Iterator[dict[str, object]]:
    places: dict[object, int] = {}
    for row in rows:
        query = row["query_id"]
        places[query] = places.get(query, 0) + 1
        yield {"query_id": query, "item_id": row["item_id"], "place": places[query]}


def _dated(rows: Rows, chance: random.Random) -> Iterator[dict[str, object]]:
    """The short lists on some of three days each."""
    is_drawn = {
        (row["system"], row["query_id"], day): chance.random() < 0.6 for row in rows for day in DAYS
    }
    for row in rows:
        for day in DAYS if row["query_id"] != "long" else ():
            if is_drawn[row["system"], row["query_id"], day]:
                yield row | {"ds": day, "score": chance.choice(SCORES)}


def _table(rows: Rows) -> pa.Table:
    kinds = {"ds": "date32", "place": "int64"}
    kinds |= dict.fromkeys(("score", "traffic", "popularity", "users"), "double")
    if not any(isinstance(row.get("grade"), str) for row in rows):
        kinds["grade"] = "double"
    return arrow_table(rows, {name: kinds.get(name, "string") for name in rows[0]})


# The examination of a database: every case against the reference, in a schema of its own.

TOLERANCE = 1e-9
"""What engines may be apart: they sum in different orders, and have their own logarithms."""


@dataclass(frozen=True)
class Finding:
    """What came of one case.

    Attributes:
        case: Its name.
        compared: How many per-query values and means were compared with the reference.
        largest: The largest |a - b| / max(1, |b|); infinite if one side has no value.
        where: The metric and place of that difference, or what failed; empty if all is well.
    """

    case: str
    compared: int
    largest: float
    where: str


@dataclass(frozen=True, repr=False)
class Report(Tabular):
    """What was found out about a database; it prints as text.

    Attributes:
        engine: The product.
        version: Its version.
        findings: One a case.
        seconds: How long it took.
    """

    engine: str
    version: str
    findings: tuple[Finding, ...]
    seconds: float

    _schemas: ClassVar[Mapping[str, Kinds]] = {"findings": kinds_of(Finding)}

    @property
    def failures(self) -> list[Finding]:
        """The cases that gave another number, or none."""
        return [finding for finding in self.findings if finding.where]

    @property
    def compared(self) -> int:
        """How many numbers were compared."""
        return sum(finding.compared for finding in self.findings)

    @property
    def largest(self) -> float:
        """The largest difference of the cases that are well."""
        return max((finding.largest for finding in self.findings if not finding.where), default=0.0)

    def to_dicts(self) -> list[Row]:
        """One dict a case."""
        return [dict(vars(finding)) for finding in self.findings]

    def _blocks(self) -> Iterator[Block]:
        failed = [
            [finding.case, f"{finding.largest:.1e}", finding.where] for finding in self.failures
        ]
        if failed:
            yield Table(["case", "difference", "problem"], failed)
        verdict = f"{len(failed)} of them failed" if failed else "all passed"
        yield (
            f"{self.engine} {self.version}: {len(self.findings)} cases, {verdict}\n"
            f"{self.compared:,} numbers compared with the reference, largest difference "
            f"{self.largest:.1e} (allowed: {TOLERANCE:.0e}); {self.seconds:.0f} s"
        )


def examine(
    engine: Database,
    *,
    only: Callable[[str], bool] | None = None,
    on_progress: Callable[[str], object] = str,
    longest: int = 1000,
) -> Report:
    """Let a database compute hard cases, and compare every number with the reference.

    Makes a schema of its own, loads a small data set, and drops the schema at the end, also
    after a failure.

    Args:
        engine: An open database, whose user may create a schema and tables.
        only: Tells by its name whether a case is wanted; default: all are.
        on_progress: Is given the name of each case before it runs.
        longest: How long the longest list is, for databases that are no fast ones.

    Raises:
        EngineError: If the schema or its tables cannot be made.
    """
    start = time.perf_counter()
    with engine.scratch() as schema:
        for name, table in tables(longest).items():
            engine.load(f"{schema}.{name}", table)
        findings = []
        for case in _wanted(engine, schema, only or bool):
            on_progress(case.name)
            findings.append(_finding(case, engine))
    return Report(engine.name, engine.version, tuple(findings), time.perf_counter() - start)


def _wanted(engine: Database, schema: str, only: Callable[[str], bool]) -> Iterator[Case | Refusal]:
    yield from cases(engine.translation.dialect, schema, only)
    yield from (refusal for refusal in refusals(schema) if only(refusal.name))


def _finding(case: Case | Refusal, engine: Database) -> Finding:
    try:
        return _compared(case, engine) if isinstance(case, Case) else _refused(case, engine)
    except SqlmetricsError as error:
        return Finding(case.name, 0, math.inf, " ".join(str(error).split()))


def _compared(case: Case, engine: Database) -> Finding:
    metrics = case.spec.metrics
    n_metrics = engine.driver.METRICS_AT_ONCE or len(metrics)
    agreements = [
        agreement
        for start in range(0, len(metrics), n_metrics)
        for agreement in _agreements(case.spec, metrics[start : start + n_metrics], engine)
    ]
    worst = max(agreements, key=lambda agreement: agreement.largest)
    where = "" if worst.largest <= TOLERANCE else f"{worst.measure}: {worst.where}"
    return Finding(
        case.name, sum(agreement.compared for agreement in agreements), worst.largest, where
    )


def _agreements(spec: Spec, metrics: Sequence[str], engine: Database) -> list[Agreement]:
    """Of some metrics of a spec, of fewer at once where their query is too large."""
    few = spec.having(metrics=metrics)
    try:
        opened_tables = opened(few, engine)
        result = run(few, opened_tables, engine)
    except StatementError as error:
        half = len(metrics) // 2
        if error.reason != LARGE or not half:
            raise
        halves = (metrics[:half], metrics[half:])
        return [*chain.from_iterable(_agreements(spec, part, engine) for part in halves)]
    proof = evaluated_by_reference(make_plan(few, opened_tables), engine)
    return list(compare(result, proof))


def _refused(case: Refusal, engine: Database) -> Finding:
    try:
        check_inputs(make_plan(case.spec, opened(case.spec, engine)), engine)
    except InputError as error:
        if case.words in str(error):
            return Finding(case.name, 0, 0.0, "")
        return Finding(case.name, 0, math.inf, f"the error does not say {case.words!r}: {error}")
    return Finding(case.name, 0, math.inf, f"no error that says {case.words!r}")


def executed(report: Report) -> Conformance:
    """What is kept of a report in which nothing failed."""
    cases, largest = len(report.findings), float(f"{report.largest:.1e}")
    return Conformance(report.engine, report.version, cases, report.compared, largest)
