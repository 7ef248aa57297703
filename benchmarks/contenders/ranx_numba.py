"""ranx from the files on; its functions are compiled by numba when they are first called."""

from __future__ import annotations

import numpy as np
import pandas as pd
from ranx import Qrels, Run, evaluate

from benchmarks.contenders import METRICS

NAMES = ("ndcg@10", "ndcg@100", "recall@100", "precision@10", "mrr", "map")
COLUMNS = {"q_id_col": "query_id", "doc_id_col": "item_id"}


def prepare(*, warm: bool) -> None:
    """Have everything compiled, if it shall be warm."""
    if warm:
        run = Run({"q": {"a": 2.0, "b": 1.0}})
        evaluate(Qrels({"q": {"a": 1, "c": 2}}), run, list(NAMES), threads=1)


def means(rankings: str, labels: str, *, warm: bool) -> dict[str, float]:  # noqa: ARG001
    """The mean of each metric."""
    qrels = Qrels.from_df(_frame(labels), score_col="grade", **COLUMNS)
    run = Run.from_df(_frame(rankings), score_col="score", **COLUMNS)
    values = evaluate(qrels, run, list(NAMES), threads=2, make_comparable=False)
    return {
        metric: float(np.float64(values[name])) for metric, name in zip(METRICS, NAMES, strict=True)
    }


def _frame(path: str) -> pd.DataFrame:
    """With ids as objects: ranx refuses the texts of pandas 3."""
    frame = pd.read_parquet(path).astype({"query_id": object, "item_id": object})
    return frame.astype({"grade": "int64"}) if "grade" in frame else frame
