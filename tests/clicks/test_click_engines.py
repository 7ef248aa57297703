"""All that a click log tells, on every database that `run` writes to: what DuckDB tells of it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from job_days import CLICK_JOB, CLICK_TABLES, EXAMPLES, KEY, LATER, NUMBERS, click_log

import sqlmetrics as sm
from sqlmetrics.clicks.analysis.depth import depth
from sqlmetrics.clicks.analysis.experiment import soundness
from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.clicks.evaluate import evaluate_clicks
from sqlmetrics.clicks.models import click_models
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.engines.database import connect

METRICS = ["mrr", "ndcg@3", "ctr@3", *EXAMPLES]
POOL = {"pool": "query_item"}
WINDOW = {"window": {"end": "2026-01-04"}}
LATER_DAYS = {"start": "2026-01-04"}
LOGS: dict[str, dict[str, Any]] = {
    "own answers": {"ranked": {"relation": "ranked_lists"}},
    "expected clicks": {
        "labels": POOL | WINDOW | {"rate": "coec", "prior": 1.5, "quantiles": [0.5, 0.8]},
        "evaluation": LATER_DAYS,
    },
    "last clicks": {
        "labels": POOL | WINDOW | {"rate": "sdbn", "prior": 2},
        "evaluation": LATER_DAYS,
    },
    "purchases": {"labels": POOL | {"rate": "purchase_rate", "prior": 2, "cuts": [0.1, 0.3]}},
}


def tables() -> dict[str, pa.Table]:
    """The log, and what a ranker gave for its requests."""
    log, chance = click_log(1), random.Random(3)
    pairs = {(row["request_id"], row["item_id"]) for row in log["impressions"].to_pylist()}
    ranked = [
        {"request_id": request, "item_id": item, "score": float(chance.randrange(5))}
        for request, item in sorted(pairs)
    ]
    return {**log, "ranked_lists": pa.Table.from_pylist(ranked)}


def log_outputs(engine: Any, name: str) -> Mapping[Any, Any]:
    """The numbers of each metric, the judgments and the reports."""
    spec = sm.Spec(name="log", clicks=CLICK_JOB | LOGS[name], metrics=METRICS)
    assert spec.clicks is not None
    result = evaluate_clicks(spec, engine, confidence=0.95)
    outputs: dict[Any, Any] = {
        tuple(str(row[key]) for key in KEY): [row[name] for name in NUMBERS]
        for row in result.facts().to_pylist()
    }
    outputs |= {"cleaning": result.cleaning(), "findings": result.findings}
    with connect(engine) as opened, cleaned_log(spec.clicks, opened) as log:
        outputs["depth"] = repr(depth(log))
        curve = PropensityCurve.given({1: 1.0, 2: 0.5})
        for fit in click_models(log, curve=curve).fits:
            numbers = [
                (position.log_likelihood, position.perplexity) for position in fit.by_position
            ]
            outputs["models", fit.model] = [value for pair in numbers for value in pair]
        outputs["soundness"] = repr(soundness(log, ranked=spec.clicks.ranked))
        for row in log.judgments().to_pylist() if spec.clicks.labels.pools else ():
            outputs[row.pop("query_text"), row.pop("item_id")] = list(row.values())
    return outputs


def near(value: Any) -> Any:
    """A text as it is, numbers but for the last digits."""
    if isinstance(value, list):
        return list(map(near, value))
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


@cache
def wanted(name: str) -> Mapping[Any, Any]:
    with connect() as engine:
        for table, rows in tables().items():
            engine.load(table, rows)
        return log_outputs(engine, name)


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("writer", LATER)
def test_every_database_tells_the_same(writer: str, name: str, servers: Any) -> None:
    with servers.open(writer) as engine:
        for table, rows in tables().items():
            engine.load(table, rows)
        try:
            outputs = log_outputs(engine, name)
        finally:
            for table in (*CLICK_TABLES, "ranked_lists"):
                engine.execute(f"drop table {table}")
    assert outputs.keys() == wanted(name).keys()
    for key, value in wanted(name).items():
        assert outputs[key] == near(value), key
