"""Random tables of systems to compare, and how close numbers have to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, sin
from typing import Any

import pyarrow as pa
import pytest

import sqlmetrics as sm

N = 40
NEW = [round(0.5 + 0.4 * sin(i * 1.7), 6) for i in range(1, N + 1)]
OLD = [round(0.45 + 0.4 * sin(i * 1.7 + 0.5 * cos(i * 2.3)), 6) for i in range(1, N + 1)]
"""Values of 40 queries; what scipy 1.17 makes of them stands in the tests."""
Values = Sequence[float | None]


def tables(systems: Mapping[str, Values], **facts: Sequence[Any]) -> tuple[pa.Table, pa.Table]:
    """Rankings and labels whose cg@1 are these values: each list is one item of that grade.

    A query that a system has no value of has no list of it; it has one item of grade 0 in all
    lists, so that it counts. Facts are columns of the rankings, one value a query.
    """
    rankings, labels = [], []
    for system, values in systems.items():
        for number, value in enumerate(values):
            query_facts = {name: column[number] for name, column in facts.items()}
            query = query_facts.pop("query_id", f"q{number}")
            item = f"{system}{number}"
            if value is not None:
                labels.append({"query_id": query, "item_id": item, "grade": value})
                rankings.append(
                    {
                        "system": system,
                        "query_id": query,
                        "item_id": item,
                        "score": 1.0,
                        **query_facts,
                    }
                )
    return pa.Table.from_pylist(rankings), pa.Table.from_pylist(labels)


def compared(systems: Mapping[str, Values], **options: Any) -> sm.Comparison:
    facts = options.pop("facts", {})
    rankings, labels = tables(systems, **facts)
    options.setdefault("baseline", "old")
    return sm.compare(rankings, labels, options.pop("metrics", "cg@1"), **options)


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-12)


OTHER_ENGINES = ["sqlite", "postgres", "chdb", "spark"]
