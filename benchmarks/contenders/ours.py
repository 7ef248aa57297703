"""sqlmetrics as users call it, with linear gain as the others have it."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from typing import Any

import duckdb

from benchmarks.contenders import METRICS, THREADS
from benchmarks.data import Shape
from sqlmetrics import evaluate


def means(rankings: str, labels: str, shape: Shape, *, check: bool) -> dict[str, float]:
    """The mean of each metric, over the systems if there are several."""
    connection = duckdb.connect(config={"threads": THREADS})
    options: dict[str, Any] = {"gain": "linear", "check": check, "connection": connection}
    if shape.tied:
        options["ties"] = "id_desc"
    if shape.systems > 1:
        options["system"] = "system"
    result = evaluate(rankings, labels, METRICS, per_query=False, **options)
    values = defaultdict(list)
    for row in result.to_dicts():
        name = f"{row['metric']}@{row['k']}" if row["k"] else row["metric"]
        values[name].append(row["value"])
    return {name: fmean(values[name]) for name in METRICS}
