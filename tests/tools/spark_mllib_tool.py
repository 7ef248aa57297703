"""Spark's MLlib (RankingMetrics), on pairs of arrays: one for every query with a label or a list.

It needs Java.
"""

from __future__ import annotations

import atexit
import shutil
from ast import literal_eval
from functools import cache
from typing import Any

import pytest
from conftest import REQUIRED, peer
from engines.starting import SMALL

from tools import Labels, Lists, Values, cutoff, ordered, positives, version_of

NAMES = {
    "ndcg": "ndcgAt",
    "recall": "recallAt",
    "precision": "precisionAt",
    "ap": "meanAveragePrecisionAt",
}
metrics = {
    "ap": "meanAveragePrecision",
    **{f"{ours}@{k}": theirs for ours, theirs in NAMES.items() for k in (3, 10)},
}


def version() -> str:
    return version_of("pyspark.mllib.evaluation", "pyspark")


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """A query's value is what it adds to a mean of two: Python infers no type of an empty array."""
    alone = _mean([KNOWN_PAIR], text)
    pairs = _pairs(lists, labels)
    return {query: 2 * _mean([KNOWN_PAIR, pair], text) - alone for query, pair in pairs.items()}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    pairs = _pairs(lists, labels).values()
    return _mean(sorted(pairs, key=lambda pair: not all(pair)), text)


Pair = tuple[list[str], list[str]]
KNOWN_PAIR: Pair = (["known"], ["known"])


def _pairs(lists: Lists, labels: Labels) -> dict[str, Pair]:
    relevant = positives(labels)
    queries = [*labels, *(query for query in lists if query not in labels)]
    return {query: (ordered(lists.get(query, {})), relevant.get(query, [])) for query in queries}


def _mean(pairs: list[Pair], text: str) -> float:
    method = getattr(_ranking_metrics(repr(pairs)), metrics[text])
    return float(method(cutoff(text)) if "@" in text else method)


@cache
def _ranking_metrics(pairs: str) -> Any:
    """One for all metrics of the same pairs: making it takes longer than asking it."""
    tool = peer("pyspark.mllib.evaluation")
    return tool.RankingMetrics(_spark().parallelize(literal_eval(pairs), 1))


atexit.register(_ranking_metrics.cache_clear)  # before the gateway to Java closes


@cache
def _spark() -> Any:
    if not shutil.which("java"):
        (pytest.fail if REQUIRED else pytest.skip)("pyspark needs java")
    session = peer("pyspark.sql").SparkSession.builder.master("local[1]")
    for name, value in (SMALL | {"spark.log.level": "ERROR"}).items():
        session = session.config(name, value)
    return session.getOrCreate().sparkContext
