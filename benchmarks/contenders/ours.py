"""sqlmetrics as users call it, with linear gain as the others have it."""

from __future__ import annotations

import duckdb

from benchmarks.contenders import METRICS, THREADS
from sqlmetrics import evaluate


def means(rankings: str, labels: str, *, check: bool) -> dict[str, float]:
    """The mean of each metric."""
    connection = duckdb.connect(config={"threads": THREADS})
    result = evaluate(rankings, labels, METRICS, connection=connection, gain="linear", check=check)
    return {name: float(result[name]) for name in METRICS}  # type: ignore[arg-type]
