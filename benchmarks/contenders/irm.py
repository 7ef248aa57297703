"""ir_measures from the files on, which it wants as data frames."""

from __future__ import annotations

import ir_measures
import pandas as pd
from ir_measures import AP, RR, P, R, nDCG

from benchmarks.contenders import METRICS

MEASURES = (nDCG @ 10, nDCG @ 100, R @ 100, P @ 10, RR, AP)


def means(rankings: str, labels: str) -> dict[str, float]:
    """The mean of each metric."""
    names = {"item_id": "doc_id"}
    run = pd.read_parquet(rankings).rename(columns=names)
    qrels = pd.read_parquet(labels).rename(columns={**names, "grade": "relevance"})
    values = ir_measures.calc_aggregate(MEASURES, qrels, run)
    return {name: float(values[one]) for name, one in zip(METRICS, MEASURES, strict=True)}
