"""`sqlmetrics clicks`: from a click log to online metrics, labels, and metrics of these."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from sqlmetrics.cli import completion
from sqlmetrics.cli.common import error_options, overwrite_option, overwrites, progress_bar, say
from sqlmetrics.cli.evaluation_options import metrics_option
from sqlmetrics.cli.location import PLACES, Location, place_options
from sqlmetrics.cli.options import (
    COLUMNS,
    COMMON,
    INPUT,
    Command,
    by_option,
    confidence_option,
    decorate,
    metrics_from_option,
    option,
    seed_option,
)
from sqlmetrics.cli.output import (
    FORMATS,
    PER_QUERY,
    emit,
    emit_clicks,
    emit_result,
    format_of,
    output_options,
    text_for,
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

COUNTERFACTUAL, COMPARED = "counterfactual", "compare-labels"

OF_ROWS = ("judgments", "labels")
"""Pages that are rows."""

PAGES = {
    "depth": "How deep people look into the results.",
    "days": "Offline and online metrics, day by day.",
    "soundness": "Whether the traffic is split as planned.",
    "experiment": "Whether to ship a variant: sample ratio, primary metric, guardrails.",
    "judgments": "Labels of each query, shared by all of its requests.",
    "labels": "Labels of each request, one row per item.",
    COMPARED: "The same lists evaluated with other labels, side by side.",
    "models": "The click model that fits best.",
    "interleaving": "Which of two interleaved systems people prefer.",
    "propensities": "How often each position is examined.",
    COUNTERFACTUAL: "Estimated metrics of a ranking that was not shown.",
}
"""Pages on a click log -> what each shows; without one, it is evaluated."""


def _page_or_file(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Pages, and files."""
    pages = [CompletionItem(page, help=text) for page, text in PAGES.items()]
    is_begun = [page for page in pages if page.value.startswith(begun)]
    return [*is_begun, CompletionItem(begun, type="file")]


@click.command(cls=Command, sections={"Pages": PAGES})
@click.argument(
    "words", metavar="[PAGE] SPEC|LOG", nargs=-1, type=INPUT, shell_complete=_page_or_file
)
@option(
    "--ubi",
    nargs=2,
    type=INPUT,
    metavar="QUERIES EVENTS",
    help="Two JSON Lines files of User Behavior Insights, in place of LOG.",
)
@metrics_option(
    "Metric such as ndcg@10 or ctr@5; commas separate several.", completion.click_metrics
)
@by_option
@option(
    "--time-zone",
    metavar="ZONE",
    help="Time zone that decides the day of a timestamp.  [default: UTC]",
    heading=COLUMNS,
)
@option("--per-query", is_flag=True, help="Print one row per request.")
@metrics_from_option
@confidence_option(default=None)
@option("--compare-labels", is_flag=True, hidden=True)
@option("--show", type=click.Choice([*PAGES]), hidden=True)
@place_options
@output_options(FORMATS)
@error_options
def clicks_command(
    *,
    words: tuple[str, ...],
    ubi: tuple[str, str] | None,
    metrics: tuple[str, ...],
    by: tuple[str, ...],
    time_zone: str | None,
    per_query: bool,
    metrics_from: tuple[str, ...],
    confidence: float | None,
    compare_labels: bool,
    show: str | None,
    location: Location,
    output: str | None,
    out: str | None,
) -> None:
    """Clean a click log and evaluate it, or show one PAGE on it.

    SPEC names the tables of the log and the labels to learn from it. LOG is a file or a table with
    one row per impression: request, item, position, clicked. Online metrics such as ctr@5 are
    computed from the log itself; other metrics evaluate the lists that people saw, with labels
    learned from what they did.

    \b
    sqlmetrics clicks log.csv
    sqlmetrics clicks depth log.csv
    sqlmetrics clicks soundness search.yml --db logs.duckdb
    sqlmetrics clicks --ubi ubi_queries.ndjson ubi_events.ndjson -m ndcg@10,ctr@5
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.jobs.days import in_zone

    page, log = _page_and_log(words, ubi, location)
    page = _old_page(page, show, compare_labels)
    has_rows = page in (None, *OF_ROWS)
    columns = PER_QUERY if per_query and not page else ()
    form = format_of(output, out, FORMATS if has_rows else OF_REPORTS, columns)
    if not has_rows and form not in (*OF_REPORTS, "jsonl"):
        raise SpecError(f"clicks {page} prints {' or '.join(OF_REPORTS)}, given -o {form}")
    if page not in (None, COUNTERFACTUAL) and confidence is not None:
        raise SpecError(f"clicks {page} prints no means or ratios: leave out --confidence")
    names = {"metrics": metrics, "by": by, "metrics_from": metrics_from}
    selection = {name: values for name, values in names.items() if values}
    with _asking(log, ubi, selection, location) as (read_spec, engine):
        spec = in_zone(read_spec, time_zone)
        result = (
            _page_of(spec, engine, page, by, confidence)
            if page
            else _evaluated(spec, engine, per_query, confidence)
        )
    if per_query and not page:
        emit_result(result, per_query, form, out)
    elif not page:
        emit_clicks(result, form, out)
    elif has_rows:
        texts = {
            "table": lambda: _csv(result),
            "markdown": _table(result).markdown,
            "html": _table(result).html,
        }
        emit(lambda: result, texts, form, out)
    else:
        text = text_for(out, result.__repr__) if form == "table" else _json(result.to_dicts())
        write(f"{text}\n", out)


def _page_and_log(
    words: tuple[str, ...], ubi: tuple[str, str] | None, location: Location
) -> tuple[str | None, str | None]:
    """The page and the log that are named, None for each that is not.

    Of two words the first is a page. One word alone is a log, but a page with `--ubi`.

    Raises:
        SpecError: If there is no log, or more than one.
        UsageError: If a word is no page, or stands alone and is one.
    """
    *pages, log = words or (None,) if ubi is None else (*words, None)
    page = pages[0] if pages else None
    is_ubi_beside_log = ubi is not None and page not in (None, *PAGES)
    if (log is None) == (ubi is None) or len(pages) > 1 or is_ubi_beside_log:
        raise SpecError("give a spec, a log, or the two files of --ubi")
    if page not in (None, *PAGES):
        raise click.UsageError(f"{page!r} is not a page of a log; the pages are {', '.join(PAGES)}")
    has_place = any(getattr(location, name) for name in PLACES)
    if log in PAGES and not (page or has_place or Path(log).exists()):
        raise click.UsageError(f"say which log: sqlmetrics clicks {log} LOG")
    return page, log


def _old_page(page: str | None, show: str | None, compare_labels: bool) -> str | None:
    """The page by its name or its old spelling, which says the new one.

    Raises:
        UsageError: If several are named.
    """
    spelling_by_page = {show: f"--show {show}"} if show else {}
    if compare_labels:
        spelling_by_page[COMPARED] = "--compare-labels"
    for name, spelling in spelling_by_page.items():
        say(f"note: {spelling} is now a page: sqlmetrics clicks {name} LOG")
    pages = {name: name for name in (page, *spelling_by_page) if name}
    if len(pages) > 1:
        raise click.UsageError(f"give one page of a log, given {', '.join(pages)}")
    return next(iter(pages), None)


@contextmanager
def _asking(
    log: str | None,
    ubi: tuple[str, str] | None,
    selection: Mapping[str, Any],
    location: Location,
) -> Iterator[tuple[Spec, Database]]:
    """The spec that is meant, and its database.

    Args:
        log: A spec or a log.
        ubi: Two files in its place.
        selection: Metrics, segments and metric files, those that are named.
        location: Where the database is.
    """
    if log is None or log.endswith(SPECS):
        spec = _spec(log, ubi or ("", ""), selection)
        with location.reading(spec) as engine:
            yield spec, engine
        return
    from sqlmetrics.clicks.evaluate import wide_log

    with location.reading(is_needed=not (Path(log).suffix or Path(log).exists())) as engine:
        spec, notes = wide_log(log, engine, **selection)
        say(notes)
        yield spec, engine


def _spec(file: str | None, ubi: tuple[str, str], selection: Mapping[str, Any]) -> Spec:
    """That of a file, or of User Behavior Insights.

    Raises:
        SpecError: If it is wrong, or more metric files are named than it names.
    """
    from sqlmetrics.clicks.evaluate import GRADES, USUAL
    from sqlmetrics.spec.spec import Spec

    if file is not None:
        if "metrics_from" in selection:
            raise SpecError("the spec names its own metric files; leave out --metrics-from")
        spec = Spec.read(file)
        if "metrics" not in selection:
            return spec.having(**selection)
        metrics = spec.in_our_words(selection["metrics"])
        return spec.having(**{**selection, "metrics": metrics, "online": ()})
    log = {
        "format": "ubi",
        "requests": {"file": ubi[0]},
        "events": {"file": ubi[1]},
        "labels": {"grades": GRADES},
    }
    return Spec(**{"name": Path(ubi[1]).stem, "clicks": log, "metrics": USUAL, **selection})


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
        raise SpecError("--per-query needs list metrics, like ndcg@10; add one with -m")
    return result.offline


def _page_of(
    spec: Spec, engine: Any, show: str, by: tuple[str, ...], confidence: float | None
) -> Any:
    """One of PAGES."""
    from sqlmetrics.clicks.analysis.depth import depth
    from sqlmetrics.clicks.analysis.experiment import soundness
    from sqlmetrics.clicks.analysis.offline_online import offline_online
    from sqlmetrics.clicks.clean_log import cleaned_log
    from sqlmetrics.clicks.counterfactual.evaluate import counterfactual_metrics
    from sqlmetrics.clicks.evaluate import evaluate_clicks
    from sqlmetrics.clicks.interleaving import interleaving_outcome
    from sqlmetrics.clicks.models import click_models
    from sqlmetrics.engines.database import connect
    from sqlmetrics.spec.named_values import named_in

    if spec.clicks is None:
        raise SpecError("the spec has no clicks; evaluate takes rankings and labels")
    if show == COMPARED:
        from sqlmetrics.clicks.analysis.label_comparison import compare_labels

        return compare_labels(spec, engine)
    if show == "experiment":
        from sqlmetrics.comparison.online.experiment import experiment

        return experiment(spec, engine)
    if show == "days":
        if not (spec.metrics and spec.online):
            other_metrics = (
                "online ones; add -m ctr@5" if spec.metrics else "those of lists; add -m ndcg@10"
            )
            metrics = "metrics of lists" if spec.metrics else "online metrics"
            raise SpecError(f"clicks days puts {metrics} beside {other_metrics}")
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
            "judgments": lambda: _with_notes(log, log.judgments(some=True)),
            "labels": lambda: _with_notes(log, log.request_labels()),
            "models": lambda: click_models(log, by=_segment(log, show, by)),
            "interleaving": lambda: interleaving_outcome(log, by=_segment(log, show, by)),
            "propensities": log.estimate_propensities,
            COUNTERFACTUAL: lambda: counterfactual_metrics(
                log, confidence=confidence or spec.confidence, by=spec.by
            ),
        }
        return shows[show]()


def _with_notes(log: CleanLog, labels: Any) -> Any:
    """Labels, once it is said what must be known of them."""
    for note in log.label_notes:
        say(f"note: {note}")
    return labels


def _segment(log: CleanLog, show: str, by: tuple[str, ...]) -> str | None:
    """The column whose values are shown by themselves: the one that propensities differ by too."""
    clicks = log.tables.clicks
    if len(by) > 1:
        raise SpecError(f"clicks {show} takes one column of --by, given {', '.join(by)}")
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

    return tabular.csv_text(rows).rstrip("\n")


def _table(rows: Any) -> Table:
    """Rows as texts."""
    from sqlmetrics.tables.table import Table

    cells = [
        ["" if cell is None else str(cell) for cell in row.values()] for row in rows.to_pylist()
    ]
    return Table(rows.column_names, cells)


# `sqlmetrics simulate`: a click log with a known truth.

MODELS = ("position", "cascade")
SHARES = {
    "--bots": (0.01, "Share of users who are bots."),
    "--duplicates": (0.02, "Share of clean events that are duplicated."),
    "--late": (0.02, "Events after the attribution window, as a share of the clicks."),
    "--early": (0.01, "Events before their impression, as a share of the clicks."),
    "--orphans": (0.01, "Events on items without an impression, as a share of the clicks."),
    "--hurried": (0.02, "Share of clicks that are left within 5 seconds."),
    "--zero-results": (0.02, "Share of requests without results."),
    "--test-traffic": (0.005, "Share of requests by testers."),
    "--cascade": (0.0, "Share of requests that --model position simulates as a cascade."),
    "--trust": (
        0.0,
        "Probability of a click on the first result when it is examined and not attractive.",
    ),
    "--randomised": (0.0, "Share of requests in random order; adds the column is_randomised."),
}
"""Option -> its default, and what it is a share of."""


def _shares(command: Any) -> Any:
    decorators = [
        option(
            name,
            type=float,
            default=default,
            metavar="SHARE",
            show_default=True,
            heading="Bias and noise",
            help=help_text,
        )
        for name, (default, help_text) in SHARES.items()
    ]
    return decorate(command, *decorators)


@click.command(cls=Command)
@click.argument("folder")
@option(
    "--requests", type=int, default=10_000, show_default=True, help="Number of requests by people."
)
@option("--results", type=int, default=10, show_default=True, help="Number of results per request.")
@option(
    "--model",
    type=click.Choice(MODELS),
    default="position",
    show_default=True,
    help="Click model: position or cascade.",
)
@option("--days", type=int, default=7, show_default=True, help="Number of days.")
@option("--queries", type=int, default=500, show_default=True, help="Number of distinct queries.")
@option(
    "--users", type=int, help="Number of users.  [default: 2,000, or 1 per 100 requests if more]"
)
@option(
    "--system",
    "systems",
    multiple=True,
    default=("old", "new"),
    show_default=True,
    metavar="NAME",
    help="Ranker, worst first. May be repeated.",
)
@_shares
@seed_option(COMMON)
@overwrite_option
@error_options
def simulate_command(folder: str, **settings: Any) -> None:
    """Write a click log with bots, repeated and late clicks to FOLDER, as Parquet.

    The truth behind the log is known: relevance, propensities, and the events that cleaning has to
    remove.

    The same seed writes the same bytes. A log of a hundred million results takes less than 300 MB
    of memory.

    \b
    sqlmetrics simulate clicks --requests 1000000 --model cascade
    """  # noqa: D301 (click wants the backspace itself)
    from sqlmetrics.clicks.simulation import simulate

    with progress_bar("writing a click log"):
        summary = simulate(folder, overwrite=overwrites(), **settings)
    click.echo(summary)
