"""What there is: the catalogue, the options, the presets and the dialects, as tables."""

from __future__ import annotations

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import Metric, listed
from sqlmetrics.catalog.online import ONLINE
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.jobs.exports.formats import FORMATS
from sqlmetrics.sql.conformance import trust
from sqlmetrics.sql.dialects import DIALECTS

Listing = tuple[list[str], list[list[str]]]


def metrics() -> Listing:
    """One row per metric."""
    rows = [
        [
            *(_spelled(metric), metric.title, metric.range, metric.better, metric.unit),
            *(", ".join(metric.aliases), metric.formula),
        ]
        for metric in listed()
    ]
    return ["metric", "title", "range", "better", "unit", "aliases", "formula"], rows


def online() -> Listing:
    """One row per online metric, of click logs."""
    rows = [
        [f"{one.name}, {one.name}@k" if one.cut else one.name, one.better, one.unit, one.title]
        for one in ONLINE.values()
    ]
    return ["online metric", "better", "unit", "what it says"], rows


def options() -> Listing:
    """One row per value of an option, the house default first."""
    rows = []
    for option in OPTIONS.values():
        for i, choice in enumerate(option.choices):
            meaning = option.meaning if i == 0 else ""
            rows.append([option.name if i == 0 else "", choice.name, choice.meaning, meaning])
    return ["option", "value", "meaning", "about"], rows


def presets() -> Listing:
    """One row per preset: how it differs from the house preset."""
    rows = [
        [name, ", ".join(preset.departures) or "-", preset.note] for name, preset in PRESETS.items()
    ]
    return ["preset", "differs from house in", "reproduces"], rows


def dialects() -> Listing:
    """One row per dialect, with how far it can be trusted."""
    rows = []
    for one in DIALECTS.values():
        told = trust(one)
        run = told.run
        numbers = ["-", "-", "-", "-"]
        if run:
            numbers = [str(run), f"{run.compared:,}", f"{run.largest:.0e}"]
            numbers.append(f"{run.day} {run.commit}".strip() or "-")
        rows.append([one.name, one.title, told.how, *numbers])
    header = ["dialect", "of", "trust", "engine", "numbers compared", "largest difference"]
    return [*header, "last run"], rows


def exports() -> Listing:
    """One row per tool that a spec can be exported for."""
    rows = [
        [one.name, one.title, ", ".join(one.dialects), "yes" if one.executed else "no", one.about]
        for one in FORMATS.values()
    ]
    return ["export", "tool", "dialects", "run in tests", "what it gets"], rows


def _spelled(metric: Metric) -> str:
    return {
        "required": f"{metric.name}@k",
        "optional": f"{metric.name}, {metric.name}@k",
        "none": metric.name,
    }[metric.cutoff]
