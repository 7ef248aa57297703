"""The metrics of `examples/metrics`, on every engine: their examples, and plain Python beside."""

from __future__ import annotations

from typing import Any

from documentation import ROOT
from marked import by_turns

from sqlmetrics.catalog.metric_files import MetricFiles
from sqlmetrics.engines.database import Database
from sqlmetrics.proof.metric_proof import prove

FILES = MetricFiles.read(ROOT / "examples" / "metrics")


@by_turns(8)
def test_example_metrics_are_the_same_everywhere(engine: Any) -> None:
    outcomes = prove(FILES, FILES.metrics, Database(engine), python=True)
    assert [outcome for outcome in outcomes if outcome.fails] == []
    assert {outcome.example.name for outcome in outcomes if outcome.refusal} == {
        "an item twice",
        "a grade that is NULL",
    }
    worlds = [outcome for outcome in outcomes if outcome.example.is_random]
    assert {outcome.example.measure.metric.name for outcome in worlds} == {*FILES.metrics}
