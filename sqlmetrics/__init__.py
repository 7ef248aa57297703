"""Ranking, search and recommendation metrics computed inside the warehouse.

>>> import pyarrow as pa
>>> import sqlmetrics as sm
>>> rankings = pa.table({"query_id": ["q", "q"], "item_id": ["a", "b"], "score": [2.0, 1.0]})
>>> labels = pa.table({"query_id": ["q"], "item_id": ["b"], "grade": [1]})
>>> sm.evaluate(rankings, labels, ["mrr", "hit@1"])["mrr"]
0.5
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlmetrics import clicks
    from sqlmetrics.agreement.agree import agree
    from sqlmetrics.agreement.agreement import Agreement
    from sqlmetrics.agreement.combine import Combination, combine
    from sqlmetrics.api import check, compile, explain, run, validate, verify
    from sqlmetrics.catalog.measure import parse
    from sqlmetrics.clicks.evaluate import evaluate_clicks
    from sqlmetrics.clicks.simulation import simulate
    from sqlmetrics.comparison.compare import compare
    from sqlmetrics.comparison.diagnosis.diagnosis import Diagnosis, diagnose
    from sqlmetrics.comparison.foretell import ProxyMetrics, foretell
    from sqlmetrics.comparison.funnel.funnel import Funnel, funnel
    from sqlmetrics.comparison.leaderboard.board import Leaderboard
    from sqlmetrics.comparison.leaderboard.leaderboard import leaderboard
    from sqlmetrics.comparison.online.experiment import experiment
    from sqlmetrics.comparison.page.report import Report
    from sqlmetrics.comparison.page.sources import report
    from sqlmetrics.comparison.query_explanation import QueryExplanation, explain_query
    from sqlmetrics.comparison.report import Comparison
    from sqlmetrics.comparison.stored_comparison import compare_stored
    from sqlmetrics.comparison.track.track import Track, track
    from sqlmetrics.engines.database import connect
    from sqlmetrics.errors import (
        CheckError,
        EngineError,
        InputError,
        NoDataError,
        SpecError,
        SqlmetricsError,
    )
    from sqlmetrics.evaluation.abstention import Abstention, abstention
    from sqlmetrics.evaluation.evaluate import evaluate
    from sqlmetrics.evaluation.report.result import Result
    from sqlmetrics.evaluation.streaming.metric import StreamingMetric
    from sqlmetrics.fusion.fuse import Fusion, fuse
    from sqlmetrics.fusion.sweep import fuse_sweep
    from sqlmetrics.fusion.sweep_result import Sweep
    from sqlmetrics.jobs.exports.formats import export
    from sqlmetrics.jobs.reading import StoredMetrics, query_metrics
    from sqlmetrics.proof.reconcile.reconcile import reconcile
    from sqlmetrics.proof.ties import TieAudit, tie_audit
    from sqlmetrics.spec.spec import Spec

__version__ = "0.1.0"

__all__ = [
    "Abstention",
    "Agreement",
    "CheckError",
    "Combination",
    "Comparison",
    "Diagnosis",
    "EngineError",
    "Funnel",
    "Fusion",
    "InputError",
    "Leaderboard",
    "NoDataError",
    "ProxyMetrics",
    "QueryExplanation",
    "Report",
    "Result",
    "Spec",
    "SpecError",
    "SqlmetricsError",
    "StoredMetrics",
    "StreamingMetric",
    "Sweep",
    "TieAudit",
    "Track",
    "abstention",
    "agree",
    "check",
    "clicks",
    "combine",
    "compare",
    "compare_stored",
    "compile",
    "connect",
    "diagnose",
    "evaluate",
    "evaluate_clicks",
    "experiment",
    "explain",
    "explain_query",
    "export",
    "foretell",
    "funnel",
    "fuse",
    "fuse_sweep",
    "leaderboard",
    "parse",
    "query_metrics",
    "reconcile",
    "report",
    "run",
    "simulate",
    "tie_audit",
    "track",
    "validate",
    "verify",
]

_HOMES = {
    "Abstention": "evaluation.abstention",
    "Agreement": "agreement.agreement",
    "CheckError": "errors",
    "Combination": "agreement.combine",
    "Comparison": "comparison.report",
    "Diagnosis": "comparison.diagnosis.diagnosis",
    "EngineError": "errors",
    "Funnel": "comparison.funnel.funnel",
    "Fusion": "fusion.fuse",
    "InputError": "errors",
    "Leaderboard": "comparison.leaderboard.board",
    "NoDataError": "errors",
    "ProxyMetrics": "comparison.foretell",
    "QueryExplanation": "comparison.query_explanation",
    "Report": "comparison.page.report",
    "Result": "evaluation.report.result",
    "Spec": "spec.spec",
    "SpecError": "errors",
    "SqlmetricsError": "errors",
    "StoredMetrics": "jobs.reading",
    "StreamingMetric": "evaluation.streaming.metric",
    "Sweep": "fusion.sweep_result",
    "TieAudit": "proof.ties",
    "Track": "comparison.track.track",
    "abstention": "evaluation.abstention",
    "agree": "agreement.agree",
    "combine": "agreement.combine",
    "compare": "comparison.compare",
    "compare_stored": "comparison.stored_comparison",
    "connect": "engines.database",
    "diagnose": "comparison.diagnosis.diagnosis",
    "evaluate": "evaluation.evaluate",
    "evaluate_clicks": "clicks.evaluate",
    "experiment": "comparison.online.experiment",
    "explain_query": "comparison.query_explanation",
    "export": "jobs.exports.formats",
    "foretell": "comparison.foretell",
    "funnel": "comparison.funnel.funnel",
    "fuse": "fusion.fuse",
    "fuse_sweep": "fusion.sweep",
    "leaderboard": "comparison.leaderboard.leaderboard",
    "parse": "catalog.measure",
    "query_metrics": "jobs.reading",
    "reconcile": "proof.reconcile.reconcile",
    "report": "comparison.page.sources",
    "simulate": "clicks.simulation",
    "tie_audit": "proof.ties",
    "track": "comparison.track.track",
}
"""Public name -> its module; `api` has the others."""


def __getattr__(name: str) -> Any:
    """Load a public name where it is first used: the command line starts fast."""
    if name == "clicks":
        return import_module("sqlmetrics.clicks")
    if name not in __all__:
        raise AttributeError(f"module 'sqlmetrics' has no attribute {name!r}")
    return getattr(import_module(f"sqlmetrics.{_HOMES.get(name, 'api')}"), name)


def __dir__() -> list[str]:
    """What people use, for completion in notebooks."""
    return [*__all__, "__doc__", "__file__", "__version__"]
