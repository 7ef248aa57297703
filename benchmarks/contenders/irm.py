"""ir_measures from the files on, which it wants as data frames."""

from __future__ import annotations

from statistics import fmean

import ir_measures
import pandas as pd
from ir_measures import AP, RR, P, R, nDCG

from benchmarks.contenders import METRICS
from benchmarks.data import Shape

MEASURES = (nDCG @ 10, nDCG @ 100, R @ 100, P @ 10, RR, AP)


def read(rankings: str, labels: str, shape: Shape) -> tuple[list[pd.DataFrame], pd.DataFrame]:
    """The frame of each system, and that of the labels."""
    names = {"item_id": "doc_id"}
    run = pd.read_parquet(rankings).rename(columns=names)
    qrels = pd.read_parquet(labels).rename(columns={**names, "grade": "relevance"})
    runs = [rows for _, rows in run.groupby("system")] if shape.systems > 1 else [run]
    return runs, qrels


def means(
    runs: list[pd.DataFrame],
    qrels: pd.DataFrame,
    shape: Shape,  # noqa: ARG001
) -> dict[str, float]:
    """The mean of each metric, over the systems."""
    evaluator = ir_measures.evaluator(MEASURES, qrels)
    values = [evaluator.calc_aggregate(run) for run in runs]
    return {
        name: fmean(float(values_of_query[measure]) for values_of_query in values)
        for name, measure in zip(METRICS, MEASURES, strict=True)
    }
