"""Ranking, search and recommendation metrics computed inside the warehouse."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlmetrics.api import compile, evaluate
    from sqlmetrics.catalog.measure import parse
    from sqlmetrics.errors import EngineError, InputError, SpecError, SqlmetricsError
    from sqlmetrics.evaluation.report.result import Result
    from sqlmetrics.proof.reconcile.reconcile import reconcile
    from sqlmetrics.proof.ties import TieAudit, tie_audit
    from sqlmetrics.spec.spec import Spec

__version__ = "0.1.0"

__all__ = [
    "EngineError",
    "InputError",
    "Result",
    "Spec",
    "SpecError",
    "SqlmetricsError",
    "TieAudit",
    "compile",
    "evaluate",
    "parse",
    "reconcile",
    "tie_audit",
]

_HOMES = {
    "EngineError": "errors",
    "InputError": "errors",
    "Result": "result",
    "Spec": "spec",
    "SpecError": "errors",
    "SqlmetricsError": "errors",
    "TieAudit": "auditing.ties",
    "compile": "api",
    "evaluate": "api",
    "parse": "measure",
    "reconcile": "reconciling.reconcile",
    "tie_audit": "auditing.ties",
}


def __getattr__(name: str) -> Any:
    """Load a public name where it is first used: the command line starts fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sqlmetrics' has no attribute {name!r}")
    return getattr(import_module(f"sqlmetrics.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """What people use, for completion in notebooks."""
    return [*__all__, "__doc__", "__file__", "__version__"]
