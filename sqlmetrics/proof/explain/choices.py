"""An option's choices, tried one after the other on a small log in which they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlmetrics.catalog.conventions import read
from sqlmetrics.catalog.measure import Measure, parse
from sqlmetrics.catalog.metric import Metric, listed
from sqlmetrics.catalog.option import Choice, Option, Value
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.evaluate import evaluate
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.spec.spec import Spec

CUTOFF = 3

LOG = (
    ("tied", "t", 3.0, None),
    ("tied", "b", 2.0, 3),
    ("tied", "c", 2.0, 0),
    ("tied", "a", 2.0, 1),
    ("tied", "d", 1.0, 1),
    ("tied", "g", None, 2),
    ("tied", "h", None, 1),
    ("close", "y", 1.0, 0),
    ("close", "z", 1.00000001, 2),
    ("close", "zz", 1.0000002, 1),
    ("bad", "a", 1.0, 0),
    ("lost", "a", 1.0, None),
    ("lost", "b", None, 2),
    ("silent", "a", None, 1),
    ("free", "a", 1.0, None),
)
"""Rows (query, item, score, grade): without a score it is not ranked, without a grade not
labelled. `tied` has equal scores, `close` has scores equal as 32-bit numbers or with 6
decimals, `bad` has no relevant label, `lost` no hit, `silent` no list, `free` no label."""

ALSO = {
    "ap_denominator": (
        ("deep", "a", 4.0, 1),
        ("deep", "b", 3.0, 1),
        ("deep", "c", 2.0, 0),
        ("deep", "d", 1.0, 1),
        ("deep", "e", 0.5, 1),
    ),
    "ties": (
        ("even", "p", 1.0, 1),
        ("even", "o", 1.0, 1),
        ("even", "n", 1.0, 2),
        ("even", "q", 1.0, 3),
    ),
    "duplicate_rankings": (("tied", "b", 3.5, None), ("tied", "b", 3.2, None)),
    "duplicate_labels": (("tied", "a", None, 3),),
    "negative_grades": (("tied", "t", None, -1),),
    "tied_scores": (("tied", "e", 0.5, 0),),
    "average": (("lost", "z", 0.5, 1),),
    "no_relevant": (("empty", "a", None, 0),),
    "identical_ids": (("tied", "tied", 5.0, None),),
    "recall_level": (
        ("deep", "a", 4.0, 1),
        ("deep", "b", 3.0, 0),
        ("deep", "c", 2.0, 1),
        ("deep", "d", 1.0, 1),
        ("deep", "e", None, 1),
    ),
    "average_over": (
        ("deep", "a", 4.0, None),
        ("deep", "b", 3.0, None),
        ("deep", "c", 2.0, None),
        ("deep", "d", 1.0, 1),
    ),
}
"""Rows more of one query, for the options that tell what becomes of them."""

SETTINGS = {"recall_level": "(recall=0.3)"}
"""What a metric is asked with for an option's choices to differ."""

EXAMPLES: Mapping[str, object] = {"table": {1: 1, 2: 2, 3: 5}, "number": 2}
"""What is tried for a choice that is no name."""

Row = tuple[str, str, float | None, float | None]
Told = tuple[str, ...] | str
"""The mean and the value of every query, or why a choice is refused."""


@dataclass(frozen=True)
class OptionExample:
    """An option's choices on the log.

    Attributes:
        measure: The metric in which the choices differ the most.
        log: The rows (query, item, score, grade).
        queries: The log's queries, in order.
        rows: Choice -> the mean and the value of every query as texts, or one text that
            says why the log is refused.
    """

    measure: Measure
    log: tuple[Row, ...]
    queries: tuple[str, ...]
    rows: Mapping[str, Told]


def tried(option: Option, preset: str) -> OptionExample:
    """Evaluate the log with every choice of an option, the other options as in a preset.

    Args:
        option: A value of `OPTIONS`.
        preset: A name of `PRESETS`.

    Returns:
        The example, without rows where no metric of the option fits the log.
    """
    log = _log(option)
    texts = [text for metric in listed() for text in _texts(option, metric)]
    if not texts:  # its metrics compare two systems, and the log is of one
        name = next(metric.name for metric in listed() if option.name in metric.settings)
        return OptionExample(parse(name), (), (), {})
    results = {
        str(value): _evaluated(log, texts, preset, option, value)
        for value in (value_of(option, choice) for choice in option.choices)
    }
    outcomes = {
        text: {value: result[text] for value, result in results.items()}
        for text in _preferred(texts)
    }
    best = max(outcomes, key=lambda text: _tells(outcomes[text]))
    return OptionExample(parse(best), log, _queries(log), outcomes[best])


def value_of(option: Option, choice: Choice) -> Value:
    """A choice's value: its name, or an example of what it stands for."""
    return read(option.name, EXAMPLES.get(choice.name, choice.name))


def _log(option: Option) -> tuple[Row, ...]:
    also = ALSO.get(option.name, ())
    of_it = [position for position, row in enumerate(LOG, start=1) if also and row[0] == also[0][0]]
    position = max(of_it, default=len(LOG))
    return LOG[:position] + also + LOG[position:]


def _queries(log: tuple[Row, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row[0] for row in log))


ITEMS = pa.Table.from_pylist(
    [
        {
            "item_id": item,
            "category": category,
            "popularity": popularity,
            "users": 8.0,
            "vector": vector,
        }
        for item, category, popularity, vector in (
            ("t", "red", 4.0, [1.0, 0.0]),
            ("tied", "red", 1.0, [1.0, 0.0]),
            ("a", "red", 2.0, [0.0, 1.0]),
            ("b", "red", 1.0, [3.0, 4.0]),
            ("c", "blue", 1.0, [1.0, 0.0]),
            ("d", "red", 1.0, [4.0, 3.0]),
            ("e", "blue", 1.0, [0.0, 2.0]),
            ("y", "red", 1.0, [1.0, 0.0]),
            ("z", "blue", 1.0, [1.0, 1.0]),
            ("zz", "blue", 1.0, [0.0, 1.0]),
            *((item, "red", 1.0, [1.0, 0.0]) for item in "nopq"),
        )
    ]
)
"""What is known of the log's ranked items."""


def _tables(log: tuple[Row, ...]) -> tuple[pa.Table, pa.Table]:
    """The rankings and the labels of the log."""
    names = ("query_id", "item_id", "score", "grade")
    rows = [dict(zip(names, row, strict=True)) for row in log]
    rankings = [row for row in rows if row["score"] is not None]
    labels = [row for row in rows if row["grade"] is not None]
    return (
        pa.Table.from_pylist(rankings).select(["query_id", "item_id", "score"]),
        pa.Table.from_pylist(labels).select(["query_id", "item_id", "grade"]),
    )


def _texts(option: Option, metric: Metric) -> Iterator[str]:
    """A metric that has the option, plain and with the gains that some choices need."""
    fits_log = {"baseline", "labels.group"}.isdisjoint(metric.needs)  # no systems, no groups
    if metric.pooled or not fits_log:  # nor values of queries
        return
    text = metric.name + SETTINGS.get(option.name, "")
    text = text if metric.cutoff == "none" else f"{text}@{CUTOFF}"
    if option.scope == "spec" or option.name in metric.settings:
        yield text
        if option.name != "gain" and "gain" in metric.options:
            yield text.replace("@", "(gain=binary)@")


def _spec(text: str, preset: str, conventions: Mapping[str, Value]) -> Spec:
    tables: dict[str, Any] = {name: {"relation": name} for name in ("rankings", "labels")}
    return Spec(**tables, metrics=[text], preset=preset, conventions=conventions)


def _preferred(texts: list[str]) -> list[str]:
    """The best known metric first: it is taken unless another tells more; those of items last."""
    return sorted(texts, key=lambda t: (not t.startswith("ndcg@"), bool(parse(t).metric.needs)))


def _evaluated(
    log: tuple[Row, ...], texts: list[str], preset: str, option: Option, value: Value
) -> dict[str, Told]:
    """What one choice gives, for each metric."""
    outcomes: dict[str, Told] = {}
    conventions: dict[str, Any] = {option.name: value}
    for text in texts:
        try:
            _spec(text, preset, conventions)
        except SpecError as error:
            outcomes[text] = f"refused: {error.problems[0]}"
    fitting = [text for text in texts if text not in outcomes]
    if not fitting:
        return outcomes
    try:
        result = evaluate(*_tables(log), fitting, preset=preset, items=ITEMS, **conventions)
    except InputError as error:
        return outcomes | dict.fromkeys(fitting, f"refused: {error.problems[0].splitlines()[0]}")
    return outcomes | {
        text: _values_of(_asked(text, result, option, value), result, option, _queries(log))
        for text in fitting
    }


def _asked(text: str, result: Result, option: Option, value: Value) -> Measure:
    """The metric of a text in a result; what makes another number stands in its name."""
    measure = result.spec.measure(text)
    return measure if measure in result.measures else measure.having(option.name, value)


def _values_of(
    measure: Measure, result: Result, option: Option, queries: tuple[str, ...]
) -> tuple[str, ...]:
    """The mean of a metric, and its value for each query."""
    digits = 5 if option.name == "rounding" else 4
    rows = {row["query_id"]: row[measure.column] for row in result.per_query().to_pylist()}
    means = {(row["metric"], row["k"]): row["value"] for row in result.to_dicts()}
    values = [means[measure.name, measure.k or 0], *map(rows.get, queries)]
    return tuple("-" if value is None else f"{value:.{digits}f}" for value in values)


def _tells(outcomes: Mapping[str, Told]) -> tuple[int, int]:
    """How well a metric shows the choices: how many it takes, and how many differ."""
    values = [row for row in outcomes.values() if not isinstance(row, str)]
    return len(set(values)), len(values)
