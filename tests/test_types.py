"""What an editor knows: mypy passes a right script, and finds each mistake of a wrong one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

RIGHT = """
import sqlmetrics as sm

found = sm.compare(
    {"old": "old.run", "new": "new.run"},
    "qrels.txt",
    ["ndcg@10", "mrr"],
    gain="linear",
    unpaired=False,
    movers="lost:5",
    fail_on="worse",
    query="qid",
)
p: object = found["ndcg@10", "new"]["p_value"]
found.raise_if("unclear")
spec = sm.Spec.read("search.yml")
sm.check(spec, "duckdb:///shop.duckdb").raise_if()
diagnosis = sm.diagnose(spec, dates=["2026-01-01", "2026-01-02"], margin=0.02)
titles: list[str] = [finding.rule.title for finding in diagnosis]
sm.report("runs.parquet", "labels.parquet", "ndcg@10", rank="position").save("page.html")
result = sm.evaluate("runs.parquet", "labels.parquet", "ndcg@10", ties="average")
values: dict[str, float] = result.to_dict()
losses: int = len(sm.funnel("stages.parquet", "labels.parquet", rank="rank"))
"""

WRONG = """import sqlmetrics as sm
sm.compare("runs.parquet", "labels.parquet", "ndcg@10", gian="linear")
sm.compare("runs.parquet", "labels.parquet", "ndcg@10", nonsense=3)
sm.compare("runs.parquet", "labels.parquet", "ndcg@10", gain="linaer")
sm.compare("runs.parquet", "labels.parquet", "ndcg@10", fail_on="worst")
sm.diagnose("runs.parquet", "labels.parquet", bassline="prod")
sm.report("runs.parquet", "labels.parquet", quary="qid")
sm.evaluate("runs.parquet", "labels.parquet", "ndcg@10", ties="id")
sm.compare("runs.parquet", "labels.parquet", "mrr").raise_on("worse")
sm.check("search.yml", "duckdb:///shop.duckdb")
sm.compare("runs.parquet", "labels.parquet", "mrr")["mrr"].verdict
"""


@pytest.mark.long
def test_mypy_knows_arguments_and_results(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is in the extra dev")
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(WRONG)
    completed = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "right.py", "wrong.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"^(\w+)\.py:(\d+): error", completed.stdout, re.MULTILINE)
    mistakes = range(2, len(WRONG.splitlines()) + 1)
    assert errors == [("wrong", str(line)) for line in mistakes], (
        completed.stdout + completed.stderr
    )
    assert len(mistakes) == 10
