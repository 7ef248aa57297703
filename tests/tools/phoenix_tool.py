"""Phoenix: `RetrievalMetrics` of the evaluation scores of a list.

Its module needs NumPy and pandas, its package a server: the file is read alone, and
`pip install --no-deps arize-phoenix` is enough.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from functools import cache
from importlib import metadata
from typing import Any

import pytest
from conftest import REQUIRED

from tools import Labels, Lists, Values, average, cutoff, ordered

metrics = {f"{ours}@{k}": ours for ours in ("ndcg", "precision") for k in (1, 3, 10)} | {
    "ndcg": "ndcg",
    "mrr": "reciprocal_rank",
}


def version() -> str:
    _module()
    return f"arize-phoenix {metadata.version('arize-phoenix')}"


def per_query(lists: Lists, labels: Labels, text: str) -> Values:
    """What was not evaluated is given as NaN, and NaN is what Phoenix has no value for."""
    tool, values = _module(), {}
    for query, scores in lists.items():
        graded = labels.get(query, {})
        retrieval = tool.RetrievalMetrics(
            float(graded.get(item, math.nan)) for item in ordered(scores)
        )
        arguments = [cutoff(text)] if "@" in text else []
        values[query] = float(getattr(retrieval, metrics[text])(*arguments))
    return {query: value for query, value in values.items() if not math.isnan(value)}


def mean(lists: Lists, labels: Labels, text: str) -> float:
    """The mean that pandas makes leaves NaN out."""
    return average(per_query(lists, labels, text))


@cache
def _module() -> Any:
    try:
        path = next(
            file
            for file in metadata.files("arize-phoenix") or ()
            if file.name == "retrieval_metrics.py"
        )
    except (metadata.PackageNotFoundError, StopIteration):
        (pytest.fail if REQUIRED else pytest.skip)("could not import 'phoenix'")
    spec = importlib.util.spec_from_file_location("retrieval_metrics", path.locate())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its data class looks itself up
    spec.loader.exec_module(module)
    return module
