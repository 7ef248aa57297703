"""From a click log to judgments and online metrics."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlmetrics.clicks.analysis.depth import depth
    from sqlmetrics.clicks.analysis.experiment import shown_vs_ranked, soundness
    from sqlmetrics.clicks.analysis.offline_online import offline_online
    from sqlmetrics.clicks.clean_log import clean
    from sqlmetrics.clicks.counterfactual.evaluate import counterfactual_metrics
    from sqlmetrics.clicks.interleaving import interleaving_outcome
    from sqlmetrics.clicks.models import click_models
    from sqlmetrics.clicks.propensity.curve import PropensityCurve
    from sqlmetrics.spec.click_log import Clicks

__all__ = [
    "Clicks",
    "PropensityCurve",
    "clean",
    "click_models",
    "counterfactual_metrics",
    "depth",
    "interleaving_outcome",
    "offline_online",
    "shown_vs_ranked",
    "soundness",
]

_HOMES = {
    "Clicks": "spec.click_log",
    "PropensityCurve": "clicks.propensity.curve",
    "clean": "clicks.clean_log",
    "click_models": "clicks.models",
    "counterfactual_metrics": "clicks.counterfactual.evaluate",
    "depth": "clicks.analysis.depth",
    "interleaving_outcome": "clicks.interleaving",
    "offline_online": "clicks.analysis.offline_online",
    "shown_vs_ranked": "clicks.analysis.experiment",
    "soundness": "clicks.analysis.experiment",
}


def __getattr__(name: str) -> Any:
    """Load a public name where it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'sqlmetrics.clicks' has no attribute {name!r}")
    return getattr(import_module(f"sqlmetrics.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """What people use, for completion in notebooks."""
    return [*__all__, "__doc__", "__file__"]
