"""What a report may be made of, and what it is made of then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any, Unpack

from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.catalog.measure import metric_texts
from sqlmetrics.catalog.online import online
from sqlmetrics.clicks.analysis.depth import depth
from sqlmetrics.clicks.analysis.offline_online import offline_online
from sqlmetrics.clicks.clean_log import CleanLog, cleaned_log
from sqlmetrics.clicks.evaluate import GRADES, USUAL, counted, online_rows, wide_log
from sqlmetrics.clicks.result import ClickResult
from sqlmetrics.comparison.diagnosis.log_numbers import LogNumbers, numbers_of
from sqlmetrics.comparison.findings import decide
from sqlmetrics.comparison.funnel.funnel import Funnel, funnel
from sqlmetrics.comparison.options import Options
from sqlmetrics.comparison.page.averages import deploys_of
from sqlmetrics.comparison.page.content import ALL, Addition, Content, Log
from sqlmetrics.comparison.page.evaluation import conventions_of, evaluated, leading, of_result
from sqlmetrics.comparison.page.experiment import nights_of
from sqlmetrics.comparison.page.fact_table import has_facts, stored
from sqlmetrics.comparison.page.report import Report
from sqlmetrics.comparison.report import Comparison, check_has_baseline, check_interval
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import InputError, SpecError, SqlmetricsError
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened, source_relation
from sqlmetrics.evaluation.inputs.runs import STAGE
from sqlmetrics.evaluation.inputs.sources import source_of
from sqlmetrics.evaluation.question import Inputs, TableArguments, check_arguments
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.jobs.days import days_between, on_days
from sqlmetrics.spec.named_values import named_in
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text
from sqlmetrics.sql.template import literal
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.tables.tabular import Row

# A report's content from a click log: cleaned, with labels, offline beside online.


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
    clicks = dated_spec.clicks.model_copy(update={"daily": dated_spec.clicks.is_timed})
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
    result = counted(log, spec, options.level, check=check)
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
        sources=tuple(
            f"{name}: {_source_name(source)}" for name, source in spec.clicks.sources.items()
        )
        if spec.clicks
        else (),
        directions=signs,
    )


def _notes(result: ClickResult) -> Iterator[str]:
    yield from result.all_notes
    if result.offline:
        yield from result.offline.notes


def _source_name(source: Any) -> str:
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


METRICS = ("ndcg@10", "recall@100", "mrr", "precision@10")
"""Of two tables, if none is named."""

LINES = (".ndjson", ".jsonl", ".json")
UBI = ("action_name",)
"""Columns that tell events of User Behavior Insights."""


def report(
    what: Any,
    labels: Any = None,
    metrics: str | Sequence[str] = (),
    *,
    systems: Sequence[str] = (),
    baseline: str | None = None,
    level: float = CONFIDENCE,
    margin: float = 0.0,
    by: str | Sequence[str] = (),
    start: str | date | None = None,
    end: str | date | None = None,
    language: str = "en",
    deploys: Any = None,
    fresh: bool = False,
    sweep: Addition | None = None,
    agreement: Addition | None = None,
    connection: Any = None,
    check: bool | float = True,
    **arguments: Unpack[TableArguments],
) -> Report:
    """Make a report with a verdict and charts: what moved, where, since when, how certain.

    Only sums, histogram counts and a few lists leave the database.

    Args:
        what: A `Spec`; rankings as `compare` takes them, with `labels`; the two files of a User
            Behavior Insights log; a wide click log; or a `Result`, `Comparison`, `Funnel` or
            `ClickResult`, whose report has the charts that its numbers allow. For one table of
            rankings with a column `stage`, the report is about the last stage, and about what the
            other stages lose.
        labels: The labels, as `evaluate` takes them; None if `what` needs none.
        metrics: The metrics, as `evaluate` takes them. Default: those of the spec, or ndcg@10,
            recall@100, mrr and precision@10. Most charts show the first.
        systems: The systems to compare. Default: all.
        baseline: The system that the others are compared with. Default: as for `compare`.
        level: The confidence level of the intervals, above 0 and below 1.
        margin: The largest difference that does not matter, in the unit of the metrics.
        by: Segments. Default: those of the spec.
        start: The first day. Default: the first day of the data.
        end: The day after the last one. Default: all days of the data.
        language: The language of the report: `en` or `zh`.
        deploys: A table of days (`day`, `date` or `deployed_at`) and names, marked in the charts of
            days.
        fresh: Whether to recompute a spec even if its fact table has rows of it.
        sweep: The result of `fuse_sweep`, for a section on which mixture of the runs is best.
        agreement: The result of `agree`, for a section on how far to believe the labels.
        connection: The database that holds the tables; see `evaluate`.
        check: Whether to check the input before the evaluation.
        **arguments: The other arguments of `evaluate`, for rankings and labels.

    Returns:
        The report: `html`, `markdown`, `latex`, `text`, `save(path)`, `plot(name)`.

    Raises:
        SpecError: If no report can be made of `what`, or an argument is wrong.
        InputError: If the data would give wrong numbers.
        EngineError: If the database fails.

    >>> import pyarrow as pa
    >>> lists = pa.table({"query_id": [1, 1, 2], "item_id": [*"aba"], "score": [2.0, 1.0, 1.0]})
    >>> truth = pa.table({"query_id": [1, 2], "item_id": ["b", "a"], "grade": [1, 1]})
    >>> report(lists, truth, "mrr").headline
    'mrr of rankings is 0.7500 (95 % interval -2.4266 to 3.9266; 2 queries).'
    """
    what = read_if_spec(what)
    check_arguments(report, arguments)
    check_interval(level, margin)
    if isinstance(what, Result | Comparison | ClickResult | Funnel):
        content = of_numbers(what, level)
        if deploys is not None:
            with connect(connection) as engine:
                content = replace(content, deploys=deploys_of(deploys, engine))
        return Report(content.adding(sweep, agreement), language)
    inputs = Inputs(what, labels, arguments)
    options = Options(
        metrics=metric_texts(metrics),
        days=days_between(start, end),
        systems=tuple(systems),
        baseline=baseline,
        level=level,
        margin=margin,
        by=inputs.segments(by),
    )
    with inputs.opened(connection) as engine:
        marked = [] if deploys is None else deploys_of(deploys, engine)
        content = _content(inputs, options, engine, fresh=fresh, check=check)
        content = replace(content, deploys=marked)
    return Report(content.adding(sweep, agreement), language)


def _content(
    inputs: Inputs,
    options: Options,
    engine: Database,
    *,
    fresh: bool,
    check: bool | float,
) -> Content:
    inputs = inputs.resolved(engine)
    subject = inputs.rankings
    log = None if isinstance(subject, Spec) else _log(inputs, options, engine)
    if log is not None:
        spec, note = log
        content = logged(spec, options, engine, check=check)
        return replace(content, notes=(*((note,) if note else ()), *content.notes))
    if not isinstance(subject, Spec):
        options = options if options.metrics else replace(options, metrics=METRICS)
        if STAGE not in options.by and STAGE in _columns(subject, "rankings", engine):
            return _staged(inputs, options, engine, check=check)
        return evaluated(inputs, options, engine, check=check)
    if subject.clicks is not None:
        metrics = subject.in_our_words(options.metrics)
        changed: dict[str, Any] = {"metrics": metrics, "online": ()} if metrics else {}
        changed |= {"by": options.by} if options.by else {}
        content = logged(subject.having(**changed), options, engine, check=check)
        return content.adding(nights_of(subject, options.days, engine, fresh=fresh))
    if not (fresh or options.metrics or options.by) and has_facts(subject, engine):
        return stored(subject, options, engine)
    options = options if options.by else replace(options, by=subject.by)
    return evaluated(inputs, options, engine, check=check)


def _staged(inputs: Inputs, options: Options, engine: Database, *, check: bool | float) -> Content:
    """The last stage of a ranking of several, and what they lose."""
    start, end = (options.days.start, options.days.end) if options.days else (None, None)
    arguments = inputs.arguments
    stage_funnel = funnel(
        inputs.rankings,
        inputs.labels,
        start=start,
        end=end,
        connection=engine,
        check=check,
        **{name: value for name, value in arguments.items() if name != "segments"},
    )
    last = stage_funnel.rows[-1]["stage"]
    conditions = [f"({arguments['where']})"] if arguments.get("where") else []
    where = " and ".join([*conditions, f"{STAGE} = {literal(last)}"])
    last_stage = replace(inputs, arguments={**arguments, "where": where})
    content = evaluated(last_stage, options, engine, check=check)
    note = f"lists and metrics are those of the stage {last}"
    return replace(
        content, funnel=stage_funnel.rows, notes=(note, *stage_funnel.notes, *content.notes)
    )


def _log(inputs: Inputs, options: Options, engine: Database) -> tuple[Spec, str] | None:
    """The spec of a click log without one, and what was taken for what; None if it is none."""
    subject, labels = inputs.rankings, inputs.labels
    metrics = {"metrics": options.metrics} if options.metrics else {}
    files = inputs.arguments.get("metrics_from")
    if _is_ubi(subject, labels, engine):
        log = {
            "format": "ubi",
            "requests": source_of(subject, "requests", engine.find),
            "events": source_of(labels, "events", engine.find),
            "labels": {"grades": GRADES},
        }
        fields = {"name": Path(str(labels)).stem, "clicks": log, "metrics": USUAL, "by": options.by}
        return Spec(**{**fields, **metrics, "metrics_from": files}), ""
    if labels is not None or inputs.arguments.get("grade"):
        return None
    if "grade" in _columns(subject, "rankings", engine):
        return None
    return wide_log(subject, engine, options.metrics, options.by, metrics_from=files)


def _is_ubi(subject: Any, labels: Any, engine: Database) -> bool:
    """Whether two files are queries and events of User Behavior Insights."""
    if not all(
        isinstance(file, str | Path) and Path(file).suffix in LINES for file in (subject, labels)
    ):
        return False
    return bool({*UBI} & _columns(labels, "events", engine))


def _columns(table: Any, name: str, engine: Database) -> set[str]:
    """The columns of a table; none where it is no table by itself."""
    try:
        location = source_of(table, name, engine.find)
        relation = source_relation(Source(**location), name, engine)
    except (SpecError, InputError):
        return set()
    return {column.casefold() for column in engine.columns(source_text(relation))}


def of_numbers(
    result: Result | Comparison | ClickResult | Funnel, level: float = CONFIDENCE
) -> Content:
    """The content of numbers that are there already.

    Args:
        result: A result.
        level: The coverage of its intervals.

    Raises:
        SpecError: For a comparison of every pair of systems.
    """
    if isinstance(result, Result):
        return of_result(result, level)
    if isinstance(result, ClickResult):
        return of_click_result(result, level)
    if isinstance(result, Funnel):
        stages = list(dict.fromkeys(row["stage"] for row in result.rows))
        main = result.rows[0]["system"]
        return Content(
            " → ".join(stages),
            (),
            main=main,
            funnel=result.rows,
            executed_sql=result.executed_sql,
            notes=result.notes,
        )
    check_has_baseline(result, "a report")
    systems = tuple(dict.fromkeys(row["system"] for row in result.rows))
    metrics = tuple(dict.fromkeys(row["metric"] for row in result.rows))
    return Content(
        title=f"{', '.join(systems)} / {result.baseline}",
        metrics=metrics,
        level=result.level,
        margin=result.margin,
        systems=(result.baseline, *systems),
        baseline=result.baseline,
        main=leading(result.rows, metrics[0]),
        rows=result.rows,
        contributions=result.contributions,
        movers=result.movers,
        executed_sql=result.executed_sql,
        notes=result.notes,
        directions={row["metric"]: row["direction"] for row in result.rows},
    )
