"""`sqlmetrics clicks`: from a click log to online metrics, labels, and metrics of these."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli import completion
from sqlmetrics.cli.common import INPUT, error_options, progress_bar, say
from sqlmetrics.cli.evaluation_options import metrics_option
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.output import (
    FORMATS,
    PER_QUERY,
    emit,
    emit_clicks,
    emit_result,
    format_of,
    output_options,
    write,
)
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.formats import SPECS

if TYPE_CHECKING:
    from sqlmetrics.clicks.clean_log import CleanLog
    from sqlmetrics.engines.database import Database
    from sqlmetrics.spec.spec import Spec
    from sqlmetrics.tables.table import Table

OF_REPORTS = ("table", "json")
"""Formats of what is no table of rows."""

COUNTERFACTUAL, COMPARED = "counterfactual", "compared labels"

OF_ROWS = ("judgments", "labels")
"""Pages that are rows."""

SHOWN = (
    *("depth", "days", "soundness", *OF_ROWS, "models", "interleaving", "propensities"),
    COUNTERFACTUAL,
)


@click.command()
@click.argument("log", metavar="SPEC|LOG", required=False, type=INPUT)
@click.option(
    "--ubi",
    nargs=2,
    type=INPUT,
    metavar="QUERIES EVENTS",
    help="User Behavior Insights: two files of JSON lines.",
)
@metrics_option("Like ndcg@10 or ctr@5; several behind commas.", completion.click_metrics)
@click.option(
    "--by", multiple=True, metavar="COLUMN", help="Segment by a column; query_text is one."
)
@click.option("--time-zone", metavar="ZONE", help="Whose days count.  [default: UTC]")
@click.option("--per-query", is_flag=True, help="One row per request instead of the summary.")
@click.option("--confidence", type=float, metavar="LEVEL", help="Intervals, like 0.95.")
@click.option(
    "--compare-labels",
    is_flag=True,
    help="Instead: the same lists judged by other labels, side by side.",
)
@click.option(
    "--show",
    type=click.Choice(SHOWN),
    metavar="PAGE",
    help="Instead: depth (how deep people look), days (offline beside online metrics by day), "
    "soundness (of the comparison of systems), judgments (labels that all requests of a query "
    "share), labels (of each request, one row an item), models (which one of clicks fits), "
    "interleaving (which of two systems people prefer), "
    "propensities (how often positions are looked at), counterfactual (what a ranking that was "
    "not shown would have got).",
)
@place_options
@output_options(FORMATS)
@error_options
def clicks(
    *,
    log: str | None,
    ubi: tuple[str, str] | None,
    metrics: tuple[str, ...],
    by: tuple[str, ...],
    time_zone: str | None,
    per_query: bool,
    confidence: float | None,
    compare_labels: bool,
    show: str | None,
    location: Location,
    output: str | None,
    out: str | None,
) -> None:
    """Clean a click log, tell what was left out, and evaluate it.

    A SPEC names its tables and what becomes a label. A LOG is a file or a table with one row an
    item that was shown: request, item, position, whether it was clicked. Online metrics are
    those of the log itself; the others take what users did as labels of the lists that they saw.

    \b
    sqlmetrics clicks log.csv
    sqlmetrics clicks --ubi ubi_queries.ndjson ubi_events.ndjson -m ndcg@10,ctr@5
    sqlmetrics clicks search.yml --db logs.duckdb
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.days import in_zone

    if compare_labels:
        if show:
            raise SpecError(f"give --compare-labels or --show {show}, not both")
        show = COMPARED
    has_rows = show in (None, *OF_ROWS)
    columns = PER_QUERY if per_query and not show else ()
    form = format_of(output, out, FORMATS if has_rows else OF_REPORTS, columns)
    if not has_rows and form not in (*OF_REPORTS, "jsonl"):
        raise SpecError(f"-o {form} is of rows; {_page(show)} gives {' or '.join(OF_REPORTS)}")
    if show not in (None, COUNTERFACTUAL) and confidence is not None:
        raise SpecError(f"--confidence is of means and ratios; {_page(show)} has none")
    with _asking(log, ubi, metrics, by, location) as (read_spec, engine):
        spec = in_zone(read_spec, time_zone)
        result = (
            _shown(spec, engine, show, by, confidence)
            if show
            else _evaluated(spec, engine, per_query, confidence)
        )
    if per_query and not show:
        emit_result(result, per_query, form, out)
    elif not show:
        emit_clicks(result, form, out)
    elif has_rows:
        texts = {
            "table": lambda: _csv(result),
            "markdown": _table(result).markdown,
            "html": _table(result).html,
        }
        emit(lambda: result, texts, form, out)
    else:
        write((repr(result) if form == "table" else _json(result.to_dicts())) + "\n", out)


def _page(show: str | None) -> str:
    """How one of the pages is asked for."""
    return "--compare-labels" if show == COMPARED else f"--show {show}"


@contextmanager
def _asking(
    log: str | None,
    ubi: tuple[str, str] | None,
    metrics: tuple[str, ...],
    by: tuple[str, ...],
    location: Location,
) -> Iterator[tuple[Spec, Database]]:
    """The spec that is meant, and its database."""
    if (log is None) == (ubi is None):
        raise SpecError("give a spec, a log, or the two files of --ubi")
    if log is None or log.endswith(SPECS):
        spec = _spec(log, ubi or ("", ""), metrics, by)
        with location.reading(spec) as engine:
            yield spec, engine
        return
    from sqlmetrics.clicks.wide_log import wide_log

    with location.reading(is_needed=not (Path(log).suffix or Path(log).exists())) as engine:
        spec, notes = wide_log(log, engine, metrics, by)
        say(notes)
        yield spec, engine


def _spec(
    file: str | None, ubi: tuple[str, str], metrics: tuple[str, ...], by: tuple[str, ...]
) -> Spec:
    """That of a file, or of User Behavior Insights."""
    from sqlmetrics.clicks.wide_log import GRADES, USUAL
    from sqlmetrics.spec.spec import Spec

    changed: dict[str, Any] = {"metrics": metrics} if metrics else {}
    changed |= {"by": by} if by else {}
    if file is not None:
        spec = Spec.read(file)
        changed |= {"metrics": spec.in_our_words(metrics)} if metrics else {}
        return spec.having(**({"online": ()} if metrics else {}), **changed)
    log = {
        "format": "ubi",
        "requests": {"file": ubi[0]},
        "events": {"file": ubi[1]},
        "labels": {"grades": GRADES},
    }
    return Spec(**{"name": Path(ubi[1]).stem, "clicks": log, "metrics": USUAL, **changed})


def _evaluated(spec: Spec, engine: Any, per_query: bool, confidence: float | None) -> Any:
    """The whole report, or what its per-query table is taken from."""
    from sqlmetrics.clicks.evaluate import evaluate_clicks

    with progress_bar("steps of the log") as on_progress:
        result = evaluate_clicks(
            spec, engine, per_query=per_query, confidence=confidence, progress=on_progress
        )
    if not per_query:
        return result
    if result.offline is None:
        raise SpecError("--per-query is of metrics of lists, like ndcg@10; none is asked for")
    return result.offline


def _shown(
    spec: Spec, engine: Any, show: str, by: tuple[str, ...], confidence: float | None
) -> Any:
    """One of SHOWN."""
    from sqlmetrics.clicks.analysis.depth import depth
    from sqlmetrics.clicks.analysis.experiment import soundness
    from sqlmetrics.clicks.analysis.offline_online import offline_online
    from sqlmetrics.clicks.clean_log import cleaned_log
    from sqlmetrics.clicks.counterfactual.evaluate import counterfactual_metrics
    from sqlmetrics.clicks.evaluate import evaluate_clicks
    from sqlmetrics.clicks.interleaving.outcome import interleaving_outcome
    from sqlmetrics.clicks.models.fit import click_models
    from sqlmetrics.engines.database import connect
    from sqlmetrics.spec.named_values import named_in

    if spec.clicks is None:
        raise SpecError("the spec has no clicks; evaluate takes rankings and labels")
    if show == COMPARED:
        from sqlmetrics.clicks.analysis.label_comparison import compare_labels

        return compare_labels(spec, engine)
    if show == "days":
        if not (spec.metrics and spec.online):
            other_metrics = (
                "online ones; add -m ctr@5" if spec.metrics else "those of lists; add -m ndcg@10"
            )
            metrics = "metrics of lists" if spec.metrics else "online metrics"
            raise SpecError(f"--show days puts {metrics} beside {other_metrics}")
        daily = spec.clicks.model_copy(update={"daily": True})
        result = evaluate_clicks(spec.having(clicks=daily, rankings=None, labels=None), engine)
        return offline_online(
            result.offline.to_dicts() if result.offline else [], result.online().to_pylist()
        )
    with (
        progress_bar("steps of the log") as on_progress,
        connect(engine) as opened,
        cleaned_log(spec.clicks, opened, on_progress, names=named_in(spec)) as log,
    ):
        shows: dict[str, Callable[[], Any]] = {
            "depth": lambda: depth(log, title=spec.title),
            "soundness": lambda: soundness(log, title=spec.title, ranked=log.tables.clicks.ranked),
            "judgments": lambda: _told(log, log.judgments(some=True)),
            "labels": lambda: _told(log, log.request_labels()),
            "models": lambda: click_models(log, by=_segment(log, show, by)),
            "interleaving": lambda: interleaving_outcome(log, by=_segment(log, show, by)),
            "propensities": log.estimate_propensities,
            COUNTERFACTUAL: lambda: counterfactual_metrics(
                log, confidence=confidence or spec.confidence, by=spec.by
            ),
        }
        return shows[show]()


def _told(log: CleanLog, labels: Any) -> Any:
    """Labels, once it is said what must be known of them."""
    for note in log.label_notes:
        say(f"note: {note}")
    return labels


def _segment(log: CleanLog, show: str, by: tuple[str, ...]) -> str | None:
    """The column whose values are shown by themselves: the one that propensities differ by too."""
    clicks = log.tables.clicks
    if len(by) > 1:
        raise SpecError(f"--show {show} takes one column of --by; given {', '.join(by)}")
    merged = clicks.interleaving
    if show == "interleaving" and (merged is None or merged.method != "debiased_balanced"):
        return by[0] if by else None
    return by[0] if by else clicks.propensity.by


def _json(report: Any) -> str:
    """A report as JSON; rows one a line."""
    rows = report if isinstance(report, list) else [report]
    return "\n".join(json.dumps(row, default=str) for row in rows)


def _csv(rows: Any) -> str:
    from sqlmetrics.tables import tabular

    return tabular.csv(rows).rstrip("\n")


def _table(rows: Any) -> Table:
    """Rows as texts."""
    from sqlmetrics.tables.table import Table

    cells = [
        ["" if cell is None else str(cell) for cell in row.values()] for row in rows.to_pylist()
    ]
    return Table(rows.column_names, cells)
