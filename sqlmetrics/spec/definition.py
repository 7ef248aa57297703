"""What a definition is: all that a spec says that decides a metric's numbers, the data apart.

The data is where the tables are, which columns they have and what these are called; jobs.sources
compares that. What came into definitions later has no part in a hash while it has its default: a
table that is there keeps its definitions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.counterfactual import EstimatedMetric
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.online import Online
from sqlmetrics.catalog.option import GainTable
from sqlmetrics.sql.user_sql import spelled_alike
from sqlmetrics.stats import CONFIDENCE

if TYPE_CHECKING:
    from sqlmetrics.spec.click_log import Clicks
    from sqlmetrics.spec.source import Source
    from sqlmetrics.spec.spec import Spec

AnyMeasure = Measure | Online | EstimatedMetric
"""Whatever a spec can ask for."""

ALL = "all"
"""The segment of all queries."""

MEANINGS: Mapping[str, int] = {}
"""Metric -> how often a release has changed a number of it that the same spec gives for the same
data, 1 more each time. A raised number is another definition: old days are not continued."""

_DATED = ("rankings", "labels", "queries")
"""The tables that may have days."""


def definition(spec: Spec, metric: AnyMeasure, segment: str = ALL) -> dict[str, Any]:
    """All that decides the numbers of a metric in a segment, by name, as JSON has it."""
    conventions = {
        name: str(value) if isinstance(value, GainTable) else value
        for name, value in _conventions(spec, metric).items()
    }
    log = {"clicks": json.loads(_of_log(spec.clicks))} if spec.clicks else {}
    return {**dict(sorted(conventions.items())), **log, **_later(spec, metric, segment)}


def definition_hash(spec: Spec, metric: AnyMeasure, segment: str = ALL) -> str:
    """A short hash of the same."""
    return _hash(spec, metric, _later(spec, metric, segment))


def _hash(spec: Spec, metric: AnyMeasure, later: Mapping[str, Any]) -> str:
    log = _of_log(spec.clicks) if spec.clicks else ""
    if isinstance(metric, Online):
        text = f"{metric} {log}"
    elif isinstance(metric, EstimatedMetric):
        early = {"clicks": json.loads(log)} if log else {}
        text = json.dumps({**_conventions(spec, metric), **early}, sort_keys=True)
    else:
        settings = _conventions(spec, metric) | ({"clicks": log} if log else {})
        text = f"{metric.metric.name}@{metric.k} {sorted(settings.items())}"
    if later:
        text += f" {json.dumps(later, sort_keys=True)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _conventions(spec: Spec, metric: AnyMeasure) -> dict[str, Any]:
    """The conventions and parameters of a metric."""
    if isinstance(metric, Online):
        return {}
    if isinstance(metric, EstimatedMetric):
        return _of_estimate(spec.clicks, metric) if spec.clicks else {}
    return _of_lists(spec, metric)


def _of_lists(spec: Spec, measure: Measure) -> dict[str, object]:
    settings, names = spec.settings(measure), measure.metric.parameters
    numbers: dict[str, object] = {
        name: float(settings.parameter(name)) for name in names if settings.reads(name)
    }
    decided = numbers | {
        name: settings[name]
        for name, option in OPTIONS.items()
        if (option.scope == "spec" or name in measure.metric.settings)
        and option.defines(settings[name])
    }
    if not measure.metric.micro and decided.get("average") == "macro":
        del decided["average"]  # tables were written before it could be anything else
    if measure.metric.arithmetic:
        decided["formula"] = measure.metric.formula
        decided["components"] = {
            str(component): _of_lists(spec, component) for component in measure.components
        }
    if measure.metric.template:
        decided["file"] = measure.metric.digest
    if measure.metric.operand:
        decided["column"] = measure.metric.operands[0]
    if "baseline" in measure.metric.needs:
        decided["baseline"] = spec.baseline
    zones = {name: getattr(spec, name).time_zone for name in _DATED if getattr(spec, name)}
    if any(zones.values()):
        decided["time_zone"] = sorted((name, zone or "") for name, zone in zones.items())
    return decided


def _of_estimate(clicks: Clicks, metric: EstimatedMetric) -> dict[str, Any]:
    """Of a ranking or policy that was not shown: the propensities too."""
    counterfactual = clicks.counterfactual
    if counterfactual is None:
        return {}
    # the weights have a clip of their own
    of_lists = clicks.propensity.model_dump(
        mode="json", include=clicks.propensity.decides - {"max_weight"}
    )
    propensity = of_lists if counterfactual.weighs_positions else {"method": "logged"}
    return {**counterfactual.decides(metric), "propensity": propensity}


def _of_log(clicks: Clicks) -> str:
    """How a click log is cleaned, and what is a label, as JSON."""
    later = {
        **({"cleaning": {"bots_of"}} if clicks.cleaning.bots_of == "log" else {}),
        **({"labels": {"max_rank"}} if clicks.labels.max_rank is None else {}),
    }
    decides: dict[str, Any] = dict.fromkeys(("format", "cleaning", "labels", "evaluation"), True)
    if clicks.success_actions != type(clicks).model_fields["success_actions"].default:
        decides["success_actions"] = True
    if clicks.zone:
        decides["time_zone"] = True
    if clicks.labels.corrects:
        decides["propensity"] = clicks.propensity.decides
    return clicks.model_dump_json(include=decides, exclude=later)


def _later(spec: Spec, metric: AnyMeasure, segment: str) -> dict[str, Any]:
    """What conventions do not say, as far as it is not its default."""
    is_of_lists = isinstance(metric, Measure)
    tables = dict(_read_by(spec, metric))
    settings: dict[str, Any] = {
        "where": {name: table.where for name, table in tables.items() if table.where is not None},
        "sql": {name: spelled_alike(table.sql) for name, table in tables.items() if table.sql},
        "meaning": MEANINGS.get(metric.metric.name, 0),
    }
    settings["log"] = _of_positions(spec.clicks) if spec.clicks else {}
    if is_of_lists:
        settings |= {
            "grades": {text: float(grade) for text, grade in spec.truth.grades.items()},
            "weight": dict(_weights(spec)),
            "group": spec.truth.columns.group,
            "cluster": spec.cluster,
            "fuse": {system.name: system.definition for system in spec.rankings.fuse},
        }
    if spec.confidence != CONFIDENCE:
        settings["confidence"] = spec.confidence
    settings["segment"] = spec.segments.get(segment)
    return {name: value for name, value in settings.items() if value}


def sources_of(spec: Spec) -> dict[str, Source]:
    """Role -> the table that a spec reads in it."""
    source_by_role: dict[str, Source | None] = {"rankings": spec.rankings, "labels": spec.labels}
    if spec.clicks is not None:
        counterfactual = spec.clicks.counterfactual
        source_by_role = {
            **spec.clicks.sources,
            "counterfactual": counterfactual.source if counterfactual else None,
        }
    source_by_role |= {"queries": spec.queries, "items": spec.items}
    return {role: source for role, source in source_by_role.items() if source is not None}


def _read_by(spec: Spec, metric: AnyMeasure) -> Iterator[tuple[str, Source]]:
    """The tables that decide a metric, by their roles."""
    for role, source in sorted(sources_of(spec).items()):
        needs = spec.needs(metric) if isinstance(metric, Measure) else ()
        needs_items = any(need.startswith("items") for need in needs)
        is_estimated = isinstance(metric, EstimatedMetric)
        if {"items": needs_items, "counterfactual": is_estimated}.get(role, True):
            yield role, source


def _weights(spec: Spec) -> Iterator[tuple[str, str]]:
    """Table -> its column of weights: without one each query counts alike."""
    for name, table in (("rankings", spec.rankings), ("queries", spec.queries)):
        if table is not None and table.columns.weight is not None:
            yield name, table.columns.weight


def _of_positions(clicks: Clicks) -> dict[str, Any]:
    """What a log's lists are made of, and where they begin."""
    settings: dict[str, Any] = {
        f"{name}.first_position": source.first_position
        for name, source in (("impressions", clicks.impressions), ("log", clicks.log))
        if source is not None and source.first_position != 1
    }
    return settings | ({"lists_from": clicks.lists_from} if clicks.lists_from else {})
