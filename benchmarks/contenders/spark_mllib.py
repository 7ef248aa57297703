"""Spark's own RankingMetrics: lists by SQL, then one pass over them a metric.

It knows relevant items alone, no grades, and no reciprocal rank.
"""

from __future__ import annotations

import logging

from pyspark.mllib.evaluation import RankingMetrics
from pyspark.sql import SparkSession

from benchmarks.contenders import THREADS
from benchmarks.data import Shape

LISTS = """
select ranked.items, relevant.items as wanted
from (
    select
        query_id,
        transform(
            array_sort(
                collect_list(struct(score, item_id)),
                (a, b) -> case
                    when a.score > b.score then -1
                    when a.score < b.score then 1
                    when a.item_id > b.item_id then -1
                    else 1
                end
            ),
            one -> one.item_id
        ) as items
    from {rankings}
    group by query_id
) as ranked
inner join (
    select query_id, collect_list(item_id) as items
    from {labels}
    where grade >= 1
    group by query_id
) as relevant
    on relevant.query_id = ranked.query_id
"""


def means(rankings: str, labels: str, shape: Shape) -> dict[str, float]:  # noqa: ARG001
    """The mean of each metric that it has."""
    builder = SparkSession.builder.master(f"local[{THREADS}]").appName("benchmark")
    settings = {
        "spark.driver.memory": "8g",
        "spark.sql.shuffle.partitions": THREADS * 4,
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    means = ranking_metrics(spark, f"parquet.`{rankings}`", f"parquet.`{labels}`")
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it tells that the connection ends
    java = spark.sparkContext._gateway.proc
    spark.stop()
    java.stdin.close()
    java.wait()  # so that its CPU seconds and its memory are counted as this process's
    return means


def ranking_metrics(spark: SparkSession, rankings: str, labels: str) -> dict[str, float]:
    """The means over two relations of Spark's SQL."""
    rows = spark.sql(LISTS.format(rankings=rankings, labels=labels)).rdd
    metrics = RankingMetrics(rows.map(tuple).cache())
    return {
        "precision@10": metrics.precisionAt(10),
        "recall@100": metrics.recallAt(100),
        "ap": metrics.meanAveragePrecision,
    }
