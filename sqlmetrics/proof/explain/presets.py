"""A metric on one small data set under every preset: which tools agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.run import run
from sqlmetrics.spec.spec import Spec

LISTS = {
    "q1": {"a": 9, "z": 8, "c": 7, "x": 6, "b": 5},
    "q2": {"m": 5, "f": 5, "n": 5},
    "q3": {"p": 2, "g": 1},
    "q4": {"i": 2, "j": 1},
    "q6": {"a": 1},
}
"""Query -> item -> score, in input order. q2 is a tie, q3 shorter than 3, q6 not labelled."""

LABELS = {
    "q1": {"a": 3, "b": 2, "c": 1, "d": 1, "e": 1, "x": 0},
    "q2": {"f": 2},
    "q3": {"g": 1, "h": 1},
    "q4": {"i": 0},
    "q5": {"k1": 1},
}
"""Query -> item -> grade. q4 has nothing relevant, q5 no list."""

QUERIES = tuple(sorted({*LISTS, *LABELS}))

Values = tuple[float | None, ...]


@dataclass(frozen=True)
class Agreeing:
    """Presets that give the same numbers.

    Attributes:
        presets: Their names.
        values: The value for each of `QUERIES`; None where it is not counted.
        mean: The mean.
        n_queries: How many queries it is of.
    """

    presets: tuple[str, ...]
    values: Values
    mean: float | None
    n_queries: int


def agreeing(measure: Measure) -> Iterator[Agreeing | tuple[str, str]]:
    """The presets under which a metric gives other numbers, each group once.

    Yields:
        A group; or a preset's name and why the metric does not fit it.
    """
    groups: dict[tuple[Values, float | None, int], list[str]] = {}
    for preset in PRESETS:
        try:
            spec = _spec(measure, preset)
        except SpecError as error:
            yield preset, error.problems[0]
            continue
        groups.setdefault(_numbers(spec), []).append(preset)
    for (values, mean, count), presets in groups.items():
        yield Agreeing(tuple(presets), values, mean, count)


def _numbers(spec: Spec) -> tuple[Values, float | None, int]:
    with connect() as engine:
        result = run(spec, opened(spec, engine), engine, check=False)
    column = result.measures[0].column
    rows = {row["query_id"]: row[column] for row in result.per_query().to_pylist()}
    values = tuple(_same(rows.get(query)) for query in QUERIES)
    summary = result.to_dicts()
    if not summary:
        return values, None, 0
    return values, _same(summary[0]["value"]), summary[0]["n_queries"]


def _same(value: float | None) -> float | None:
    """Values that differ in their last bits alone are the same."""
    return None if value is None else round(value, 10)


def _spec(measure: Measure, preset: str) -> Spec:
    return Spec(
        name="toy",
        rankings={"data": _table(LISTS, "score")},
        labels={"data": _table(LABELS, "grade")},
        metrics=[measure.text],
        preset=preset,
    )


def _table(rows: dict[str, dict[str, int]], number: str) -> pa.Table:
    names = ["query_id", "item_id", number]
    flat = [(query, item, value) for query, items in rows.items() for item, value in items.items()]
    return pa.table(dict(zip(names, map(list, zip(*flat, strict=True)), strict=True)))
