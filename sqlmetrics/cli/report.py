"""`sqlmetrics report` and `plot`: a page with a verdict and pictures, or one picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.cli.common import (
    error_options,
    overwrite_option,
    overwrites,
    say,
    several_names,
)
from sqlmetrics.cli.evaluation_options import (
    metrics_option,
    segment_option,
    table_options,
    with_arguments,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import (
    INPUT,
    INPUT_DATA,
    OUTPUT,
    Command,
    by_option,
    decorate,
    items_option,
    margin_option,
    option,
)
from sqlmetrics.cli.systems import sources, spec_of, system_options
from sqlmetrics.errors import SpecError

if TYPE_CHECKING:
    from sqlmetrics.agreement.agreement import Agreement
    from sqlmetrics.comparison.page.content import Content
    from sqlmetrics.comparison.page.report import Report
    from sqlmetrics.engines.database import Database
    from sqlmetrics.fusion.sweep_result import Sweep

_OPTIONS = (
    metrics_option(
        "Metric such as ndcg@10; most charts show the first.  [default: the metrics of SPEC]"
    ),
    system_options,
    margin_option(0.0),
    by_option,
    segment_option,
    items_option,
    option(
        "--language",
        type=click.Choice(("en", "zh")),
        default="en",
        show_default=True,
        help="Language of the page: English or Chinese.",
        heading=OUTPUT,
    ),
    option(
        "--deploys",
        type=INPUT,
        metavar="TABLE",
        help="Table of deploys (day, name), marked in the charts of days.",
        heading=INPUT_DATA,
    ),
    option(
        "--fresh",
        is_flag=True,
        help="Recompute SPEC instead of reading its fact table.",
        heading=INPUT_DATA,
    ),
    option(
        "--sweep",
        is_flag=True,
        help="Add a section on which mixture of the systems is best, as fuse --sweep finds it.",
    ),
    option(
        "--judges",
        multiple=True,
        callback=several_names,
        metavar="A,B",
        help="Grade columns of the labels: add a section on how far these judges agree.",
    ),
    overwrite_option,
    table_options,
    place_options,
    error_options,
    with_arguments,
)


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """What both commands are told."""
    return decorate(command, *_OPTIONS)


@click.command(cls=Command)
@option(
    "--out",
    metavar="FILE",
    heading=OUTPUT,
    help="File to write: .html, .md, .tex, .txt, .png or .svg; - is stdout.  [default: "
    "SPEC.html or LABELS.html]",
)
@option(
    "--charts", metavar="FOLDER", help="Folder for the charts as Vega-Lite JSON.", heading=OUTPUT
)
@_options
def report_command(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    location: Location,
    out: str | None,
    charts: str | None,
    arguments: dict[str, Any],
) -> None:
    """Write a page on what moved: where, since when, how certain, how computed.

    The page is made from a spec, from rankings and labels, or from a click log: one wide table, or
    the two files of User Behavior Insights. If the fact table of SPEC exists, its numbers are read
    from it. The page loads nothing from the network.

    \b
    sqlmetrics report search.yml --db shop.duckdb
    sqlmetrics report runs.parquet labels.parquet -m ndcg@10 --out page.html
    sqlmetrics report bm25.csv dense.csv labels.csv -m ndcg@10 --sweep
    sqlmetrics report runs.csv labels.csv --grade human --judges human,gpt
    sqlmetrics report ubi_queries.ndjson ubi_events.ndjson --language zh
    """  # noqa: D301  # click wants the \b itself
    file = _page(tables, out)
    if file is not None:
        _prepare(file)
    page = _report_of(tables, labels, location, arguments)
    if file is None:
        click.echo(page.text)
    else:
        say(f"wrote {page.save(file, overwrite=overwrites())}")
        say(page.headline)
    if charts is not None:
        for chart in page.save_charts(charts, overwrite=overwrites()):
            say(f"wrote {chart}")


@click.command(cls=Command)
@click.argument("picture", metavar="CHART")
@option(
    "--out",
    metavar="FILE",
    heading=OUTPUT,
    help="File to write: .svg, .png or .json (Vega-Lite).  [default: CHART.svg]",
)
@_options
def plot_command(
    *,
    picture: str,
    tables: tuple[str, ...],
    labels: str | None,
    location: Location,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Draw one chart of a report: verdicts, deltas, movers, days, curves and more.

    CHART is the anchor of the chart on the report's page. The tables are those of report.

    \b
    sqlmetrics plot verdicts runs.parquet labels.parquet -m ndcg@10
    """  # noqa: D301  # click wants the \b itself
    file = Path(out or f"{picture}.svg")
    _prepare(file)
    page = _report_of(tables, labels, location, arguments)
    say(f"wrote {page.save_plot(picture, file, overwrite=overwrites())}")


def _report_of(
    tables: tuple[str, ...], labels: str | None, location: Location, arguments: dict[str, Any]
) -> Report:
    """The report that is asked for."""
    from sqlmetrics.comparison.page.sources import report

    rankings, truth = sources(tables, labels)
    is_swept, judges = arguments.pop("sweep", False), arguments.pop("judges", ())
    with location.reading(spec_of(rankings)) as engine:
        sweep = _sweep(rankings, truth, engine, arguments) if is_swept else None
        page = report(rankings, truth, connection=engine, sweep=sweep, **arguments)
        if not judges:
            return page
        agreement = _agreement(
            page.content, rankings, truth, engine, arguments | {"judges": judges}
        )
        return replace(page, content=page.content.adding(agreement))


_OF_REPORT = ("systems", "baseline", "margin", "language", "deploys", "fresh")
"""What a sweep is not told."""

_OF_DAYS = ("start", "end", "by")
"""What judges are not told besides: their labels are those of all days and segments."""


def _sweep(rankings: Any, truth: str | None, engine: Database, arguments: dict[str, Any]) -> Sweep:
    """The mixtures of the systems that are named, or that the spec makes others of, or of all."""
    from sqlmetrics.fusion.sweep import fuse_sweep

    spec = spec_of(rankings)
    fused = spec.rankings.fuse if spec and spec.clicks is None else ()
    runs = arguments.get("systems") or [*dict.fromkeys(r for s in fused for r in s.run_names)]
    sweep_arguments = {name: value for name, value in arguments.items() if name not in _OF_REPORT}
    return fuse_sweep(rankings, truth, connection=engine, runs=runs, **sweep_arguments)


def _agreement(
    content: Content,
    rankings: Any,
    truth: str | None,
    engine: Database,
    arguments: dict[str, Any],
) -> Agreement:
    """How far the judges agree; with tables of several systems also what becomes of their order.

    Raises:
        SpecError: If there is no table of labels, as of a click log.
    """
    from sqlmetrics.agreement.agree import agree
    from sqlmetrics.agreement.question import NO_USE, OF_METRICS

    spec = spec_of(rankings)
    if content.log or (truth is None and spec is None):
        raise SpecError("--judges needs a table of labels; a click log and traces have none")
    metrics = content.metrics[:1]
    if spec or content.funnel or len(content.systems) < 2 or any(map(arguments.get, NO_USE)):
        metrics = ()
    needless = {*_OF_REPORT, *_OF_DAYS, *NO_USE, *(() if metrics else OF_METRICS), "metrics"}
    judge_arguments = {name: value for name, value in arguments.items() if name not in needless}
    agreement = agree(
        spec or truth, rankings=rankings, metrics=metrics, connection=engine, **judge_arguments
    )
    ignored = [name for name in ("systems", "start", "end", *NO_USE) if arguments.get(name)]
    if not ignored:
        return agreement
    note = f"judges are compared over all of their labels, whatever {', '.join(ignored)} chooses"
    return replace(agreement, notes=(*agreement.notes, note))


def _page(tables: tuple[str, ...], out: str | None) -> Path | None:
    """The file; None for stdout."""
    if out == "-":
        return None
    if out is not None:
        return Path(out)
    name = Path(tables[0]).name.partition(".")[0] if tables else "report"
    return Path(f"{name if name.isprintable() and name else 'report'}.html")


def _prepare(file: Path) -> None:
    """Refuse what cannot be written before anything is computed."""
    from sqlmetrics.comparison.page.picture import import_drawing
    from sqlmetrics.comparison.page.report import check_ending, refuse_foreign

    check_ending(file)
    if file.suffix in (".html", ".png", ".svg"):
        import_drawing()
    refuse_foreign(file, overwrite=overwrites())
