"""`sqlmetrics compare`, `leaderboard`, `diagnose`, `funnel`, `track`: systems in comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from sqlmetrics.cli.common import (
    error_options,
    overwrite_option,
    overwrites,
    say,
    several,
    several_names,
)
from sqlmetrics.cli.evaluation_options import (
    METRIC,
    check_option,
    metrics_option,
    pairs,
    segment_option,
    table_options,
    with_arguments,
)
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options import (
    INPUT,
    INPUT_DATA,
    OUTPUT,
    STATISTICS,
    Command,
    by_option,
    confidence_option,
    items_option,
    labels_option,
    margin_option,
    option,
    seed_option,
    sql_option,
)
from sqlmetrics.cli.output import emit, format_of, output_options, text_for, write
from sqlmetrics.cli.systems import (
    FORMATS,
    answer,
    baseline_options,
    question_options,
    run_on_tables,
    sources,
    spec_of,
    system_options,
)
from sqlmetrics.engines.output_files import has_columns
from sqlmetrics.errors import CheckError, SpecError
from sqlmetrics.tables.table import terminal_width, wrapped

FAIL_ON = ("worse", "unclear", "not-better")
TESTS = ("t", "randomization", "bootstrap", "wilcoxon")


@click.command(cls=Command)
@metrics_option(f"{METRIC}  [default: the metrics of SPEC]")
@system_options
@option(
    "--test",
    type=click.Choice(TESTS),
    default="t",
    show_default=True,
    help="Significance test.",
    heading=STATISTICS,
)
@margin_option(0.0)
@by_option
@segment_option
@option(
    "--cluster",
    metavar="COLUMN",
    help="Column whose queries are drawn together, such as user.  [default: the spec's, "
    "else query_id by day]",
    heading=STATISTICS,
)
@option(
    "--dates",
    multiple=True,
    callback=several,
    metavar="DAY,DAY",
    help="Days or periods of one system, such as 2026-11-01..2026-11-07; the first is the "
    "baseline.",
)
@option(
    "--paired/--unpaired",
    default=None,
    help="Compare each query with itself, or systems with queries of their "
    "own.  [default: paired; with --dates unpaired]",
    heading=STATISTICS,
)
@option(
    "--covariate",
    metavar="DAYS|COLUMN",
    help="Covariate that reduces the variance (CUPED) of --unpaired: days before the "
    "test, or a column.",
    heading=STATISTICS,
)
@option(
    "--baseline-values",
    type=INPUT,
    metavar="TABLE",
    help="Per-query values of an earlier run that serve as the baseline.",
    heading=INPUT_DATA,
)
@option(
    "--contributions",
    is_flag=True,
    help="Report how much each segment adds to the difference.",
    heading="Reports",
)
@option(
    "--movers",
    metavar="N|lost|gained",
    help="Show the N queries that moved most, or those of one side, as in lost:20.",
    heading="Reports",
)
@option(
    "--all-pairs",
    is_flag=True,
    default=None,
    help="Compare every pair of systems; group the systems that do not differ.",
    heading="Reports",
)
@option(
    "--winsorise",
    type=float,
    metavar="QUANTILE",
    help="Cut what users of a click log paid at this quantile, like 0.99.",
    heading=STATISTICS,
)
@option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    help="Exit with 1 if a verdict is worse; if it is worse or unclear; or if it is not better.",
)
@option(
    "--replicates",
    type=int,
    help="Number of resampling replicates.  [default: 1,000; more for many tests]",
    heading=STATISTICS,
)
@seed_option()
@sql_option
@items_option
@table_options
@place_options
@output_options(FORMATS)
@error_options
@with_arguments
def compare_command(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    location: Location,
    sql: bool,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Compare systems with a baseline: differences, intervals, verdicts.

    The systems are the values of the system column, one file or table each, or the systems of
    SPEC. Each query is compared with itself; in an A/B test, where each system has queries of its
    own, use --unpaired. With --fail-on, the exit code is 1 if a verdict fails; failed verdicts are
    printed on stderr, even with --quiet.

    \b
    sqlmetrics compare runs.parquet labels.parquet -m ndcg@10,mrr --baseline prod
    sqlmetrics compare old.run new.run qrels.txt -m ndcg@10
    sqlmetrics compare search.yml --systems prod,cand --margin 0.005
    sqlmetrics compare search.yml --dates 2026-11-01,2026-11-08
    sqlmetrics compare base.run cand.run qrels.txt -m ndcg@10 --fail-on worse
    sqlmetrics compare runs/*.txt qrels.txt -m map --all-pairs
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.compare import compare
    from sqlmetrics.comparison.report import json_object

    form = format_of(output, out, FORMATS, ("metric", "system"))
    rankings, labels = sources(tables, labels)
    if spec_of(rankings) is None and "metrics" not in arguments:
        raise click.UsageError("no metric to compare; name some, like -m ndcg@10,recall@100,mrr")
    failed = None
    try:
        comparison = run_on_tables(compare, rankings, labels, location, arguments)
    except CheckError as error:
        failed, comparison = error, error.result
    texts = {}
    if arguments["contributions"] or comparison.movers or arguments.get("movers", "0") != "0":
        texts["json"] = lambda: json_object(comparison)
    answer(comparison, form, out, sql=sql, texts=texts)
    if failed:
        raise failed


# `sqlmetrics diagnose`: why a metric is what it is, or why it moved.

FIRST = ("system", "baseline")
"""The first columns of findings; there may be no finding."""


@click.command(cls=Command)
@system_options
@margin_option(0.01)
@by_option
@option(
    "--dates",
    multiple=True,
    callback=several,
    metavar="DAY,DAY",
    help="Days or periods of one system, such as 2026-11-01..2026-11-07; the first is the "
    "baseline.",
)
@table_options
@place_options
@output_options(("table", "json"))
@error_options
@with_arguments
def diagnose_command(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    location: Location,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Look for known patterns among metrics, such as recall up and NDCG flat.

    Each pattern is printed with the numbers that show it and what to check next. One system is
    diagnosed by itself, several against a baseline.

    \b
    sqlmetrics diagnose runs.parquet labels.parquet --baseline prod
    sqlmetrics diagnose old.run new.run qrels.txt
    sqlmetrics diagnose search.yml --dates 2026-11-01,2026-11-08 --systems prod
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.diagnosis.diagnosis import diagnose

    form = format_of(output, out, ("table", "json"), FIRST)
    rankings, labels = sources(tables, labels)
    diagnosis = run_on_tables(diagnose, rankings, labels, location, arguments)
    is_json = form == "json"
    rows = json.dumps(diagnosis.to_dicts(), indent=2) if is_json else text_for(out, diagnosis.text)
    write(rows + "\n", out, has_columns(form, *FIRST) if form == "json" else None)


# `sqlmetrics funnel`: at which stage of a ranking the relevant items are lost.


@click.command(cls=Command)
@click.argument("tables", type=INPUT, nargs=-1, metavar="RANKINGS... LABELS | SPEC")
@metrics_option(f"{METRIC}  [default: those of SPEC, else ndcg@10]")
@labels_option
@option(
    "--stage",
    "stages",
    multiple=True,
    type=INPUT,
    metavar="NAME=TABLE",
    help="Rankings of one stage. Repeat in the order of the stages.",
)
@option(
    "--stage-column",
    "stage",
    metavar="COLUMN",
    help="Column that names the stage of a row.  [default: stage]",
)
@option(
    "--order",
    multiple=True,
    callback=several_names,
    metavar="A,B",
    help="Stages from first to last.  [default: as given, or by the size of their lists]",
)
@option(
    "--sources",
    metavar="COLUMN",
    help="Column that lists the sources of a row; reports on sources in place of stages.",
)
@option("--rel", default=1.0, show_default=True, help="Lowest relevant grade.")
@by_option
@question_options
@items_option
@check_option
@sql_option
@table_options
@place_options
@output_options(FORMATS)
@error_options
@with_arguments
def funnel_command(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    stages: tuple[str, ...],
    location: Location,
    sql: bool,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Report at which stage a ranking pipeline loses relevant items.

    The stages (recall, pre-rank, rank, page) are the values of the stage column, one table each
    with --stage, or those of SPEC.

    \b
    sqlmetrics funnel lists.parquet labels.parquet --order recall,rank,page
    sqlmetrics funnel --stage recall=all.csv --stage page=page.csv labels.csv
    sqlmetrics funnel search.yml --stage-column step
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.funnel.funnel import funnel

    form = format_of(output, out, FORMATS, ("system", "segment_name"))
    rankings, labels = _sources(tables, labels, stages)
    funnel_found = run_on_tables(funnel, rankings, labels, location, arguments)
    answer(funnel_found, form, out, sql=sql)


def _sources(
    tables: tuple[str, ...], labels: str | None, stages: tuple[str, ...]
) -> tuple[Any, str | None]:
    """The rankings, and the labels; a spec, and None."""
    if not stages:
        if not tables:
            raise click.UsageError("give RANKINGS and LABELS, or --stage NAME=TABLE of each stage")
        return sources(tables, labels)
    table_by_stage = pairs(stages, "--stage")
    if len(table_by_stage) < len(stages):
        raise SpecError("--stage: each stage needs its own name")
    if len(tables) + (labels is not None) != 1:
        raise click.UsageError("with --stage NAME=TABLE give only LABELS")
    return table_by_stage, labels or tables[0]


# `sqlmetrics leaderboard`: systems in order, which of them differ, a table to publish.

LEADERBOARD_TESTS = ("tukey", "t", "wilcoxon", "randomization")
TABLES = (
    *("rows", "pairs", "topics", "variances", "metrics", "labels", "discrimination"),
    *("contributions", "contributed_items"),
)
REFERENCES = ("baseline", "best", "team")
PICTURES = ("svg", "png")
CORRECTIONS = ("holm", "bonferroni", "bh", "none")


@click.command(cls=Command)
@metrics_option(f"{METRIC}  [default: the metrics of SPEC]")
@baseline_options("the best of each metric")
@option("--sort-by", metavar="METRIC", help="Metric that orders the rows.  [default: the first]")
@option(
    "--marks",
    type=click.Choice(REFERENCES),
    help="Mark systems that differ from the baseline, the best, or the best of their team.  "
    "[default: baseline, if there is one]",
    heading=STATISTICS,
)
@option(
    "--test",
    type=click.Choice(LEADERBOARD_TESTS),
    default="tukey",
    show_default=True,
    help="Significance test of all pairs.",
    heading=STATISTICS,
)
@option(
    "--correction",
    type=click.Choice(CORRECTIONS),
    help="Correction over all pairs of a metric.  [default: holm; tukey takes none]",
    heading=STATISTICS,
)
@option(
    "--unjudged-share/--no-unjudged-share",
    default=True,
    help="Show the share of items without a label, where there are some.",
)
@option(
    "--other-labels",
    type=INPUT,
    metavar="TABLE",
    help="Other labels, of another judge or year; see --table labels.",
    heading=INPUT_DATA,
)
@option(
    "--pool-depth",
    type=int,
    metavar="N",
    help="Depth of the judged pool: leave out who contributed an item alone.",
)
@option(
    "--team",
    metavar="REGEX",
    help="Finds the team in a system's name, for --pool-depth and --marks team.  "
    "[default: each its own]",
)
@option(
    "--replicates",
    type=int,
    default=1_000,
    show_default=True,
    help="Bootstrap samples of topics, and swaps of --test randomization.",
    heading=STATISTICS,
)
@seed_option()
@option(
    "--table",
    "shown_table",
    type=click.Choice(TABLES),
    metavar="TABLE",
    help=f"Print the rows of one table in place of the leaderboard: {', '.join(TABLES)}.",
    heading=OUTPUT,
)
@option(
    "--siunitx",
    is_flag=True,
    help="With -o latex, align values by columns of siunitx.",
    heading=OUTPUT,
)
@option("--methods", is_flag=True, help="Print only the paragraph to cite.", heading=OUTPUT)
@sql_option
@items_option
@table_options
@place_options
@output_options((*FORMATS, *PICTURES))
@error_options
@with_arguments
def leaderboard_command(
    *,
    tables: tuple[str, ...],
    labels: str | None,
    location: Location,
    methods: bool,
    siunitx: bool,
    shown_table: str | None,
    sql: bool,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Order systems by a metric: ranks, intervals, groups that do not differ.

    The systems are those of compare: one run each, the values of the system column, or the systems
    of SPEC. Systems that share a letter do not differ. The columns are called as the metrics are
    written here.

    \b
    sqlmetrics leaderboard runs/*.txt qrels.txt -m map,P_10 --preset trec_eval
    sqlmetrics leaderboard runs/*.txt qrels.txt -m map,P_10 --out table.tex
    sqlmetrics leaderboard runs/*.txt qrels.txt -m map --methods
    sqlmetrics leaderboard runs/*.txt qrels.txt -m map --table topics
    sqlmetrics leaderboard runs/*.txt qrels.txt -m map,P_10 --table metrics
    sqlmetrics leaderboard runs/*.txt qrels.txt -m map --pool-depth 100
    sqlmetrics leaderboard search.yml --baseline prod --test t --correction bh
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.leaderboard.leaderboard import leaderboard

    if methods and (sql or output or shown_table):
        raise SpecError("--methods prints a paragraph; leave --sql, --table and -o out")
    form = (
        "table" if methods else format_of(output, out, (*FORMATS, *PICTURES), ("metric", "system"))
    )
    _check_table(shown_table, form, arguments)
    if siunitx and form != "latex":
        raise click.UsageError("--siunitx is of LaTeX; add -o latex, or leave it out")
    rankings, labels = sources(tables, labels)
    if spec_of(rankings) is None and "metrics" not in arguments:
        raise click.UsageError("no metric to order by; name some, like -m ndcg@10,recall@100,mrr")
    board = run_on_tables(leaderboard, rankings, labels, location, arguments)
    if methods:
        paragraph = board.methods_text()
        is_shown = out is None and terminal_width()
        write((wrapped([paragraph]) if is_shown else paragraph) + "\n", out)
        return
    if shown_table == "metrics" and len(board.headings) < 2:
        raise SpecError("--table metrics compares metrics with one another; name two or more (-m)")
    if form in PICTURES and not sql:
        board.save_plot(shown_table or "rows", str(out), overwrite=overwrites())
        return
    if shown_table and not sql:
        table = board.table_of(shown_table)
        texts = {"table": table.text, "markdown": table.markdown, "html": table.html}
        emit(lambda: board.to_arrow(shown_table), {**texts, "latex": table.latex}, form, out)
        return
    texts = {"html": board.sortable_html, "latex": lambda: board.latex(siunitx=siunitx)}
    answer(board, form, out, sql=sql, texts=texts)


def _check_table(shown_table: str | None, form: str, arguments: Mapping[str, Any]) -> None:
    """Raise UsageError if a table needs an option that is not there, SpecError for no picture."""
    from sqlmetrics.comparison.leaderboard.pictures import check_table
    from sqlmetrics.comparison.page.picture import import_drawing

    if form in PICTURES:
        check_table(shown_table or "rows")
        import_drawing()
    if shown_table == "labels" and "other_labels" not in arguments:
        raise click.UsageError("--table labels compares two tables of labels; give --other-labels")
    if str(shown_table).startswith("contribut") and "pool_depth" not in arguments:
        raise click.UsageError(f"--table {shown_table} is of a pool; give its --pool-depth")


# `sqlmetrics track`: check the uploads of a shared task, and refresh its page.


@click.command(cls=Command)
@click.argument("track_file", type=INPUT, metavar="TRACK.YML")
@option(
    "--out",
    metavar="FOLDER",
    default="site",
    show_default=True,
    help="Folder to publish: index.html and leaderboard.csv.",
    heading=OUTPUT,
)
@overwrite_option
@error_options
def track_command(*, track_file: str, out: str) -> None:
    """Check the uploads of a shared task and refresh its leaderboard.

    TRACK.YML says where uploads, labels and topics are, what an upload must be, and what the page
    shows. Bad uploads are left aside. A report to each team, and the ledger of all uploads, stand
    in the folder of reports.

    \b
    sqlmetrics track track.yml --out site
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.track.track import track

    result = track(track_file, out=out, overwrite=overwrites())
    write(f"{result.text()}\n", None)
    say(f"wrote {out}/index.html")


# `sqlmetrics foretell`: which offline metric to trust.

# `sqlmetrics foretell`: which offline metric to trust, by past experiments.


@click.command(cls=Command)
@click.argument("experiments", type=INPUT, nargs=-1, required=True, metavar="EXPERIMENTS...")
@option("--online", required=True, metavar="METRIC", help="Online metric to foretell.")
@metrics_option("Offline metric; several behind commas.  [default: all others]")
@option(
    "--lower-is-better",
    multiple=True,
    metavar="METRIC",
    help="Metric of which less is better.  [default: as list metrics says]",
)
@confidence_option("level")
@option(
    "--replicates",
    type=int,
    default=1_000,
    show_default=True,
    help="Bootstrap samples of experiments.",
    heading=STATISTICS,
)
@seed_option()
@sql_option
@place_options
@output_options(FORMATS)
@error_options
def foretell_command(
    *,
    experiments: tuple[str, ...],
    location: Location,
    sql: bool,
    output: str | None,
    out: str | None,
    **arguments: Any,
) -> None:
    """Find the offline metric that foretells an online one.

    EXPERIMENTS is a table of past experiments with the columns experiment, metric, difference and
    standard_error; or a file per experiment, as compare --out writes it, named by the file or by
    NAME=FILE. Correlations are corrected for the noise of the experiments.

    \b
    sqlmetrics foretell experiments.csv --online ctr@5
    sqlmetrics foretell experiments/*.parquet --online revenue_per_request
    sqlmetrics foretell bi.experiments --online ctr@5 -m ndcg@10 --db bi.duckdb
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.comparison.foretell import foretell

    form = format_of(output, out, FORMATS, ("metric", "n_experiments", "quality"))
    with location.reading() as engine:
        tables = experiments[0] if len(experiments) == 1 else [*experiments]
        proxies = foretell(tables, connection=engine, **arguments)
    answer(proxies, form, out, sql=sql)
