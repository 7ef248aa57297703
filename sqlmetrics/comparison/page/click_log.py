"""A report's content from a click log: cleaned, with labels, offline beside online."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlmetrics.catalog.direction import SIGNS
from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.online import online
from sqlmetrics.clicks.analysis.depth import depth
from sqlmetrics.clicks.analysis.offline_online import offline_online
from sqlmetrics.clicks.clean_log import CleanLog, cleaned_log
from sqlmetrics.clicks.evaluate import counted, online_rows
from sqlmetrics.clicks.result import ClickResult
from sqlmetrics.comparison.diagnosis.log_numbers import LogNumbers, numbers_of
from sqlmetrics.comparison.findings import decide
from sqlmetrics.comparison.inference.estimate import TStatistic
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.page.content import ALL, Content, Log, Row
from sqlmetrics.comparison.page.evaluation import conventions_of
from sqlmetrics.comparison.page.means import pooled
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.run import run
from sqlmetrics.jobs.days import on_days
from sqlmetrics.spec.named_values import named_in
from sqlmetrics.spec.spec import Spec


def logged(spec: Spec, asks: Options, engine: Database, *, check: bool = True) -> Content:
    """The content of a report of a click log.

    Args:
        spec: A spec with `clicks`.
        asks: What is asked of the comparison of its systems.
        engine: Where the log is.
        check: Whether to look for bad input first.

    Raises:
        SqlmetricsError: As `evaluate_clicks` does.
    """
    asked = on_days(spec, asks.days).spec
    if asked.clicks is None:
        raise ValueError("a spec without clicks has no log")
    clicks = asked.clicks.model_copy(update={"daily": True})
    daily = asked.having(clicks=clicks, rankings=None, labels=None)
    with cleaned_log(clicks, engine, names=named_in(daily)) as log:
        result, moved = _evaluated(log, daily, asks, check=check)
        content = of_click_result(result, asks.level)
        if len(content.dates()) > 1 and spec.online:
            tables = replace(log.tables, clicks=clicks.model_copy(update={"daily": False}))
            whole = [*online_rows(replace(log, tables=tables), daily, asks.level)]
            content = replace(content, log=replace(content.log or Log(), online=whole))
        looked = depth(log, title=spec.title)
    positions = [vars(one) for one in looked.positions if one.system is not None]
    content = replace(
        content,
        margin=asks.margin,
        log=replace(content.log or Log(), positions=positions),
        notes=(*content.notes, *(f"{what}: {n:,}" for what, n in result.findings.items())),
    )
    if isinstance(moved, SqlmetricsError):
        return replace(content, notes=(*content.notes, str(moved)))
    return _moved(content, moved, asks) if moved and len(content.systems) > 1 else content


def _evaluated(
    log: CleanLog, spec: Spec, asks: Options, *, check: bool
) -> tuple[ClickResult, LogNumbers | SqlmetricsError | None]:
    """The result of a log, and how its systems moved, or why nobody can say."""
    result = counted(log, spec, asks.level)
    if not spec.metrics:
        return result, None
    own = replace(asks, metrics=spec.metrics)
    try:
        found = numbers_of(log, spec, own, check=check, confidence=asks.level)
    except SqlmetricsError as error:
        with log.views() as shown:
            tables = replace(opened(spec, log.engine), shown_lists=shown)
            offline = run(
                spec, tables, log.engine, check=check, per_query=False, confidence=asks.level
            )
        return replace(result, offline=offline), error
    return replace(result, offline=found.result), found


def _moved(content: Content, found: LogNumbers, asks: Options) -> Content:
    """With how far systems are apart from a baseline; requests have one system each."""
    rows: list[Row] = [
        _row(content, found, (system, baseline), metric, row)
        for (system, baseline), metrics in found.moved.items()
        for metric, row in metrics.items()
    ]
    order = {one: place for place, one in enumerate(content.metrics)}
    rows.sort(key=lambda row: order.get(row["metric"], len(order)))
    decide(rows, asks)
    if not rows:
        return content
    baseline = rows[0]["baseline"]
    others = [one for one in content.systems if one != baseline]
    main = max(
        (row for row in rows if row["metric"] == content.first),
        key=lambda row: (row["difference"] or 0.0) * (row["direction"] or 1),
        default=rows[0],
    )["system"]
    metrics = tuple(dict.fromkeys(row["metric"] for row in rows))
    return replace(
        content,
        rows=rows,
        baseline=baseline,
        main=main,
        systems=(baseline, *others),
        metrics=(content.first, *(one for one in metrics if one != content.first)),
        directions={row["metric"]: row["direction"] for row in rows},
        notes=(*content.notes, *found.notes),
    )


def _row(
    content: Content,
    found: LogNumbers,
    systems: tuple[str, str],
    metric: str,
    row: Mapping[str, Any],
) -> Row:
    """A difference as a comparison has it."""
    system, baseline = systems
    values = {
        one: found.online.get(one, {}).get(metric, _mean(content, metric, one)) for one in systems
    }
    statistic: TStatistic | None = row["statistic"]
    return {
        "metric": metric,
        "system": system,
        "baseline": baseline,
        "segment_name": ALL,
        "segment_value": ALL,
        "value": values[system],
        "baseline_value": values[baseline],
        "difference": row["difference"],
        "statistic": statistic,
        "p_value": statistic.p_value() if statistic else None,
        "p_adjusted": None,
        "n": row["n"],
        "direction": row["direction"],
        "test": "Welch",
        **dict.fromkeys(("wins", "ties", "losses")),
    }


def _mean(content: Content, metric: str, system: str) -> float | None:
    rows = [row for row in content.means(metric) if row["system"] == system]
    found = pooled(rows, content.level)
    return None if found is None else found["value"]


def of_click_result(result: ClickResult, level: float = 0.95) -> Content:
    """The content of what a click log says by itself.

    Args:
        result: Of `evaluate_clicks`.
        level: The coverage of its intervals, if it has some.
    """
    spec = result.spec
    rates = result.online().to_pylist()
    offline = result.offline.to_dicts() if result.offline else []
    values = [*offline, *rates]
    systems = tuple(dict.fromkeys(str(row["system"]) for row in values))
    asked = [*spec.metrics, *spec.online]
    steps = [vars(step) | {"removed": step.removed} for step in result.steps]
    known = result.propensities
    log = Log(
        steps,
        result.rows,
        days=_days(offline, rates),
        online=rates,
        propensities=known.to_dicts() if known else (),
    )
    measures = {str(parse(one)): parse(one).metric for one in spec.metrics}
    signs = {one: SIGNS[metric.better] for one, metric in measures.items()}
    signs |= {str(online(one)): SIGNS[online(one).metric.better] for one in spec.online}
    return Content(
        title=spec.title,
        metrics=tuple(str(parse(one)) if one in spec.metrics else one for one in asked),
        level=level,
        systems=systems,
        main=systems[0] if systems else "",
        values=values,
        log=log,
        sql=result.offline.sql if result.offline else "",
        notes=tuple(_notes(result)),
        hashes={str(parse(one)): spec.definition_hash(parse(one)) for one in spec.metrics},
        conventions=conventions_of(spec) if spec.metrics else {},
        preset=spec.preset,
        sources=tuple(f"{name}: {_place(one)}" for name, one in spec.clicks.sources.items())
        if spec.clicks
        else (),
        directions=signs,
    )


def _notes(result: ClickResult) -> Iterator[str]:
    yield from result.told
    if result.offline:
        yield from result.offline.notes


def _place(source: Any) -> str:
    return str(source.file or source.relation or source.sql or "data")


def _days(offline: Sequence[Row], rates: Sequence[Row]) -> list[Row]:
    """Both families by day and system, where the log has days of both."""
    if not (offline and rates):
        return []
    try:
        found = offline_online(offline, rates)
    except SqlmetricsError:
        return []
    return [
        asdict(line) | {"day": line.metric_date} for line in found.lines if line.segment_name == ALL
    ]
