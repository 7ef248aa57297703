"""A report's content from a click log: cleaned, with labels, offline beside online."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlmetrics.catalog.direction import SIGNS
from sqlmetrics.catalog.online import online
from sqlmetrics.clicks.analysis.depth import depth
from sqlmetrics.clicks.analysis.offline_online import offline_online
from sqlmetrics.clicks.clean_log import CleanLog, cleaned_log
from sqlmetrics.clicks.evaluate import counted, online_rows
from sqlmetrics.clicks.result import ClickResult
from sqlmetrics.comparison.diagnosis.log_numbers import LogNumbers, numbers_of
from sqlmetrics.comparison.findings import decide
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.page.content import ALL, Content, Log
from sqlmetrics.comparison.page.evaluation import conventions_of
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.run import run
from sqlmetrics.jobs.days import on_days
from sqlmetrics.spec.named_values import named_in
from sqlmetrics.spec.spec import Spec
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.tables.tabular import Row


def logged(
    spec: Spec, options: Options, engine: Database, *, check: bool | float = True
) -> Content:
    """The content of a report of a click log.

    Args:
        spec: A spec with `clicks`.
        options: What is asked of the comparison of its systems.
        engine: Where the log is.
        check: Whether to look for bad input first.

    Raises:
        SqlmetricsError: As `evaluate_clicks` does.
    """
    dated_spec = on_days(spec, options.days).spec
    if dated_spec.clicks is None:
        raise ValueError("a spec without clicks has no log")
    clicks = dated_spec.clicks.model_copy(update={"daily": True})
    daily = dated_spec.having(clicks=clicks, rankings=None, labels=None)
    with cleaned_log(clicks, engine, names=named_in(daily)) as log:
        result, numbers = _evaluated(log, daily, options, check=check)
        content = of_click_result(result, options.level)
        options.check_systems(content.systems)
        if len(content.dates()) > 1 and spec.online:
            tables = replace(log.tables, clicks=clicks.model_copy(update={"daily": False}))
            online_totals = [*online_rows(replace(log, tables=tables), daily, options.level)]
            content = replace(content, log=replace(content.log or Log(), online=online_totals))
        looked = depth(log, title=spec.title)
    positions = [vars(position) for position in looked.positions if position.system is not None]
    content = replace(
        content,
        margin=options.margin,
        log=replace(content.log or Log(), positions=positions),
        notes=(*content.notes, *(f"{finding}: {n:,}" for finding, n in result.findings.items())),
    )
    if isinstance(numbers, SqlmetricsError):
        return replace(content, notes=(*content.notes, str(numbers)))
    return _compared(content, numbers, options) if numbers.rows else content


def _compared(content: Content, numbers: LogNumbers, options: Options) -> Content:
    """With how far systems are apart from a baseline; requests have one system each."""
    metrics = {row["metric"]: None for row in numbers.rows}
    order = list(dict.fromkeys([*(n for n in content.metrics if n in metrics), *metrics]))
    rows = sorted(numbers.rows, key=lambda row: order.index(row["metric"]))
    decide(rows, options)
    baseline = rows[0]["baseline"]
    systems = dict.fromkeys(row["system"] for row in rows)
    of_first = [row for row in rows if (row["metric"], row["segment_name"]) == (content.first, ALL)]
    main = max(
        of_first,
        key=lambda row: (row["difference"] or 0.0) * (row["direction"] or 1),
        default=rows[0],
    )["system"]
    return replace(
        content,
        rows=rows,
        baseline=baseline,
        main=main,
        systems=(baseline, *systems),
        metrics=tuple(order),
        directions={row["metric"]: row["direction"] for row in rows},
        counted=numbers.counted,
        notes=(*content.notes, *numbers.notes),
    )


def _evaluated(
    log: CleanLog, spec: Spec, options: Options, *, check: bool | float
) -> tuple[ClickResult, LogNumbers | SqlmetricsError]:
    """The result of a log, and how its systems moved, or why nobody can say."""
    result = counted(log, spec, options.level)
    spec_options = replace(options, metrics=spec.metrics)
    try:
        numbers = numbers_of(log, spec, spec_options, check=check, confidence=options.level)
    except SqlmetricsError as error:
        offline = None
        if spec.metrics:
            with log.views() as shown_lists:
                tables = replace(opened(spec, log.engine), shown_lists=shown_lists)
                offline = run(
                    spec, tables, log.engine, check=check, per_query=False, confidence=options.level
                )
        return replace(result, offline=offline), error
    return replace(result, offline=numbers.result), numbers


def of_click_result(result: ClickResult, level: float = CONFIDENCE) -> Content:
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
    steps = [vars(step) | {"removed": step.removed} for step in result.steps]
    propensities = result.propensities
    log = Log(
        steps,
        result.rows,
        days=_days(offline, rates),
        online=rates,
        propensities=propensities.to_dicts() if propensities else (),
    )
    signs = {str(measure): SIGNS[measure.metric.better] for measure in spec.measures}
    signs |= {str(online(text)): SIGNS[online(text).metric.better] for text in spec.online}
    return Content(
        title=spec.title,
        metrics=(*map(str, spec.measures), *spec.online),
        level=level,
        systems=systems,
        main=systems[0] if systems else "",
        values=values,
        log=log,
        executed_sql=result.offline.executed_sql if result.offline else "",
        notes=tuple(_notes(result)),
        hashes={str(measure): spec.definition_hash(measure) for measure in spec.measures},
        conventions=conventions_of(spec) if spec.metrics else {},
        preset=spec.preset,
        sources=tuple(f"{name}: {_place(source)}" for name, source in spec.clicks.sources.items())
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
        joined = offline_online(offline, rates)
    except SqlmetricsError:
        return []
    return [
        asdict(line) | {"day": line.metric_date}
        for line in joined.lines
        if line.segment_name == ALL
    ]
