"""Which columns of a click log decide the numbers of a job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlmetrics.catalog.online import Online, online
from sqlmetrics.clicks import ubi
from sqlmetrics.spec.click_columns import CLICK, PURCHASE
from sqlmetrics.spec.click_log import NEEDS, QUERY_TEXT, Clicks
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.user_sql import condition_columns

SourceColumn = tuple[Source, str]
"""A source of a spec, and a column of it."""

ColumnsByName = Mapping[str, list[SourceColumn]]
"""A column of the output, or of a metric -> what it reads."""

_UBI = {
    "request": "query_id",
    "query": "user_query",
    "item": "event_attributes",
    "position": "event_attributes",
    "action": "action_name",
    "user": "client_id",
    "time": "timestamp",
}
"""Role -> the column that has it in User Behavior Insights."""

_ROLES = {
    "requests": ["results"],
    "visit": ["time", "query", "session", "user"],
    "timed session": ["time", "session"],
}
"""What a metric needs of a log -> the roles of its columns, where they are called otherwise."""

_SHOWN = ("request", "query", "item", "position", "action")
"""Roles that decide what was shown, and what was done with it."""


def source_columns(source: Source | None, roles: Iterable[str]) -> list[SourceColumn]:
    """The columns of a source that have these roles, as far as it has them.

    Args:
        source: Of a spec; None for one that it has not.
        roles: Like `query` and `item`.
    """
    if source is None:
        return []
    names = [getattr(source.columns, role, None) for role in roles]
    return [(source, str(name)) for name in names if name]


def log_columns(spec: Spec) -> tuple[ColumnsByName, ColumnsByName]:
    """What the keys and the metrics of a click log read.

    Args:
        spec: With a click log.

    Returns:
        Those of `metric_date`, `system` and `query_id`, and those of each metric.
    """
    clicks = spec.clicks
    if clicks is None:
        return {}, {}
    key_roles = {"metric_date": ["time", "day"] if clicks.daily else []}
    key_roles |= {"system": ["system"], "query_id": ["request"]}
    keys = {
        column: [*_of_log(clicks, roles, without=_joined(clicks))]
        for column, roles in key_roles.items()
    }
    judged = _judged_actions(clicks)
    curves = [*_of_propensities(spec, clicks)]
    judging_curves = curves if clicks.labels.corrects else []
    by_metric = {
        measure.column: [
            *_metric(clicks, judged, ["query"] * clicks.labels.pools),
            *judging_curves,
        ]
        for measure in spec.measures
    }
    for text in spec.online:
        metric = online(text)
        by_metric[metric.column] = [*_metric(clicks, *_online(clicks, metric))]
    unshown = clicks.counterfactual
    if unshown is not None:
        scores = ["propensity_score", "list_propensity_score"]
        roles = ["query", "item", "order", "position", "probability"]
        lists = source_columns(unshown.source, roles)
        weighed = [] if unshown.policy else curves
        estimated = [*_metric(clicks, [CLICK], ["query", *scores]), *weighed, *lists]
        by_metric |= {metric.column: estimated for metric in spec.estimated}
    return keys, by_metric


def _joined(clicks: Clicks) -> Sequence[str]:
    """The tables whose rows only meet those of requests: they decide no key."""
    return ["events"] if clicks.impressions is not None and clicks.format != "ubi" else []


def _of_propensities(spec: Spec, clicks: Clicks) -> Iterator[SourceColumn]:
    """What tells one curve of propensities from another, and which lists stood in random order."""
    yield from log_segment(spec, clicks.propensity.by or "")
    log = clicks.log or clicks.impressions
    if log is not None:
        yield from ((log, name) for name in condition_columns(clicks.propensity.randomised))


def log_segment(spec: Spec, name: str) -> Iterator[SourceColumn]:
    """What a segment of a click log reads.

    Args:
        spec: With a click log.
        name: A column, or `query_text`.
    """
    clicks = spec.clicks
    if clicks is not None and name == QUERY_TEXT:
        yield from _of_log(clicks, ["query"])
    elif clicks is not None:
        for source in clicks.sources.values():
            user = getattr(source.columns, "user", None)
            if name in (*getattr(source.columns, "segments", ()), user):
                yield source, name


def _judged_actions(clicks: Clicks) -> Sequence[str]:
    """The actions that make labels."""
    if not clicks.labels.pools:
        return [*clicks.labels.grades]
    return [PURCHASE if clicks.labels.rate == "purchase_rate" else CLICK]


def _online(clicks: Clicks, metric: Online) -> tuple[Sequence[str], Sequence[str]]:
    """The actions and the further roles that a metric of the log itself reads."""
    actions = [CLICK] if metric.of_clicks else []
    actions += [PURCHASE] if metric.of_purchases else []
    actions += [metric.action] if metric.action else []
    actions += clicks.success_actions if metric.of_success else []
    needs = metric.metric.needs
    return actions, _ROLES.get(needs, [needs] if needs else [])


def _metric(clicks: Clicks, actions: Sequence[str], roles: Sequence[str]) -> Iterator[SourceColumn]:
    """What decides a metric: what was shown and done, and what the cleaning looks at."""
    cleaning = clicks.cleaning
    cleaned = [role for name, needed in NEEDS.items() if getattr(cleaning, name) for role in needed]
    dated = ["time"] * bool(clicks.evaluation or clicks.labels.window)
    wanted = dict.fromkeys([*_SHOWN[:1], *_SHOWN[2:], *roles, *cleaned, *dated])
    yield from _of_log(clicks, wanted)
    if clicks.log is not None:
        done = clicks.log.columns.done
        looked_at = dict.fromkeys([*actions, *[CLICK] * (cleaning.unseen is not None)])
        yield from ((clicks.log, done[action]) for action in looked_at if action in done)


def _of_log(
    clicks: Clicks, roles: Iterable[str], without: Sequence[str] = ()
) -> Iterator[SourceColumn]:
    """The columns of all its tables, but for some, that have these roles."""
    for name, source in clicks.sources.items():
        if name in without:
            continue
        if clicks.format != "ubi":
            yield from source_columns(source, roles)
        else:
            columns = dict.fromkeys(_UBI.get(role, "") for role in roles)
            log_columns = [*ubi.COLUMNS[name], *[ubi.HITS] * (clicks.lists_from == "hit_ids")]
            yield from ((source, column) for column in columns if column in log_columns)
