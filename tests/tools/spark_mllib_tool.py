"""Spark's MLlib (RankingMetrics), on pairs of arrays: a pair for every query with a label.

It needs Java. A query's value is the mean of an RDD of one pair.
"""

from __future__ import annotations

import shutil
from functools import cache
from types import ModuleType

import pytest
from conftest import REQUIRED, peer

from tools import Labels, Lists, Values, cutoff, ordered, positives, version_of

NAMES = {
    "ndcg": "ndcgAt",
    "recall": "recallAt",
    "precision": "precisionAt",
    "ap": "meanAveragePrecisionAt",
}
metrics = {
    "ap": "meanAveragePrecision",
    **{f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (1, 3, 10)},
}


def version() -> str:
    return version_of("pyspark.mllib.evaluation", "pyspark")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    return {query: mean(lists, {query: labels[query]}, text) for query in labels}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    tool = peer("pyspark.mllib.evaluation")
    relevant = positives(labels)
    pairs = [(ordered(lists.get(query, {})), relevant.get(query, [])) for query in labels]
    found = getattr(tool.RankingMetrics(_spark(tool).parallelize(pairs, 1)), metrics[text])
    return float(found(cutoff(text)) if "@" in text else found)


@cache
def _spark(tool: ModuleType) -> object:
    if not shutil.which("java"):
        (pytest.fail if REQUIRED else pytest.skip)("pyspark needs java")
    session = peer("pyspark.sql").SparkSession.builder.master("local[1]")
    quiet = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    for name, value in quiet.items():
        session = session.config(name, value)
    return session.getOrCreate().sparkContext
