"""ranx from the files on; its functions are compiled by numba when they are first called."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pandas as pd
from ranx import Qrels, Run, evaluate

from benchmarks.contenders import METRICS, THREADS
from benchmarks.data import Shape

NAMES = ("ndcg@10", "ndcg@100", "recall@100", "precision@10", "mrr", "map")
COLUMNS = {"q_id_col": "query_id", "doc_id_col": "item_id"}


def prepare(*, warm: bool) -> None:
    """Have everything compiled, if it shall be warm."""
    if warm:
        run = Run({"q": {"a": 2.0, "b": 1.0}})
        evaluate(Qrels({"q": {"a": 1, "c": 2}}), run, list(NAMES), threads=1)


def read(rankings: str, labels: str, shape: Shape) -> tuple[list[Run], Qrels]:
    """The run of each system, and the labels."""
    frame = _frame(rankings)
    frames = [rows for _, rows in frame.groupby("system")] if shape.systems > 1 else [frame]
    runs = [Run.from_df(rows, score_col="score", **COLUMNS) for rows in frames]
    return runs, Qrels.from_df(_frame(labels), score_col="grade", **COLUMNS)


def means(
    runs: list[Run],
    qrels: Qrels,
    shape: Shape,  # noqa: ARG001
    *,
    warm: bool,  # noqa: ARG001
) -> dict[str, float]:
    """The mean of each metric, over the systems."""
    several = [
        evaluate(qrels, run, list(NAMES), threads=THREADS, make_comparable=False) for run in runs
    ]
    return {
        metric: fmean(float(np.float64(values[name])) for values in several)
        for metric, name in zip(METRICS, NAMES, strict=True)
    }


def _frame(path: str) -> pd.DataFrame:
    """With ids as objects: ranx refuses the texts of pandas 3."""
    frame = pd.read_parquet(path).astype({"query_id": object, "item_id": object})
    return frame.astype({"grade": "int64"}) if "grade" in frame else frame
