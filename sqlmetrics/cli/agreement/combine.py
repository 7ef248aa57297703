"""`sqlmetrics combine`: one label of several judges'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sqlmetrics.agreement import METHODS
from sqlmetrics.cli.agreement.panel import depth_option, labels_of, panel_options
from sqlmetrics.cli.common import error_options
from sqlmetrics.cli.evaluation_options import check_option, given_options, judged_options
from sqlmetrics.cli.location import Location, place_options
from sqlmetrics.cli.options.command import Command, option
from sqlmetrics.cli.options.parameters import confidence_option, sql_option
from sqlmetrics.cli.output import format_of, output_options
from sqlmetrics.cli.systems import FORMATS, answer, into_options, is_written, spec_of, write_into

if TYPE_CHECKING:
    from sqlmetrics.agreement.combination import Combination

LABEL_FORMATS = (*FORMATS, "qrels")


@click.command(cls=Command)
@panel_options
@option(
    "--method",
    type=click.Choice(METHODS),
    multiple=True,
    metavar="NAME",
    help=f"How labels become one: {', '.join(METHODS)}. May be repeated, to see what each would "
    "change.  [default: majority]",
)
@option(
    "--per",
    type=click.Choice(["system"]),
    help="With --method calibrated: learn what a grade is worth apart for each group of systems "
    "that show the pair. Needs --rankings.",
)
@depth_option("that --per looks at")
@confidence_option("level")
@option(
    "--max-rounds",
    type=int,
    help="Number of rounds of dawid_skene after which it stops.  [default: 500]",
)
@into_options("labels")
@check_option
@sql_option
@judged_options
@place_options
@output_options(LABEL_FORMATS)
@error_options
@given_options
def combine(
    *,
    tables: tuple[str, ...],
    location: Location,
    into: str | None,
    dry_run: bool,
    sql: bool,
    output: str | None,
    out: str | None,
    arguments: dict[str, Any],
) -> None:
    """Make one label of several judges': a majority, a mean, or what the likeliest truth is.

    LABELS are those of agree: one table with a grade column per judge, or with a row per judge; or
    one table per judge. Prints what changes: for each judge how many of its labels, and with
    --rankings and -m the values and the order of systems. With --out or --into, writes the labels:
    query_id, item_id, grade; --out FILE.qrels writes them as TREC does.

    \b
    sqlmetrics combine labels.csv --judges ann,bob,gpt --out majority.csv
    sqlmetrics combine labels.csv --judge rater --method dawid_skene --out one.csv
    sqlmetrics combine labels.csv --judges human,gpt --method calibrated \\
        --per system --rankings runs.csv --system model --out calibrated.csv
    sqlmetrics combine grades --judge rater --db shop.duckdb --into one_label
    """  # noqa: D301  # click wants the \b itself
    from sqlmetrics.agreement.combine import combine as combined

    form = format_of(output, out, LABEL_FORMATS, ("metric_date", "query_id", "item_id"))
    elsewhere = {"--sql": sql, "-o": output, "--out": out}
    labels = labels_of(tables)
    if is_written(into, dry_run=dry_run, elsewhere=elsewhere):
        write_into(combined, labels, location, {**arguments, "into": into}, dry_run=dry_run)
        return
    with location.reading(spec_of(labels)) as engine:
        combination = combined(labels, connection=engine, **arguments)
    answer(combination, form, out, sql=sql, texts={"qrels": lambda: _qrels(combination, out)})


def _qrels(combination: Combination, out: str | None) -> str:
    from sqlmetrics.annotation.label_file import qrels

    rows = combination.table.to_pylist()
    keys = [
        name
        for name in ("query_id", "item_id", "metric_date")
        if name in combination.table.column_names
    ]
    grades = {tuple(str(row[key]) for key in keys): row["grade"] for row in rows}
    return qrels(grades, out or "stdout").removesuffix("\n")
