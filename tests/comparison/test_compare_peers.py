"""Comparisons beside another tool's, on runs of TREC."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from conftest import peer

import sqlmetrics as sm

RUNS = ("InexpC2", "uic0301")
"""Runs that ranx orders by their scores alone; of pircRBa1 it shuffles four tied lists."""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_the_t_test_on_robust03_is_ranx_s(shared: Path, tmp_path: Path) -> None:
    ranx = peer("ranx")
    folder = shared / "robust03"
    for name in (*RUNS, "qrels"):
        with gzip.open(folder / f"{name}.txt.gz") as source, (tmp_path / name).open("wb") as target:
            shutil.copyfileobj(source, target)
    qrels = ranx.Qrels.from_file(str(tmp_path / "qrels"), kind="trec")
    runs = [ranx.Run.from_file(str(tmp_path / name), kind="trec") for name in RUNS]
    for run, name in zip(runs, RUNS, strict=True):
        run.name = name
    metrics = ["ndcg@10", "map", "mrr", "recall@100"]
    theirs = ranx.compare(qrels, runs, metrics, stat_test="student", make_comparable=True)
    comparison = sm.compare(
        {name: str(folder / f"{name}.txt.gz") for name in RUNS},
        str(folder / "qrels.txt.gz"),
        ["ndcg@10", "ap", "mrr", "recall@100"],
        preset="ranx",
        baseline=RUNS[0],
    )
    rows = {(row["system"], row["metric"]): row for row in comparison}
    names = {"ap": "map"}
    for (system, metric), row in rows.items():
        name = names.get(metric, metric)
        assert row["value"] == pytest.approx(theirs.results[system][name], abs=1e-9)
        their_comparison = theirs.comparisons[frozenset((RUNS[0], system))]
        assert row["p_value"] == pytest.approx(
            their_comparison[name]["p_value"], rel=1e-9, abs=1e-12
        )
    assert len(rows) == 4
