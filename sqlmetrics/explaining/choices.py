"""An option's choices, tried one after the other on a small log in which they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlmetrics.api import evaluate
from sqlmetrics.catalog import Metric, listed
from sqlmetrics.conventions import read
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.measure import Measure
from sqlmetrics.option import Choice, Option, Value
from sqlmetrics.result import Result
from sqlmetrics.spec import Spec

CUTOFF = 3

LOG = (
    ("tied", "t", 3.0, None),
    ("tied", "b", 2.0, 3),
    ("tied", "a", 2.0, 1),
    ("tied", "c", 2.0, 0),
    ("tied", "g", None, 2),
    ("tied", "h", None, 1),
    ("close", "y", 1.0, 0),
    ("close", "z", 1.00000001, 2),
    ("bad", "a", 1.0, 0),
    ("lost", "a", 1.0, None),
    ("lost", "b", None, 2),
    ("silent", "a", None, 1),
    ("free", "a", 1.0, None),
)
"""Rows (query, item, score, grade): without a score it is not ranked, without a grade not
labelled. `tied` has equal scores, `close` has scores equal as 32-bit numbers, `bad` has no
relevant label, `lost` no hit, `silent` no list, `free` no label."""

ALSO = {
    "duplicate_rankings": ("tied", "t", 1.0, None),
    "duplicate_labels": ("tied", "a", None, 3),
    "equal_labels": ("tied", "d", 1.0, 1),
    "negative_grades": ("tied", "t", None, -1),
}
"""A row more, for the options that tell what becomes of it."""

EXAMPLES: Mapping[str, object] = {"table": {1: 1, 2: 2, 3: 5}, "number": 2}
"""What is tried for a choice that is no name."""

Row = tuple[str, str, float | None, float | None]


@dataclass(frozen=True)
class Tried:
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
    rows: Mapping[str, tuple[str, ...] | str]


def tried(option: Option, preset: str) -> Tried:
    """Evaluate the log with every choice of an option, the other options as in a preset.

    Args:
        option: A value of `OPTIONS`.
        preset: A name of `PRESETS`.
    """
    log = _log(option)
    texts = [text for metric in listed() for text in _fitting(option, metric, preset)]
    results = {
        str(value): _evaluated(log, texts, preset, option, value) for value in _values(option)
    }
    told = {text: _told(text, results, _queries(log)) for text in _preferred(texts)}
    best = max(told, key=lambda text: len(set(told[text].values())))
    return Tried(_measure(best, preset), log, _queries(log), told[best])


def value_of(option: Option, choice: Choice) -> Value:
    """A choice's value: its name, or an example of what it stands for."""
    return read(option.name, EXAMPLES.get(choice.name, choice.name))


def _values(option: Option) -> Iterator[Value]:
    return (value_of(option, choice) for choice in option.choices)


def _log(option: Option) -> tuple[Row, ...]:
    also = (ALSO[option.name],) if option.name in ALSO else ()
    at = max(i for i, row in enumerate(LOG) if row[0] == "tied") + 1
    return LOG[:at] + also + LOG[at:]


def _queries(log: tuple[Row, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row[0] for row in log))


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


def _fitting(option: Option, metric: Metric, preset: str) -> Iterator[str]:
    """The text of a metric that takes every choice of an option, and has values of queries."""
    if metric.pooled:
        return
    text = metric.name if metric.cutoff == "none" else f"{metric.name}@{CUTOFF}"
    if option.scope == "spec" or option.name in metric.settings:
        try:
            for value in _values(option):
                _spec(text, preset, {option.name: value})
        except SpecError:
            return
        yield text


def _spec(text: str, preset: str, conventions: Mapping[str, Value]) -> Spec:
    tables: dict[str, Any] = {name: {"relation": name} for name in ("rankings", "labels")}
    return Spec(**tables, metrics=[text], preset=preset, conventions=conventions)


def _measure(text: str, preset: str) -> Measure:
    return _spec(text, preset, {}).measures[0]


def _preferred(texts: list[str]) -> list[str]:
    """The best known metric first: it is taken unless another tells more."""
    return sorted(texts, key=lambda text: not text.startswith("ndcg@"))


def _evaluated(
    log: tuple[Row, ...], texts: list[str], preset: str, option: Option, value: Value
) -> Result | InputError:
    conventions: dict[str, Any] = {option.name: value}
    try:
        return evaluate(*_tables(log), texts, preset=preset, **conventions)
    except InputError as error:
        return error


def _told(
    text: str,
    results: Mapping[str, Result | InputError],
    queries: tuple[str, ...],
) -> dict[str, tuple[str, ...] | str]:
    """Choice -> what it gives for one metric."""
    told: dict[str, tuple[str, ...] | str] = {}
    for value, result in results.items():
        if isinstance(result, InputError):
            told[value] = f"refused: {result.problems[0].splitlines()[0]}"
            continue
        at = result.spec.metrics.index(text)
        column = result.measures[at].column
        rows = {row["query_id"]: row[column] for row in result.per_query().to_pylist()}
        mean = result.to_dicts()[at]["value"]
        told[value] = (_text(mean), *(_text(rows.get(query)) for query in queries))
    return told


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
