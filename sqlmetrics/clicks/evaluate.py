"""A click log is cleaned, counted, and evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from sqlmetrics.catalog.online import online
from sqlmetrics.clicks.clean_log import ADDED_UP, COUNTED, EVALUATED, CleanLog, cleaned_log
from sqlmetrics.clicks.cleaning_report import IMPRESSIONS, UNUSED, steps, totals
from sqlmetrics.clicks.log_rows import with_requests
from sqlmetrics.clicks.result import ClickResult, interval_note, long
from sqlmetrics.clicks.steps import online_step
from sqlmetrics.engines.database import Database, connect, session_of, with_views
from sqlmetrics.engines.temporary import Step
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.execution import Progress, run
from sqlmetrics.evaluation.inputs.names import CLICKED, ITEMS, plain
from sqlmetrics.evaluation.inputs.open import opened, source_relation
from sqlmetrics.evaluation.inputs.sources import source_of
from sqlmetrics.evaluation.intervals import check_confidence
from sqlmetrics.evaluation.report.result import dated
from sqlmetrics.spec.click_columns import CLICK, PURCHASE
from sqlmetrics.spec.named_values import named_in
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.spec.source import Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import source_text

# A wide click log without a spec: its columns are known by their names.

NAMES: Mapping[str, str] = {
    "request": "requestid searchid searchrequestid impressionid serpid pageviewid request search "
    "queryid qid sessionid session",
    "query": "query querytext searchquery searchterm term keywords keyword text",
    "item": f"itemid {ITEMS} item iid productid product sku asin articleid movieid songid objectid",
    "position": "position pos rank slot place",
    "clicked": CLICKED,
    "system": "system ranker model variant variation arm experimentgroup bucket",
    "user": "userid user uid visitorid clientid customerid memberid",
    "time": "time timestamp ts at eventtime datetime searchedat requestedat shownat",
}
"""Role -> the names that it goes by, the usual one first, without case, blanks and marks."""

ACTIONS: Mapping[str, str] = {
    "add_to_cart": "addtocart addedtocart isaddtocart atc carted cart",
    PURCHASE: "purchased purchase ispurchase ispurchased bought isbought ordered conversion",
}
"""Action -> the columns that are 1 where it was done."""

GRADES = {CLICK: 1, "add_to_cart": 2, PURCHASE: 3}
"""What an action is worth where nobody says it."""

USUAL = (
    "ndcg@10",
    "mrr",
    "ctr@5",
    "ctr",
    "abandonment",
    "zero_result_rate",
    "first_click_rank",
    "time_to_first_click",
    "purchases",
)
"""The metrics of a log, if none is named."""

NEEDED = ("request", "item", "position", "clicked")


def wide_log(
    source: object,
    engine: Database,
    metrics: str | Sequence[str] = (),
    by: Sequence[str] = (),
    *,
    time_zone: str | None = None,
    metrics_from: Any = None,
) -> tuple[Spec, str]:
    """The spec of a wide click log, and a sentence of what was taken for what.

    Args:
        source: One row per impression: a file, the name of a table, a `select`, or a DataFrame.
        engine: Where it is.
        metrics: Those that are asked for; default: the usual ones that it can give.
        by: Columns whose values are segments.
        time_zone: Whose days count; by default UTC.
        metrics_from: Folders of metrics of the user's own.

    Raises:
        InputError: If it cannot be read, or no column is a request, an item, its position or
            whether it was clicked; what was done with an item must stand in its row.
    """
    location = source_of(source, "log", engine.find)
    existing_columns = engine.columns(
        source_text(source_relation(Source(**location), "clicks_log", engine))
    )
    column_by_name = {plain(name): name for name in existing_columns}
    roles = dict(_roles(NAMES, column_by_name))
    actions = dict(_roles(ACTIONS, column_by_name))
    if lacks := [role for role in NEEDED if role not in roles]:
        usual_names = "; ".join(f"{role}: {', '.join(NAMES[role].split()[:3])}" for role in lacks)
        events = (
            "; a table with a row per event stands there twice, as clicks.impressions and as "
            "clicks.events, each with its condition (where)"
        )
        raise InputError(
            f"log: no column is known as {' or '.join(lacks)}; the columns are "
            f"{', '.join(existing_columns)}. Known are names like these, in any case and with or "
            f"without marks: {usual_names}; name other columns in a spec (clicks.log.columns)"
            f"{events if 'clicked' in lacks else ''}"
        )
    segments = tuple(name for name in by if name != "query_text")
    log = {**location, "columns": {**roles, "actions": actions, "segments": segments}}
    grades = {CLICK: GRADES[CLICK], **{name: GRADES[name] for name in actions}}
    spec = Spec(
        clicks={"log": log, "labels": {"grades": grades}, "time_zone": time_zone},
        metrics=metrics or tuple(_possible(actions)),
        metrics_from=metrics_from,
        by=tuple(by),
    )
    summary = ", ".join(f"{name} as {role}" for role, name in (roles | actions).items())
    return spec, f"log: using {summary}; name other columns in a spec"


def _roles(
    names: Mapping[str, str], column_by_name: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Role -> the column that has the first of its names; no column has two roles."""
    used_names: set[str] = set()
    for role, usual_names in names.items():
        fits = (
            name
            for name in usual_names.split()
            if name in column_by_name and name not in used_names
        )
        if name := next(fits, ""):
            used_names.add(name)
            yield role, column_by_name[name]


def _possible(actions: Mapping[str, str]) -> Iterator[str]:
    """The usual metrics that need nothing that is not there; its one time is no click's."""
    for metric in USUAL:
        if metric.partition("@")[0] in ("ndcg", "mrr"):
            yield metric
        elif metric == "purchases":
            if PURCHASE in actions:
                yield metric
        elif not online(metric).metric.needs:
            yield metric


def evaluate_clicks(
    log: Any,
    connection: Any = None,
    *,
    metrics: str | Sequence[str] = (),
    by: Sequence[str] = (),
    check: bool | float = True,
    per_query: bool = True,
    confidence: float | None = None,
    progress: Progress | None = None,
    unshown: bool = False,
    time_zone: str | None = None,
    metrics_from: Any = None,
) -> ClickResult:
    """Clean a click log, and compute online metrics and the metrics of its labels.

    Args:
        log: A spec with `clicks`; or a wide log with one row per shown item, whose columns are
            recognised by their names: a file, a table's name or a DataFrame.
        connection: The database that holds the tables; see `evaluate`.
        metrics: For a wide log: list metrics and online metrics. Default: the usual ones.
        by: For a wide log: segment columns.
        check: Whether to check the cleaned log for mistakes.
        per_query: Whether to fetch the table with one row per request.
        confidence: The level of `ci_low` and `ci_high`, such as 0.95. Intervals of online metrics
            are those of a ratio over requests (delta method), which treats requests as independent;
            those of list metrics are as in `evaluate`. Default: no intervals.
        progress: Called after each step with the number of finished steps, the number of steps, and
            0.
        unshown: Whether to estimate the metrics of rankings that were not shown (`counterfactual`
            in the spec), per day if the spec has days.
        time_zone: For a wide log: the time zone that decides the day of a time, such as
            `Asia/Tokyo`. Default: UTC.
        metrics_from: For a wide log: a folder, or several, of your own metrics, one file each.

    Raises:
        SpecError: If the spec has no clicks, or the log lacks what a metric needs.
        NoDataError: If the log has no rows of the chosen days yet.
        InputError: If the log cannot be read, lacks a column, or nothing is left of it after
            cleaning.

    >>> import pyarrow as pa
    >>> log = {"request_id": [1, 1], "sku": ["a", "b"], "position": [1, 2], "clicked": [0, 1]}
    >>> evaluate_clicks(pa.table(log), metrics=["mrr", "ctr@1"]).offline["mrr"]
    0.5
    """
    log = read_if_spec(log)
    if not isinstance(log, Spec):
        with connect(session_of(connection, log)) as engine, engine.reading():
            log = with_views(log, engine)
            spec, note = wide_log(
                log, engine, metrics, by, time_zone=time_zone, metrics_from=metrics_from
            )
            result = evaluate_clicks(
                spec,
                engine,
                check=check,
                per_query=per_query,
                confidence=confidence,
                progress=progress,
            )
            return replace(result, notes=(note, *result.notes))
    if metrics or by or time_zone or metrics_from:
        raise SpecError(
            "the spec already has metrics, segments and a zone; leave out metrics, by, time_zone "
            "and metrics_from"
        )
    spec = log
    if spec.clicks is None:
        raise SpecError("the spec has no clicks; use evaluate for rankings and labels")
    check_confidence(confidence)
    with (
        connect(connection) as engine,
        engine.reading(),
        cleaned_log(spec.clicks, engine, progress, names=named_in(spec)) as clean,
    ):
        result = counted(clean, spec, confidence, check=check)
        if check and spec.online and not spec.metrics and not result.to_dicts()["online"]:
            raise clean.absence()
        if unshown:  # few logs are asked for that, and its modules are many
            from sqlmetrics.clicks.counterfactual.evaluate import estimate_rows

            estimated, estimate_notes = estimate_rows(clean, spec, confidence, required=bool(check))
            notes = (*result.notes, *estimate_notes)
            result = replace(result, estimates=tuple(estimated), notes=notes)
        if spec.metrics:
            with clean.views() as shown_lists:
                tables = replace(opened(spec, engine), shown_lists=shown_lists)
                offline = run(
                    spec,
                    tables,
                    engine,
                    check=check,
                    per_query=per_query,
                    confidence=confidence,
                )
                if per_query:
                    offline = replace(
                        offline, _per_query=with_requests(offline.per_query(), spec, engine)
                    )
            result = replace(result, offline=offline)
        clean.tell(EVALUATED)
    return result


def counted(
    clean: CleanLog, spec: Spec, confidence: float | None, *, check: bool | float
) -> ClickResult:
    """What the cleaning left out and found, and the online metrics; no list is evaluated.

    Args:
        clean: The log.
        spec: What is asked of it.
        confidence: The coverage of intervals; None for none.
        check: Whether to look for bad input first.

    Raises:
        InputError: If a request has several values of a segment.
    """
    if check and spec.online and not spec.metrics:
        clean.check_segments(spec.by)
    online_measures = [online(text) for text in spec.online]
    sums = online_step(clean.tables, spec, moments=confidence is not None)
    unused = {
        (f"events {action}" if action == IMPRESSIONS else action, UNUSED): n
        for action, n in clean.unused.items()
    }
    counts, findings = clean.counts() | unused, clean.findings()
    clean.tell(COUNTED)
    rows = tuple(online_rows(clean, spec, confidence, sums))
    clean.tell(ADDED_UP)
    interval_notes = (
        (interval_note(confidence),) if confidence is not None and online_measures else ()
    )
    cleaning_steps = tuple(steps(counts, clean.tables.clicks.cleaning))
    propensities = clean.propensities if spec.metrics else None
    notes = (*clean.value_notes, *interval_notes)
    return ClickResult(
        spec, cleaning_steps, totals(counts), findings, None, rows, notes, propensities
    )


def online_rows(
    clean: CleanLog, spec: Spec, confidence: float | None, sums: Sequence[Step] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of the online metrics that a spec asks for.

    Args:
        clean: The log.
        spec: What is asked of it.
        confidence: The coverage of intervals; None for none.
        sums: The steps that sum them, if they are there.
    """
    online_measures = [online(text) for text in spec.online]
    for step in sums or online_step(clean.tables, spec, moments=confidence is not None):
        rows = map(dated, clean.engine.records(step.select))
        yield from long(rows, online_measures, spec, confidence)


@contextmanager
def ready(spec: Spec, engine: Database, *, dry: bool = False) -> Iterator[tuple[str, ...]]:
    """What a spec's evaluation reads, while the block lasts: of a click log, it is made first.

    Yields:
        What must be known of its labels.
    """
    if spec.clicks is None:
        yield ()
        return
    with cleaned_log(spec.clicks, engine, names=named_in(spec), dry=dry) as log, log.views():
        online_step(log.tables, spec)
        yield log.label_notes
