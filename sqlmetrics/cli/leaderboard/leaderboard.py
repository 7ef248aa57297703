"""`sqlmetrics leaderboard`: systems in order, which of them differ, a table to publish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sqlmetrics.cli.common import error_options, overwrites
from sqlmetrics.cli.evaluation_options import METRIC, given_options, metrics_option, table_options
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import INPUT_DATA, OUTPUT, STATISTICS, Command, option
from sqlmetrics.cli.options.parameters import INPUT, items_option, seed_option, sql_option
from sqlmetrics.cli.output import emit, format_of, output_options, write
from sqlmetrics.cli.systems import (
    FORMATS,
    answer,
    baseline_options,
    found_by,
    sources,
    spec_of,
)
from sqlmetrics.errors import SpecError
from sqlmetrics.tables.table import terminal_width, wrapped

TESTS = ("tukey", "t", "wilcoxon", "randomization")
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
    type=click.Choice(TESTS),
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
@given_options
def leaderboard(
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
    from sqlmetrics.comparison.leaderboard.leaderboard import leaderboard as ordered

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
    board = found_by(ordered, rankings, labels, location, arguments)
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
    from sqlmetrics.comparison.page.charts import import_drawing

    if form in PICTURES:
        check_table(shown_table or "rows")
        import_drawing()
    if shown_table == "labels" and "other_labels" not in arguments:
        raise click.UsageError("--table labels compares two tables of labels; give --other-labels")
    if str(shown_table).startswith("contribut") and "pool_depth" not in arguments:
        raise click.UsageError(f"--table {shown_table} is of a pool; give its --pool-depth")
