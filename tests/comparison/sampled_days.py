"""Comparisons between samples of days."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def of_days(values: dict[str, dict[int, float]], **facts: Any) -> tuple[pa.Table, pa.Table]:
    """Rankings and labels whose cg@1 are these values: day -> query -> value."""
    rankings, labels = [], []
    for day, query_values in values.items():
        for query, value in query_values.items():
            item = f"{day} {query}"
            labels.append({"query_id": query, "item_id": item, "grade": value})
            query_facts = {name: column[query] for name, column in facts.items()}
            row = {"ds": day, "query_id": query, "item_id": item, "score": 1.0}
            rankings.append(row | query_facts)
    return pa.Table.from_pylist(rankings), pa.Table.from_pylist(labels)
