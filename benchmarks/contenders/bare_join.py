"""The yardstick: read the files, join them, add up two columns. No metric is less work."""

from __future__ import annotations

import duckdb

from benchmarks.contenders import THREADS
from benchmarks.data import Shape

SQL = """
select sum(rankings.score) as score, sum(labels.grade) as grade
from read_parquet($rankings) as rankings
left join read_parquet($labels) as labels
    on labels.query_id = rankings.query_id
        and labels.item_id = rankings.item_id
"""


def means(rankings: str, labels: str, shape: Shape) -> dict[str, float]:  # noqa: ARG001
    """The two sums."""
    connection = duckdb.connect(config={"threads": THREADS})
    files = {"rankings": rankings, "labels": labels}
    score, grade = connection.execute(SQL, files).fetchall()[0]
    return {"sum of scores": float(score), "sum of grades": float(grade)}
